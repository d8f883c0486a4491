"""DPSR: differentially private subgradient rescaling on a fixed, unbalanced digraph, for decomposable objectives.

Y. Xiong, J. Xu, K. You, J. Liu, L. Wu, "Privacy preserving distributed online optimization over unbalanced digraphs via
subgradient rescaling" (2020). We had no access to the paper; this is the usual form of the method. In each round t,
every agent i sends its decision plus noise, mixes the received vectors, and takes a gradient step. The step is
rescaled, because the weights do not give all agents the same influence:

    h_i  = x_i + η_i                                          the message; x_i is the decision, η_i is noise
    x_i <- P(Σ_j a_ij h_j − α(t) g_i / [r_i]_i)               g_i = ∇f_i^t(x_i) at the old x_i
    r_i <- Σ_j a_ij r_j,  r_i(1) = e_i                        the rescaling mixing; the line above uses the old r_i

The symbols are:

- a_ij are the mixing weights, which sum to 1 for every receiver i.
- f_i^t is the loss function of agent i in round t, and α(t) is the step size.
- P is the projection onto the constraint set 𝒳.
- e_i is the unit vector of agent i, and [r_i]_i is entry i of the vector r_i.

Sensitivity: a changed sample of the previous round moves x_i by at most Δ·α/[r_i]_i in L2 norm, where Δ is
`Run.grad_sensitivity`. The noise is calibrated to √d times this bound, which bounds the L1 norm. The first x_i depends
on no data, and gets no noise unless `privacy.scale` is a number.

Hidden state: the decision x_i is hidden, and later gradients are taken at x_i. So a changed sample moves later
messages, too.

No privacy is claimed if neighbors may send wrong vectors r_j, on which [r_i]_i depends.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

from mpinodes.algorithms.hidden_gradients import feedback
from mpinodes.core import Algorithm, Inbox, Loss, Neighborhood, Query, Vector

__all__ = ["DPSR"]


class State(NamedTuple):
    """Hold the state of one agent between two rounds."""

    x: Vector  # (d,)
    made_with: float  # the rescaled step α/[r_i]_i with which x was computed; 0 before the first step


@dataclass(frozen=True)
class DPSR(Algorithm[State]):
    """Run DPSR: private gradient steps on a fixed digraph, rescaled to correct for unbalanced weights."""

    mixings = ("rescaling",)

    decomposable = True
    anytime = True
    gradients_in_set = True
    hidden = ("x",)
    paper = (
        "Xiong, Xu, You, Liu, Wu, Privacy preserving distributed online optimization over unbalanced "
        "digraphs via subgradient rescaling (2020), in its usual form"
    )
    defaults = {
        "data": {"name": "unit-ball"},
        "problem": {"loss": "logistic", "set": "ball", "radius": 10.0},
        "topology": {"name": "random-digraph"},
        "privacy": {"clip": 1.0},
    }

    def init(self, x: Vector) -> State:
        """Return the state before round 1: the decision x_i is the projection of x onto 𝒳."""
        return State(self.run.feasible.project(x), made_with=0.0)

    def message(self, s: State, here: Neighborhood) -> Query:
        """Return the decision x_i as the message, with its sensitivities and its leakage.

        The sensitivities bound how far a changed sample of the previous round moves the message. The leakage bounds how
        far a changed sample of an earlier round moves the message. The first message carries no noise, unless
        `privacy.scale` is a number.
        """
        step = s.made_with
        l2 = self.run.grad_sensitivity[here.agent] * (step or self.run.step(1))  # round 1 needs some value > 0
        l1 = sqrt(s.x.shape[-1]) * l2
        leaks = feedback(self.run, here.agent, l2, weight=step)
        return Query(s.x, l1=l1, l2=l2, uses=here.t - 1, leaks=leaks, calibration=l1 if step else 0.0)

    def update(self, s: State, here: Neighborhood, inbox: Inbox, loss: Loss) -> State:
        """Return the state of the next round: x_i is the projection of the mix minus a gradient step.

        The step size is α(t) divided by the scalar [r_i]_i, which the rescaling mixing computes and stores as
        `inbox.scale`.
        """
        rescaled = self.run.step(here.t) / inbox.scale
        return State(self.run.feasible.project(inbox.mix() - rescaled * loss.grad(s.x)), made_with=rescaled)
