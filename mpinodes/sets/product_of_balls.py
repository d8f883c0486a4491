"""The product of L2 balls: ‖x_B‖₂ ≤ radius for the coordinates x_B of every agent's block B."""

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
    """Define the product of L2 balls: ‖x_B‖₂ ≤ radius for the coordinates x_B of every agent's block B."""

    by_blocks = True
    of_blocks = True

    def project(self, x: Vector) -> Vector:
        """Return x after projecting each agent's block onto the L2 ball of radius `radius`."""
        parts = [super(ProductOfBalls, self).project(x[..., block]) for block in self.blocks]
        return np.concatenate(parts, axis=-1)

    def support(self, g: Vector) -> float:
        """Return the support function at g, the largest ⟨g, v⟩ over v in the product: radius · Σ_B ‖g_B‖₂."""
        return sum(super(ProductOfBalls, self).support(g[block]) for block in self.blocks)

    def cones(self, used: NDArray[np.int64]) -> list[Cone]:
        """Return one constraint for each block: the coordinates `used` of the block have L2 norm at most the radius."""
        places = [np.flatnonzero((used >= block.start) & (used < block.stop)) for block in self.blocks]
        return [self.cone(block, len(used)) for block in places]
