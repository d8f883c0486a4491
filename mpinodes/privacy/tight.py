"""Compute an upper bound on ε by a numerical composition of privacy loss distributions.

The bound is almost exact for the composed releases, which cost at least as much as the releases of any single group of
samples (`Ledger.envelope`). The computation uses Google's package dp-accounting. Because dp-accounting takes seconds to
import, this module is imported only if `privacy.tight` is set.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpinodes.core import Kind, Vector
from mpinodes.core.errors import BadInput
from mpinodes.privacy.ledger import Ledger

GRID = 1e-4  # step of the discretized privacy losses
BUCKETS = 128  # largest number of distinct shifts that are composed


def compose(ledgers: Sequence[Ledger], counts: Sequence[int], delta: float) -> float:
    """Return the ε at δ of the numerical composition of releases, which bounds the ε at δ of every group of samples.

    The releases are those of `Ledger.envelope`. Gamma-norm noise is composed as a pure ε-DP mechanism. The result is
    inf if one of the releases has no noise, and 0 if no release moves.

    Args:
        ledgers: the distinct ledgers (privacy costs by group of samples) of the agents.
        counts: the number of agents that share each ledger.
        delta: δ.

    Raises:
        BadInput: dp-accounting is not installed.
    """
    try:
        from dp_accounting.pld import common
        from dp_accounting.pld import privacy_loss_distribution as pld
    except ImportError as error:
        raise BadInput("privacy.tight needs dp-accounting: pip install 'mpinodes[tight]'") from error
    shifts: dict[Kind, list[Vector]] = {Kind.LAPLACE: [], Kind.PURE: []}
    squares = 0.0
    for ledger, count in zip(ledgers, counts, strict=True):
        message, delta_2 = ledger.envelope()
        kinds = ledger.costs.kind[message]
        kinds = np.where(kinds == Kind.GAMMA_NORM, Kind.PURE, kinds)
        if not np.isin(kinds, (Kind.LAPLACE, Kind.PURE, Kind.GAUSSIAN)).all():
            return np.inf
        for kind, parts in shifts.items():
            here = kinds == kind
            parts.append(np.repeat(ledger.costs.pure(message[here], delta_2[here]), count))
        here = kinds == Kind.GAUSSIAN
        squares += count * float(2 * ledger.costs.rho(message[here], delta_2[here]).sum())
    whole = None
    for kind, parts in shifts.items():
        sizes = np.concatenate(parts)
        values, numbers = np.unique(sizes[sizes > 0], return_counts=True)
        if len(values) > BUCKETS:  # too many distinct shifts: round them up to a geometric grid
            grid = np.geomspace(values[0], values[-1] * (1 + 1e-12), BUCKETS)
            numbers = np.bincount(np.searchsorted(grid, values), numbers, len(grid)).astype(int)
            values, numbers = grid[numbers > 0], numbers[numbers > 0]
        for value, number in zip(values.tolist(), numbers.tolist(), strict=True):
            if kind == Kind.LAPLACE:
                release = pld.from_laplace_mechanism(1 / value, value_discretization_interval=GRID)
            else:
                release = pld.from_privacy_parameters(
                    common.DifferentialPrivacyParameters(value, 0.0), value_discretization_interval=GRID
                )
            release = release.self_compose(number)
            whole = release if whole is None else whole.compose(release)
    if squares:
        # The standard deviation for a shift of 1. REPLACE_ONE of dp-accounting is not used: it would double the shift.
        release = pld.from_gaussian_mechanism(squares**-0.5, value_discretization_interval=GRID)
        whole = release if whole is None else whole.compose(release)
    return 0.0 if whole is None else float(whole.get_epsilon_for_delta(delta))
