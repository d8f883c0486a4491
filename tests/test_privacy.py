"""Mechanisms, sensitivities, and what is reported where nothing is proven."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.stats import kstest

from mpinodes.mechanisms.laplace import Laplace
from mpinodes.protocol import Event, Kind, Query
from mpinodes.seeds import Purpose, Stream
from tests.test_algorithms import parts_of


def test_laplace_noise_has_its_law_and_scale():
    """50,000 draws against the exact distribution; the p-value is fixed by the seed."""
    query = Query(np.full(50_000, 3.0), l1=4.0, l2=1.0, uses=1)
    out = np.empty(50_000)
    event = Laplace(epsilon=2.0, constant=None).release(query, 5, Stream(0, Purpose.NOISE, 0), out)
    assert event == Event.of(query, Kind.LAPLACE, 2.0)
    assert (event.draws, event.l1, event.uses) == (1, 4.0, 1)
    assert kstest((out - 3.0) / event.scale, "laplace").pvalue > 0.01
    assert Laplace(0.5, 3.0).release(query, 5, Stream(0, Purpose.NOISE, 0), out).scale == 6.0


def test_a_query_without_sensitivity_is_refused():
    with pytest.raises(ValueError, match="sensitivity must be > 0"):
        Query(np.zeros(3), l1=0.0, l2=1.0, uses=0)
    with pytest.raises(ValueError, match="hidden gain, cap and keep must be >= 0"):
        Query(np.zeros(3), l1=1.0, l2=1.0, uses=0, hidden_gain=-1.0)


@pytest.mark.parametrize("words", ["algorithm.name=dpsda-c", "algorithm.name=dpsda-ps", "algorithm.name=dpcda"])
@pytest.mark.parametrize("adjacency", ["one-sample", "one-round"])
@pytest.mark.parametrize("average", ["true", "false"])
def test_a_changed_round_moves_the_next_release_by_no_more_than_claimed(words, adjacency, average):
    """One agent on adjacent data, given the same inbox: the realised change of z against the claim."""
    from mpinodes.protocol import Inbox

    parts = parts_of(f"{words} data.batch=5 privacy.adjacency={adjacency} problem.average={average} privacy.clip=0.3")
    rng, worst = np.random.default_rng(0), 0.0
    make = type(parts.stream.of(0)(1))
    settings = {
        "clip": 0.3,
        "whole": adjacency == "one-round",
        "divisor": 5.0 if average == "true" else 1.0,
    }
    me = parts.topology.agents - 1
    place = parts.topology.round(2, me)
    inbox = Inbox([rng.standard_normal(64) for _ in place.senders], [1 / len(place.senders)] * len(place.senders), 0.7)
    state = parts.algorithm.init(np.zeros(64))
    for _ in range(200):
        a, b = 10 * rng.standard_normal((5, 64)), rng.choice([-1.0, 1.0], 5)
        a2, b2 = a.copy(), b.copy()
        rows = slice(None) if adjacency == "one-round" else 2
        a2[rows] = 10 * rng.standard_normal(a2[rows].shape)
        after = [parts.algorithm.update(state, place, inbox, make(x, y, **settings)) for x, y in ((a, b), (a2, b2))]
        queries = [parts.algorithm.message(s, parts.topology.round(3, me)) for s in after]
        change = queries[0].value - queries[1].value
        assert np.linalg.norm(change) <= queries[0].l2 * (1 + 1e-12)
        assert np.abs(change).sum() <= queries[0].l1 * (1 + 1e-12)
        worst = max(worst, np.linalg.norm(change) / queries[0].l2)
    assert worst > 0.5  # the claim is not vacuous


def test_a_run_without_clipping_reports_unproven_as_null(tmp_path):
    from mpinodes import run_lockstep

    run = run_lockstep(
        {
            "privacy": {"clip": "inf", "scale": 3.0},
            "rounds": 5,
            "report": False,
            "output": {"dir": str(tmp_path / "run")},
        }
    )
    text = (run / "summary.json").read_text()
    privacy = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))["privacy"]
    assert privacy["network"] == {"claimed": 5.0, "proven_pure": None, "proven": None, "rule": "unproven"}
    assert privacy["agents"] == [privacy["network"]] * 7
