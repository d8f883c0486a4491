"""The ledger that follows groups: against the recursion of each group by itself, where there are many of them."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpinodes.core import Kind
from mpinodes.core.events import Events, Layout
from mpinodes.core.messages import HIDDEN_KIND, RELEASED_KIND
from mpinodes.privacy import recursive
from mpinodes.privacy.leakage import Norms
from mpinodes.privacy.ledger import Uses
from mpinodes.privacy.recursive import Clusters, open_ledgers
from mpinodes.privacy.shifts import Shifts
from tests.helpers.accounting import events
from tests.helpers.accounting import recursive as recursive_alone

TINY = float(np.finfo(float).tiny)
ABOVE = 1.01  # at most, of what the recursion of every group by itself comes to
THIRD = slice(None, None, 3)  # groups whose Rényi curves are compared: 102 orders of each take most of the time


def steps(style: str, rounds: int, rng: np.random.Generator) -> np.ndarray:
    """What an older change of size 1 makes of the next message, by round."""
    t = np.arange(1, rounds + 1)
    return {
        "falls fast": np.full(rounds, 0.3),
        "falls slowly": np.full(rounds, 0.997),
        "falls ever faster": 2 / np.sqrt(t),
        "grows to the cap": np.full(rounds, 1.4),
        "grows slowly": np.full(rounds, 1.004),
        "anyhow": rng.uniform(0, 1.6, rounds),
    }[style]


STYLES = ["falls fast", "falls slowly", "falls ever faster", "grows to the cap", "grows slowly", "anyhow"]


def made_of(style: str, rounds: int, epochs: int, seed: int, rounding: float = 0.0, noise: float = 10.0) -> Events:
    rng = np.random.default_rng(seed)
    each = rounds // epochs
    uses = np.arange(rounds) % each + 1
    l2 = rng.uniform(0.5, 1, rounds) if style == "anyhow" else np.ones(rounds)
    return events(
        rounds, scale=noise, l1=2 * l2, l2=l2, uses=uses, lipschitz=steps(style, rounds, rng), largest=3.0,
        linear=0.02 if seed % 2 else 0.0, rounding_l1=rounding, rounding_l2=rounding / 2,
    )  # fmt: skip


def by_number(r: int) -> list[int]:
    return [r - 1]


def each_by_itself(made: Events, uses: Uses) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pure ε and ρ of every group, and Rényi curves of a third of the groups, without clusters."""
    norms, ledger = Norms(made, uses.groups), recursive_alone(made, uses)
    pure, rho = np.zeros(uses.groups), np.zeros(uses.groups)
    curves = np.zeros((uses.groups, 102))
    starts = np.searchsorted(uses.message, np.arange(len(made) + 1))
    for t in range(len(made)):
        moved = norms.step(t, uses.group[starts[t] : starts[t + 1]])
        begun = np.isin(np.arange(uses.groups), uses.group[: starts[t + 1]])
        moved[0, begun] = np.maximum(moved[0, begun], TINY)  # and not 0, where doubles end: rounding is paid for
        at = np.array([t])
        pure, rho = pure + ledger.costs.pure(at, moved[0]), rho + ledger.costs.rho(at, moved[0])
        some = np.arange(uses.groups)[THIRD][moved[0, THIRD] > 0]
        curves[some] += ledger.costs.rdp(np.full(len(some), t), moved[0, some])
    return pure, rho, curves[THIRD]


def check(made: Events, above: float = ABOVE, groups: Callable[[int], list[int]] = by_number) -> None:
    uses = Uses.of(made, groups)
    ledger = recursive_alone(made, uses)
    pure, rho, curves = each_by_itself(made, uses)
    found = ledger.at(len(made))
    for exact, here in zip((pure, rho), found, strict=True):
        assert (here >= exact * (1 - 1e-9)).all()
        assert (here <= exact * above**2).all()
    assert (found[0] <= pure * above).all()
    here = ledger.rdp(np.arange(uses.groups)[THIRD])
    assert (here >= curves * (1 - 2e-3)).all()  # its own curves are rounded up
    assert (here <= curves * above**2 + 1e-12).all()


@pytest.mark.parametrize(("epochs", "rounding"), [(1, 0.0), (6, 1e-4)])
@pytest.mark.parametrize("style", STYLES)
def test_of_many_groups_none_is_below_the_recursion_by_itself_nor_a_hundredth_above(style, epochs, rounding):
    check(made_of(style, 660, epochs, seed=len(style), rounding=rounding))


@given(seed=st.integers(0, 2**31), style=st.sampled_from(STYLES), epochs=st.integers(1, 9), few=st.integers(1, 20))
@settings(max_examples=25, deadline=None)
def test_the_same_of_few_clusters_and_short_blocks(seed, style, epochs, few):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recursive, "FEW", few)
        patch.setattr(recursive, "BLOCK", 1 + seed % 13)
        check(made_of(style, 80, epochs, seed))


@pytest.mark.parametrize("rounding", [0.0, 1e-4])
def test_the_same_of_many_samples_a_round_in_any_order(rounding):
    orders = [np.random.default_rng(epoch).permutation(300).tolist() for epoch in range(10)]
    made = made_of("falls ever faster", 40, 1, seed=1, rounding=rounding)
    check(made, groups=lambda r: [*orders[(r - 1) // 4][(r - 1) % 4 * 70 :][:70], 7])


def of_two_parts(seed: int, rounds: int, epochs: int) -> Events:
    """A gradient and a memory of it, all weights at random."""
    rng = np.random.default_rng(seed)
    data = np.zeros(rounds, Layout(1, ("x",), ("gradient", "memory")).record)
    event, leak = data["event"], data["leakage"]
    event["kind"], event["scale"], event["draws"], event["l1"], event["l2"] = Kind.LAPLACE, 10.0, 1.0, 2.0, 1.0
    event["uses"] = (np.arange(rounds) % (rounds // epochs) + 1)[:, None]
    leak["kind"] = rng.choice([HIDDEN_KIND, HIDDEN_KIND, HIDDEN_KIND, RELEASED_KIND], rounds)
    event["uses"][leak["kind"] == RELEASED_KIND] = 0  # what it says is all that there is
    for name in ("gradient", "point", "reads"):
        leak[name] = rng.uniform(0, 1, leak[name].shape)
    leak["transition"] = rng.uniform(0, 0.7, leak["transition"].shape)
    leak["sensitivity"], leak["lipschitz"], leak["largest"] = 1.0, rng.uniform(0, 1.5, rounds), 0.5
    return Events(data)


@given(seed=st.integers(0, 2**31), epochs=st.integers(1, 5), few=st.integers(1, 20))
@settings(max_examples=25, deadline=None)
def test_the_same_of_two_hidden_parts(seed, epochs, few):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recursive, "FEW", few)
        patch.setattr(recursive, "BLOCK", 1 + seed % 13)
        check(of_two_parts(seed, 80, epochs))


def agents_of(rounds: int, epochs: int) -> list[tuple[Events, Uses]]:
    """Of every style an agent."""
    made = [made_of(style, rounds, epochs, seed) for seed, style in enumerate(STYLES)]
    return [(each, Uses.of(each, by_number)) for each in made]


def test_agents_side_by_side_cost_what_each_does_alone():
    of = agents_of(700, 3)
    together, alone = open_ledgers(of), [recursive_alone(made, uses) for made, uses in of]
    for horizon in (1, 50, 333, 700):
        for one, other in zip(together, alone, strict=True):
            np.testing.assert_array_equal(one.at(horizon), other.at(horizon))
            some = np.arange(of[0][1].groups)
            np.testing.assert_array_equal(one.rdp(some), other.rdp(some))
    np.testing.assert_array_equal(together[0].at(50), open_ledgers(of)[0].at(50))  # from the start again


def costs(chunks: list[int], parts: int) -> list[np.ndarray]:
    """Costs of all groups, of some agents whose events come chunk by chunk."""
    of = agents_of(600, 4)[:3] if parts == 1 else [(m, Uses.of(m, by_number)) for m in [of_two_parts(3, 600, 4)] * 2]
    clusters, begun = Clusters(len(of), 150, parts, Shifts()), 0
    for last in chunks:
        events = Events(np.stack([made.data[begun:last] for made, _ in of], axis=1))
        clusters.take(events, [uses.between(begun, last) for _, uses in of])
        begun = last
    return [clusters.costs(i, np.arange(150), slice(None)) for i in range(len(of))]


@pytest.mark.parametrize("parts", [1, 2])
def test_costs_do_not_depend_on_how_rounds_are_cut_into_chunks(parts):
    for one, other in zip(costs([7, 100, 101, 480, 600], parts), costs([600], parts), strict=True):
        np.testing.assert_allclose(one[:, :2], other[:, :2], rtol=1e-12)
        np.testing.assert_allclose(one[:, 2:], other[:, 2:], rtol=1e-2)


def test_clusters_are_few_whatever_the_number_of_rounds():
    made = made_of("falls ever faster", 4_000, 40, seed=0)
    uses, clusters = Uses.of(made, by_number), Clusters(1, 100, 1, Shifts())
    for first in range(0, 4_000, 1_000):
        clusters.take(made[first : first + 1_000][:, None], [uses.between(first, first + 1_000)])
        assert len(clusters.labels) < 300


@pytest.mark.parametrize("style", ["falls slowly", "falls ever faster", "anyhow"])
def test_time_grows_like_rounds(style):
    """Of four times the rounds it is not twice as much for each; with T², it was four times as much."""
    seconds: dict[int, list[float]] = {3_000: [], 12_000: []}
    for rounds in (3_000, 12_000) * 3:  # of three times the shortest: another process may have taken the cache
        made = made_of(style, rounds, 1, seed=0)
        uses = Uses.of(made, by_number)
        ledger = recursive_alone(made, uses)
        begun = time.process_time()
        ledger.at(rounds)
        seconds[rounds].append(time.process_time() - begun)
        if seconds[12_000] and min(seconds[12_000]) < 2 * 4 * min(seconds[3_000]):
            break
    assert min(seconds[12_000]) < 2 * 4 * min(seconds[3_000])
