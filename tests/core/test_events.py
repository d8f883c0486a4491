"""Rows of numbers and what they mean: a round trip, whatever there are of vectors and hidden parts."""

from __future__ import annotations

import numpy as np
import pytest

from mpinodes.core import RELEASED, UNKNOWN, Event, Hidden, Kind
from mpinodes.core.events import AXES, Events, Layout

SHAPES = [(k, m) for k in (1, 2, 3) for m in (0, 1, 2)]
ROUNDS, AGENTS, D, FRAME = 4, 3, 5, 6


def layout(vectors: int, hidden: int) -> Layout:
    return Layout(D, tuple(f"v{k}" for k in range(vectors)), tuple(f"h{k}" for k in range(hidden)), FRAME)


def some(rng: np.random.Generator, vectors: int, hidden: int) -> tuple[list[Event], Hidden]:
    events = [Event(Kind.LAPLACE, *rng.random(4), 3.0, *rng.random(5)) for _ in range(vectors)]
    a, b, c = rng.random((hidden, hidden)), rng.random((2, hidden)), rng.random((vectors, hidden))
    return events, Hidden(a.tolist(), b[0].tolist(), rng.random(), b[1].tolist(), *rng.random(2), c.tolist())


def written(vectors: int, hidden: int):
    """Rows (rounds, agents, width), and what was put into each."""
    at, rng = layout(vectors, hidden), np.random.default_rng(1)
    rows, told = rng.random((ROUNDS, AGENTS, at.width)), {}
    for place in np.ndindex(ROUNDS, AGENTS):
        events, leakage = some(rng, vectors, hidden)
        told[place] = events, leakage if hidden else RELEASED
        at.write(rows[place], *told[place])
    return at, rows, told


@pytest.mark.parametrize(("vectors", "hidden"), SHAPES)
def test_what_is_written_to_a_row_is_read_from_it(vectors, hidden):
    at, rows, told = written(vectors, hidden)
    decisions, events, frames = at.open(rows)
    np.testing.assert_array_equal(decisions, rows[..., :D])
    np.testing.assert_array_equal(frames, rows[..., -FRAME:])
    assert (events.vectors, events.hidden, len(events)) == (vectors, hidden, ROUNDS)
    for place, (said, leakage) in told.items():
        for name in Event._fields:
            assert events.event(name)[place].tolist() == [getattr(event, name) for event in said]
        assert events.uses[place] == 3
        assert events.is_hidden[place] == bool(hidden)
        for name in set(Hidden._fields) - {"exact"} if hidden else ():
            np.testing.assert_array_equal(events.leakage(name)[place], getattr(leakage, name))


@pytest.mark.parametrize(("vectors", "hidden"), SHAPES)
def test_the_columns_of_a_record_give_the_same_events(vectors, hidden):
    at, rows, _ = written(vectors, hidden)
    events = at.open(rows)[1]
    columns = events.columns()
    again = Events.of_columns(at, events.data.shape, lambda name: columns[name][1])
    assert again.data.tobytes() == events.data.tobytes()
    for name, (axes, values) in columns.items():
        assert values.ndim == 2 + len(axes)
        assert ("vector" in axes) == (vectors > 1 and (name.startswith("event_") or (name == "leakage_reads")))
    assert {f"leakage_{name}" for name in AXES} <= columns.keys() or not hidden


def test_slices_and_chunks_are_those_of_arrays():
    at, rows, _ = written(2, 2)
    events = at.open(rows)[1]
    again = Events(np.concatenate([events[:1].data, events[1:].data]))
    assert again.data.tobytes() == events.data.tobytes()
    np.testing.assert_array_equal(events[1:3, 2].l2, events.l2[1:3, 2])
    copy = events.copy()
    copy.event("l1")[...] = 0
    assert events.l1.all()


def test_what_costs_nothing_is_no_part_of_the_price():
    at, rows, _ = written(1, 1)
    events = at.open(rows)[1]
    other = events.copy()
    other.event("residual")[...], other.event("solver_steps")[...] = 9, 9
    assert other.priced() == events.priced()
    other.event("l1")[0, 0] += 1
    assert other.priced() != events.priced()


def test_of_an_unknown_leakage_nothing_else_is_said():
    at = layout(1, 2)
    row = np.ones(at.width)
    at.write(row, [Event(Kind.CLEAN, 0, 1, 1, 1, 1)], UNKNOWN)
    events = at.open(row[None, None])[1]
    assert events.is_unknown.all()
    assert not events.leakage("transition").any()
    with pytest.raises(ValueError, match="must fit 2 hidden parts"):
        at.write(row, [Event(Kind.CLEAN, 0, 1, 1, 1, 1)], some(np.random.default_rng(0), 1, 1)[1])
