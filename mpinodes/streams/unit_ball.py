"""Provide synthetic labelled samples in the unit ball.

The data are from C. Li, P. Zhou, G. Chen, T. Jiang, "Differentially Private Distributed Online Learning", section 6: d
= 10 and 100,000 samples. The paper does not say how the samples are labelled. Here the features a are uniform in the L2
unit ball. The label is +1 if a·x̂ > 0, otherwise −1, where x̂ is a random direction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from mpinodes.core import Vector
from mpinodes.core.seeds import Draws, Purpose
from mpinodes.data import Source
from mpinodes.streams.labelled import LabelledStream, in_memory

__all__ = ["UnitBall"]

TEST_SAMPLES = 10_000


@dataclass(frozen=True)
class UnitBall(LabelledStream):
    """Provide uniform points in the L2 unit ball, labelled ±1 by the side of a random hyperplane through 0.

    Attributes:
        dimension: d, the number of features of a sample
        total: training samples of all agents together
    """

    dimension: Annotated[int, Meta(ge=1, le=100_000)] = 10
    total: Annotated[int, Meta(ge=1, le=10**9)] = 100_000

    name: ClassVar[str] = "synthetic unit ball"
    drawn_from_seed = True
    feature_bound: ClassVar[float] = 1.0
    feature_norm: ClassVar[float] = 1.0
    defaults = {"problem": {"loss": "hinge", "set": "ball", "radius": 10.0}}

    def open(self) -> tuple[Source, Source | None]:
        """Return a training set and a test set, which are both drawn from the seed."""
        points, labels, test_points, test_labels = self.once(self._drawn, self.total, self.dimension)
        return in_memory(points, labels), in_memory(test_points, test_labels)

    def _drawn(self) -> list[Vector]:
        truth = Draws(self.seed, Purpose.TRUTH).at(0).standard_normal(self.dimension)
        return [
            *self._labelled(Draws(self.seed, Purpose.DATA).at(0), self.total, truth),
            *self._labelled(Draws(self.seed, Purpose.TEST).at(0), TEST_SAMPLES, truth),
        ]

    def _labelled(self, draws: np.random.Generator, number: int, truth: Vector) -> tuple[Vector, Vector]:
        points = draws.standard_normal((number, self.dimension))
        radius = draws.random(number) ** (1 / self.dimension)
        points *= (radius / np.sqrt(np.vecdot(points, points)))[:, None]
        return points, np.where(points @ truth > 0, 1.0, -1.0)
