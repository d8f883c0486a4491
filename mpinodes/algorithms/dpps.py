"""DPPS: differentially private dual averaging by push-sum, for decomposable objectives.

D. Han, K. Liu, Y. Lin, Y. Xia, "Differentially private distributed online learning over time-varying digraphs via dual
averaging" (2021), in its usual form; the paper itself was not at hand. With A column-stochastic:

    h_i  = z_i + η_i                                     the release
    z_i <- Σ_j A_ij h_j + g_i,  g_i = ∇f_i^t(x_i)        at the old x_i, the decision
    w_i <- Σ_j A_ij w_j,  w_i(1) = 1                     the push-sum mixing
    x_i <- Π(z_i / w_i, α(t))

A changed sample moves z_i by at most 2·clip. x_i is hidden: what it did to x_i moves later gradients, by at most
β·α/w_i for each unit of change of z_i, and a regularizer's by λ·α/w_i.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import ClassVar, Literal

import numpy as np

from mpinodes.core.protocol import Inbox, Loss, Query, Round, Vector
from mpinodes.core.schedules import Step
from mpinodes.core.sets import Set

__all__ = ["DPPS"]


@dataclass(frozen=True, slots=True)
class State:
    """What the next round needs."""

    z: Vector  # (d,) dual
    x: Vector  # (d,) primal
    pull: float  # α/w_i: how far x_i moves at most when z_i moves by 1
    pulled: float  # the same of the x_i before, at which the gradient in z_i was taken


@dataclass(frozen=True)
class DPPS:
    """Dual averaging on digraphs."""

    step: Step  # α
    feasible: Set  # 𝒳
    change: Sequence[float]  # by agent, largest L2 change of g_i between adjacent data sets, at one point
    spread: Sequence[float]  # by agent, largest L2 change of g_i's data part between two points, on the same data
    smoothness: Sequence[float]  # β by agent: L2 change of that part per L2 change of the point; inf = unknown
    regularizer: float  # λ
    mixing: Literal["push-sum"] = "push-sum"

    decomposable: ClassVar[bool] = True
    defaults: ClassVar = {
        "data": {"name": "unit-ball", "total": 20_000},
        "problem": {"loss": "logistic", "set": "ball", "radius": 10.0},
        "topology": {"name": "random-digraph-each-round"},
        "privacy": {"clip": 1.0},
    }

    def init(self, x: Vector) -> State:
        """z_i = 0 and x_i = Π(0, ·)."""
        return State(np.zeros_like(x), self.feasible.project(np.zeros_like(x)), pull=1.0, pulled=0.0)

    def message(self, s: State, round: Round) -> Query:
        """h_i."""
        return Query(
            s.z,
            l1=sqrt(len(s.z)) * self.change[round.me],
            l2=self.change[round.me],
            uses=round.t - 1,
            hidden_gain=s.pulled * self.smoothness[round.me] if s.pulled else 0.0,
            hidden_cap=self.spread[round.me],
            hidden_keep=s.pulled * self.regularizer,
        )

    def update(self, s: State, round: Round, inbox: Inbox, loss: Loss) -> State:
        """z_i and x_i of the next round; the mixing carries w_i."""
        alpha = self.step(round.t)
        z = inbox.mix() + loss.grad(s.x)
        x = self.feasible.prox_step(z / inbox.scale, alpha)
        return State(z, x, pull=alpha / inbox.scale, pulled=s.pull)

    def decision(self, s: State) -> Vector:
        """x_i."""
        return s.x
