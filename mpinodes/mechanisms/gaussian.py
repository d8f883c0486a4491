"""The Gaussian mechanism: independent normal noise on every coordinate (Dwork, Roth 2014, section 3.5.3)."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from mpinodes.core import Event, Kind, Query, Vector
from mpinodes.core.errors import BadInput
from mpinodes.core.seeds import Draws
from mpinodes.mechanisms.backends import Additive, Law

__all__ = ["Gaussian"]

_KIND = Kind.GAUSSIAN  # a member is looked up for as long as two numbers are added


@dataclass(frozen=True)
class Gaussian(Additive):
    """The query's calibration: its standard deviation, or c/epsilon where a constant c is given."""

    def release(self, query: Query, t: int, noise: Draws, out: Vector) -> Event:
        """`query.value` plus noise, into `out`: (d,)."""
        if query.calibration is None or not isfinite(query.calibration):
            raise BadInput(
                f"message() of agent {noise.agent}, round {t}: calibration={query.calibration}: Gaussian noise needs "
                "its standard deviation; for (epsilon, delta) of each release write "
                "Query(..., calibration=l2 / self.run.gdp(self.run.epsilon, self.run.delta))"
            )
        scale = query.calibration if self.constant is None else self.constant / self.epsilon
        law = tuple.__new__(Law, (_KIND, scale))  # as Law(...), which is one more call
        return self._draw(query, law, t, noise, out)
