"""Define an Erdős–Rényi random graph, which stays the same in all rounds."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np

from mpinodes.core.parts import Matrix
from mpinodes.topology.base import Connected, PositiveProbability, erdos_renyi, titled

__all__ = ["ErdosRenyi"]


@dataclass(frozen=True)
class ErdosRenyi(Connected):
    """Draw an undirected Erdős–Rényi graph G(n, p) that is connected (Gilbert 1959, Erdős and Rényi 1960).

    Graphs are drawn until a drawn graph is connected; p is `probability`.
    """

    probability: PositiveProbability = 0.5

    title = titled("Erdős–Rényi graph, p = {0.probability:g}")

    def draw(self, rng: np.random.Generator) -> Matrix:
        """Draw one graph, which need not be connected, and return its adjacency matrix (n, n)."""
        return erdos_renyi(self.agents, self.probability, rng)

    @property
    def too_sparse(self) -> tuple[str, str]:
        """Return two texts for an error message: the value of `probability`, and which larger values may suffice."""
        return (
            f"probability = {self.probability:g}",
            f"{log(self.agents) / self.agents:.2g} or more usually gives a connected graph",
        )
