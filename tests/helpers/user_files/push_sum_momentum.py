"""Push-sum with momentum on changing digraphs, with Laplace noise on what is pushed.

M. Assran, N. Loizou, N. Ballas, M. Rabbat, "Stochastic Gradient Push for Distributed Deep Learning" (2019),
Algorithm 1, with the heavy ball of B. Polyak (1964) on the local gradient:

    x <- Σ_j p_ij (x_j + Lap),  w <- Σ_j p_ij w_j,  z = x/w
    u <- β u + ∇f(z)
    x <- x − γ(t) u

z is made of what was said, and public; u alone is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Annotated

import numpy as np
from msgspec import Meta

from mpinodes.core import Algorithm, Hidden, Inbox, Loss, Neighborhood, Query, Start, Vector

__all__ = ["PushSumMomentum"]


@dataclass(frozen=True, slots=True)
class State:
    x: Vector
    u: Vector
    z: Vector


@dataclass(frozen=True)
class PushSumMomentum(Algorithm[State]):
    momentum: Annotated[float, Meta(ge=0, lt=1, description="β: how much of the last step is kept")] = 0.5

    decomposable = True
    mixings = ("push-sum",)
    hidden = ("u",)
    unconstrained = True
    paper = "Assran, Loizou, Ballas, Rabbat, Stochastic Gradient Push for Distributed Deep Learning (2019), Algorithm 1"
    defaults = {
        "rounds": 200,
        "data": {"name": "unit-ball"},
        "problem": {"loss": "logistic", "set": "none", "regularizer": 0.1},
        "step": {"kind": "inverse-sqrt", "initial": 0.5},
        "topology": {"name": "random-digraph-each-round"},
        "privacy": {"clip": 1.0},
    }

    def init(self, x: Vector) -> State:
        return State(x, np.zeros_like(x), x)

    def message(self, s: State, here: Neighborhood) -> Query | Start:
        if here.t == 1:
            return Start()
        gamma, sensitivity = self.run.step(here.t - 1), self.run.grad_sensitivity[here.agent]
        leaks = Hidden(
            transition=((self.momentum,),), gradient=(1,), sensitivity=sensitivity,
            point=(0,), lipschitz=0, largest=0, reads=((gamma,),),  # gradients are taken at z, which is public
        )  # fmt: skip
        l2 = gamma * sensitivity
        return Query(s.x, l1=sqrt(len(s.x)) * l2, l2=l2, uses=here.t - 1, leaks=leaks)

    def update(self, s: State, here: Neighborhood, inbox: Inbox, loss: Loss) -> State:
        x = inbox.mix()
        z = x / inbox.scale
        u = self.momentum * s.u + loss.grad(z)
        return State(x - self.run.step(here.t) * u, u, z)

    def decision(self, s: State) -> Vector:
        return s.z

    def claimed_epsilon(self, rounds: int, passes: int) -> float:
        """Of one sample, whose k-th message after the first tells β^k of it: Σ_k β^k ε."""
        return passes * self.run.epsilon / (1 - self.momentum)
