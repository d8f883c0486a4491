"""The contract of step schedules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, repr=False, eq=False)
class Schedule(ABC):
    """The steps of an algorithm: a pure function of the round t = 1, 2, ..., positive and finite."""

    # The setting whose default is the losses' strong convexity (`problem.regularizer`); empty: there is none.
    from_losses: ClassVar[str] = ""

    @abstractmethod
    def __call__(self, t: int) -> float:
        """Return the step of round t."""
