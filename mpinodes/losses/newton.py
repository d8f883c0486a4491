"""Newton's method for smooth, strongly convex functions of moderate dimension."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mpinodes.core import Solved, Vector
from mpinodes.core.norms import norm as sized

MOST_STEPS = 200
SLOW = 0.1  # a step that leaves more of the gradient than this is the last one by the same Hessian


def newton(
    gradient: Callable[[Vector], Vector], hessian: Callable[[Vector], Vector], x: Vector, tolerance: float
) -> Solved:
    """From x to a gradient norm of at most `tolerance`, or as near as rounding lets it come.

    The merit is the gradient's norm, which Newton's direction lowers wherever the Hessian is positive definite. A
    Hessian costs as much as many gradients, so it serves (the chord method) for as long as a step by it cuts the norm
    to a tenth.

    Args:
        gradient: (d,) -> (d,).
        hessian: (d,) -> (d, d).
        x: (d,).
        tolerance: of the gradient's L2 norm.
    """
    g = gradient(x)
    norm, steps, length = sized(g), 0, 1.0
    inverse, fresh = None, False
    while norm > tolerance and steps < MOST_STEPS:
        if inverse is None:
            try:
                inverse, fresh, length = np.linalg.inv(hessian(x)), True, 1.0
            except np.linalg.LinAlgError:
                break  # beyond the doubles: the gradient's norm says that nothing was found
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
            break  # no shorter step helps: this is rounding
        else:
            inverse = None
    return Solved(x, norm, steps)
