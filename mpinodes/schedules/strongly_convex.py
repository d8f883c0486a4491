"""Define step sizes for strongly convex losses: alpha(t) = 1 / (modulus * (t + offset)) in the rounds t = 1, 2, ..."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from mpinodes.core.experiment import Finite
from mpinodes.core.parts import Schedule

__all__ = ["StronglyConvex"]


@dataclass(frozen=True)
class StronglyConvex(Schedule):
    """Use the step size alpha(t) = 1 / (modulus * (t + offset)) in round t, for strongly convex losses.

    Attributes:
        modulus: modulus of strong convexity; default: problem.regularizer, times the algorithm's share
        offset: the number added to t
    """

    modulus: Finite
    offset: Annotated[float, Meta(ge=0, le=1e9)] = 0.0

    from_losses = "modulus"

    def __call__(self, t: int) -> float:
        """Return the step size of round t: 1 / (modulus * (t + offset))."""
        return 1 / (self.modulus * (t + self.offset))
