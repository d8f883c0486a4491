"""DPPS: differentially private dual averaging by push-sum, for decomposable objectives.

D. Han, K. Liu, Y. Lin, Y. Xia, "Differentially private distributed online learning over time-varying digraphs via dual
averaging" (2021). We had no access to the paper; this is the usual form of the method. In each round, every agent sends
its dual variable z_i plus noise, adds its gradient to the mix of the received vectors, and projects. A is
column-stochastic, η_i is noise, α(t) is the step size, w_i is the push-sum scalar, and Π(z, α) is the projection of −αz
onto the constraint set 𝒳:

    h_i  = z_i + η_i                                     the release
    z_i <- Σ_j A_ij h_j + g_i,  g_i = ∇f_i^t(x_i)        at the old x_i, the decision
    w_i <- Σ_j A_ij w_j,  w_i(1) = 1                     the push-sum mixing
    x_i <- Π(z_i / w_i, α(t))

Replacing a sample changes z_i by at most `Run.grad_sensitivity` in L2 norm. If a round has one sample,
`Run.grad_sensitivity` is at most 2·clip, times `problem.weight`, and times d with `feedback.points` = 2.

The decision x_i is hidden, and a change of x_i changes later gradients. If z_i changes by 1, the gradient of a β-smooth
loss function changes by at most β·α/w_i. The gradient of the regularizer (λ/2)‖x‖² changes by at most λ·α/w_i. The
scalar w_i depends on the scalars that the neighbors send. If neighbors may send wrong scalars, no privacy is claimed.
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
    """Hold the state of one agent between two rounds."""

    z: Vector  # (d,) the dual variable
    x: Vector  # (d,) the primal variable
    dual_gain: float  # α/w_i: the largest change of x_i when z_i changes by 1; 1 before round 1
    previous_dual_gain: float  # dual_gain of the previous x_i, at which the last gradient was taken; 0: none was


@dataclass(frozen=True)
class DPPS(Algorithm[State]):
    """Run DPPS: private dual averaging with push-sum mixing on digraphs."""

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
        """Return the state before round 1: the dual variable z_i is 0, and the decision x_i is the projection of 0."""
        zero = np.zeros_like(x)
        return State(zero, self.run.feasible.project(zero), dual_gain=1.0, previous_dual_gain=0.0)

    def message(self, s: State, here: Neighborhood) -> Query:
        """Return the dual variable z_i as the message, with bounds on how much a replaced sample changes this message.

        The sensitivities bound the change if the sample was used in the round before. The leakage bounds the change if
        the sample was used earlier.
        """
        l2 = self.run.grad_sensitivity[here.agent]
        leaks = feedback(self.run, here.agent, l2, weight=1.0, gain=s.previous_dual_gain)
        return Query(s.z, l1=sqrt(s.z.shape[-1]) * l2, l2=l2, uses=here.t - 1, leaks=leaks)

    def update(self, s: State, here: Neighborhood, inbox: Inbox, loss: Loss) -> State:
        """Return the state of the next round, with the new dual variable z_i and the new decision x_i.

        z_i is the mix of the releases plus the gradient at the old x_i. The new x_i is the projection of −α(t) z_i /
        w_i, where w_i is the push-sum scalar, `inbox.scale`.
        """
        alpha = self.run.step(here.t)
        z = inbox.mix() + loss.grad(s.x)
        x = self.run.feasible.prox_step(z / inbox.scale, alpha)
        return State(z, x, dual_gain=alpha / inbox.scale, previous_dual_gain=s.dual_gain)
