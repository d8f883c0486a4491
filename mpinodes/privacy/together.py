"""Add up what several runs on the same data cost together, sample by sample.

A sample is identified by its row in the source, because its place in an agent's share, in an epoch, and the share
itself may differ from run to run. If nothing maps the samples of one run to those of another, each run is charged the
cost of its worst sample. Given the data, runs are independent and their settings are fixed beforehand, so plain
composition holds. `Cost` is the cost of one run or several, `composed` adds costs, and `Together` collects the runs of
a job.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from mpinodes.core.events import Kind
from mpinodes.core.messages import Vector
from mpinodes.core.parts import Setup
from mpinodes.privacy.accountant import UNPROVEN, Accountant, PrivacyLoss, at_distance, distances, price_curves
from mpinodes.privacy.accountant import groups as accounted_groups
from mpinodes.privacy.curves import ORDERS
from mpinodes.privacy.leakage import Indices
from mpinodes.privacy.ledger import Ledger

MOST_CURVES = 300_000  # Rényi curves in memory, of all samples together: 245 MB
OWN = 2**40  # above the largest number of a sample; agents' own samples are numbered from multiples of it


class Cost(NamedTuple):
    """The cost of one run or several, for every sample that they used.

    Attributes:
        samples: (m,) numbers of the samples, ascending; any other sample costs nothing.
        pure, rho: (m,) pure ε and ρ of zCDP; inf: there is none.
        rdp: gives Rényi divergences, by places in `samples`: (k,) -> (k, orders).
        is_gaussian: whether all noise is Gaussian.
        distance: total variation distance of the releases from those accounted for.
        unknown: whether the leakage of some message is unknown.
    """

    samples: Indices
    pure: Vector
    rho: Vector
    rdp: Callable[[Indices], Vector]
    is_gaussian: bool = False
    distance: float = 0.0
    unknown: bool = False

    def loss(self, delta: float) -> PrivacyLoss:
        """Return the loss of the worst sample."""
        if self.unknown:
            return UNPROVEN
        return at_distance(
            lambda part: price_curves(self.pure, self.rho, self.rdp, self.is_gaussian, part), delta, self.distance
        )

    def settled(self, room: int = MOST_CURVES) -> Cost:
        """Return the cost with its curves computed; if there are more samples than `room`, without curves."""
        m, rho = len(self.samples), self.rho
        if self.is_gaussian:
            return self._replace(rdp=lambda at: rho[at, None] * ORDERS)
        if m > room:
            return self._replace(rdp=lambda at: np.full((len(at), len(ORDERS)), np.inf))
        curves = np.concatenate([np.zeros((0, len(ORDERS))), *(self.rdp(at) for at in _stretches(m))])
        return self._replace(rdp=lambda at: curves[at])

    def most(self) -> Cost:
        """Return the cost of a single sample that costs no less than any of the samples."""
        if not len(self.samples):
            return self
        curve = np.zeros((1, len(ORDERS)))
        if not self.is_gaussian:
            curve = np.max([self.rdp(at).max(axis=0) for at in _stretches(len(self.samples))], axis=0)[None]
        return self._replace(
            samples=np.zeros(1, np.int64),
            pure=self.pure.max(keepdims=True),
            rho=self.rho.max(keepdims=True),
            rdp=lambda at: curve[at],
        )


def _stretches(size: int) -> list[Indices]:
    """Return the places 0 to size − 1, a few thousand at a time."""
    return np.array_split(np.arange(size), -(-size // 4096)) if size else []


def composed(costs: Sequence[Cost]) -> Cost:
    """Return the sum of costs, sample by sample."""
    samples = np.unique(np.concatenate([np.zeros(0, np.int64), *(cost.samples for cost in costs)]))
    pure, rho = np.zeros(len(samples)), np.zeros(len(samples))
    places = []  # by cost, the place of each sample in it; -1: not used
    for cost in costs:
        here = np.searchsorted(samples, cost.samples)
        pure[here] += cost.pure
        rho[here] += cost.rho
        place = np.full(len(samples), -1)
        place[here] = np.arange(len(here))
        places.append(place)

    def rdp(at: Indices) -> Vector:
        curves = np.zeros((len(at), len(ORDERS)))
        for cost, place in zip(costs, places, strict=True):
            there = place[at] >= 0
            curves[there] += cost.rdp(place[at][there])
        return curves

    is_gaussian, distance = all(cost.is_gaussian for cost in costs), sum(cost.distance for cost in costs)
    return Cost(samples, pure, rho, rdp, is_gaussian, distance, any(cost.unknown for cost in costs))


def whole(classes: Sequence[Cost]) -> Cost:
    """Return the sum of costs whose samples nothing maps to each other: the sum of the costs of worst samples."""
    return classes[0] if len(classes) == 1 else composed([cost.most() for cost in classes])


class RunCost(NamedTuple):
    """The cost of a run.

    Attributes:
        agents: the cost of each agent's own messages; agents of equal cost share one object.
        network: the cost of all messages.
    """

    agents: list[Cost]
    network: Cost


def cost_of(setup: Setup, accountant: Accountant, horizon: int) -> RunCost:
    """Return the cost of the first rounds of a run for every sample, or, by the adjacency, every round or agent."""
    shared = setup.experiment.data["partition"] == "shared"
    history = accountant.history
    (apart,) = distances(history, [horizon])
    uses = np.concatenate([events.uses for _, events in history.blocks()])[:horizon]

    def curves(ledger: Ledger, group: Indices, at: Indices) -> Vector:
        """Return the Rényi divergences of samples at some places, given the group of every sample."""
        some, where = np.unique(group[at], return_inverse=True)
        return np.asarray(ledger.rdp(some)[where])

    made: dict[Hashable, Cost] = {}
    agents = []
    for i, ledger in enumerate(accountant.ledgers(horizon)):
        # the rounds whose losses the messages carry
        samples, group = _members(setup, i, np.unique(uses[uses[:, i] > 0, i]).tolist())
        key = ledger, samples.tobytes(), group.tobytes(), apart[i]
        if key not in made:
            pure, rho = ledger.at(horizon)
            rdp, unknown = partial(curves, ledger, group), ledger.facts.unknown_from < horizon
            is_gaussian, distance = ledger.facts.is_all(Kind.GAUSSIAN), float(apart[i])
            made[key] = Cost(samples, pure[group], rho[group], rdp, is_gaussian, distance, unknown)
        agents.append(made[key])
    # Only its owner's messages depend on a private sample: no two agents have a sample in common.
    network = composed(agents)
    return RunCost(agents, network if shared else network._replace(distance=float(apart.max())))


def _members(setup: Setup, agent: int, used: Sequence[int]) -> tuple[Indices, Indices]:
    """Return the samples that an agent's messages carry, ascending, and the group of each in the agent's ledger.

    By adjacencies other than one-sample, the groups stand for the samples. Else each sample is its own group, or the
    samples of a round are one group: they come in the same rounds, and so cost the same.

    Raises:
        ValueError: the samples of a group come in different rounds, against the contract of `Stream.groups`.
    """
    own = 0 if setup.experiment.data["partition"] == "shared" else agent * OWN
    groups, samples = accounted_groups(setup)(agent), setup.stream.samples(agent)
    if setup.experiment.privacy.adjacency != "one-sample":
        group = np.unique(np.fromiter((g for t in used for g in groups(t)), np.int64))
        return group + own, group
    if all(list(groups(t)) == list(samples(t)) for t in used):
        number = group = np.unique(np.fromiter((k for t in used for k in samples(t)), np.int64))
    else:
        carried: dict[int, list[int]] = {}
        for t in used:
            (place,) = groups(t)
            if carried.setdefault(place, came := list(samples(t))) != came:
                raise ValueError("samples of one group come in different rounds, against Stream.groups")
        number = np.fromiter((k for came in carried.values() for k in came), np.int64)
        group = np.repeat(list(carried), [len(came) for came in carried.values()])
    rows = setup.stream.source_rows(agent)
    name = number + own if rows is None else rows[number]
    order = np.argsort(name)
    return name[order], group[order]


def same_things(setup: Setup, job: Hashable) -> Hashable:
    """Return a key that is equal for runs whose samples (or rounds, or agents) have the same numbers.

    The costs of runs with equal keys add up sample by sample, round by round or agent by agent.

    Args:
        setup: of the run.
        job: the directory of the job. A file, or a stream of the user's, may be another in the next job, unless
            `data.identity` names the data.
    """
    e, stream = setup.experiment, setup.stream
    adjacency, section = e.privacy.adjacency, dict(e.data)
    identity = section.pop("identity", None)
    whose = (identity or job) if "path" in section or "file" in section else None
    seed: Hashable = section.pop("seed", e.seed)
    agents = setup.topology.agents
    if stream.drawn_from_seed is False and stream.source_rows(0) is not None:
        dealt_alike = {key: value for key, value in section.items() if key not in stream.dealing}
        if adjacency == "one-sample":
            # With one file for each agent, the number of agents says which rows there are.
            seed, agents, section = 0, agents if "{agent}" in str(section.get("file")) else 0, dealt_alike
        elif adjacency == "one-agent":
            seed, section = _rows(setup), dealt_alike
        elif type(stream).samples.__module__.startswith("mpinodes.") and stream.keeps_order:
            seed = _rows(setup)  # the seed deals the rows, but does not order an agent's rows
    return adjacency, whose, repr(sorted(section.items())), seed, agents


def _rows(setup: Setup) -> Hashable:
    """Return a key of which agent has which rows of the source."""
    shares = (setup.stream.source_rows(i) for i in range(setup.topology.agents))
    return tuple(blake2b(np.asarray(rows, np.int64).tobytes()).digest() for rows in shares)


# Why nothing is proven of runs with different keys of `same_things`, by adjacency. For samples something is: each run
# costs at most what its worst sample does. A round or an agent of one run may be spread over many of another.
UNMAPPED = {
    "one-sample": "",
    "one-round": "the samples of one round of a run may lie in several rounds of another; data.seed, the same in all "
    "runs with the same data settings, fixes their order",
    "one-agent": "the samples of one agent of a run may be several agents' in another; data.seed, or one file for each "
    "agent, fixes who has which",
}


def other_data(setup: Setup) -> bool:
    """Return whether a run with another seed draws new samples."""
    return setup.stream.drawn_from_seed is True and "seed" not in setup.experiment.data


class Together:
    """The cost of publishing several runs on the same data, which are taken one by one.

    Costs of consecutive runs with an equal key of `same_things` add up sample by sample. Where the key changes, the
    costs of worst samples add up.

    Attributes:
        runs: the number of runs so far.
        unproven_because: why nothing is proven; empty: something is.
    """

    def __init__(self, adjacency: str) -> None:
        self.runs, self.unproven_because = 0, ""
        self._adjacency = adjacency
        self._things: Hashable = None
        self._now: RunCost | None = None  # of the runs with the same key as the last run
        self._before: RunCost | None = None  # of all runs before, by their worst samples

    def take(self, cost: RunCost, things: Hashable) -> None:
        """Add a run, given its cost and its key of `same_things`."""
        self.runs += 1
        if self._now and things != self._things:
            self._before, self._now = _joined(self._before, _of_worst(self._now)), None
            self.unproven_because = self.unproven_because or UNMAPPED[self._adjacency]
        self._things, self._now = things, _joined(self._now, cost)

    def take_unproven(self, because: str) -> None:
        """Add a run of which nothing is proven, given the reason."""
        self.runs += 1
        self.unproven_because = self.unproven_because or because

    @property
    def by(self) -> str:
        """Return by what costs are added up: "sample", "round" or "agent"; "maxima": by the worst of each run."""
        return "maxima" if self._before else self._adjacency.removeprefix("one-")

    def losses(self, delta: float) -> tuple[PrivacyLoss, list[PrivacyLoss]]:
        """Return the loss of all messages of all runs, and the loss of each agent's own messages."""
        if self.unproven_because or not self._now:
            return UNPROVEN, []
        cost = _joined(self._before, _of_worst(self._now)) if self._before else self._now
        return cost.network.loss(delta), [agent.loss(delta) for agent in cost.agents]


def _of_worst(cost: RunCost) -> RunCost:
    """Return the cost of a worst sample, for each agent and for the network."""
    return RunCost(_changed([(agent,) for agent in cost.agents], lambda costs: costs[0].most()), cost.network.most())


def _joined(before: RunCost | None, cost: RunCost) -> RunCost:
    """Return the cost of the runs so far and the next together, with curves computed."""
    parts = [cost] if before is None else [before, cost]
    network = composed([part.network for part in parts]).settled()
    room = MOST_CURVES // max(1, len(network.samples)) - 1  # agents that there is room for
    made: list[Cost] = []

    def join(costs: tuple[Cost, ...]) -> Cost:
        made.append(composed(costs).settled(MOST_CURVES if len(made) < room else 0))
        return made[-1]

    return RunCost(_changed(list(zip(*(part.agents for part in parts), strict=True)), join), network)


def _changed(agents: Sequence[tuple[Cost, ...]], change: Callable[[tuple[Cost, ...]], Cost]) -> list[Cost]:
    """Return the changed costs of agents; agents that share the same objects share the result."""
    keys = [tuple(map(id, costs)) for costs in agents]
    first = dict(zip(reversed(keys), reversed(agents), strict=True))
    made = {key: change(costs) for key, costs in first.items()}
    return [made[key] for key in keys]
