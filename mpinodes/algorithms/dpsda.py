"""DPSDA: differentially private distributed online dual averaging, the framework.

H. Cheng, X. Liao, H. Li, "Distributed Online Private Learning of Convex Nondecomposable Objectives",
Protocol 1. Every agent sees the loss f^t but owns only the block B_i of the d coordinates; S_i puts a
block into R^d. The state of round t, z_i(t) and y_i(t), is the paper's of index t − 1:

    (4)  m_i    = z_i + η_i,  η_i ~ Lap(σ)                            the release
    (14) u_i    = [∇f^t(y_i)]_{B_i} + ξ_i                             clipped to L̂, at the old y_i
    (5)  z_i   <- 𝒜_i(ℬ_i) + (1/r_i) S_i u_i,  r_i = 1/n (Remark 3)   ℬ_i: what arrived, own release included
    (6)  y_i   <- Π(𝒞_i(z_i), α(t))
         x_i    = (y_i)_{B_i}                                         the decision

An instance chooses the mixing, 𝒜 and 𝒞. Sensitivity of (4), Lemma 1 and Remark 5: given all releases so
far only the block u_i differs, by at most 2L̂ in L2, so 2nL̂ in L2 and 2n√d_i·L̂ in L1; L̂ is enforced by
clipping, not assumed in the mean. As printed, u_i is taken at the hidden y_i: what a changed f^t did to y_i
moves every later u_i too, which the paper's proof leaves out. If the gradient is G-Lipschitz, a change δ of
z_i moves y_i by at most δ·α/w_i, and so the next release by n·G·α/w_i·δ. With gradient_at = "public", u_i is
taken at Π(𝒞_i(𝒜_i(ℬ_i)), α), which is made of releases alone, and f^t moves one release only.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from math import sqrt
from typing import Literal, NamedTuple

import numpy as np

from mpinodes.core import (
    RELEASED,
    Algorithm,
    Bound,
    Feedback,
    Horizons,
    Inbox,
    Loss,
    Neighborhood,
    Query,
    Setup,
    Vector,
)


class State(NamedTuple):
    """What the next round needs."""

    z: Vector  # (d,) dual
    y: Vector  # (d,) primal estimate
    point: Vector  # (d,) where the next gradient is taken
    dual_gain: float  # α/w_i: how far y_i moves at most when z_i moves by 1
    previous_dual_gain: float  # the same of the y_i before, at which the gradient in z_i was taken; 0: at none


@dataclass(frozen=True)
class DPSDA(Algorithm[State]):
    """Protocol 1."""

    gradient_at: Literal["hidden", "public"] = "hidden"

    decomposable = False
    anytime = True
    gradients_in_set = True
    hidden = ("z",)
    bears_loss = True
    bears_delay = True
    paper = "Cheng, Liao, Li, Distributed Online Private Learning of Convex Nondecomposable Objectives, Protocol 1"

    @abstractmethod
    def average(self, inbox: Inbox) -> Vector:
        """𝒜_i(ℬ_i) of (5): a new (d,) vector."""

    @abstractmethod
    def unbias(self, z: Vector, inbox: Inbox) -> Vector:
        """𝒞_i(z_i) of (6)."""

    def init(self, x: Vector) -> State:
        """z_i = 0 and y_i = Π(0, ·), the least element of ψ = ½‖·‖² in 𝒳."""
        zero = np.zeros_like(x)
        y = self.run.feasible.project(zero)
        return State(z=zero, y=y, point=y, dual_gain=1.0, previous_dual_gain=0.0)

    def message(self, s: State, here: Neighborhood) -> Query:
        """(4). The first message carries noise too, as printed, though it holds no data."""
        block, uses = self.run.blocks[here.agent], here.t - 1
        l2 = self.run.agents * self.run.grad_sensitivity[here.agent]
        l1 = sqrt(block.stop - block.start) * l2
        return Query(s.z, l1, l2, uses, RELEASED if self.gradient_at == "public" else self._feedback(s, here.agent, l2))

    def _feedback(self, s: State, i: int, l2: float) -> Feedback:
        """What a changed y_i makes of u_i, and so of the message, in the agent's own block alone."""
        n, gain = self.run.agents, s.previous_dual_gain
        lipschitz = n * self.run.grad_lipschitz[i] * gain if gain else 0.0
        largest, linear = n * self.run.grad_range[i], n * self.run.regularizer * gain
        block, offset = self.run.blocks[i], n * self.run.grad_rounding[i] if gain else 0.0
        return Feedback(l2, lipschitz, largest, linear, offset, block.stop - block.start)

    def update(self, s: State, here: Neighborhood, inbox: Inbox, loss: Loss) -> State:
        """(5) and (6)."""
        block, alpha = self.run.blocks[here.agent], self.run.step(here.t)
        u = loss.grad(s.point, block)
        z = self.average(inbox)
        if self.gradient_at == "public":
            point = self.run.feasible.prox_step(self.unbias(z, inbox), alpha)
        z[block] += self.run.agents * u
        y = self.run.feasible.prox_step(self.unbias(z, inbox), alpha)
        if self.gradient_at == "public":
            return State(z, y, point, dual_gain=0.0, previous_dual_gain=0.0)
        dual_gain, previous_dual_gain = alpha / inbox.scale, s.dual_gain
        return State(z, y, y, dual_gain, previous_dual_gain)

    def decision(self, s: State) -> Vector:
        """y_i: the agent commits to the block B_i of it."""
        return s.y

    def claimed_epsilon(self, rounds: int, passes: int) -> float:
        """The paper's ε for `rounds` rounds (Theorems 2 and 4): ε a round, per agent and for all of them."""
        return rounds * self.run.epsilon

    def bounds(self, setup: Setup, horizons: Horizons, minimizer: Vector) -> list[Bound]:
        """Theorems 3 and 5, and the corollaries on running averages."""
        from mpinodes.bounds.dpsda import bounds

        return bounds(setup, horizons, minimizer)
