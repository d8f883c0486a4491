"""Constraint sets 𝒳 with their exact Euclidean projections, chosen by `problem.set`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, sqrt
from typing import Self

import numpy as np

from mpinodes.core.messages import Vector
from mpinodes.core.norms import norm, shortened
from mpinodes.core.parts import Set


def blocks(dimension: int, agents: int) -> tuple[slice, ...]:
    """The coordinates of each agent: disjoint, together all of them, sizes as equal as possible.

    Raises:
        ValueError: fewer coordinates than agents.
    """
    if dimension < agents:
        raise ValueError(f"{dimension} coordinates cannot be shared out among {agents} agents")
    small, larger = divmod(dimension, agents)
    ends = np.cumsum([small + (i < larger) for i in range(agents)]).tolist()
    return tuple(slice(start, end) for start, end in zip([0, *ends], ends, strict=False))


@dataclass(frozen=True)
class Unconstrained(Set):
    """All of R^d."""

    bounded = False

    def diameter(self, d: int) -> float:
        """Inf."""
        return inf

    def project(self, x: Vector) -> Vector:
        """The point itself."""
        return x

    def support(self, g: Vector) -> float:
        """Inf, save at g = 0."""
        return np.inf if g.any() else 0.0

    def within(self, margin: float) -> Unconstrained:
        """All of it."""
        return self


@dataclass(frozen=True)
class Sized(Set):
    """Of a radius."""

    radius: float

    def diameter(self, d: int) -> float:
        """2 · radius."""
        return 2 * self.radius

    def within(self, margin: float) -> Self:
        """(1 − margin/radius)𝒳."""
        return replace(self, radius=self.radius - margin)


class Box(Sized):
    """[−radius, radius]^d."""

    def diameter(self, d: int) -> float:
        """2 · radius · √d."""
        return 2 * self.radius * sqrt(d)

    def project(self, x: Vector) -> Vector:
        """Each coordinate clipped."""
        return np.minimum(np.maximum(x, -self.radius), self.radius)

    def support(self, g: Vector) -> float:
        """Radius · ‖g‖₁."""
        return self.radius * float(np.abs(g).sum())


class Ball(Sized):
    """‖x‖₂ ≤ radius, of the full vector."""

    by_blocks = False

    def project(self, x: Vector) -> Vector:
        """X scaled back to the sphere where it lies outside."""
        return shortened(x, self.radius)

    def support(self, g: Vector) -> float:
        """Radius · ‖g‖₂."""
        return self.radius * norm(g)


@dataclass(frozen=True)
class ProductOfBalls(Sized):
    """‖x_B‖₂ ≤ radius for the block B of every agent."""

    blocks: Sequence[slice]

    def project(self, x: Vector) -> Vector:
        """Each block projected to its own ball."""
        ball = Ball(self.radius)
        return np.concatenate([ball.project(x[block]) for block in self.blocks])

    def support(self, g: Vector) -> float:
        """Radius · Σ_B ‖g_B‖₂."""
        return sum(Ball(self.radius).support(g[block]) for block in self.blocks)


NAMES = ("box", "ball", "product-of-balls", "none")


def make(name: str, radius: float, blocks: Sequence[slice]) -> Set:
    """The set called `name`, one of `NAMES`."""
    match name:
        case "box":
            return Box(radius)
        case "ball":
            return Ball(radius)
        case "product-of-balls":
            return ProductOfBalls(radius, tuple(blocks))
        case _:
            return Unconstrained()
