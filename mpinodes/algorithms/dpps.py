"""DPPS: differentially private dual averaging by push-sum, for decomposable objectives.

D. Han, K. Liu, Y. Lin, Y. Xia, "Differentially private distributed online learning over time-varying digraphs via dual
averaging" (2021). This is the method in its usual form; we had no access to the paper. With A column-stochastic:

    h_i  = z_i + η_i                                     the release
    z_i <- Σ_j A_ij h_j + g_i,  g_i = ∇f_i^t(x_i)        at the old x_i, the decision
    w_i <- Σ_j A_ij w_j,  w_i(1) = 1                     the push-sum mixing
    x_i <- Π(z_i / w_i, α(t))

A changed sample changes z_i by at most 2·clip. The decision x_i is hidden, and a change of x_i changes later gradients.
Per unit of change of z_i, the loss contributes at most β·α/w_i, and the regularizer λ·α/w_i. The scalar w_i depends on
the scalars that the neighbours send. If neighbours may lie about them, nothing is claimed.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np

from mpinodes.algorithms.hidden_gradients import feedback
from mpinodes.core import Algorithm, Inbox, Loss, Neighborhood, Query, Vector

__all__ = ["DPPS"]


class State(NamedTuple):
    """Hold what an agent needs for its next round."""

    z: Vector  # (d,) the dual variable
    x: Vector  # (d,) the primal variable
    dual_gain: float  # α/w_i: the largest change of x_i when z_i changes by 1
    previous_dual_gain: float  # the same for the previous x_i, at which the gradient in z_i was taken; 0 if none was


@dataclass(frozen=True)
class DPPS(Algorithm[State]):
    """Run dual averaging on digraphs."""

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
        """Return the state with z_i = 0 and x_i = Π(0, ·)."""
        zero = np.zeros_like(x)
        return State(zero, self.run.feasible.project(zero), dual_gain=1.0, previous_dual_gain=0.0)

    def message(self, s: State, here: Neighborhood) -> Query:
        """Return z_i, to be released as h_i, with its leakage."""
        l2 = self.run.grad_sensitivity[here.agent]
        leaks = feedback(self.run, here.agent, l2, weight=1.0, gain=s.previous_dual_gain)
        return Query(s.z, l1=sqrt(len(s.z)) * l2, l2=l2, uses=here.t - 1, leaks=leaks)

    def update(self, s: State, here: Neighborhood, inbox: Inbox, loss: Loss) -> State:
        """Return z_i and x_i of the next round; the mixing updates w_i."""
        alpha = self.run.step(here.t)
        z = inbox.mix() + loss.grad(s.x)
        x = self.run.feasible.prox_step(z / inbox.scale, alpha)
        return State(z, x, dual_gain=alpha / inbox.scale, previous_dual_gain=s.dual_gain)
