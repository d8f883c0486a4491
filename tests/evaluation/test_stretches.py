"""What a run loses does not depend, to the bit, on how many rounds come at once."""

from __future__ import annotations

import numpy as np
import pytest

from mpinodes.evaluation.meter import Meter
from tests.helpers.parts import setup_of


@pytest.mark.parametrize("agents", [3, 19])  # NumPy adds more than 8 numbers in a row otherwise than side by side
@pytest.mark.parametrize("algorithm", ["dola", "dpsda-c"])
def test_what_is_lost_does_not_depend_on_the_stretch(agents, algorithm):
    setup = setup_of({
        "algorithm": {"name": algorithm}, "data": {"name": "unit-ball", "dimension": 20},
        "topology": {"name": "ring", "agents": agents}, "problem": {"regularizer": 0.3}, "rounds": 60,
    })  # fmt: skip
    rows = np.random.default_rng(0).standard_normal((agents, 60, setup.dimension + 5))  # as agents send them

    def lost(*lengths: int) -> np.ndarray:
        meter, begin, found = Meter(setup, np.array([60])), 0, []
        for length in lengths:
            came = rows[:, begin : begin + length, : setup.dimension].swapaxes(0, 1)
            rounds = meter.take(came)
            found.append(np.column_stack([rounds.losses, rounds.agent_losses]))
            begin += length
        return np.concatenate(found)

    whole = lost(60)
    assert np.array_equal(lost(*[1] * 60), whole)
    assert np.array_equal(lost(1, 2, 5, 12, 40), whole)
