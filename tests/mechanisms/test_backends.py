"""The arithmetic of noise: what its low bits tell, what rounding costs, and whose numbers it is made of."""

from __future__ import annotations

import itertools
import sys
from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import kstest

import mpinodes
from mpinodes import replay as command
from mpinodes.auditing.adjacent_replay import replay
from mpinodes.auditing.transcripts import Recorded
from mpinodes.core import RELEASED, Diverged, Event, Kind, Query
from mpinodes.core.errors import BadInput
from mpinodes.core.seeds import Draws, Purpose
from mpinodes.mechanisms import backends as noise
from mpinodes.mechanisms.backends import REACH, Law, backend, spacing
from mpinodes.mechanisms.gaussian import Gaussian
from mpinodes.mechanisms.laplace import Laplace
from mpinodes.privacy.ledger import Saturated, Uses
from mpinodes.privacy.recursive import Recursive, open_ledger
from mpinodes.privacy.tight import compose
from tests.helpers.accounting import DELTA, by_round, events, loss
from tests.helpers.parts import run_of, setup_of
from tests.helpers.records import same_bits, summary_of, typed
from tests.helpers.running import run_mpi

BACKENDS = ("numpy", "lattice", "opendp")
LAWS = [Law(Kind.LAPLACE, 3.0), Law(Kind.GAUSSIAN, 3.0)]


def released(name: str, law: Law, value: np.ndarray, t: int = 1, agent: int = 0, seed: int = 0) -> np.ndarray:
    out = np.empty_like(value)
    backend(name)(Query(value, l1=1.0, l2=1.0, uses=1, leaks=RELEASED), law, t, Draws(seed, Purpose.NOISE, agent), out)
    return out


def run(tmp_path, name: str = "run", **experiment):
    """In lockstep; returns the directory and the summary."""
    asked = {"algorithm": {"name": "dpsda-ps"}, "rounds": 12, "record": {"transcript": True}}
    asked |= {"comparator": False} | experiment
    directory = run_of(tmp_path / name, asked)
    return directory, summary_of(directory)


# ---- streams


def test_no_two_streams_have_the_same_key():
    seeds = [*range(4), *(2**32 + k for k in range(4)), 3 * 2**32 + 1, 2**63 - 1]
    place = [(seed, purpose, agent) for seed in seeds for purpose in Purpose for agent in range(100)]
    keys = {tuple(Draws(*of)._state["state"]["key"]) for of in place}
    assert len(keys) == len(place) == 1000 * len(Purpose)


def test_a_long_seed_is_not_taken_for_a_short_one_with_a_purpose():
    """Seed 2^32 and agent 0 would else draw what seed 0 and agent 1 do: NumPy pads short sequences with zeros."""
    assert Draws(2**32, Purpose.NOISE, 0).at(1).random() != Draws(0, Purpose.NOISE, 1).at(1).random()


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", BACKENDS)
def test_agents_that_say_the_same_send_different_releases(name, law):
    sent = np.array([released(name, law, np.ones(5), agent=i) for i in range(20)])
    assert len(np.unique(sent)) == sent.size


def test_a_key_gives_each_purpose_agent_round_and_vector_draws_of_its_own():
    place = itertools.product((b"a", b"b"), (Purpose.NOISE, Purpose.DITHER), (0, 1, 256), (0, 1))
    sources = [Draws(*of) for of in place]
    drawn = [source.at(t).random() for source in sources for t in (1, 2)]
    assert len(set(drawn)) == len(drawn)
    assert kstest([Draws(b"a", Purpose.NOISE, i).at(1).laplace() for i in range(5000)], "laplace").pvalue > 1e-6


# ---- laws


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("name", "draws"), [("numpy", 50_000), ("lattice", 50_000), ("opendp", 200)])
def test_a_backends_noise_has_its_law_and_scale(name, law, draws):
    """The p-values of the first two are fixed by the seed; OpenDP's falls below once in a million runs."""
    found = (released(name, law, np.full(draws, 7.0)) - 7.0) / 3.0
    exact = "laplace" if law.kind == Kind.LAPLACE else "norm"
    assert kstest(found, exact).pvalue > (1e-6 if name == "opendp" else 0.01)


@pytest.mark.parametrize("mechanism", [Laplace, Gaussian])
def test_a_mechanism_says_the_same_of_its_release_by_any_backend_but_for_the_grain(mechanism):
    query = Query(np.zeros(4), l1=6.0, l2=3.0, uses=1, leaks=RELEASED, calibration=3.0)
    said = {
        name: mechanism(1.0, None, name).release(query, 1, Draws(0, Purpose.NOISE, 0), np.empty(4)) for name in BACKENDS
    }
    assert said["opendp"] == said["numpy"] == mechanism(1.0, None).release(
        query, 1, Draws(0, Purpose.NOISE, 0), np.empty(4)
    )  # fmt: skip
    g = 2.0**-19
    assert said["lattice"] == said["numpy"]._replace(rounding_l1=4 * g, rounding_l2=2 * g)


def test_opendp_agrees_on_what_its_release_costs():
    released("opendp", LAWS[0], np.zeros(2))
    assert noise._measurement(LAWS[0]).map(1.5) == pytest.approx(0.5, rel=1e-12)
    assert noise._measurement(LAWS[1]).map(1.5) == pytest.approx(0.5**2 / 2, rel=1e-12)


@pytest.mark.parametrize("name", BACKENDS)
def test_a_message_without_noise_goes_out_as_it_is(name):
    value = np.random.default_rng(0).standard_normal(9)
    np.testing.assert_array_equal(released(name, Law(Kind.LAPLACE, 0.0), value), value)


# ---- the lattice


@pytest.mark.parametrize("scale", [1e-9, 0.99, 1.0, 3.0, 1e30])
def test_the_spacing_is_a_power_of_two_about_a_millionth_of_the_scale(scale):
    g = spacing(scale)
    assert np.frexp(g)[0] == 0.5
    assert 2**-21 * scale < g <= 2**-20 * scale


@given(arrays(float, 6, elements=st.floats(-1e6, 1e6)), arrays(float, 6, elements=st.floats(-1e6, 1e6)))
def test_rounding_adds_at_most_the_grain_to_any_change(one, other):
    g = 2.0**-19
    moved, rounded = one - other, g * (np.rint(one / g) - np.rint(other / g))
    event = Event.of(Query(one, l1=1.0, l2=1.0, uses=1, leaks=RELEASED), Kind.LAPLACE, 3.0, lattice=g)
    assert np.abs(rounded).sum() <= np.abs(moved).sum() + event.rounding_l1
    assert np.linalg.norm(rounded) <= np.linalg.norm(moved) + event.rounding_l2


@pytest.mark.parametrize("law", LAWS)
def test_a_release_is_the_rounded_value_plus_noise_that_the_value_has_no_part_in(law):
    """Exactly: so both of two worlds are on one lattice, and it is the continuous mechanism of rounded values."""
    rng, g = np.random.default_rng(1), spacing(law.scale)
    noises = [
        released("lattice", law, value) / g - np.rint(value / g)
        for value in (np.zeros(1000), rng.standard_normal(1000), 1e6 * rng.standard_normal(1000), np.full(1000, g / 2))
    ]
    for other in noises:
        np.testing.assert_array_equal(other, noises[0])
    np.testing.assert_array_equal(noises[0], np.rint(noises[0]))


@pytest.mark.parametrize("law", LAWS)
def test_zero_has_no_sign(law, monkeypatch):
    monkeypatch.setattr(noise, "FINENESS", 2)  # so that noise is often rounded to zero
    value = np.full(1000, -1e-3)
    sent = released("lattice", law, value)
    assert (sent == 0).sum() > 50
    assert not np.signbit(sent[sent == 0]).any()


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("large", [1e10, -1e10, 1.7e308, -1.7e308])
def test_a_message_too_large_for_the_lattice_is_clamped_to_it(law, large):
    """To refuse it would tell of the data. Clamping brings no two values further apart: with the noise's draws alike,
    releases differ by no more than the values do."""
    g = spacing(law.scale)
    values = [8e9, REACH * g * (1 - 1e-9), REACH * g, large]
    sent = np.array([released("lattice", law, np.array([0.0, v]), t=3, agent=2) for v in values])
    assert np.abs(sent / g).max() < 2**53
    np.testing.assert_array_equal(sent / g, np.rint(sent / g))
    clamped = np.clip(values, -REACH * g, REACH * g)
    np.testing.assert_allclose(sent[:, 1] - sent[0, 1], clamped - clamped[0], atol=g)
    np.testing.assert_array_equal(sent[:, 0], sent[0, 0])


@pytest.mark.parametrize("values", [(8e9, 8e9 + 3), (1e10, 1e10 + 3), (-1e300, 1.0), (REACH, 2 * REACH)])
def test_clamping_takes_nothing_from_the_lattices_account(values):
    law = LAWS[0]
    one, other = (released("lattice", law, np.full(3, v), t=3, agent=2) for v in values)
    moved = abs(values[0] - values[1])
    assert np.abs(one - other).sum() <= 3 * moved + 3 * spacing(law.scale)


@pytest.mark.parametrize("backend", ["lattice", "opendp"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused_without_its_value(backend, value):
    with pytest.raises(Diverged, match=r"round 3.*agent 2.*diverges"):
        released(backend, LAWS[0], np.array([0.0, value]), t=3, agent=2)


@pytest.mark.parametrize("value", [1.7e308, -1.7e308, 5e-324])
@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e10])
def test_opendp_stops_at_no_finite_value(value, scale):
    for kind in (Kind.LAPLACE, Kind.GAUSSIAN):
        assert np.isfinite(released("opendp", Law(kind, scale), np.array([0.0, value]))).all()


# ---- Mironov's attack


def trailing_zeros(sent: np.ndarray) -> np.ndarray:
    """Of each number, in multiples of 2^-80."""
    whole = np.array([int(x) for x in np.abs(sent) * 2.0**80], dtype=object)
    return np.array([(x & -x).bit_length() for x in whole])


def accuracy_of_the_attack(name: str, law: Law, trials: int) -> float:
    """How often the low bits of what x + noise was in (.001, .002) tell x = 1 from x = 0; by a cut learnt before."""
    bits = []
    for seed, x in enumerate((0.0, 1.0)):
        found: list[float] = []
        t = 0
        while len(found) < 2 * trials:
            sent = released(name, law, np.full(100_000, x), t := t + 1, seed=seed)
            found += sent[(sent > 0.001) & (sent < 0.002)].tolist()
        bits.append(trailing_zeros(np.array(found[: 2 * trials])))
    learnt, judged = (np.array(bits)[:, half] for half in (slice(trials), slice(trials, None)))
    cuts = range(int(learnt.max()) + 2)
    cut = max(cuts, key=lambda c: abs((learnt[1] >= c).mean() - (learnt[0] >= c).mean()))
    sign = 1 if (learnt[1] >= cut).mean() >= (learnt[0] >= cut).mean() else -1
    said_one = sign * (judged - cut + 0.5) > 0
    return float(((~said_one[0]).mean() + said_one[1].mean()) / 2)


@pytest.mark.parametrize("kind", [Kind.LAPLACE, Kind.GAUSSIAN])
def test_low_bits_tell_adjacent_values_apart_through_numpys_noise(kind):
    assert accuracy_of_the_attack("numpy", Law(kind, 1.0), trials=300) > 0.99


@pytest.mark.parametrize("kind", [Kind.LAPLACE, Kind.GAUSSIAN])
def test_low_bits_on_the_lattice_tell_nothing(kind):
    """600 guesses, fixed by the seed: half of them right, within three standard deviations."""
    assert abs(accuracy_of_the_attack("lattice", Law(kind, 1.0), trials=300) - 0.5) < 3 * 0.5 / sqrt(600)


# ---- what it costs


GRAIN = {"rounding_l1": 0.3, "rounding_l2": 0.1}


@pytest.mark.parametrize("kind", [Kind.LAPLACE, Kind.GAUSSIAN])
def test_a_rounded_release_costs_what_one_of_larger_sensitivity_does(kind):
    rounded = loss(events(20, kind, l1=3.0, l2=1.0, scale=5.0, **GRAIN))
    larger = loss(events(20, kind, l1=3.3, l2=1.1, scale=5.0))
    assert rounded[:2] == pytest.approx(larger[:2], rel=1e-12, nan_ok=True)
    assert rounded.rule == larger.rule
    assert rounded.epsilon > loss(events(20, kind, l1=3.0, l2=1.0, scale=5.0)).epsilon


@pytest.mark.parametrize(
    ("law", "hidden"),
    [
        (Saturated, {"lipschitz": np.inf, "largest": 0.5}),
        (Recursive, {"lipschitz": 0.5, "largest": 0.4}),
        (Recursive, {"linear": 0.5}),
    ],
)
def test_a_hidden_change_is_rounded_too(law, hidden):
    """Every later message that it moves costs the grain once more, but the change itself is that without rounding."""
    rows = events(12, l1=3.0, l2=1.0, scale=5.0, **GRAIN, **hidden)
    fields = {"lipschitz": 0.0, "largest": 0.0, "linear": 0.0} | hidden
    changes = [1.0]
    for _ in range(10):
        capped = min(fields["largest"], fields["lipschitz"] * changes[-1]) if fields["largest"] else 0.0
        changes.append(capped + fields["linear"] * changes[-1])
    ledger = open_ledger(rows, Uses.of(rows, by_round))
    assert isinstance(ledger, law)
    pure, rho = ledger.at(12)
    assert pure[0] == pytest.approx(sum(3.0 * change + 0.3 for change in changes) / 5.0, rel=1e-12)
    assert rho[0] == pytest.approx(sum((change + 0.1) ** 2 for change in changes) / 50.0, rel=1e-12)
    # By order at least the sum of what each message costs alone, and not much more.
    curve = ledger.rdp(np.array([0]))[0]
    alone = sum(ledger.costs.rdp(np.array([0]), np.array([change]))[0] for change in changes)
    assert (curve >= alone * (1 - 1e-3)).all()
    assert (curve <= alone * 1.06).all()
    plain = events(12, l1=3.0, l2=1.0, scale=5.0, **hidden)
    without = open_ledger(plain, Uses.of(plain, by_round))
    without.at(12)
    assert compose([without], [1])(DELTA) < compose([ledger], [1])(DELTA) < 1.02 * pure[0] + 11 * 0.3 / 5.0


# ---- runs


@pytest.mark.parametrize(
    "experiment",
    [
        {},
        {"algorithm": {"name": "dpsda-ps", "gradient_at": "public"}, "privacy": {"scale": "calibrated"}},
        {"algorithm": {"name": "two-stage-gaussian", "gradient_rounds": 6}, "data": {"name": "mean"}},
    ],
    ids=str,
)
def test_a_run_on_the_lattice_replays_and_every_release_is_on_it(tmp_path, experiment):
    directory, summary = run(tmp_path, noise={"backend": "lattice"}, **experiment)
    assert command.main([str(directory), "--rounds=3"]) == 0
    recorded = Recorded(directory)
    scale = recorded.events.scale[..., 0]
    d = recorded.setup.dimension
    g = np.exp2(np.floor(np.log2(np.where(scale > 0, scale, 1.0))) - 20)
    whole = recorded.frames[:, :, 3 : 3 + d] / g[:, :, None]
    assert (scale > 0).any()
    np.testing.assert_array_equal(whole[scale > 0], np.rint(whole[scale > 0]))
    assert np.abs(whole).max() < 2**53
    noised = recorded.events[scale > 0]
    np.testing.assert_array_equal(noised.rounding_l1[:, 0], d * g[scale > 0])
    np.testing.assert_allclose(noised.rounding_l2[:, 0], sqrt(d) * g[scale > 0], rtol=1e-15)
    assert summary["reproducible"]
    assert summary["privacy"]["noise"]["backend"] == "lattice"
    assert summary["privacy"]["noise"]["rounding"] == (d * g[scale > 0] / scale[scale > 0]).max()


def test_the_lattice_costs_a_run_its_grain_and_no_more(tmp_path):
    """One round's loss in one message of one agent, at public points: (D1 + d·g)/b."""
    wanted = {"algorithm": {"name": "dpsda-ps", "gradient_at": "public"}, "privacy": {"scale": "calibrated"}}
    proven = {}
    for name in ("numpy", "lattice"):
        _, summary = run(tmp_path, name, noise={"backend": name}, **wanted)
        proven[name] = [agent["proven_pure"] for agent in summary["privacy"]["agents"]]
    more = np.subtract(proven["lattice"], proven["numpy"])
    assert (more > 64 * 2.0**-21 * (1 - 1e-9)).all()
    assert (more <= 64 * 2.0**-20 * (1 + 1e-9)).all()


def test_the_lattice_gives_the_same_bits_under_mpi_and_in_lockstep(tmp_path):
    words = ["algorithm.name=dpsda-ps", "noise.backend=lattice", "data.name=olr", "rounds=40"]
    words += ["record.decisions=true", "report=false", "comparator=false"]
    asked = {"noise": {"backend": "lattice"}, "data": {"name": "olr"}, "rounds": 40, "record": {"decisions": True}}
    one = run_mpi(3, *words, "topology.name=complete", "output.dir=mpi", cwd=tmp_path)
    assert one.code == 0, one.err
    for name in ("lockstep", "again"):
        run(tmp_path, name, topology={"name": "complete", "agents": 2}, **asked)
        assert same_bits(tmp_path / "mpi", tmp_path / name) == []


NEVER_AGAIN = [{"entropy": "os"}, {"backend": "lattice", "entropy": "os"}, {"backend": "opendp"}]


@pytest.mark.parametrize("how", NEVER_AGAIN, ids=str)
def test_noise_from_no_seed_is_marked_and_everything_else_stays(tmp_path, how, capsys, undrawn):
    fast = {"rounds": 4, "data": {"name": "olr"}, "comparator": True}
    runs = [
        run(tmp_path, name, noise=how, report=name == "one" and "backend" not in how, **fast) for name in ("one", "two")
    ]
    seeded, _ = run(tmp_path, "seeded", **fast)
    said = [mpinodes.load(directory).transcript.values[:, :, 3:24] for directory in [*(d for d, _ in runs), seeded]]
    assert not any((a == b).any() for a, b in ((said[0], said[1]), (said[0], said[2])))
    assert not (said[0][:, 0] == said[0][:, 1]).any()
    for directory, summary in runs:
        assert summary["reproducible"] is False
        drawn, other = mpinodes.load(directory), mpinodes.load(seeded)
        np.testing.assert_array_equal(drawn.receiver.values, other.receiver.values)
        apart = np.abs(drawn.comparator_value.values - other.comparator_value.values)
        assert (apart <= drawn.comparator_gap.values + other.comparator_gap.values + 1e-12).all()
    if "backend" not in how:
        page = (tmp_path / "one" / "report.html").read_text()
        assert "Not reproducible" in page
        assert "to the same bits" not in page
    assert command.main([str(tmp_path / "one"), "--rounds=2"]) == 0
    assert "no message exceeded its bound" in capsys.readouterr().out


def test_a_seeded_run_is_marked_reproducible_and_so_is_one_without_noise(tmp_path, undrawn):
    _, summary = run(tmp_path, "seeded", rounds=4, data={"name": "olr"}, report=True)
    assert summary["reproducible"] is True
    assert "runs again with equal bits" in (tmp_path / "seeded" / "report.html").read_text()
    silent = {"rounds": 4, "data": {"name": "olr"}, "privacy": {"epsilon": "inf"}}
    one, summary = run(tmp_path, "one", noise={"entropy": "os"}, **silent)
    assert summary["reproducible"] is True
    other, _ = run(tmp_path, "other", **silent)
    assert same_bits(one, other) == []


@pytest.mark.parametrize("entropy", ["seed", "os"])
def test_a_run_in_words_names_its_noise(tmp_path, entropy):
    from mpinodes.presentation import terminal as summary

    directory, found = run(tmp_path, rounds=4, data={"name": "olr"}, noise={"backend": "lattice", "entropy": entropy})
    text = summary.text(typed(found), directory)
    words = "drawn from the system's entropy on a lattice" if entropy == "os" else "drawn on a lattice"
    assert words in " ".join(text.split())
    assert ("Not reproducible" in text) == (entropy == "os")


def test_replay_of_noise_from_no_seed_still_finds_another_experiment(tmp_path, capsys):
    directory, _ = run(tmp_path, rounds=6, data={"name": "olr"}, noise={"entropy": "os"})
    file = directory / "experiment.toml"
    file.write_text(file.read_text().replace("clip = 5.0", "clip = 0.01"))
    assert command.main([str(directory)]) == 2
    assert "this is not the run that was recorded" in capsys.readouterr().err


def test_a_local_solve_with_noise_from_no_seed_replays(tmp_path):
    """Its residual and its steps depend on the noise, and are not compared."""
    directory, summary = run(tmp_path, rounds=5, algorithm={"name": "pp-admm"}, noise={"entropy": "os"})
    assert not summary["reproducible"]
    finding = replay(Recorded(directory), 0, rounds=3, seed=0)
    assert not finding.exceeded
    assert finding.direct > 0


@pytest.mark.parametrize("name", ["lattice", "opendp"])
@pytest.mark.parametrize("algorithm", ["pp-admm", "dvp-admm", "pvp-admm"])
def test_noise_inside_a_minimization_comes_in_numpys_arithmetic_alone(name, algorithm):
    with pytest.raises(BadInput, match=f"noise.backend = '{name}'.*gamma-norm.*set noise.backend=numpy"):
        setup_of(f"algorithm.name={algorithm} noise.backend={name}")


def test_opendp_that_is_not_installed_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    noise.backend.cache_clear()
    with pytest.raises(BadInput, match=r"needs the package opendp: pip install 'mpinodes\[opendp\]'"):
        setup_of("noise.backend=opendp")
    setup_of("noise.backend=opendp privacy.epsilon=inf")  # no noise, nothing to draw it with
