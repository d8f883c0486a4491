"""DPSDA: differentially private distributed online dual averaging, the framework.

H. Cheng, X. Liao, H. Li, "Distributed Online Private Learning of Convex Nondecomposable Objectives", Protocol 1. Every
agent sees the loss f^t, but owns only the block B_i of the d coordinates. S_i embeds a block in R^d. The state of round
t, z_i(t) and y_i(t), has the index t − 1 in the paper:

    (4)  m_i    = z_i + η_i,  η_i ~ Lap(σ)                            the release
    (14) u_i    = [∇f^t(y_i)]_{B_i} + ξ_i                             clipped to L̂, at the old y_i
    (5)  z_i   <- 𝒜_i(ℬ_i) + (1/r_i) S_i u_i,  r_i = 1/n (Remark 3)   ℬ_i: received releases and the agent's own
    (6)  y_i   <- Π(𝒞_i(z_i), α(t))
         x_i    = (y_i)_{B_i}                                         the decision

An instance chooses the mixing: 𝒜 is the mix, and 𝒞 divides by the mixing's scale, which is w_i in push-sum and else 1.
Sensitivity of (4), by Lemma 1 and Remark 5: given all earlier releases, only the block u_i differs, by at most 2L̂ in
L2. So z_i differs by at most 2nL̂ in L2 and 2n√d_i·L̂ in L1. Clipping enforces L̂ for every sample, not only in the mean.

As printed, u_i is taken at the hidden y_i. A changed f^t changes y_i, and thereby every later u_i; the paper's proof
omits this. If the gradient is G-Lipschitz, a change δ of z_i changes y_i by at most δ·α/w_i, and so the next release by
n·G·α/w_i·δ. With gradient_at = "public", u_i is taken at Π(𝒞_i(𝒜_i(ℬ_i)), α). This point depends on releases alone, so
f^t changes only one release.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np

from mpinodes.algorithms.hidden_gradients import GradientAt, feedback
from mpinodes.core import RELEASED, Algorithm, Inbox, Loss, Neighborhood, Query, Vector


class State(NamedTuple):
    """Hold what an agent needs for its next round."""

    z: Vector  # (d,) the dual variable
    y: Vector  # (d,) the primal estimate
    point: Vector  # (d,) the point at which the next gradient is taken
    dual_gain: float  # α/w_i: the largest change of y_i when z_i changes by 1
    previous_dual_gain: float  # the same for the previous y_i, at which the gradient in z_i was taken; 0 if none was


@dataclass(frozen=True)
class DPSDA(Algorithm[State]):
    """Run Protocol 1. The mixing of a subclass determines 𝒜 and 𝒞."""

    gradient_at: GradientAt = "hidden"

    decomposable = False
    anytime = True
    gradients_in_set = True
    hidden = ("z",)
    bears_loss = True
    bears_delay = True
    theorems = "mpinodes.bounds.dpsda"
    paper = "Cheng, Liao, Li, Distributed Online Private Learning of Convex Nondecomposable Objectives, Protocol 1"
    probes = {
        "joint view, T = 1": {"rounds": 2},  # the first message says nothing of data
        "joint view": {"rounds": 3},
        "joint view, gradient at public point": {"rounds": 3, "algorithm": {"gradient_at": "public"}},
    }

    def init(self, x: Vector) -> State:
        """Return the state with z_i = 0 and y_i = Π(0, ·), the least element of ψ = ½‖·‖² in 𝒳."""
        zero = np.zeros_like(x)
        y = self.run.feasible.project(zero)
        return State(z=zero, y=y, point=y, dual_gain=1.0, previous_dual_gain=0.0)

    def message(self, s: State, here: Neighborhood) -> Query:
        """Return z_i, to be released by (4).

        The first message carries noise too, as printed, though it does not depend on data.
        """
        block, uses = self.run.blocks[here.agent], here.t - 1
        l2 = self.run.agents * self.run.grad_sensitivity[here.agent]
        l1 = sqrt(block.stop - block.start) * l2
        if self.gradient_at == "public":
            return Query(s.z, l1, l2, uses, RELEASED)
        n, gain = self.run.agents, s.previous_dual_gain
        return Query(s.z, l1, l2, uses, feedback(self.run, here.agent, l2, n, gain, block.stop - block.start))

    def update(self, s: State, here: Neighborhood, inbox: Inbox, loss: Loss) -> State:
        """Return z_i and y_i of the next round, by (5) and (6)."""
        block, alpha = self.run.blocks[here.agent], self.run.step(here.t)
        u = loss.grad(s.point, block)
        z = inbox.mix()
        point = self.run.feasible.prox_step(z / inbox.scale, alpha) if self.gradient_at == "public" else None
        z[block] += self.run.agents * u
        y = self.run.feasible.prox_step(z / inbox.scale, alpha)
        if point is not None:
            return State(z, y, point, dual_gain=0.0, previous_dual_gain=0.0)
        return State(z, y, y, dual_gain=alpha / inbox.scale, previous_dual_gain=s.dual_gain)

    def decision(self, s: State) -> Vector:
        """Return y_i (d,); the agent decides its block B_i of it."""
        return s.y

    def claimed_epsilon(self, rounds: int, passes: int) -> float:
        """Return the paper's ε for `rounds` rounds (Theorems 2 and 4): ε per round, for each agent and the network."""
        return rounds * self.run.epsilon
