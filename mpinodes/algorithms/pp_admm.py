"""PP: private M-ADMM by penalty perturbation.

X. Zhang, M. M. Khalili, M. Liu, "Improving the Privacy and Accuracy of ADMM-Based Distributed Algorithms", Algorithm 1.
It combines M-ADMM's private penalties η_i(t) with the noise, the conditions and the P_i(T) that `dvp_admm` states.
Keeping η secret gives no privacy: an attacker who has the messages can fit a schedule
(`scripts/papers/appendix_e.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from mpinodes.algorithms.dvp_admm import DVPADMM
from mpinodes.algorithms.m_admm import MADMM

__all__ = ["PPADMM"]


@dataclass(frozen=True)
class PPADMM(DVPADMM, MADMM):
    """Run Algorithm 1 of the paper."""

    paper = "Zhang, Khalili, Liu, Improving the Privacy and Accuracy of ADMM-Based Distributed Algorithms, Algorithm 1"
    against_colluders = True
