"""Define the contract of constraint sets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mpinodes.core.messages import Vector


class Cone(NamedTuple):
    """A constraint on v: h − G v has no negative entry, or its first entry is at least the norm of the other entries.

    Attributes:
        rows: G, a dense or sparse array with a column for each coordinate of v.
        bounds: h.
        second_order: whether the constraint is of the second kind.
    """

    rows: Any
    bounds: Vector
    second_order: bool = False


@dataclass(frozen=True, repr=False, eq=False)
class Set(ABC):
    """Define a closed convex set 𝒳 with its exact Euclidean projection.

    Attributes:
        radius: `problem.radius`, for sets that have a radius.
        blocks: the coordinates of each agent.
    """

    radius: float = 1.0
    blocks: tuple[slice, ...] = ()

    bounded: ClassVar[bool] = True
    # Whether an agent's block of the projection depends on that block alone.
    by_blocks: ClassVar[bool] = False
    # Whether 𝒳 is a product of sets, one for each agent's block; `reach` is then that of one block.
    of_blocks: ClassVar[bool] = False
    # Whether a point of 𝒳 stays in 𝒳 when some of its coordinates are set to 0.
    solid: ClassVar[bool] = False

    @abstractmethod
    def project(self, x: Vector) -> Vector:
        """Return the point of 𝒳 that is nearest to x; both have shape (d,)."""

    @abstractmethod
    def support(self, g: Vector) -> float:
        """Return the largest ⟨g, v⟩ over v in 𝒳; inf if the products are unbounded."""

    @abstractmethod
    def reach(self, d: int) -> float:
        """Return the largest ‖v‖₂ over v in 𝒳; inf if 𝒳 is unbounded.

        Args:
            d: the number of coordinates of v. If 𝒳 is a product of blocks (`of_blocks`), v is one agent's block.
        """

    @property
    def inradius(self) -> float:
        """Return the radius of a ball around 0 that lies in 𝒳; inf for R^d.

        A set that overrides it needs `within` too.
        """
        return 0.0

    def within(self, margin: float) -> Self:
        """Return a subset of 𝒳 around whose points a ball of radius `margin` < `inradius` lies in 𝒳.

        R^d returns itself.
        """
        raise NotImplementedError(f"{type(self).__name__} has no within")

    def cones(self, used: NDArray[np.int64]) -> list[Cone]:
        """Return constraints which say that a vector is in 𝒳 if it is 0 outside the coordinates `used`.

        If the set is not `solid`, `used` has all coordinates. If a class has no `cones` of its own, the best decision
        is computed by projections alone. Projections take longer, and are less accurate for losses with kinks.
        """
        raise NotImplementedError(f"{type(self).__name__} has no cones")

    @property
    def has_cones(self) -> bool:
        """Return whether the class overrides `cones`."""
        return type(self).cones is not Set.cones

    def diameter(self, d: int) -> float:
        """Return a bound on ‖v − w‖₂ over v and w in 𝒳; inf if 𝒳 is unbounded.

        Args:
            d: the number of coordinates of v and w, as in `reach`.
        """
        return 2 * self.reach(d)

    def prox_step(self, z: Vector, alpha: float) -> Vector:
        """Return argmin over v in 𝒳 of ⟨z, v⟩ + ‖v‖²/(2α), which is P(−αz)."""
        return self.project(-alpha * z)
