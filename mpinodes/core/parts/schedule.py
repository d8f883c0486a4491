"""Define the base class of step schedules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, repr=False, eq=False)
class Schedule(ABC):
    """Define the step size of each round t = 1, 2, ... A step size is positive and finite, and depends only on t."""

    # The setting whose default is the losses' modulus of strong convexity (`problem.regularizer`); empty: no setting.
    from_losses: ClassVar[str] = ""
    from_rounds: ClassVar[str] = ""  # the setting whose default is the number of rounds (`rounds`); empty: no setting

    @abstractmethod
    def __call__(self, t: int) -> float:
        """Return the step size of round t."""
