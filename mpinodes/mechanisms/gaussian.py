"""The Gaussian mechanism: independent normal noise on every coordinate (Dwork, Roth 2014, section 3.5.3)."""

from __future__ import annotations

from dataclasses import dataclass

from mpinodes.core.protocol import Event, Kind, Query, Vector
from mpinodes.core.seeds import Stream
from mpinodes.mechanisms.backends import Backend, Law, plain

__all__ = ["Gaussian"]


@dataclass(frozen=True)
class Gaussian:
    """The query's nominal standard deviation, or c/epsilon where a constant c is given."""

    epsilon: float
    constant: float | None
    backend: Backend = plain

    def release(self, query: Query, t: int, noise: Stream, out: Vector) -> Event:
        """`query.value` plus noise, into `out`: (d,)."""
        if query.nominal is None:
            raise ValueError("Gaussian noise needs a query with a nominal standard deviation")
        scale = query.nominal if self.constant is None else self.constant / self.epsilon
        return self.backend(query, Law(Kind.GAUSSIAN, scale), t, noise, out)
