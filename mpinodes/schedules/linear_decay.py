"""Define step sizes that decrease linearly to almost 0 over the rounds of a run."""

from __future__ import annotations

from dataclasses import dataclass

from mpinodes.core.experiment import Count, Finite
from mpinodes.core.parts import Schedule

__all__ = ["LinearDecay"]


@dataclass(frozen=True)
class LinearDecay(Schedule):
    """Use the step size alpha(t) = initial * (T + 1 - t) / T in round t, where T is the number of rounds.

    The step size of round T is initial / T. Rounds after T use the same step size.

    Attributes:
        initial: the step of round 1
        rounds: T, the round in which the step is smallest; default: rounds
    """

    initial: Finite = 1.0
    rounds: Count = 100

    from_rounds = "rounds"

    def __call__(self, t: int) -> float:
        """Return the step size of round t."""
        return self.initial * max(self.rounds + 1 - t, 1) / self.rounds
