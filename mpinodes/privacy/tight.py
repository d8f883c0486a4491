"""Compute an upper bound on ε by a numerical composition of privacy loss distributions (PLD), with dp-accounting.

The composition takes noised vectors that together cost at least as much as those of any single group of samples
(`Ledger.envelope`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mpinodes.core import Kind, Vector
from mpinodes.core.errors import BadInput
from mpinodes.core.events import Sampling
from mpinodes.privacy.ledger import Ledger

GRID = 1e-4  # step of the discretized privacy losses
BUCKETS = 128  # largest number of distinct shifts that are composed, for each distribution of noise and sampling rate


def compose(ledgers: Sequence[Ledger], counts: Sequence[int]) -> Callable[[float], float]:
    """Return a function of δ that gives an upper bound on the ε of every group of samples, by numerical composition.

    The composed noised vectors are those of `Ledger.envelope`; gamma-norm noise is composed as a pure ε-DP mechanism.

    - If a replaced sample counts as two zeroed samples (`Sampling.POISSON_REPLACED`), the ε is that of one zeroed
      sample.
    - If a vector has no noise or a secret batch of fixed size, the bound is inf for every δ.
    - If all vectors have noise and the data change none of them, the bound is 0 for every δ.

    Args:
        ledgers: the distinct ledgers (privacy costs by group of samples) of the agents.
        counts: the number of agents that share each ledger.

    Raises:
        BadInput: dp-accounting is not installed.
    """
    try:  # this import takes seconds, so this module is imported only if `privacy.tight` is set
        from dp_accounting.pld import common
        from dp_accounting.pld import privacy_loss_distribution as pld
    except ImportError as error:
        raise BadInput("privacy.tight needs dp-accounting: pip install 'mpinodes[tight]'") from error
    shifts: dict[tuple[Kind, float], list[Vector]] = {}  # by distribution of the noise and sampling rate
    squares = 0.0
    for ledger, count in zip(ledgers, counts, strict=True):
        message, delta_2 = ledger.envelope()
        costs = ledger.costs
        kinds, rates = costs.kind[message], costs.rate[message]
        kinds = np.where(kinds == Kind.GAMMA_NORM, Kind.PURE, kinds)
        is_fixed = costs.sampling[message] == Sampling.FIXED
        if not np.isin(kinds, (Kind.LAPLACE, Kind.PURE, Kind.GAUSSIAN)).all() or is_fixed.any():
            return lambda delta: np.inf
        # The shift of a Gaussian in standard deviations, that of a Laplace law in scales, and pure ε of any other law.
        rho, whole = costs.rho(message, delta_2), costs.unamplified(message, delta_2)
        sizes = np.where(kinds == Kind.GAUSSIAN, np.sqrt(2 * rho), whole)
        sizes = np.where(kinds == Kind.PURE, costs.pure(message, delta_2), sizes)
        rates = np.where(kinds == Kind.PURE, 0.0, rates)
        for kind in (Kind.LAPLACE, Kind.PURE, Kind.GAUSSIAN):
            for rate in np.unique(rates[kinds == kind]).tolist():
                here = (kinds == kind) & (rates == rate)
                if kind == Kind.GAUSSIAN and not rate:
                    squares += count * float(2 * rho[here].sum())
                else:
                    shifts.setdefault((kind, rate), []).append(np.repeat(sizes[here], count))
    made = None
    for (kind, rate), parts in shifts.items():
        sizes = np.concatenate(parts)
        values, numbers = np.unique(sizes[sizes > 0], return_counts=True)
        if len(values) > BUCKETS:  # too many distinct shifts: round them up to a geometric grid
            grid = np.geomspace(values[0], values[-1] * (1 + 1e-12), BUCKETS)
            numbers = np.bincount(np.searchsorted(grid, values), numbers, len(grid)).astype(int)
            values, numbers = grid[numbers > 0], numbers[numbers > 0]
        drawn = {"value_discretization_interval": GRID, "sampling_prob": rate or 1.0}
        for value, number in zip(values.tolist(), numbers.tolist(), strict=True):
            if kind == Kind.LAPLACE:
                release = pld.from_laplace_mechanism(1 / value, **drawn)
            elif kind == Kind.GAUSSIAN:
                release = pld.from_gaussian_mechanism(1 / value, **drawn)
            else:
                release = pld.from_privacy_parameters(
                    common.DifferentialPrivacyParameters(value, 0.0), value_discretization_interval=GRID
                )
            release = release.self_compose(number)
            made = release if made is None else made.compose(release)
    if squares:
        # The standard deviation for a shift of 1. REPLACE_ONE of dp-accounting is not used: it would double the shift.
        release = pld.from_gaussian_mechanism(squares**-0.5, value_discretization_interval=GRID)
        made = release if made is None else made.compose(release)
    return lambda delta: 0.0 if made is None else float(made.get_epsilon_for_delta(delta))
