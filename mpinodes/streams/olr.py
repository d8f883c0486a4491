"""Provide synthetic data for online linear regression, for any number of rounds.

A sample of round t has the features a(t) and the target b(t); x̂ is the parameter that is to be found:

    a(t) uniform in [−0.5, 0.5]^d,  b(t) = a(t)·x̂ + N(0, 0.2),  x̂ ~ N(0, I)

The data are from H. Cheng, X. Liao, H. Li, "Distributed Online Private Learning of Convex Nondecomposable Objectives",
section 6.1. We take the number 0.2 as the variance of the noise, not as the standard deviation.
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
TEST_NUMBERS = 2_000_000  # 16 MB; the test set has fewer samples if d is large
FEWEST = 10


def every_round(t: int) -> range:
    """Return range(t − 1, t), whose only entry is the index of the group of samples that is used in round t.

    The samples of a group are always used together. Each round uses new samples, so each round has its own group.
    """
    return range(t - 1, t)


@dataclass(frozen=True)
class OLR(Stream):
    """Provide samples (a(t), b(t)) of a linear model with the parameter x̂, for any number of rounds t.

    All samples are drawn from the seed.

    Attributes:
        dimension: d, the number of coordinates of a decision
        batch: number of samples that an agent uses in a round
        variance: variance of the noise in the targets b(t)
        partition: shared: all agents have the same samples; even: each agent has its own, of the same x̂
    """

    dimension: Annotated[int, Meta(ge=1, le=1_000_000)] = 21
    batch: Batch = 1
    variance: Annotated[float, Meta(ge=0, le=1e100)] = 0.2
    partition: Literal["shared", "even"] = "shared"

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
        """Return True for this class, and False for subclasses, which may make losses in other ways."""
        return type(self) is OLR

    def of(self, agent: int) -> Callable[[int], Loss]:
        """Return a function that maps a round to the agent's loss.

        With `partition` = shared, all agents have the same loss.
        """
        truth = self._truth()
        data = Draws(self.seed, Purpose.DATA, 0 if self.partition == "shared" else agent)
        return lambda t: self.make_loss(*self._drawn(data.at(t), self.batch, truth))

    def real_valued(self) -> dict[str, Source]:
        """Return a test set, drawn from the distribution of the samples in the rounds."""
        number = max(FEWEST, min(TEST_SAMPLES, TEST_NUMBERS // self.dimension))
        return {"test": in_memory(*self._drawn(Draws(self.seed, Purpose.TEST).at(0), number, self._truth()))}

    def _truth(self) -> Vector:
        return Draws(self.seed, Purpose.TRUTH).at(0).standard_normal(self.dimension)

    def _drawn(self, draw: np.random.Generator, number: int, truth: Vector) -> tuple[Vector, Vector]:
        features = draw.uniform(-0.5, 0.5, (number, self.dimension))
        return features, features @ truth + sqrt(self.variance) * draw.standard_normal(number)

    def groups(self, agent: int) -> Callable[[int], range]:
        """Return the function `every_round`, which maps a round to the index of its group of samples.

        The samples of a group are always used together. Each round uses new samples, so each round has its own group.
        """
        return every_round

    def samples(self, agent: int) -> Callable[[int], range]:
        """Return a function that maps a round to the indices of its samples. Each sample is used in one round only."""
        return lambda t: range((t - 1) * self.batch, t * self.batch)
