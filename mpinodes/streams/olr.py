"""Online linear regression on synthetic data, of unbounded length.

H. Cheng, X. Liao, H. Li, "Distributed Online Private Learning of Convex Nondecomposable Objectives",
section 6.1: a(t) ~ U[−0.5, 0.5]^d, b(t) = a(t)·x̂ + N(0, 0.2), x̂ ~ N(0, I); 0.2 is read as a variance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Annotated, ClassVar, Literal

import numpy as np
from msgspec import Meta

from mpinodes.core import Loss, Stream, Vector
from mpinodes.core.seeds import Draws, Purpose
from mpinodes.data import Source
from mpinodes.streams.labelled import Batch, in_memory

__all__ = ["OLR"]

TEST_SAMPLES = 10_000
TEST_NUMBERS = 2_000_000  # 16 MB: of wide samples there are fewer
FEWEST = 10


def every_round(t: int) -> range:
    """Return the group of round t: every round has samples of its own."""
    return range(t - 1, t)


@dataclass(frozen=True)
class OLR(Stream):
    """Synthetic linear regression without end; x̂ and all samples a(t), b(t) are drawn from the seed."""

    dimension: Annotated[int, Meta(ge=1, le=1_000_000, description="d, coordinates of the decision")] = 21
    batch: Batch = 1
    variance: Annotated[float, Meta(ge=0, le=1e100, description="of the noise in b(t)")] = 0.2
    partition: Annotated[
        Literal["shared", "even"],
        Meta(description="shared: every agent sees the same samples; even: each draws its own, with one x̂"),
    ] = "shared"

    rounds: ClassVar[None] = None
    feature_bound: ClassVar[float] = 0.5
    title: ClassVar[str] = "synthetic online linear regression"
    drawn_from_seed = True
    defaults = {
        "rounds": 500,
        "problem": {"loss": "least-squares", "set": "box", "radius": 5.0, "gradient_noise": 0.1},
        "privacy": {"clip": 5.0, "scale": 1.0},
    }

    @property
    def makes_all_losses(self) -> bool:
        """Return whether this is the class itself: a class that extends it may make losses by itself."""
        return type(self) is OLR

    def of(self, agent: int) -> Callable[[int], Loss]:
        """Return a function that gives the loss of a round."""
        truth = self._truth()
        data = Draws(self.seed, Purpose.DATA, 0 if self.partition == "shared" else agent)
        return lambda t: self.make_loss(*self._drawn(data.at(t), self.batch, truth))

    def real_valued(self) -> dict[str, Source]:
        """Return a test set of the same distribution."""
        number = max(FEWEST, min(TEST_SAMPLES, TEST_NUMBERS // self.dimension))
        return {"test": in_memory(*self._drawn(Draws(self.seed, Purpose.TEST).at(0), number, self._truth()))}

    def _truth(self) -> Vector:
        return Draws(self.seed, Purpose.TRUTH).at(0).standard_normal(self.dimension)

    def _drawn(self, draw: np.random.Generator, number: int, truth: Vector) -> tuple[Vector, Vector]:
        features = draw.uniform(-0.5, 0.5, (number, self.dimension))
        return features, features @ truth + sqrt(self.variance) * draw.standard_normal(number)

    def groups(self, agent: int) -> Callable[[int], range]:
        """Return a function that gives the group of a round: every round has samples of its own."""
        return every_round

    def samples(self, agent: int) -> Callable[[int], range]:
        """Return a function that gives the samples of a round; each sample is used once."""
        return lambda t: range((t - 1) * self.batch, t * self.batch)
