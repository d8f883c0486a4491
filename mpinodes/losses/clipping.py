"""Clipping in doubles: what a sample adds to a round's gradient has a norm of at most the clip, whatever the sample.

A sample's gradient is s·a. Its norm |s|·‖a‖ may be too large or too small for a double where the gradient itself is
neither, and a gradient cut by a wrong norm is not cut. So:

* where no such thing can have happened (`is_ordinary`), the plain formula holds, with its bits; else every sample is
  clipped in units of a power of two of its largest entry (`clipped_sum`);
* a sample whose gradient is no number counts as 0, and one whose slope is infinite as the clip in its direction: both
  are functions of the sample and the point alone, as a clipped gradient has to be;
* a loss that does its own clipping is clipped once more, sample by sample (`enforced.Reclipped`).

Rounding may leave what k samples in d coordinates sum to longer than their clips together, by a share of at most
(d + k)·2^-53 of these, and its change on adjacent data by as much. `ROUNDING` is above that share for any d + k below
nine million, and what is enforced is the clip up to it. The accountant adds nothing for it, nor for the rounding of
messages: what is proven is proven of real numbers, and `replay` leaves as much room.
"""

from __future__ import annotations

import numpy as np

from mpinodes.core import Features, Vector
from mpinodes.core.norms import shortened

ROUNDING = 1e-9  # relative
STEEPEST = 1e60  # of a sum of squared slopes: below it, a row whose squares underflow has a gradient below 1e-110
LONGEST = 1e200  # of a sum of squared norms


def is_ordinary(slopes: Vector, norms: Vector) -> bool:
    """Whether |s_k|·‖a_k‖, from plain squares, are right wherever they are above 1e-100, the least clip: (k,), (k,)."""
    return float(slopes.dot(slopes)) < STEEPEST and float(norms.dot(norms)) < LONGEST  # a third of the time of @


def plain_norms(rows: Features) -> Vector:
    """‖·‖₂ of every row by its squares, which may overflow or underflow: (k,)."""
    if isinstance(rows, np.ndarray):
        return np.asarray(np.sqrt(np.vecdot(rows, rows)))
    return np.asarray(np.sqrt(rows.multiply(rows).sum(axis=1)))


def row_norms(rows: Features) -> Vector:
    """‖·‖₂ of every row: (k,)."""
    norms = plain_norms(rows)
    edge = ~((norms > 1e-140) & (norms < 1e140))
    if edge.any():
        exponents = np.frexp(row_sizes(rows[edge]))[1]
        norms[edge] = np.ldexp(plain_norms(_times(rows[edge], -exponents)), exponents)
    return norms


def row_sizes(rows: Features) -> Vector:
    """The largest |entry| of every row: (k,)."""
    size = abs(rows).max(axis=1)
    return np.asarray(size if isinstance(size, np.ndarray) else size.toarray()).ravel()


def clipped_sum(slopes: Vector, rows: Features, clip: float, divisor: float | Vector) -> Vector:
    """Σ_k s_k a_k / divisor_k, each s_k a_k scaled back to a norm of at most `clip`, for any doubles: (d,).

    Args:
        slopes: (k,).
        rows: (k, d) the a_k, dense or sparse.
        clip: from 1e-100 to 1e100.
        divisor: of all, or (k,).
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
    """A gradient itself, or what is left of it within a norm of `most`, up to `ROUNDING`; 0 where it is no number."""
    short = shortened(gradient, most)
    if short is gradient:
        return gradient
    return short if np.isfinite(short).all() else np.zeros_like(gradient)


def _times(rows: Features, powers: Vector) -> Features:
    """Rows times powers of two."""
    if isinstance(rows, np.ndarray):
        return np.ldexp(rows, powers[:, None])
    scaled = rows.tocsr(copy=True)
    scaled.data = np.ldexp(scaled.data, np.repeat(powers, np.diff(scaled.indptr)))
    return scaled
