"""DOLA: differentially private distributed online learning on time-varying doubly stochastic weights.

C. Li, P. Zhou, G. Chen, T. Jiang, "Differentially Private Distributed Online Learning", Algorithm 1. The paper's w is x
here. Our round t computes what the paper's listing numbers t + 1:

    m_i  = x_i + σ_i,  σ_i ~ Lap(S(t)/ε)                 step 7, the release; x_i is the decision
    b_i  = Σ_j a_ij m_j                                  step 4, own noised m_i included
    g_i  = ∇f_i^t(b_i)                                   step 5
    x_i <- P(b_i − α(t) g_i)                             step 6

An x_i that was computed with the step α(t) gets noise for S = 2α(t)√d·L (Lemma 1). The first x_i depends on no data, so
it gets none. b_i depends on releases alone, so one sample changes only one message. If each sample is used once,
parallel composition therefore holds (Theorem 1). Clipping at b_i, which need not lie in 𝒳, enforces L. The
regularizer's gradient at b_i is public and changes nothing. The step is α(t) = 1/(λt) for λ-strongly convex losses and
1/(2√t) for convex losses.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

from mpinodes.core import RELEASED, Algorithm, Inbox, Loss, Neighborhood, Query, Vector

__all__ = ["DOLA"]


class State(NamedTuple):
    """Hold what an agent needs for its next round."""

    x: Vector  # (d,)
    made_with: float  # the step α with which x was computed; 0 before the first step


@dataclass(frozen=True)
class DOLA(Algorithm[State]):
    """Run Algorithm 1 of the paper."""

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
        """Return the state with x_i = P(x)."""
        return State(self.run.feasible.project(x), made_with=0.0)

    def message(self, s: State, here: Neighborhood) -> Query:
        """Return x_i, to be released as m_i with noise for S(t)."""
        l2 = self.run.grad_sensitivity[here.agent] * (s.made_with or self.run.step(1))  # round 1 needs some value > 0
        l1 = sqrt(len(s.x)) * l2
        return Query(s.x, l1=l1, l2=l2, uses=here.t - 1, leaks=RELEASED, calibration=l1 if s.made_with else 0.0)

    def update(self, s: State, here: Neighborhood, inbox: Inbox, loss: Loss) -> State:
        """Return x_i of the next round, by steps 4 to 6."""
        alpha = self.run.step(here.t)
        b = inbox.mix()
        g = loss.grad(b)
        return State(self.run.feasible.project(b - alpha * g), made_with=alpha)

    def claimed_epsilon(self, rounds: int, passes: int) -> float:
        """Return the ε of Theorem 1 for the whole run: ε times the number of passes over the data."""
        return self.run.epsilon * passes
