"""The Gaussian mechanism: independent normal noise on every coordinate (Dwork, Roth 2014, section 3.5.3)."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from mpinodes.core import Event, Kind, Query, Vector
from mpinodes.core.errors import BadInput
from mpinodes.core.seeds import Draws
from mpinodes.mechanisms.backends import Additive, Law, backend

__all__ = ["Gaussian"]


@dataclass(frozen=True)
class Gaussian(Additive):
    """Add independent Gaussian noise to every coordinate.

    If `privacy.scale` is a number c, the standard deviation is c/epsilon. Otherwise the algorithm states the standard
    deviation with each value, in the field `calibration` of the query.
    """

    scale_is = "standard deviation"
    pure = False

    def release(self, query: Query, t: int, noise: Draws, out: Vector) -> Event:
        """Write `query.value` plus noise to `out` (d,), and return the privacy event (noise and sensitivity).

        Raises:
            BadInput: the algorithm states no finite standard deviation in `Query.calibration`. The error is raised even
                if `privacy.scale` is a number.
            Diverged: the value is not finite, the noise is not 0, and the backend is lattice or opendp.
        """
        if query.calibration is None or not isfinite(query.calibration):
            raise BadInput(
                f"message() of agent {noise.agent}, round {t}: the calibration of the Query is {query.calibration}, "
                "but must be the standard deviation of Gaussian noise; for (epsilon, delta)-DP of each release write "
                "Query(..., calibration=l2 / self.run.gdp(self.run.epsilon, self.run.delta))"
            )
        scale = query.calibration if self.constant is None else self.constant / self.epsilon
        return backend(self.backend)(query, Law(Kind.GAUSSIAN, scale), t, noise, out)
