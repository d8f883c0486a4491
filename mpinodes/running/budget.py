"""Keep a run within its privacy budget: choose enough noise, or the round after which an agent releases no more data.

Neither choice uses the data. This module uses three terms:

- An event is the record of one release for privacy accounting (`core.events`): the scale of the noise and the
  sensitivity. Events depend on data only through the accuracy of local solvers: apart from this, a run whose loss
  functions are 0 everywhere has the same events.
- The nominal epsilon is the setting that scales the noise: `privacy.epsilon`. If the algorithm noises gradients, the
  nominal epsilon is 1/`privacy.noise_multiplier`.
- The proven epsilon is the privacy loss that is proven for the run. The proven epsilon must not exceed the budget.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Sequence
from functools import cache, partial

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from mpinodes.config import registry
from mpinodes.config.building import build, rebuilt
from mpinodes.core.cached import cached
from mpinodes.core.errors import BadInput, is_users
from mpinodes.core.events import Events
from mpinodes.core.experiment import Budget, Experiment, Record, single_run
from mpinodes.core.messages import Solved, Vector
from mpinodes.core.parts import ALL, Loss, Setup
from mpinodes.privacy.accountant import accountant_of
from mpinodes.privacy.together import UNMAPPED, Cost, composed, cost_of, other_data, same_things, whole
from mpinodes.rounds.lockstep import public, simulate

CLOSE = 1e-3  # relative accuracy of the nominal epsilon
SECANTS = 6  # most steps of the secant method before the bisection
NEIGHBORS = 3  # most neighboring intervals of the bisection that are tried after the secant method
NEAR = 0.02  # relative error of the proven epsilon after which the secant method makes its last step
ROUNDING = 1e-9  # more than the relative rounding error of the proven epsilon
RANGE = 1e-12, 1e12  # the range of nominal epsilons that is searched


class Nothing(Loss):
    """Define the loss function that is 0 at every point."""

    def value(self, x: Vector) -> float:
        """Return 0 at every point x (d,)."""
        return 0.0

    def grad(self, x: Vector, block: slice = ALL) -> Vector:
        """Return the coordinates `block` of the gradient at x, which are zeros."""
        return np.zeros_like(x[block])

    data_grad = grad

    def prox(self, v: Vector, step: float, near: Vector, tolerance: float) -> Solved:
        """Return v, the minimizer of f(x) + ‖x − v‖²/(2·step) over x, because the loss function f is 0."""
        return Solved(v, 0.0, 0)


def within_budget(setup: Setup, near: float = 0.0) -> Experiment:
    """Return the experiment with the setting that keeps the run within its privacy budget.

    An experiment without a budget is returned unchanged. The setting depends on `privacy.budget.kept_by`:

    - noise: the setting is `privacy.epsilon` or, if the algorithm noises gradients, `privacy.noise_multiplier`.
    - stopping: the setting is `privacy.budget.stops`, the last round in which each agent may release data; 0 means that
      the agent may release data in all rounds.

    Args:
        setup: the set-up of the experiment.
        near: the nominal epsilon (see `privacy.epsilon`) at which the search for the noise starts; 0 if unknown. The
            result does not depend on this argument.

    Raises:
        BadInput: the run has no noise; no epsilon is proven; no value of the setting keeps the budget; or the user has
            set another `privacy.noise_multiplier` than the budget determines.
    """
    experiment = setup.experiment
    budget = experiment.privacy.budget
    if budget is None:
        return experiment
    if not experiment.private:
        raise BadInput("privacy.budget: a run without noise cannot keep a budget; set privacy.epsilon and a mechanism")
    reason = setup.stream.unproven_because
    if reason and reason != setup.stream.unchecked_facts:
        raise BadInput(f"privacy.budget: no budget can be kept, because no epsilon is proven: {reason}")
    runs = [build(single_run(experiment, r)) if r else setup for r in range(experiment.repeats)]
    together = len(runs) > 1 and not other_data(setup)
    published = [runs] if together else [[run] for run in runs]
    if budget.kept_by == "noise":
        nominal = min(_nominal_epsilon(part, budget, near) for part in published)
        chosen = _at(setup, nominal)
        asked, multiplier = experiment.privacy.noise_multiplier, chosen.privacy.noise_multiplier
        if asked is not None and asked != multiplier:
            raise BadInput(
                f"privacy.noise_multiplier = {asked:g}: privacy.budget.epsilon determines this key, here as "
                f"{multiplier:.6g}; leave out one of the two keys"
            )
        return chosen
    by_run = np.array([_stops(part, budget) for part in published])
    if len(budget.stops) == by_run.shape[1]:  # stops that were computed before, for this run together with other runs
        by_run = np.concatenate([by_run, [budget.stops]])
    first = np.where(by_run == 0, experiment.rounds, by_run).min(axis=0)
    stopping = replace(budget, stops=tuple(np.where(first == experiment.rounds, 0, first).tolist()))
    return replace(experiment, privacy=replace(experiment.privacy, budget=stopping))


def dry_events(run: Setup, nominal: float | None = None) -> Events:
    """Return the events of all releases of a run, from which its privacy loss is computed.

    The events are computed with loss functions that are 0 everywhere, as if all local solvers converged. The privacy
    budget is ignored, and the run does not end early. The axes of the result are (rounds, agents).

    Args:
        run: the set-up of the run.
        nominal: the number that scales the noise, in place of `privacy.epsilon`; None means the noise of the
            experiment.
    """
    e, nothing = run.experiment, Nothing()
    e = e if nominal is None else _at(run, nominal)
    privacy = replace(e.privacy, budget=None)
    unbound = rebuilt(run, replace(e, repeats=1, record=Record(), privacy=privacy))
    dry = dataclasses.replace(unbound, losses=lambda agent: lambda t: nothing, cut=None, endless=True)
    return cached(lambda: events(dry), lambda: (dry_events, *public(dry)))


def _at(run: Setup, nominal: float) -> Experiment:
    """Return the experiment with `nominal` as its `privacy.epsilon`.

    If the algorithm noises gradients, 1/`nominal` is set as `privacy.noise_multiplier` instead.
    """
    e = run.experiment
    if run.algorithm.noises_gradients:
        return replace(e, privacy=replace(e.privacy, noise_multiplier=1 / nominal))
    return replace(e, privacy=replace(e.privacy, epsilon=nominal))


def _nominal_epsilon(runs: Sequence[Setup], budget: Budget, near: float) -> float:
    """Return the largest nominal epsilon with which several runs together keep a privacy budget.

    The nominal epsilon scales the noise: the larger, the less noise. The result has the relative accuracy `CLOSE`. If
    the runs keep the budget with almost no noise, return `privacy.epsilon` of the experiment.

    Args:
        runs: the set-ups of the runs.
        budget: the budget of all runs together.
        near: a nominal epsilon at which the search starts; 0 if no value is known.

    Raises:
        BadInput: the nominal epsilon does not change the noise; no epsilon is proven; or the runs exceed the budget,
            however large the noise is.
    """
    experiment, rounds = runs[0].experiment, runs[0].experiment.rounds
    events_of, keeps, exceeds = [_events_by_epsilon(run) for run in runs], 0.0, np.inf

    @cache
    def lost(nominal: float) -> float:
        return float(_lost(runs, [at(nominal) for at in events_of], rounds).max())

    def over(nominal: float) -> bool:
        nonlocal keeps, exceeds
        if keeps < nominal < exceeds:
            if lost(nominal) <= budget.epsilon:
                keeps = nominal
            else:  # also if the loss is nan: no epsilon is proven with so little noise
                exceeds = nominal
        if nominal > keeps and nominal < RANGE[0]:
            if np.isnan(lost(nominal)):
                raise BadInput(
                    f"privacy.budget: with these settings, no epsilon is proven for {experiment.name}, however large "
                    "the noise is; a run without privacy.budget prints the reason"
                )
            raise BadInput(
                f"privacy.budget.epsilon = {budget.epsilon:g}: no noise keeps this budget: {experiment.name} "
                "exceeds the budget, however large the noise is; set a larger budget"
            )
        return nominal > keeps

    # The search assumes that the proven epsilon does not decrease with the nominal epsilon. The bisection needs few
    # nominal epsilons near the result, which the secant method on a log scale predicts.
    nominal, last = near or budget.epsilon, (0.0, 0.0)
    for _ in range(SECANTS):
        over(nominal)
        proven = lost(nominal)
        if nominal == last[0] or not 0 < proven < np.inf:
            break
        missing = np.log(budget.epsilon / proven)
        if abs(missing) < 2 * CLOSE:  # most often, the result for another seed is also the result here
            break
        slope = np.log(proven / last[1]) / np.log(nominal / last[0]) if all(last) else 1.0
        last = nominal, proven
        nominal = float(np.clip(nominal * np.exp(missing / np.clip(slope, 0.5, 2.0)), *RANGE))
        if abs(missing) < NEAR:
            break
    for _ in range(NEIGHBORS):
        low, high = _bisected(budget.epsilon, nominal.__lt__)
        if over(low):
            nominal = low / (1 + CLOSE / 2)  # in the next smaller interval, whose ratio is above 1 + CLOSE / 2
        elif not over(high):
            nominal = high
        else:
            break
    if not over(RANGE[1]):
        return experiment.privacy.epsilon  # the runs keep the budget with almost no noise
    low, _ = _bisected(budget.epsilon, over)
    # The spacing of lattice noise changes in steps, and a user's part may scale noise in any way: `lost` ignores both.
    parts = [part for run in runs for part in (run.algorithm, run.mechanism, run.mixing)]
    is_exact = experiment.noise.backend != "lattice" and not any(is_users(type(part)) for part in parts)
    if is_exact and lost(low) <= budget.epsilon * (1 - ROUNDING):
        return low
    while _lost(runs, [dry_events(run, low) for run in runs], rounds).max() > budget.epsilon:
        low /= 1 + CLOSE
    return low


def _bisected(low: float, is_above: Callable[[float], bool]) -> tuple[float, float]:
    """Return two nominal epsilons, of a ratio of at most 1 + `CLOSE`, between which a function becomes true.

    All results for the same `low` belong to one grid of nominal epsilons.

    Args:
        low: where the search starts.
        is_above: a function that is false for small and true for large nominal epsilons.
    """
    while is_above(low):
        low /= 4
    high = 4 * low
    while not is_above(high):
        low, high = high, 4 * high
    while high > (1 + CLOSE) * low:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if is_above(middle) else (middle, high)
    return low, high


def _events_by_epsilon(run: Setup) -> Callable[[float], Events]:
    """Return a function that maps a nominal epsilon to the events of a run, which determine its privacy loss.

    The nominal epsilon is the number that scales the noise. If noise is rounded to a lattice (`noise.backend` =
    lattice), or if the run has user-defined parts, the events may be only approximate.

    Raises:
        BadInput: the nominal epsilon does not change the noise.
    """
    at_one, e = dry_events(run, 1.0), run.experiment
    # The scale of pure noise is a constant divided by the nominal epsilon, which no built-in algorithm reads.
    parts, is_divided = (run.mechanism, run.algorithm), run.mechanism.pure and e.noise.backend == "numpy"
    if is_divided and not run.algorithm.scale_key and not any(is_users(type(part)) for part in parts):
        at_two = at_one.copy()
        at_two.event("scale")[...] /= 2
    else:
        at_two = dry_events(run, 2.0)
    if not (at_one.scale != at_two.scale).any():
        if not _lost([run], [at_one], run.experiment.rounds).any():  # no message depends on data: a run of one round
            return lambda nominal: at_one
        fixing_key = run.algorithm.scale_key or "a setting of the algorithm"
        raise BadInput(
            f"privacy.budget: privacy.epsilon does not change this run's noise, because {fixing_key} fixes the noise: "
            f"leave out {fixing_key}, or set privacy.budget.kept_by=stopping"
        )
    if not registry.find(registry.MECHANISMS, run.experiment.privacy.mechanism).pure:
        return partial(dry_events, run)
    # Each number of an event is a + b/nominal with constants a and b, so two runs determine a and b.
    columns = {}
    for name in ("scale", "l1", "l2", "rounding_l1", "rounding_l2", "tv_distance"):
        a, b = at_one.event(name), at_two.event(name)
        moving = np.subtract(a, b, out=np.zeros_like(a), where=a != b) * 2
        columns[name] = np.where(moving == 0, a, a - moving), moving

    def at(nominal: float) -> Events:
        made = at_one.copy()
        for name, (fixed, moving) in columns.items():
            made.event(name)[...] = fixed + moving / nominal
        return made

    return at


def _stops(runs: Sequence[Setup], budget: Budget) -> list[int]:
    """Return for each agent the last round in which the agent may release data without exceeding the privacy budget.

    The entry is 0 for an agent that may release data in all rounds. All entries are equal if there are several runs, or
    if the agents share the samples.

    Args:
        runs: the set-ups of the runs, which are published together.
        budget: the budget of all runs together.
    """
    rounds, agents, made = runs[0].experiment.rounds, runs[0].topology.agents, [dry_events(run) for run in runs]

    @cache
    def over(horizon: int) -> NDArray[np.bool_]:
        return ~(_lost(runs, made, horizon) <= budget.epsilon)  # also true if the loss is nan: no epsilon is proven

    # The search starts at round 1, because the first message depends on no data.
    low, high = np.ones(agents, int), np.full(agents, rounds + 1)
    while (high - low > 1).any():
        middle = (low + high) // 2
        is_over = np.array([over(int(t))[agent] for agent, t in enumerate(middle)])
        low, high = np.where(is_over, low, middle), np.where(is_over, middle, high)
    return [int(t) if t < rounds else 0 for t in low]


def _lost(runs: Sequence[Setup], made: Sequence[Events], horizon: int) -> Vector:
    """Return for each agent the proven epsilon, at the budget's delta, of its messages up to the round `horizon`.

    The messages of all runs are counted together. If there are several runs, or if the agents share the samples, each
    entry is the epsilon of the whole network. An entry is nan if no epsilon is proven.

    Args:
        runs: the set-ups of the runs, which are published together.
        made: for each run, the events of all releases, from which the privacy loss is computed.
        horizon: the last round whose messages are counted.

    Raises:
        BadInput: the samples, rounds or agents of several runs cannot be matched.
    """
    e, agents, delta = runs[0].experiment, runs[0].topology.agents, runs[0].experiment.privacy.budget_delta
    accountants = [*map(accountant_of, runs, made)]
    if len(runs) == 1:
        losses = accountants[0].losses(np.array([horizon]), delta or 0.5, None)
        of_agents = losses.network * agents if e.data["partition"] == "shared" else losses.agents[0]
        return np.array([loss.epsilon if delta else loss.pure for loss in of_agents])
    classes: dict[Hashable, list[Cost]] = {}
    for run, accountant in zip(runs, accountants, strict=True):
        try:
            cost = cost_of(run, accountant, horizon).network
        except ValueError as error:
            raise BadInput(f"privacy.budget: {error}") from error
        classes.setdefault(same_things(run, job=None), []).append(cost)
    if len(classes) > 1 and (reason := UNMAPPED[e.privacy.adjacency]):
        raise BadInput(f"privacy.budget: nothing is proven for all repeats together: {reason}; or set repeats=1")
    loss = whole([composed(costs) for costs in classes.values()]).loss(delta or 0.5)
    return np.full(agents, loss.epsilon if delta else loss.pure)


def events(setup: Setup) -> Events:
    """Run all agents in this process, and return the event of each release; the axes are (rounds, agents).

    An event is the record of one release for privacy accounting: the scale of the noise and the sensitivity.
    """
    layout = setup.layout
    blocks = [layout.open(rows.transpose(1, 0, 2))[1].copy().data for rows in simulate(setup)]
    return Events(np.concatenate(blocks), layout.dimension)
