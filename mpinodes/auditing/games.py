"""Two games on a probe: guess every sample's secret from one run, and decide between two data sets over many runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from mpinodes.auditing.adjacent_replay import Finding, replay
from mpinodes.auditing.changes import Change, changed, usual
from mpinodes.auditing.node_views import LEARNT, Sight, best_test, learn
from mpinodes.auditing.probes import Probe
from mpinodes.auditing.statistics import CERTAIN, Shown, guessed, told_apart
from mpinodes.auditing.transcripts import Recorded, Replayed, Transcript, fresh_seed, reseeded
from mpinodes.config.building import seen_losses
from mpinodes.core import Kind, Loss, Setup, Vector
from mpinodes.core.asked import merge
from mpinodes.rounds import lockstep
from mpinodes.running import job
from mpinodes.summary.summary import Summary

PILOTS = 4  # runs that choose the adjacent data set
World: TypeAlias = list[list[Loss]]  # by agent, by round
CLEAR = 0.99  # guess if the evidence is at least this share of its possible maximum


class Canary(NamedTuple):
    """The adjacent data set from which the run's own data set is to be told apart.

    Attributes:
        agents: the agents whose messages depend on the change.
        change: the difference between the data sets.
        size: how far the change moves messages in the pilot runs: Σ of shift/scale; for Gaussian noise the root of the
            sum of squares.
        sight: the statistic of an adversary who sees some links only; None for one who sees all links.
    """

    agents: tuple[int, ...]
    change: Change
    size: float
    sight: Sight | None = None


class Ready(NamedTuple):
    """A probe after its first run."""

    probe: Probe
    run: Recorded
    summary: Summary

    @property
    def shared(self) -> bool:
        """Return whether all agents see the same samples."""
        return bool(self.run.setup.experiment.data["partition"] == "shared")

    @property
    def gaussian(self) -> bool:
        """Return whether all noise is Gaussian."""
        return set(np.unique(self.run.events.kind)) - {Kind.CLEAN} == {Kind.GAUSSIAN}


def prepare(probe: Probe, directory: Path) -> Ready:
    """Run a probe in one process.

    Raises:
        BadInput: the probe cannot be run.
    """
    place, summary = job.run(merge(probe.asked, {"output": {"dir": str(directory)}}))
    return Ready(probe, Recorded(place), summary)


def replays(run: Transcript, seed: int) -> list[Finding]:
    """Replay every agent of a run on adjacent data."""
    return [replay(run, agent, 12, seed) for agent in range(run.setup.topology.agents)]


def simulate(setup: Setup) -> Transcript:
    """Simulate a run, and keep everything it sent in memory."""
    rows = np.concatenate([chunk.copy() for chunk in lockstep.simulate(setup)], axis=1).transpose(1, 0, 2)
    _, events, frames = setup.layout.open(rows)
    return Transcript(setup, frames, events)


def canary(ready: Ready, seed: int) -> Canary:
    """Choose the adjacent data set that moves messages most over some runs.

    For an adversary with a partial view, choose the data set that is told apart best. The agent whose data change is
    never among the viewers, unless all agents see the same data.
    """
    rng = np.random.default_rng([seed, 2])
    setup, rounds = ready.run.setup, ready.run.setup.experiment.rounds
    everyone = tuple(range(setup.topology.agents))
    viewers = setup.experiment.audit.viewers
    last = 1 if setup.experiment.privacy.adjacency == "one-agent" else min(rounds, 4) - 1  # one-agent: all rounds
    candidates = [
        (everyone if ready.shared else (agent,), change)
        for agent in (everyone[:1] if ready.shared else [i for i in everyone if i not in viewers])
        for round in range(1, last + 1)
        for change in usual(setup, ready.run.losses(agent), agent, round, rng)
    ]
    pilots = [reseeded(setup, int(s)) for s in rng.integers(2**62, size=PILOTS)]
    runs = [[Replayed(run, agent) for agent in everyone] for run in map(simulate, pilots)]
    sizes = [
        float(np.mean([_size([run[i] for i in agents], change, ready.gaussian) for run in runs]))
        for agents, change in candidates
    ]
    if viewers:
        ascending = [(*candidates[k], sizes[k]) for k in np.argsort(sizes)]
        largest = {agents: Canary(agents, change, size) for agents, change, size in ascending}
        return _seen_best(setup, list(largest.values()), rng)
    best = int(np.argmax(sizes))
    return Canary(*candidates[best], sizes[best])


def _seen_best(setup: Setup, targets: Sequence[Canary], rng: np.random.Generator) -> Canary:
    """Return the canary that the run's viewers tell apart best from what they receive."""
    seeds = [int(seed) for seed in rng.integers(2**62, size=LEARNT)]
    seen = [target._replace(sight=sight) for target, sight in zip(targets, sights(setup, targets, seeds), strict=True)]
    fresh = [int(seed) for seed in rng.integers(2**62, size=LEARNT)]
    frames = [simulate(_in_world(setup, _worlds(setup, targets[0])[0], seed)).frames for seed in fresh]

    def power(target: Canary) -> float:
        """Return how many standard deviations a canary's statistic is above 0 on average, on the run's own data."""
        assert target.sight
        values = np.array([target.sight(frames_of_run) for frames_of_run in frames])
        return float(values.mean() / max(values.std(), 1e-300))

    best = max(seen, key=power)
    return best._replace(size=min(2 * power(best), 1e300))  # finite: a message without noise may be lost


def sights(setup: Setup, targets: Sequence[Canary], seeds: Sequence[int]) -> list[Sight]:
    """Return the viewers' statistic for each canary: the most powerful test if all have it, else learnt ones."""

    def of(world: World) -> Callable[[int], Transcript]:
        return lambda seed: simulate(_in_world(setup, world, seed))

    worlds = [_worlds(setup, target) for target in targets]
    own, others, first = of(worlds[0][0]), [of(world) for _, world in worlds], seeds[0]
    own_run = own(first)
    best = [best_test(own_run, other(first), target.agents[0]) for target, other in zip(targets, others, strict=True)]
    exact = [sight for sight in best if sight]
    return exact if len(exact) == len(best) else learn(setup, own, others, seeds)


def _size(replayed: Sequence[Replayed], change: Change, gaussian: bool) -> float:
    """Return by how many noise scales a change moves the messages of some agents."""
    total = 0.0
    for agent in replayed:
        last = len(agent.messages)
        moved, scale = agent.moved(change, last)[0], agent.scale[change.round - 1 :]
        l1, l2 = moved[..., 0], moved[..., 1]
        moved = np.where(agent.kind[change.round - 1 :] == Kind.LAPLACE, l1, l2)
        with np.errstate(divide="ignore", invalid="ignore"):
            shift = np.where(moved == 0, 0.0, moved / scale)
        total += float((shift**2).sum() if gaussian else shift.sum())
    return float(np.sqrt(total)) if gaussian else total


def _in_world(setup: Setup, world: World, seed: int) -> Setup:
    """Return a setup of the same run with other losses and fresh noise."""
    fresh = reseeded(setup, seed)
    losses = seen_losses(fresh.experiment, lambda agent: lambda t: world[agent][t - 1], fresh.run)
    return replace(fresh, losses=losses)


def _worlds(setup: Setup, target: Canary) -> tuple[World, World]:
    """Return all losses of a run, on its own data and on adjacent data."""
    rounds = range(1, setup.experiment.rounds + 1)
    own = [setup.stream.of(agent) for agent in range(setup.topology.agents)]
    other = [
        changed(loss, setup.stream.samples(agent), target.change) if agent in target.agents else loss
        for agent, loss in enumerate(own)
    ]
    own_world, other_world = ([[loss(t) for t in rounds] for loss in losses] for losses in (own, other))
    return own_world, other_world


def pairs(setup: Setup, target: Canary, which: Sequence[int], seed: int) -> Vector:
    """Compute log-likelihood ratios of some pairs of runs, one on each of two data sets: (k, 2).

    All runs have independent noise.

    Args:
        setup: of the probe.
        target: the adjacent data set, and which messages depend on it.
        which: the numbers of the pairs, from which their seeds follow.
        seed: of the audit.
    """
    if np.isinf(target.size):
        return np.empty((len(which), 2))
    worlds = _worlds(setup, target)
    ratios = np.empty((len(which), 2))
    for k, pair in enumerate(which):
        for place, world in enumerate(worlds):
            fresh = fresh_seed(seed, pair, place)
            sent = simulate(_in_world(setup, world, fresh))
            if target.sight:
                ratios[k, place] = target.sight(sent.frames)
                continue
            heard = Transcript(_in_world(setup, worlds[0], fresh), sent.frames, sent.events)
            ratios[k, place] = sum(
                Replayed(heard, agent).log_ratio(target.change, len(sent.frames)) for agent in target.agents
            )
    return ratios


def apart(ready: Ready, target: Canary, ratios: Vector, alpha: float) -> Shown:
    """Bound ε from below by the ratios of many runs."""
    if np.isinf(target.size):  # a message without noise reveals the data set
        return CERTAIN
    delta = ready.run.setup.experiment.privacy.delta
    return told_apart(ratios[:, 0], ratios[:, 1], delta, alpha, ready.gaussian)


class Guesses(NamedTuple):
    """The outcome of guessing the signs of samples from one run."""

    right: int
    made: int
    secrets: int

    def shown(self, alpha: float) -> Shown:
        """Return the lower bound on ε."""
        return Shown(guessed(self.right, self.made, alpha), 0.0)


def guess(ready: Ready) -> Guesses:
    """Guess the sign of every sample's target from the message that first carries it, given all earlier messages."""
    run, setup = ready.run, ready.run.setup
    everyone = [Replayed(run, agent) for agent in range(setup.topology.agents)]
    telling = [everyone] if ready.shared else [[agent] for agent in everyone]
    right = made = secrets = 0
    for t in range(1, setup.experiment.rounds):
        for agents in telling:
            loss: Any = run.losses(agents[0].agent)(t)
            sample = setup.stream.samples(agents[0].agent)(t)[0]
            change = Change(t, sample, loss.features[0], -float(loss.targets[0]))
            ratio = sum(agent.log_ratio(change, t + 1) for agent in agents)
            shift = sum(float((agent.moved(change, t + 1)[0][-1, :, 0] / agent.scale[t]).sum()) for agent in agents)
            secrets += 1
            if shift > 0 and abs(ratio) >= CLEAR * shift:
                made, right = made + 1, right + (ratio > 0)
    return Guesses(right, made, secrets)
