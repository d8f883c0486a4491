"""DOLA: differentially private distributed online learning on time-varying doubly stochastic weights.

C. Li, P. Zhou, G. Chen, T. Jiang, "Differentially Private Distributed Online Learning", Algorithm 1. In each round t,
every agent i sends its decision plus noise, mixes the received vectors, and takes a gradient step at the mix:

    m_i  = x_i + σ_i,  σ_i ~ Lap(S/ε)                    step 7, the message; x_i is the decision
    b_i  = Σ_j a_ij m_j                                  step 4, the mix, with the agent's own message m_i
    g_i  = ∇f_i^t(b_i)                                   step 5
    x_i <- P(b_i − α(t) g_i)                             step 6

The symbols are:

- a_ij are the mixing weights, and P is the projection onto the constraint set 𝒳 in R^d.
- f_i^t is the loss function of agent i in round t.
- α(t) is the step size: in the paper 1/(λt) for λ-strongly convex losses, and 1/(2√t) for convex losses.
- S = 2α√d·L is the L1 sensitivity of x_i (Lemma 1), where α is the step size with which x_i was computed. L bounds the
  L2 norm of a sample's gradient. Clipping enforces this bound, unless `privacy.clip` is inf.

The paper writes w for x, and t + 1 for our round t.

In the code, `Run.grad_sensitivity` takes the place of 2L, so that S is also correct for batches and for other
adjacencies. The first x_i depends on no data, and gets no noise unless `privacy.scale` is a number.

Since the mix b_i depends only on messages, a sample changes only one message. So parallel composition holds if each
sample is used once (Theorem 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

from mpinodes.core import RELEASED, Algorithm, Inbox, Loss, Neighborhood, Query, Vector

__all__ = ["DOLA"]


class State(NamedTuple):
    """Hold the state of one agent between two rounds."""

    x: Vector  # (d,)
    made_with: float  # the step α with which x was computed; 0 before the first step


@dataclass(frozen=True)
class DOLA(Algorithm[State]):
    """Run DOLA: mix the noisy releases, take a gradient step at the mix, and project onto the constraint set 𝒳."""

    mixings = ("metropolis", "lazy-metropolis", "laplacian")

    decomposable = True
    anytime = True
    against_colluders = True
    bears_loss = True
    bears_delay = True
    theorems = "mpinodes.bounds.dola"
    paper = "Li, Zhou, Chen, Jiang, Differentially Private Distributed Online Learning, Algorithm 1"
    defaults = {
        "data": {"name": "unit-ball"},
        # The minimizer lies within radius = 1/√λ, because the hinge loss at 0 is 1 (Shalev-Shwartz et al. 2011).
        "problem": {"loss": "hinge", "regularizer": 0.01, "set": "ball", "radius": 10.0},
        "step": {"kind": "strongly-convex"},
        "topology": {"name": "erdos-renyi-each-round"},
        "privacy": {"clip": 1.0},
    }

    def init(self, x: Vector) -> State:
        """Return the state before round 1: the decision x_i is the projection of x onto 𝒳."""
        return State(self.run.feasible.project(x), made_with=0.0)

    def message(self, s: State, here: Neighborhood) -> Query:
        """Return the decision x_i as the message, with its L1 and L2 sensitivity.

        The first decision depends on no data. So the first message carries no noise, unless `privacy.scale` is a
        number.
        """
        l2 = self.run.grad_sensitivity[here.agent] * (s.made_with or self.run.step(1))  # round 1 needs some value > 0
        l1 = sqrt(s.x.shape[-1]) * l2
        return Query(s.x, l1=l1, l2=l2, uses=here.t - 1, leaks=RELEASED, calibration=l1 if s.made_with else 0.0)

    def update(self, s: State, here: Neighborhood, inbox: Inbox, loss: Loss) -> State:
        """Return the state of the next round: x is the projection of b − α(t) ∇f(b), where b is the mix of releases."""
        alpha = self.run.step(here.t)
        b = inbox.mix()
        g = loss.grad(b)
        return State(self.run.feasible.project(b - alpha * g), made_with=alpha)

    def claimed_epsilon(self, rounds: int, passes: int) -> float:
        """Return the ε that Theorem 1 of the paper claims for the whole run.

        This ε is `privacy.epsilon` times the number of passes over the data.
        """
        return self.run.epsilon * passes
