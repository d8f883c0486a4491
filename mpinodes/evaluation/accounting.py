"""Compute the privacy section of a run's summary and record, and how accurate the local solves were.

`Accounting` takes the events of a run chunk by chunk, and prices them when the run ends.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
from msgspec import UNSET, structs
from numpy.typing import NDArray

from mpinodes.config.compose import compose
from mpinodes.core import RELEASED, Query, Setup, Vector
from mpinodes.core.events import Events
from mpinodes.core.experiment import Experiment
from mpinodes.core.seeds import Draws, Purpose
from mpinodes.privacy.accountant import UNPROVEN, Accountant, PrivacyLoss, PrivacyLosses, groups
from mpinodes.privacy.together import Together, cost_of, same_things
from mpinodes.privacy.views import Relayed, Views, views_of
from mpinodes.runlog.log import Variable, Variables
from mpinodes.summary import summary as typed


class Accounting:
    """The privacy accounting of one run: `take` all events, `close`, then read the results."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._key = _key(setup)
        self._accountant = Accountant(groups(setup), shared=setup.experiment.data["partition"] == "shared")
        self._losses: PrivacyLosses
        self._views: Views | None

    def take(self, events: Events) -> None:
        """Take the events of the next rounds; their array must not change later."""
        self._accountant.compose(events)

    def close(self, horizons: NDArray[np.int64], tell: Callable[[int, int], None]) -> None:
        """Price all events at the horizons.

        Nothing is proven if the stream reads public facts off the data, or if nothing is known of the noise's key.

        Args:
            horizons: rounds, ascending.
            tell: is called with the number of horizons done, and of all.
        """
        privacy = self._setup.experiment.privacy
        losses = self._accountant.losses(horizons, privacy.delta, claim(self._setup), privacy.tight, tell)
        if self._setup.stream.unproven_because or self._key == "unknown":
            unproven = [[UNPROVEN] * len(at) for at in losses.agents]
            losses = PrivacyLosses(losses.claimed, unproven, [UNPROVEN] * len(losses.network))
        self._losses = losses
        history, is_proven = self._accountant.history, not np.isnan(losses.network[-1].epsilon)
        relayed = Relayed.of(self._setup, history) if is_proven else None
        self._too_many = relayed is not None and not relayed.is_small
        small = relayed if relayed and relayed.is_small else None
        self._views = views_of(self._setup, history[: small.start], small) if small else None
        self._noise, self._solver = _Noise(), _Solver(self._setup.algorithm.solver_tolerance)
        for first, events in history.blocks():
            self._noise.take(events)
            self._solver.take(events[1:] if first == 0 else events)

    def publish(self, together: Together, mark: str) -> None:
        """Add the cost of the run to that of all runs of its job.

        Args:
            together: the cost of the runs so far.
            mark: `siblings.files_mark` of the run, because files may change before the next run of the job.
        """
        if np.isnan(self._losses.network[-1].epsilon):
            together.take_unproven("nothing is proven of a run alone")
            return
        rounds = len(self._accountant.history)
        try:
            cost = cost_of(self._setup, self._accountant, rounds)
        except ValueError as error:  # a stream of the user's breaks its contract
            together.take_unproven(str(error))
        else:
            together.take(cost, (same_things(self._setup, job=None), mark))

    def variables(self) -> Variables:
        """Return the variables of record.h5."""
        claimed, agents, network = self._losses
        (pure, pure_network), (epsilon, epsilon_network) = (
            ([[getattr(loss, name) for loss in at] for at in agents], [getattr(loss, name) for loss in network])
            for name in ("pure", "epsilon")
        )
        delta = self._setup.experiment.privacy.delta
        variables = {}
        for name, label, of_agents, of_network in (
            ("epsilon_claimed", "ε that the paper claims", claimed, claimed.max(axis=1)),
            ("epsilon_proven_pure", "pure ε, as proven", pure, pure_network),
            ("epsilon_proven", f"ε at δ = {delta:g}, as proven", epsilon, epsilon_network),
        ):
            variables[name] = Variable(("horizon", "agent"), np.array(of_agents), f"{label}, of an agent's share")
            variables[f"{name}_network"] = Variable(("horizon",), np.array(of_network), f"{label}, of the network")
        if seen := self._views:  # each node is known to learn less than all links give away
            pair, node = ("viewer", "agent"), f"ε toward one node at δ = {delta:g}"
            before = f"ε on all links at δ = {delta:g}, before relaying"
            variables |= {
                "epsilon_node": Variable(pair, seen.epsilon(delta), f"{node}, at most"),
                "epsilon_node_relayed": Variable(
                    pair, seen.epsilon_release(delta), f"{node}, of what is relayed, at most"
                ),
                "epsilon_before_relaying": Variable(("agent",), seen.epsilon_before(delta), before),
                "distance": Variable(pair, seen.distance, "distance of the node to the agent"),
            }
        return variables

    def solver(self) -> typed.SolverSummary | None:
        """Return how accurate the local solves were; None: the algorithm has none."""
        return self._solver.summary() if self._setup.algorithm.solves else None

    def summary(self, sharing: list[str]) -> typed.PrivacySummary:
        """Return the privacy section of the summary.

        Args:
            sharing: runs on other data that have the same noise.
        """
        (claimed, agents, network), setup, e = self._losses, self._setup, self._setup.experiment
        granted = None
        if budget := e.privacy.budget:
            delta, stops = e.privacy.budget_delta, budget.stops
            granted = typed.BudgetSummary(epsilon=budget.epsilon, delta=delta, kept_by=budget.kept_by, stops=[*stops])
        reasons = [setup.stream.unproven_because]
        if self._key == "unknown":
            reasons.append(
                "whoever has the mechanism's file may know its noise: it must draw each number from noise.at(t)"
            )
        solver = self.solver()
        if solver and math.isinf(setup.run.sample_sensitivity):
            reasons.append("nothing bounds the gradient of a sample's loss (problem.loss, data.bound)")
        elif solver and solver.unsolved:
            reasons.append("a local solver ended short of its tolerance")
        # A class states this for itself alone: a class that extends it may not keep it.
        holds_alone = vars(type(setup.algorithm)).get("against_colluders", False) and setup.topology.agents > 1
        is_owned = e.data["partition"] != "shared" and not math.isnan(network[-1].epsilon)
        return typed.PrivacySummary(
            delta=e.privacy.delta, adjacency=e.privacy.adjacency,
            agents=[_loss(claim, loss) for claim, loss in zip(claimed[-1], agents[-1], strict=True)],
            network=_loss(claimed[-1].max(), network[-1]), noise=self._noise.summary(setup), key=self._key,
            shares_noise_with=sharing, samples=_samples(setup), public=setup.stream.public,
            budget=granted,
            unproven_because="; ".join(filter(None, reasons)),
            uses_ceiling=self._accountant.uses_ceiling, exact_minimizers=setup.algorithm.exact_minimizers,
            against_colluders=bool(holds_alone and is_owned),
            views=_of_views(self._views, e.privacy.delta), views_left_out=self._too_many,
        )  # fmt: skip


def claim(setup: Setup) -> Callable[[int], float | Sequence[float] | None] | None:
    """Return a function that gives the ε that the paper claims after a round, for all agents or for each."""
    algorithm, passes, e = setup.algorithm, setup.stream.passes, setup.experiment
    if not e.private or (e.privacy.adjacency == "one-agent" and not algorithm.claims_agents):
        return None
    return lambda t: algorithm.claimed_epsilon(t, passes(t))


def proven(loss: PrivacyLoss) -> typed.ProvenSummary:
    """Return what is proven of a loss, as the summary holds it."""
    pure, epsilon, spent = _number(loss.pure), _number(loss.epsilon), loss.delta_spent or UNSET
    return typed.ProvenSummary(proven_pure=pure, proven=epsilon, rule=loss.rule, delta_spent=spent)


def _loss(claimed: float, loss: PrivacyLoss) -> typed.LossSummary:
    return typed.LossSummary(claimed=_number(claimed), **structs.asdict(proven(loss)))


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def together_section(together: Together, delta: float) -> typed.TogetherSummary:
    """Return what it costs to publish all runs."""
    network, agents = together.losses(delta)
    return typed.TogetherSummary(
        runs=together.runs,
        by=together.by,
        network=proven(network),
        agents=[proven(loss) for loss in agents],
        unproven_because=together.unproven_because,
    )


def _sizes(scale: Vector, l1: Vector) -> Vector:
    """Return, of some releases, the largest ε, L1 sensitivity and scale, and the smallest scale times −1: (4,)."""
    if not scale.size:
        return np.full(4, -np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        release = np.where(l1 == 0, 0.0, l1 / scale).max()
    return np.array([release, l1.max(), scale.max(), -scale.min()])


class _Noise:
    """The noise scales of a run, and the scale with which every release would have the nominal ε."""

    def __init__(self) -> None:
        self._of_data = self._of_all = np.full(4, -np.inf)  # as `_sizes`
        self._rounding = 0.0

    def take(self, events: Events) -> None:
        """Take the events of the next rounds."""
        scale, l1, rounding = events.scale, events.l1, events.rounding_l1
        data = np.broadcast_to(events.uses[..., None] > 0, scale.shape)
        self._of_data = np.maximum(self._of_data, _sizes(scale[data], l1[data]))
        self._of_all = np.maximum(self._of_all, _sizes(scale, l1))
        shares = np.divide(rounding, scale, out=np.zeros_like(rounding), where=scale > 0)
        self._rounding = max(self._rounding, float(shares.max(initial=0.0)))

    def summary(self, setup: Setup) -> typed.NoiseSummary | None:
        """Return the noise section of the summary; None: messages carry no noise."""
        e = setup.experiment
        if not e.private:
            return None
        release, l1, largest, least = (self._of_data if self._of_data[1] >= 0 else self._of_all).tolist()
        epsilon = e.privacy.epsilon
        return typed.NoiseSummary(
            mechanism=e.privacy.mechanism, backend=e.noise.backend, entropy=e.noise.entropy, key=e.noise.key,
            rounding=self._rounding, epsilon=epsilon, scale=largest, least_scale=-least,
            calibrated_scale=l1 / epsilon, calibrated=e.privacy.scale == "calibrated", release=release,
            remark=setup.stream.remark if _is_default(e) else "",
        )  # fmt: skip


def _is_default(experiment: Experiment) -> bool:
    """Return whether this is the default experiment, apart from the seed and what the run records and reports."""
    default = compose({}, None).experiment
    same = {"seed": default.seed, "record": default.record, "audit": default.audit, "output": None}
    same |= {"report": default.report, "deadline": default.deadline, "checkpoint": default.checkpoint}
    return structs.replace(experiment, **same) == default


def _of_views(seen: Views | None, delta: float) -> typed.ViewsSummary | None:
    """Return the largest ε toward a single node by its distance in hops; −1: no path leads there."""
    if seen is None:
        return None
    epsilon = seen.epsilon(delta)

    def most(at: float) -> float | None:
        return _number(epsilon[seen.distance == at].max())

    hops = sorted({int(at) for at in seen.distance[~np.isnan(seen.distance)].tolist()}, key=lambda at: (at < 0, at))
    return typed.ViewsSummary(relayed_from=seen.start, distance=hops, largest=[most(at) for at in hops])


def _samples(setup: Setup) -> int | None:
    """Return the number of samples, or of agents, in which adjacent data may differ; None: there is no end."""
    if setup.experiment.privacy.adjacency == "one-agent":
        return setup.topology.agents
    shares = setup.stream.shares
    if shares is None:
        return None
    return len(shares[0]) if setup.experiment.data["partition"] == "shared" else sum(map(len, shares))


def _key(setup: Setup) -> typed.KeyState | None:
    """Return the state of the noise's key: "secret", "rehearsal" (public) or "unknown"; None: there is no noise.

    A user's mechanism is tested: it draws noise under several keys, and again under the first. If the noise does not
    depend on the key alone, the state is "unknown".
    """
    e, d = setup.experiment, setup.dimension
    if not e.private:
        return None
    if not type(setup.mechanism).__module__.startswith("mpinodes.mechanisms."):
        query, keys = Query(np.zeros(d), 1.0, 1.0, 1, RELEASED, 1.0), (*range(9), 0)
        try:
            for t, agent in itertools.product((1, 2, 3, e.rounds), (0, setup.topology.agents - 1)):
                drawn = np.full((len(keys), d), np.nan)
                for key, out in zip(keys, drawn, strict=True):
                    setup.mechanism.release(query, t, Draws(bytes([key]) * 32, Purpose.NOISE, agent), out)
                if (drawn == drawn[0]).all(axis=0).any() or (drawn[-1] != drawn[0]).any():
                    return "unknown"
        except Exception:  # a user's file may raise anything
            return "unknown"
    return "secret" if e.secret else "rehearsal"


class _Solver:
    """Residuals and steps of the agents' local solves."""

    def __init__(self, tolerance: float) -> None:
        self._tolerance = tolerance
        self._largest, self._unsolved, self._number, self._steps, self._most = 0.0, 0, 0, 0.0, 0.0

    def take(self, events: Events) -> None:
        """Take the events of the next rounds."""
        residual, steps = events.residual, events.solver_steps
        self._largest = float(np.maximum(self._largest, residual.max(initial=0.0)))  # nan if any residual is nan
        self._unsolved += int((~(residual <= self._tolerance)).sum())
        self._number, self._steps = self._number + steps.size, self._steps + float(steps.sum())
        self._most = max(self._most, float(steps.max(initial=0)))

    def summary(self) -> typed.SolverSummary:
        """Return the section of the summary, of all rounds taken."""
        return typed.SolverSummary(
            tolerance=self._tolerance,
            largest_residual=self._largest,
            unsolved=self._unsolved,
            steps=self._steps / self._number if self._number else 0.0,
            most_steps=int(self._most),
        )
