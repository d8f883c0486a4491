"""Define metrics of the best fixed decision in hindsight, with which regret is compared."""

from __future__ import annotations

from mpinodes.core.messages import Vector
from mpinodes.core.parts import Judged, Metric


class Value(Metric):
    """Measure the loss of the best fixed decision."""

    name = "comparator_value"
    key = "comparator.value"
    dims = ("horizon",)
    sums_agents = True
    label = "best fixed decision, per round"
    long_name = "loss of the best fixed decision"
    per_round = True

    def judge(self, run: Judged) -> Vector:
        """Return Σ f(v) at the best decision v that was found, at each horizon (h,)."""
        return run.least


class Gap(Metric):
    """Measure the certificate of the best fixed decision: how much better a fixed decision can be at most."""

    name = "comparator_gap"
    long_name = "certificate: most by which a fixed decision can be better still"
    key = "comparator.certificate"
    dims = ("horizon",)
    sums_agents = True
    per_round = True
    shown = False  # beside the value
    repeats = "largest"

    def judge(self, run: Judged) -> Vector:
        """Return the certificate at each horizon (h,)."""
        return run.within


class BestDecision(Metric):
    """Record the best fixed decision."""

    name = "comparator_point"
    long_name = "best fixed decision"
    dims = ("horizon", "coordinate")
    summarized = False

    def judge(self, run: Judged) -> Vector:
        """Return the best fixed decision at each horizon (h, d)."""
        return run.best
