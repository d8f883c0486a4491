"""The Laplace mechanism: independent Laplace noise on every coordinate (Dwork et al. 2006)."""

from __future__ import annotations

from dataclasses import dataclass

from mpinodes.core import Event, Kind, Query, Vector
from mpinodes.core.seeds import Draws
from mpinodes.mechanisms.backends import Additive, Law, backend

__all__ = ["Laplace"]


@dataclass(frozen=True)
class Laplace(Additive):
    """Add independent Laplace noise to every coordinate.

    The scale is a constant divided by epsilon. The constant is the first of these numbers that exists:

    - the number c of the setting `privacy.scale`;
    - the number that the algorithm states in the field `calibration` of the query;
    - the L1 sensitivity of the query.
    """

    def release(self, query: Query, t: int, noise: Draws, out: Vector) -> Event:
        """Write `query.value` plus noise to `out` (d,), and return the privacy event (noise and sensitivity).

        Raises:
            Diverged: the value is not finite, the noise is not 0, and the backend is lattice or opendp.
        """
        calibration = query.l1 if query.calibration is None else query.calibration
        scale = (calibration if self.constant is None else self.constant) / self.epsilon
        return backend(self.backend)(query, Law(Kind.LAPLACE, scale), t, noise, out)
