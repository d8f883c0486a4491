"""Uniform row-stochastic weights: a_ij = 1/deg_i, where deg_i counts agent i itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mpinodes.core import Mixing, Neighborhood, Vector

__all__ = ["Uniform"]


@dataclass(frozen=True)
class Uniform(Mixing):
    """Needs no scalars: an agent counts what it hears. Its columns need not sum to 1."""

    undirected = True
    under_faults = "rows sum to 1, and columns do not: agents agree, but not on the mean"

    def weights(self, s: None, here: Neighborhood, incoming: Sequence[Vector]) -> tuple[None, list[float], float]:
        """The mean of all that was heard."""
        degree = len(incoming)
        return None, [1 / degree] * degree, 1.0
