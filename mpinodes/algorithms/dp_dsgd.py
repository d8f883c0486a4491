"""DP-D-SGD: decentralized stochastic gradient descent with local differential privacy.

The baseline "LDP" of Y. Allouah, A. Koloskova, A. El Firdoussi, M. Jaggi, R. Guerraoui, "The Privacy Power of
Correlated Noise in Decentralized Learning" (2024), and of A. Rodio, Z. Chen, E. Larsson, "Whisper D-SGD" (2025). Round
t, for every agent i, from y_i = 0 before round 1:

    x_i = Σ_j a_ij y_j                                       the decision of the round
    repeated for local steps, from z_i = x_i:
        g_i = (clipped mean gradient at z_i) + N(0, s² I)     noised by the agent
        v_i <- β v_i + g_i                                    momentum
        z_i <- P(z_i − α(t) v_i)
    y_i = z_i                                                the message of round t + 1

Messages are functions of noised gradients and of received messages, so every gradient costs what its own release would
cost. With σ = `privacy.noise_multiplier` and the clip C, the noise of the sum of clipped gradients has the standard
deviation σ C. If the gradients of agents are clipped as a whole (`privacy.clipping` = agent), one sample may move the
clipped gradient by 2 C.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from msgspec import Meta

from mpinodes.core import Algorithm, Inbox, Neighborhood, Say, Start, Vector

__all__ = ["DPDSGD"]


class State(NamedTuple):
    """Hold what an agent needs for its next round."""

    x: Vector  # (d,) y_i, the next message
    velocity: Vector  # (d,) v_i


@dataclass(frozen=True)
class DPDSGD(Algorithm[State]):
    """Run local steps along noised gradients, then mix."""

    momentum: Annotated[float, Meta(ge=0, lt=1, description="beta: share of the last direction that is kept")] = 0.0
    local_steps: Annotated[int, Meta(ge=1, le=1000, description="noised gradient steps between two messages")] = 1
    mixings = ("metropolis", "lazy-metropolis", "laplacian")

    decomposable = True
    anytime = True
    against_colluders = True
    bears_loss = True
    bears_delay = True
    noises_gradients = True
    mechanism = "gaussian"
    judged_by = "last"
    paper = "Allouah et al., The Privacy Power of Correlated Noise in Decentralized Learning (2024), baseline LDP"
    defaults = {
        "data": {"name": "unit-ball", "total": 25_000, "batch": 25},
        "problem": {"loss": "logistic", "average": True, "set": "ball", "radius": 10.0},
        "step": {"kind": "constant", "value": 0.5},
        "privacy": {"mechanism": "gaussian", "clip": 1.0},
    }

    @property
    def gradients(self) -> int:
        """Return the number of local steps."""
        return self.local_steps

    def init(self, x: Vector) -> State:
        """Return the state with y_i = P(x) and no momentum."""
        return State(self.run.feasible.project(x), np.zeros_like(x))

    def message(self, s: State, here: Neighborhood) -> Start | Say:
        """Return y_i, which is sent as it is."""
        return Start() if here.t == 1 else Say(s.x)

    def update(self, s: State, here: Neighborhood, inbox: Inbox, loss: Any) -> State:
        """Return y_i of the next round, after mixing and the local steps."""
        z, velocity, alpha = inbox.mix(), s.velocity, self.run.step(here.t)
        for _ in range(self.local_steps):
            g = loss.gradient(z)
            velocity = self.momentum * velocity + g if self.momentum else g
            z = self.run.feasible.project(z - alpha * velocity)
        return State(z, velocity)
