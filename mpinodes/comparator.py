"""The comparator: min over v in 𝒳 of Σ_t f^t(v), with a certificate of how far off it may be.

Bounded sets: accelerated projected gradient with adaptive restart (Beck, Teboulle 2009; O'Donoghue, Candès
2015), since all it needs of a set is its exact projection; the certificate is the Frank-Wolfe gap
max_{v ∈ 𝒳} ⟨∇F(x), x − v⟩ ≥ F(x) − min F, which holds for any convex F. All of R^d: L-BFGS by scipy; losses
are never negative, so F(x) itself bounds the error, and for least squares so does ‖∇F‖²/(2μ) with μ the
least positive eigenvalue of the Hessian.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from mpinodes.losses.linear import LinearLoss
from mpinodes.protocol import Vector
from mpinodes.sets import Set

TOLERANCE = 1e-9  # of the certificate, relative to the value
ITERATIONS = 20_000


class Comparator(NamedTuple):
    """The best fixed decision in hindsight.

    Attributes:
        point: (d,) in 𝒳.
        value: F(point).
        certificate: F(point) − min F is at most this.
    """

    point: Vector
    value: float
    certificate: float


def best(total: LinearLoss, feasible: Set, start: Vector) -> Comparator:
    """The comparator of F = `total`, the unclipped loss of all rounds at once, from a start near it."""
    gram = np.linalg.eigvalsh(total.features.T @ total.features)
    scale = total.curvature() / total.divisor
    if feasible.bounded:
        return _projected_gradient(total, feasible, start, scale * float(gram[-1]))
    found = minimize(
        total.value,
        start,
        jac=total.grad,
        method="L-BFGS-B",
        options={"maxiter": ITERATIONS, "ftol": 1e-15, "gtol": 1e-12},
    )
    gradient = total.grad(found.x)
    value = total.value(found.x)
    least = scale * float(np.min(gram[gram > 1e-10 * gram[-1]], initial=np.inf))
    gap = float(gradient @ gradient) / (2 * least) if total.strongly_convex_link else np.inf
    return Comparator(found.x, value, min(gap, value))


def _projected_gradient(total: LinearLoss, feasible: Set, start: Vector, smoothness: float) -> Comparator:
    step = 1 / max(smoothness, np.finfo(float).tiny)
    x = y = feasible.project(start)
    momentum = 1.0
    point, lowest = x, np.inf
    for iteration in range(ITERATIONS):
        gradient = total.grad(y)
        ahead = feasible.project(y - step * gradient)
        if (y - ahead) @ (ahead - x) > 0:
            momentum = 1.0
        larger = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        x, y, momentum = ahead, ahead + (momentum - 1) / larger * (ahead - x), larger
        if iteration % 20 == 0:
            value, gap = _certified(total, feasible, x)
            if gap < lowest:
                point, lowest = x, gap
            if lowest <= TOLERANCE * value:
                break
    value, gap = _certified(total, feasible, point)
    return Comparator(point, value, gap)


def _certified(total: LinearLoss, feasible: Set, x: Vector) -> tuple[float, float]:
    """F(x), and the Frank-Wolfe gap there (or F(x), where that is less)."""
    gradient, value = total.grad(x), total.value(x)
    return value, min(max(float(gradient @ x) + feasible.support(-gradient), 0.0), value)
