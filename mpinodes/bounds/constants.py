"""What theorems ask of a run, from public constants: how steep its losses, how long its steps, how strong its noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf, isinf, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpinodes.core import Bound, Setup, Vector
from mpinodes.losses.linear import LinearLoss

Rounds = NDArray[np.int64]  # (h,) horizons


def bound(name: str, of: str, values: Vector, broken: str) -> Bound:
    """A bound, by the assumption that is broken, if any; values that are no numbers or overflow become inf."""
    finite = np.where(np.isnan(values), inf, values)
    applies = not broken
    if applies and np.isinf(finite).any():
        broken = "its constants overflow: it bounds nothing"
    return Bound(name, of, finite, applies, broken)


def terms(setup: Setup) -> float:
    """How many samples' gradients an agent's gradient is the sum of."""
    return setup.experiment.problem.weight * (1.0 if setup.experiment.problem.average else max(setup.samples))


def whole_losses(setup: Setup) -> list[LinearLoss]:
    """By agent its loss, unclipped; of a stream of all samples in every round."""
    first: list[Any] = [setup.stream.of(i)(1) for i in range(setup.topology.agents)]
    return [replace(loss, clip=inf) for loss in first]


def largest_gradient(setup: Setup) -> np.float64:
    """L: the most that the clipping leaves of the samples' part of an agent's gradient, in L2."""
    whole = setup.experiment.privacy.adjacency == "one-round"
    return np.float64(setup.experiment.clip * (1.0 if whole else terms(setup)))


def unclipped(setup: Setup) -> str:
    """Why nothing bounds the gradients; empty: the clipping does."""
    return "privacy.clip = inf: nothing bounds the gradients" if isinf(setup.experiment.clip) else ""


def sample_gradient(setup: Setup, within: float = inf) -> float:
    """The most, in L2, that a sample's gradient over a block may be, at points of norms up to this; unclipped."""
    size = max(block.stop - block.start for block in setup.blocks)
    norm = float(min(setup.stream.feature_norm, setup.stream.feature_bound * sqrt(size)))
    return setup.loss.largest_gradient(norm, within)


def clipped(setup: Setup, within: float = inf) -> str:
    """Why the gradients at points of norms up to this may be other than those of the losses; empty: they are not."""
    clip = setup.experiment.clip
    reach = sample_gradient(setup, within)
    if setup.experiment.privacy.adjacency == "one-round":
        reach *= terms(setup)
    if reach <= clip * (1 + 1e-12):
        return ""
    far = "have no bound" if isinf(reach) else f"may reach {reach:.3g}"
    return f"gradients {far} and privacy.clip = {clip:g} cuts them: they are then not those of the losses"


def noise_scales(setup: Setup, sensitivity: Vector) -> Vector:
    """The Laplace scale of each round, where calibrated noise is for these L1 sensitivities."""
    e = setup.experiment
    if not e.private:
        return np.zeros_like(sensitivity)
    if e.privacy.scale == "calibrated":
        return sensitivity / e.privacy.epsilon
    return np.full_like(sensitivity, e.privacy.scale / e.privacy.epsilon)


def calibrated(setup: Setup) -> bool:
    """Whether the noise is as the theorems have it, or none."""
    return not setup.experiment.private or setup.experiment.privacy.scale == "calibrated"


def steps(setup: Setup, rounds: int) -> Vector:
    """α(1), ..., α(rounds)."""
    return np.array([setup.run.step(t) for t in range(1, rounds + 1)])


def are_steps(setup: Setup, formula: Callable[[Vector], Vector]) -> bool:
    """Return whether the steps of all rounds are those of a formula of t."""
    t = np.arange(1.0, setup.experiment.rounds + 1)
    return np.allclose(steps(setup, len(t)), formula(t), rtol=1e-12, atol=0)


def strongly_convex_steps(setup: Setup) -> tuple[float, float] | None:
    """Return μ and s where the steps of all rounds (at least 3) are 1/(μ (t + s)); None: the steps are others."""
    inverse = 1 / steps(setup, max(setup.experiment.rounds, 3))
    modulus = float(inverse[-1] - inverse[0]) / (len(inverse) - 1)
    if not (modulus > 0 and np.allclose(inverse, inverse[0] + modulus * np.arange(len(inverse)), rtol=1e-12, atol=0)):
        return None
    return modulus, round(float(inverse[0]) / modulus - 1, 9)


def before(values: Vector, first: float) -> Vector:
    """Values of the round before, by round."""
    return np.concatenate([[first], values[:-1]])


def upto(summands: Vector, horizons: Rounds) -> Vector:
    """Sums of the rounds up to each horizon: (T,) -> (h,)."""
    return np.asarray(np.cumsum(summands)[horizons - 1])


def first_broken(*reasons: str) -> str:
    """The first reason that is one."""
    return next(filter(None, reasons), "")
