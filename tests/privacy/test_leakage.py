"""How far a changed sample moves messages: the response, its ceilings and the ledgers, against systems written out."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpinodes.auditing.adjacent_replay import claimed
from mpinodes.core import Event, Kind
from mpinodes.core.events import Events, Layout
from mpinodes.core.messages import (
    EXACT_KIND,
    HIDDEN_KIND,
    RELEASED,
    RELEASED_KIND,
    UNKNOWN,
    UNKNOWN_KIND,
    Feedback,
    Hidden,
)
from mpinodes.privacy.accountant import price
from mpinodes.privacy.leakage import Norms, Signed, ceilings, response
from mpinodes.privacy.ledger import Saturated, Uses
from mpinodes.privacy.recursive import Recursive, open_ledger
from tests.helpers.accounting import DELTA, events, recursive, saturated

ROUNDS = 20
EXTRA = [[1.5, -0.75], [1.0, 0.0]]  # of the spectral radius 0.87, and 1.90 in absolute values
NAMES = ("transition", "gradient", "point", "reads")


def system(seed: int, parts: int, vectors: int, *, signed: bool, groups: int = 4, plain: bool = True) -> Events:
    """Random leakages of one agent, stable in the mean, with zeros; not plain: with RELEASED among them."""
    rng = np.random.default_rng(seed)
    names = tuple(f"v{k}" for k in range(vectors)), tuple(f"h{k}" for k in range(parts))
    data = np.zeros(ROUNDS, Layout(1, *names).record)
    event, leak = data["event"], data["leakage"]
    event["kind"], event["scale"], event["draws"] = Kind.LAPLACE, rng.uniform(1, 2, (ROUNDS, vectors)), 1.0
    event["l2"] = rng.uniform(0.1, 1, (ROUNDS, vectors))
    event["l1"] = event["l2"] * 1.5
    event["uses"] = rng.integers(0, groups + 1, ROUNDS)[:, None]
    hidden = EXACT_KIND if signed else HIDDEN_KIND
    leak["kind"] = hidden if plain else rng.choice([hidden, hidden, RELEASED_KIND], ROUNDS)
    for name in NAMES:
        shape = leak[name].shape
        leak[name] = rng.uniform(-1 if signed else 0, 1, shape) * (rng.random(shape) < 0.8)
    leak["transition"] *= 1.2 / parts
    for name in ("sensitivity", "lipschitz", "largest"):
        leak[name] = rng.uniform(0, 1, ROUNDS)
    leak["lipschitz"] *= rng.random(ROUNDS) < 0.8
    return Events(data)


def by_number(r: int) -> list[int]:
    """Round r has sample r - 1 alone."""
    return [r - 1]


def responses(reply: Norms | Signed, made: Events, groups: int) -> np.ndarray:
    """(rounds, vectors, groups) of all messages."""
    found = np.zeros((len(made), made.vectors, groups))
    for t, r in enumerate(made.uses.tolist()):
        found[t] = reply.step(t, np.array(by_number(r) if r else [], dtype=int))
    return found


def times(a: float, b: float) -> float:
    return 0.0 if a == 0 or b == 0 else a * b


def one_by_one(made: Events, group: int) -> np.ndarray:
    """Of one group, every message by the product of all the matrices since each input: (rounds, vectors)."""
    leak, uses = made.data["leakage"], made.uses
    inputs: dict[int, float] = {}
    unsaid = np.zeros(made.hidden)
    found = np.zeros((len(made), made.vectors))
    signed = any((leak[name] < 0).any() for name in NAMES)

    def made_now(s: int, t: int) -> np.ndarray:
        v = leak["gradient"][s]
        for r in range(s + 1, t + 1):
            v = leak["transition"][r] @ v
        return v

    def sizes(row: np.ndarray, t: int) -> float:
        """What all inputs so far make of row·h after message t."""
        known = sum(times(abs(row @ made_now(s, t)), u) for s, u in inputs.items())
        return known + sum(times(abs(w), u) for w, u in zip(row, unsaid, strict=True))

    lost = False
    for t in range(len(made)):
        mine = uses[t] == group + 1
        kind = leak["kind"][t]
        lost |= kind == UNKNOWN_KIND
        own = made.l2[t] * mine
        if kind == UNKNOWN_KIND or (lost and kind in (HIDDEN_KIND, EXACT_KIND)):
            found[t] = inf
            continue
        if kind == RELEASED_KIND:
            inputs, unsaid = {}, np.full(made.hidden, inf if mine else 0.0)
            found[t] = own
            continue
        moved = sizes(leak["point"][t], t - 1)
        caught = min(leak["largest"][t], times(leak["lipschitz"][t], moved))
        unsaid = np.array([sum(map(times, np.abs(row), unsaid)) for row in leak["transition"][t]])
        inputs[t] = caught
        found[t] = own + [sizes(row, t) for row in leak["reads"][t]]
        inputs[t] += leak["sensitivity"][t] * mine
    assert signed or (found >= 0).all()
    return found


SHAPES = {"parts": st.integers(1, 3), "vectors": st.integers(1, 3), "seed": st.integers(0, 2**31)}


@given(**SHAPES, signed=st.booleans(), plain=st.booleans())
@settings(max_examples=60, deadline=None)
def test_the_response_is_that_of_the_system_written_out(seed, parts, vectors, signed, plain):
    made = system(seed, parts, vectors, signed=signed, plain=plain)
    wanted = np.stack([one_by_one(made, g) for g in range(4)], axis=2)
    together = responses(response(made, 4), made, 4)
    np.testing.assert_allclose(together, wanted, rtol=1e-9, atol=1e-12)
    for g in range(4):
        alone = claimed(made, made.uses == g + 1)
        np.testing.assert_allclose(alone, together[:, :, g], rtol=1e-12, atol=1e-15)


@given(**SHAPES, plain=st.booleans())
@settings(max_examples=40, deadline=None)
def test_norms_and_signs_agree_where_nothing_is_negative(seed, parts, vectors, plain):
    made = system(seed, parts, vectors, signed=False, plain=plain)
    np.testing.assert_allclose(
        responses(Norms(made, 4), made, 4), responses(Signed(made, 4), made, 4), rtol=1e-9, atol=1e-12
    )


@given(**SHAPES)
@settings(max_examples=40, deadline=None)
def test_signs_are_never_above_their_absolute_values(seed, parts, vectors):
    made = system(seed, parts, vectors, signed=True)
    bare = Events(made.data.copy())
    for name in NAMES:
        bare.data["leakage"][name] = np.abs(made.leakage(name))
    assert (responses(Signed(made, 4), made, 4) <= responses(Norms(bare, 4), bare, 4) * (1 + 1e-9)).all()


@given(**SHAPES, signed=st.booleans())
@settings(max_examples=40, deadline=None)
def test_no_simulated_system_moves_a_message_further(seed, parts, vectors, signed):
    """Vectors in R^3, gradients of any direction and as long as they may be."""
    made = system(seed, parts, vectors, signed=signed)
    leak, rng = made.data["leakage"], np.random.default_rng([seed, 1])
    carried = made.uses == 1
    bound = claimed(made, carried)
    for worst in (False, True):
        h, along = np.zeros((parts, 3)), rng.standard_normal(3)
        for t in range(ROUNDS):
            point = np.linalg.norm(leak["point"][t] @ h)
            caught = min(leak["largest"][t], leak["lipschitz"][t] * point)
            of_old, of_new = (along, along) if worst else rng.standard_normal((2, 3))
            g = caught * of_old / np.linalg.norm(of_old)
            kept = leak["transition"][t] @ h
            older = leak["reads"][t] @ (kept + leak["gradient"][t][:, None] * g)
            moved = np.linalg.norm(older, axis=1) + made.l2[t] * carried[t]
            assert (moved <= bound[t] * (1 + 1e-9) + 1e-12).all()
            g = g + carried[t] * leak["sensitivity"][t] * of_new / np.linalg.norm(of_new)
            h = kept + leak["gradient"][t][:, None] * g
            if worst and not signed:
                np.testing.assert_allclose(moved, bound[t], rtol=1e-9, atol=1e-12)


def constant(hidden: Feedback | Hidden, rounds: int, uses: object, **event: object) -> Events:
    """The same leakage in every round."""
    parts, vectors = (1, 1) if isinstance(hidden, Feedback) else (len(hidden.gradient), len(hidden.reads))
    layout = Layout(1, tuple(map(str, range(vectors))), tuple(map(str, range(parts))))
    rows = np.zeros((rounds, layout.width))
    fields = {"kind": Kind.LAPLACE, "scale": 1.0, "draws": 1.0, "l1": 1.0, "l2": 1.0, "uses": 0.0} | event
    for row in rows:
        layout.write(row, [Event(**fields)] * vectors, hidden)
    made = Events(layout.open(rows)[1].data.copy())
    made.data["event"]["uses"] = np.broadcast_to(uses, rounds)[:, None]
    return made


def test_extra_is_bounded_where_its_absolute_values_are_not():
    hidden = Hidden(EXTRA, (1.0, 0.0), 1.0, (1.0, 0.0), 0.0, 0.0, ((1.5, -0.75),), exact=True)
    made = constant(hidden, 200, np.arange(200) == 0)
    moved = claimed(made, made.uses > 0)[:, 0]
    a, b, c = np.array(EXTRA), np.array([1.0, 0.0]), np.array([1.5, -0.75])
    wanted = [abs(c @ np.linalg.matrix_power(a, t) @ b) for t in range(1, 200)]
    np.testing.assert_allclose(moved[1:], wanted, rtol=1e-9, atol=1e-13)
    assert moved.max() < 2
    assert moved[-1] < 1e-9
    norms = constant(hidden._replace(transition=np.abs(EXTRA), reads=((1.5, 0.75),)), 200, np.arange(200) == 0)
    assert claimed(norms, norms.uses > 0)[-1, 0] > 1e50


def test_an_input_in_unknown_directions_is_not_cancelled():
    """After a released message that carries a sample nothing is known of the parts; 1 - 1 is not 0 then."""
    hidden = Hidden(((0.5, 0.0), (0.0, 0.5)), (1.0, 1.0), 1.0, (0.0, 0.0), 0.0, 0.0, ((1.0, -1.0),), exact=True)
    made = constant(hidden, 5, [0, 1, 0, 0, 0])
    assert claimed(made, made.uses > 0)[2:, 0].tolist() == [0, 0, 0]  # both parts move alike
    made.data["leakage"][1] = 0.0
    assert claimed(made, made.uses > 0)[:, 0].tolist() == [0, 1, inf, inf, inf]
    assert ceilings(made, np.ones(5, int))[:, 0].tolist()[2:] == [inf, inf, inf]
    made.data["leakage"][3] = 0.0  # released again, and of no one's data
    assert claimed(made, made.uses > 0)[3:, 0].tolist() == [0, 0]


@pytest.mark.parametrize("signed", [False, True])
def test_what_is_not_known_stays_so(signed):
    sign = -1.0 if signed else 1.0
    hidden = Hidden(((0.5, 0.0), (0.1, 0.5)), (1.0, sign), 1.0, (1.0, 0.0), 0.5, 1.0, ((1.0, sign),), exact=True)
    made = constant(hidden, 6, [1, 0, 0, 0, 0, 0])
    made.data["leakage"][2] = 0.0
    made.data["leakage"]["kind"][2] = UNKNOWN_KIND
    made.data["leakage"][4] = 0.0
    moved = claimed(made, made.uses > 0)[:, 0]
    assert np.isfinite(moved).tolist() == [True, True, False, False, True, False]
    assert np.isfinite(ceilings(made, np.ones(6, int))[:, 0]).tolist() == [True, True, False, False, True, False]
    assert price([open_ledger(made, Uses.of(made, by_number))], [1], 6, DELTA, False).rule == "unproven"
    assert price([open_ledger(made, Uses.of(made, by_number))], [1], 2, DELTA, False).rule != "unproven"


@pytest.mark.parametrize("signed", [False, True])
def test_a_weight_of_nothing_takes_nothing_of_infinity(signed):
    sign = -1.0 if signed else 1.0
    hidden = Hidden(
        ((0.0, 0.0), (0.5, 0.0)), (0.0, 1.0), inf, (0.0, 1.0), inf, inf, ((sign, 0.0), (0.0, 1.0)), exact=True
    )
    made = constant(hidden, 5, [0, 1, 0, 0, 0])
    moved = claimed(made, made.uses > 0)
    assert moved[:, 0].tolist() == [0, 1, 0, 0, 0]  # part 0 holds nothing
    assert moved[:, 1].tolist() == [0, 1, inf, inf, inf]
    most = ceilings(made, np.ones(5, int))
    assert not np.isnan(most).any()
    assert (most >= moved - made.l2 * (made.uses > 0)[:, None]).all()
    assert price([open_ledger(made, Uses.of(made, by_number))], [1], 5, DELTA, False).rule == "unproven"


def test_an_unknown_slope_moves_a_message_by_the_most_that_there_is():
    made = constant(Feedback(1.0, inf, 0.5), 4, [1, 0, 0, 0])
    assert claimed(made, made.uses > 0)[:, 0].tolist() == [1, 0.5, 0.5, 0.5]


# ---- ceilings and ledgers


@given(**SHAPES, signed=st.booleans(), plain=st.booleans())
@settings(max_examples=60, deadline=None)
def test_no_response_is_above_the_ceiling_and_saturated_costs_no_less(seed, parts, vectors, signed, plain):
    made = system(seed, parts, vectors, signed=signed, plain=plain)
    uses = Uses.of(made, by_number)
    most = ceilings(made, np.ones(ROUNDS, int))
    own = made.l2[:, :, None] * (made.uses[:, None, None] == np.arange(1, 5))
    moved = responses(response(made, 4), made, 4) - own
    assert (np.where(np.isinf(most)[:, :, None], 0, moved) <= (most * (1 + 1e-9) + 1e-12)[:, :, None]).all()
    low, high = recursive(made, uses), saturated(made, uses)
    for horizon in (1, 7, ROUNDS):
        for less, more in zip(low.at(horizon), high.at(horizon), strict=True):
            assert (less <= more * (1 + 1e-9) + 1e-12).all()
    one, other = (price([opened(made, uses)], [1], ROUNDS, DELTA, False) for opened in (recursive, saturated))
    assert np.isnan(other.epsilon) or one.epsilon <= other.epsilon * 1.05  # buckets of shifts


@given(**SHAPES, signed=st.booleans())
@settings(max_examples=20, deadline=None)
def test_horizons_one_after_the_other_are_those_asked_for_alone(seed, parts, vectors, signed):
    made = system(seed, parts, vectors, signed=signed)
    uses = Uses.of(made, by_number)
    ledger = open_ledger(made, uses)
    for horizon in (1, 2, 9, ROUNDS):
        np.testing.assert_allclose(ledger.at(horizon), open_ledger(made, uses).at(horizon), rtol=1e-12)


def written_apart(made: Events) -> tuple[Events, np.ndarray]:
    """The vectors of each message as messages of one vector, and of which round each is."""
    k = made.vectors
    data = np.zeros(len(made) * k, Layout(1).record)
    for name in made.data["event"].dtype.names:
        data["event"][name] = made.event(name).reshape(-1, 1)
    return Events(data), np.repeat(np.arange(len(made)), k)


@pytest.mark.parametrize("kinds", [(Kind.LAPLACE,), (Kind.GAUSSIAN,), (Kind.LAPLACE, Kind.GAUSSIAN)])
@pytest.mark.parametrize("vectors", [2, 3])
@pytest.mark.parametrize("tight", [False, True])
def test_a_message_of_vectors_costs_what_as_many_messages_do(kinds, vectors, tight):
    made = system(3, 1, vectors, signed=False)[: 8 if tight else ROUNDS]  # numerical composition is slow
    made.data["leakage"][:] = 0.0  # released
    made.data["event"]["kind"] = np.resize(kinds, vectors)
    apart, _ = written_apart(made)
    one, other = (price([open_ledger(m, Uses.of(m, by_number))], [3], len(m), DELTA, tight) for m in (made, apart))
    np.testing.assert_allclose(one[:2], other[:2], rtol=1e-9)
    assert one.rule == other.rule


@pytest.mark.parametrize("kind", [Kind.LAPLACE, Kind.GAUSSIAN])
@pytest.mark.parametrize("linear", [0.0, 0.5])
def test_hidden_changes_of_vectors_cost_what_their_sum_does(kind, linear):
    """Two vectors that read one part: by both ledgers, of Laplace noise and of Gaussian noise (GDP)."""
    hidden = Hidden(((linear,),), (1.0,), 1.0, (1.0,), 0.3 if linear else inf, 0.2, ((1.0,), (0.5,)))
    made = constant(hidden, 12, np.arange(12) == 1, kind=kind, scale=3.0)
    moved = [claimed(made, made.uses > 0)]
    ledger = open_ledger(made, Uses.of(made, by_number))
    assert isinstance(ledger, Recursive if linear else Saturated)
    pure, rho = ledger.at(12)
    if isinstance(ledger, Saturated):
        moved = [np.where(made.uses[:, None] > 0, 1.0, np.where(np.arange(12)[:, None] > 1, ceilings_of(made), 0.0))]
    np.testing.assert_allclose(rho[0], (moved[0] ** 2).sum() / 18, rtol=1e-9)
    if kind == Kind.LAPLACE:
        assert pure[0] == pytest.approx(moved[0].sum() / 3, rel=1e-9)
    found = price([ledger], [1], 12, DELTA, False)
    assert found.rule == ("GDP" if kind == Kind.GAUSSIAN else found.rule) != "unproven"


def ceilings_of(made: Events) -> np.ndarray:
    return ceilings(made, np.ones(len(made), int))


# ---- what is stated


HIDDEN = Hidden(((1.0, 2.0), (3.0, 4.0)), (5.0, 6.0), 7.0, (8.0, 9.0), 10.0, 11.0, ((12.0, 13.0),))


@pytest.mark.parametrize("field", ["sensitivity", "lipschitz", "largest"])
@pytest.mark.parametrize("value", [-1.0, np.nan])
def test_a_bound_below_nothing_is_refused(field, value):
    with pytest.raises(ValueError, match="must be >= 0"):
        HIDDEN._replace(**{field: value}).numbers(2, 1)
    with pytest.raises(ValueError, match="must be >= 0"):
        Feedback(**{"sensitivity": 1.0, "lipschitz": 1.0, "largest": 1.0} | {field: value}).numbers(1, 1)


@pytest.mark.parametrize(
    "changed",
    [
        {"gradient": (5.0, 6.0, 8.0), "point": (9.0,)},  # as many numbers, and in other places
        {"transition": ((1.0, 2.0, 3.0, 4.0),)},
        {"transition": ((1.0,), (2.0, 3.0, 4.0))},
        {"reads": ((12.0,), (13.0,))},
        {"reads": ()},
    ],
)
def test_shapes_are_those_of_parts_and_vectors_or_refused(changed):
    with pytest.raises(ValueError, match="must fit 2 hidden parts and 1 vectors"):
        HIDDEN._replace(**changed).numbers(2, 1)


def test_an_algorithm_without_hidden_parts_states_none():
    with pytest.raises(ValueError, match="must fit 0 hidden parts"):
        Hidden((), (), 1.0, (), 1.0, 1.0, ((),)).numbers(0, 1)


@pytest.mark.parametrize("value", [np.nan, inf, -inf])
@pytest.mark.parametrize("name", NAMES)
def test_a_weight_that_is_not_finite_is_refused(name, value):
    whole = np.array(getattr(HIDDEN, name))
    whole.flat[-1] = value
    with pytest.raises(ValueError, match="must be finite"):
        HIDDEN._replace(**{name: whole.tolist()}).numbers(2, 1)


@pytest.mark.parametrize("leaks", [RELEASED, UNKNOWN, HIDDEN._replace(reads=((1.0, 2.0), (3.0, -4.0)), exact=True)])
def test_columns_hold_all_that_was_stated(leaks):
    layout = Layout(2, ("x", "y"), ("a", "b"))
    rows = np.random.default_rng(0).standard_normal((3, 4, layout.width))
    for row in rows.reshape(-1, layout.width):
        layout.write(row, [Event(*np.random.default_rng(1).random(11)), Event(*np.arange(11.0))], leaks)
    made = layout.open(rows)[1]
    columns = made.columns()
    again = Events.of_columns(layout, made.data.shape, lambda name: columns[name][1])
    assert again.data.tobytes() == made.data.tobytes()
    assert columns["leakage_transition"][0] == ("part", "part_before")
    if isinstance(leaks, Hidden):
        assert made.leakage("reads")[2, 3].tolist() == [[1.0, 2.0], [3.0, -4.0]]
        assert made.leakage("transition")[0, 0].tolist() == [[1.0, 2.0], [3.0, 4.0]]
        assert (made.leakage("largest") == 11).all()


# ---- one part: the recursion of the message itself

GAINS = ["smooth", "boundless", "interrupted", "public"]  # the third: boundless, but nothing of older rounds in some


def moves(carried, l2, lipschitz, largest, linear) -> np.ndarray:
    """δ(t) = [l2(t)] + min(cap(t), gain(t) δ(t − 1)) + keep(t) δ(t − 1), 0 · ∞ = 0."""
    found, before = [], 0.0
    for t in range(ROUNDS):
        leaked = 0.0 if before == 0 or lipschitz[t] == 0 else min(largest[t], lipschitz[t] * before)
        before = leaked + linear[t] * before + (l2[t] if carried[t] else 0.0)
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
        "lipschitz": gain[gains],
        "largest": rng.uniform(0.1, 2, ROUNDS),
        "linear": rng.uniform(0, 0.9, ROUNDS) if kept else np.zeros(ROUNDS),
    }


def accounted(made: Events) -> tuple[np.ndarray, type]:
    """The ledger's own δ(t) of a sample: what message t adds to its pure ε, noise and ratio of norms being 1."""
    ledger = open_ledger(made, Uses.of(made, lambda r: [0]))
    sums = [ledger.at(horizon)[0].sum() for horizon in range(1, ROUNDS + 1)]
    return np.diff([0.0, *sums]), type(ledger)


@given(seed=st.integers(0, 2**31), gains=st.sampled_from(GAINS), kept=st.booleans())
@settings(max_examples=60)
def test_replay_and_ledger_bound_every_message_by_the_recursion(seed, gains, kept):
    rng = np.random.default_rng(seed)
    leaks, carried = random_leaks(rng, gains, kept), rng.random(ROUNDS) < 0.2
    carried[rng.integers(ROUNDS)] = True
    made = events(ROUNDS, l1=leaks["l2"], uses=carried.astype(float), **leaks)
    wanted = moves(carried, **leaks)
    np.testing.assert_array_equal(claimed(made, carried)[:, 0], wanted)
    found, ledger = accounted(made)
    assert ledger is (Recursive if kept or gains == "smooth" else Saturated)
    if ledger is Saturated and gains == "interrupted":  # counted as never interrupted
        later = np.cumsum(carried) - carried > 0
        saturated = leaks["l2"] * carried + np.where(later & (leaks["lipschitz"] > 0), leaks["largest"], 0.0)
        assert (saturated >= wanted).all()
        wanted = saturated
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("zero", ["lipschitz", "largest"])
def test_a_gain_or_a_cap_of_nothing_ends_a_leak(zero):
    leaks = {"lipschitz": np.full(ROUNDS, 0.5), "largest": np.ones(ROUNDS)}
    leaks[zero] = np.where(np.arange(ROUNDS) == 5, 0.0, leaks[zero])
    carried = np.arange(ROUNDS) == 1
    made = events(ROUNDS, uses=carried.astype(float), **leaks)
    for bound in (accounted(made)[0], claimed(made, carried)[:, 0]):
        np.testing.assert_allclose(bound[:6], [0, 1, 1 / 2, 1 / 4, 1 / 8, 0], atol=1e-12)
        assert not bound[5:].any()


def test_a_start_before_hidden_messages_is_not_proven_to_cost_nothing():
    """The ceiling after a released message without data was inf, the curves nan, and ε at δ 0."""
    made = events(6, lipschitz=0.5, largest=1.0, linear=0.3, uses=[0, 1, 0, 0, 0, 0], scale=2.0)
    made.data["leakage"][0] = 0.0
    found = price([open_ledger(made, Uses.of(made, by_number))], [1], 6, DELTA, False)
    assert found.epsilon == pytest.approx(found.pure) == pytest.approx(sum(0.8**k for k in range(5)) / 2)


def test_beside_a_bound_on_norms_signs_are_worth_nothing():
    """A projection between two linear rounds turns vectors: what cancels before it need not cancel after it."""
    made = system(3, 2, 1, signed=True)
    mixed = made.copy()
    mixed.data["leakage"]["kind"][4] = HIDDEN_KIND
    absolute = made.copy()
    for name in NAMES:
        absolute.data["leakage"][name] = np.abs(absolute.data["leakage"][name])
    absolute.data["leakage"]["kind"] = HIDDEN_KIND
    carried = made.uses > 0
    np.testing.assert_array_equal(claimed(mixed, carried), claimed(absolute, carried))
    assert (claimed(made, carried) < claimed(absolute, carried)).any()
    np.testing.assert_array_equal(ceilings(mixed, np.ones(ROUNDS, int)), ceilings(absolute, np.ones(ROUNDS, int)))


def test_signs_are_refused_unless_they_are_exact():
    with pytest.raises(ValueError, match="exact=True"):
        Hidden(((-0.5,),), (1.0,), 1.0, (0.0,), 0.0, 0.0, ((1.0,),)).numbers(1, 1)
