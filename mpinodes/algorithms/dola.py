"""DOLA: differentially private distributed online learning on time-varying doubly stochastic weights.

C. Li, P. Zhou, G. Chen, T. Jiang, "Differentially Private Distributed Online Learning", Algorithm 1. Its w is x here,
and what its listing numbers t + 1 is made by our round t:

    m_i  = x_i + σ_i,  σ_i ~ Lap(S(t)/ε)                 step 7, the release; x_i is the decision
    b_i  = Σ_j a_ij m_j                                  step 4, own noised m_i included
    g_i  = ∇f_i^t(b_i)                                   step 5
    x_i <- P(b_i − α(t) g_i)                             step 6

x_i made with α(t) carries noise of S = 2α(t)√d·L (Lemma 1), none before data has reached it. b_i is made of releases
alone, so one sample moves one message only: parallel composition holds (Theorem 1), if each sample is used once, and L
is enforced by clipping at b_i, which need not lie in 𝒳. A regularizer's gradient at b_i is public and moves nothing.
α(t) = 1/(λt) for λ-strongly convex losses, 1/(2√t) for convex ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

from mpinodes.core import RELEASED, Algorithm, Bound, Horizons, Inbox, Loss, Neighborhood, Query, Setup, Vector

__all__ = ["DOLA"]


class State(NamedTuple):
    """What the next round needs."""

    x: Vector  # (d,)
    made_with: float  # the step α that made x; 0: none yet


@dataclass(frozen=True)
class DOLA(Algorithm[State]):
    """Algorithm 1."""

    mixings = ("metropolis", "lazy-metropolis", "laplacian")

    decomposable = True
    anytime = True
    against_colluders = True
    bears_loss = True
    bears_delay = True
    paper = "Li, Zhou, Chen, Jiang, Differentially Private Distributed Online Learning, Algorithm 1"
    defaults = {
        "data": {"name": "unit-ball"},
        # radius = 1/√λ, within which the minimizer lies, for the hinge at 0 is 1 (Shalev-Shwartz et al. 2011).
        "problem": {"loss": "hinge", "regularizer": 0.01, "set": "ball", "radius": 10.0},
        "step": {"kind": "strongly-convex"},
        "topology": {"name": "erdos-renyi-each-round"},
        "privacy": {"clip": 1.0},
    }

    def init(self, x: Vector) -> State:
        """x_i = P(x)."""
        return State(self.run.feasible.project(x), made_with=0.0)

    def message(self, s: State, here: Neighborhood) -> Query:
        """m_i."""
        l2 = self.run.grad_sensitivity[here.agent] * (s.made_with or self.run.step(1))  # in round 1 of no one's data
        l1 = sqrt(len(s.x)) * l2
        return Query(s.x, l1=l1, l2=l2, uses=here.t - 1, leaks=RELEASED, calibration=l1 if s.made_with else 0.0)

    def update(self, s: State, here: Neighborhood, inbox: Inbox, loss: Loss) -> State:
        """Steps 4 to 6."""
        alpha = self.run.step(here.t)
        b = inbox.mix()
        g = loss.grad(b)
        return State(self.run.feasible.project(b - alpha * g), made_with=alpha)

    def decision(self, s: State) -> Vector:
        """x_i."""
        return s.x

    def claimed_epsilon(self, rounds: int, passes: int) -> float:
        """Theorem 1: ε in all, each sample used once; so for every pass over them anew."""
        return self.run.epsilon * passes

    def bounds(self, setup: Setup, horizons: Horizons, minimizer: Vector) -> list[Bound]:
        """Theorem 2."""
        from mpinodes.bounds.dola import bounds

        return bounds(setup, horizons, minimizer)
