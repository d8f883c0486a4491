"""The contract of constraint sets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mpinodes.core.messages import Vector


class Cone(NamedTuple):
    """Constraints on v: all entries of h − G v are at least 0, or the first entry is at least the norm of the others.

    Attributes:
        rows: G, a dense or sparse array of a column for each coordinate.
        bounds: h.
        second_order: whether the second is meant.
    """

    rows: Any
    bounds: Vector
    second_order: bool = False


@dataclass(frozen=True, repr=False, eq=False)
class Set(ABC):
    """A closed convex set 𝒳, with its exact Euclidean projection.

    Attributes:
        radius: `problem.radius`, for sets that have one.
        blocks: the coordinates of each agent.
    """

    radius: float = 1.0
    blocks: tuple[slice, ...] = ()

    bounded: ClassVar[bool] = True
    by_blocks: ClassVar[bool] = False  # whether an agent's block of the projection depends on that block alone
    # Whether 𝒳 is a product of a set for each agent's own block: then `reach` is that of one block.
    of_blocks: ClassVar[bool] = False
    solid: ClassVar[bool] = False  # whether a point of 𝒳 stays in 𝒳 when some of its coordinates are set to 0

    @abstractmethod
    def project(self, x: Vector) -> Vector:
        """Return the point of 𝒳 that is nearest to x: (d,) -> (d,)."""

    @abstractmethod
    def support(self, g: Vector) -> float:
        """Return the largest ⟨g, v⟩ over v in 𝒳; inf: there is none."""

    @abstractmethod
    def reach(self, d: int) -> float:
        """Return the largest ‖v‖₂ over v in 𝒳, of d coordinates of one agent; inf: there is none."""

    @property
    def inradius(self) -> float:
        """The radius of a ball around 0 that lies in 𝒳; inf: 𝒳 is R^d. A set that states it has `within` too."""
        return 0.0

    def within(self, margin: float) -> Self:
        """Return a set of points around which a ball of radius `margin` < `inradius` lies in 𝒳; R^d returns itself."""
        raise NotImplementedError(f"{type(self).__name__} has no within")

    def cones(self, used: NDArray[np.int64]) -> list[Cone]:
        """Return constraints on the coordinates `used` that say that v, which is 0 elsewhere, is in 𝒳.

        If the set is not `solid`, `used` has all coordinates. If a class has no `cones` of its own, the best decision
        is found by projections alone, which take longer and come less near for losses with kinks.
        """
        raise NotImplementedError(f"{type(self).__name__} has no cones")

    @property
    def has_cones(self) -> bool:
        """Whether the class has `cones` of its own."""
        return type(self).cones is not Set.cones

    def diameter(self, d: int) -> float:
        """Return a bound on ‖v − w‖₂ over v and w in 𝒳, of d coordinates of one agent; inf: there is none."""
        return 2 * self.reach(d)

    def prox_step(self, z: Vector, alpha: float) -> Vector:
        """Return argmin over v in 𝒳 of ⟨z, v⟩ + ‖v‖²/(2α), which is P(−αz)."""
        return self.project(-alpha * z)
