"""Clip gradients, so that the L2 norm of each sample's gradient is at most the setting `clip`.

With `privacy.adjacency` = one-round or `privacy.clipping` = agent, the gradient of all samples of a round together is
clipped instead (`reclipped`). If `clip` is inf, nothing is clipped.

A sample's gradient is the product of its slope s (a number) and its features a (a vector). The norm |s|·‖a‖ may
overflow or underflow although the gradient itself does not. The bound `clip` holds for all samples, even if their
numbers are huge, tiny, infinite or nan:

- If the norm may overflow or underflow (not `is_ordinary`), `clipped_sum` first divides the features of each sample by
  a power of two near their largest |entry|.
- If the slope is nan or a feature is not finite, the gradient is replaced by 0.
- If the slope is infinite and all features are finite but not all 0, the gradient is replaced by a vector of norm
  `clip` in the direction of the gradient.
- The gradients that the code of a user-written loss computes are clipped once more (`enforced.Reclipped`).

The two replacements depend only on the sample and on the point x at which the gradient is taken, as the privacy proof
requires.

Clips are enforced up to the relative error `ROUNDING`. Because of rounding, the L2 norm of the sum over k samples in d
coordinates may exceed k·clip by a relative amount of at most (d + k)·2^-53. This amount is below `ROUNDING` if d + k is
below nine million. The accountant ignores rounding errors, because its guarantees are about real numbers.
"""

from __future__ import annotations

import numpy as np

from mpinodes.core import Features, Vector
from mpinodes.core.norms import shortened

ROUNDING = 1e-9  # the relative error up to which clips are enforced
STEEPEST = 1e60  # bound on Σ s_k²: below it, a sample whose squared features underflow has a gradient below 1e-110
LONGEST = 1e200  # bound on Σ (|s_k| ‖a_k‖)²


def is_ordinary(slopes: Vector, norms: Vector) -> bool:
    """Return whether clipping may use the gradient norms |s_k|·‖a_k‖, because no overflow has made a norm wrong.

    A norm below 1e-100 may have lost digits by underflow, but such a gradient is never clipped. If the norms are
    correct but very large, the result is false.

    Args:
        slopes: (k,) the slopes s_k. If gradients are not products of a slope and features, the norms are passed again.
        norms: (k,) the gradient norms |s_k|·‖a_k‖, where `plain_norms` computed ‖a_k‖.
    """
    # `dot` takes a third of the time of `@`.
    return float(slopes.dot(slopes)) < STEEPEST and float(norms.dot(norms)) < LONGEST


def plain_norms(rows: Features) -> Vector:
    """Compute the L2 norm of each row by the usual formula, in which squares of entries may overflow or underflow."""
    if isinstance(rows, np.ndarray):
        return np.asarray(np.sqrt(np.vecdot(rows, rows)))
    return np.asarray(np.sqrt(rows.multiply(rows).sum(axis=1)))


def row_norms(rows: Features) -> Vector:
    """Compute the L2 norm of each row, without overflow or underflow of the squares of entries."""
    norms = plain_norms(rows)
    edge = ~((norms > 1e-140) & (norms < 1e140))
    if edge.any():
        exponents = np.frexp(row_sizes(rows[edge]))[1]
        norms[edge] = np.ldexp(plain_norms(_times(rows[edge], -exponents)), exponents)
    return norms


def row_sizes(rows: Features) -> Vector:
    """Compute the largest absolute value of an entry in each row."""
    size = abs(rows).max(axis=1)
    return np.asarray(size if isinstance(size, np.ndarray) else size.toarray()).ravel()


def clipped_sum(slopes: Vector, rows: Features, clip: float, divisor: float | Vector) -> Vector:
    """Compute the sum of clipped gradients, Σ_k c_k / divisor_k, as an array (d,), without overflow or underflow.

    Here c_k is the gradient s_k a_k of sample k, scaled down to the L2 norm `clip` if its norm is larger.

    - If the slope of a sample is nan, or its features are not finite, c_k is 0.
    - If the slope of a sample is infinite, and its features are finite but not all 0, c_k has the norm `clip`.

    Args:
        slopes: (k,) the slopes s_k.
        rows: (k, d) the features a_k, dense or sparse.
        clip: the largest norm of one sample's gradient, from 1e-100 to 1e100.
        divisor: one number for all samples, or an array (k,) with a number for each sample.
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
    """Return a gradient, scaled down to the L2 norm `most` if its norm is larger; zeros if the result is not finite.

    Because of rounding, a scaled norm may exceed `most` by the relative error `ROUNDING`. A gradient that is not scaled
    is returned itself, not as a copy.
    """
    short = shortened(gradient, most)
    if short is gradient:
        return gradient
    return short if np.isfinite(short).all() else np.zeros_like(gradient)


def _times(rows: Features, powers: Vector) -> Features:
    """Multiply row k by 2^powers[k], and return the result as a new array."""
    if isinstance(rows, np.ndarray):
        return np.ldexp(rows, powers[:, None])
    scaled = rows.tocsr(copy=True)
    scaled.data = np.ldexp(scaled.data, np.repeat(powers, np.diff(scaled.indptr)))
    return scaled
