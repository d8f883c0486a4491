"""Define the constant step size: alpha(t) = value in every round t."""

from __future__ import annotations

from dataclasses import dataclass

from mpinodes.core.experiment import Finite
from mpinodes.core.parts import Schedule

__all__ = ["Constant"]


@dataclass(frozen=True)
class Constant(Schedule):
    """Use the same step size in every round: alpha(t) = value.

    Attributes:
        value: the step of every round
    """

    value: Finite = 0.1

    def __call__(self, t: int) -> float:
        """Return the step size `value`, for every round t."""
        return self.value
