"""The Laplace mechanism: independent Laplace noise on every coordinate (Dwork et al. 2006)."""

from __future__ import annotations

from dataclasses import dataclass

from mpinodes.core import Event, Kind, Query, Vector
from mpinodes.core.seeds import Draws
from mpinodes.mechanisms.backends import Additive, Law

__all__ = ["Laplace"]


@dataclass(frozen=True)
class Laplace(Additive):
    """Add independent Laplace noise to every coordinate.

    If `privacy.scale` is a number c, the scale is c/epsilon. Otherwise, if the algorithm states a number in the field
    `calibration` of the query, the scale is calibration/epsilon. Otherwise the scale is the query's L1
    sensitivity/epsilon.
    """

    def release(self, query: Query, t: int, noise: Draws, out: Vector) -> Event:
        """Write `query.value` plus noise to `out` (d,), and return the privacy event (noise and sensitivity).

        Raises:
            Diverged: the backend cannot add noise to the value, as in `Additive.draw`.
        """
        calibration = query.l1 if query.calibration is None else query.calibration
        scale = (calibration if self.constant is None else self.constant) / self.epsilon
        return self.draw(query, Law(Kind.LAPLACE, scale), t, noise, out)
