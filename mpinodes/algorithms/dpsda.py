"""DPSDA: differentially private distributed online dual averaging, the framework.

H. Cheng, X. Liao, H. Li, "Distributed Online Private Learning of Convex Nondecomposable Objectives", Protocol 1. All n
agents share the loss function f^t of round t. Agent i decides only a block of the d coordinates. In each round, every
agent sends its dual variable plus noise, adds its block of the gradient to the mix of the received vectors, and
projects:

    (4)  m_i    = z_i + η_i,  η_i ~ Lap(σ)                            the message; z_i is the dual variable
    (14) u_i    = [∇f^t(y_i)]_{B_i} + ξ_i                             at the old y_i
    (5)  z_i   <- 𝒜_i(ℬ_i) + (1/r_i) S_i u_i,  r_i = 1/n (Remark 3)
    (6)  y_i   <- Π(𝒞_i(z_i), α(t))                                   the estimate of all coordinates
         x_i    = (y_i)_{B_i}                                         the decision

The symbols are:

- B_i are the coordinates of the block of agent i. S_i embeds a block in R^d.
- η_i is noise. ξ_i is a stochastic error of the gradient, which is not clipped. ∇f^t is clipped.
- ℬ_i are the received messages and the agent's own message.
- 𝒜_i is the mix of messages, which a subclass chooses. 𝒞_i divides by w_i in push-sum, and by 1 in other mixings.
- α(t) is the step size, and Π(z, α) is the projection of −αz onto the constraint set 𝒳.

The paper writes z_i(t − 1) and y_i(t − 1) for the z_i and y_i of round t.

Sensitivity (Lemma 1 and Remark 5): given all earlier messages, a changed sample of the previous round moves z_i by at
most

    2nL̂ in L2 norm,  2n√d_i·L̂ in L1 norm

Here d_i is the length of the block, and L̂ bounds the L2 norm of the block of a sample's gradient. Clipping enforces
L̂. In the code, `Run.grad_sensitivity` takes the place of 2L̂, so that the bound is also correct for other adjacencies.

The setting `gradient_at` chooses the point of the gradient:

- If gradient_at = "hidden": the point is y_i, as printed. A changed sample moves y_i, and thereby all later messages,
  which the paper's proof omits. If the gradient is G-Lipschitz and z_i moves by δ, the next message moves by at most
  n·G·α/w_i·δ.
- If gradient_at = "public": the point is Π(𝒞_i(𝒜_i(ℬ_i)), α), which depends only on messages. So a sample of f^t
  changes only one message of each agent.
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
        """Return the dual variable z_i as the message, with its sensitivities and its leakage.

        The sensitivities bound how far a changed sample of the previous round moves the message. The leakage bounds how
        far a changed sample of an earlier round moves the message. With `gradient_at` = public, there is no leakage.
        The first message carries noise too, as in the paper, although it depends on no data.
        """
        block, n, gain = self.run.blocks[here.agent], self.run.agents, s.previous_dual_gain
        width, l2 = block.stop - block.start, n * self.run.grad_sensitivity[here.agent]
        leaks = RELEASED if self.gradient_at == "public" else feedback(self.run, here.agent, l2, n, gain, width)
        return Query(s.z, l1=sqrt(width) * l2, l2=l2, uses=here.t - 1, leaks=leaks)

    def update(self, s: State, here: Neighborhood, inbox: Inbox, loss: Loss) -> State:
        """Return the state of the next round, with the new dual variable z_i and the new estimate y_i.

        Equations (14), (5) and (6) in the docstring of the module define z_i and y_i. The setting `gradient_at` chooses
        the point of the gradient in (14).
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

    def released(self, release: Vector, scale: float, t: int) -> Vector:
        """Return the estimate of a released dual variable: the projection of −α(t − 1) times the release / `scale`."""
        return self.run.feasible.prox_step(release / scale, self.run.step(max(t - 1, 1)))

    def claimed_epsilon(self, rounds: int, passes: int) -> float:
        """Return the ε that Theorems 2 and 4 of the paper claim for `rounds` rounds.

        This ε is `rounds` times `privacy.epsilon`.
        """
        return rounds * self.run.epsilon
