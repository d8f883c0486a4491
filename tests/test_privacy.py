"""The accountant against closed forms, and what is reported where nothing is proven."""

from __future__ import annotations

import json
from math import inf, log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from mpinodes.mechanisms.laplace import Laplace
from mpinodes.privacy.accountant import Ledger, rule, zcdp_epsilon
from mpinodes.protocol import Event, Query
from mpinodes.seeds import Purpose, Stream
from tests.test_algorithms import parts_of


def ledger(events: np.ndarray, horizons: list[int], chunks: int = 1) -> Ledger:
    made = Ledger(events.shape[1], np.array(horizons))
    for chunk in np.array_split(events, chunks):
        made.take(chunk)
    return made


def constant(rounds: int, agents: int, scale: float, l1: float, l2: float) -> np.ndarray:
    events = np.tile(np.array(Event(scale, l1, l2, 1.0)), (rounds, agents, 1))
    events[0, :, 3] = 0  # the first message holds no data
    return events


def test_dpsda_calibrated_by_the_paper_costs_what_the_review_says():
    """PRIVACY: n = 7, 500 data-carrying rounds, d_i = 112, ε = 1: paper 500, pure 3500, zCDP 42.5 at 1e-5.

    With sigma = 2n√d_i·L̂/ε the rounds after the first carry data: 501 rounds here.
    """
    clip, n, block = 1.0, 7, 112
    l2 = 2 * n * clip
    l1 = sqrt(block) * l2
    losses = ledger(constant(501, n, scale=l1, l1=l1, l2=l2), [501]).losses(1e-5, lambda t: t * 1.0)
    assert losses.pure_network[0] == pytest.approx(3500)
    assert losses.pure[0] == pytest.approx([500] * n)
    assert losses.proven_network[0] == pytest.approx(42.5, abs=0.06)
    rho = 500 / (2 * block)
    assert losses.proven[0, 0] == pytest.approx(rho + 2 * sqrt(rho * log(1e5)))


def test_a_shared_loss_costs_the_network_the_sum_over_agents():
    losses = ledger(constant(2, 7, scale=14.0, l1=14.0, l2=14.0), [1, 2]).losses(1e-5, None)
    assert losses.pure_network.tolist() == [0.0, 7.0]
    assert losses.pure.tolist() == [[0.0] * 7, [1.0] * 7]
    assert np.isnan(losses.claimed).all()


@given(seed=st.integers(0, 2**31), chunks=st.integers(1, 7))
def test_the_ledger_does_not_care_how_it_is_fed_and_never_falls(seed, chunks):
    rng = np.random.default_rng(seed)
    events = rng.uniform(0.5, 3, (20, 3, 4))
    events[..., 3] = rng.integers(0, 2, (20, 3))
    horizons = [1, 2, 5, 13, 20]
    whole, split = (ledger(events, horizons, c).losses(1e-5, None) for c in (1, chunks))
    for one, other in zip(whole, split, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    for losses in (whole.pure, whole.proven, whole.pure_network, whole.proven_network):
        assert (np.diff(losses, axis=0) >= 0).all()
    assert (whole.proven <= whole.pure).all()


def test_hidden_state_is_charged_from_the_first_use_on():
    events = constant(4, 1, scale=1.0, l1=2.0, l2=1.0)
    events[2:, :, 3] = 0  # no new data, but the state behind the message still holds the old
    assert ledger(events, [1, 2, 3, 4]).losses(1e-5, None).pure[:, 0].tolist() == [0, 2, 4, 6]


@pytest.mark.parametrize(("scale", "l1"), [(0.0, 1.0), (1.0, inf)])
def test_no_noise_or_no_bound_is_unproven(scale, l1):
    losses = ledger(constant(5, 2, scale, l1, l1), [5]).losses(1e-5, lambda t: t)
    assert np.isnan(losses.proven).all()
    assert np.isnan(losses.pure_network).all()
    assert rule(float(losses.pure[0, 0]), float(losses.proven[0, 0])) == "unproven"


def test_the_rule_is_the_one_that_gave_the_least():
    few, many = (ledger(constant(t, 1, 1.0, 1.0, 0.1), [t]).losses(1e-5, None) for t in (2, 200))
    assert rule(float(few.pure[0, 0]), float(few.proven[0, 0])) in ("pure", "zCDP")
    assert rule(1.0, 1.0) == "pure"
    assert rule(float(many.pure[0, 0]), float(many.proven[0, 0])) == "zCDP"
    assert many.proven[0, 0] == pytest.approx(zcdp_epsilon(np.array(199 * 0.01 / 2), 1e-5))


def test_laplace_noise_has_its_law_and_scale():
    """50,000 draws against the exact distribution; the p-value is fixed by the seed."""
    query = Query(np.full(50_000, 3.0), l1=4.0, l2=1.0, uses=(1,))
    out = np.empty(50_000)
    event = Laplace(epsilon=2.0, constant=None).release(query, 5, Stream(0, Purpose.NOISE, 0), out)
    assert event == Event(scale=2.0, l1=4.0, l2=1.0, uses=1)
    assert kstest((out - 3.0) / event.scale, "laplace").pvalue > 0.01
    assert Laplace(0.5, 3.0).release(query, 5, Stream(0, Purpose.NOISE, 0), out).scale == 6.0


def test_a_query_without_sensitivity_is_refused():
    with pytest.raises(ValueError, match="sensitivity must be > 0"):
        Query(np.zeros(3), l1=0.0, l2=1.0, uses=())


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
