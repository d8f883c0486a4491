"""Newton's method for smooth, strongly convex functions of moderate dimension."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mpinodes.core import Solved, Vector
from mpinodes.core.norms import norm as sized

MOST_STEPS = 200
SLOW = 0.1  # after a step that leaves more of the gradient than this share, a new Hessian is computed


def newton(
    gradient: Callable[[Vector], Vector], hessian: Callable[[Vector], Vector], x: Vector, tolerance: float
) -> Solved:
    """Iterate from x until the gradient norm is at most `tolerance`, or until rounding allows no smaller norm.

    The merit function is the gradient's norm: the Newton direction decreases it wherever the Hessian is positive
    definite. A Hessian costs as much as many gradients, so one Hessian serves several steps (the chord method) as long
    as each step reduces the norm to a tenth.

    Args:
        gradient: (d,) -> (d,).
        hessian: (d,) -> (d, d).
        x: (d,) the first iterate.
        tolerance: of the gradient's L2 norm.

    Returns:
        The last iterate, its gradient norm and the number of steps.
    """
    g = gradient(x)
    norm, steps, length = sized(g), 0, 1.0
    inverse, fresh = None, False
    while norm > tolerance and steps < MOST_STEPS:
        if inverse is None:
            try:
                inverse, fresh, length = np.linalg.inv(hessian(x)), True, 1.0
            except np.linalg.LinAlgError:
                break  # overflow: the returned gradient norm shows the failure
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
