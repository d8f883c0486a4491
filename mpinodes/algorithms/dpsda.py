"""DPSDA: differentially private distributed online dual averaging, the framework.

H. Cheng, X. Liao, H. Li, "Distributed Online Private Learning of Convex Nondecomposable Objectives", Protocol 1. In
each round, every agent sends its dual variable plus noise, adds its part of the gradient to the mix of the received
vectors, and projects. The symbols are:

- f^t is the loss function of round t, which all n agents share. Its gradient ∇f^t is clipped.
- B_i is the block of the d coordinates that agent i decides. S_i embeds a block in R^d.
- z_i(t) and y_i(t) are the state of round t; the paper numbers them t − 1. η_i is noise.
- ξ_i is a stochastic error of the gradient, which is not clipped.
- Π(z, α) is the projection of −αz onto the constraint set 𝒳.
- ℬ_i are the received releases and the agent's own release. A subclass chooses the mixing: 𝒜 is the mix, and 𝒞 divides
  by the mixing's scale, which is w_i in push-sum and 1 in other mixings.

    (4)  m_i    = z_i + η_i,  η_i ~ Lap(σ)                            the release
    (14) u_i    = [∇f^t(y_i)]_{B_i} + ξ_i                             at the old y_i
    (5)  z_i   <- 𝒜_i(ℬ_i) + (1/r_i) S_i u_i,  r_i = 1/n (Remark 3)
    (6)  y_i   <- Π(𝒞_i(z_i), α(t))
         x_i    = (y_i)_{B_i}                                         the decision

Sensitivity of (4), by Lemma 1 and Remark 5: let L̂ bound the L2 norm of the block of a sample's gradient. Given all
earlier releases, adjacent data change only the block u_i, by at most 2L̂ in L2 norm. So z_i changes by at most 2nL̂ in
L2 norm, and by at most 2n√d_i·L̂ in L1 norm, where d_i is the length of the block. By default, clipping enforces the
bound L̂ for the gradient of every sample. With `privacy.adjacency` = one-round or `privacy.clipping` = agent, clipping
enforces L̂ for the gradient of the whole round. In the code, `Run.grad_sensitivity` takes the place of 2L̂.

Hidden state: as printed, the gradient u_i is taken at the hidden y_i. If a sample of f^t is replaced, y_i changes, and
thereby every later u_i. The paper's proof omits this. If the gradient is G-Lipschitz, a change δ of z_i changes y_i by
at most δ·α/w_i, and so the next release by at most n·G·α/w_i·δ. With gradient_at = "public", u_i is taken at the point
Π(𝒞_i(𝒜_i(ℬ_i)), α). This point depends only on releases, so a sample of f^t changes one release of each agent.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np

from mpinodes.algorithms.hidden_gradients import GradientAt, feedback
from mpinodes.core import RELEASED, Algorithm, Inbox, Loss, Neighborhood, Query, Vector


class State(NamedTuple):
    """Hold the state of one agent between two rounds."""

    z: Vector  # (d,) the dual variable
    y: Vector  # (d,) the primal estimate
    point: Vector  # (d,) the point at which the next gradient is taken
    dual_gain: float  # α/w_i: the largest change of y_i when z_i changes by 1; 0 if gradient_at = public and t > 1
    previous_dual_gain: float  # dual_gain of the previous y_i, at which the last gradient was taken; 0: none was


@dataclass(frozen=True)
class DPSDA(Algorithm[State]):
    """Run differentially private dual averaging on a loss function that all agents share: Protocol 1 of the paper.

    A subclass chooses how an agent mixes the received messages.
    """

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
        "joint view, T = 1": {"rounds": 2},  # 2, because the first message depends on no data
        "joint view": {"rounds": 3},
        "joint view, gradient at public point": {"rounds": 3, "algorithm": {"gradient_at": "public"}},
    }

    @property
    def hides(self) -> bool:
        """Return True if `gradient_at` = hidden: messages may then depend on state that is only sent with noise."""
        return self.gradient_at == "hidden"

    def init(self, x: Vector) -> State:
        """Return the state before round 1: the dual variable z_i is 0, and y_i is the point of 𝒳 nearest to 0."""
        zero = np.zeros_like(x)
        y = self.run.feasible.project(zero)
        return State(z=zero, y=y, point=y, dual_gain=1.0, previous_dual_gain=0.0)

    def message(self, s: State, here: Neighborhood) -> Query:
        """Return the dual variable z_i as the message, with bounds on how much a replaced sample changes this message.

        The sensitivities bound the change if the sample was used in the round before. The leakage bounds the change if
        the sample was used earlier. With `gradient_at` = public, a sample that was used earlier does not change this
        message, and there is no leakage. The first message carries noise too, as in the paper, although it depends on
        no data.
        """
        block, uses = self.run.blocks[here.agent], here.t - 1
        l2 = self.run.agents * self.run.grad_sensitivity[here.agent]
        l1 = sqrt(block.stop - block.start) * l2
        if self.gradient_at == "public":
            return Query(s.z, l1, l2, uses, RELEASED)
        n, gain = self.run.agents, s.previous_dual_gain
        return Query(s.z, l1, l2, uses, feedback(self.run, here.agent, l2, n, gain, block.stop - block.start))

    def update(self, s: State, here: Neighborhood, inbox: Inbox, loss: Loss) -> State:
        """Return the state of the next round, with the new dual variable z_i and the new estimate y_i.

        z_i is the mix of the releases plus n times the gradient, of which only the agent's own block is added. With
        `gradient_at` = hidden, the gradient is taken at the old y_i. With `gradient_at` = public, the gradient is taken
        at a point that the previous round computed from releases alone. The new y_i is the projection of −α(t) z_i
        divided by `inbox.scale`, which is w_i in push-sum and 1 in other mixings.
        """
        block, alpha = self.run.blocks[here.agent], self.run.step(here.t)
        u = loss.grad(s.point, block)
        z = inbox.mix()
        point = self.run.feasible.prox_step(z / inbox.scale, alpha) if self.gradient_at == "public" else None
        z[..., block] += self.run.agents * u
        y = self.run.feasible.prox_step(z / inbox.scale, alpha)
        if point is not None:
            return State(z, y, point, dual_gain=0.0, previous_dual_gain=0.0)
        return State(z, y, y, dual_gain=alpha / inbox.scale, previous_dual_gain=s.dual_gain)

    def decision(self, s: State) -> Vector:
        """Return y_i (d,), the agent's estimate of all coordinates.

        The agent decides only its own block of these coordinates.
        """
        return s.y

    def claimed_epsilon(self, rounds: int, passes: int) -> float:
        """Return the ε that Theorems 2 and 4 of the paper claim for `rounds` rounds.

        This ε is `rounds` times `privacy.epsilon`.
        """
        return rounds * self.run.epsilon
