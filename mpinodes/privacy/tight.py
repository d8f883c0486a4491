"""Composition by privacy loss distributions, with Google's dp-accounting: an upper bound, and nearly exact.

Imported only where `privacy.tight` asks for it: it takes seconds to import.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpinodes.core import Kind, Vector
from mpinodes.core.errors import BadInput
from mpinodes.privacy.ledger import Ledger

GRID = 1e-4  # of the discretized losses
BUCKETS = 128  # to which the shifts are rounded up


def compose(ledgers: Sequence[Ledger], counts: Sequence[int], delta: float) -> float:
    """ε at δ of all events that the ledgers' envelopes hold, each `count` times; inf where it cannot tell.

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
        kinds = ledger.costs.kinds(message)
        kinds = np.where(kinds == Kind.GAMMA_NORM, Kind.PURE, kinds)
        if not np.isin(kinds, (Kind.LAPLACE, Kind.PURE, Kind.GAUSSIAN)).all():
            return np.inf
        for kind, found in shifts.items():
            here = kinds == kind
            found.append(np.repeat(ledger.costs.pure(message[here], delta_2[here]), count))
        here = kinds == Kind.GAUSSIAN
        squares += count * float(2 * ledger.costs.rho(message[here], delta_2[here]).sum())
    whole = None
    for kind, parts in shifts.items():
        for value, number in _bucketed(np.concatenate(parts)):
            if kind == Kind.LAPLACE:
                one = pld.from_laplace_mechanism(1 / value, value_discretization_interval=GRID)
            else:
                one = pld.from_privacy_parameters(
                    common.DifferentialPrivacyParameters(value, 0.0), value_discretization_interval=GRID
                )
            one = one.self_compose(number)
            whole = one if whole is None else whole.compose(one)
    if squares:
        # The standard deviation for a shift of 1: the accountant's own REPLACE_ONE would double the shift.
        one = pld.from_gaussian_mechanism(squares**-0.5, value_discretization_interval=GRID)
        whole = one if whole is None else whole.compose(one)
    return 0.0 if whole is None else float(whole.get_epsilon_for_delta(delta))


def _bucketed(shifts: Vector) -> list[tuple[float, int]]:
    """Distinct shifts with their numbers; more than `BUCKETS` of them are rounded up to a geometric grid."""
    shifts = shifts[shifts > 0]
    values, counts = np.unique(shifts, return_counts=True)
    if len(values) > BUCKETS:
        grid = np.geomspace(values[0], values[-1] * (1 + 1e-12), BUCKETS)
        place = np.searchsorted(grid, values)
        counts = np.bincount(place, counts, len(grid)).astype(int)
        values, counts = grid[counts > 0], counts[counts > 0]
    return [(float(value), int(count)) for value, count in zip(values, counts, strict=True)]
