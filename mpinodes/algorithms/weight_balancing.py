"""Differentially private weight-balancing subgradient method, on digraphs for which it is sound.

J. Zhu, C. Xu, J. Guan, D. O. Wu, "Differentially Private Distributed Online Algorithms Over Time-Varying Directed
Networks". d_i is the out-degree of agent i without itself:

    (6) y_i  = x_i + η_i,  η_i ~ Lap(σ(t))                              the release; x_i is the decision
    (7) z_i <- (1 − w_i d_i) y_i + Σ_j w_j y_j                          over in-neighbours j
    (8) x_i <- z_i − α(t) g_i,  g_i = ∇f_i^t(x_i) + error               at the x_i from before the mixing
    (9) w_i <- ½ w_i + (1/d_i) Σ_j ½ w_j                                the balancing mixing

The paper has σ(t) = Δ(t)/ε with Δ(t) = 2L√d·α(t) (Lemma 1, Theorem 1). But x_i(t) was computed with α(t − 1), which is
larger. noise_index = "paper" keeps the paper's noise; "corrected" calibrates to α(t − 1), and adds no noise in round 1,
when x_i depends on no data. Clipping enforces the bound L.

As printed, g_i is taken at the hidden x_i. A sample that changed x_i by δ also changes every later g_i: through the
loss by at most min(2L, βδ) if gradients are β-Lipschitz, and through the regularizer by λδ. The paper's parallel
composition omits this. With gradient_at = "public", g_i is taken at z_i, which depends on releases alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta

from mpinodes.algorithms.hidden_gradients import GradientAt, feedback
from mpinodes.core import RELEASED, Algorithm, Inbox, Loss, Neighborhood, Query, Vector

__all__ = ["WeightBalancing"]

INVERSE = {"kind": "inverse", "initial": 1.0}  # of probes


class State(NamedTuple):
    """Hold what an agent needs for its next round."""

    x: Vector  # (d,)
    made_with: float  # the step α with which x was computed; 0 before the first step


@dataclass(frozen=True)
class WeightBalancing(Algorithm[State]):
    """Run the iteration (6) to (8)."""

    gradient_at: GradientAt = "hidden"
    noise_index: Annotated[
        Literal["paper", "corrected"],
        Meta(
            description="which step the noise is calibrated to: paper, as printed, that of the round; corrected: that "
            "which made the message"
        ),
    ] = "paper"
    mixings = ("balancing",)

    decomposable = True
    anytime = True
    unconstrained = True
    averaging = "linear"  # x̂_j(t) = Σ_s s·x_j(s) / (t(t + 1)/2)
    # α = 1/(μ̃(t + 1)) with μ̃ ≤ (1/2n) Σ μ_i. The proof of Theorem 2 uses ½ Σ μ_i, which is wrong by a factor n.
    modulus_share = 0.5
    hidden = ("x",)
    claims_agents = True
    against_colluders = True
    theorems = "mpinodes.bounds.weight_balancing"
    paper = (
        "Zhu, Xu, Guan, Wu, Differentially Private Distributed Online Algorithms Over Time-Varying Directed Networks"
    )
    defaults = {
        "data": {"name": "unit-ball"},
        "problem": {"loss": "logistic", "regularizer": 0.1, "set": "none"},
        "step": {"kind": "strongly-convex", "offset": 1.0},
        "topology": {"name": "random-digraph"},
        "privacy": {"clip": 1.0},
    }
    probes = {
        "as printed": {"step": INVERSE},
        "gradient at hidden x, noise index right": {  # times 2, the losses' curvature: 0.9 of a hidden change stays
            "rounds": 10, "step": {"kind": "constant", "value": 0.45}, "algorithm": {"noise_index": "corrected"},
            "privacy": {"epsilon": 2.0},
        },
        "gradient at public z, noise index as printed": {"step": INVERSE, "algorithm": {"gradient_at": "public"}},
        "both mended": {"step": INVERSE, "algorithm": {"gradient_at": "public", "noise_index": "corrected"}},
    }  # fmt: skip

    def init(self, x: Vector) -> State:
        """Return the state with x_i = x."""
        return State(x, made_with=0.0)

    def message(self, s: State, here: Neighborhood) -> Query:
        """Return x_i, to be released by (6), with its leakage."""
        l2 = self.run.grad_sensitivity[here.agent] * (s.made_with or self.run.step(1))  # round 1 needs some value > 0
        leaks = RELEASED if self.gradient_at == "public" else feedback(self.run, here.agent, l2, weight=s.made_with)
        noised = self.run.step(here.t) if self.noise_index == "paper" else s.made_with
        calibration = sqrt(len(s.x)) * self.run.grad_sensitivity[here.agent] * noised if noised else 0.0
        return Query(s.x, l1=sqrt(len(s.x)) * l2, l2=l2, uses=here.t - 1, leaks=leaks, calibration=calibration)

    def update(self, s: State, here: Neighborhood, inbox: Inbox, loss: Loss) -> State:
        """Return x_i of the next round, by (7) and (8)."""
        alpha = self.run.step(here.t)
        z = inbox.mix()
        g = loss.grad(s.x if self.gradient_at == "hidden" else z)
        return State(z - alpha * g, made_with=alpha)

    def claimed_epsilon(self, rounds: int, passes: int) -> float:
        """Return the ε of Theorem 1 for the whole run: ε times the number of passes over the data.

        In Definition 1 all data of one participant may differ (adjacency one-agent), but the proof changes the loss of
        one round only.
        """
        return self.run.epsilon * passes
