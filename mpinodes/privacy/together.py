"""Add up the privacy costs of several runs on the same data, sample by sample.

A sample is identified by its row in the source of the data. From run to run, the sample may belong to another agent, or
have another position in the agent's data. The costs of the runs add up, because the noise of different runs is
independent and all settings are fixed before the first run. If the samples of one run cannot be matched with the
samples of another run, each run is charged the cost of its worst sample.

With adjacency `one-round` or `one-agent`, read "round" or "agent" for "sample". But if the rounds or agents of two runs
cannot be matched, nothing is proven (`UNMAPPED`).

`Cost` is the cost of one or several runs, `composed` adds costs, and `Together` collects the runs of a job.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from mpinodes.core.experiment import UNITS
from mpinodes.core.messages import Vector
from mpinodes.core.parts import Setup
from mpinodes.privacy.accountant import UNPROVEN, Accountant, PrivacyLoss, at_distance, distances, price_curves
from mpinodes.privacy.accountant import groups as accounted_groups
from mpinodes.privacy.curves import ORDERS
from mpinodes.privacy.leakage import Indices
from mpinodes.privacy.ledger import Ledger

MOST_CURVES = 300_000  # largest number of Rényi curves in memory, all agents and samples together: 245 MB
OWN = 2**40  # larger than any sample number; the numbers of agent i's private samples start at i * OWN


class Cost(NamedTuple):
    """Hold the privacy cost of one agent or of the network, in one or several runs, for every sample that was used.

    Attributes:
        samples: (m,) the numbers of the samples (of rounds or agents, by the adjacency), ascending. A sample that is
            not listed costs nothing.
        pure, rho: (m,) the pure ε and ρ of zCDP of each sample; inf if there is no finite value.
        rdp: a function that maps k indices into `samples` to an array (k, orders) of Rényi divergences.
        is_gaussian: whether all noise is Gaussian and no batch is secret.
        distance: the total variation distance between the exact distribution of the messages and the distribution for
            which the cost is computed.
        unknown: whether the leakage (the effect of earlier samples) of any message is unknown, so that nothing is
            proven.
        pairs: whether adjacent data sets differ in a replaced sample, which counts as two zeroed samples, and the costs
            are those of one zeroed sample.
    """

    samples: Indices
    pure: Vector
    rho: Vector
    rdp: Callable[[Indices], Vector]
    is_gaussian: bool = False
    distance: float = 0.0
    unknown: bool = False
    pairs: bool = False

    def loss(self, delta: float) -> PrivacyLoss:
        """Return the privacy loss at δ of the sample with the largest privacy loss; `UNPROVEN` if `unknown` is true."""
        if self.unknown:
            return UNPROVEN
        loss_at = partial(price_curves, self.pure, self.rho, self.rdp, self.is_gaussian, pairs=self.pairs)
        return at_distance(loss_at, delta, self.distance)

    def settled(self, room: int = MOST_CURVES) -> Cost:
        """Return the same cost with the Rényi curves of all samples computed and stored.

        If there are more than `room` samples, all curves are replaced by inf, so that only pure ε and ρ of zCDP bound
        the privacy loss. If `is_gaussian` is true, curves are computed from ρ and not stored.
        """
        m, rho = len(self.samples), self.rho
        if self.is_gaussian:
            return self._replace(rdp=lambda at: rho[at, None] * ORDERS)
        if m > room:
            return self._replace(rdp=lambda at: np.full((len(at), len(ORDERS)), np.inf))
        curves = np.concatenate([np.zeros((0, len(ORDERS))), *(self.rdp(at) for at in _stretches(m))])
        return self._replace(rdp=lambda at: curves[at])

    def most(self) -> Cost:
        """Return the cost of one imaginary sample, which costs as much as the worst sample by every accounting.

        If this cost lists no sample, the result is this cost itself.
        """
        if not len(self.samples):
            return self
        pure, rho = self.pure.max(keepdims=True), self.rho.max(keepdims=True)
        curve = rho * ORDERS[None]
        if not self.is_gaussian:
            curve = np.max([self.rdp(at).max(axis=0) for at in _stretches(len(self.samples))], axis=0)[None]
        return self._replace(samples=np.zeros(1, np.int64), pure=pure, rho=rho, rdp=lambda at: curve[at])


def _stretches(size: int) -> list[Indices]:
    """Return the indices 0 to `size` − 1, split into arrays of at most 4096 indices."""
    return np.array_split(np.arange(size), -(-size // 4096)) if size else []


def composed(costs: Sequence[Cost]) -> Cost:
    """Return the sum of several privacy costs, of runs or of the agents of a run, sample by sample."""
    samples = np.unique(np.concatenate([np.zeros(0, np.int64), *(cost.samples for cost in costs)]))
    pure, rho = np.zeros(len(samples)), np.zeros(len(samples))
    places = []  # for each cost, the index of each sample in `cost.samples`; -1 if the cost does not list the sample
    for cost in costs:
        here = np.searchsorted(samples, cost.samples)
        pure[here] += cost.pure
        rho[here] += cost.rho
        place = np.full(len(samples), -1)
        place[here] = np.arange(len(here))
        places.append(place)

    def rdp(at: Indices) -> Vector:
        """Return the sum of the Rényi divergences over all added costs, for the samples with the indices `at`."""
        curves = np.zeros((len(at), len(ORDERS)))
        for cost, place in zip(costs, places, strict=True):
            there = place[at] >= 0
            curves[there] += cost.rdp(place[at][there])
        return curves

    is_gaussian, distance = all(cost.is_gaussian for cost in costs), sum(cost.distance for cost in costs)
    unknown, pairs = any(cost.unknown for cost in costs), any(cost.pairs for cost in costs)
    return Cost(samples, pure, rho, rdp, is_gaussian, distance, unknown, pairs)


def whole(classes: Sequence[Cost]) -> Cost:
    """Return the total cost of runs whose samples cannot be matched: the sum of the costs of their worst samples.

    If there is only one cost, the cost itself is returned.
    """
    return classes[0] if len(classes) == 1 else composed([cost.most() for cost in classes])


class RunCost(NamedTuple):
    """Hold the privacy costs of one run.

    Attributes:
        agents: for each agent, the cost of the messages that the agent sends. Agents with the same samples and equal
            costs may share one object.
        network: the cost of all messages.
    """

    agents: list[Cost]
    network: Cost


def cost_of(setup: Setup, accountant: Accountant, horizon: int) -> RunCost:
    """Return the privacy cost of rounds 1 to `horizon` of a run, for every unit in which adjacent data may differ.

    The unit is a sample, a round or an agent (`privacy.adjacency`).
    """
    shared = setup.experiment.data["partition"] == "shared"
    history = accountant.history
    (apart,) = distances(history, [horizon])
    uses = np.concatenate([events.uses for _, events in history.blocks()])[:horizon]

    def curves(ledger: Ledger, group: Indices, at: Indices) -> Vector:
        """Return the Rényi divergences of the samples with the indices `at`, as an array (samples, orders).

        Args:
            ledger: the privacy costs by group of samples.
            group: for each sample, the number of the group in the ledger that contains the sample.
            at: indices of samples.
        """
        some, where = np.unique(group[at], return_inverse=True)
        return np.asarray(ledger.rdp(some)[where])

    made: dict[Hashable, Cost] = {}
    agents = []
    for i, ledger in enumerate(accountant.ledgers(horizon)):
        # The last argument is the list of rounds whose losses the agent's messages carry.
        samples, group = _members(setup, i, np.unique(uses[uses[:, i] > 0, i]).tolist())
        group = accountant.numbers(i, group)
        key = ledger, samples.tobytes(), group.tobytes(), apart[i]
        if key not in made:
            pure, rho = ledger.at(horizon)
            rdp, unknown = partial(curves, ledger, group), ledger.facts.unknown_from < horizon
            is_gaussian, distance, pairs = ledger.facts.is_gdp, float(apart[i]), ledger.facts.are_pairs
            made[key] = Cost(samples, pure[group], rho[group], rdp, is_gaussian, distance, unknown, pairs)
        agents.append(made[key])
    # If the data are not shared, no two agents have a sample in common, so `composed` adds nothing across agents.
    network = composed(agents)
    return RunCost(agents, network if shared else network._replace(distance=float(apart.max())))


def _members(setup: Setup, agent: int, used: Sequence[int]) -> tuple[Indices, Indices]:
    """Return the numbers of the samples that an agent's messages use, ascending, and the group of each sample.

    A group is a set of samples that are always used in the same rounds, so the agent's ledger has one cost for them.
    With the adjacencies `one-round` and `one-agent`, group numbers take the place of sample numbers.

    Args:
        setup: the set-up of the run.
        agent: the agent.
        used: the rounds whose losses the agent's messages use.

    Raises:
        ValueError: samples of a group are used in different rounds, which the documentation of `Stream.groups` forbids.
    """
    own = 0 if setup.experiment.data["partition"] == "shared" else agent * OWN
    groups, samples = accounted_groups(setup)(agent), setup.stream.samples(agent)
    number = group = np.unique(np.fromiter((g for t in used for g in groups(t)), np.int64))
    if UNITS[setup.experiment.privacy.adjacency] != "sample":
        return group + own, group
    if any(list(groups(t)) != list(samples(t)) for t in used):
        carried: dict[int, list[int]] = {}
        for t in used:
            (place,) = groups(t)
            if carried.setdefault(place, came := list(samples(t))) != came:
                raise ValueError("Stream.groups puts samples that are used in different rounds into one group")
        number = np.fromiter((k for came in carried.values() for k in came), np.int64)
        group = np.repeat(list(carried), [len(came) for came in carried.values()])
    rows = setup.stream.source_rows(agent)
    name = number + own if rows is None else rows[number]
    order = np.argsort(name)
    return name[order], group[order]


def same_things(setup: Setup, job: Hashable) -> Hashable:
    """Return an identifier of the way in which a run numbers its samples (or rounds, or agents, by the adjacency).

    If two runs have equal identifiers, a number stands for the same sample in both runs.

    Args:
        setup: the set-up of the run.
        job: the directory of the job. If the data come from a file or from a user-written stream, the identifier
            contains `data.identity` or, if this key is not set, the directory.
    """
    e, stream = setup.experiment, setup.stream
    adjacency, section = e.privacy.adjacency, dict(e.data)
    identity = section.pop("identity", None)
    whose = (identity or job) if "path" in section or "file" in section else None
    seed: Hashable = section.pop("seed", e.seed)
    agents = setup.topology.agents
    if stream.drawn_from_seed is False and stream.source_rows(0) is not None:
        dealt_alike = {key: value for key, value in section.items() if key not in stream.dealing}
        if UNITS[adjacency] == "sample":
            # If every agent has a file, the number of agents determines which rows exist.
            seed, agents, section = 0, agents if "{agent}" in str(section.get("file")) else 0, dealt_alike
        elif adjacency == "one-agent":
            seed, section = _rows(setup), dealt_alike
        elif type(stream).samples.__module__.startswith("mpinodes.") and stream.keeps_order:
            seed = _rows(setup)  # the seed decides which agent gets a row, but not the order of an agent's rows
    return adjacency, whose, repr(sorted(section.items())), seed, agents


def _rows(setup: Setup) -> Hashable:
    """Return an identifier of the rows of the data source that each agent has; equal rows give equal identifiers."""
    shares = (setup.stream.source_rows(i) for i in range(setup.topology.agents))
    return tuple(blake2b(np.asarray(rows, np.int64).tobytes()).digest() for rows in shares)


# For each adjacency, why nothing is proven of runs with different identifiers. The text is empty for
# samples, because each run costs at most as much as its worst sample. But the samples of one round (or agent) of a
# run may be spread over many rounds (or agents) of another run.
UNMAPPED = {
    "one-sample": "",
    "zero-out": "",
    "one-round": "the samples of one round of a run may be used in several rounds of another run; to fix the order of "
    "the samples, set data.seed to the same number in all runs with the same data settings",
    "one-agent": "the samples of one agent of a run may belong to several agents in another run; to fix which agent "
    "has which samples, set data.seed, or give one file for each agent",
}


def other_data(setup: Setup) -> bool:
    """Return whether two runs with these settings but different seeds are known to draw different samples.

    This is so if the stream states `drawn_from_seed = True` and the key data.seed is not set.
    """
    return setup.stream.drawn_from_seed is True and "seed" not in setup.experiment.data


class Together:
    """Add up the privacy costs of publishing several runs on the same data. The runs are added one at a time.

    Each run comes with the identifier that `same_things` returns.

    - While the identifier stays equal, a number stands for the same sample in all runs, and costs add up sample by
      sample.
    - When the identifier changes, the costs of the worst samples add up.

    Attributes:
        runs: the number of runs so far.
        unproven_because: the reason why nothing is proven; empty if a bound is proven.
    """

    def __init__(self, adjacency: str) -> None:
        self.runs, self.unproven_because = 0, ""
        self._adjacency = adjacency
        self._things: Hashable = None
        self._now: RunCost | None = None  # of the runs with the same identifier as the last run
        self._before: RunCost | None = None  # of all earlier runs, as the sum of the costs of their worst samples

    def take(self, cost: RunCost, things: Hashable) -> None:
        """Add the cost of one run to the total.

        Args:
            cost: the cost of the run.
            things: the identifier of the run's sample numbers, from the function `same_things`.
        """
        self.runs += 1
        if self._now and things != self._things:
            self._before, self._now = _joined(self._before, _of_worst(self._now)), None
            self.unproven_because = self.unproven_because or UNMAPPED[self._adjacency]
        self._things, self._now = things, _joined(self._now, cost)

    def take_unproven(self, because: str) -> None:
        """Add a run for which nothing is proven; `because` is the reason, in words."""
        self.runs += 1
        self.unproven_because = self.unproven_because or because

    @property
    def by(self) -> str:
        """Return how the costs of runs are added: "sample", "round", "agent" or "maxima".

        - "sample", "round" and "agent" are the unit in which adjacent data differ: the costs of each unit are added.
        - "maxima": the units of at least two runs could not be matched, so the costs of the worst units are added.
        """
        return "maxima" if self._before else UNITS[self._adjacency]

    def losses(self, delta: float) -> tuple[PrivacyLoss, list[PrivacyLoss]]:
        """Return the privacy loss of all messages of all runs together, and the privacy loss of each agent's messages.

        If `unproven_because` is not empty, or no run was added, the result is `UNPROVEN` and an empty list.
        """
        if self.unproven_because or not self._now:
            return UNPROVEN, []
        cost = _joined(self._before, _of_worst(self._now)) if self._before else self._now
        return cost.network.loss(delta), [agent.loss(delta) for agent in cost.agents]


def _of_worst(cost: RunCost) -> RunCost:
    """Return the costs of a run in which one imaginary worst sample (`Cost.most`) replaces all samples."""
    return RunCost(_changed([(agent,) for agent in cost.agents], lambda costs: costs[0].most()), cost.network.most())


def _joined(before: RunCost | None, cost: RunCost) -> RunCost:
    """Return the privacy costs of the earlier runs and of the next run together.

    The Rényi curves are computed and stored, as far as they fit into memory.
    """
    parts = [cost] if before is None else [before, cost]
    network = composed([part.network for part in parts]).settled()
    room = MOST_CURVES // max(1, len(network.samples)) - 1  # number of agents whose curves fit into memory
    made: list[Cost] = []

    def join(costs: tuple[Cost, ...]) -> Cost:
        """Return the sum of an agent's costs in several runs, without Rényi curves that do not fit into memory."""
        made.append(composed(costs).settled(MOST_CURVES if len(made) < room else 0))
        return made[-1]

    return RunCost(_changed(list(zip(*(part.agents for part in parts), strict=True)), join), network)


def _changed(agents: Sequence[tuple[Cost, ...]], change: Callable[[tuple[Cost, ...]], Cost]) -> list[Cost]:
    """Return the result of a function for the costs of each agent. Agents with the same cost objects share one result.

    Args:
        agents: for each agent, a tuple of costs.
        change: maps a tuple of costs to one cost.
    """
    keys = [tuple(map(id, costs)) for costs in agents]
    first = dict(zip(reversed(keys), reversed(agents), strict=True))
    made = {key: change(costs) for key, costs in first.items()}
    return [made[key] for key in keys]
