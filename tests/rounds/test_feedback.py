"""Feedback that is less than a gradient at once: two values of a loss, or late; by an account of its own."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest

import mpinodes
from mpinodes.auditing.adjacent_replay import replay
from mpinodes.auditing.games import canary, pairs, prepare, simulate
from mpinodes.auditing.small_experiments import probes
from mpinodes.auditing.transcripts import Recorded
from mpinodes.auditing.verdicts import of_probe, of_run
from mpinodes.bounds import bounds
from mpinodes.config import registry
from mpinodes.config.noise_key import fingerprint
from mpinodes.core.errors import BadInput
from mpinodes.losses.two_point import Directions
from mpinodes.mechanisms.laplace import Laplace
from mpinodes.privacy.accountant import Accountant, groups
from mpinodes.rounds.lockstep import run_agents
from mpinodes.rounds.plan import Plan
from mpinodes.runlog.checkpoints import keepers_of
from tests.helpers import matrix_forms, reference
from tests.helpers.parts import decisions, rows_of, run_of, setup_of, told
from tests.helpers.records import same_bits, summary_of
from tests.helpers.running import run_mpi

TWO = "feedback.points=2 feedback.radius=0.3"
BALL = f"data.name=unit-ball data.total=1000 rounds=25 record.transcript=true privacy.clip=0.7 {TWO}"
OLR = f"data.name=olr data.partition=even rounds=25 record.transcript=true privacy.scale=calibrated {TWO}"
ONLINE = ["dola", "dola-minibatch", "dpcda", "dpps", "dpsda-c", "dpsda-ps", "dpsr", "weight-balancing"]
CASES = [
    f"algorithm.name=dola {BALL}",
    f"algorithm.name=dola {OLR} problem.loss=absolute problem.set=box problem.regularizer=0 data.batch=2 "
    "step.kind=inverse-sqrt",
    f"algorithm.name=dola {BALL} problem.loss=logistic data.batch=3 problem.average=true privacy.adjacency=one-round",
    f"algorithm.name=dola-minibatch {BALL} data.batch=5 problem.average=true feedback.decay=0",
    f"algorithm.name=weight-balancing {BALL} problem.loss=logistic",
    f"algorithm.name=weight-balancing {OLR} problem.loss=least-squares algorithm.gradient_at=public "
    "algorithm.noise_index=corrected privacy.clip=2",
    f"algorithm.name=dpps {BALL} problem.radius=1",
    f"algorithm.name=dpsr {OLR} problem.loss=least-squares problem.set=box step.initial=0.1",
]


def estimated(parts, monkeypatch) -> tuple[reference.Run, np.ndarray]:
    """The run in matrices, and the points between those played."""
    made: list[matrix_forms.TwoPoints] = []

    def gradients(parts, regularizer):
        made.append(matrix_forms.TwoPoints(parts, regularizer))
        return made[-1]

    monkeypatch.setattr(matrix_forms, "gradients", gradients)
    run = matrix_forms.decomposable(parts)
    return run, made[-1].centers


@pytest.mark.parametrize("noise", ["privacy.epsilon=inf", "privacy.epsilon=0.7 seed=5"])
@pytest.mark.parametrize("words", CASES)
def test_a_run_equals_the_matrix_form(words, noise, monkeypatch):
    """Points played, releases and scales of the noise: to rounding, draw by draw."""
    parts = setup_of(f"{words} {noise}")
    found = told(parts)
    wanted, centers = estimated(parts, monkeypatch)
    for one, other in ((found["x"], centers), (found["h"], wanted.h), (found["scale"], wanted.scale)):
        assert one.shape == other.shape
        assert np.abs(one - other).max() <= 1e-10 * np.abs(other).max(initial=1e-300)
    assert np.abs(found["x"][-1]).max() > 0.01  # something was learnt


@pytest.mark.parametrize("point", ["hidden", "public"])
@pytest.mark.parametrize("noise", ["privacy.epsilon=inf", "privacy.epsilon=1 privacy.scale=4"])
def test_agents_that_share_a_loss_play_in_their_own_coordinates(noise, point):
    words = f"algorithm.name=dpsda-ps data.name=olr rounds=30 {TWO} {noise} algorithm.gradient_at={point}"
    parts = setup_of(words)
    two, e, n = matrix_forms.TwoPoints(parts, 0.0), parts.experiment, parts.topology.agents
    agents = iter(range(n * e.rounds))
    gradients = lambda t, y: two.of(t, next(agents) % n, y)[None]  # noqa: E731
    reference.dpsda(
        e.rounds, parts.dimension, n, gradients, lambda t: reference.column_stochastic(n, parts.topology.edges(t)),
        reference.box(e.problem.radius), push_sum=True, key=parts.noise_key,
        scale=float(e.privacy.scale) / e.privacy.epsilon if e.private else 0.0, public=point == "public",
    )  # fmt: skip
    found = decisions(parts)
    assert np.abs(found - two.centers).max() <= 1e-10 * np.abs(two.centers).max()


LATE = "data.name=unit-ball data.total=1000 rounds=25 record.transcript=true privacy.clip=0.7"
PUBLIC = "algorithm.gradient_at=public"
LATE_CASES = [
    f"algorithm.name=dola {LATE} feedback.delay=1",
    f"algorithm.name=dola {BALL} problem.loss=logistic feedback.delay=4",
    f"algorithm.name=dola-minibatch {LATE} data.batch=5 problem.average=true feedback.delay=3",
    f"algorithm.name=weight-balancing {LATE} {PUBLIC} algorithm.noise_index=corrected feedback.delay=7",
    f"algorithm.name=weight-balancing {LATE} problem.loss=logistic feedback.delay=2",
    f"algorithm.name=dpps {BALL} feedback.delay=3",
    f"algorithm.name=dpsr {LATE} problem.gradient_noise=0.1 feedback.delay=24",
]


@pytest.mark.parametrize("noise", ["privacy.epsilon=inf", "privacy.epsilon=0.7 seed=5"])
@pytest.mark.parametrize("words", LATE_CASES)
def test_a_run_with_late_feedback_equals_the_matrix_form(words, noise, monkeypatch):
    """Releases and scales of the noise, which are those of the step that applies it."""
    parts = setup_of(f"{words} {noise}")
    feedback, usual = parts.experiment.feedback, matrix_forms.gradients

    def gradients(parts, regularizer):
        of_data = matrix_forms.TwoPoints(parts, 0.0) if feedback.points else usual(parts, 0.0)
        return matrix_forms.Late(of_data, feedback.delay, regularizer)

    monkeypatch.setattr(matrix_forms, "gradients", gradients)
    found, wanted = told(parts), matrix_forms.decomposable(parts)
    for one, other in ((found["h"], wanted.h), (found["scale"], wanted.scale)):
        assert np.abs(one - other).max() <= 1e-10 * np.abs(other).max(initial=1e-300)
    uses = parts.layout.open(rows_of(parts))[1].uses
    np.testing.assert_array_equal(uses, np.maximum(np.arange(25) - feedback.delay, 0)[:, None].repeat(len(uses[0]), 1))


# ------------------------------------------------------------------------------------------------------ the estimates
def one_loss(words: str, agent: int = 0, t: int = 1):
    return setup_of(words).losses(agent)(t)


def test_an_estimate_is_that_of_the_gradient_of_the_smoothed_loss():
    """Its mean over directions is the mean of the gradient over the ball: of the hinge, in three dimensions."""
    words = "algorithm.name=dola data.dimension=3 privacy.clip=100 feedback.points=2"
    given = one_loss(words)
    sample = replace(given.loss, features=np.array([[0.8, -0.5, 0.3]]), targets=np.ones(1))
    played = replace(given, radius=0.8, loss=sample)
    x, rng, many = np.array([1.1, 0.3, 0.2]), np.random.default_rng(0), 8_000
    around = rng.standard_normal((many, 3))
    around /= np.linalg.norm(around, axis=1, keepdims=True)
    estimates = np.array([replace(played, unit=u).data_grad(x) for u in around])
    inside = around * rng.random((many, 1)) ** (1 / 3)
    a, b = played.loss.features, played.loss.targets
    slopes = np.where(b * ((x + 0.8 * inside) @ a.T) < 1, -b, 0.0)
    assert 0.1 < np.mean(slopes == 0) < 0.9  # the kink lies within the ball
    error = np.sqrt((estimates.var(axis=0) + (slopes * a).var(axis=0)) / many)
    assert (np.abs(estimates.mean(axis=0) - (slopes * a).mean(axis=0)) < 4.5 * error).all()


@pytest.mark.parametrize("size", [1e-300, 1.0, 1.7e308])
@pytest.mark.parametrize("loss", ["hinge", "logistic", "absolute", "least-squares"])
@pytest.mark.parametrize("adjacency", ["one-sample", "one-round"])
def test_no_estimate_is_longer_than_d_times_the_clip_whatever_the_data(loss, size, adjacency):
    words = f"algorithm.name=dola problem.loss={loss} data.batch=3 privacy.clip=0.4 privacy.adjacency={adjacency} {TWO}"
    played, rng = one_loss(words), np.random.default_rng(1)
    clips = 0.4 * (3 if adjacency == "one-sample" else 1)
    longest = 0.0
    for _ in range(25):
        x = 10 * rng.standard_normal(10)
        features = size * rng.choice([-1.0, 0.3, 1.0], (3, 10))
        mad = replace(played, loss=replace(played.loss, features=features))
        longest = max(longest, float(np.linalg.norm(mad.data_grad(x))))
    assert longest <= 10 * clips * (1 + 1e-9)
    assert longest > 9 * clips or size in (1e-300, 1.7e308)  # values beyond the doubles: no slope is left of them


@pytest.mark.parametrize("name", ONLINE)
def test_what_is_played_lies_in_the_set(name):
    radius = "" if name == "weight-balancing" else "problem.radius=1"
    setup = setup_of(f"algorithm.name={name} rounds=40 {TWO} {radius}")
    played, offsets = decisions(setup), Directions(setup.experiment, setup.blocks, setup.dimension).offsets(1, 40)
    lengths = np.linalg.norm(offsets, axis=2)
    np.testing.assert_allclose(lengths, np.broadcast_to(0.3 / np.sqrt(np.arange(1, 41))[:, None], lengths.shape))
    for both in (played + offsets, played - offsets):
        outside = np.abs(both - np.apply_along_axis(setup.feasible.project, 2, both)).max()
        assert outside <= 1e-12
    assert len(np.unique(offsets.reshape(-1, setup.dimension), axis=0)) == offsets.size // setup.dimension


@pytest.mark.parametrize(
    "algorithm", ["dola problem.regularizer=0.1", "dpsda-c data.name=olr", "dola data.batch=all data.total=300"]
)
def test_regret_is_of_the_points_played(algorithm, tmp_path):
    words = f"algorithm.name={algorithm} rounds=20 {TWO} record.decisions=true"
    setup, record = setup_of(words), mpinodes.load(run_of(tmp_path / "run", words))
    x, off, n = record.decision.values, record.offset.values, setup.topology.agents
    losses = [setup.stream.of(i) for i in range(n if setup.algorithm.decomposable else 1)]
    for t in range(1, 21):
        for sign_of in (x, off):
            assert sign_of.shape == (20, n, setup.dimension)
        pair = [x[t - 1] + off[t - 1], x[t - 1] - off[t - 1]]
        if setup.algorithm.decomposable:
            own = np.mean([[losses[i](t).value(p[i]) for i in range(n)] for p in pair], axis=0).sum()
            agents = [np.mean([sum(f(t).value(p[j]) for f in losses) for p in pair]) for j in range(n)]
        else:
            whole = [np.concatenate([p[i, block] for i, block in enumerate(setup.blocks)]) for p in pair]
            own = np.mean([losses[0](t).value(p) for p in whole])
            agents = [np.mean([losses[0](t).value(p[j]) for p in pair]) for j in range(n)]
        np.testing.assert_allclose(record.loss.values[t - 1], own, rtol=1e-12)
        if t == 1:
            total = record.agent_regret.values[0] + record.comparator_value.values[0]
            np.testing.assert_allclose(total, agents, rtol=1e-9)


# ------------------------------------------------------------------------------------------------------------ privacy
TIGHT = (
    f"algorithm.name=weight-balancing algorithm.gradient_at=public algorithm.noise_index=corrected topology.agents=3 "
    f"{BALL} rounds=16 privacy.clip=0.1"
)


@pytest.mark.parametrize("name", ONLINE)
def test_no_message_moves_by_more_than_is_claimed(name):
    words = f"algorithm.name={name} rounds=12 record.transcript=true privacy.clip=0.2 privacy.scale=calibrated {TWO}"
    found = replay(simulate(setup_of(words)), 0, 3, 0)
    assert not found.exceeded
    assert found.direct > 0


def test_the_claim_is_reached_and_d_times_too_small_a_one_is_exceeded():
    """Where slopes of both signs are cut, the L2 change is 2 d clip times the step."""
    run = simulate(setup_of(TIGHT))
    assert 0.99 < replay(run, 0, 3, 0).direct <= 1
    without = replace(run.setup.run, grad_sensitivity=tuple(s / 10 for s in run.setup.run.grad_sensitivity))
    lying = replace(run.setup, algorithm=replace(run.setup.algorithm, run=without), run=without)
    found = replay(simulate(lying), 0, 3, 0)
    assert found.exceeded
    assert found.direct == pytest.approx(10 * replay(run, 0, 3, 0).direct, rel=1e-6)


def test_half_the_noise_is_seen(monkeypatch):
    words = f"{TIGHT} topology.agents=2 data.dimension=4"
    assert not [row.what for row in of_run(simulate(setup_of(words)), 0) if row.refuted]
    whole = Laplace.release

    def half(self, query, t, noise, out):
        event = whole(self, query, t, noise, out)
        out[:] = query.value + (out - query.value) / 2
        return event

    monkeypatch.setattr(Laplace, "release", half)
    assert "noise" in {row.what for row in of_run(simulate(setup_of(words)), 0) if row.refuted}


@pytest.mark.parametrize(("algorithm", "number"), [("dola", 150), ("dpsda-c", 40)])
def test_the_audit_shows_less_than_is_proven(algorithm, number, tmp_path):
    """On a probe of one coordinate for each agent, where two points give the slope itself."""
    probe = probes({"name": algorithm}, 0, tmp_path, feedback={"points": 2})[0]
    ready = prepare(probe, tmp_path / "run")
    assert ready.run.setup.experiment.feedback.points == 2
    target = canary(ready, 0)
    rows = of_probe(ready, target, pairs(ready.run.setup, target, range(number), 0), 0.002, 0)
    assert rows
    assert not [row.what for row in rows if row.refuted]


LATELY = [
    "dola feedback.delay=2",
    f"dpsda-c {PUBLIC} feedback.delay=3",
    f"weight-balancing {PUBLIC} algorithm.noise_index=corrected feedback.delay=2 feedback.points=2",
    "dola-minibatch feedback.delay=1",
]


@pytest.mark.parametrize("algorithm", LATELY)
def test_late_feedback_is_claimed_when_it_is_told_and_no_message_moves_by_more(algorithm, tmp_path):
    words = f"rounds=12 record.transcript=true privacy.clip=0.2 privacy.scale=calibrated algorithm.name={algorithm}"
    place = run_of(tmp_path / "run", words)
    run = Recorded(place)
    found, late = replay(run, 0, 4, 0), run.setup.experiment.feedback.delay
    assert not found.exceeded
    assert found.direct > 0.2
    assert found.round > 1 + late
    assert (found.hidden > 0) == ("minibatch" in algorithm)  # what a regularizer at a hidden point carries on
    assert summary_of(place)["privacy"]["network"]["proven_pure"] is not None


@pytest.mark.parametrize(
    "algorithm", ["dpps", "dpsda-c", "dpsda-ps", "weight-balancing step.kind=constant step.value=0.5", "dpsr"]
)
@pytest.mark.parametrize("late", [1, 7])
def test_a_late_gradient_at_a_hidden_point_moves_messages_by_no_more_than_is_proven(algorithm, late):
    """The point of an earlier round may have moved although the hidden state of now has not: any change counts."""
    run = simulate(
        setup_of(f"algorithm.name={algorithm} rounds=24 record.transcript=true feedback.delay={late} privacy.clip=1")
    )
    found = replay(run, 1, 8, 0)
    assert not found.exceeded
    assert found.hidden > 0
    accountant = Accountant(run.events, groups(run.setup), run.setup.experiment.data["partition"] == "shared")
    (network,) = accountant.losses(np.array([24]), 1e-5, None).network
    assert np.isfinite(network.pure)


def test_late_feedback_that_is_claimed_at_once_is_seen(monkeypatch):
    plain, late = simulate(setup_of(TIGHT)), setup_of(f"{TIGHT} feedback.delay=3")
    run = simulate(late)
    np.testing.assert_array_equal(run.events.scale, plain.events.scale)
    assert not replay(run, 0, 3, 0).exceeded
    monkeypatch.setattr("mpinodes.rounds.late.delayed", lambda message, rounds: message)
    found = replay(simulate(late), 0, 3, 0)
    assert found.exceeded
    assert np.isinf(found.hidden)


# ------------------------------------------------------------------------------------------------------- all the rest
@pytest.mark.parametrize("asked", ["points = 2", "delay = 3"])
def test_who_needs_gradients_is_refused_before_the_first_round(asked):
    able = set()
    for name in registry.names(registry.ALGORITHMS):
        try:
            setup_of(f"algorithm.name={name} feedback.{asked.replace(' ', '')}")
        except BadInput as error:
            assert str(error).startswith(f"feedback.{asked}: {name} is not an online method")  # noqa: PT017
            assert "dp-dsgd" not in str(error).partition("; ")[2]  # noqa: PT017  # the methods that it names are able
        else:
            able.add(name)
    assert able == set(ONLINE)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("problem.radius=1 feedback.radius=1", r"^feedback\.radius = 1: .*problem\.radius"),
        ("problem.gradient_noise=0.1", r"^problem\.gradient_noise = 0\.1: .*feedback\.points"),
        ("privacy.clip=inf privacy.scale=1", r"^privacy\.clip = inf: nothing bounds the estimates"),
        ("feedback.points=1", r"^feedback\.points = 1"),
        ("feedback.radius=0", r"^feedback\.radius = 0"),
        ("feedback=3", r"^feedback"),
        ("feedback.delay=-1", r"^feedback\.delay = -1"),
        ("rounds=5 feedback.delay=5", r"^feedback\.delay = 5: nothing would be learnt in 5 rounds"),
    ],
)
def test_feedback_that_cannot_be_is_refused(words, why):
    asked = words if "points" in words or words == "feedback=3" else f"feedback.points=2 {words}"
    with pytest.raises(BadInput, match=why):
        setup_of(f"algorithm.name=dola {asked}")


def test_feedback_changes_the_noise_and_none_at_all_leaves_it():
    plain, none, two = (setup_of(f"algorithm.name=dola {w}") for w in ("", "feedback.points=0", "feedback.points=2"))
    assert fingerprint(plain) == fingerprint(none) != fingerprint(two)


@pytest.mark.parametrize(("asked", "why"), [("points=2", "estimated"), ("delay=1", "late")])
@pytest.mark.parametrize("name", ["dola", "dola-minibatch", "dpsda-c", "weight-balancing"])
def test_no_theorem_is_said_to_hold(name, asked, why):
    setup = setup_of(f"algorithm.name={name} rounds=3 feedback.{asked}")
    found = bounds(setup, np.array([3]), np.zeros((1, setup.dimension)))
    assert found
    assert {(bound.applies, why in bound.why) for bound in found} == {(False, True)}


def test_mpi_and_lockstep_agree_bit_for_bit_and_say_what_was_played(tmp_path, undrawn):
    words = (
        f"algorithm.name=dola data.total=900 rounds=30 topology.agents=3 record.decisions=true "
        f"record.transcript=true {TWO} feedback.delay=4"
    )
    one = run_of(tmp_path / "one", f"{words} report=true")
    done = run_mpi(4, *words.split(), "report=false", "output.dir=mpi", cwd=tmp_path)
    assert done.code == 0, done.err
    assert same_bits(one, tmp_path / "mpi") == []
    said = f"two-point feedback: 2 loss values per round, at distance 0.3 down to {0.3 / sqrt(30):.3g}"
    assert said in done.out
    assert "feedback 4 rounds late: applied with the step" in done.out
    assert said.capitalize() in (one / "report.html").read_text()
    assert summary_of(one)["feedback"]["points"] == 2


@pytest.mark.parametrize("name", ["dola", "dpsda-ps algorithm.gradient_at=public"])
def test_a_run_goes_on_from_what_is_kept(name, tmp_path):
    setup = setup_of(f"algorithm.name={name} rounds=25 checkpoint.every=10 feedback.delay=4 {TWO}")
    keepers = keepers_of(tmp_path, setup.topology.agents, "run")
    whole = rows_of(setup)
    for _ in run_agents(setup, Plan(setup), keepers):
        pass
    kept = [keeper.load(10) for keeper in keepers]
    rest = np.concatenate([chunk.rows.copy() for chunk in run_agents(setup, Plan(setup, 10), [], kept)], axis=1)
    np.testing.assert_array_equal(rest.transpose(1, 0, 2), whole[10:])
