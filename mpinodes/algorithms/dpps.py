"""DPPS: differentially private dual averaging by push-sum, for decomposable objectives.

D. Han, K. Liu, Y. Lin, Y. Xia, "Differentially private distributed online learning over time-varying digraphs via dual
averaging" (2021). We had no access to the paper; this is the usual form of the method. In each round t, every agent i
sends its dual variable plus noise, adds its gradient to the mix of the received vectors, and projects:

    h_i  = z_i + η_i                                     the message; z_i is the dual variable, η_i is noise
    z_i <- Σ_j A_ij h_j + g_i,  g_i = ∇f_i^t(x_i)        at the old x_i, the decision
    w_i <- Σ_j A_ij w_j,  w_i(1) = 1                     the push-sum scalar
    x_i <- Π(z_i / w_i, α(t))                            the new decision

The symbols are:

- A is the column-stochastic matrix of the mixing weights.
- f_i^t is the loss function of agent i in round t, and α(t) is the step size.
- Π(z, α) is the projection of −αz onto the constraint set 𝒳.

Sensitivity: a changed sample of the previous round moves z_i by at most `Run.grad_sensitivity` in L2 norm.

Hidden state: the decision x_i is hidden, and later gradients are taken at x_i. So a changed sample moves later
messages, too. If z_i moves by 1, the gradient of a β-smooth loss function moves by at most β·α/w_i, and the gradient of
the regularizer (λ/2)‖x‖² by at most λ·α/w_i.

No privacy is claimed if neighbors may send wrong scalars, on which w_i depends.
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
        """Return the dual variable z_i as the message, with its sensitivities and its leakage.

        The sensitivities bound how far a changed sample of the previous round moves the message. The leakage bounds how
        far a changed sample of an earlier round moves the message.
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

    def released(self, release: Vector, scale: float, t: int) -> Vector:
        """Return the estimate of a released dual variable: the projection of −α(t − 1) times the release / `scale`."""
        return self.run.feasible.prox_step(release / scale, self.run.step(max(t - 1, 1)))
