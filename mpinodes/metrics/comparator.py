"""The best fixed decision in hindsight."""

from __future__ import annotations

from mpinodes.core.messages import Vector
from mpinodes.core.parts import Judged, Metric


class Value(Metric):
    """What it would have lost."""

    name = "comparator_value"
    key = "comparator.value"
    dims = ("horizon",)
    sums_agents = True
    label = "best fixed decision, per round"
    long_name = "loss of the best fixed decision"
    per_round = True

    def judge(self, run: Judged) -> Vector:
        """Min over v of Σ f(v), or a little more."""
        return run.least


class Gap(Metric):
    """How much more."""

    name = "comparator_gap"
    long_name = "certificate: most by which a fixed decision can be better still"
    key = "comparator.certificate"
    dims = ("horizon",)
    sums_agents = True
    per_round = True
    shown = False  # beside the value
    repeats = "largest"

    def judge(self, run: Judged) -> Vector:
        """The certificate."""
        return run.within


class BestDecision(Metric):
    """The decision itself."""

    name = "comparator_point"
    long_name = "best fixed decision"
    dims = ("horizon", "coordinate")
    summarized = False

    def judge(self, run: Judged) -> Vector:
        """Argmin."""
        return run.best
