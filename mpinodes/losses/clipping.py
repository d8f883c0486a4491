"""Clipping in floating point: a sample's contribution to a gradient has norm at most the clip, whatever the sample is.

A sample's gradient is s·a. The product of norms |s|·‖a‖ may overflow or underflow where the gradient itself does not,
and clipping by a wrong norm would not clip. Therefore:

* If no overflow or underflow is possible (`is_ordinary`), the usual formula is used. Otherwise `clipped_sum` clips
  every sample in units of a power of two of its largest entry.
* A sample whose gradient is nan counts as 0. A sample whose slope is infinite counts as a vector of norm `clip` in the
  sample's direction. Both rules depend on the sample and the point alone, as a clipped gradient must.
* The gradients of a user-written loss are clipped once more, sample by sample (`enforced.Reclipped`).

Rounding may make the sum over k samples in d coordinates longer than the sum of their clips, by a relative amount of at
most (d + k)·2^-53. The change of the sum between adjacent data sets may grow by the same relative amount. `ROUNDING` is
larger than this for any d + k below nine million, and clips are enforced up to `ROUNDING`. The accountant adds nothing
for this error or for the rounding of messages: its guarantees are about real numbers. `mpinodes replay` allows the same
slack.
"""

from __future__ import annotations

import numpy as np

from mpinodes.core import Features, Vector
from mpinodes.core.norms import shortened

ROUNDING = 1e-9  # relative
STEEPEST = 1e60  # limit of Σ s_k²: below it, a row whose squares underflow has a gradient below 1e-110
LONGEST = 1e200  # limit of Σ ‖a_k‖²


def is_ordinary(slopes: Vector, norms: Vector) -> bool:
    """Return whether the products |s_k|·‖a_k‖, computed from plain squares, are right wherever they exceed 1e-100.

    1e-100 is the least clip that is allowed.

    Args:
        slopes: (k,) the s_k.
        norms: (k,) the ‖a_k‖.
    """
    return float(slopes.dot(slopes)) < STEEPEST and float(norms.dot(norms)) < LONGEST  # a third of the time of @


def plain_norms(rows: Features) -> Vector:
    """Compute the L2 norm of every row from its squares, which may overflow or underflow: (k,)."""
    if isinstance(rows, np.ndarray):
        return np.asarray(np.sqrt(np.vecdot(rows, rows)))
    return np.asarray(np.sqrt(rows.multiply(rows).sum(axis=1)))


def row_norms(rows: Features) -> Vector:
    """Compute the L2 norm of every row without overflow or underflow: (k,)."""
    norms = plain_norms(rows)
    edge = ~((norms > 1e-140) & (norms < 1e140))
    if edge.any():
        exponents = np.frexp(row_sizes(rows[edge]))[1]
        norms[edge] = np.ldexp(plain_norms(_times(rows[edge], -exponents)), exponents)
    return norms


def row_sizes(rows: Features) -> Vector:
    """Compute the largest |entry| of every row: (k,)."""
    size = abs(rows).max(axis=1)
    return np.asarray(size if isinstance(size, np.ndarray) else size.toarray()).ravel()


def clipped_sum(slopes: Vector, rows: Features, clip: float, divisor: float | Vector) -> Vector:
    """Compute Σ_k s_k a_k / divisor_k after scaling each s_k a_k to norm at most `clip`, for any doubles: (d,).

    Args:
        slopes: (k,) the s_k.
        rows: (k, d) the a_k, dense or sparse.
        clip: the largest norm, from 1e-100 to 1e100.
        divisor: a number for all samples, or (k,) one for each.
    """
    sizes = row_sizes(rows)
    good = (sizes > 0) & np.isfinite(sizes)
    fractions, powers = np.frexp(slopes[good])
    exponents = np.frexp(sizes[good])[1]
    units = _times(rows[good], -exponents)
    lengths = plain_norms(units)
    with np.errstate(over="ignore", invalid="ignore"):
        norms = np.ldexp(np.abs(fractions) * lengths, powers + exponents)
        whole = np.ldexp(fractions, powers + exponents)
    weights = np.where(norms > clip, np.sign(fractions) * (clip / lengths), whole)
    weights[np.isnan(weights)] = 0.0
    shares = divisor if np.ndim(divisor) == 0 else np.asarray(divisor)[good]
    return np.asarray((weights / shares) @ units)


def reclipped(gradient: Vector, most: float) -> Vector:
    """Scale a gradient to norm at most `most`, up to `ROUNDING`; return 0 if the result is not finite.

    A gradient that is short enough is returned itself, not a copy.
    """
    short = shortened(gradient, most)
    if short is gradient:
        return gradient
    return short if np.isfinite(short).all() else np.zeros_like(gradient)


def _times(rows: Features, powers: Vector) -> Features:
    """Multiply each row by its power of two; `powers` holds the exponents."""
    if isinstance(rows, np.ndarray):
        return np.ldexp(rows, powers[:, None])
    scaled = rows.tocsr(copy=True)
    scaled.data = np.ldexp(scaled.data, np.repeat(powers, np.diff(scaled.indptr)))
    return scaled
