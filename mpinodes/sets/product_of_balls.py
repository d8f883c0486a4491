"""The product of L2 balls: ‖x_B‖₂ ≤ radius for the block B of every agent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mpinodes.core.messages import Vector
from mpinodes.core.parts import Cone
from mpinodes.sets.ball import Ball

__all__ = ["ProductOfBalls"]


@dataclass(frozen=True)
class ProductOfBalls(Ball):
    """The product of L2 balls: ‖x_B‖₂ ≤ radius for the block B of every agent."""

    by_blocks = True
    of_blocks = True

    def project(self, x: Vector) -> Vector:
        """Project each block to its own ball."""
        return np.concatenate([super(ProductOfBalls, self).project(x[block]) for block in self.blocks])

    def support(self, g: Vector) -> float:
        """Return the support function radius · Σ_B ‖g_B‖₂."""
        return sum(super(ProductOfBalls, self).support(g[block]) for block in self.blocks)

    def cones(self, used: NDArray[np.int64]) -> list[Cone]:
        """Return the bound on the norm of each block."""
        places = [np.flatnonzero((used >= block.start) & (used < block.stop)) for block in self.blocks]
        return [self.cone(block, len(used)) for block in places]
