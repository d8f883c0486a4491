"""DP-D-SGD: decentralized stochastic gradient descent with local differential privacy.

The baseline "LDP" of Y. Allouah, A. Koloskova, A. El Firdoussi, M. Jaggi, R. Guerraoui, "The Privacy Power of
Correlated Noise in Decentralized Learning" (2024), and of A. Rodio, Z. Chen, E. Larsson, "Whisper D-SGD" (2025). In
each round t, every agent i mixes the received vectors, and then takes local steps along gradients with noise:

    x_i = Σ_j a_ij y_j                                        the decision of the round
    repeated `local_steps` times, from z_i = x_i:
        g_i = (clipped gradient at z_i) + N(0, s² I)          noised by the agent
        v_i <- β v_i + g_i                                    momentum; v_i is kept from round to round
        z_i <- P(z_i − α(t) v_i)
    y_i = z_i                                                 the message of round t + 1

The symbols are:

- y_i is the message of agent i, and v_i its momentum; both are 0 in round 1.
- a_ij are the mixing weights, and P is the projection onto the constraint set.
- α(t) is the step size, β is the momentum factor, and s is the standard deviation of the noise.

The privacy loss is at most that of a release of all noised gradients, because messages are computed only from noised
gradients and received messages.

The standard deviation s of the noise depends on the settings:

- If the run has no noise: s = 0.
- If `privacy.noise_multiplier` is not set: s = Δ/m. Here Δ is the largest change of the gradient between adjacent data,
  and m is the largest number for which m-GDP implies (ε, δ)-DP.
- If `privacy.noise_multiplier` is σ, and every sample's gradient is clipped to norm C: s = σ C w. Here w is the weight
  of a sample's gradient in g_i, such as 1/(batch size).
- If `privacy.noise_multiplier` is σ, and the gradient of an agent in a round is clipped to norm C as a whole
  (`privacy.clipping` = agent, or `privacy.adjacency` = one-round): s = σ C.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from msgspec import Meta

from mpinodes.core import Algorithm, Inbox, Neighborhood, Say, Start, Vector

__all__ = ["DPDSGD"]


class State(NamedTuple):
    """Hold the state of one agent between two rounds."""

    x: Vector  # (d,) y_i, the next message
    velocity: Vector  # (d,) v_i, the momentum: Σ_k β^k times the noised gradient of k steps ago


@dataclass(frozen=True)
class DPDSGD(Algorithm[State]):
    """Mix the received vectors, then take local steps along noised gradients (DP-D-SGD).

    Attributes:
        momentum: beta: share of the last direction that is kept
        local_steps: noised gradient steps between two messages
    """

    momentum: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    local_steps: Annotated[int, Meta(ge=1, le=1000)] = 1
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
        """Return the number of noised gradients in a round: the setting `local_steps`."""
        return self.local_steps

    def init(self, x: Vector) -> State:
        """Return the state before round 1: y_i is the projection of x onto the constraint set; v_i is 0."""
        return State(self.run.feasible.project(x), np.zeros_like(x))

    def message(self, s: State, here: Neighborhood) -> Start | Say:
        """Return the message of a round: the start 0 in round 1, later y_i, which is sent without further noise."""
        return Start() if here.t == 1 else Say(s.x)

    def update(self, s: State, here: Neighborhood, inbox: Inbox, loss: Any) -> State:
        """Return the state of the next round: y_i after mixing and `local_steps` projected steps, and the momentum v_i.

        Args:
            s: the state of the round.
            here: the agent's neighbors in the round.
            inbox: the received vectors y_j and their weights.
            loss: the loss whose method `gradient` returns a clipped gradient with noise.
        """
        z, velocity, alpha = inbox.mix(), s.velocity, self.run.step(here.t)
        for _ in range(self.local_steps):
            g = loss.gradient(z)
            velocity = self.momentum * velocity + g if self.momentum else g
            z = self.run.feasible.project(z - alpha * velocity)
        return State(z, velocity)
