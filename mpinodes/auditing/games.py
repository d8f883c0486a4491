"""Play the two games of an audit. In both games, an adversary learns about private data from the messages of runs.

In the first game, the adversary guesses the signs of the samples' targets from one run. In the second game, the
adversary decides between two adjacent data sets, over many runs. A game is played on a *probe*, usually a small
experiment. If `audit.view` names agents, only the second game is played, and its probe is the audited experiment
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mpinodes.auditing.changes import Change, changed, usual
from mpinodes.auditing.node_views import LEARNT, Sight, best_test, learn
from mpinodes.auditing.small_experiments import Probe
from mpinodes.auditing.transcripts import Recorded, Replayed, Transcript, fresh_seed, reseeded, simulate
from mpinodes.config.building import Losses, seen_losses
from mpinodes.core import Kind, Loss, Setup, Vector
from mpinodes.core.asked import merge
from mpinodes.running import job
from mpinodes.summary.summary import Summary

PILOTS = 4  # number of runs by which the adjacent data set is chosen
CLEAR = 0.99  # the adversary guesses only if the log-likelihood ratio is at least this share of its maximum


class Canary(NamedTuple):
    """Hold an adjacent data set of a game. The adversary decides whether a run had these data or the experiment's data.

    Attributes:
        agents: the agents whose loss functions contain the changed samples.
        change: the difference between the two data sets.
        size: how easily the adversary can tell the two data sets apart. For an adversary who sees all links: how far
            the change moves the messages, in noise scales, on average over simulated runs. For other adversaries: twice
            the mean of `sight` divided by its standard deviation, over simulated runs on the experiment's data.
        sight: the statistic of an adversary who sees only some links; None if the adversary sees all links.
    """

    agents: tuple[int, ...]
    change: Change
    size: float
    sight: Sight | None = None


class Ready(NamedTuple):
    """Hold a probe (an experiment on which the audit plays a game), its first run, and the summary of this run."""

    probe: Probe
    run: Recorded
    summary: Summary

    @property
    def shared(self) -> bool:
        """Return whether all agents use the same samples."""
        return bool(self.run.setup.experiment.data["partition"] == "shared")

    @property
    def gaussian(self) -> bool:
        """Return whether all noise is Gaussian; False if no message has noise."""
        return set(np.unique(self.run.events.kind)) - {Kind.CLEAN} == {Kind.GAUSSIAN}

    @property
    def sampled(self) -> bool:
        """Return whether the agents draw their batches by secret coins (`data.sampling`)."""
        return bool(self.run.setup.experiment.sampling != "none")


def prepare(probe: Probe, directory: Path) -> Ready:
    """Run a probe (an experiment on which the audit plays a game) in one process, and return the run and its summary.

    Args:
        probe: the probe.
        directory: where the run is stored.

    Raises:
        BadInput: the probe cannot be run.
    """
    place, summary = job.run(merge(probe.asked, {"output": {"dir": str(directory)}}))
    return Ready(probe, Recorded(place), summary)


def canary(ready: Ready, seed: int) -> Canary:
    """Return the adjacent data set on which the adversary of a game has most success.

    The candidates change samples of one of the rounds 1 to 3, or of all rounds if `privacy.adjacency` is one-agent or
    batches are secret. The result is one of these candidates:

    - If the adversary sees all links: the candidate that moves messages most, on average over simulated runs.
    - If the adversary consists of agents: the candidate that the adversary's statistic detects best. Only data of other
      agents are changed, unless all agents use the same data.

    Args:
        ready: the experiment of the game, after its first run.
        seed: the seed of the audit.
    """
    rng = np.random.default_rng([seed, 2])
    setup, run = ready.run.setup, ready.run
    everyone, viewers = tuple(run.agents), setup.experiment.audit.viewers
    # Under one-agent adjacency, and in secret batches, a change in round 1 changes all rounds.
    is_whole = setup.experiment.privacy.adjacency == "one-agent" or ready.sampled
    rounds = range(1, 2 if is_whole else min(setup.experiment.rounds, 4))
    candidates = [
        (everyone if ready.shared else (agent,), change)
        for agent in (everyone[:1] if ready.shared else [i for i in everyone if i not in viewers])
        for round in rounds
        for change in usual(setup, run.losses(agent), agent, round, rng)
    ]
    pilots = [simulate(reseeded(setup, int(s))).replayed() for s in rng.integers(2**62, size=PILOTS)]
    targets = [
        Canary(agents, change, float(np.mean([_size([pilot[i] for i in agents], change, ready) for pilot in pilots])))
        for agents, change in candidates
    ]
    if not viewers:
        return max(targets, key=lambda target: target.size)
    ascending = sorted(targets, key=lambda target: target.size)
    targets = list({target.agents: target for target in ascending}.values())  # for each agent, the largest change
    seeds, fresh = ([int(seed) for seed in rng.integers(2**62, size=LEARNT)] for _ in range(2))
    seen = [target._replace(sight=sight) for target, sight in zip(targets, sights(setup, targets, seeds), strict=True)]
    own = _worlds(setup, targets[0])[0]
    frames = [simulate(_in_world(setup, own, seed)).frames for seed in fresh]

    def power(target: Canary) -> float:
        """Return how clearly the statistic `target.sight` detects a run on the experiment's data.

        The result is the mean of the statistic over simulated runs, divided by its standard deviation.
        """
        assert target.sight
        values = np.array([target.sight(frames_of_run) for frames_of_run in frames])
        return float(values.mean() / max(values.std(), 1e-300))

    best = max(seen, key=power)
    return best._replace(size=min(2 * power(best), 1e300))  # finite: a message without noise may be lost


def sights(setup: Setup, targets: Sequence[Canary], seeds: Sequence[int]) -> list[Sight]:
    """Return, for each of several adjacent data sets, the statistic by which the adversary detects the data set.

    A statistic is a weighted sum of the received numbers. If the most powerful tests are known for all data sets, these
    are returned. If not, the weights are learnt from simulated runs.

    Args:
        setup: the setup of the experiment.
        targets: the adjacent data sets.
        seeds: the seeds of the simulated runs.
    """

    def of(world: Losses) -> Callable[[int], Transcript]:
        """Return a function that maps a seed to a simulated run with the loss functions `world`."""
        return lambda seed: simulate(_in_world(setup, world, seed))

    worlds = [_worlds(setup, target) for target in targets]
    own, others = of(worlds[0][0]), [of(world) for _, world in worlds]
    own_run, first = own(seeds[0]), seeds[0]
    best = [best_test(own_run, other(first), target.agents[0]) for target, other in zip(targets, others, strict=True)]
    exact = [sight for sight in best if sight]
    return exact if len(exact) == len(best) else learn(setup, own, others, seeds)


def _size(replayed: Sequence[Replayed], change: Change, ready: Ready) -> float:
    """Return how far the messages of several agents move on adjacent data, measured in noise scales.

    The quotient of a message is its change divided by its noise scale; the change is the L1 norm for Laplace noise,
    otherwise the L2 norm. The result combines the quotients:

    - If all noise is Gaussian: the root of the sum of their squares.
    - Otherwise: their sum.

    Args:
        replayed: the replays of these agents.
        change: the adjacent data set.
        ready: the experiment of the game, after its first run.
    """
    total = 0.0
    for agent in replayed:
        moved, scale = agent.moved(change, len(agent.messages))[0], agent.scale[change.round - 1 :]
        moved = np.where(agent.kind[change.round - 1 :] == Kind.LAPLACE, moved[..., 0], moved[..., 1])
        with np.errstate(divide="ignore", invalid="ignore"):
            shift = np.where(moved == 0, 0.0, moved / scale)
        total += float((shift**2).sum() if ready.gaussian else shift.sum())
    return float(np.sqrt(total)) if ready.gaussian else total


def _in_world(setup: Setup, world: Losses, seed: int) -> Setup:
    """Return a copy of a setup with other loss functions and another seed.

    The new seed gives other noise and other random starting points. The graph stays the same.

    Args:
        setup: the setup.
        world: the loss functions of the copy: maps an agent to a function from a round to the loss function.
        seed: the seed of the copy.
    """
    fresh = reseeded(setup, seed)
    return replace(fresh, losses=seen_losses(fresh.experiment, world, fresh.run))


def _worlds(setup: Setup, target: Canary) -> tuple[Losses, Losses]:
    """Return the loss functions on the run's data, and the loss functions on adjacent data.

    Each of the two results is a function: it maps an agent to a function from a round to the loss function.
    """
    own = cache(lambda agent: cache(setup.stream.of(agent)))

    @cache
    def other(agent: int) -> Callable[[int], Loss]:
        is_changed = agent in target.agents
        return cache(changed(own(agent), setup.stream.samples(agent), target.change)) if is_changed else own(agent)

    return own, other


def pairs(setup: Setup, target: Canary, which: Sequence[int], seed: int) -> Vector:
    """Simulate k pairs of runs, and return the log-likelihood ratio of each run: (k, 2).

    The first run of a pair is on the experiment's data, the second run on adjacent data. The ratio says how much better
    the messages of a run fit the experiment's data than the adjacent data. There are two exceptions:

    - If `target.sight` is set, the result has the value of this statistic in place of the ratio.
    - If `target.size` is inf, no run is simulated, and the numbers are arbitrary.

    Args:
        setup: the setup of the experiment.
        target: the adjacent data set, and the agents whose loss functions it changes.
        which: (k,) the numbers of the pairs, which determine the seeds of the runs.
        seed: the seed of the audit.
    """
    worlds, ratios = _worlds(setup, target), np.empty((len(which), 2))
    if np.isinf(target.size):
        return ratios
    for k, pair in enumerate(which):
        for place, world in enumerate(worlds):
            fresh = fresh_seed(seed, pair, place)
            sent = simulate(_in_world(setup, world, fresh))
            if target.sight:
                ratios[k, place] = target.sight(sent.frames)
                continue
            actual, received = (
                Transcript(_in_world(setup, data, fresh), sent.frames, sent.events) for data in (world, worlds[0])
            )
            noises, last = setup.algorithm.noises_gradients, len(sent.frames)
            ratios[k, place] = sum(
                Replayed(received, i, Replayed(actual, i).noised if noises else None).log_ratio(target.change, last)
                for i in target.agents
            )
    return ratios


def guess(ready: Ready) -> tuple[int, int, int]:
    """Play the game on one run: the adversary guesses the sign of every sample's target.

    The guess is the sign of a log-likelihood ratio. The ratio is computed from the first message that depends on the
    sample or, if the agents noise gradients, from the noised gradient of the sample. If the absolute value of the ratio
    is below `CLEAR` times its largest possible value, the adversary makes no guess.

    Returns:
        The number of right guesses, the number of guesses, and the number of signs that could be guessed.
    """
    run, setup = ready.run, ready.run.setup
    everyone = run.replayed()
    right = made = secrets = 0
    for t in range(1, setup.experiment.rounds):
        for agents in [everyone] if ready.shared else [[agent] for agent in everyone]:
            loss: Any = run.losses(agents[0].agent)(t)
            sample = setup.stream.samples(agents[0].agent)(t)[0]
            change = Change(t, sample, loss.features[0], -float(loss.targets[0]))
            ratio = sum(agent.log_ratio(change, t + 1) for agent in agents)
            carrier = int(not setup.algorithm.noises_gradients)  # rounds until a release carries the loss
            moved = [agent.moved(change, t + 1)[0][carrier, :, 0] / agent.scale[t - 1 + carrier] for agent in agents]
            shift = float(np.sum(moved))
            secrets += 1
            if shift > 0 and abs(ratio) >= CLEAR * shift:
                made, right = made + 1, right + (ratio > 0)
    return right, made, secrets
