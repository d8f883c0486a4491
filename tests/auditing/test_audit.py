"""The audit: planted bugs, each caught by the test that should, claims refuted, and no alarm where all is sound."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from mpinodes import audit
from mpinodes.auditing import verdicts
from mpinodes.auditing.adjacent_replay import replay
from mpinodes.auditing.games import canary, guess, pairs, prepare, simulate
from mpinodes.auditing.noise import NoiseDraws, drawn_in, standardized
from mpinodes.auditing.small_experiments import probes
from mpinodes.auditing.statistics import Shown, guessed, largest_share, least_share, told_apart
from mpinodes.auditing.transcripts import Recorded, Replayed
from mpinodes.auditing.verdicts import FALSE_ALARM, OF_NOISE, REFUTED, judge, of_probe, of_run
from mpinodes.config import registry
from mpinodes.core import Kind
from mpinodes.core.messages import HEADER
from mpinodes.core.seeds import Draws, Purpose
from mpinodes.mechanisms.gamma_norm import GammaNorm
from mpinodes.mechanisms.gaussian import Gaussian
from mpinodes.mechanisms.laplace import Laplace
from mpinodes.rounds import lockstep
from mpinodes.rounds import step as steps
from tests.helpers.parts import resolved, run_of, setup_of

ALPHA = 0.002
NOISE_ROWS = {"noise", "noise drawn again"}
SMALL = {
    "dola": {"data": {"total": 200, "dimension": 3}},
    "two-stage-gaussian": {"data": {"points": 4, "dimension": 3}, "algorithm": {"gradient_rounds": 14}},
    "pp-admm": {"data": {"total": 40, "dimension": 3}, "problem": {"weight": 10.0}},
    "pvp-admm": {"data": {"total": 40, "dimension": 3}, "problem": {"weight": 10.0}},
}


def small(name: str, **algorithm) -> dict:
    of_all = {"rounds": 16, "record": {"transcript": True}, "topology": {"agents": 3}}
    section = SMALL[name].get("algorithm", {}) | ({"name": name} | algorithm if "path" not in algorithm else algorithm)
    return of_all | SMALL[name] | {"algorithm": section}


def own_rows(asked: dict) -> dict:
    """What the audit says of a run, by what was looked at."""
    return {row.what: row for row in of_run(simulate(setup_of(asked)), seed=0)}


def refuted(rows) -> set[str]:
    return {row.what for row in rows.values() if row.refuted}


def probe_rows(tmp_path, section: dict, what: str | None = None, number: int = 40) -> list:
    """The rows of an algorithm's first probe, or of one by its name."""
    of_all = probes(section, 0, tmp_path)
    probe = of_all[0] if what is None else next(p for p in of_all if p.what == what)
    ready = prepare(probe, tmp_path / "probe")
    target = None if probe.secret else canary(ready, 0)
    ratios = pairs(ready.run.setup, target, range(number), 0) if target else np.empty((0, 2))
    return of_probe(ready, target, ratios, ALPHA, 0)


# Nothing planted.


@pytest.mark.parametrize("name", SMALL)
def test_a_sound_run_passes(name):
    rows = own_rows(small(name))
    assert set(rows) == {"one release for all", "frames", "replay", "noise", "noise drawn again"}
    assert not refuted(rows)
    assert rows["noise"].shown.split()[0].isdigit()  # noise there was


def test_gamma_norm_noise_hides_changes_by_their_l2_size(tmp_path):
    """In ten dimensions a change within its L2 sensitivity is above it in L1."""
    asked = {"rounds": 56, "record": {"transcript": True}, "algorithm": {"name": "pvp-admm"}}
    run = simulate(setup_of(asked))
    assert 0.1 < max(f.direct for f in [replay(run, 3, 1, 0)]) <= 1


def test_noise_inside_a_minimization_and_outside_is_of_one_law():
    """A user's algorithm may solve in one round and shift in the next."""
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((40, 5))
    noise *= (rng.gamma(5, 2.0, 40) / np.linalg.norm(noise, axis=1))[:, None]
    noise = noise[None, :, None, None]
    kinds = np.where(np.arange(40) % 2, Kind.PURE, Kind.GAMMA_NORM)[None, :, None, None]

    def found(scale: float) -> NoiseDraws:
        zeros = np.zeros_like(noise)
        return standardized(noise, zeros, zeros, np.full(kinds.shape, scale), kinds)

    assert found(2.0).number == 200
    assert not found(2.0).fails(FALSE_ALARM * OF_NOISE)
    assert found(1.0).fails(FALSE_ALARM * OF_NOISE)


def test_a_run_that_ended_before_its_time_passes(tmp_path):
    asked = small("two-stage-gaussian") | {"rounds": 60}
    asked["algorithm"] |= {"stop": 0.01}
    run = Recorded(run_of(tmp_path / "run", asked))
    assert len(run.frames) < 60
    assert not any(row.refuted for row in of_run(run, 0))


@pytest.mark.parametrize("name", registry.names(registry.ALGORITHMS))
def test_no_lower_bound_exceeds_what_is_proven(tmp_path, name):
    (row,) = probe_rows(tmp_path, {"name": name}, number=10)
    assert not row.refuted
    if name in ("admm", "m-admm"):  # nothing is claimed, and nothing hidden
        assert (row.shown, row.verdict) == ("inf", "unproven, as reported")
    if name in ("dola", "pp-admm", "pvp-admm"):
        assert row.at_delta is not None


def test_sound_noise_raises_no_alarm_in_forty_audits():
    alarms = []
    setup = setup_of(small("dola"))
    for seed in range(40):
        experiment = resolved(small("dola") | {"seed": seed, "data": SMALL["dola"]["data"] | {"seed": 0}})
        run = simulate(replace(setup, experiment=experiment))
        noise = drawn_in(run, run.replayed())
        assert len(noise.checks) > 15
        alarms += noise.fails(FALSE_ALARM * OF_NOISE)
    assert not alarms


# Claims.


@pytest.mark.parametrize(
    ("name", "what", "number"),
    [
        ("dpsda-ps", "joint view, T = 1", 500),
        ("weight-balancing", "as printed", 500),
        ("weight-balancing", "gradient at hidden x, noise index right", 400),
        ("weight-balancing", "gradient at public z, noise index as printed", 500),
        ("dola-minibatch", "φ times hidden w, as printed", 150),
        ("two-stage-gaussian", "hand-over clean, as printed in (12)", 0),
    ],
)
def test_a_papers_claim_is_refuted(tmp_path, name, what, number):
    (row,) = probe_rows(tmp_path, {"name": name}, what, number)
    assert row.verdict.startswith("refutes the paper's claim")
    assert not row.refuted
    if name == "two-stage-gaussian":
        assert row.verdict.endswith("unproven, as reported")
        assert row.shown == "inf"


@pytest.mark.parametrize(
    ("name", "what"),
    [("weight-balancing", "both mended"), ("dola-minibatch", "φ times public b")],
)
def test_a_claim_that_is_true_holds_and_is_nearly_reached(tmp_path, name, what):
    (row,) = probe_rows(tmp_path, {"name": name}, what, 300)
    assert row.verdict.startswith("holds")
    assert 0.1 < float(row.shown) <= 1 == row.pure


def test_signs_are_guessed_from_one_run_as_well_as_the_claim_allows(tmp_path):
    (row,) = probe_rows(tmp_path, {"name": "dola"}, "every sample, one run")
    assert 0.5 < float(row.shown.split()[0]) <= 1 == row.claimed
    assert not row.refuted


# Planted bugs.


@pytest.mark.parametrize(
    ("name", "law"), [("dola", Laplace), ("two-stage-gaussian", Gaussian), ("pvp-admm", GammaNorm)]
)
def test_half_the_noise_is_caught_by_its_size(monkeypatch, name, law):
    whole = law.release

    def half(self, query, t, noise, out):
        event = whole(self, query, t, noise, out)
        out += (query.value - out) / 2
        return event

    monkeypatch.setattr(law, "release", half)
    rows = own_rows(small(name))
    assert refuted(rows) == NOISE_ROWS
    assert "scale" in rows["noise"].verdict
    assert " 0.5" in rows["noise"].shown or " 0.4" in rows["noise"].shown


def test_half_the_noise_inside_a_minimization_is_caught_by_its_size(monkeypatch):
    whole = GammaNorm.release

    def half(self, query, t, noise, out):
        event = whole(self, query, t, noise, out)
        out += (query.value - out) / 2
        return event

    monkeypatch.setattr(GammaNorm, "release", half)
    assert refuted(own_rows(small("pp-admm"))) == NOISE_ROWS


def test_half_the_noise_is_caught_by_the_guesses_of_one_run_too(tmp_path, monkeypatch):
    whole = Laplace.release

    def half(self, query, t, noise, out):
        event = whole(self, query, t, noise, out)
        out += (query.value - out) / 2
        return event

    monkeypatch.setattr(Laplace, "release", half)
    (row,) = probe_rows(tmp_path, {"name": "dola"}, "every sample, one run")
    assert row.verdict == REFUTED


@pytest.mark.parametrize("bug", ["agents", "rounds"])
def test_draws_that_are_used_twice_are_caught(monkeypatch, bug):
    class Again(Draws):
        def __init__(self, seed, purpose, agent=0, part=0):
            self._noise = purpose == Purpose.NOISE
            super().__init__(seed, purpose, 0 if self._noise and bug == "agents" else agent, part)

        def at(self, t):
            return super().at(1 if self._noise and bug == "rounds" else t)

    monkeypatch.setattr(steps, "Draws", Again)
    rows = own_rows(small("dola"))
    assert refuted(rows) == NOISE_ROWS
    assert "that come again" in rows["noise drawn again"].verdict


def test_a_fresh_draw_for_every_receiver_is_caught(monkeypatch):
    class Careful(steps.Step):
        """Hears of everyone else what no other hears."""

        def receive(self, s, arrivals, loss):
            rng = np.random.default_rng([s.here.agent, s.here.t])
            frames = {j: frame.copy() for j, frame in zip(arrivals.senders, arrivals.frames, strict=True)}
            for j in s.here.in_neighbors:
                frames[j][HEADER:] += 0.1 * rng.laplace(size=len(frames[j]) - HEADER)
            heard = steps.Arrivals.of(self._setup, s.here.agent, arrivals.senders, frames)
            return super().receive(s, heard, loss)

    monkeypatch.setattr(lockstep, "Step", Careful)
    rows = own_rows(small("dola"))
    assert refuted(rows) == {"one release for all"}
    assert "differs from the message that experiment, data and code give now" in rows["one release for all"].shown


BUGS = """
from dataclasses import dataclass, replace
from math import inf
from mpinodes.algorithms.{module} import {base}
from mpinodes.core import Query
__all__ = ["Bug"]

@dataclass(frozen=True)
class Bug({base}):
    bug: str = "none"

    def message(self, s, round):
        said = super().message(s, round)
        if self.bug == "index" and round.t > 1:  # the step of this round, not the larger one that made x
            ratio = self.run.step(round.t) / s.made_with
            return replace(said, l1=said.l1 * ratio, l2=said.l2 * ratio, calibration=said.calibration * ratio)
        if self.bug == "hand-over" and isinstance(said, Query) and round.t == self.gradient_rounds + 1:
            return replace(said, uses=0, calibration=0.0)  # as if no data were in it
        return said

    def update(self, s, round, inbox, loss):
        if self.bug == "own":  # its clean x, not what it said
            clean = [s.x if j == round.agent else h for j, h in zip(round.senders, inbox.releases)]
            inbox = replace(inbox, releases=clean)
        if self.bug == "clip":
            loss = replace(loss, clip=inf)
        return super().update(s, round, inbox, loss)
"""


@pytest.mark.parametrize(
    ("module", "base", "bug"),
    [
        ("dola", "DOLA", "none"),
        ("dola", "DOLA", "index"),
        ("dola", "DOLA", "own"),
        ("dola", "DOLA", "clip"),
        ("two_stage_gaussian", "TwoStageGaussian", "none"),
        ("two_stage_gaussian", "TwoStageGaussian", "hand-over"),
    ],
)
def test_a_bug_in_an_algorithm_is_caught_by_replay_on_its_probe(tmp_path, module, base, bug):
    (tmp_path / "bug.py").write_text(BUGS.format(module=module, base=base))
    rows = probe_rows(tmp_path, {"path": str(tmp_path / "bug.py"), "bug": bug})
    caught = [row for row in rows if row.what.endswith(": replay")]
    assert len(caught) == (bug != "none")
    assert all(row.refuted for row in caught)
    if bug in ("own", "hand-over"):  # by what many runs tell apart, too
        assert rows[0].refuted == (bug == "hand-over")


@pytest.mark.mpi(min_size=4)
def test_over_mpi_all_is_as_in_one_process_and_a_fresh_draw_for_every_receiver_is_caught(
    mpi_tmp_path, monkeypatch, capsys
):
    from mpi4py import MPI

    from mpinodes.rounds import network

    plain = network.Network.exchange

    def exchange(self, here):
        arrivals = plain(self, here)
        for j in arrivals.senders:
            if j != here.agent:
                self._frames[j][HEADER:] += np.random.default_rng([here.agent, here.t]).laplace()
        return arrivals

    monkeypatch.setattr(audit, "PAIRS", 4)
    monkeypatch.setattr(verdicts, "of_settings", lambda *_: [])  # of the logger alone
    words = ["algorithm.name=dola", "topology.name=ring", "topology.agents=3", "data.total=60", "rounds=8"]
    (folder := mpi_tmp_path / str(MPI.COMM_WORLD.rank)).mkdir()
    assert audit.AuditedRun(MPI.COMM_WORLD, folder).run(words) == 0
    together = capsys.readouterr().out
    if MPI.COMM_WORLD.rank == 3:  # every pair of runs has seeds of its own, whichever rank plays it
        (alone := folder / "alone").mkdir()
        assert audit.AuditedRun(None, alone).run(words) == 0
        assert capsys.readouterr().out == together
    monkeypatch.setattr(network.Network, "exchange", exchange)
    (again := folder / "again").mkdir()
    assert audit.AuditedRun(MPI.COMM_WORLD, again).run(words) == 1


# Statistics.


def test_clopper_pearson_is_wrong_as_often_as_it_may():
    tries, p, alpha = 40, 0.3, 0.05
    law = stats.binom(tries, p)
    wrong = sum(law.pmf(k) for k in range(tries + 1) if least_share(k, tries, alpha) > p)
    assert 0.01 < wrong <= alpha
    wrong = sum(law.pmf(k) for k in range(tries + 1) if largest_share(k, tries, alpha) < p)
    assert 0.01 < wrong <= alpha
    assert least_share(0, 5, alpha) == 0
    assert largest_share(5, 5, alpha) == 1


def test_lower_bounds_stay_below_the_truth_and_come_near_it():
    rng = np.random.default_rng(0)
    bounds = []
    for _ in range(30):  # Lap(1) and Lap(1) moved by 2: pure ε = 2
        y, other = rng.laplace(0, 1, 2000), rng.laplace(2, 1, 2000)
        own, moved = (np.abs(v - 2) - np.abs(v) for v in (y, other))
        bounds.append(told_apart(own, moved, 1e-5, 0.01, gaussian=False).pure)
    assert max(bounds) <= 2
    assert np.median(bounds) > 1.4


def test_certainty_is_as_good_as_the_number_of_runs():
    found = told_apart(np.full(200, np.inf), np.full(200, -np.inf), 1e-5, 0.01, gaussian=False).pure
    assert found == pytest.approx(np.log(0.005 ** (1 / 100) / (1 - 0.005 ** (1 / 100))))


def test_gaussian_runs_are_bounded_by_their_trade_off():
    from mpinodes.privacy.curves import gdp_epsilon

    rng = np.random.default_rng(1)
    found = []
    for _ in range(30):  # N(0, 1) and N(1.5, 1)
        y, other = rng.normal(0, 1, 2000), rng.normal(1.5, 1, 2000)
        own, moved = (((v - 1.5) ** 2 - v**2) / 2 for v in (y, other))
        found.append(told_apart(own, moved, 1e-3, 0.01, gaussian=True).at_delta)
    assert max(found) <= gdp_epsilon(1.5, 1e-3)
    assert np.median(found) > gdp_epsilon(1.2, 1e-3)


def test_guesses_bound_what_randomized_response_has():
    rng = np.random.default_rng(2)
    right = rng.binomial(400, np.e / (1 + np.e), 500)
    bounds = np.array([guessed(int(k), 400, 0.05) for k in right])
    assert 0.01 < (bounds > 1).mean() <= 0.05 + 3 * np.sqrt(0.05 / 500)
    assert guessed(0, 0, 0.05) == 0


@pytest.mark.parametrize(
    ("shown", "claimed", "pure", "at_delta", "verdict", "fails"),
    [
        (Shown(0.5, 0.4), 1.0, 1.0, 1.0, "holds (LB 0.5 ≤ claim 1)", False),
        (Shown(0.5, 0.4), None, 1.0, 1.0, "holds (LB 0.5 ≤ proven 1)", False),
        (Shown(1.5, 0.4), 1.0, 2.0, 1.0, "refutes the paper's claim (LB 1.5 > claim 1)", False),
        (Shown(2.5, 0.4), 1.0, 2.0, 1.0, REFUTED, True),
        (Shown(0.5, 1.4), 3.0, 2.0, 1.0, REFUTED, True),
        (Shown(9.0, 0.4), 1.0, None, 1.0, "holds (LB 0.4 ≤ claim 1)", False),
        (Shown(np.inf, np.inf), None, None, None, "unproven, as reported", False),
        (Shown(0.5, 0.5), 1.0, None, None, "unproven, as reported", False),
    ],
)
def test_verdicts(shown, claimed, pure, at_delta, verdict, fails):
    assert judge(shown, claimed, pure, at_delta) == (verdict, fails)


def test_a_log_ratio_is_that_of_the_densities(tmp_path):
    """Of Laplace noise, by hand: what changes is the second message."""
    ready = prepare(probes({"name": "dola"}, 0, tmp_path)[0], tmp_path / "probe")
    target = canary(ready, 0)
    assert (target.agents, target.change.round, target.size) == ((0,), 1, pytest.approx(1.0))
    replayed = Replayed(ready.run, 0)
    y, b = replayed.said(2)[0], ready.run.events[1, 0].scale[0]
    m, other = replayed.messages[1].value[0], replayed.messages[1].value[0]
    moved = replayed.moved(target.change, 2)[0][-1, 0, 0]
    other = m - moved if m > 0 else m + moved  # the gradient's sign is turned
    expected = (abs(y - other) - abs(y - m)) / b
    assert replayed.log_ratio(target.change, 6) == pytest.approx(expected)
    assert guess(prepare(probes({"name": "dola"}, 0, tmp_path)[-1], tmp_path / "secret"))[1] > 100
