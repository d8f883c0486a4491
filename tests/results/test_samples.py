"""Samples as the logger has them."""

from __future__ import annotations

import numpy as np
import pytest

from mpinodes.core.experiment import asked_for
from mpinodes.results import samples
from mpinodes.results.samples import Samples
from mpinodes.simulation.setup import set_up


@pytest.mark.parametrize("at_once", [100, 10**6])
@pytest.mark.parametrize("words", ["data.name=olr", "data.name=unit-ball data.total=60 data.batch=2"])
def test_samples_that_are_too_many_to_be_kept_are_read_again(words, at_once, monkeypatch):
    asked = asked_for(f"algorithm.name=dola topology.name=ring topology.agents=3 rounds=9 {words}".split())
    monkeypatch.setattr(samples, "BYTES_AT_ONCE", at_once)
    found = []
    for kept in (10**9, 0):
        monkeypatch.setattr(samples, "KEPT", kept)
        some = Samples(set_up(asked, None).stream, 3, 9)
        parts = [some.of(1, 4), some.of(5, 5), some.of(2, 3)]
        assert (some._read > 0) == (kept > 0)
        whole = some.everything()
        found.append([*(array for part in parts for array in part), whole.features, whole.targets])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
