"""Define a product of L2 balls, one for each agent: ‖x_B‖₂ ≤ radius for the coordinates x_B of an agent's block B."""

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
    """Define a product of L2 balls, one for each agent.

    Each agent has a block B of the coordinates. The set has all x with ‖x_B‖₂ ≤ radius for every block B.
    """

    by_blocks = True
    of_blocks = True

    def project(self, x: Vector) -> Vector:
        """Return the projection of x: each agent's block is projected onto the L2 ball of radius `radius`."""
        return np.concatenate([super(ProductOfBalls, self).project(x[..., block]) for block in self.blocks], axis=-1)

    def support(self, g: Vector) -> float:
        """Return the support function of the set at g, the largest ⟨g, v⟩ over v in the set.

        The result is radius · Σ_B ‖g_B‖₂, the sum over all blocks B.
        """
        return sum(super(ProductOfBalls, self).support(g[block]) for block in self.blocks)

    def cones(self, used: NDArray[np.int64]) -> list[Cone]:
        """Describe the set by one cone constraint for each block, for the solver of the best fixed decision.

        The constraint says that the block's coordinates in `used` have L2 norm at most `radius`.
        """
        places = [np.flatnonzero((used >= block.start) & (used < block.stop)) for block in self.blocks]
        return [self.cone(block, len(used)) for block in places]
