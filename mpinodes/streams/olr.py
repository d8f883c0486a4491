"""Online linear regression on synthetic data, of unbounded length.

H. Cheng, X. Liao, H. Li, "Distributed Online Private Learning of Convex Nondecomposable Objectives",
section 6.1: a(t) ~ U[−0.5, 0.5]^d, b(t) = a(t)·x̂ + N(0, 0.2), x̂ ~ N(0, I); 0.2 is read as a variance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from mpinodes.core import Loss, Stream
from mpinodes.core.seeds import Draws, Purpose
from mpinodes.streams.labelled import Batch

__all__ = ["OLR"]


def every_round(t: int) -> range:
    """Every round has samples of its own."""
    return range(t - 1, t)


@dataclass(frozen=True)
class OLR(Stream):
    """One sample a round by default; x̂ and every a(t), b(t) come from the seed."""

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
    def feature_norm(self) -> float:
        """0.5 √d."""
        return 0.5 * sqrt(self.dimension)

    def of(self, agent: int) -> Callable[[int], Loss]:
        """The losses by round."""
        truth = Draws(self.seed, Purpose.TRUTH).at(0).standard_normal(self.dimension)
        data = Draws(self.seed, Purpose.DATA, 0 if self.partition == "shared" else agent)
        deviation = sqrt(self.variance)

        def loss(t: int) -> Loss:
            draw = data.at(t)
            features = draw.uniform(-0.5, 0.5, (self.batch, self.dimension))
            targets = features @ truth + deviation * draw.standard_normal(self.batch)
            return self.make_loss(features, targets)

        return loss

    def groups(self, agent: int) -> Callable[[int], range]:
        """Every round has samples of its own."""
        return every_round

    def samples(self, agent: int) -> Callable[[int], range]:
        """Every sample is used once."""
        return lambda t: range((t - 1) * self.batch, t * self.batch)
