"""Provide synthetic points in a cube, whose mean is to be estimated.

The points lie in the cube [−R, R]^p. Each coordinate is normal with mean 0.7R and variance 1, truncated to [−R, R].

The data are from M. Showkatbakhsh, C. Karakus, S. Diggavi, "Differentially Private Consensus-Based Distributed
Optimization", section V. The paper states neither the dimension p nor the number R.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from msgspec import Meta

from mpinodes.core import Vector
from mpinodes.core.seeds import Draws, Purpose
from mpinodes.data import Source
from mpinodes.streams.labelled import Batch, LabelledStream, in_memory

__all__ = ["Mean"]


@dataclass(frozen=True)
class Mean(LabelledStream):
    """Provide points in the cube [−R, R]^p with truncated normal coordinates. The points have no targets.

    Attributes:
        points: points of each agent, if shares have equal size
        dimension: p, the number of coordinates of a point
        radius: R: points lie in the cube [-R, R]^p
    """

    batch: Batch | Literal["all"] = "all"
    points: Annotated[int, Meta(ge=1, le=10**8)] = 100
    dimension: Annotated[int, Meta(ge=1, le=100_000)] = 5
    radius: Annotated[float, Meta(ge=1e-3, le=1e6)] = 5.0

    has_labels = False
    drawn_from_seed = True
    name: ClassVar[str] = "truncated normal points"
    defaults = {"problem": {"loss": "squared-distance", "set": "box", "radius": 5.0}}

    @property
    def feature_bound(self) -> float:
        """Return R, the largest possible absolute value of a coordinate."""
        return self.radius

    def open(self) -> tuple[Source, Source | None]:
        """Return the points, drawn from the seed, as the training set; there is no test set."""
        (points,) = self.once(self._drawn, self.agents * self.points, self.dimension, self.radius)
        return in_memory(points, np.zeros(len(points))), None

    def real_valued(self) -> dict[str, Source]:
        """Return an empty mapping, because points have no targets."""
        return {}

    def _drawn(self) -> list[Vector]:
        draws = Draws(self.seed, Purpose.DATA).at(0)
        points: Vector = np.empty((self.agents * self.points, self.dimension))
        outside = np.ones_like(points, dtype=bool)
        while outside.any():
            points[outside] = draws.normal(0.7 * self.radius, 1.0, int(outside.sum()))
            outside = np.abs(points) > self.radius
        return [points]
