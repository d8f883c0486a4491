"""Minimize smooth functions of moderate dimension by Newton's method."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mpinodes.core import Solved, Vector
from mpinodes.core.norms import norm as sized

MOST_STEPS = 200
SLOW = 0.1  # if a step leaves more than this share of the gradient norm, a new Hessian is computed


def newton(
    gradient: Callable[[Vector], Vector], hessian: Callable[[Vector], Vector], x: Vector, tolerance: float
) -> Solved:
    """Minimize a function by Newton's method.

    The method stops in one of these cases:

    - The gradient norm is at most `tolerance`, or nan.
    - No tried step decreases the gradient norm enough.
    - The Hessian cannot be inverted.
    - `MOST_STEPS` steps were tried.

    Args:
        gradient: maps a point (d,) to the gradient (d,).
        hessian: maps a point (d,) to the Hessian (d, d).
        x: (d,) the first iterate.
        tolerance: the L2 norm of the gradient at which the iteration ends.

    Returns:
        The last iterate, the L2 norm of its gradient, and the number of steps that were tried.
    """
    g = gradient(x)
    norm, steps, length = sized(g), 0, 1.0
    inverse, fresh = None, False
    while norm > tolerance and steps < MOST_STEPS:
        if inverse is None:  # a Hessian costs as much as many gradients, so it is used for several steps (chord method)
            try:
                inverse, fresh, length = np.linalg.inv(hessian(x)), True, 1.0
            except np.linalg.LinAlgError:
                break  # overflow; the caller sees the failure in the returned gradient norm
        ahead = x - length * (inverse @ g)
        g_ahead = gradient(ahead)
        norm_ahead = sized(g_ahead)
        steps += 1
        if norm_ahead < (1 - 1e-4 * length) * norm:
            if norm_ahead > SLOW * norm:
                inverse = None
            x, g, norm, fresh = ahead, g_ahead, norm_ahead, False
        elif fresh and length > 1e-6:
            length /= 2
        elif fresh:
            break  # no shorter step helps, so rounding dominates
        else:
            inverse = None
    return Solved(x, norm, steps)
