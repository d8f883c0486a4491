"""Define the step sizes of the doubling trick: alpha(t) = initial / sqrt(2^m) in the rounds t = 2^m .. 2^(m+1) − 1."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from mpinodes.core.experiment import Finite
from mpinodes.core.parts import Schedule

__all__ = ["Doubling"]


@dataclass(frozen=True)
class Doubling(Schedule):
    """Use the step sizes of the doubling trick: alpha(t) = initial / sqrt(2^m) in the rounds t = 2^m .. 2^(m+1) − 1.

    Attributes:
        initial: the step of round 1
    """

    initial: Finite = 1.0

    def __call__(self, t: int) -> float:
        """Return the step size of round t: initial / sqrt(2^m), where 2^m is the largest power of two up to t."""
        return self.initial / sqrt(1 << (t.bit_length() - 1))
