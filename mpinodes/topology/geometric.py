"""Define a random geometric graph, which stays the same in all rounds."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi, sqrt
from typing import Annotated

import numpy as np
from msgspec import Meta

from mpinodes.core.parts import Matrix
from mpinodes.topology.base import Connected, titled

__all__ = ["Geometric"]


@dataclass(frozen=True)
class Geometric(Connected):
    """Place agents at random in the unit square, and join any two agents at a distance below `radius` (Gilbert 1961).

    The places are drawn again until the graph is connected, at most `ATTEMPTS` times.

    Attributes:
        radius: agents in the unit square are joined if their distance is below this
    """

    radius: Annotated[float, Meta(gt=0)] = 0.5

    title = titled("random geometric graph, radius {0.radius:g}")

    def draw(self, rng: np.random.Generator) -> Matrix:
        """Draw one graph, which need not be connected, and return its adjacency matrix (n, n)."""
        x, y = rng.random((2, self.agents))
        near: Matrix = np.hypot(x - x[:, None], y - y[:, None]) < self.radius
        np.fill_diagonal(near, False)
        return near

    @property
    def too_sparse(self) -> tuple[str, str]:
        """Return two texts for an error message: the value of `radius`, and which larger values may suffice."""
        n = self.agents
        return f"radius = {self.radius:g}", f"{sqrt(log(n) / (pi * n)):.2g} or more usually gives a connected graph"
