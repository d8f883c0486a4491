"""The addressing of random draws."""

from __future__ import annotations

import numpy as np
import pytest

from mpinodes.core.seeds import AHEAD, Draws, Purpose


def test_a_round_gives_the_same_draws_however_it_is_reached():
    stream, again = Draws(7, Purpose.NOISE, 3), Draws(7, Purpose.NOISE, 3)
    stream.at(4).laplace(size=1000)
    stream.at(5).standard_normal(3)  # leaves half-used buffers behind
    stream.at(5).integers(0, 10, dtype=np.uint32)
    np.testing.assert_array_equal(stream.at(9).laplace(size=50), again.at(9).laplace(size=50))


def test_seeds_purposes_agents_and_rounds_give_different_draws():
    draws = {
        Draws(seed, purpose, agent).at(t).random()
        for seed in range(4)
        for purpose in Purpose
        for agent in range(4)
        for t in range(4)
    }
    assert len(draws) == 4 * len(Purpose) * 4 * 4


def test_rounds_do_not_overlap():
    """A round's counter leaves room for 2^128 draws: a million of them stay clear of the next round."""
    stream = Draws(0, Purpose.NOISE, 0)
    one = stream.at(1).random(1_000_000)
    assert not np.isin(stream.at(2).random(1000), one).any()


def test_the_bits_are_these():
    """A run is a function of its seed across versions of ours: these numbers may never change."""
    found = Draws(42, Purpose.NOISE, 1).at(3).random(3).tolist()
    assert found == [0.12985999985773966, 0.8160140423251206, 0.8356747922775414]


def test_each_vector_of_a_message_has_draws_of_its_own_and_the_first_those_of_one_alone():
    def drawn(*part: int) -> np.ndarray:
        return Draws(42, Purpose.NOISE, 1, *part).at(3).random(1000)

    np.testing.assert_array_equal(drawn(0), drawn())
    assert drawn()[:3].tolist() == [0.12985999985773966, 0.8160140423251206, 0.8356747922775414]
    assert len(np.unique(np.concatenate([drawn(part) for part in range(4)]))) == 4000
    assert abs(np.corrcoef(drawn(0), drawn(1))[0, 1]) < 0.1


@pytest.mark.parametrize("law", ["laplace", "standard_normal"])
@pytest.mark.parametrize("size", [1, 10, AHEAD, AHEAD + 1])
def test_rounds_drawn_ahead_are_those_drawn_one_by_one(law, size):
    """In turn, past the end of what was drawn ahead, out of turn, of another size, and with other draws in between."""
    stream, again = Draws(7, Purpose.NOISE, 3), Draws(7, Purpose.NOISE, 3)
    for t in [*range(1, 2 * AHEAD // size + 4 if size > 1 else 40), 5, 6, 900, 901, 1]:
        stream.at(t + 50).standard_exponential(3)
        of = size + (t == 6)
        drawn = stream.standard(law, t, of)
        np.testing.assert_array_equal(drawn, getattr(again.at(t), law)(size=of))
        drawn *= 0.0  # the caller's own: what is drawn again is drawn anew
    laws = [stream.standard(other, 3, 2).tolist() for other in ("laplace", "standard_normal", "laplace")]
    assert laws[0] == laws[2] != laws[1]
