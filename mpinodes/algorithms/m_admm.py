"""M-ADMM: ADMM in which every agent may have its own penalty parameter, which never decreases.

X. Zhang, M. M. Khalili, M. Liu, "Improving the Privacy and Accuracy of ADMM-Based Distributed Algorithms", (10) and
(11). In ADMM the penalty η equals the dual step θ. In M-ADMM, the penalty of agent i in iteration t is

    η_i(t) = η_i(1) q_i^(t−1), up to a cap

as in the paper's experiments. M-ADMM converges to the optimum if η_i(t + 1) ≥ η_i(t) ≥ θ and η_i stays bounded (Theorem
3.1). If the penalties grow without a cap, M-ADMM stalls before the optimum.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Annotated

import numpy as np
from msgspec import Meta

from mpinodes.algorithms.admm import ADMM, Growths, Positives, Rounds, of

__all__ = ["MADMM"]


Cap = Annotated[float, Meta(gt=0)]


@dataclass(frozen=True)
class MADMM(ADMM):
    """Run ADMM in which every agent i may have its own penalty η_i(t), which may grow up to a cap.

    Attributes:
        penalty: eta of iteration 1, or one for each agent
        penalty_growth: q1: eta(t) = eta q1^(t - 1); or one for each agent
        penalty_cap: the largest penalty, or one for each agent
    """

    paper = "Zhang, Khalili, Liu, Improving the Privacy and Accuracy of ADMM-Based Distributed Algorithms, (10)"

    penalty: Positives = 0.5
    penalty_growth: Growths = 1.02
    penalty_cap: Cap | tuple[Cap, ...] = inf

    def eta(self, agent: int, t: Rounds) -> Rounds:
        """Return the penalty η_i(t) of an agent in iteration t, which is at most the agent's cap."""
        grown = of(self.penalty, agent) * np.power(of(self.penalty_growth, agent), t - 1.0)
        return np.minimum(grown, of(self.penalty_cap, agent))
