"""The Laplace mechanism: independent Laplace noise on every coordinate (Dwork et al. 2006)."""

from __future__ import annotations

from dataclasses import dataclass

from mpinodes.core.protocol import Event, Kind, Query, Vector
from mpinodes.core.seeds import Stream
from mpinodes.mechanisms.backends import Backend, Law, plain

__all__ = ["Laplace"]


@dataclass(frozen=True)
class Laplace:
    """Scale D1/epsilon, D1 the query's nominal L1 sensitivity, or c/epsilon where a constant c is given."""

    epsilon: float
    constant: float | None
    backend: Backend = plain

    def release(self, query: Query, t: int, noise: Stream, out: Vector) -> Event:
        """`query.value` plus noise, into `out`: (d,)."""
        nominal = query.l1 if query.nominal is None else query.nominal
        scale = (nominal if self.constant is None else self.constant) / self.epsilon
        return self.backend(query, Law(Kind.LAPLACE, scale), t, noise, out)
