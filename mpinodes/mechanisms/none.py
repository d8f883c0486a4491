"""No noise: the release is the value itself, so the mechanism gives no privacy."""

from __future__ import annotations

from dataclasses import dataclass

from mpinodes.core import Event, Kind, Mechanism, Query, Vector
from mpinodes.core.seeds import Draws

__all__ = ["NoNoise"]


@dataclass(frozen=True)
class NoNoise(Mechanism):
    """Release values without noise."""

    def release(self, query: Query, t: int, noise: Draws, out: Vector) -> Event:
        """Write `query.value` to `out` (d,), and return a privacy event that says that there is no noise."""
        out[:] = query.value
        return Event.of(query, Kind.CLEAN, 0.0)
