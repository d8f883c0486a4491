"""Define step sizes that decrease as 1/sqrt(t): alpha(t) = initial / sqrt(t) in the rounds t = 1, 2, ..."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from mpinodes.core.experiment import Finite
from mpinodes.core.parts import Schedule

__all__ = ["InverseSqrt"]


@dataclass(frozen=True)
class InverseSqrt(Schedule):
    """Use the step size alpha(t) = initial / sqrt(t) in round t.

    Attributes:
        initial: the step of round 1
    """

    initial: Finite = 1.0

    def __call__(self, t: int) -> float:
        """Return the step size of round t: initial / sqrt(t)."""
        return self.initial / sqrt(t)
