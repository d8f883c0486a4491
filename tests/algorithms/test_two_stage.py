"""Two-stage Gaussian consensus and its predecessor: the papers' matrix form, the hand-over, calibration, the stop."""

from __future__ import annotations

import json
from functools import partial
from math import exp, log, sqrt
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

import mpinodes
from mpinodes.auditing.adjacent_replay import replay
from mpinodes.auditing.transcripts import Recorded
from mpinodes.core import Setup
from mpinodes.core.asked import parse
from mpinodes.core.messages import HEADER
from mpinodes.presentation import terminal as summary
from mpinodes.rounds.plan import longest_chunk
from mpinodes.summary.summary import Summary
from tests.helpers import reference
from tests.helpers.matrix_forms import slope
from tests.helpers.parts import Lockstep, run_of, setup_of, told
from tests.helpers.records import frames_foretold, summary_of
from tests.helpers.running import run_here

TWO = "algorithm.name=two-stage-gaussian"
HUANG = "algorithm.name=huang-dp"
MEAN = "data.name=mean data.points=7 data.dimension=3 topology.agents=5"
UNEVEN = f"{MEAN} data.partition=uneven data.sizes=[3,4,8,9,11]"
LOGISTIC = (
    "data.name=unit-ball data.total=60 data.dimension=4 data.batch=all problem.loss=logistic "
    "problem.regularizer=0.3 topology.agents=5"
)


# ---------------------------------------------------------------------------------------------- what the paper has


def sizes(parts: Setup) -> list[int]:
    return [len(parts.stream.of(i)(1).features) for i in range(parts.topology.agents)]


def gradients(parts: Setup) -> reference.Gradients:
    """Every agent's gradient at a point of its own, from features and targets alone."""
    problem, clip = parts.experiment.problem, parts.experiment.clip
    samples = [(f.features, f.targets) for f in (parts.stream.of(i)(1) for i in range(parts.topology.agents))]

    def of(i: int, x: np.ndarray) -> np.ndarray:
        a, b = samples[i]
        each = x - a if problem.loss == "squared-distance" else slope(problem.loss, a @ x, b)[:, None] * a
        share = problem.weight / (len(a) if problem.average else 1)
        return share * reference.clipped(each, clip) + problem.regularizer * x

    return lambda t, points: np.stack([of(i, points[i]) for i in range(len(points))])


def changes(parts: Setup) -> list[float]:
    """2G by agent: a replaced point moves a gradient by ‖d − d'‖ ≤ 2R√p, and by no more than 2·clip."""
    problem, data = parts.experiment.problem, parts.experiment.data
    far = 2 * data["radius"] * sqrt(data["dimension"]) if problem.loss == "squared-distance" else 2.0
    of_one = min(far, 2 * parts.experiment.clip) * problem.weight
    return [of_one / (k if problem.average else 1) for k in sizes(parts)]


def k_of(parts: Setup) -> float:
    """(μ + L)/(2μL) of the losses, whose Hessians are those of ½‖x − d‖² or at most 1/4 in all."""
    problem = parts.experiment.problem
    terms = [problem.weight * (1 if problem.average else k) for k in sizes(parts)]
    least, most = (1.0, 1.0) if problem.loss == "squared-distance" else (0.0, 0.25)
    mu, largest = problem.regularizer + least * min(terms), problem.regularizer + most * max(terms)
    return (mu + largest) / (2 * mu * largest)


def theorem_2(parts: Setup, t: int) -> float:
    """M(t)."""
    epsilon, delta = parts.experiment.privacy.epsilon, parts.experiment.privacy.delta
    kappa = epsilon**2 / (max(changes(parts)) ** 2 * (epsilon + 2 * log(2 / delta)))
    return sqrt(2 / kappa * k_of(parts) ** 2 * sqrt(parts.experiment.algorithm["gradient_rounds"]) / (t * sqrt(t)))


def weights(parts: Setup) -> np.ndarray:
    n, edges = parts.topology.agents, parts.topology.edges(1)
    return reference.laplacian(n, edges, reference.laplacian_max(n, edges))


def project(parts: Setup):
    radius = parts.experiment.problem.radius
    return {"ball": reference.ball(radius), "box": reference.box(radius)}[parts.experiment.problem.set]


def expected(parts: Setup) -> dict[str, np.ndarray]:
    e = parts.experiment
    args = parts.noise_key, e.rounds, parts.dimension, gradients(parts), weights(parts), project(parts)
    stages, clean = e.algorithm["gradient_rounds"], e.algorithm["handover"] == "clean"
    k = k_of(parts)
    noise = partial(theorem_2, parts) if e.private else lambda t: 0.0
    return reference.two_stage(*args, lambda t: k / t, noise, stages, clean=clean)


def expected_of_huang(parts: Setup) -> dict[str, np.ndarray]:
    e, d = parts.experiment, parts.dimension
    c, q, p = (e.algorithm[key] for key in ("first_step", "step_decay", "noise_decay"))
    unit = max(changes(parts)) * sqrt(d) * c / (e.privacy.epsilon * (p - q)) if e.private else 0.0
    run = reference.Run(parts.noise_key)
    common = e.rounds, d, gradients(parts), weights(parts), project(parts)
    reference.huang(run, *common, lambda t: c * q ** (t - 1), lambda t: unit * p**t)
    return {"x": run.x, "h": run.h, "scale": run.scale[:, 0]}


def same(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    wanted = wanted | {"scale": np.broadcast_to(wanted["scale"][:, None], found["scale"].shape)}
    for name in ("x", "h", "scale"):
        one, other = found[name], wanted[name]
        assert one.shape == other.shape
        assert np.abs(one - other).max() <= 1e-12 * np.abs(other).max(), name
    assert np.abs(found["x"][-1]).max() > 0.01  # something was learnt


PROBLEMS = [
    MEAN,
    f"{MEAN} privacy.clip=6 problem.set=ball problem.radius=4",
    f"{UNEVEN} topology.name=ring problem.regularizer=0.5",
    f"{UNEVEN} problem.average=true problem.weight=2",
    f"{LOGISTIC} privacy.clip=0.5 problem.set=ball problem.radius=0.7",
    f"{LOGISTIC} privacy.clip=0.9 problem.set=box problem.radius=0.4 topology.name=ring",
]


@pytest.mark.parametrize("noise", ["privacy.mechanism=none", "privacy.epsilon=6 seed=5"])
@pytest.mark.parametrize("stages", [1, 20])
@pytest.mark.parametrize("words", PROBLEMS)
def test_a_run_equals_the_papers_equations_in_matrices(words, stages, noise):
    """Decisions, releases and the noise's scale, draw by draw."""
    rounds = f"algorithm.gradient_rounds={stages} rounds={stages + 5} record.transcript=true"
    parts = setup_of(f"{TWO} {words} {rounds} {noise}")
    same(told(parts), expected(parts))


@pytest.mark.parametrize("calibration", ["theorem-2", "theorem-1", "exact"])
def test_an_infinite_epsilon_means_no_noise(calibration):
    words = f"{MEAN} rounds=9 algorithm.gradient_rounds=5 record.transcript=true privacy.epsilon=inf"
    parts = setup_of(f"{TWO} {words} algorithm.calibration={calibration}")
    same(told(parts), expected(parts))


def test_a_clean_hand_over_is_equation_12():
    words = f"{MEAN} algorithm.gradient_rounds=4 rounds=8 record.transcript=true algorithm.handover=clean"
    parts = setup_of(f"{TWO} {words}")
    found = told(parts)
    same(found, expected(parts))
    np.testing.assert_array_equal(found["h"][4], found["x"][4])


@pytest.mark.parametrize("noise", ["privacy.mechanism=none", "privacy.epsilon=6 seed=5"])
@pytest.mark.parametrize("words", [*PROBLEMS[:2], *PROBLEMS[4:], f"{UNEVEN} algorithm.step_decay=0.5"])
def test_the_predecessor_equals_its_equations_in_matrices(words, noise):
    parts = setup_of(f"{HUANG} {words} rounds=30 record.transcript=true algorithm.first_step=0.02 {noise}")
    same(told(parts), expected_of_huang(parts))


# ----------------------------------------------------------------------------------------------------- the hand-over


def releases(run: Path) -> tuple[np.ndarray, np.ndarray]:
    """(rounds, n, d) of the frames on the links, and W of the links themselves: nothing but what is overheard."""
    record = mpinodes.load(run)
    n, d = record.sizes["agent"], record.sizes["coordinate"]
    edges = {(j, i) for j, i in np.argwhere(record.receiver.values[0]).tolist()}
    w = reference.laplacian(n, edges, reference.laplacian_max(n, edges))
    return record.transcript.values[:, :, HEADER : HEADER + d], w


def overheard_gradients(run: Path, stages: int, radius: float, eta: float) -> tuple[np.ndarray, np.ndarray]:
    """(z_i(T) − y_i(T + 1))/η(T) of all agents, and z(T): (n, d) each."""
    y, w = releases(run)
    z = np.clip(w @ y[stages - 1], -radius, radius)
    return (z - y[stages]) / eta, z


@pytest.mark.parametrize("stages", [1, 4])
@pytest.mark.parametrize("handover", ["clean", "noised"])
def test_a_clean_hand_over_gives_the_last_gradient_away_and_a_noised_one_does_not(handover, stages, tmp_path):
    words = f"{MEAN} algorithm.gradient_rounds={stages} algorithm.handover={handover} record.transcript=true"
    words += " data.radius=50 problem.radius=50 privacy.epsilon=50"  # x(T) lies inside the box
    run = run_of(tmp_path / "run", f"{TWO} {words} rounds={stages + 3}")
    found, z = overheard_gradients(run, stages, 50.0, 1 / (7 * stages))
    parts = setup_of(f"{TWO} {words} rounds={stages + 3}")
    sums = np.array([parts.stream.of(i)(1).features.sum(axis=0) for i in range(5)])
    wanted = 7 * z - sums  # at T = 1, z = 0: the sum of the agent's points
    off = np.abs(found - wanted).max() / np.abs(wanted).max()
    network = summary_of(run)["privacy"]["network"]
    if handover == "clean":
        assert off < 1e-12
        assert (network["proven"], network["proven_pure"], network["rule"]) == (None, None, "unproven")
    else:
        noise = theorem_2(parts, stages) * np.array(
            [reference.draws(parts.noise_key, reference.NOISE, i, stages + 1).standard_normal(3) for i in range(5)]
        )
        np.testing.assert_allclose(found - wanted, -noise * 7 * stages, rtol=1e-9)
        assert off > 0.01
        assert network["proven"] <= 50
        assert network["rule"] == "GDP"


@pytest.mark.parametrize("stop", [0.0, 0.003])
@pytest.mark.parametrize("handover", ["clean", "noised"])
def test_stage_two_says_nothing_that_was_not_said(handover, stop, tmp_path):
    words = f"{TWO} {MEAN} topology.name=ring algorithm.gradient_rounds=4 rounds=120 record.transcript=true"
    run = run_of(tmp_path / "run", f"{words} algorithm.handover={handover} algorithm.stop={stop}")
    frames_foretold(run, 4, stop)
    record = mpinodes.load(run)
    assert not record.event_uses.values[5:].any()
    assert record.sizes["round"] == 120 if stop == 0 else record.sizes["round"] < 100


def test_a_replay_on_adjacent_data_moves_no_message_of_stage_two(tmp_path):
    run = Recorded(run_of(tmp_path / "run", f"{TWO} {MEAN} algorithm.gradient_rounds=4 rounds=9 "
                            "record.transcript=true"))  # fmt: skip
    for i in range(5):
        found = replay(run, i, rounds=2, seed=0)
        assert not found.exceeded
        assert found.touched == 4
        assert found.direct > 0.1


# -------------------------------------------------------------------------------------------------------- calibration

SMALL = f"{TWO} {MEAN} algorithm.gradient_rounds=6 rounds=9"


def m_of(spent: float, delta: float) -> float:
    """ε at δ of √spent-GDP, from its definition."""
    m = sqrt(spent)

    def excess(epsilon: float) -> float:
        return norm.cdf(-epsilon / m + m / 2) - exp(epsilon) * norm.cdf(-epsilon / m - m / 2) - delta

    return brentq(excess, 0, 100, xtol=1e-12)


def spent(run: Path) -> np.ndarray:
    """Σ Δ²/M² by agent."""
    record = mpinodes.load(run)
    told_of = record.event_uses.values > 0
    ratio = np.divide(record.event_l2, record.event_scale, out=np.zeros(told_of.shape), where=told_of)
    return (ratio**2).sum(axis=0)


@pytest.mark.parametrize(
    ("epsilon", "delta", "factor"), [(4, 1e-3, 0.751), (4, 1e-5, 0.811), (1, 1e-5, 0.740), (0.1, 1e-5, 0.621)]
)
def test_exact_accounting_takes_the_share_of_theorem_1s_noise_that_it_should(epsilon, delta, factor):
    words = f"{SMALL} privacy.epsilon={epsilon} privacy.delta={delta}"
    exact, theorem = (
        setup_of(f"{words} algorithm.calibration={name}").algorithm.factor for name in ("exact", "theorem-1")
    )
    assert exact / theorem == pytest.approx(factor, abs=6e-4)


@pytest.mark.parametrize("shape", ["", "algorithm.noise_decay=0.2", "algorithm.noise_shape=[3,1,1,2,0.5,0.5]"])
@pytest.mark.parametrize(("epsilon", "delta"), [(4, 1e-3), (1, 1e-5), (0.1, 1e-5)])
def test_exact_noise_spends_all_that_is_allowed_and_the_theorems_less(epsilon, delta, shape, tmp_path):
    words = f"{SMALL} privacy.epsilon={epsilon} privacy.delta={delta}"
    for name in ("theorem-1", "exact", *["theorem-2"] * (not shape)):
        run = run_of(tmp_path / name, f"{words} algorithm.calibration={name} {shape}")
        lost = summary_of(run)["privacy"]["network"]
        assert lost["proven"] == pytest.approx(m_of(spent(run).max(), delta), abs=1e-9)
        if name == "exact":
            assert lost["proven"] == pytest.approx(epsilon, abs=1e-6)
            assert lost["claimed"] > epsilon  # Theorem 1 does not know it
        else:
            assert lost["proven"] < 0.9 * epsilon
            if name == "theorem-1":
                assert lost["claimed"] == pytest.approx(epsilon, rel=1e-12)
            else:
                assert 0.8 * epsilon < lost["claimed"] < epsilon


def test_theorem_2_spends_what_theorem_1_allows_as_the_rounds_grow():
    """Σ Δ²/M² is Σ t^-½/(2√T) of it, which tends to 1."""
    for stages in (1, 100, 10_000):
        algorithm = setup_of(f"{TWO} {MEAN} algorithm.gradient_rounds={stages} rounds={stages + 1}").algorithm
        t = np.arange(1, stages + 1)
        loss = np.sum((max(algorithm.run.grad_sensitivity) * algorithm.eta(t) / algorithm.noise(t)) ** 2)
        share = loss / (4**2 / (4 + 2 * log(2 / 1e-3)))
        assert share == pytest.approx(np.sum(t**-0.5) / (2 * sqrt(stages)), rel=1e-12)
    assert share > 0.99


@pytest.mark.parametrize(
    ("words", "shape"),
    [
        ("", lambda t: t**-0.75),
        ("algorithm.calibration=theorem-1 algorithm.noise_decay=0", lambda t: 1.0),
        ("algorithm.calibration=exact algorithm.noise_decay=1.5", lambda t: t**-1.5),
        (
            "algorithm.calibration=exact algorithm.noise_shape=[3,1,1,2,0.5,0.5]",
            lambda t: (3, 1, 1, 2, 0.5, 0.5)[t - 1],
        ),
        ("algorithm.noise_scale=2", lambda t: 2 * t**-0.75),
        ("algorithm.noise_scale=2 algorithm.noise_decay=1", lambda t: 2 / t),
        (
            "algorithm.noise_scale=2 algorithm.noise_shape=[3,1,1,2,0.5,0.5]",
            lambda t: 2 * (3, 1, 1, 2, 0.5, 0.5)[t - 1],
        ),
    ],
)
def test_noise_has_the_asked_for_shape_and_scale(words, shape):
    scale = told(setup_of(f"{SMALL} record.transcript=true {words}"))["scale"]
    wanted = np.array([0, *(shape(t) for t in range(1, 7)), 0, 0])
    if "noise_scale" not in words:
        wanted = wanted * scale[1, 0] / wanted[1]
    np.testing.assert_allclose(scale, np.tile(wanted[:, None], 5), rtol=1e-13)


def test_the_steps_take_the_users_modulus_and_curvature():
    algorithm = setup_of(f"{SMALL} algorithm.modulus=2 algorithm.largest_curvature=6").algorithm
    assert algorithm.eta(3) == pytest.approx((2 + 6) / (2 * 2 * 6) / 3, rel=1e-14)


# ------------------------------------------------------------------------------------------ claimed and proven losses


def test_claimed_and_proven_losses_of_agents_with_shares_of_their_own(tmp_path):
    words = f"{TWO} {UNEVEN} problem.average=true algorithm.gradient_rounds=6 rounds=12"
    run = run_of(tmp_path / "run", f"{words} privacy.epsilon=2 privacy.delta=1e-4")
    parts = setup_of(f"{words} privacy.epsilon=2 privacy.delta=1e-4")
    t = np.arange(1, 7)
    noise = np.array([theorem_2(parts, int(s)) for s in t])
    agents = summary_of(run)["privacy"]["agents"]
    for change, agent in zip(changes(parts), agents, strict=True):
        a = float(np.sum((change * k_of(parts) / t / noise) ** 2))
        assert agent["claimed"] == pytest.approx((a + sqrt(a * a + 8 * a * log(2 / 1e-4))) / 2, rel=1e-12)
        assert agent["proven"] == pytest.approx(m_of(a, 1e-4), rel=1e-9)
    network = summary_of(run)["privacy"]["network"]
    for key in ("claimed", "proven"):
        assert network[key] == max(agent[key] for agent in agents)
    assert agents[0]["proven"] > 2 * agents[-1]["proven"]  # 3 points and 11


def test_the_loss_grows_through_stage_one_and_stays_in_stage_two(tmp_path):
    record = mpinodes.load(run_of(tmp_path / "run", f"{TWO} {MEAN} algorithm.gradient_rounds=6 rounds=14"))
    proven, at = record.epsilon_proven_network.values, record.horizon.values
    assert proven[at == 1] == 0
    assert (np.diff(proven[at <= 7]) > 0).all()
    assert (proven[at >= 7] == proven[-1]).all()


def test_the_predecessor_is_pure_and_within_its_epsilon(tmp_path):
    lost = summary_of(run_of(tmp_path / "run", f"{HUANG} {MEAN} rounds=200"))["privacy"]["network"]
    assert lost["claimed"] == 4
    # Σ (p − q) q^(t−1)/p^t = 1 over all rounds
    assert lost["proven_pure"] == pytest.approx(4 * (1 - (0.9 / 0.95) ** 199), rel=1e-12)


@pytest.mark.parametrize(("delta", "warned"), [("1e-3", True), ("3e-3", True), ("2.8e-3", False), ("1e-6", False)])
def test_a_delta_that_would_let_samples_be_published_is_warned_of(delta, warned, tmp_path):
    """35 points: 0.1/35 is 0.00286."""
    large = delta == "1e-3"
    points = "data.points=100 topology.agents=10" if large else ""
    run = run_of(tmp_path / "run", f"{SMALL} privacy.delta={delta} {points}")
    samples = 1000 if large else 35
    words = " ".join(summary.text(Summary.read(run), run).split())
    warning = f"δ = {float(delta):g} is not well below 1/{samples}, one over the number of samples"
    assert (warning in words) == warned
    assert ("well below" in words) == warned


@pytest.mark.parametrize(("delta", "warned"), [("1e-2", True), ("1e-6", False)])
def test_the_page_warns_of_such_a_delta_too(delta, warned, tmp_path, undrawn):
    words = f"{SMALL} privacy.delta={delta} output.dir={tmp_path / 'run'}"
    run = mpinodes.run_lockstep(parse(None, words.split()))
    assert ("is not well below 1/35" in (run / "report.html").read_text()) == warned


# ----------------------------------------------------------------------------------------------------------- the stop

PATH = {"nodes": [{"id": k} for k in range(11)], "edges": [{"source": k, "target": k + 1} for k in range(10)]}


def on_a_path(folder: Path) -> str:
    """The words for a path of eleven agents, ten hops long."""
    (folder / "path.json").write_text(json.dumps(PATH))
    return f"topology.file={folder / 'path.json'} topology.undirected=true"


def leaves(parts: Setup) -> list[int]:
    """By agent the round after which it leaves; all live on till the last has left, or to the end (then 0)."""
    network, left = Lockstep(parts), [0] * parts.topology.agents
    for t in range(1, parts.experiment.rounds + 1):
        network.speak()
        network.hear()
        left = [t if s.left and not before else before for s, before in zip(network.states, left, strict=True)]
        if all(left):
            break
    return left


STOP = "data.name=mean data.points=7 algorithm.gradient_rounds=5 rounds=600 algorithm.stop=0.002"
SHAPES = [
    "topology.agents=2",
    "topology.agents=7",
    "topology.name=ring topology.agents=5",
    "topology.name=ring topology.agents=12",
    "topology.name=erdos-renyi topology.agents=9 topology.probability=0.3",
    "topology.name=barabasi-albert topology.agents=12 topology.attachments=1",
    "path",
]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("shape", SHAPES)
def test_all_agents_leave_in_the_same_round(shape, seed, tmp_path):
    shape = on_a_path(tmp_path) if shape == "path" else shape
    left = leaves(setup_of(f"{TWO} {STOP} seed={seed} {shape}"))
    assert len(set(left)) == 1
    assert 0 < left[0] < 600


@pytest.mark.parametrize("shape", SHAPES)
def test_a_run_ends_as_soon_as_all_can_know_that_all_have_settled(shape, tmp_path):
    """Which is so many rounds after the last in which one had not, as the graph is hops wide."""
    shape = on_a_path(tmp_path) if shape == "path" else shape
    parts = setup_of(f"{TWO} {STOP} {shape} record.transcript=true")
    h = told(parts)["h"]
    moved = np.linalg.norm(np.diff(h, axis=0), axis=2) / np.linalg.norm(h, axis=2)[:-1].clip(1e-300)
    first = 7 + int(np.argmax((moved[5:] <= 0.002).all(axis=1)))  # from round T + 2 = 7 on
    last_unsettled = first - 1
    n, edges = parts.topology.agents, parts.topology.edges(1)
    reach, hops = np.eye(n), 0
    while not reach.all():
        reach, hops = reach @ (reference.adjacency(n, edges) + np.eye(n)), hops + 1
    assert len(h) == last_unsettled + hops


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("dimension", [1, 5])
@pytest.mark.parametrize("shape", SHAPES[2:])
def test_at_the_end_no_release_changes_by_more_than_the_stop(shape, dimension, seed, tmp_path):
    shape = on_a_path(tmp_path) if shape == "path" else shape
    words = f"{TWO} {STOP} {shape} data.dimension={dimension} seed={seed} record.transcript=true"
    h = told(setup_of(words))["h"]
    assert (np.linalg.norm(h[-1] - h[-2], axis=1) <= 0.002 * np.linalg.norm(h[-2], axis=1)).all()


@pytest.mark.parametrize("stop", [0.0, 0.002])
def test_one_agent_alone_goes_through_stage_one(stop, tmp_path):
    words = f"{TWO} {MEAN} topology.agents=1 algorithm.gradient_rounds=5 rounds=20 algorithm.stop={stop}"
    assert mpinodes.load(run_of(tmp_path / "run", words)).sizes["round"] >= 7


def test_the_record_and_the_summary_end_with_the_stop(tmp_path):
    words = f"{TWO} {STOP} topology.name=ring topology.agents=5 noise.key=1"
    run = run_of(tmp_path / "run", words)
    record, ends = mpinodes.load(run), leaves(setup_of(words))[0]
    assert record.sizes["round"] == record["round"].values[-1] == record.horizon.values[-1] == ends
    assert summary_of(run)["rounds"] == ends
    assert np.isfinite(record.loss).all()
    assert f"{ends} rounds" in summary.text(Summary.read(run), run)
    assert json.loads((run / "progress.jsonl").read_text().splitlines()[-1])["round"] == ends
    unstopped = mpinodes.load(run_of(tmp_path / "on", f"{words} algorithm.stop=0 rounds={ends}"))
    np.testing.assert_array_equal(record.decision_last[-1], unstopped.decision_last[-1])


def test_a_stop_does_not_change_what_is_proven(tmp_path):
    words = f"{TWO} {STOP} topology.name=ring topology.agents=5"
    stopped, whole = (
        summary_of(run_of(tmp_path / name, f"{words} {more}"))["privacy"]["network"]
        for name, more in (("stopped", ""), ("whole", "algorithm.stop=0"))
    )
    assert stopped == whole


def test_repeats_may_stop_in_different_rounds(tmp_path):
    words = f"{TWO} {STOP} topology.name=ring topology.agents=5 repeats=3"
    run = run_of(tmp_path / "run", words)
    ends = [mpinodes.load(run / f"repeat-{r}").sizes["round"] for r in range(3)]
    assert len(set(ends)) > 1
    assert mpinodes.load(run).sizes["repeat"] == 3


def test_a_stopped_run_can_be_replayed(tmp_path):
    words = f"{TWO} {STOP} topology.name=ring topology.agents=5 record.transcript=true"
    assert not replay(Recorded(run_of(tmp_path / "run", words)), 0, rounds=1, seed=0).exceeded


@pytest.mark.parametrize("rounds", [600, 61])
@pytest.mark.parametrize("length", [1, 2, 3, 7, 75])
def test_chunks_of_any_length_make_the_same_record(length, rounds, tmp_path, monkeypatch):
    """In lockstep; under MPI in tests/cli."""
    words = f"{TWO} {STOP} topology.name=ring topology.agents=5 rounds={rounds} record.decisions=true"
    width = setup_of(words).layout.width
    one = mpinodes.load(run_of(tmp_path / "one", words))
    monkeypatch.setattr("mpinodes.rounds.plan.CHUNK", 8 * width * length)
    other = mpinodes.load(run_of(tmp_path / "other", words))
    assert longest_chunk(setup_of(words)) == min(length, rounds // 8)
    for name in ("decision", "event_scale", "event_uses", "horizon", "round", "decision_last"):
        np.testing.assert_array_equal(one[name], other[name])
    np.testing.assert_allclose(one.loss, other.loss, rtol=1e-13)  # which is summed chunk by chunk


# ---------------------------------------------------------------------------------------------------------- bad input

BAD = [
    (f"{TWO} rounds=100", "set rounds above algorithm.gradient_rounds = 100"),
    (f"{TWO} algorithm.noise_shape=[1,2]", "noise_shape has 2 numbers: expected algorithm.gradient_rounds = 100"),
    (
        f"{TWO} {LOGISTIC} problem.regularizer=0 privacy.clip=1",
        "strongly convex losses: set problem.regularizer",
    ),
    (
        f"{TWO} topology.name=erdos-renyi-each-round algorithm.stop=0.1",
        "algorithm.stop needs a fixed graph without faults, over which agents tell each other to stop",
    ),
    (f"{HUANG} algorithm.step_decay=0.95", "step_decay = 0.95 must be below algorithm.noise_decay = 0.95"),
]


@pytest.mark.parametrize(("words", "message"), BAD)
def test_what_cannot_be_run_is_refused_in_one_line(words, message, tmp_path):
    done = run_here("--lockstep", *words.split(), cwd=tmp_path)
    assert done.code == 2, done.err
    assert message in done.err
    assert done.err.strip().count("\n") == 0
    assert done.out == ""
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("value", ["0", "-1", "[1,0]", "[1,nan]", "[inf,1]", "many"])
def test_a_noise_shape_holds_positive_numbers(value):
    from mpinodes.core.errors import BadInput

    with pytest.raises(BadInput, match=r"^algorithm\.noise_shape"):
        setup_of(f"{TWO} algorithm.gradient_rounds=2 rounds=5 algorithm.noise_shape={value}")


def test_nothing_is_claimed_where_no_noise_is_drawn(tmp_path):
    lost = summary_of(run_of(tmp_path / "run", f"{SMALL} privacy.mechanism=none"))["privacy"]
    assert lost["noise"] is None
    assert (lost["network"]["claimed"], lost["network"]["proven"]) == (None, None)
