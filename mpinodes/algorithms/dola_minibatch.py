"""DOLA's offline form: private distributed learning by mini-batches. The result is the average of all iterates.

C. Li, P. Zhou, G. Chen, T. Jiang, "Differentially Private Distributed Online Learning", Algorithm 2. The algorithm
differs from DOLA (module `dola`) in its gradient step, step 6. Each batch H_t has h samples, which are in no other
batch. φ is the weight of the regularizer, P is the projection onto the constraint set 𝒳, and b_i is the mix of the
releases:

    x_i <- P(b_i − α(t) (φ x_i + (1/h) Σ_{k ∈ H_t} ∇f_k(b_i)))

The noise is that of Algorithm 1 divided by h (Lemma 7).

As printed, φ multiplies x_i, which is hidden: only x_i plus noise is released. If replacing a sample changes x_i by δ,
the next message changes by α(t) φ δ, even between runs with the same earlier releases. Theorem 3 of the paper omits
this effect. For α(t) = 1/(λt), a sample of round 1 has the privacy loss ε Σ_k (φ/λ)^k/k! instead of ε, where k = 0, 1,
... numbers the messages that depend on the sample.

With regularizer_at = "public", φ multiplies b_i instead, and the step uses the gradient of f + (φ/2)‖·‖² at b_i. Then a
sample changes only one message.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from msgspec import Meta

from mpinodes.algorithms.dola import DOLA, State
from mpinodes.core import Feedback, Inbox, Loss, Neighborhood, Query

__all__ = ["DOLAMinibatch"]

# The keys of both probes.
REGULARIZED = {"problem": {"regularizer": 1.0}, "step": {"kind": "strongly-convex", "modulus": 0.5}}


@dataclass(frozen=True)
class DOLAMinibatch(DOLA):
    """Run DOLA on mini-batches.

    The setting `regularizer_at` says where the gradient of the regularizer is taken: at the hidden x_i, as printed in
    the paper, or at the mix b_i of the releases.
    """

    regularizer_at: Annotated[
        Literal["hidden", "public"],
        Meta(
            description="the point of the regularizer's gradient. hidden: the agent's unreleased estimate, as the "
            "paper prints it; public: the mix of releases"
        ),
    ] = "hidden"

    hidden = ("x",)
    against_colluders = True
    theorems = "mpinodes.bounds.dola_minibatch"
    paper = "Li, Zhou, Chen, Jiang, Differentially Private Distributed Online Learning, Algorithm 2"
    judged_by = "average"
    defaults = {
        **DOLA.defaults,
        "data": {"name": "unit-ball", "batch": 5},
        "problem": {**DOLA.defaults["problem"], "average": True},
    }
    probes = {
        "φ times hidden w, as printed": REGULARIZED,
        "φ times public b": {**REGULARIZED, "algorithm": {"regularizer_at": "public"}},
    }

    @property
    def hides(self) -> bool:
        """Return True if `regularizer_at` = hidden: messages may then depend on state that is only sent with noise."""
        return self.regularizer_at == "hidden"

    def message(self, s: State, here: Neighborhood) -> Query:
        """Return the decision x_i as the message, with bounds on how much a replaced sample changes this message.

        The sensitivities bound the change if the sample was used in the round before. The leakage bounds the change if
        the sample was used earlier. If the regularizer's gradient is taken at the mix of the releases, a sample that
        was used earlier does not change this message, and there is no leakage.
        """
        query = super().message(s, here)
        if self.regularizer_at == "public":
            return query
        return replace(query, leaks=Feedback(query.l2, 0.0, 0.0, linear=s.made_with * self.run.regularizer))

    def update(self, s: State, here: Neighborhood, inbox: Inbox, loss: Loss) -> State:
        """Return the state of the next round: x is the projection of b − α(t) (φ x + g).

        Here b is the mix of the releases, g is the clipped gradient of the batch at b, without the regularizer, and φ
        is the weight of the regularizer. With the setting `regularizer_at` = public, φ b replaces φ x.
        """
        phi, alpha = self.run.regularizer, self.run.step(here.t)
        b = inbox.mix()
        at = s.x if self.regularizer_at == "hidden" else b
        return State(self.run.feasible.project(b - alpha * (phi * at + loss.data_grad(b))), made_with=alpha)
