"""Audits from what a node receives: below what is proven, close to it by the best test, and nothing from nowhere."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from mpinodes.auditing import games
from mpinodes.auditing.changes import Change
from mpinodes.auditing.games import Canary, sights
from mpinodes.auditing.node_views import best_test, learn, proven_toward, received
from mpinodes.auditing.statistics import told_apart
from mpinodes.auditing.transcripts import Recorded, reseeded
from mpinodes.config.compose import compose
from mpinodes.core.errors import BadInput
from mpinodes.mechanisms import backends
from mpinodes.privacy.curves import gdp_epsilon
from mpinodes.privacy.views import epsilons, views
from tests.helpers.parts import run_of
from tests.helpers.running import command, mpirun

ALPHA = 1e-3
NUMBER = 150  # pairs of runs


def edge(tmp_path: Path, agents: int, asked: str, viewers: str, **sections) -> dict:
    """One sample for each agent, at the edge of the domain: put at the other, it moves by all that it may."""
    file = tmp_path / "edge.npz"
    np.savez(file, features=np.ones((agents, 1)), targets=np.zeros(agents))
    kind, rounds, epsilon = asked.split()
    return {
        "algorithm": {"name": "gossip-averaging"},
        "data": {"file": str(file), "columns": 1, "targets": "real", "batch": "all", "bound": 1.0},
        "problem": {"loss": "squared-distance", "set": "none", "average": True},
        "privacy": {"epsilon": float(epsilon), "delta": 1e-3},
        "topology": {"name": kind, "agents": agents}, "noise": {"key": "wherever the points lie"},
        "rounds": int(rounds), "audit": {"view": viewers}, "record": {"transcript": True}, "report": False,
    } | sections  # fmt: skip


def two_stage(asked: dict) -> dict:
    """The same by the two-stage method, of two gradient steps of which the second costs most."""
    return asked | {
        "algorithm": {
            "name": "two-stage-gaussian",
            "gradient_rounds": 2,
            "noise_scale": 1.0,
            "noise_shape": [3.0, 0.7],
        },
        "problem": {"loss": "squared-distance", "set": "none", "average": True, "regularizer": 0.0},
    }


def turned(setup, victim: int) -> Canary:
    """The victim's one sample, at the other edge."""
    return Canary((victim,), Change(1, setup.stream.samples(victim)(1)[0], np.array([-1.0]), 0.0), 1.0)


class Game:
    """Runs on the own data, and the same with a victim's turned, each from noise of its own."""

    def __init__(self, setup, number: int) -> None:
        self.setup, self._number = setup, number
        self._own = self._frames(games._worlds(setup, turned(setup, 1))[0], 10**6)

    def _frames(self, world, first: int) -> list[np.ndarray]:
        return [games.simulate(games._in_world(self.setup, world, first + k)).frames for k in range(self._number)]

    def against(self, victim: int) -> tuple[np.ndarray, float]:
        """A statistic of what the viewers receive, of pairs of runs, and the lower bound on ε."""
        target = turned(self.setup, victim)
        (sight,) = sights(self.setup, [target], range(60))
        others = self._frames(games._worlds(self.setup, target)[1], 10**6 * (victim + 2))
        ratios = np.array([[sight(one), sight(other)] for one, other in zip(self._own, others, strict=True)])
        return ratios, told_apart(ratios[:, 0], ratios[:, 1], 1e-3, ALPHA, gaussian=True).at_delta


def separation(ratios: np.ndarray) -> float:
    """By how many standard deviations the means of the statistic are apart."""
    return float((ratios[:, 0].mean() - ratios[:, 1].mean()) / np.sqrt(ratios.var(axis=0).mean()))


def error(mu: float) -> float:
    """Four standard deviations of `separation`."""
    return 4 * np.sqrt((2 + mu**2 / 4) / NUMBER)


@pytest.mark.parametrize(
    ("asked", "agents", "victims"),
    [
        ("ring 5 8", 12, (1, 4)),
        ("grid 8 8", 16, (5, 10)),
    ],
)
def test_from_what_a_node_receives_the_best_test_comes_close_to_what_is_proven(tmp_path, asked, agents, victims):
    setup = compose(edge(tmp_path, agents, asked, "agent:0"), None)
    seen = views(setup, games.simulate(setup).events)
    game = Game(setup, NUMBER)
    for victim in victims:
        ratios, bound = game.against(victim)
        mu = seen.mu[0, victim]
        assert separation(ratios) == pytest.approx(mu, abs=error(mu))
        assert 0 < bound <= epsilons(seen.mu, 1e-3)[0, victim]
        assert epsilons(seen.mu, 1e-3)[0, victim] == pytest.approx(proven_toward(setup, games.simulate(setup), victim))


def test_nothing_reaches_a_node_from_further_away_than_there_are_rounds(tmp_path):
    """The very same numbers arrive, whatever the data of those at distance six and more."""
    setup = compose(edge(tmp_path, 16, "ring 6 8", "agent:0"), None)
    mask, seen = received(setup, 6), views(setup, games.simulate(setup).events)
    for victim in range(1, 16):
        own, other = games._worlds(setup, turned(setup, victim))
        one, two = (games.simulate(games._in_world(setup, world, 5)).frames[mask] for world in (own, other))
        assert np.array_equal(one, two) == (seen.mu[0, victim] == 0) == (min(victim, 16 - victim) > 5)


def test_a_symmetric_place_hides_what_it_cannot_tell_apart(tmp_path):
    """On a torus the sum of what is mirrored is all that comes: the loss is exact, so a better test there is none."""
    setup = compose(edge(tmp_path, 25, "torus 6 8", "agent:0"), None)
    seen = views(setup, games.simulate(setup).events)
    assert seen.mu[0, 12] == pytest.approx(np.sqrt(0.65) * seen.links[12], rel=1e-5)
    own, other = (games.simulate(games._in_world(setup, w, 3)) for w in games._worlds(setup, turned(setup, 12)))
    sight = best_test(own, other, 12)
    moved = sight(own.frames) - sight(other.frames)
    runs = [games.simulate(reseeded(setup, seed)).frames for seed in range(NUMBER)]
    found = moved / np.std([sight(frames) for frames in runs])
    assert found < 0.93 * seen.links[12]
    assert found == pytest.approx(seen.mu[0, 12], rel=4 / np.sqrt(2 * NUMBER))


@pytest.mark.parametrize(("kind", "agents", "victims"), [("ring", 10, (1, 3)), ("grid", 16, (5,))])
def test_of_two_stages_what_a_node_shows_is_below_the_sum(tmp_path, kind, agents, victims):
    setup = compose(two_stage(edge(tmp_path, agents, f"{kind} 6 8", "agent:0")), None)
    seen = views(setup, games.simulate(setup).events)
    assert seen.start == 3
    assert (seen.before > 0).all()
    game = Game(setup, NUMBER)
    for victim in victims:
        ratios, bound = game.against(victim)
        mu = seen.mu[0, victim]
        assert bound <= epsilons(seen.mu, 1e-3)[0, victim]
        assert separation(ratios) <= mu + error(mu)
        assert separation(ratios) > 0.3


def test_a_learnt_statistic_is_almost_as_good_where_the_best_is_known(tmp_path):
    setup = compose(edge(tmp_path, 8, "ring 4 8", "agents:0,4"), None)
    target = turned(setup, 1)
    own, other = games._worlds(setup, target)

    def of(world, seed):
        return games.simulate(games._in_world(setup, world, seed))

    best = best_test(of(own, 1), of(other, 1), 1)
    (learnt,) = learn(setup, partial(of, own), [partial(of, other)], range(80))
    fresh = [(of(own, seed).frames, of(other, seed).frames) for seed in range(1000, 1150)]
    found = [separation(np.array([[sight(a), sight(b)] for a, b in fresh])) for sight in (best, learnt)]
    assert 0.7 * found[0] < found[1] <= found[0] + 0.25
    mu = views(setup, of(own, 1).events).links[1]
    assert found[0] == pytest.approx(mu, rel=0.25)


def test_against_a_broken_proof_the_audit_speaks(tmp_path, monkeypatch):
    """Half the noise of what is accounted for: the node's transcript alone shows it."""
    honest = backends.plain

    def quieter(query, law, t, noise, out):
        honest(query, law._replace(scale=law.scale / 2), t, noise, out)
        return backends.Event.of(query, *law)

    monkeypatch.setitem(backends.BACKENDS, "numpy", quieter)
    backends.backend.cache_clear()
    try:
        setup = compose(edge(tmp_path, 8, "ring 5 4", "agent:0"), None)
        _, bound = Game(setup, 4 * NUMBER).against(2)
        assert bound > proven_toward(setup, games.simulate(setup), 2)
    finally:
        backends.backend.cache_clear()


# -------------------------------------------------------------------------------------------------------- the command

QUICK = ["algorithm.name=gossip-averaging", "rounds=4", "data.points=1", "data.dimension=1", "privacy.epsilon=20"]


FEW = "import sys; from mpinodes import audit; audit.PAIRS = 100; sys.exit(audit.main(sys.argv[1:]))"


def test_audit_plays_on_the_run_itself_for_a_node_and_over_mpi_it_says_the_same(tmp_path):
    words = [sys.executable, "-c", FEW, *QUICK, "audit.view=agent:3"]
    done, alone = command([*mpirun(), "-n", "5", *words], tmp_path), command([*words, "topology.agents=4"], tmp_path)
    assert (done.code, alone.code) == (0, 0), done.err
    assert done.out.splitlines()[-1] == alone.out.splitlines()[-1]
    row = done.out.splitlines()[-1]
    assert "audit.view=agent:3" in done.out
    assert row.split()[:4] == ["what", "agent", "3", "receives"]
    assert 1 < float(row.split()[4]) <= 20
    assert "holds" in row


@pytest.mark.parametrize(
    ("view", "words"),
    [
        ("agent:5", "audit.view = 'agent:5': there is no agent 5; the run has the agents 0 to 4"),
        ("agents:1,7", "there is no agent 7"),
        ("agents:0,1,2,3,4", "names all agents; leave out"),
        ("agent", "audit.view = 'agent'"),
        ("agents:", "audit.view = 'agents:'"),
        ("agent:-1", "audit.view = 'agent:-1'"),
    ],
)
def test_a_view_of_nobody_is_refused(view, words):
    with pytest.raises(BadInput) as error:
        compose({"algorithm": {"name": "gossip-averaging"}, "topology": {"agents": 5}, "audit": {"view": view}}, None)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_the_view_changes_nothing_that_is_sent(tmp_path):
    asked = "algorithm.name=dola topology.agents=4 rounds=6 data.total=40 record.transcript=true"
    one, other = (
        Recorded(run_of(tmp_path / name, f"{asked} {more}")).frames
        for name, more in (("a", ""), ("b", "audit.view=agent:1"))
    )
    assert np.array_equal(one, other)


def test_a_bound_from_a_statistic_is_one_of_gaussian_trade_offs():
    """What `told_apart` makes of ratios that are normal, μ apart, is below μ's curve: 200 games, none above."""
    rng, mu = np.random.default_rng(0), 1.2
    most = gdp_epsilon(mu, 1e-3)
    played = [rng.standard_normal((300, 2)) + np.array([mu / 2, -mu / 2]) for _ in range(200)]
    assert max(told_apart(r[:, 0], r[:, 1], 1e-3, ALPHA, gaussian=True).at_delta for r in played) <= most
