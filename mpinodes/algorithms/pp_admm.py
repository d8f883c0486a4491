"""PP: private M-ADMM by penalty perturbation.

X. Zhang, M. M. Khalili, M. Liu, "Improving the Privacy and Accuracy of ADMM-Based Distributed Algorithms", Algorithm 1:
M-ADMM's private penalties η_i(t) and the noise, conditions and P_i(T) that `dvp_admm` states. What an agent keeps to
itself of η buys nothing: whoever has the messages can fit a schedule (`scripts/papers/appendix_e.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from mpinodes.algorithms.dvp_admm import DVPADMM
from mpinodes.algorithms.m_admm import MADMM

__all__ = ["PPADMM"]


@dataclass(frozen=True)
class PPADMM(DVPADMM, MADMM):
    """Algorithm 1."""

    paper = "Zhang, Khalili, Liu, Improving the Privacy and Accuracy of ADMM-Based Distributed Algorithms, Algorithm 1"
    against_colluders = True
