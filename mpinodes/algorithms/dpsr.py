"""DPSR: differentially private subgradient rescaling on a fixed, unbalanced digraph, for decomposable objectives.

Y. Xiong, J. Xu, K. You, J. Liu, L. Wu, "Privacy preserving distributed online optimization over unbalanced digraphs via
subgradient rescaling" (2020). This is the method in its usual form; we had no access to the paper. With A
row-stochastic:

    h_i  = x_i + η_i                                          the release; x_i is the decision
    x_i <- P(Σ_j a_ij h_j − α(t) g_i / [r_i]_i)               g_i = ∇f_i^t(x_i) at the old x_i
    r_i <- Σ_j a_ij r_j,  r_i(1) = e_i                        the rescaling mixing; the line above uses the old r_i

A changed sample changes x_i by at most 2·clip·α(t)/[r_i]_i. The noise is calibrated to this bound; the first x_i
depends on no data and gets no noise. The decision x_i is hidden, and a change of x_i changes later gradients. The
scalar [r_i]_i depends on the scalars that the neighbours send. If neighbours may lie about them, nothing is claimed.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

from mpinodes.algorithms.hidden_gradients import feedback
from mpinodes.core import Algorithm, Inbox, Loss, Neighborhood, Query, Vector

__all__ = ["DPSR"]


class State(NamedTuple):
    """Hold what an agent needs for its next round."""

    x: Vector  # (d,)
    made_with: float  # the rescaled step α/[r_i]_i with which x was computed; 0 before the first step


@dataclass(frozen=True)
class DPSR(Algorithm[State]):
    """Run subgradient rescaling on a fixed digraph."""

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
        """Return the state with x_i = P(x)."""
        return State(self.run.feasible.project(x), made_with=0.0)

    def message(self, s: State, here: Neighborhood) -> Query:
        """Return x_i, to be released as h_i, with its leakage."""
        step = s.made_with
        l2 = self.run.grad_sensitivity[here.agent] * (step or self.run.step(1))  # round 1 needs some value > 0
        l1 = sqrt(len(s.x)) * l2
        leaks = feedback(self.run, here.agent, l2, weight=step)
        return Query(s.x, l1=l1, l2=l2, uses=here.t - 1, leaks=leaks, calibration=l1 if step else 0.0)

    def update(self, s: State, here: Neighborhood, inbox: Inbox, loss: Loss) -> State:
        """Return x_i of the next round; the mixing updates r_i."""
        rescaled = self.run.step(here.t) / inbox.scale
        return State(self.run.feasible.project(inbox.mix() - rescaled * loss.grad(s.x)), made_with=rescaled)
