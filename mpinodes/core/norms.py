"""Compute L2 norms that neither overflow nor underflow; usually they equal the plain square root."""

from __future__ import annotations

from math import sqrt

import numpy as np

from mpinodes.core.messages import Vector

SMALL, LARGE = 1e-280, 1e280  # a sum of squares between them has neither overflowed nor underflowed


def norm(v: Vector) -> float:
    """Return ‖v‖₂: nan if an entry is nan; inf if an entry is infinite, or the norm exceeds the largest double."""
    square = float(v.dot(v))
    if SMALL < square < LARGE:
        return sqrt(square)
    _, length, exponent = _scaled(v)
    return float(np.ldexp(length, exponent))


def shortened(v: Vector, most: float) -> Vector:
    """Return the vector itself, or, if its norm exceeds `most`, the vector scaled to that norm.

    The result has a nan if an entry is not finite. `most` must be at least 1e-140.
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
    """Return the vector divided by 2^exponent so that its largest entry is in [½, 1), its norm, and the exponent."""
    exponent = int(np.frexp(np.abs(v).max(initial=0.0))[1])
    unit = np.ldexp(v, -exponent)
    return unit, sqrt(float(unit @ unit)), exponent
