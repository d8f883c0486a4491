"""Find the best fixed decision at every horizon and, on demand, the best decision of every single round."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from mpinodes.core import SampleLoss, Set, Setup, Vector
from mpinodes.evaluation.comparator import Comparator, best
from mpinodes.evaluation.meter import Meter
from mpinodes.evaluation.samples import Total
from mpinodes.losses.linear import LinearLoss, PiecewiseLinearLoss

LONG = 10.0  # expected seconds above which a comparator that was not asked for is left out
Tell = Callable[[int, int], None]  # is called with the numbers of horizons done and of all


def left_out(setup: Setup, meter: Meter) -> str:
    """Return why no comparator, and so no regret, is computed; empty: it is computed."""
    wanted = setup.experiment.comparator
    if wanted is False:
        return "comparator=false"
    if not isinstance(loss := setup.stream.of(0)(1), SampleLoss):
        name = setup.experiment.problem.loss
        return f"a {type(loss).__name__} shows no samples, and losses here are those of {name} on the stream's own"
    if not meter.losses.kind.convex:
        return f"{meter.losses.kind.__name__} is not known to be convex; a loss that is states convex = True"
    if wanted is None and (seconds := _expected_seconds(setup, meter)) > LONG:
        return f"it may take about {seconds:.0f} s; comparator=true has it found all the same"
    return ""


def _expected_seconds(setup: Setup, meter: Meter) -> float:
    """Return about how long all horizons take on one core, from counts alone, so that all machines decide alike.

    Fitted to 3,000 to 60,000 samples of 10 to 784 features with norms of about 1. Losses with kinks take a tenth of
    that where features are short or the regularizer is strong, and some times as long where features are long. With
    labels for targets, few samples are near their kinks. The smooth losses take no longer than a part of the rounds.
    """
    kind, shares, d = meter.losses.kind, setup.stream.shares, setup.dimension
    owners = len(setup.samples) if setup.algorithm.decomposable else 1
    most = np.inf if shares is None else sum(len(share) for share in shares[:owners])
    rounds = meter.horizons[-1:] if setup.stream.batch == "all" else meter.horizons
    samples = np.minimum(rounds * float(sum(setup.samples[:owners])), most)
    if issubclass(kind, PiecewiseLinearLoss):
        factor = 6e-7 if kind.needs_labels else 3e-8 * np.minimum(samples, d)
        return float(np.sum(factor * samples * np.minimum(samples, d))) if meter.losses.is_dense else 0.0
    return 0.0 if issubclass(kind, LinearLoss) else float(np.sum(1e-3 + 2e-7 * samples * d))


def best_fixed(meter: Meter, feasible: Set, tell: Tell, known: Mapping[int, Comparator]) -> list[Comparator]:
    """Return argmin over v in 𝒳 of Σ_t Σ_i f_i^t(v) over the rounds up to every horizon.

    Args:
        meter: of the run.
        feasible: 𝒳.
        tell: is called after every horizon.
        known: comparators by horizon, of another run on the same losses.
    """
    everything, began = meter.losses.everything, np.nan_to_num(meter.last[0])
    if everything.is_constant:
        once = best(everything.upto(1), feasible, np.nan_to_num(meter.mean[-1]), others=[began])
        return [Comparator(once.point, t * once.value, t * once.certificate) for t in meter.horizons.tolist()]
    fixed: list[Comparator] = []
    for t, sums, mean in zip(meter.horizons.tolist(), meter.total, meter.mean, strict=True):
        if t in known:
            fixed.append(known[t])
            continue
        near = [began, *(c.point for c in fixed[-1:])]
        # The decisions of a run may be unknown (nan), and the losses of averages and agents.
        fixed.append(best(everything.upto(t), feasible, np.nan_to_num(mean), float(np.nanmin(sums)), near))
        tell(len(fixed), len(meter.horizons))
    return fixed


def best_of_rounds(everything: Total, feasible: Set, horizons: np.ndarray, fixed: list[Comparator]) -> Vector:
    """Return Σ_t min_v Σ_i f_i^t(v), and the path length Σ_t ‖v(t) − v(t − 1)‖ of the minimizers: (2, h)."""
    if everything.is_constant:
        return np.array([[c.value for c in fixed], np.zeros(len(fixed))])
    at = fixed[0]
    sums, totals = np.array([at.value, 0.0]), np.zeros((2, len(horizons)))
    totals[:, horizons == 1] = sums[:, None]
    for t in range(2, int(horizons[-1]) + 1):
        before, at = at, best(everything.upto(t, first=t), feasible, at.point)
        sums += at.value, float(np.linalg.norm(at.point - before.point))
        totals[:, horizons == t] = sums[:, None]
    return totals
