"""Compute the privacy results of a run for summary.json and record.h5, and the accuracy of local solves.

In each round, each agent reports an event for each release, which describes the noise and the sensitivity of the
release. The accountant computes privacy losses from the events. If a job has repeats, this module also makes the
section of summary.json on the privacy loss of publishing all repeats.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from msgspec import UNSET, UnsetType, structs
from numpy.typing import NDArray

from mpinodes.config.own_files import tag_of
from mpinodes.core import RELEASED, Query, Setup, Vector
from mpinodes.core.events import Events
from mpinodes.core.experiment import log_spaced
from mpinodes.core.seeds import Draws, Purpose
from mpinodes.privacy.accountant import UNPROVEN, PrivacyLoss, PrivacyLosses, accountant_of, prove_together
from mpinodes.privacy.together import Together, cost_of, same_things
from mpinodes.privacy.views import Relayed, epsilons, views
from mpinodes.runlog.log import Variable, Variables
from mpinodes.summary import summary as typed


class Accounting:
    """Compute the privacy loss of one run: call `close` with the events of all releases, then read the results.

    An event describes the noise and the sensitivity of one release, which is a vector of a message or a gradient.

    Attributes:
        solver: the accuracy and the number of steps of the agents' local solves; None if the algorithm has no local
            solves. Set by `close`.
    """

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._key = _key(setup)

    def close(self, events: Events, horizons: NDArray[np.int64], tell: Callable[[int, int], None]) -> None:
        """Compute the privacy results of the run, above all the claimed and the proven ε after each of h rounds.

        - No ε is proven if the stream states a reason (`unproven_because`), if it is unknown whether the noise key is
          secret, or if the privacy accountant cannot prove an ε.
        - No ε is claimed if the run has no noise, if batches are secret, or if the paper claims no ε for
          `privacy.adjacency`.

        Args:
            events: (rounds, agents) the events of all releases of the run.
            horizons: (h,) the rounds after which results are computed, ascending.
            tell: a function that is called to report progress, with two numbers: for how many of the h rounds the
                results are computed, and h.
        """
        setup, privacy = self._setup, self._setup.experiment.privacy
        self._accountant = accountant_of(setup, events)
        algorithm, passes = setup.algorithm, setup.stream.passes
        claims = setup.experiment.private and (privacy.adjacency != "one-agent" or algorithm.claims_agents)
        claims &= setup.experiment.sampling == "none"  # no paper claims an epsilon for secret batches
        claim = (lambda t: algorithm.claimed_epsilon(t, passes(t))) if claims else None
        losses = self._accountant.losses(horizons, privacy.delta, claim, privacy.tight, tell)
        if setup.stream.unproven_because or self._key == "unknown":
            unproven = [[UNPROVEN] * len(at) for at in losses.agents]
            losses = PrivacyLosses(losses.claimed, unproven, [UNPROVEN] * len(losses.network))
        self._losses = losses
        is_proven = not np.isnan(losses.network[-1].epsilon)
        relayed = Relayed.of(setup, events) if is_proven else None
        self._too_many = relayed is not None and not relayed.is_small
        self._views = views(setup, events, relayed) if relayed else None
        self._noise = _noise(setup, events) if setup.experiment.private else None
        self.solver = _solver(setup.algorithm.solver_tolerance, events) if setup.algorithm.solves else None

    def publish(self, together: Together, mark: str) -> None:
        """Add this run to `together`, which computes the privacy loss of publishing all repeats of the job.

        If no ε is proven for this run, no ε is proven for all repeats together.

        Args:
            together: the object to which the earlier repeats were added.
            mark: a value that identifies the present state of the data files (`siblings.files_mark`). If this state
                changes, a sample of one repeat is not known to be the same sample in the next repeat.
        """
        if np.isnan(self._losses.network[-1].epsilon):
            together.take_unproven("no epsilon is proven for one of the runs alone")
            return
        cost = cost_of(self._setup, self._accountant, len(self._accountant.history))
        together.take(cost, (same_things(self._setup, job=None), mark))

    def variables(self) -> Variables:
        """Return the privacy results as variables of record.h5, by name.

        Three kinds of ε are returned for every horizon, once for each agent and once for the network: the ε that the
        paper claims, the proven ε at δ = 0, and the proven ε at the run's δ. A value is nan if no ε is claimed or
        proven.

        Let L be the last round in which any agent sends something new. If agents only relay messages after round L,
        there may be four more variables:

        - For each node and agent: a bound on the ε toward an adversary that sees only what this node sees, a bound on
          the ε of the messages from round L on, given all earlier messages, and the distance in hops.
        - For each agent: the ε of all messages before round L, toward an observer of all links.
        """
        claimed, agents, network = self._losses
        privacy = self._setup.experiment.privacy
        at = f"at δ = {privacy.delta:g}, adjacency {privacy.adjacency}"
        delta = privacy.delta
        pure, epsilon = np.moveaxis(np.array([[loss[:2] for loss in at] for at in agents]), -1, 0)
        pure_network, epsilon_network = np.array([loss[:2] for loss in network]).T
        variables = {}
        for name, label, of_agents, of_network in (
            ("claimed", "ε that the paper claims", claimed, claimed.max(axis=1)),
            ("proven_pure", f"pure ε as proven, adjacency {privacy.adjacency}", pure, pure_network),
            ("proven", f"ε as proven {at}", epsilon, epsilon_network),
        ):
            axes, of = ("horizon", "agent"), f"{label}, of an agent's share"
            variables[f"epsilon_{name}"] = Variable(axes, of_agents, of)
            variables[f"epsilon_{name}_network"] = Variable(axes[:1], of_network, f"{label}, of the network")
        if seen := self._views:  # a single node provably learns less than an observer of all links
            pair, node = ("viewer", "agent"), f"ε toward one node {at}"
            before = f"ε on all links {at}, before round {seen.start}"
            relayed = f"{node}, of messages from round {seen.start} on, at most"
            variables |= {
                "epsilon_node": Variable(pair, epsilons(seen.mu, delta), f"{node}, at most"),
                "epsilon_node_relayed": Variable(pair, epsilons(seen.relayed, delta), relayed),
                "epsilon_before_relaying": Variable(("agent",), epsilons(seen.before, delta), before),
                "distance": Variable(pair, seen.distance, "distance of the node to the agent"),
            }
        return variables

    def summary(self, sharing: list[str]) -> typed.PrivacySummary:
        """Return the privacy section of summary.json.

        Args:
            sharing: the names of other runs that drew the same noise, but may have other data.
        """
        (claimed, agents, network), setup, e = self._losses, self._setup, self._setup.experiment
        granted = samples = seen = None
        if budget := e.privacy.budget:
            delta, stops = e.privacy.budget_delta, budget.stops
            granted = typed.BudgetSummary(epsilon=budget.epsilon, delta=delta, kept_by=budget.kept_by, stops=[*stops])
        reasons = [setup.stream.unproven_because]
        if self._key == "unknown":
            reasons.append(
                "anyone with the mechanism's file may know the noise: the file must draw each number from noise.at(t)"
            )
        solver = self.solver
        if solver and math.isinf(setup.run.sample_sensitivity):
            reasons.append("no bound is known on a sample's gradient, or the loss may be nonconvex (problem.loss)")
        elif solver and solver.unsolved:
            reasons.append("a local solver ended before it reached its tolerance")
        # Read this attribute from the class alone, because a subclass may break the guarantee of its parent class.
        holds_alone = vars(type(setup.algorithm)).get("against_colluders", False) and setup.topology.agents > 1
        is_shared, shares = e.data["partition"] == "shared", setup.stream.shares
        if e.privacy.adjacency == "one-agent":
            samples = setup.topology.agents
        elif shares is not None:
            samples = len(shares[0]) if is_shared else sum(map(len, shares))
        if self._views:  # the largest ε toward a single node, by the node's distance in hops; −1: no path to the node
            epsilon, distance = epsilons(self._views.mu, e.privacy.delta), self._views.distance
            hops = sorted({int(at) for at in distance[~np.isnan(distance)].tolist()}, key=lambda at: (at < 0, at))
            largest = [_number(epsilon[distance == at].max()) for at in hops]
            seen = typed.ViewsSummary(relayed_from=self._views.start, distance=hops, largest=largest)
        drawn: typed.SamplingSummary | UnsetType = UNSET
        if e.sampling != "none":
            rates, idle = setup.run.rates, e.privacy.tight and e.sampling == "fixed"
            drawn = typed.SamplingSummary(scheme=e.sampling, least=min(rates), largest=max(rates), tight_is_idle=idle)
        tuning: typed.TuningSummary | UnsetType = UNSET
        if (tuned := e.privacy.tuning) is not None:
            tuning = typed.TuningSummary(mode=tuned.mode, trials=tuned.trials)
            cost = cost_of(setup, self._accountant, len(self._accountant.history)).network
            is_known = tuned.mode == "accounted" and tuned.mu > 0 and tuned.adjacency == e.privacy.adjacency
            if is_known and cost.is_gaussian and not math.isnan(network[-1].epsilon):
                # The worst case is a sample of the run that is used by tuning, too.
                both = cost._replace(pure=np.full_like(cost.pure, np.inf), rho=cost.rho + tuned.mu**2 / 2)
                tuning.epsilon = _number(both.settled().loss(e.privacy.delta).epsilon)
                if not tuned.tag or tuned.tag != tag_of(setup, tuned):
                    tuning.stated = True
        unsent: Literal["gradient", "message"] = "gradient" if setup.algorithm.noises_gradients else "message"
        return typed.PrivacySummary(
            delta=e.privacy.delta, adjacency=e.privacy.adjacency,
            agents=[_loss(claim, loss) for claim, loss in zip(claimed[-1], agents[-1], strict=True)],
            network=_loss(claimed[-1].max(), network[-1]), noise=self._noise, key=self._key,
            shares_noise_with=sharing, samples=samples, public=setup.stream.public, budget=granted,
            unproven_because="; ".join(filter(None, reasons)),
            uses_ceiling=self._accountant.uses_ceiling, exact_minimizers=setup.algorithm.exact_minimizers,
            against_colluders=bool(holds_alone and not is_shared and not math.isnan(network[-1].epsilon)),
            views=seen, views_left_out=self._too_many, sampling=drawn, tuning=tuning,
            covers_decisions=True if setup.algorithm.noises_gradients else UNSET,
            unsent=unsent if e.baseline in ("curator", "alone", "one-shot") else UNSET,
        )  # fmt: skip


def account_together(runs: Sequence[Setup], rows: Sequence[Vector]) -> None:
    """Compute the proven ε of several runs at once. `Accounting.close` then reads the results from the cache.

    Args:
        runs: the set-ups of the runs, which differ in the seed or in `privacy.epsilon`.
        rows: for each run, the rows of all rounds, (agents, rounds, row width).
    """
    events = [run.layout.open(own.transpose(1, 0, 2))[1] for run, own in zip(runs, rows, strict=True)]
    accountants = list(map(accountant_of, runs, events))
    privacy, horizons = runs[0].experiment.privacy, log_spaced(runs[0].experiment.rounds)
    prove_together(accountants, horizons, privacy.delta, privacy.tight)


def proven(loss: PrivacyLoss) -> typed.ProvenSummary:
    """Return a privacy loss in the form of summary.json: nan becomes None.

    The field `delta_spent` is left out if it is 0.
    """
    pure, epsilon, spent = _number(loss.pure), _number(loss.epsilon), loss.delta_spent or UNSET
    return typed.ProvenSummary(proven_pure=pure, proven=epsilon, rule=loss.rule, delta_spent=spent)


def _loss(claimed: float, loss: PrivacyLoss) -> typed.LossSummary:
    return typed.LossSummary(claimed=_number(claimed), **structs.asdict(proven(loss)))


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def together_section(together: Together, delta: float) -> typed.TogetherSummary:
    """Return the section of summary.json on the privacy loss of publishing all repeats of a job together."""
    network, agents = together.losses(delta)
    by_agent, because = [proven(loss) for loss in agents], together.unproven_because
    return typed.TogetherSummary(
        runs=together.runs, by=together.by, network=proven(network), agents=by_agent, unproven_because=because
    )


def _noise(setup: Setup, history: Events) -> typed.NoiseSummary:
    """Return the section of summary.json on the noise of a run.

    Scales and sensitivities are those of the releases that depend on a new loss function (a loss function that no
    earlier message of the agent depends on). If there are no such releases, scales and sensitivities are those of all
    releases.
    """
    e, epsilon = setup.experiment, setup.experiment.privacy.epsilon
    # Both arrays hold the largest ε, the largest L1 sensitivity, the largest scale, and the smallest scale times −1.
    # `of_data` covers the releases that carry data; `of_all` covers all releases.
    of_data, of_all, rounding = np.full(4, -np.inf), np.full(4, -np.inf), 0.0

    def sizes(scale: Vector, l1: Vector) -> Vector:
        with np.errstate(divide="ignore", invalid="ignore"):
            release = np.where(l1 == 0, 0.0, l1 / scale)
        return np.asarray(np.reshape([release, l1, scale, -scale], (4, -1)).max(axis=1, initial=-np.inf))

    for _, events in history.blocks():
        scale, l1 = events.scale, events.l1
        data = np.broadcast_to(events.uses[..., None] > 0, scale.shape)
        of_data = np.maximum(of_data, sizes(scale[data], l1[data]))
        of_all = np.maximum(of_all, sizes(scale, l1))
        shares = np.divide(events.rounding_l1, scale, out=np.zeros_like(scale), where=scale > 0)
        rounding = max(rounding, float(shares.max(initial=0.0)))
    release, largest_l1, largest, least = (of_data if of_data[1] >= 0 else of_all).tolist()
    return typed.NoiseSummary(
        mechanism=e.privacy.mechanism, backend=e.noise.backend, entropy=e.noise.entropy, key=e.noise.key,
        rounding=rounding, epsilon=epsilon, scale=largest, least_scale=-least,
        calibrated_scale=largest_l1 / epsilon, calibrated=e.privacy.scale == "calibrated", release=release,
        multiplier=e.privacy.noise_multiplier or UNSET,
    )  # fmt: skip


def _solver(tolerance: float, history: Events) -> typed.SolverSummary:
    """Return the section of summary.json on the agents' local solves: largest residual, steps, and how many failed.

    Round 1 is left out, because it has no local solves. A solve whose residual is above `tolerance` or nan counts as
    failed.
    """
    largest, unsolved, number, steps, most = 0.0, 0, 0, 0.0, 0.0
    for first, events in history.blocks():
        solves = events[1:] if first == 0 else events
        residual, taken = solves.residual, solves.solver_steps
        largest = float(np.maximum(largest, residual.max(initial=0.0)))  # nan if any residual is nan
        unsolved += int((~(residual <= tolerance)).sum())
        number, steps = number + taken.size, steps + float(taken.sum())
        most = max(most, float(taken.max(initial=0)))
    mean = steps / number if number else 0.0
    return typed.SolverSummary(
        tolerance=tolerance, largest_residual=largest, unsolved=unsolved, steps=mean, most_steps=int(most)
    )


def _key(setup: Setup) -> typed.KeyState | None:
    """Return who knows the noise key of the run; None if the run has no noise.

    - "secret": nobody knows the key.
    - "rehearsal": everybody with the seed knows the key.
    - "unknown": a user-defined mechanism fails a test of its noise. In this test, the mechanism raises an error, draws
      other noise when it gets the same key again, or draws a coordinate that is the same number for nine keys.
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
        except Exception:  # a user-defined mechanism may raise any error
            return "unknown"
    return "secret" if e.secret else "rehearsal"
