"""The mean of the neighbours: a_ij = 1/V_i for each of the V_i neighbours j, and a_ii = 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mpinodes.core import Mixing, Neighborhood, Vector

__all__ = ["Neighbors"]


@dataclass(frozen=True)
class Neighbors(Mixing):
    """Mix by the mean of the neighbours. Agents send no scalars."""

    anytime = True
    undirected = True
    fixed = True

    def weights(self, s: None, here: Neighborhood, incoming: Sequence[Vector]) -> tuple[None, list[float], float]:
        """Return no state, the weights a_ij (k,) with 0 for the agent itself, and the scale 1."""
        return None, [0.0 if j == here.agent else 1 / len(here.in_neighbors) for j in here.senders], 1.0
