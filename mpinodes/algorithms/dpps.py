"""DPPS: differentially private dual averaging by push-sum, for decomposable objectives.

D. Han, K. Liu, Y. Lin, Y. Xia, "Differentially private distributed online learning over time-varying digraphs via dual
averaging" (2021), in its usual form; the paper itself was not at hand. With A column-stochastic:

    h_i  = z_i + η_i                                     the release
    z_i <- Σ_j A_ij h_j + g_i,  g_i = ∇f_i^t(x_i)        at the old x_i, the decision
    w_i <- Σ_j A_ij w_j,  w_i(1) = 1                     the push-sum mixing
    x_i <- Π(z_i / w_i, α(t))

A changed sample moves z_i by at most 2·clip. x_i is hidden: what it did to x_i moves later gradients, by at most
β·α/w_i for each unit of change of z_i, and a regularizer's by λ·α/w_i. That w_i is made of what the neighbours say it
is: against neighbours that lie nothing is claimed.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np

from mpinodes.core import Algorithm, Feedback, Inbox, Loss, Neighborhood, Query, Vector

__all__ = ["DPPS"]


class State(NamedTuple):
    """What the next round needs."""

    z: Vector  # (d,) dual
    x: Vector  # (d,) primal
    dual_gain: float  # α/w_i: how far x_i moves at most when z_i moves by 1
    previous_dual_gain: float  # the same of the x_i before, at which the gradient in z_i was taken


@dataclass(frozen=True)
class DPPS(Algorithm[State]):
    """Dual averaging on digraphs."""

    mixings = ("push-sum",)

    decomposable = True
    anytime = True
    gradients_in_set = True
    hidden = ("z",)
    bears_loss = True
    bears_delay = True
    paper = (
        "Han, Liu, Lin, Xia, Differentially private distributed online learning over time-varying digraphs "
        "via dual averaging (2021), in its usual form"
    )
    defaults = {
        "data": {"name": "unit-ball", "total": 20_000},
        "problem": {"loss": "logistic", "set": "ball", "radius": 10.0},
        "topology": {"name": "random-digraph-each-round"},
        "privacy": {"clip": 1.0},
    }

    def init(self, x: Vector) -> State:
        """z_i = 0 and x_i = Π(0, ·)."""
        return State(
            np.zeros_like(x), self.run.feasible.project(np.zeros_like(x)), dual_gain=1.0, previous_dual_gain=0.0
        )

    def message(self, s: State, here: Neighborhood) -> Query:
        """h_i."""
        return Query(
            s.z,
            l1=sqrt(len(s.z)) * self.run.grad_sensitivity[here.agent],
            l2=self.run.grad_sensitivity[here.agent],
            uses=here.t - 1,
            leaks=Feedback(
                self.run.grad_sensitivity[here.agent],
                lipschitz=s.previous_dual_gain * self.run.grad_lipschitz[here.agent] if s.previous_dual_gain else 0.0,
                largest=self.run.grad_range[here.agent],
                linear=s.previous_dual_gain * self.run.regularizer,
                offset=self.run.grad_rounding[here.agent] if s.previous_dual_gain else 0.0,
            ),
        )

    def update(self, s: State, here: Neighborhood, inbox: Inbox, loss: Loss) -> State:
        """z_i and x_i of the next round; the mixing carries w_i."""
        alpha = self.run.step(here.t)
        z = inbox.mix() + loss.grad(s.x)
        x = self.run.feasible.prox_step(z / inbox.scale, alpha)
        return State(z, x, dual_gain=alpha / inbox.scale, previous_dual_gain=s.dual_gain)

    def decision(self, s: State) -> Vector:
        """x_i."""
        return s.x
