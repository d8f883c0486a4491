"""The Laplace mechanism: independent Laplace noise on every coordinate (Dwork et al. 2006)."""

from __future__ import annotations

from dataclasses import dataclass

from mpinodes.core import Event, Kind, Query, Vector
from mpinodes.core.seeds import Draws
from mpinodes.mechanisms.backends import Additive, Law

__all__ = ["Laplace"]


@dataclass(frozen=True)
class Laplace(Additive):
    """Add Laplace noise to every coordinate.

    The scale is c/epsilon if `privacy.scale` states a constant c. Otherwise the scale is D/epsilon, where D is the
    query's calibration or, if the query has none, its L1 sensitivity.
    """

    def release(self, query: Query, t: int, noise: Draws, out: Vector) -> Event:
        """Write `query.value` plus noise to `out` (d,), and return the event for the accountant."""
        calibration = query.l1 if query.calibration is None else query.calibration
        scale = (calibration if self.constant is None else self.constant) / self.epsilon
        return self.draw(query, Law(Kind.LAPLACE, scale), t, noise, out)
