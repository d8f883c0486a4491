"""Define the base class of constraint sets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mpinodes.core.messages import Vector


class Cone(NamedTuple):
    """Hold a constraint on a vector v: the vector u = h − G v is nonnegative, or lies in the second-order cone.

    Attributes:
        rows: G, a dense or sparse array with a column for each coordinate of v.
        bounds: h.
        second_order: False: u ≥ 0 in every entry. True: u_1 ≥ ‖(u_2, u_3, ...)‖₂.
    """

    rows: Any
    bounds: Vector
    second_order: bool = False


@dataclass(frozen=True, repr=False, eq=False)
class Set(ABC):
    """Define a closed convex set 𝒳 and the Euclidean projection onto it.

    Attributes:
        radius: `problem.radius`, for sets that have a radius.
        blocks: for each agent, the coordinates that the agent decides.
    """

    radius: float = 1.0
    blocks: tuple[slice, ...] = ()

    bounded: ClassVar[bool] = True
    # Whether each agent's block of the projection of x depends only on the same block of x.
    by_blocks: ClassVar[bool] = False
    # Whether 𝒳 is a product of sets, one for the block of each agent; `reach` is then computed for one block.
    of_blocks: ClassVar[bool] = False
    # Whether a point of 𝒳 stays in 𝒳 when some of its coordinates are set to 0.
    solid: ClassVar[bool] = False

    @abstractmethod
    def project(self, x: Vector) -> Vector:
        """Return the point of 𝒳 that is nearest to x; both have shape (d,)."""

    @abstractmethod
    def support(self, g: Vector) -> float:
        """Return the maximum of ⟨g, v⟩ over all v in 𝒳; inf if there is no maximum."""

    @abstractmethod
    def reach(self, d: int) -> float:
        """Return the maximum of ‖v‖₂ over all v in 𝒳; inf if 𝒳 is unbounded.

        Args:
            d: the number of coordinates of v. If 𝒳 is a product of blocks (`of_blocks`), v is the block of one agent.
        """

    @property
    def inradius(self) -> float:
        """Return the radius of a ball around 0 that is contained in 𝒳; by default 0, and inf for R^d.

        A class that overrides `inradius` must override `within` too.
        """
        return 0.0

    def within(self, margin: float) -> Self:
        """Return a subset of 𝒳 whose points have at least the distance `margin` from the boundary of 𝒳.

        `margin` must be less than `inradius`. For 𝒳 = R^d the result is 𝒳. The base class raises NotImplementedError.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define the method within")

    def cones(self, used: NDArray[np.int64]) -> list[Cone]:
        """Return cone constraints that describe 𝒳. A solver uses them to compute the best fixed decision.

        By default, this method raises NotImplementedError. The best fixed decision is then computed by other methods,
        which take longer and are less accurate for nonsmooth losses.

        Args:
            used: indices of coordinates. The constraints are on the vector v of these coordinates, for the points of 𝒳
                whose other coordinates are 0. If the class attribute `solid` is false, `used` has the indices of all
                coordinates.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define the method cones")

    @property
    def has_cones(self) -> bool:
        """Return whether the class overrides `cones`."""
        return type(self).cones is not Set.cones

    def diameter(self, d: int) -> float:
        """Return an upper bound on ‖v − w‖₂ over all v and w in 𝒳; inf if 𝒳 is unbounded.

        Args:
            d: the number of coordinates of v and w, as in `reach`.
        """
        return 2 * self.reach(d)

    def prox_step(self, z: Vector, alpha: float) -> Vector:
        """Return the projection of −αz onto 𝒳, which minimizes ⟨z, v⟩ + ‖v‖²/(2α) over all v in 𝒳."""
        return self.project(-alpha * z)
