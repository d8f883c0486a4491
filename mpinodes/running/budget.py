"""A privacy budget, kept: by as much noise as it takes, or by stopping releases before it is overspent.

Both need no data. What a release costs follows from public constants, so a run on losses that are nowhere but 0 makes
the same events as the real one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Sequence

import numpy as np
from msgspec.structs import replace

from mpinodes.config.building import build, rebuilt
from mpinodes.core.errors import BadInput
from mpinodes.core.events import Events
from mpinodes.core.experiment import Budget, Experiment, Record, single_run
from mpinodes.core.messages import Solved, Vector
from mpinodes.core.parts import ALL, Loss, Setup
from mpinodes.privacy.accountant import Accountant, groups
from mpinodes.privacy.together import UNMAPPED, Cost, composed, cost_of, other_data, same_things, whole
from mpinodes.rounds.lockstep import simulate

CLOSE = 1e-3  # of the budget: so near below it is kept
LABELS = 1e-12, 1e12  # between which noise is looked for


class Nothing(Loss):
    """The loss that is 0 everywhere."""

    def value(self, x: Vector) -> float:
        """0."""
        return 0.0

    def grad(self, x: Vector, block: slice = ALL) -> Vector:
        """0."""
        return np.zeros_like(x[block])

    data_grad = grad

    def prox(self, v: Vector, step: float, near: Vector, tolerance: float) -> Solved:
        """Of 0: v."""
        return Solved(v, 0.0, 0)


def within_budget(setup: Setup, near: float = 0.0) -> Experiment:
    """The experiment with `privacy.epsilon`, or the rounds in which each agent stops, as its budget has it.

    Args:
        setup: of the experiment.
        near: a `privacy.epsilon` from which to look for its own, as one of another seed; 0: none is known. What is
            found does not depend on it.

    Raises:
        BadInput: no noise keeps it, or nothing is proven of the run.
    """
    experiment = setup.experiment
    budget = experiment.privacy.budget
    if budget is None:
        return experiment
    if not experiment.private:
        raise BadInput("privacy.budget: a run without noise loses everything; set privacy.epsilon and a mechanism")
    if because := setup.stream.unproven_because:
        raise BadInput(f"privacy.budget: nothing is proven, so there is none to keep: {because}")
    runs = [_Dry(build(single_run(experiment, r)) if r else setup) for r in range(experiment.repeats)]
    together = len(runs) > 1 and budget.covers == "all" and not other_data(setup)
    kept = [runs] if together else [[run] for run in runs]
    if budget.kept_by == "noise":
        label = min(_label(part, budget, near) for part in kept)
        return replace(experiment, privacy=replace(experiment.privacy, epsilon=label))
    stops = [_stops_together(runs, budget)] if together else [_stops(run, budget) for run in runs]
    by_run = np.array(stops)
    if len(budget.stops) == by_run.shape[1]:  # of a run that was to keep it together with others
        by_run = np.concatenate([by_run, [budget.stops]])
    first = np.where(by_run == 0, experiment.rounds, by_run).min(axis=0)
    stopping = replace(budget, stops=tuple(np.where(first == experiment.rounds, 0, first).tolist()))
    return replace(experiment, privacy=replace(experiment.privacy, budget=stopping))


def dry_events(setup: Setup) -> Events:
    """Return the events of all releases, (rounds, agents), of a run whose losses are 0 everywhere: without data."""
    nothing = Nothing()
    return events(dataclasses.replace(setup, losses=lambda agent: lambda t: nothing, cut=None, endless=True))


class _Dry:
    """A run without its data, by its `privacy.epsilon`."""

    def __init__(self, setup: Setup) -> None:
        self.setup, self.experiment = setup, setup.experiment

    def events(self, label: float | None = None) -> Events:
        """Return the events of all releases, (rounds, agents), at a `privacy.epsilon`; None: the experiment's own."""
        e = self.experiment
        privacy = replace(e.privacy, budget=None, epsilon=e.privacy.epsilon if label is None else label)
        unbound = replace(e, repeats=1, record=Record(), privacy=privacy)
        return dry_events(rebuilt(self.setup, unbound))


def _label(runs: Sequence[_Dry], budget: Budget, near: float) -> float:
    """The largest `privacy.epsilon` whose runs lose no more than the budget, published together.

    Less noise never loses less: a label below one that keeps the budget keeps it, and is not tried.

    Raises:
        BadInput: the label moves nothing, or no label keeps the budget.
    """
    experiment = runs[0].experiment
    spent = _spending_together(runs, experiment.privacy.budget_delta)
    by_label = [_events_by_label(run) for run in runs]

    def lost(label: float) -> float:
        return spent([at(label) for at in by_label], experiment.rounds)

    keeps, exceeds = 0.0, np.inf

    def over(label: float) -> bool:
        nonlocal keeps, exceeds
        if keeps < label < exceeds:
            if lost(label) <= budget.epsilon:
                keeps = label
            else:  # where too little noise leaves nothing proven, too
                exceeds = label
        return label > keeps

    for tried in (near, (1 + CLOSE) * near):
        over(tried)
    low = budget.epsilon
    while over(low):
        low /= 4
        if low < LABELS[0] and np.isnan(lost(low)):
            raise BadInput(
                f"privacy.budget: nothing is proven of {experiment.name} as it is set up, whatever its noise; see what "
                "a run without a budget says"
            )
        if low < LABELS[0]:
            raise BadInput(
                f"privacy.budget.epsilon = {budget.epsilon:g}: no noise keeps it: {experiment.name} loses more however "
                "strong its noise is"
            )
    high = 4 * low
    while not over(high):
        low, high = high, 4 * high
        if high > LABELS[1]:
            return experiment.epsilon  # there is nothing to keep
    while high > (1 + CLOSE) * low:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if over(middle) else (middle, high)
    while spent([run.events(low) for run in runs], experiment.rounds) > budget.epsilon:  # a lattice's steps
        low /= 1 + CLOSE
    return low


def _events_by_label(run: _Dry) -> Callable[[float], Events]:
    """The events of a run by its `privacy.epsilon`, but for a lattice's steps.

    Raises:
        BadInput: it does not move the noise.
    """
    one, half = run.events(1.0), run.events(2.0)
    if not (one.scale != half.scale).any():
        spent = _spending(run.setup, run.experiment.privacy.budget_delta)
        if not spent(one, run.experiment.rounds).any():  # the first message tells of nothing
            return lambda label: one
        raise BadInput(
            "privacy.budget: privacy.epsilon does not move this run's noise (algorithm.noise_scale fixes it): leave "
            "that out, or set kept_by=stopping"
        )
    if run.experiment.privacy.mechanism == "gaussian":
        return run.events
    # A scale is in proportion to 1/label, and what a release costs a sum of a constant and of such a part.
    columns = {}
    for name in ("scale", "l1", "l2", "rounding_l1", "rounding_l2", "tv_distance"):
        a, b = one.event(name), half.event(name)
        moving = np.subtract(a, b, out=np.zeros_like(a), where=a != b) * 2
        columns[name] = np.where(moving == 0, a, a - moving), moving

    def at(label: float) -> Events:
        made = one.copy()
        for name, (fixed, moving) in columns.items():
            made.event(name)[...] = fixed + moving / label
        return made

    return at


def _stops(run: _Dry, budget: Budget) -> list[int]:
    """By agent, the last round up to which its releases lose no more than the budget; 0: the last of all."""
    experiment = run.experiment
    spent, made = _spending(run.setup, experiment.privacy.budget_delta), run.events()
    agents = run.setup.topology.agents
    low, high = np.ones(agents, int), np.full(agents, experiment.rounds + 1)  # the first message tells of nothing
    while (high - low > 1).any():
        middle = (low + high) // 2
        over = np.array([not spent(made, int(t))[i] <= budget.epsilon for i, t in enumerate(middle)])
        low, high = np.where(over, low, middle), np.where(over, middle, high)
    return [int(t) if t < experiment.rounds else 0 for t in low]


def _stops_together(runs: Sequence[_Dry], budget: Budget) -> list[int]:
    """As `_stops`, of runs that are all published: one round for all agents, for a sample goes from one to another."""
    experiment = runs[0].experiment
    spent = _spending_together(runs, experiment.privacy.budget_delta)
    made = [run.events() for run in runs]
    low, high = 1, experiment.rounds + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if spent(made, middle) <= budget.epsilon else (low, middle)
    return [low if low < experiment.rounds else 0] * runs[0].setup.topology.agents


def _spending_together(runs: Sequence[_Dry], delta: float) -> Callable[[Sequence[Events], int], float]:
    """By each run's events and horizon, what the network loses by all of them."""
    if len(runs) == 1:
        of_one = _spending(runs[0].setup, delta)
        return lambda made, horizon: float(of_one(made[0], horizon).max())
    adjacency = runs[0].experiment.privacy.adjacency
    shared = runs[0].experiment.data["partition"] == "shared"

    def spent(made: Sequence[Events], horizon: int) -> float:
        classes: dict[Hashable, list[Cost]] = {}
        for run, its in zip(runs, made, strict=True):
            accountant = Accountant(groups(run.setup), shared)
            accountant.compose(its)
            try:
                cost = cost_of(run.setup, accountant, horizon).network
            except ValueError as error:
                raise BadInput(f"privacy.budget: {error}") from error
            classes.setdefault(same_things(run.setup, job=None), []).append(cost)
        if len(classes) > 1 and (because := UNMAPPED[adjacency]):
            raise BadInput(f"privacy.budget: nothing is proven of all runs together: {because}; or set covers=each")
        loss = whole([composed(costs) for costs in classes.values()]).loss(delta or 0.5)
        return loss.epsilon if delta else loss.pure

    return spent


def _spending(setup: Setup, delta: float) -> Callable[[Events, int], Vector]:
    """By events and horizon, what each agent's releases have lost; where all see a sample, what the network has."""
    shared = setup.experiment.data["partition"] == "shared"

    def spent(made: Events, horizon: int) -> Vector:
        accountant = Accountant(groups(setup), shared)
        accountant.compose(made)
        losses = accountant.losses(np.array([horizon]), delta or 0.5, None)
        of = losses.network * setup.topology.agents if shared else losses.agents[0]
        return np.array([loss.epsilon if delta else loss.pure for loss in of])

    return spent


def events(setup: Setup) -> Events:
    """The events of all releases of a run: (rounds, agents)."""
    layout = setup.layout
    return Events.concatenate([layout.open(rows.transpose(1, 0, 2))[1].copy() for rows in simulate(setup)])
