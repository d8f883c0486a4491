"""DPSR: differentially private subgradient rescaling on a fixed, unbalanced digraph, for decomposable objectives.

Y. Xiong, J. Xu, K. You, J. Liu, L. Wu, "Privacy preserving distributed online optimization over unbalanced digraphs via
subgradient rescaling" (2020), in its usual form; the paper itself was not at hand. With A row-stochastic:

    h_i  = x_i + η_i                                          the release; x_i is the decision
    x_i <- P(Σ_j a_ij h_j − α(t) g_i / [r_i]_i)               g_i = ∇f_i^t(x_i) at the old x_i
    r_i <- Σ_j a_ij r_j,  r_i(1) = e_i                        the rescaling mixing; above is the old r_i

A changed sample moves x_i by at most 2·clip·α(t)/[r_i]_i, to which the noise is calibrated, none before data has
reached x_i. x_i is hidden: what moved it moves later gradients too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import ClassVar, Literal

from mpinodes.core.protocol import Inbox, Loss, Query, Round, Vector
from mpinodes.core.schedules import Step
from mpinodes.core.sets import Set

__all__ = ["DPSR"]


@dataclass(frozen=True, slots=True)
class State:
    """What the next round needs."""

    x: Vector  # (d,)
    made_with: float  # the rescaled step α/[r_i]_i that made x; 0: none yet


@dataclass(frozen=True)
class DPSR:
    """Subgradient rescaling."""

    step: Step  # α
    feasible: Set  # 𝒳
    change: Sequence[float]  # by agent, largest L2 change of g_i between adjacent data sets, at one point
    spread: Sequence[float]  # by agent, largest L2 change of g_i's data part between two points, on the same data
    smoothness: Sequence[float]  # β by agent: L2 change of that part per L2 change of the point; inf = unknown
    regularizer: float  # λ
    mixing: Literal["rescaling"] = "rescaling"

    decomposable: ClassVar[bool] = True
    defaults: ClassVar = {
        "data": {"name": "unit-ball"},
        "problem": {"loss": "logistic", "set": "ball", "radius": 10.0},
        "topology": {"name": "random-digraph"},
        "privacy": {"clip": 1.0},
    }

    def init(self, x: Vector) -> State:
        """x_i = P(x)."""
        return State(self.feasible.project(x), made_with=0.0)

    def message(self, s: State, round: Round) -> Query:
        """h_i."""
        step = s.made_with
        l2 = self.change[round.me] * (step or self.step(1))  # in round 1 of no one's data
        l1 = sqrt(len(s.x)) * l2
        return Query(
            s.x,
            l1=l1,
            l2=l2,
            uses=round.t - 1,
            hidden_gain=step * self.smoothness[round.me] if step else 0.0,
            hidden_cap=step * self.spread[round.me] if step else 0.0,
            hidden_keep=step * self.regularizer,
            nominal=l1 if step else 0.0,
        )

    def update(self, s: State, round: Round, inbox: Inbox, loss: Loss) -> State:
        """x_i of the next round; the mixing carries r_i."""
        rescaled = self.step(round.t) / inbox.scale
        return State(self.feasible.project(inbox.mix() - rescaled * loss.grad(s.x)), made_with=rescaled)

    def decision(self, s: State) -> Vector:
        """x_i."""
        return s.x
