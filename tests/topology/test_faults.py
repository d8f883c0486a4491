"""What gets through of a graph with faults: a pure function of the round, and nothing is heard that was not said."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpinodes.config import registry
from mpinodes.core.experiment import Faults
from mpinodes.core.parts import Links

GRAPHS = ["ring", "random-digraph", "random-digraph-each-round", "erdos-renyi-each-round", "b-connected"]
SHARES = st.sampled_from([0.0, 0.2, 0.7])


@st.composite
def faulty(draw, each: bool | None = None) -> Links:
    n, seed = draw(st.integers(2, 7)), draw(st.integers(0, 2**40))
    graph = registry.find(registry.TOPOLOGIES, draw(st.sampled_from(GRAPHS)))(agents=n, seed=seed)
    faults = Faults(
        loss=draw(SHARES), delay=draw(st.integers(0, 4)), churn=draw(SHARES), absence=draw(st.integers(1, 5)),
        stragglers=draw(SHARES), lag=draw(st.integers(1, 3)),
    )  # fmt: skip
    return Links(graph, faults, seed, draw(st.booleans()) if each is None else each)


def again(links: Links) -> Links:
    return Links(links.graph, links.faults, links.seed, links.each)


@settings(deadline=None, max_examples=40)
@given(faulty())
def test_what_gets_through_is_a_pure_function_of_the_round(links):
    other, rounds = again(links), range(1, 16)
    later = {t: (other.lateness(t).copy(), other.sends(t), other.away(t)) for t in reversed(rounds)}
    for t in rounds:
        for one, two in zip((links.lateness(t), links.sends(t), links.away(t)), later[t], strict=True):
            np.testing.assert_array_equal(one, two)


@settings(deadline=None, max_examples=40)
@given(faulty(each=True))
def test_what_is_not_lost_is_heard_once_and_in_time(links):
    """Of every message: sent along an edge, by and to agents that are there, and heard when it is due, or never."""
    n, rounds = links.graph.agents, 12
    heard = [(j, s, i, t) for t in range(1, rounds + 1) for i in range(n) for j, s in links.heard(t, i)]
    due = [(i, t, i, t) for t in range(1, rounds + 1) for i in range(n)]
    for s in range(1, rounds + 1):
        late = links.lateness(s)
        np.testing.assert_array_equal(late >= 0, (late >= 0) & links.sends(s) & links.graph.sends(s))
        assert not links.sends(s)[links.away(s)].any()
        assert not links.sends(s)[:, links.away(s)].any()
        faults = links.faults
        assert late.max() <= faults.most_late == faults.delay + bool(faults.stragglers) * faults.lag
        due += [(j, s, i, s + int(late[j, i])) for j, i in np.argwhere(late >= 0) if s + late[j, i] <= rounds]
    assert sorted(heard) == sorted(due)
    assert len(set(heard)) == len(heard)


@settings(deadline=None, max_examples=40)
@given(faulty())
def test_both_ends_know_what_gets_through(links):
    n = links.graph.agents
    for t in range(1, 9):
        carried = [links.carried(t, i) for i in range(n)]
        places = [links.neighborhood(t, i) for i in range(n)]
        for i in range(n):
            assert carried[i].out_neighbors == places[i].out_neighbors
            assert carried[i].in_neighbors == tuple(j for j in range(n) if i in carried[j].out_neighbors)
            assert places[i].senders == tuple(j for j, _ in links.heard(t, i))
            assert (i, t) in links.heard(t, i)


@settings(deadline=None, max_examples=40)
@given(faulty(each=True))
def test_rows_hear_of_each_sender_the_newest(links):
    newest = Links(links.graph, links.faults, links.seed, each=False)
    for t in range(1, 12):
        for i in range(links.graph.agents):
            assert dict(newest.heard(t, i)) == dict(links.heard(t, i))  # of equal keys the last one stays
            assert len(dict(newest.heard(t, i))) == len(newest.heard(t, i))


def complete(n: int, **faults: float) -> Links:
    graph = registry.find(registry.TOPOLOGIES, "complete")(agents=n)
    asked = Faults(**faults)
    return Links(graph, asked, 7, each=True)


def test_faults_come_as_often_as_is_asked_for():
    links, edges = complete(20, loss=0.2, delay=3), ~np.eye(20, dtype=bool)
    late = np.array([links.lateness(t)[edges] for t in range(1, 201)])
    assert np.mean(late < 0) == pytest.approx(0.2, abs=4 * np.sqrt(0.16 / late.size))
    for rounds in range(4):
        assert np.mean(late == rounds) == pytest.approx(0.2, abs=4 * np.sqrt(0.16 / late.size))


def test_agents_are_away_for_as_long_and_as_often_as_is_asked_for():
    links = complete(200, churn=0.1, absence=5)
    away = np.array([links.away(t) for t in range(1, 401)])
    assert away.mean() == pytest.approx(0.1, abs=4 * np.sqrt(0.09 / (away.size / 5)))
    for agent in range(200):
        gone = np.flatnonzero(np.diff(np.concatenate([[0], away[5:-5, agent], [0]])))
        ends = gone[1::2] - gone[::2]
        assert all(end % 5 == 0 for end in ends[1:-1]), "an absence is of whole stretches"
    begins = [np.flatnonzero(np.diff(away[:, i].astype(int)) == 1)[0] % 5 for i in range(200) if away[:, i].any()]
    assert len(set(begins)) == 5, "they do not all leave in the same rounds"


@pytest.mark.parametrize(("n", "share", "slow"), [(10, 0.2, 2), (4, 0.1, 1), (5, 1.0, 5)])
def test_stragglers_are_so_for_good(n, share, slow):
    links = complete(n, stragglers=share, lag=4)
    late = [links.lateness(t).max(axis=1) for t in (1, 2, 50)]
    assert all((one == late[0]).all() for one in late)
    assert sorted(late[0].tolist()) == [0] * (n - slow) + [4] * slow


def test_one_fault_moves_no_other():
    alone, beside = complete(9, loss=0.3), complete(9, loss=0.3, delay=2, churn=0.2, stragglers=0.3)
    for t in range(1, 30):
        there = beside.sends(t)
        np.testing.assert_array_equal((alone.lateness(t) < 0)[there], (beside.lateness(t) < 0)[there])
    fewer, more = complete(9, loss=0.1), complete(9, loss=0.4)
    assert all(((fewer.lateness(t) < 0) <= (more.lateness(t) < 0)).all() for t in range(1, 30))
