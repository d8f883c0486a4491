"""How far a changed sample moves messages: replay's bound and the ledger's, both against the recursion written out."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpinodes.auditing.replay import claimed
from mpinodes.privacy.ledger import Recursive, Saturated, Uses, open_ledger
from tests.helpers.accounting import events

ROUNDS = 20
GAINS = ["smooth", "boundless", "interrupted", "public"]  # the third: boundless, but nothing of older rounds in some


def moves(carried, l2, hidden_gain, hidden_cap, hidden_keep) -> np.ndarray:
    """δ(t) = [l2(t)] + min(cap(t), gain(t) δ(t − 1)) + keep(t) δ(t − 1), 0 · ∞ = 0."""
    found, before = [], 0.0
    for t in range(ROUNDS):
        leaked = 0.0 if before == 0 or hidden_gain[t] == 0 else min(hidden_cap[t], hidden_gain[t] * before)
        before = (l2[t] if carried[t] else 0.0) + leaked + hidden_keep[t] * before
        found.append(before)
    return np.array(found)


def random_leaks(rng: np.random.Generator, gains: str, kept: bool) -> dict[str, np.ndarray]:
    some = rng.random(ROUNDS) < 0.2
    gain = {
        "smooth": np.where(some, 0.0, rng.uniform(0, 1.5, ROUNDS)),
        "boundless": np.full(ROUNDS, inf),
        "interrupted": np.where(some, 0.0, inf),
        "public": np.zeros(ROUNDS),
    }
    return {
        "l2": rng.uniform(0.2, 1, ROUNDS),
        "hidden_gain": gain[gains],
        "hidden_cap": rng.uniform(0.1, 2, ROUNDS),
        "hidden_keep": rng.uniform(0, 0.9, ROUNDS) if kept else np.zeros(ROUNDS),
    }


def accounted(made: np.ndarray) -> tuple[np.ndarray, type]:
    """The ledger's own δ(t) of a sample: what message t adds to its pure ε, noise and ratio of norms being 1."""
    ledger = open_ledger(made, Uses.of(made, lambda r: [0]))
    sums = [ledger.at(horizon)[0].sum() for horizon in range(1, ROUNDS + 1)]
    return np.diff([0.0, *sums]), type(ledger)


@given(seed=st.integers(0, 2**31), gains=st.sampled_from(GAINS), kept=st.booleans())
@settings(max_examples=100)
def test_replay_and_ledger_bound_every_message_by_the_recursion(seed, gains, kept):
    rng = np.random.default_rng(seed)
    leaks, carried = random_leaks(rng, gains, kept), rng.random(ROUNDS) < 0.2
    carried[rng.integers(ROUNDS)] = True
    made = events(ROUNDS, l1=leaks["l2"], uses=carried.astype(float), **leaks)
    wanted = moves(carried, **leaks)
    np.testing.assert_allclose(claimed(made, carried), wanted, rtol=1e-12)
    found, ledger = accounted(made)
    assert ledger is (Recursive if kept or gains == "smooth" else Saturated)
    if ledger is Saturated and gains == "interrupted":  # counted as never interrupted
        later = np.cumsum(carried) - carried > 0
        saturated = leaks["l2"] * carried + np.where(later & (leaks["hidden_gain"] > 0), leaks["hidden_cap"], 0.0)
        assert (saturated >= wanted).all()
        wanted = saturated
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("zero", ["hidden_gain", "hidden_cap"])
def test_a_gain_or_a_cap_of_nothing_ends_a_leak(zero):
    leaks = {"hidden_gain": np.full(ROUNDS, 0.5), "hidden_cap": np.ones(ROUNDS)}
    leaks[zero] = np.where(np.arange(ROUNDS) == 5, 0.0, leaks[zero])
    carried = np.arange(ROUNDS) == 1
    made = events(ROUNDS, uses=carried.astype(float), **leaks)
    for bound in (accounted(made)[0], claimed(made, carried)):
        np.testing.assert_allclose(bound[:6], [0, 1, 1 / 2, 1 / 4, 1 / 8, 0], atol=1e-12)
        assert not bound[5:].any()
