"""Runs with faults: the methods' equations with what was lost and late, in matrices, by an account of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from mpi4py import MPI

import mpinodes
from mpinodes.auditing import recorded_frames as frames
from mpinodes.auditing.adjacent_replay import replay
from mpinodes.auditing.transcripts import Recorded, Replayed
from mpinodes.bounds import bounds
from mpinodes.config import registry
from mpinodes.config.noise_key import fingerprint
from mpinodes.core import Setup
from mpinodes.core.errors import BadInput
from mpinodes.core.messages import HEADER
from mpinodes.privacy.views import relayed_from
from mpinodes.rounds.agent import run_agent
from mpinodes.rounds.lockstep import run_agents
from mpinodes.rounds.plan import Plan
from mpinodes.rounds.step import Arrivals, Step
from mpinodes.rounds.waiting import Waits
from mpinodes.runlog.checkpoints import Order, keepers_of
from tests.helpers import matrix_forms, reference
from tests.helpers.parts import decisions, rows_of, run_of, setup_of, told
from tests.helpers.records import same_bits, summary_of
from tests.helpers.running import run_mpi

FAULTS = "faults.loss=0.2 faults.delay=3 faults.churn=0.1 faults.absence=3 faults.stragglers=0.2 faults.lag=2"
MILD = ["faults.loss=0.3", "faults.delay=3", "faults.churn=0.3 faults.absence=2", "faults.stragglers=0.3", FAULTS]
SMALL = "data.name=unit-ball data.total=700 rounds=25 topology.agents=6"
DIGRAPHS = ["random-digraph", "random-digraph-each-round", "b-connected", "ring", "exponential"]
UNDIRECTED = ["ring", "erdos-renyi-each-round", "complete"]
FILES = Path(__file__).parents[1] / "helpers" / "user_files"


# ----------------------------------------------------------------------------------------- the pattern, drawn once more
def drawn(seed: int, part: int, t: int) -> np.random.Generator:
    key = np.random.SeedSequence((seed, 12, 0)).generate_state(2, np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, t, part]))


def pattern(setup: Setup) -> np.ndarray:
    """(rounds, n, n): by how many rounds what j says to i comes late, at [t, j, i]; −1: it does not."""
    e, n = setup.experiment, setup.topology.agents
    faults, standing = e.faults, drawn(e.seed, 0, 0)
    order, phase = standing.permutation(n), standing.integers(faults.absence, size=n)
    slow = order[: max(1, round(faults.stragglers * n))] if faults.stragglers else []
    found = np.full((e.rounds, n, n), -1)
    for t in range(1, e.rounds + 1):
        away = [drawn(e.seed, 3, (t + p) // faults.absence).random(n)[i] < faults.churn for i, p in enumerate(phase)]
        lost, late = drawn(e.seed, 1, t).random((n, n)), drawn(e.seed, 2, t).integers(0, faults.delay + 1, (n, n))
        for j, i in setup.topology.edges(t):
            if not (away[j] or away[i] or lost[j, i] < faults.loss):
                found[t - 1, j, i] = (late[j, i] if faults.delay else 0) + (faults.lag if j in slow else 0)
    return found


def augmented(late: np.ndarray, most: int) -> np.ndarray:
    """Push-sum's matrix of a round over agents and what is under way: (n (1 + most), n (1 + most)).

    Block r >= 1 of the state is what is heard r − 1 rounds from now.
    """
    n = len(late)
    share = 1 / ((late >= 0).sum(axis=1) + 1)
    matrix = np.zeros((n * (1 + most),) * 2)
    for r in range(most + 1):
        matrix[r * n : (r + 1) * n, :n] = share * (r == late.T)
        if r < most:
            matrix[r * n : (r + 1) * n, (r + 1) * n : (r + 2) * n] = np.eye(n)
    matrix[:n, :n] += np.diag(share)
    return matrix


def push_sum(setup: Setup) -> np.ndarray:
    """DPPS without noise: its decisions (rounds, n, d)."""
    n, d, most = setup.topology.agents, setup.dimension, setup.experiment.faults.most_late
    gradients, alpha = matrix_forms.gradients(setup, 0.0), matrix_forms.step(setup)
    project = reference.ball(setup.experiment.problem.radius)
    z, w = np.zeros((n * (1 + most), d)), np.zeros(n * (1 + most))
    x, w[:n], found = np.zeros((n, d)), 1.0, []
    for t, late in enumerate(pattern(setup), 1):
        found.append(x)
        a = augmented(late, most)
        np.testing.assert_allclose(a.sum(axis=0), 1.0, rtol=1e-14)
        z, w = a @ z, a @ w
        z[:n] += gradients(t, x)
        x = np.array([project(-alpha(t) * z[i] / w[i]) for i in range(n)])
    return np.array(found)


def weights(setup: Setup, degrees: np.ndarray, heard: list[tuple[int, int]]) -> list[float]:
    """Of the others that an agent hears."""
    k, kind = len(heard), setup.experiment.algorithm["mixing"]
    said = [degrees[s - 1, j] for j, s in heard]
    if kind == "metropolis":
        return [1 / (1 + max(k, d)) for d in said]
    if kind == "lazy-metropolis":
        return [1 / (2 * max(k, d)) for d in said]
    n, drawn_anew = setup.topology.agents, "each-round" in setup.experiment.topology["name"]
    largest = n if drawn_anew else reference.laplacian_max(n, setup.topology.edges(1))
    return [2 / (3 * largest)] * k


def by_rows(setup: Setup) -> np.ndarray:
    """DOLA without noise."""
    n, d, late = setup.topology.agents, setup.dimension, pattern(setup)
    gradients = matrix_forms.gradients(setup, setup.experiment.problem.regularizer)
    alpha, project = matrix_forms.step(setup), reference.ball(setup.experiment.problem.radius)
    degrees, x = (late >= 0).sum(axis=2), [np.zeros((n, d))]
    for t in range(1, setup.experiment.rounds):
        b = np.zeros((n, d))
        for i in range(n):
            newest = {}
            for s in range(1, t + 1):
                newest |= {j: s for j in range(n) if s + late[s - 1, j, i] == t and late[s - 1, j, i] >= 0}
            heard = sorted(newest.items())
            row = weights(setup, degrees, heard)
            assert sum(row) <= 1 + 1e-15
            b[i] = (1 - sum(row)) * x[-1][i] + sum(a * x[s - 1][j] for a, (j, s) in zip(row, heard, strict=True))
        x.append(np.array([project(row) for row in b - alpha(t) * gradients(t, b)]))
    return np.array(x)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("faults", MILD)
def test_push_sum_is_that_of_a_graph_with_those_under_way_for_nodes(seed, faults):
    graph = DIGRAPHS[(MILD.index(faults) + seed) % len(DIGRAPHS)]
    setup = setup_of(f"algorithm.name=dpps {SMALL} privacy.epsilon=inf topology.name={graph} seed={seed} {faults}")
    np.testing.assert_allclose(decisions(setup), push_sum(setup), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("mixing", ["metropolis", "lazy-metropolis", "laplacian"])
@pytest.mark.parametrize("faults", MILD)
def test_rows_are_made_of_the_newest_that_is_heard(mixing, faults):
    graph = UNDIRECTED[MILD.index(faults) % len(UNDIRECTED)]
    words = f"algorithm.name=dola algorithm.mixing={mixing} {SMALL} privacy.epsilon=inf topology.name={graph} {faults}"
    setup = setup_of(words)
    np.testing.assert_allclose(decisions(setup), by_rows(setup), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("algorithm", ["dpps", "dpsda-ps data.partition=shared"])
def test_push_sum_keeps_its_mass_in_every_round_noise_or_not(algorithm, seed):
    """With what is under way, Σ w = n to rounding."""
    faults, graph = MILD[seed % len(MILD)], DIGRAPHS[seed % len(DIGRAPHS)]
    words = f"algorithm.name={algorithm} {SMALL} topology.name={graph} seed={seed} {faults} record.transcript=true"
    setup = setup_of(words)
    late, said = pattern(setup), told(setup)["said"]
    n, rounds = setup.topology.agents, setup.experiment.rounds
    sent = said[:, :, 0] * said[:, :, 1]  # share times w: what goes to each that it reaches
    for t in range(1, rounds + 1):
        under_way = sum(
            float((sent[s - 1][:, None] * ((late[s - 1] >= 0) & (s + late[s - 1] >= t))).sum()) for s in range(1, t)
        )
        assert said[t - 1, :, 1].sum() + under_way == pytest.approx(n, abs=1e-12)
        assert (said[t - 1, :, 1] > 0).all()


@pytest.mark.parametrize("name", registry.names(registry.MIXINGS))
def test_weights_keep_what_they_say_they_keep(name):
    """Those that say nothing are refused (below)."""
    part = registry.find(registry.MIXINGS, name)
    if not part.under_faults:
        return
    algorithm = {"push-sum": "dpps", "uniform": "dpsda-c", "laplacian": "dola"}.get(name, "dola")
    setup = setup_of(f"algorithm.name={algorithm} algorithm.mixing={name} {SMALL} topology.name=ring {FAULTS}")
    links, mixing, n = setup.links, setup.mixing, setup.topology.agents
    said, states = {}, [mixing.init(i) for i in range(n)]
    for t in range(1, 26):
        places = [links.neighborhood(t, i) for i in range(n)]
        said |= {(i, t): np.array(mixing.outgoing(s, places[i]), float) for i, s in enumerate(states)}
        after = []
        for i, place in enumerate(places):
            state, row, scale = mixing.weights(states[i], place, [said[each] for each in links.heard(t, i)])
            after.append(state)
            assert min(row) >= 0
            assert scale > 0
            if name != "push-sum":
                assert (sum(row), scale) == (pytest.approx(1.0, abs=1e-15), 1.0)
        states = after


# ---------------------------------------------------------------------------------------------------- who bears what
ALONE = {"loss": 0.2, "delay": 2, "churn": 0.1, "stragglers": 0.3}


def test_what_is_not_said_to_bear_faults_is_refused_before_the_first_round():
    borne = set()
    for name in registry.names(registry.ALGORITHMS):
        part = registry.find(registry.ALGORITHMS, name)
        for key, value in {"loss": 0.2, "stragglers": 0.3}.items() if part.bears_loss else ALONE.items():
            words = f"algorithm.name={name} faults.{key}={value}"
            if part.bears_loss:
                borne.add(name)
                assert setup_of(words).links
                continue
            with pytest.raises(BadInput, match=rf"^faults\.{key} = {value}: .*{name} cannot handle .*dola"):
                setup_of(words)
    assert borne == {"dola", "dola-minibatch", "dp-dsgd", "dpps", "dpsda-c", "dpsda-ps", "gossip-averaging", "huang-dp"}


def test_a_users_own_algorithm_says_what_it_bears(tmp_path):
    words = f"topology.name=ring topology.agents=4 data.total=400 rounds=6 {FAULTS}"
    with pytest.raises(BadInput, match=r"^faults\.loss = 0\.2: extra cannot handle"):
        setup_of(f"algorithm.path={FILES / 'extra.py'} {words}")
    own = tmp_path / "extra.py"
    text = (FILES / "extra.py").read_text()
    own.write_text(text.replace("    mixings =", "    bears_loss = True\n    bears_delay = True\n    mixings =", 1))
    assert np.isfinite(rows_of(setup_of(f"algorithm.path={own} {words}"))[:, :, :10]).all()


def test_weights_that_say_nothing_of_faults_are_refused(tmp_path):
    own = tmp_path / "mine.py"
    own.write_text(
        "from dataclasses import dataclass\n"
        "from mpinodes.algorithms.dola import DOLA\nfrom mpinodes.mixing.neighbors import Neighbors\n"
        "__all__ = ['Mine']\n"
        "@dataclass(frozen=True)\nclass Mine(DOLA):\n    '''.'''\n    mixings = (Neighbors,)\n"
    )
    with pytest.raises(BadInput, match=r"the .* weights of .* cannot handle"):
        setup_of(f"algorithm.path={own} topology.name=ring faults.delay=2")


@pytest.mark.parametrize(
    "words", ["faults.loss=1", "faults.loss=-0.1", "faults.delay=1.5", "faults.churn=1", "faults.los=0.1", "faults=3"]
)
def test_faults_that_cannot_be_are_refused(words):
    with pytest.raises(BadInput, match=r"faults"):
        setup_of(f"algorithm.name=dpps {words}")


def test_faults_change_the_noise_and_none_at_all_leaves_it(tmp_path):
    plain, none, some = (setup_of(f"algorithm.name=dpps {f}") for f in ("", "faults.absence=3", "faults.loss=0.1"))
    assert fingerprint(plain) == fingerprint(none) != fingerprint(some)
    assert none.links is None


# ------------------------------------------------------------------------------------------------------- all the rest
@pytest.mark.parametrize("algorithm", ["dpps", "dola", "dpsda-c"])
def test_what_was_said_is_replayed_and_proven_as_without_faults(algorithm, tmp_path):
    graph = "random-digraph" if algorithm == "dpps" else "ring"
    data = "" if algorithm == "dpsda-c" else "data.total=200"
    words = (
        f"algorithm.name={algorithm} {data} rounds=12 topology.name={graph} topology.agents=4 record.transcript=true"
    )
    run = Recorded(run_of(tmp_path / "run", f"{words} {FAULTS}"))
    agents = [Replayed(run, i) for i in range(4)]
    assert frames.compare(run, agents)[1] == []
    found = replay(run, 1, 3, 0)
    assert not found.exceeded
    # A lost message was sent, and one that is late too: all of them count. What dpps hides depends on its scale.
    plain = run_of(tmp_path / "plain", words)
    faulty, without = (summary_of(place)["privacy"]["network"] for place in (tmp_path / "run", plain))
    assert faulty["rule"] == without["rule"]
    assert algorithm == "dpps" or faulty == without


def test_a_record_with_other_faults_is_not_replayed(tmp_path):
    words = f"algorithm.name=dpps data.total=100 rounds=6 topology.agents=4 record.transcript=true {FAULTS}"
    place = run_of(tmp_path / "run", words)
    toml = place / "experiment.toml"
    toml.write_text(toml.read_text().replace("delay = 3", "delay = 2"))
    with pytest.raises(BadInput, match=r"faults .* the record: round"):
        Recorded(place)


def test_the_record_says_what_came_when_and_the_summary_how_much(tmp_path, undrawn):
    words = (
        f"algorithm.name=dpps data.total=700 rounds=30 topology.agents=5 record.transcript=true report=true {FAULTS}"
    )
    place, setup = run_of(tmp_path / "run", words), setup_of(words)
    late, told_of = pattern(setup), summary_of(place)["faults"]
    record = mpinodes.load(place)
    np.testing.assert_array_equal(record.lateness.values, late)
    sent = record.receiver.values
    assert (told_of["sent"], told_of["lost"]) == (sent.sum(), ((late < 0) & (sent > 0)).sum())
    assert told_of["rounds_late"] == late[late > 0].sum()
    assert summary_of(place)["bytes_sent"] == 8 * setup.frame_width * sent.sum()
    page = (place / "report.html").read_text()
    share = told_of["lost"] / told_of["sent"]
    assert f"Faults: {share:.1%} of {told_of['sent']} messages lost" in page
    assert setup.mixing.under_faults in page


@pytest.mark.parametrize(
    ("faults", "why"), [("faults.loss=0.1", "lost"), ("faults.churn=0.1", "absent"), ("faults.delay=1", "late")]
)
@pytest.mark.parametrize("algorithm", ["dpsda-ps", "dpsda-c algorithm.mixing=metropolis", "dola", "dola-minibatch"])
def test_no_theorem_is_said_to_hold_under_faults(algorithm, faults, why):
    horizons, words = np.array([3]), f"algorithm.name={algorithm} rounds=3 topology.name=ring topology.agents=3"
    plain, setup = setup_of(words), setup_of(f"{words} {faults}")
    minimizer = np.zeros((1, setup.dimension))
    found, usual = (bounds(one, horizons, minimizer) for one in (setup, plain))
    assert found
    for bound, other in zip(found, usual, strict=True):
        assert (bound.applies, why in bound.why) == (False, True)
        np.testing.assert_array_equal(bound.values, other.values)


def test_a_nodes_view_of_relayed_messages_is_known_with_losses_and_not_with_delays():
    """Without noise, what is said from round 2 on is what the weights say: the product of the rounds' own."""
    from mpinodes.auditing.games import simulate as transcript
    from mpinodes.privacy.views import weights as mixed

    words = "algorithm.name=gossip-averaging topology.agents=5 rounds=9 record.transcript=true"
    run = transcript(setup_of(f"{words} faults.loss=0.3 faults.churn=0.2"))
    assert relayed_from(run.setup, run.events) == 2
    said = run.frames[:, :, HEADER : HEADER + run.setup.dimension]
    product = said[1]
    for t, w in enumerate(mixed(run.setup, 2, 9), 2):
        product = w @ product
        np.testing.assert_allclose(said[t], product, rtol=1e-12, atol=1e-12)
    late = transcript(setup_of(f"{words} faults.delay=2"))
    assert relayed_from(late.setup, late.events) is None


@pytest.mark.parametrize("faults", ["faults.loss=0.3", FAULTS])
def test_an_agent_of_the_network_holds_what_is_under_way_and_goes_on_from_it(faults, monkeypatch, tmp_path):
    """`run_agent`, its frames carried from a run in lockstep as they are sent: the rows are lockstep's.

    What it keeps after round 10 it goes on from, and so does lockstep, and it from what lockstep keeps.
    """
    setup = setup_of(f"algorithm.name=dpps {SMALL} record.transcript=true checkpoint.every=10 {faults}")
    n, late = setup.topology.agents, pattern(setup)
    places = [tmp_path / "network", tmp_path / "lockstep"]
    by_network, in_lockstep = (keepers_of(place, n, "run") for place in places)
    for place in places:
        place.mkdir()
    rows = np.concatenate([chunk.copy() for chunk, *_ in run_agents(setup, Plan(setup), in_lockstep)], axis=1)
    said = [dict(enumerate(setup.layout.open(rows[:, t])[2].copy())) for t in range(25)]

    class Carried:
        def __init__(self, agents, setup, frame, wait):
            self.frame = frame

        def exchange(self, place):
            assert place.in_neighbors == tuple(np.flatnonzero(late[place.t - 1, :, place.agent] >= 0).tolist())
            np.testing.assert_array_equal(self.frame, said[place.t - 1][place.agent])
            return Arrivals.of(setup, place.agent, place.senders, said[place.t - 1])

        def kept(self, arrivals):
            return arrivals.by_sender

        def close(self):
            pass

    class Rows:
        def __init__(self):
            self.rows = np.zeros((25, setup.layout.width))

        def row(self, t):
            return self.rows[t - 1]

        def done(self, t):
            return Order(t, keeps=t == 10)

        def close(self, t, times):
            pass

    monkeypatch.setattr("mpinodes.rounds.agent.Network", Carried)
    for i in range(n):
        rank = type("Rank", (), {"rank": i})
        for kept in (None, in_lockstep[i].load(10)):
            channel = Rows()
            run_agent(Step(setup, i), setup, rank, channel, Waits(MPI.COMM_SELF), by_network[i], kept)
            begin = 10 if kept else 0
            np.testing.assert_array_equal(channel.rows[begin:], rows[i, begin:])
            if not kept:
                stored = by_network[i].load(10)
        np.testing.assert_array_equal(stored["frames"][i], in_lockstep[i].load(10)["frames"][i])
    kept = [keeper.load(10) for keeper in in_lockstep]
    rest = np.concatenate([chunk.copy() for chunk, *_ in run_agents(setup, Plan(setup, 10), [], kept)], axis=1)
    np.testing.assert_array_equal(rest, rows[:, 10:])


def test_mpi_and_lockstep_agree_bit_for_bit_under_faults(tmp_path):
    words = (
        f"algorithm.name=dpps data.total=900 rounds=60 topology.name=random-digraph topology.agents=4 report=false "
        f"record.decisions=true record.transcript=true {FAULTS}"
    )
    one = run_of(tmp_path / "one", words)
    done = run_mpi(5, *words.split(), "output.dir=mpi", cwd=tmp_path)
    assert done.code == 0, done.err
    assert same_bits(one, tmp_path / "mpi") == []
    assert "faults: " in done.out
