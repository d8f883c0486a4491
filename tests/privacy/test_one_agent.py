"""Adjacency one-agent: all samples of one agent replaced, in every algorithm whose agents have losses of their own."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from mpinodes.algorithms.dola import DOLA
from mpinodes.auditing.adjacent_replay import SLACK, claimed, replay
from mpinodes.auditing.changes import ALL, Change, changed
from mpinodes.auditing.games import canary, pairs, prepare, simulate
from mpinodes.auditing.small_experiments import probes
from mpinodes.auditing.transcripts import Recorded, Replayed
from mpinodes.auditing.verdicts import of_probe
from mpinodes.config import registry
from mpinodes.core import Inbox, Query, Solve
from mpinodes.core.errors import BadInput
from mpinodes.presentation.privacy_words import lines
from mpinodes.privacy.accountant import Accountant
from mpinodes.rounds.step import Releaser
from tests.algorithms.test_user_files import ALL as USER_FILES
from tests.helpers.parts import run_of, setup_of
from tests.helpers.records import privacy_of, summary_of
from tests.helpers.running import run_here, run_mpi

NAMES = registry.names(registry.ALGORITHMS)
SHARED = ("dpcda", "dpsda-c", "dpsda-ps")
UNNOISED = ("admm", "m-admm")
OWN = [name for name in NAMES if name not in SHARED]
COLLUDING = [
    "dola", "dola-minibatch", "dp-dsgd", "dvp-admm", "gossip-averaging", "huang-dp", "pp-admm", "two-stage-gaussian",
    "weight-balancing",
]  # fmt: skip
ONE_AGENT = {"privacy": {"adjacency": "one-agent"}}
ALPHA, ROUNDS, AGENTS = 0.002, 12, 3


def small(name: str, **privacy) -> dict:
    """A short run of an algorithm on samples in the unit ball, batches of 2 or all of 8."""
    algorithm = registry.find(registry.ALGORITHMS, name)
    asked: dict = {
        "algorithm": {"name": name} | ({"gradient_rounds": 7} if name == "two-stage-gaussian" else {}),
        "rounds": ROUNDS,
        "comparator": False,
        "record": {"transcript": True},
        "topology": {"agents": AGENTS},
        "data": {"name": "unit-ball", "dimension": 3, "total": 8 * AGENTS if algorithm.whole_data else 300},
        "privacy": {"adjacency": "one-agent", "clip": 0.5},
        "problem": {"loss": "logistic", "regularizer": 0.3},
    }
    if algorithm.solves:
        asked |= {"problem": {"weight": 6.0}, "privacy": {"adjacency": "one-agent"}}
    elif not algorithm.whole_data:
        asked["data"]["batch"] = 2
    return asked | {"privacy": asked["privacy"] | privacy}


def probe_of(tmp_path, name: str, what: str | None = None, number: int = 20):
    """An algorithm's probe, all samples of an agent being its canary: the log-likelihood ratios, and the verdicts."""
    found = probes({"name": name}, 0, tmp_path, "one-agent")
    ready = prepare(found[0] if what is None else next(p for p in found if p.what == what), tmp_path / "probe")
    target = canary(ready, 0)
    assert target.change.sample == ALL
    assert target.change.round == 1
    ratios = pairs(ready.run.setup, target, range(number), 0)
    return ready, ratios, of_probe(ready, target, ratios, ALPHA, 0)


def accounted_by_sample(ready) -> float:
    """Pure ε of the probe's events if one sample were all that differs."""
    accountant = Accountant(ready.run.events, ready.run.setup.stream.groups, shared=False)
    return accountant.losses(np.array([ready.run.setup.experiment.rounds]), 1e-5, None).network[0].pure


@pytest.mark.parametrize("name", SHARED)
def test_it_is_refused_where_all_agents_see_the_same_samples(name):
    with pytest.raises(BadInput, match=r"privacy\.adjacency = 'one-agent': .*data\.partition = 'shared'"):
        setup_of({"algorithm": {"name": name}} | ONE_AGENT)
    with pytest.raises(BadInput, match="the same samples"):
        setup_of({"algorithm": {"name": "dola"}, "data": {"partition": "shared"}} | ONE_AGENT)


@pytest.mark.parametrize("name", OWN)
def test_no_message_moves_further_than_accounted_for(tmp_path, name):
    run = Recorded(run_of(tmp_path / "run", small(name)))
    findings = [replay(run, agent, rounds=3, seed=1) for agent in (0, AGENTS - 1)]
    assert not any(f.exceeded for f in findings)
    assert max(f.direct for f in findings) > 0.2  # the claim is not vacuous
    told = summary_of(tmp_path / "run")["privacy"]
    assert (told["adjacency"], told["samples"]) == ("one-agent", AGENTS)
    claims = [loss["claimed"] for loss in [told["network"], *told["agents"]]]
    assert claims == [1.0 if name == "weight-balancing" else None] * (AGENTS + 1)


@pytest.mark.parametrize("name", OWN)
def test_no_lower_bound_exceeds_what_is_proven(tmp_path, name):
    ready, ratios, rows = probe_of(tmp_path, name)
    assert not any(row.refuted for row in rows)
    assert (rows[0].shown == "inf") == (name in UNNOISED)
    if rows[0].pure is not None:
        assert 0 < np.abs(ratios).max() <= rows[0].pure * SLACK
    if name in ("dola", "dpps", "weight-balancing"):  # losses that one sample's accounting has no room for
        assert np.abs(ratios).max() > accounted_by_sample(ready) * 1.2


@pytest.mark.parametrize(
    ("name", "what"), [("dola", None), ("weight-balancing", "both mended"), ("dola-minibatch", "φ times public b")]
)
def test_an_agent_shows_more_than_one_of_its_samples_may(tmp_path, name, what):
    """What one sample costs is below what is shown of all: the accounting of one sample would be refuted."""
    ready, _, (row,) = probe_of(tmp_path, name, what, 250)
    assert float(row.shown) > 1.1 > 1.0 == pytest.approx(accounted_by_sample(ready))
    assert row.pure == pytest.approx(ready.run.setup.experiment.rounds - 1)  # ε for each message that carries data
    assert not row.refuted
    if name == "weight-balancing":  # whose Definition 1 this is
        assert row.claimed == 1
        assert row.verdict.startswith("refutes the paper's claim")


@pytest.mark.parametrize("name", ["dola", "huang-dp", "pvp-admm", "two-stage-gaussian", "weight-balancing"])
def test_one_samples_sensitivity_is_exceeded_by_all_of_an_agents(name):
    """Replay fails where messages state what one sample does."""
    one = setup_of(small(name, adjacency="one-sample"))
    run = simulate(one)
    run.setup = replace(one, experiment=setup_of(small(name)).experiment)  # of which only the adjacency counts
    over = [replay(run, agent, rounds=2, seed=1) for agent in (0, AGENTS - 1)]
    assert max(f.direct for f in over) > 1.2


@pytest.mark.parametrize("average", [True, False])
def test_gradients_move_by_what_all_samples_of_a_batch_move_them(average):
    asked = {"algorithm": {"name": "dola"}, "data": {"batch": 4, "total": 100}, "problem": {"average": average}}
    one, of_agent = setup_of(asked), setup_of(asked | ONE_AGENT)
    assert one.run.grad_sensitivity[0] == (0.5 if average else 2.0)
    assert of_agent.run.grad_sensitivity[0] == (2.0 if average else 8.0)
    rng, d = np.random.default_rng(0), of_agent.dimension
    turned = Change(1, ALL, np.zeros(d), np.nan)
    own = of_agent.losses(0)
    other = changed(own, of_agent.stream.samples(0), turned)
    moved = [np.linalg.norm(own(t).grad(x) - other(t).grad(x)) for t in range(1, 20) for x in rng.normal(size=(9, d))]
    assert 0 < max(moved) <= of_agent.run.grad_sensitivity[0]
    far = own(1)
    ones = [replace(far, features=np.eye(d)[[0] * 4], targets=np.full(4, sign)) for sign in (1.0, -1.0)]
    x = np.zeros(d)
    assert np.linalg.norm(ones[0].grad(x) - ones[1].grad(x)) == pytest.approx(of_agent.run.grad_sensitivity[0])


# ------------------------------------------------------------------------------ one round of the proof, all of the data
EPSILON, ALPHAS = 1.0, [1 / (t + 1) for t in range(1, 6)]


def means(targets, heard, hidden: bool) -> np.ndarray:
    """x of messages 2, ... of an agent with d = 1, loss ½(x − b)² clipped to 1, given the z that it heard: (8)."""
    x, found = 0.0, []
    for alpha, target, z in zip(ALPHAS, targets, heard, strict=True):
        x = z - alpha * float(np.clip((x if hidden else z) - target, -1, 1))
        found.append(x)
    return np.array(found)


@pytest.mark.parametrize("hidden", [False, True])
def test_weight_balancing_by_brute_force(tmp_path, hidden):
    """All pairs of data sets of an agent, by its paper's proof (one round differs) and by Definition 1 (all may)."""
    scales = 2 * np.array(ALPHAS) / EPSILON  # corrected: of the step that made the message
    rng, most = np.random.default_rng(0), {"one round": 0.0, "all": 0.0}
    for _ in range(20):
        heard = rng.normal(size=5) * rng.choice([0.3, 3.0])
        worlds = list(itertools.product((-50.0, 0.0, 50.0), repeat=5))
        said = np.array([means(world, heard, hidden) for world in worlds])
        apart = (np.abs(said[:, None] - said[None]) / scales).sum(axis=2)  # the largest log-likelihood ratio
        differ = (np.array(worlds)[:, None] != np.array(worlds)[None]).sum(axis=2)
        most["one round"] = max(most["one round"], apart[differ == 1].max())
        most["all"] = max(most["all"], apart.max())
    proven = {}
    points = np.ones((6 * AGENTS, 1)), np.zeros(6 * AGENTS)
    np.savez(tmp_path / "points.npz", features=points[0], targets=points[1])
    for adjacency in ("one-round", "one-agent"):
        asked = {
            "algorithm": {"name": "weight-balancing", "noise_index": "corrected"}
            | {"gradient_at": "hidden" if hidden else "public"},
            "data": {"file": str(tmp_path / "points.npz"), "columns": 1, "targets": "real", "bound": 1.0},
            "problem": {"loss": "least-squares", "set": "none", "regularizer": 0.0, "gradient_noise": 0.0},
            "step": {"kind": "strongly-convex", "modulus": 1.0, "offset": 1.0},
            "topology": {"name": "complete", "agents": AGENTS}, "rounds": 6,
            "privacy": {"epsilon": EPSILON, "clip": 1.0, "adjacency": adjacency},
        }  # fmt: skip
        name = adjacency.replace("-", "_")
        proven[adjacency] = summary_of(run_of(tmp_path / name, asked))["privacy"]["network"]["proven_pure"]
    assert most["one round"] <= proven["one-round"] * SLACK
    assert most["all"] <= proven["one-agent"] * SLACK
    assert most["all"] == pytest.approx(5.0)  # five times what Theorem 1 claims
    if not hidden:
        assert most["one round"] == pytest.approx(proven["one-round"]) == pytest.approx(1.0)
        assert proven["one-agent"] == pytest.approx(5.0)


# ----------------------------------------------------------------------------------------------------- minimizations
def log_volume(loss, step: float, x) -> float:
    return float(np.linalg.slogdet(np.eye(len(x)) + step * loss.hessian(x))[1])


@pytest.mark.parametrize(("d", "batch"), [(1, 1), (1, 4), (2, 3), (3, 3), (3, 6), (4, 2)])
def test_a_minimizers_density_moves_by_what_its_proof_says(d, batch):
    asked = small("pp-admm")
    asked["data"] |= {"dimension": d, "total": batch * AGENTS}
    setup = setup_of(merge_problem(asked, weight=min(1.0, batch / 2)))
    rng, algorithm = np.random.default_rng(0), setup.algorithm
    state = algorithm.init(np.zeros(d))
    ask = algorithm.problem(state, 0, 1)
    make = setup.stream.make_loss

    def data(kind: int):
        features = rng.normal(size=(batch, d))
        features /= np.linalg.norm(features, axis=1)[:, None]
        if kind == 1:
            features = np.eye(d)[np.arange(batch) % d]
        return make(features * (rng.random((batch, 1)) if kind == 2 else 1.0), rng.choice([-1.0, 1.0], batch))

    nothing = make(np.zeros((batch, d)), np.ones(batch))
    worst = {"gradient": 0.0, "volume": 0.0}
    for trial in range(1500):
        one, two = data(trial % 3), nothing if trial % 2 else data(int(rng.integers(3)))
        x = rng.normal(size=d) * rng.choice([0.0, 0.3, 3.0, 100.0])
        worst["volume"] = max(worst["volume"], abs(log_volume(one, ask.step, x) - log_volume(two, ask.step, x)))
        worst["gradient"] = max(worst["gradient"], ask.step * float(np.linalg.norm(one.grad(x) - two.grad(x))))
    assert worst["volume"] <= ask.log_volume * SLACK
    assert worst["gradient"] <= ask.l2 * SLACK
    if batch % d == 0 or batch < d:
        assert worst["volume"] == pytest.approx(ask.log_volume)  # orthogonal samples against none: the proof is tight
    one_sample = setup_of(merge_problem(asked, weight=min(1.0, batch / 2)) | {"privacy": {}}).algorithm
    of_one = one_sample.problem(state, 0, 1)
    assert (worst["volume"] > of_one.log_volume * SLACK) == (batch > 1)


def merge_problem(asked: dict, **problem) -> dict:
    return asked | {"problem": asked["problem"] | problem}


def test_a_minimizer_costs_what_all_samples_of_an_agent_move():
    """The events of one release: rate times shift and the Jacobian, both of all samples."""
    one, of_agent = (setup_of(small("pp-admm", adjacency=a)) for a in ("one-sample", "one-agent"))
    ask, asks = (s.algorithm.problem(s.algorithm.init(np.zeros(3)), 0, 1) for s in (one, of_agent))
    assert asks.l2 == pytest.approx(8 * ask.l2)
    assert 8 * ask.log_volume > asks.log_volume > 3 * ask.log_volume  # of rank 3 only, though of 8 samples


def test_densities_of_real_releases_stay_within_their_price():
    """From below, at releases that were: the log density on any other data against what was accounted for."""
    run = simulate(setup_of(small("pp-admm")))
    rng = np.random.default_rng(3)
    for agent in range(AGENTS):
        replayed = Replayed(run, agent)
        for _ in range(60):
            feature = rng.normal(size=3)
            change = Change(1, ALL, feature / max(1.0, np.linalg.norm(feature)), float(rng.choice([-1.0, 1.0])))
            moved, differing = replayed.moved(change, ROUNDS)
            assert not differing
            assert (moved[:, :, 1] <= run.events.l2[:, agent] * SLACK).all()


# ------------------------------------------------------------------------------------------- budget, words, a coalition
def test_a_budget_is_kept_of_an_agent_too(tmp_path):
    asked = small("dola") | {"privacy": small("dola")["privacy"] | {"budget": {"epsilon": 2.0}}}
    told = summary_of(run_of(tmp_path / "run", asked))["privacy"]
    assert 1.9 < told["network"]["proven"] <= 2.0
    asked["privacy"]["budget"] |= {"kept_by": "stopping"}
    told = summary_of(run_of(tmp_path / "stopping", asked))["privacy"]
    assert told["network"]["proven"] <= 2.0
    assert told["budget"]["stops"] == [3] * AGENTS  # two messages at ε = 1


def test_repeats_and_words_say_what_differs(tmp_path):
    run = run_of(
        tmp_path / "run", small("dola", delta=0.05) | {"repeats": 2, "data": small("dola")["data"] | {"seed": 1}}
    )
    told = summary_of(run)["privacy"]
    assert (told["adjacency"], told["samples"], told["against_colluders"]) == ("one-agent", AGENTS, True)
    words = " ".join(" ".join(lines(privacy_of(told), None)).split())
    assert "adjacent data differ in all samples of one agent" in words
    assert f"not well below 1/{AGENTS}, one over the number of agents" in words
    assert "against all other agents together" in words


@pytest.mark.parametrize("name", NAMES)
def test_who_colludes_is_only_said_to_learn_no_more_where_it_is_so(name):
    assert vars(registry.find(registry.ALGORITHMS, name)).get("against_colluders", False) == (name in COLLUDING)


def test_a_class_that_extends_another_says_it_anew(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\nfrom mpinodes.algorithms.dola import DOLA\n__all__ = ['Mine']\n\n"
        "@dataclass(frozen=True)\nclass Mine(DOLA):\n    pass\n"
    )
    assert DOLA.against_colluders
    asked = small("dola") | {"algorithm": {"path": str(tmp_path / "mine.py")}}
    assert not summary_of(run_of(tmp_path / "run", asked))["privacy"]["against_colluders"]


def heard_from_liars(setup, place, rng) -> Inbox:
    """Anything, with any weights and any scale."""
    said = [rng.normal(size=setup.dimension) * rng.choice([0.1, 3.0, 300.0]) for _ in place.senders]
    return Inbox(said, rng.normal(size=len(said)), float(rng.uniform(0.01, 3)), said[place.senders.index(0)])


def against_liars(setup, seed: int):
    """Messages of agent 0 on its own and on other data, given an inbox of lies: the facts stated, changes, bounds."""
    rng, d = np.random.default_rng(seed), setup.dimension
    own, layout = setup.losses(0), setup.layout
    turned = changed(own, setup.stream.samples(0), Change(1, ALL, np.zeros(d), np.nan))
    releaser, out, rows = Releaser(setup, 0, own), np.empty(d), np.zeros((ROUNDS, layout.width))
    start = releaser.start
    state, other = setup.algorithm.init(start), setup.algorithm.init(start)
    facts, moved, heard = [], [], None
    for t in range(1, ROUNDS + 1):
        place = setup.topology.neighborhood(t, 0)
        one, two = setup.algorithm.message(state, place), setup.algorithm.message(other, place)
        stated, again = (Replayed._public(SimpleNamespace(_setup=setup, _vectors=1), said) for said in (one, two))
        assert stated == again
        facts.append(stated[1:2] + stated[3:] if isinstance(one, Solve) else stated)  # center and near were heard
        moved.append(float(np.linalg.norm(one.value - two.value)) if isinstance(one, Query) else 0.0)
        layout.write(rows[t - 1], *releaser.release(one, t, heard, out))
        heard = heard_from_liars(setup, place, rng)
        state, other = (setup.algorithm.update(s, place, heard, loss(t)) for s, loss in ((state, own), (other, turned)))
    events = layout.open(rows)[1]
    return facts, np.array(moved), claimed(events, events.uses > 0)[:, 0]


def test_a_noised_gradient_rests_on_nobodys_honesty():
    """Wherever liars move the point of a gradient, its event is the same, and other data move it by no more."""
    setup = setup_of(small("dp-dsgd"))
    own = setup.losses(0)
    turned = changed(own, setup.stream.samples(0), Change(1, ALL, np.zeros(setup.dimension), np.nan))
    releaser, rng, events, moved = Releaser(setup, 0, own), np.random.default_rng(0), set(), []
    for _ in range(20):
        x = rng.choice([0.1, 1.0, 100.0]) * rng.standard_normal(setup.dimension)
        (query, event, _), (other, again, _) = (releaser.gradient(loss(3), x, 3, 0) for loss in (own, turned))
        events |= {event, again}
        moved.append(float(np.linalg.norm(query.value - other.value)) / event.l2)
    assert len(events) == 1
    assert 0.1 < max(moved) <= 1 + 1e-9


@pytest.mark.parametrize("name", [*(name for name in COLLUDING if name != "dp-dsgd"), "dpps", "dpsr"])
def test_what_is_stated_rests_on_nobodys_honesty_where_that_is_said(name):
    setup = setup_of(small(name))
    (facts, *_), (again, *_) = (against_liars(setup, seed) for seed in (0, 1))
    assert (facts == again) == (name in COLLUDING)
    for seed in range(6):
        _, moved, bound = against_liars(setup, seed)
        assert (moved <= bound * SLACK + 1e-9).all()


# --------------------------------------------------------------------------------------------------------- as users do
@pytest.mark.parametrize("file", USER_FILES, ids=lambda file: file.stem)
def test_a_users_own_algorithm_states_nothing_for_it(tmp_path, file):
    asked = {
        "algorithm": {"path": str(file)}, "topology": {"agents": 4}, "record": {"transcript": True},
        "data": {"total": 400, "batch": 3}, "rounds": ROUNDS, "problem": {"average": True},
        "privacy": {"adjacency": "one-agent"},
    }  # fmt: skip
    run = run_of(tmp_path / "run", asked)
    told = summary_of(run)["privacy"]
    assert not any(replay(Recorded(run), agent, rounds=5, seed=0).exceeded for agent in (0, 3))
    one = summary_of(run_of(tmp_path / "one", asked | {"privacy": {}}))["privacy"]
    assert told["network"]["proven"] > 2 * one["network"]["proven"]
    assert told["network"]["claimed"] is None
    assert not told["against_colluders"]


def test_over_mpi_it_is_accounted_for_and_replayed(tmp_path):
    words = [
        "algorithm.name=weight-balancing", "algorithm.gradient_at=public", "algorithm.noise_index=corrected",
        "data.total=120", "rounds=10", "privacy.adjacency=one-agent", "record.transcript=true", "report=false",
    ]  # fmt: skip
    done = run_mpi(4, *words, f"output.dir={tmp_path / 'run'}", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "adjacent data differ in all samples of one agent" in " ".join(done.out.split())
    told = summary_of(tmp_path / "run")["privacy"]["network"]
    assert (told["claimed"], told["proven_pure"]) == (1.0, pytest.approx(9.0))
    assert run_here(str(tmp_path / "run"), cwd=tmp_path, module="mpinodes.replay").code == 0
    words = ["algorithm.name=dpsda-ps", "topology.name=ring", "privacy.adjacency=one-agent", "rounds=5"]
    refused = run_here("--lockstep", *words, cwd=tmp_path)
    assert refused.code == 2
    assert "the same samples" in refused.err
