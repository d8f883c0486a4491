"""Newton's method for a smooth F on the face of 𝒳 that a point near the minimum lies on.

Where the projected gradient has found which constraints hold with equality, they are equations: ‖x_B‖ = radius for a
ball's block, x_j = ± radius for a coordinate of a box. With λ >= 0 their multipliers, and P the projection to what is
tangent to them all, a step s solves P (∇²F(x) + diag λ) P s = −P ∇F(x) by conjugate gradients, which need products with
the samples alone (Absil, Mahony, Sepulchre, "Optimization Algorithms on Matrix Manifolds", 2008, chapter 6).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mpinodes.core import Set, Vector
from mpinodes.core.sets import Ball, Box, ProductOfBalls
from mpinodes.losses.linear import SmoothLoss
from mpinodes.losses.softmax import Softmax

STEPS, HALVINGS, PRODUCTS = 50, 8, 200  # of Newton, of one of them, and within it
ON = 1e-9  # how near to a constraint, relatively, counts as on it

Map = Callable[[Vector], Vector]


def newton_on_face(total: SmoothLoss | Softmax, feasible: Set, x: Vector, gap: Callable[[Vector], float]) -> Vector:
    """The best point, by the gap, that Newton steps from x come to: (d,) in 𝒳."""
    best, least, value = x, gap(x), total.value(x)

    def lower(point: Vector) -> bool:
        return total.value(point) < value

    for _ in range(STEPS):
        gradient, second = total.grad(x), total.second(x)
        tangent, multipliers = _face(feasible, x, gradient)
        downhill = -tangent(gradient)

        def curved(v: Vector, second: Map = second, more: Vector = multipliers, tangent: Map = tangent) -> Vector:
            return tangent(second(v) + (total.regularizer + more) * v)

        step = _conjugate_gradients(curved, downhill)
        ahead = next(filter(lower, (feasible.project(x + step / 2**k) for k in range(HALVINGS))), None)
        if ahead is None:
            break
        x, value, now = ahead, total.value(ahead), gap(ahead)
        if now < least:
            best, least = ahead, now
    return best


def _face(feasible: Set, x: Vector, gradient: Vector) -> tuple[Map, Vector]:
    """The projection to the tangents of all constraints that hold x, and by coordinate the multiplier of its own."""
    multipliers = np.zeros_like(x)
    if isinstance(feasible, Box):
        free = ~((np.abs(x) >= feasible.radius * (1 - ON)) & (gradient * x < 0))
        return lambda v: v * free, multipliers
    held: list[tuple[slice, Vector]] = []
    for block in feasible.blocks if isinstance(feasible, ProductOfBalls) else [slice(None)]:
        part, size = x[block], float(np.linalg.norm(x[block]))
        pull = -float(gradient[block] @ part)
        if isinstance(feasible, Ball | ProductOfBalls) and size >= feasible.radius * (1 - ON) and pull > 0:
            multipliers[block] = pull / size**2
            held.append((block, part / size))

    def tangent(v: Vector) -> Vector:
        v = v.copy()
        for block, normal in held:
            v[block] -= (normal @ v[block]) * normal
        return v

    return tangent, multipliers


def _conjugate_gradients(times: Map, wanted: Vector) -> Vector:
    """S with `times(s)` = wanted, nearly: the nearer, the smaller what is wanted is."""
    found, left, direction = np.zeros_like(wanted), wanted, wanted
    square = size = float(wanted @ wanted)
    for _ in range(PRODUCTS):
        image = times(direction)
        curvature = float(direction @ image)
        if curvature <= 1e-14 * float(direction @ direction) * np.abs(image).max(initial=0.0) or square <= 1e-16 * size:
            break
        length = square / curvature
        found, left = found + length * direction, left - length * image
        square, before = float(left @ left), square
        direction = left + square / before * direction
    return found
