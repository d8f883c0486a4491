"""No noise: the release is the value itself, and nothing is private."""

from __future__ import annotations

from dataclasses import dataclass

from mpinodes.core.protocol import Event, Kind, Query, Vector
from mpinodes.core.seeds import Stream

__all__ = ["NoNoise"]


@dataclass(frozen=True)
class NoNoise:
    """The identity."""

    def release(self, query: Query, t: int, noise: Stream, out: Vector) -> Event:
        """`query.value`, into `out`: (d,)."""
        out[:] = query.value
        return Event.of(query, Kind.CLEAN, 0.0)
