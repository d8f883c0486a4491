"""L2 norms that neither overflow nor underflow; those of ordinary size have the bits of the plain square root."""

from __future__ import annotations

from math import sqrt

import numpy as np

from mpinodes.core.messages import Vector

SMALL, LARGE = 1e-280, 1e280  # a sum of squares between them has neither overflowed nor underflowed


def norm(v: Vector) -> float:
    """‖v‖₂; nan where an entry is no number, inf where one is infinite or the norm is beyond the doubles."""
    square = float(v.dot(v))
    if SMALL < square < LARGE:
        return sqrt(square)
    _, length, exponent = _scaled(v)
    return float(np.ldexp(length, exponent))


def shortened(v: Vector, most: float) -> Vector:
    """The vector itself, or scaled back to a norm of `most` where it is longer; `most` is at least 1e-140.

    An entry that is not finite leaves one that is no number.
    """
    square = float(v.dot(v))
    if square < LARGE:
        length = sqrt(square)
        return v if length <= most else v * (most / length)
    unit, length, exponent = _scaled(v)
    if np.ldexp(length, exponent) <= most:
        return v
    return np.asarray(unit * (most / length))


def _scaled(v: Vector) -> tuple[Vector, float, int]:
    """A vector times the power of two that brings its largest entry to [½, 1), the norm of that, and the exponent."""
    exponent = int(np.frexp(np.abs(v).max(initial=0.0))[1])
    unit = np.ldexp(v, -exponent)
    return unit, sqrt(float(unit @ unit)), exponent
