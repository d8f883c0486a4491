"""Compute L2 norms without overflow or underflow of the squares.

Unless a square would overflow or underflow, the result has the same bits as the square root of the sum of squares.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from mpinodes.core.messages import Vector

SMALL, LARGE = 1e-280, 1e280  # a sum of squares between them has neither overflowed nor underflowed


def norm(v: Vector) -> float:
    """Return ‖v‖₂. The result is nan if an entry is nan, and inf if the norm exceeds the largest float64."""
    square = float(v.dot(v))
    if SMALL < square < LARGE:
        return sqrt(square)
    _, length, exponent = _scaled(v)
    return float(np.ldexp(length, exponent))


def shortened(v: Vector, most: float) -> Vector:
    """Return a vector whose L2 norm is at most `most`: `v` itself, or `v` scaled down to the norm `most`.

    The result contains nan if an entry of `v` is not finite. `most` must be finite and at least 1e-140. If `v` has
    leading axes (independent runs), each vector along the last axis is scaled alone, and the result is a new array.
    """
    if v.ndim > 1:
        squares = np.vecdot(v, v)
        if not (squares < LARGE).all():
            return np.stack([shortened(row, most) for row in v])
        lengths = np.sqrt(squares)
        return np.asarray(v * (most / np.maximum(lengths, most))[..., None])
    square = float(v.dot(v))
    if square < LARGE:
        length = sqrt(square)
        return v if length <= most else v * (most / length)
    unit, length, exponent = _scaled(v)
    if np.ldexp(length, exponent) <= most:
        return v
    return np.asarray(unit * (most / length))


def _scaled(v: Vector) -> tuple[Vector, float, int]:
    """Return u = v/2^e, ‖u‖₂ and e, where e is the exponent for which the largest absolute entry of u is in [½, 1).

    If v is 0, then u = v.
    """
    exponent = int(np.frexp(np.abs(v).max(initial=0.0))[1])
    unit = np.ldexp(v, -exponent)
    return unit, sqrt(float(unit @ unit)), exponent
