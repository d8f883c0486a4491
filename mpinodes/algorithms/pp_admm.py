"""PP: private M-ADMM by penalty perturbation. Every agent minimizes a local problem with noise in its penalty term.

X. Zhang, M. M. Khalili, M. Liu, "Improving the Privacy and Accuracy of ADMM-Based Distributed Algorithms", Algorithm 1.
The noise, the conditions and the claimed privacy loss P_i(T) are as in the module `dvp_admm`. The penalties η_i(t) are
those of M-ADMM, which in the paper every agent keeps secret. The proof of privacy does not use this secrecy: an
attacker can estimate the growth of η_i from the messages (`scripts/papers/appendix_e.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from mpinodes.algorithms.dvp_admm import DVPADMM
from mpinodes.algorithms.m_admm import MADMM

__all__ = ["PPADMM"]


@dataclass(frozen=True)
class PPADMM(DVPADMM, MADMM):
    """Run private M-ADMM: every agent minimizes a local problem with added noise and with its own penalty."""

    paper = "Zhang, Khalili, Liu, Improving the Privacy and Accuracy of ADMM-Based Distributed Algorithms, Algorithm 1"
    against_colluders = True
