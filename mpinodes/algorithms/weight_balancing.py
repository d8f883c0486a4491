"""Differentially private weight-balancing subgradient method, on digraphs on which weight balancing converges.

J. Zhu, C. Xu, J. Guan, D. O. Wu, "Differentially Private Distributed Online Algorithms Over Time-Varying Directed
Networks". In each round t, every agent i sends its decision plus noise, mixes the received vectors, and takes a
gradient step. The sums are over the in-neighbors j of agent i:

    (6) y_i  = x_i + η_i,  η_i ~ Lap(σ(t))                              the message; x_i is the decision
    (7) z_i <- (1 − w_i d_i) y_i + Σ_j w_j y_j                          the mix
    (8) x_i <- z_i − α(t) g_i,  g_i = ∇f_i^t(x_i) + error               at the old x_i
    (9) w_i <- ½ w_i + (1/d_i) Σ_j ½ w_j                                the balancing mixing

The symbols are:

- w_i is a scalar that corrects the mixing weights. d_i is the number of out-neighbors of agent i.
- f_i^t is the loss function of agent i in round t, and α(t) is the step size.

The setting `noise_index` chooses the noise scale, unless `privacy.scale` is a number:

- If noise_index = "paper": σ(t) = 2L√d·α(t)/ε (Lemma 1, Theorem 1), where L bounds a sample's gradient. But x_i was
  computed with the step α(t − 1), which is at least α(t) if steps do not increase.
- If noise_index = "corrected": the noise is calibrated to α(t − 1). Round 1 has no noise, because its x_i depends on no
  data.

The setting `gradient_at` chooses the point of the gradient:

- If gradient_at = "hidden": the point is x_i, as printed. A changed sample moves x_i, and thereby all later messages,
  which the paper's parallel composition omits. If x_i moves by δ, the gradient of the loss function moves by at most
  min(2L, βδ) if it is β-Lipschitz, and the gradient of the regularizer (λ/2)‖x‖² by λδ.
- If gradient_at = "public": the point is the mix z_i, which depends only on messages. So a sample changes only one
  message.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Literal, NamedTuple

from mpinodes.algorithms.hidden_gradients import GradientAt, feedback
from mpinodes.core import RELEASED, Algorithm, Inbox, Loss, Neighborhood, Query, Vector

__all__ = ["WeightBalancing"]

INVERSE = {"kind": "inverse", "initial": 1.0}  # the step of three probes


class State(NamedTuple):
    """Hold the state of one agent between two rounds."""

    x: Vector  # (d,)
    made_with: float  # the step α with which x was computed; 0 before the first step


@dataclass(frozen=True)
class WeightBalancing(Algorithm[State]):
    """Run gradient steps from mixes of received vectors; the weights of the mix come from weight balancing.

    Attributes:
        noise_index: the step to which the noise is calibrated. paper: the step of the round, as printed; corrected: the
            step with which the message was computed
    """

    gradient_at: GradientAt = "hidden"
    noise_index: Literal["paper", "corrected"] = "paper"
    mixings = ("balancing",)

    decomposable = True
    anytime = True
    unconstrained = True
    averaging = "linear"  # x̂_j(t) = Σ_s s·x_j(s) / (t(t + 1)/2)
    # The step is α = 1/(μ̃(t + 1)) with μ̃ ≤ (1/2n) Σ μ_i. The proof of Theorem 2 uses ½ Σ μ_i, wrong by a factor n.
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
        "gradient at hidden x, noise index right": {  # times the losses' curvature 2: a hidden change decays by 0.9
            "rounds": 10, "step": {"kind": "constant", "value": 0.45}, "algorithm": {"noise_index": "corrected"},
            "privacy": {"epsilon": 2.0},
        },
        "gradient at public z, noise index as printed": {"step": INVERSE, "algorithm": {"gradient_at": "public"}},
        "both mended": {"step": INVERSE, "algorithm": {"gradient_at": "public", "noise_index": "corrected"}},
    }  # fmt: skip

    @property
    def hides(self) -> bool:
        """Return True if `gradient_at` = hidden: messages may then depend on state that is only sent with noise."""
        return self.gradient_at == "hidden"

    def init(self, x: Vector) -> State:
        """Return the state before round 1: the decision x_i is x."""
        return State(x, made_with=0.0)

    def message(self, s: State, here: Neighborhood) -> Query:
        """Return the decision x_i as the message, with its sensitivities and its leakage.

        The sensitivities bound how far a changed sample of the previous round moves the message. The leakage bounds how
        far a changed sample of an earlier round moves the message. With `gradient_at` = public, there is no leakage.
        The setting `noise_index` chooses the step size to which the noise is calibrated.
        """
        l2 = self.run.grad_sensitivity[here.agent] * (s.made_with or self.run.step(1))  # round 1 needs some value > 0
        leaks = RELEASED if self.gradient_at == "public" else feedback(self.run, here.agent, l2, weight=s.made_with)
        noised = self.run.step(here.t) if self.noise_index == "paper" else s.made_with
        calibration = sqrt(s.x.shape[-1]) * self.run.grad_sensitivity[here.agent] * noised if noised else 0.0
        return Query(s.x, l1=sqrt(s.x.shape[-1]) * l2, l2=l2, uses=here.t - 1, leaks=leaks, calibration=calibration)

    def update(self, s: State, here: Neighborhood, inbox: Inbox, loss: Loss) -> State:
        """Return the state of the next round: x_i = z_i − α(t) g_i, where z_i is the mix and g_i the gradient."""
        alpha = self.run.step(here.t)
        z = inbox.mix()
        g = loss.grad(s.x if self.gradient_at == "hidden" else z)
        return State(z - alpha * g, made_with=alpha)

    def claimed_epsilon(self, rounds: int, passes: int) -> float:
        """Return the ε that Theorem 1 claims for the whole run: `privacy.epsilon` times the passes over the data.

        The claim is for data sets that differ in all data of one agent (`privacy.adjacency` = one-agent), although the
        proof assumes that only the loss function of one round differs.
        """
        return self.run.epsilon * passes
