"""DOLA's offline form: private distributed learning by mini-batches, with the average iterate as its result.

C. Li, P. Zhou, G. Chen, T. Jiang, "Differentially Private Distributed Online Learning", Algorithm 2. Each batch H_t has
h samples that no other batch has, φ is the regularizer, and step 6 is

    x_i <- P(b_i − α(t) (φ x_i + (1/h) Σ_{k ∈ H_t} ∇f_k(b_i)))

The noise is that of Algorithm 1 divided by h (Lemma 7). As printed, φ multiplies the hidden x_i. A change δ of x_i then
leaves α(t) φ δ in the next message, beyond what was released. Theorem 3 omits this: for α(t) = 1/(λt) the loss is ε Σ_k
(φ/λ)^k/k! instead of ε. With regularizer_at = "public", φ multiplies b_i; this is the gradient of f + (φ/2)‖·‖² at b_i.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from msgspec import Meta

from mpinodes.algorithms.dola import DOLA, State
from mpinodes.core import Feedback, Inbox, Loss, Neighborhood, Query

__all__ = ["DOLAMinibatch"]

REGULARIZED = {"problem": {"regularizer": 1.0}, "step": {"kind": "strongly-convex", "modulus": 0.5}}  # of probes


@dataclass(frozen=True)
class DOLAMinibatch(DOLA):
    """Run Algorithm 2 of the paper."""

    regularizer_at: Annotated[
        Literal["hidden", "public"],
        Meta(
            description="where the regularizer's gradient is taken: hidden, as the paper prints it, at the agent's "
            "unreleased estimate; public: at the mix of releases"
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

    def message(self, s: State, here: Neighborhood) -> Query:
        """Return x_i, to be released as m_i.

        If φ multiplies the hidden x_i, the message states what leaks of older changes.
        """
        query = super().message(s, here)
        if self.regularizer_at == "public":
            return query
        return replace(query, leaks=Feedback(query.l2, 0.0, 0.0, linear=s.made_with * self.run.regularizer))

    def update(self, s: State, here: Neighborhood, inbox: Inbox, loss: Loss) -> State:
        """Return x_i of the next round, by step 6."""
        phi, alpha = self.run.regularizer, self.run.step(here.t)
        b = inbox.mix()
        at = s.x if self.regularizer_at == "hidden" else b
        return State(self.run.feasible.project(b - alpha * (phi * at + loss.data_grad(b))), made_with=alpha)
