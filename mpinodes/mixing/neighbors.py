"""The mean of the neighbours: a_ij = 1/V_i for each of the V_i neighbours j, 0 for agent i itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mpinodes.core import Mixing, Neighborhood, Vector

__all__ = ["Neighbors"]


@dataclass(frozen=True)
class Neighbors(Mixing):
    """Needs no scalars."""

    anytime = True
    undirected = True
    fixed = True

    def weights(self, s: None, here: Neighborhood, incoming: Sequence[Vector]) -> tuple[None, list[float], float]:
        """Equal weights, save for agent `here.agent`."""
        return None, [0.0 if j == here.agent else 1 / len(here.in_neighbors) for j in here.senders], 1.0
