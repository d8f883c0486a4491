"""Steps that decrease as 1/t in the rounds t = 1, 2, ...: alpha(t) = initial / t."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from mpinodes.core.experiment import Finite
from mpinodes.core.parts import Schedule

__all__ = ["Inverse"]


@dataclass(frozen=True)
class Inverse(Schedule):
    """Give the steps alpha(t) = initial / t."""

    initial: Annotated[Finite, Meta(description="the step of round 1")] = 1.0

    def __call__(self, t: int) -> float:
        """Return the step initial / t of round t."""
        return self.initial / t
