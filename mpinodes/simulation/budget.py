"""A privacy budget, kept: by as much noise as it takes, or by stopping releases before it is overspent.

Both need no data. What a release costs follows from public constants, so a run on losses that are nowhere but 0 makes
the same events as the real one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
from msgspec.structs import replace

from mpinodes.config.setup import Parts, build
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import Budget, Experiment, Record, single_run
from mpinodes.core.protocol import Loss, Solved, Vector
from mpinodes.privacy.accountant import Accountant
from mpinodes.results.accounting import groups
from mpinodes.simulation.agent import open_rows
from mpinodes.simulation.lockstep import simulate

CLOSE = 1e-3  # of the budget: so near below it is kept
LABELS = 1e-12, 1e12  # between which noise is looked for


class Nothing:
    """The loss that is 0 everywhere."""

    def value(self, x: Vector) -> float:
        """0."""
        return 0.0

    def grad(self, x: Vector, block: slice = slice(None)) -> Vector:
        """0."""
        return np.zeros_like(x[block])

    data_grad = grad

    def prox(self, v: Vector, step: float, near: Vector, tolerance: float) -> Solved:
        """Of 0: v."""
        return Solved(v, 0.0, 0)


@dataclass(frozen=True)
class Dry(Parts):
    """The parts of an experiment, without its data."""

    def losses(self, agent: int) -> Callable[[int], Loss]:
        """`Nothing`."""
        nothing = Nothing()
        return lambda t: nothing


def within_budget(experiment: Experiment) -> Experiment:
    """The experiment with `privacy.epsilon`, or the rounds in which each agent stops, as its budget has it.

    Raises:
        BadInput: no noise keeps it, or nothing is proven of the run.
    """
    budget = experiment.privacy.budget
    if budget is None:
        return experiment
    if not experiment.private:
        raise BadInput("privacy.budget: a run without noise loses everything; set privacy.epsilon and a mechanism")
    runs = [replace(single_run(experiment, r), record=Record()) for r in range(experiment.repeats)]
    if budget.kept_by == "noise" and experiment.algorithm.get("noise_scale"):
        raise BadInput("privacy.budget: algorithm.noise_scale fixes the noise: leave it out, or set kept_by=stopping")
    if budget.kept_by == "noise":
        label = min(_label(run, budget) for run in runs)
        return replace(experiment, privacy=replace(experiment.privacy, epsilon=label))
    by_run = np.array([_stops(run, budget) for run in runs])
    first = np.where(by_run == 0, experiment.rounds, by_run).min(axis=0)
    stopping = replace(budget, stops=tuple(np.where(first == experiment.rounds, 0, first).tolist()))
    return replace(experiment, privacy=replace(experiment.privacy, budget=stopping))


def _label(experiment: Experiment, budget: Budget) -> float:
    """The largest `privacy.epsilon` whose run loses no more than the budget."""
    parts = _dry(experiment)
    spent = _spending(parts, experiment.privacy.budget_delta)
    at = _events_by_label(experiment)

    def lost(label: float) -> float:
        return float(spent(at(label), experiment.rounds).max())

    def over(label: float) -> bool:
        return not lost(label) <= budget.epsilon  # where too little noise leaves nothing proven, too

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
    while float(spent(_made(experiment, low), experiment.rounds).max()) > budget.epsilon:  # a lattice's steps
        low /= 1 + CLOSE
    return low


def _events_by_label(experiment: Experiment) -> Callable[[float], Vector]:
    """The events of a run by its `privacy.epsilon`, but for a lattice's steps."""
    if experiment.privacy.mechanism == "gaussian":
        return lambda label: _made(experiment, label)
    # A scale is in proportion to 1/label, and what a release costs a sum of a constant and of such a part.
    one, half = _made(experiment, 1.0), _made(experiment, 2.0)
    moving = np.subtract(one, half, out=np.zeros_like(one), where=one != half) * 2
    fixed = np.where(moving == 0, one, one - moving)
    return lambda label: fixed + moving / label


def _made(experiment: Experiment, label: float) -> Vector:
    return events(_dry(replace(experiment, privacy=replace(experiment.privacy, epsilon=label))))


def _stops(experiment: Experiment, budget: Budget) -> list[int]:
    """By agent, the last round up to which its releases lose no more than the budget; 0: the last of all."""
    parts = _dry(experiment)
    spent, made = _spending(parts, experiment.privacy.budget_delta), events(parts)
    agents = parts.topology.agents
    low, high = np.ones(agents, int), np.full(agents, experiment.rounds + 1)  # the first message tells of nothing
    while (high - low > 1).any():
        middle = (low + high) // 2
        over = np.array([not spent(made, int(t))[i] <= budget.epsilon for i, t in enumerate(middle)])
        low, high = np.where(over, low, middle), np.where(over, middle, high)
    return [int(t) if t < experiment.rounds else 0 for t in low]


def _spending(parts: Parts, delta: float) -> Callable[[Vector, int], Vector]:
    """By events and horizon, what each agent's releases have lost; where all see a sample, what the network has."""
    shared = parts.experiment.data["partition"] == "shared"

    def spent(made: Vector, horizon: int) -> Vector:
        accountant = Accountant(groups(parts), shared)
        accountant.compose(made)
        losses = accountant.losses(np.array([horizon]), delta or 0.5, None)
        of = losses.network * parts.topology.agents if shared else losses.agents[0]
        return np.array([loss.epsilon if delta else loss.pure for loss in of])

    return spent


def events(parts: Parts) -> Vector:
    """The events of all releases of a run: (rounds, agents, fields)."""
    return np.concatenate([open_rows(parts, rows.transpose(1, 0, 2))[1].copy() for rows in simulate(parts)])


def _dry(experiment: Experiment) -> Dry:
    endless = {"stop": 0.0} if "stop" in experiment.algorithm else {}
    unbound = replace(
        experiment, algorithm=experiment.algorithm | endless, privacy=replace(experiment.privacy, budget=None)
    )
    parts = build(unbound)
    return Dry(**{field.name: getattr(parts, field.name) for field in fields(parts)})
