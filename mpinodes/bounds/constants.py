"""Compute the constants of a run that theorems need: bounds on gradients, step sizes and noise scales."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf, isinf, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpinodes.core import Bound, Setup, Vector
from mpinodes.losses.linear import LinearLoss

Rounds = NDArray[np.int64]  # (h,) horizons, the rounds at which bounds are evaluated


def bound(name: str, of: str, values: Vector, broken: str) -> Bound:
    """Return a theorem's bound as a `Bound`, with inf in place of nan.

    - If `broken` is not empty: the theorem does not apply, and `broken` is the reason.
    - If `broken` is empty, but a value is inf: the theorem applies, and the result says that the constants overflow.

    Args:
        name: the name of the theorem.
        of: the name of the metric that the theorem bounds, such as the regret.
        values: (h,) the bound at each round where results are measured.
        broken: the first assumption that the run breaks; empty if all assumptions hold.
    """
    finite = np.where(np.isnan(values), inf, values)
    applies = not broken
    if applies and np.isinf(finite).any():
        broken = "the constants of the bound overflow, so the bound is inf"
    return Bound(name, of, finite, applies, broken)


def terms(setup: Setup) -> float:
    """Return the largest factor by which an agent's gradient, without the regularizer, can exceed a sample's gradient.

    If `problem.average` is true, the factor is `problem.weight`. Otherwise it is `problem.weight` times the largest
    number of samples that an agent uses in a round.
    """
    return setup.experiment.problem.weight * (1.0 if setup.experiment.problem.average else max(setup.samples))


def whole_losses(setup: Setup) -> list[LinearLoss]:
    """Return every agent's loss function of round 1, without clipping.

    If all samples are used in every round, an agent has the same loss function in all rounds.
    """
    first: list[Any] = [setup.stream.of(i)(1) for i in range(setup.topology.agents)]
    return [replace(loss, clip=inf) for loss in first]


def largest_gradient(setup: Setup) -> np.float64:
    """Return L, a bound on the L2 norm of each agent's clipped gradient without the regularizer; inf without a clip."""
    whole = setup.experiment.clips_rounds
    return np.float64(setup.experiment.clip * (1.0 if whole else terms(setup)))


def unclipped(setup: Setup) -> str:
    """Return why a theorem does not apply if gradients are not clipped; an empty text if gradients are clipped."""
    return "privacy.clip = inf: the bound is computed from the clip" if isinf(setup.experiment.clip) else ""


def sample_gradient(setup: Setup, within: float = inf) -> float:
    """Return a bound on the L2 norm of a sample's unclipped gradient at points x with ‖x‖ ≤ `within`; inf if unknown.

    If each agent decides only a block of coordinates, the result bounds the norm of each block of the gradient.
    """
    size = max(block.stop - block.start for block in setup.blocks)
    norm = float(min(setup.stream.feature_norm, setup.stream.feature_bound * sqrt(size)))
    return setup.loss.largest_gradient(norm, within)


def clipped(setup: Setup, within: float = inf) -> str:
    """Return why clipping may change gradients at points x with ‖x‖ ≤ `within`; an empty text if it changes none."""
    clip = setup.experiment.clip
    reach = sample_gradient(setup, within)
    if setup.experiment.clips_rounds:
        reach *= terms(setup)
    if reach <= clip * (1 + 1e-12):
        return ""
    far = "have no bound that is known" if isinf(reach) else f"may reach {reach:.3g}"
    return f"gradients {far}, and privacy.clip = {clip:g} may clip them, but the theorem assumes no clipping"


def noise_scales(setup: Setup, sensitivity: Vector) -> Vector:
    """Return the scale of the Laplace noise in each round; 0 in all rounds if the run has no noise.

    If the setting `privacy.scale` is "calibrated", the scale is the sensitivity divided by `privacy.epsilon`. If
    `privacy.scale` is a number, the scale of every round is this number divided by `privacy.epsilon`.

    Args:
        setup: the run.
        sensitivity: (T,) the L1 sensitivity of each round.
    """
    e = setup.experiment
    if not e.private:
        return np.zeros_like(sensitivity)
    if e.privacy.scale == "calibrated":
        return sensitivity / e.privacy.epsilon
    return np.full_like(sensitivity, e.privacy.scale / e.privacy.epsilon)


def calibrated(setup: Setup) -> bool:
    """Return True if the noise is calibrated to the sensitivity, as the theorems assume, or if there is no noise."""
    return not setup.experiment.private or setup.experiment.privacy.scale == "calibrated"


def steps(setup: Setup, rounds: int) -> Vector:
    """Return the step sizes α(1), ..., α(rounds)."""
    return np.array([setup.run.step(t) for t in range(1, rounds + 1)])


def are_steps(setup: Setup, formula: Callable[[Vector], Vector]) -> bool:
    """Return whether the step sizes of all rounds of the run equal `formula(t)`, where t is the array of all rounds."""
    t = np.arange(1.0, setup.experiment.rounds + 1)
    return np.allclose(steps(setup, len(t)), formula(t), rtol=1e-12, atol=0)


def strongly_convex_steps(setup: Setup) -> tuple[float, float] | None:
    """Return μ and s if the step size of every round t is 1/(μ (t + s)) up to rounding, with μ > 0; None otherwise."""
    inverse = 1 / steps(setup, max(setup.experiment.rounds, 3))
    modulus = float(inverse[-1] - inverse[0]) / (len(inverse) - 1)
    if not (modulus > 0 and np.allclose(inverse, inverse[0] + modulus * np.arange(len(inverse)), rtol=1e-12, atol=0)):
        return None
    return modulus, round(float(inverse[0]) / modulus - 1, 9)


def before(values: Vector, first: float) -> Vector:
    """Return the values shifted by one round: entry t is the value of round t − 1, and entry 1 is `first`."""
    return np.concatenate([[first], values[:-1]])


def upto(summands: Vector, horizons: Rounds) -> Vector:
    """Return the sums of the first t entries of `summands` (T,), for each round t in `horizons`: (h,)."""
    return np.asarray(np.cumsum(summands)[horizons - 1])


def first_broken(*reasons: str) -> str:
    """Return the first of the texts `reasons` that is not empty; an empty text if all texts are empty."""
    return next(filter(None, reasons), "")
