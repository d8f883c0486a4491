"""DIGing (gradient tracking) with Laplace noise on both vectors that are sent.

A. Nedic, A. Olshevsky, W. Shi, "Achieving Geometric Convergence for Distributed Optimization over Time-Varying Graphs"
(2017), Algorithm 1, with m_j = x_j + Lap and n_j = y_j + Lap in the place of x_j and y_j wherever W mixes:

    x <- W m − α y
    y <- W n + ∇f(x new) − ∇f(x old),  at first y = ∇f(x)

Round 1 makes the first y. The mixes are public; x, y and the gradient in y are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from mpinodes.core import Algorithm, Hidden, Inbox, Loss, Neighborhood, Payload, Queries, Start, Vector

__all__ = ["DIGing"]


@dataclass(frozen=True, slots=True)
class State:
    x: Vector
    y: Vector
    gradient: Vector  # at x; 0: none yet


@dataclass(frozen=True)
class DIGing(Algorithm[State]):
    decomposable = True
    mixings = ("metropolis", "lazy-metropolis")
    vectors = ("x", "y")
    hidden = ("x", "y", "gradient")
    unconstrained = True
    judged_by = "last"
    paper = "Nedic, Olshevsky, Shi, Achieving Geometric Convergence ... over Time-Varying Graphs (2017), Algorithm 1"
    defaults = {
        "rounds": 100,
        "data": {"name": "unit-ball", "total": 1000, "batch": "all"},
        "problem": {"loss": "logistic", "set": "none", "average": True, "regularizer": 0.1},
        "step": {"kind": "constant", "value": 0.3},
        "topology": {"name": "ring"},
        "privacy": {"clip": 1.0},
    }

    def init(self, x: Vector) -> State:
        return State(x, np.zeros_like(x), np.zeros_like(x))

    def message(self, s: State, here: Neighborhood) -> Queries | Start:
        if here.t == 1:
            return Start()  # no data yet: x, and 0
        of_y = self.run.grad_sensitivity[here.agent]
        # A gradient moves y first, and x a round later by α times that: a bound for x's own, which is 0.
        of_x = self.run.step(here.t - 1) * of_y
        root = sqrt(len(s.x))
        return Queries(
            {"x": Payload(s.x, l1=root * of_x, l2=of_x), "y": Payload(s.y, l1=root * of_y, l2=of_y)},
            uses=here.t - 1,
            leaks=self.leaks(here),
        )

    def leaks(self, here: Neighborhood) -> Hidden:
        """The two lines above, less all that is public; λx is part of ∇f, and linear."""
        alpha, decay = self.run.step(here.t - 1), self.run.regularizer
        return Hidden(
            transition=((0, -alpha, 0), (-decay, -alpha * decay, -1), (0, 0, 0)),
            gradient=(0, 1, 1),
            sensitivity=self.run.grad_sensitivity[here.agent],
            point=(0, -alpha, 0),  # the new x
            lipschitz=self.run.grad_lipschitz[here.agent],
            largest=self.run.grad_range[here.agent],
            reads=((1, 0, 0), (0, 1, 0)),
            exact=True,
        )

    def update(self, s: State, here: Neighborhood, inbox: Inbox, loss: Loss) -> State:
        x = inbox["x"].mix() - self.run.step(here.t) * s.y
        gradient = loss.grad(x)
        return State(x, inbox["y"].mix() + gradient - s.gradient, gradient)

    def decision(self, s: State) -> Vector:
        return s.x
