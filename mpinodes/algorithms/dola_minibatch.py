"""DOLA's offline form: private distributed learning by mini-batches, with the average iterate as its result.

C. Li, P. Zhou, G. Chen, T. Jiang, "Differentially Private Distributed Online Learning", Algorithm 2, with
batches H_t of h samples that no other batch has, φ the regularizer, and (step 6)

    x_i <- P(b_i − α(t) (φ x_i + (1/h) Σ_{k ∈ H_t} ∇f_k(b_i)))

The noise is that of Algorithm 1 divided by h (Lemma 7). As printed, φ multiplies the hidden x_i: a change δ of it
leaves α(t) φ δ in the next message, beyond what was released, which Theorem 3 leaves out: ε Σ_k (φ/λ)^k/k! instead of ε
for α(t) = 1/(λt). With regularizer_at = "public", φ multiplies b_i, as the gradient of f + (φ/2)‖·‖² at b_i does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from mpinodes.algorithms.dola import DOLA, State
from mpinodes.core import Bound, Feedback, Horizons, Inbox, Loss, Neighborhood, Query, Setup, Vector

__all__ = ["DOLAMinibatch"]


@dataclass(frozen=True)
class DOLAMinibatch(DOLA):
    """Algorithm 2."""

    regularizer_at: Literal["hidden", "public"] = "hidden"

    hidden = ("x",)
    against_colluders = True
    paper = "Li, Zhou, Chen, Jiang, Differentially Private Distributed Online Learning, Algorithm 2"
    judged_by = "average"
    defaults = {
        **DOLA.defaults,
        "data": {"name": "unit-ball", "batch": 5},
        "problem": {**DOLA.defaults["problem"], "average": True},
    }

    def message(self, s: State, here: Neighborhood) -> Query:
        """m_i, which keeps a share of an older change of a hidden x_i."""
        query = super().message(s, here)
        if self.regularizer_at == "public":
            return query
        return replace(query, leaks=Feedback(query.l2, 0.0, 0.0, linear=s.made_with * self.run.regularizer))

    def update(self, s: State, here: Neighborhood, inbox: Inbox, loss: Loss) -> State:
        """Step 6."""
        phi, alpha = self.run.regularizer, self.run.step(here.t)
        b = inbox.mix()
        at = s.x if self.regularizer_at == "hidden" else b
        return State(self.run.feasible.project(b - alpha * (phi * at + loss.data_grad(b))), made_with=alpha)

    def bounds(self, setup: Setup, horizons: Horizons, minimizer: Vector) -> list[Bound]:
        """Theorem 4."""
        from mpinodes.bounds.dola_minibatch import bounds

        return bounds(setup, horizons, minimizer)
