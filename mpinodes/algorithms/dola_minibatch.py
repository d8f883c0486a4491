"""DOLA's offline form: private distributed learning by mini-batches. The result is the average of all iterates.

C. Li, P. Zhou, G. Chen, T. Jiang, "Differentially Private Distributed Online Learning", Algorithm 2. The algorithm is
DOLA (module `dola`) with another gradient step:

    x_i <- P(b_i − α(t) (φ x_i + (1/h) Σ_{k ∈ H_t} ∇f_k(b_i)))

The symbols are:

- b_i is the mix of the received messages, α(t) is the step size, and P is the projection onto the constraint set 𝒳.
- φ is the weight of the regularizer.
- H_t is the batch of round t. It has h samples, which in the paper are in no other batch.

The noise is the noise of DOLA divided by h (Lemma 7).

The setting `regularizer_at` chooses the point of the regularizer's gradient:

- If regularizer_at = "hidden": the point is x_i, as printed. It is hidden, because only x_i plus noise is sent. So a
  sample changes all later messages, too, which Theorem 3 of the paper omits. With α(t) = 1/(λt), the privacy loss of a
  sample of round 1 is ε Σ_k (φ/λ)^k/k! instead of ε, where k = 0, 1, ... numbers the messages that depend on the
  sample.
- If regularizer_at = "public": the point is b_i. So a sample changes only one message.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from mpinodes.algorithms.dola import DOLA, State
from mpinodes.core import Feedback, Inbox, Loss, Neighborhood, Query

__all__ = ["DOLAMinibatch"]

# The keys of both probes.
REGULARIZED = {"problem": {"regularizer": 1.0}, "step": {"kind": "strongly-convex", "modulus": 0.5}}


@dataclass(frozen=True)
class DOLAMinibatch(DOLA):
    """Run DOLA on mini-batches.

    The setting `regularizer_at` chooses the point of the regularizer's gradient:

    - If `regularizer_at` = hidden: the agent's decision x_i before noise, as printed in the paper.
    - If `regularizer_at` = public: the mix b_i of the received messages.

    Attributes:
        regularizer_at: the point of the regularizer's gradient. hidden: the agent's unreleased estimate, as the paper
            prints it; public: the mix of releases
    """

    regularizer_at: Literal["hidden", "public"] = "hidden"

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
        """Return the decision x_i as the message, with its sensitivities and its leakage.

        The sensitivities bound how far a changed sample of the previous round moves the message. The leakage bounds how
        far a changed sample of an earlier round moves the message. With `regularizer_at` = public, there is no leakage.
        """
        query = super().message(s, here)
        if self.regularizer_at == "public":
            return query
        return replace(query, leaks=Feedback(query.l2, 0.0, 0.0, linear=s.made_with * self.run.regularizer))

    def update(self, s: State, here: Neighborhood, inbox: Inbox, loss: Loss) -> State:
        """Return the state of the next round, whose decision is a projected gradient step from the mix.

            x <- P(b − α(t) (φ x + g))

        b is the mix of the received messages, φ is the weight of the regularizer, and g is the clipped gradient of the
        batch at b without the regularizer. If `regularizer_at` = public, φ b replaces φ x.
        """
        phi, alpha = self.run.regularizer, self.run.step(here.t)
        b = inbox.mix()
        at = s.x if self.regularizer_at == "hidden" else b
        return State(self.run.feasible.project(b - alpha * (phi * at + loss.data_grad(b))), made_with=alpha)
