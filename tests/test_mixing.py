"""Weights: stochastic in the direction that each mixing promises, on any graph."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpinodes.mixing.metropolis import Metropolis
from mpinodes.mixing.push_sum import PushSum
from mpinodes.mixing.uniform import Uniform
from mpinodes.protocol import Inbox, Round


@st.composite
def graphs(draw, undirected: bool):
    n = draw(st.integers(1, 9))
    pairs = [(j, i) for j in range(n) for i in range(n) if i != j]
    edges = set(draw(st.lists(st.sampled_from(pairs), unique=True))) if pairs else set()
    return n, edges | {(i, j) for j, i in edges} if undirected else edges


def place(n: int, edges: set[tuple[int, int]], t: int = 1) -> list[Round]:
    return [
        Round(t, i, tuple(sorted(j for j, k in edges if k == i)), tuple(sorted(k for j, k in edges if j == i)))
        for i in range(n)
    ]


def matrix(mixing, rounds: list[Round], states: list) -> tuple[np.ndarray, list, list[float]]:
    """The mixing matrix of a round, the new states and the scales."""
    said = [np.array(mixing.say(s, r), dtype=float) for s, r in zip(states, rounds, strict=True)]
    weights, after, scales = np.zeros((len(rounds), len(rounds))), [], []
    for i, r in enumerate(rounds):
        state, row, scale = mixing.hear(states[i], r, [said[j] for j in r.senders])
        weights[i, list(r.senders)] = row
        after.append(state), scales.append(scale)
    return weights, after, scales


@given(graphs(undirected=False))
def test_uniform_rows_sum_to_one(graph):
    weights, _, _ = matrix(Uniform(), place(*graph), [None] * graph[0])
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-14)
    assert (np.diag(weights) > 0).all()


@given(graphs(undirected=True))
def test_metropolis_is_doubly_stochastic_and_symmetric(graph):
    weights, _, _ = matrix(Metropolis(), place(*graph), [None] * graph[0])
    np.testing.assert_allclose(weights.sum(axis=0), 1, rtol=1e-14)
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-14)
    np.testing.assert_array_equal(weights, weights.T)
    assert (weights >= -1e-16).all()
    assert (np.diag(weights) > 0).all()


@given(graphs(undirected=False), st.integers(1, 30))
def test_push_sum_columns_sum_to_one_and_weights_to_n(graph, rounds):
    n, edges = graph
    states = [PushSum().init(i) for i in range(n)]
    for t in range(1, rounds + 1):
        weights, states, scales = matrix(PushSum(), place(n, edges, t), states)
        np.testing.assert_allclose(weights.sum(axis=0), 1, rtol=1e-14)
        assert sum(states) == pytest.approx(n, rel=1e-12)
        assert scales == states


def test_push_sum_reaches_the_mean_on_a_digraph():
    edges = {(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)}
    x, states = np.array([4.0, -1.0, 7.0, 2.0]), [1.0] * 4
    for t in range(1, 300):
        weights, states, scales = matrix(PushSum(), place(4, edges, t), states)
        x = weights @ x
    np.testing.assert_allclose(x / scales, 3.0, rtol=1e-12)


def test_uniform_columns_need_not_sum_to_one():
    """Why equation (16) of the paper is tested for Metropolis only."""
    weights, _, _ = matrix(Uniform(), place(3, {(0, 1), (1, 0), (1, 2), (2, 1)}), [None] * 3)
    assert abs(weights.sum(axis=0) - 1).max() > 0.1


def test_mixing_sums_in_ascending_order_of_sender():
    """The order decides the last bits, and lockstep and MPI must agree on them."""
    releases = [np.array([1e16]), np.array([1.0]), np.array([-1e16])]
    assert Inbox(releases, [1.0, 1.0, 1.0], 1.0).mix()[0] == (1e16 + 1.0) - 1e16
    assert Inbox(releases[::-1], [1.0, 1.0, 1.0], 1.0).mix()[0] == (-1e16 + 1.0) + 1e16


def test_mixing_leaves_the_releases_alone():
    releases = [np.ones(3), np.full(3, 2.0)]
    Inbox(releases, [0.5, 0.5], 1.0).mix()[:] = 9
    assert releases[0].tolist() == [1, 1, 1]
