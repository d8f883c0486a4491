"""Step schedules: functions t -> step of the round t = 1, 2, ..., chosen by `step.kind`."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Annotated

from msgspec import Meta

Positive = Annotated[float, Meta(gt=0, le=1e100)]


@dataclass(frozen=True)
class Decreasing:
    """From an initial step."""

    initial: Annotated[Positive, Meta(description="the step of round 1")] = 1.0


class InverseSqrt(Decreasing):
    """alpha(t) = initial / sqrt(t)."""

    def __call__(self, t: int) -> float:
        """The step of round t."""
        return self.initial / sqrt(t)


class Inverse(Decreasing):
    """alpha(t) = initial / t."""

    def __call__(self, t: int) -> float:
        """The step of round t."""
        return self.initial / t


@dataclass(frozen=True)
class StronglyConvex:
    """alpha(t) = 1 / (modulus (t + offset)), for strongly convex losses."""

    modulus: Annotated[
        Positive,
        Meta(description="of the steps; default: that of the losses (problem.regularizer), or half of it if so proven"),
    ]
    offset: Annotated[float, Meta(ge=0, le=1e9, description="added to t")] = 0.0

    def __call__(self, t: int) -> float:
        """The step of round t."""
        return 1 / (self.modulus * (t + self.offset))


class Doubling(Decreasing):
    """alpha(t) = initial / sqrt(2^m) for t = 2^m .. 2^(m+1) − 1: the doubling trick."""

    def __call__(self, t: int) -> float:
        """The step of round t."""
        return self.initial / sqrt(1 << (t.bit_length() - 1))


@dataclass(frozen=True)
class Constant:
    """alpha(t) = value."""

    value: Annotated[Positive, Meta(description="the step of every round")] = 0.1

    def __call__(self, t: int) -> float:
        """The step of round t."""
        return self.value


KINDS: dict[str, type] = {
    "inverse-sqrt": InverseSqrt,
    "inverse": Inverse,
    "strongly-convex": StronglyConvex,
    "doubling": Doubling,
    "constant": Constant,
}
