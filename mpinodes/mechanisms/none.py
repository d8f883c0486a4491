"""No noise: the release is the value itself, and nothing is private."""

from __future__ import annotations

from dataclasses import dataclass

from mpinodes.core import Event, Kind, Mechanism, Query, Vector
from mpinodes.core.seeds import Draws

__all__ = ["NoNoise"]


@dataclass(frozen=True)
class NoNoise(Mechanism):
    """The identity."""

    def release(self, query: Query, t: int, noise: Draws, out: Vector) -> Event:
        """`query.value`, into `out`: (d,)."""
        out[:] = query.value
        return Event.of(query, Kind.CLEAN, 0.0)
