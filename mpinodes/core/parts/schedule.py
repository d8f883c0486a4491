"""Define the contract of step schedules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, repr=False, eq=False)
class Schedule(ABC):
    """Give the step of round t = 1, 2, ...: a pure function of t, positive and finite."""

    # The setting whose default is the losses' modulus of strong convexity (`problem.regularizer`); empty: no setting.
    from_losses: ClassVar[str] = ""

    @abstractmethod
    def __call__(self, t: int) -> float:
        """Return the step of round t."""
