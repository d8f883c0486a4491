"""Define step sizes that decrease as 1/t: alpha(t) = initial / t in the rounds t = 1, 2, ..."""

from __future__ import annotations

from dataclasses import dataclass

from mpinodes.core.experiment import Finite
from mpinodes.core.parts import Schedule

__all__ = ["Inverse"]


@dataclass(frozen=True)
class Inverse(Schedule):
    """Use the step size alpha(t) = initial / t in round t.

    Attributes:
        initial: the step of round 1
    """

    initial: Finite = 1.0

    def __call__(self, t: int) -> float:
        """Return the step size of round t: initial / t."""
        return self.initial / t
