"""Make the `Setup` of a run from the user's settings, with the noise that keeps the privacy budget."""

from __future__ import annotations

import numpy as np

from mpinodes.bounds import bounds
from mpinodes.config.building import rebuilt
from mpinodes.config.compose import compose
from mpinodes.core.asked import Tree
from mpinodes.core.errors import BadInput, is_users, place_of
from mpinodes.core.parts import Loss, SampleLoss, Setup
from mpinodes.rounds.step import Arrivals, Step
from mpinodes.runlog.snapshot import packed_up
from mpinodes.summary.summary import Summary


def set_up(asked: Tree, ranks: int | None) -> Setup:
    """Return the set-up of the user's experiment, ready to run.

    Args:
        asked: the settings as nested dictionaries, as `core.asked.parse` returns them.
        ranks: the number of MPI processes, including the logger; None if one process runs all agents.

    Raises:
        BadInput: the experiment is invalid, a user's file raises an exception, or the privacy budget cannot be kept.
    """
    from mpinodes.launch.launching import in_words, users_line

    try:
        return kept_in_budget(compose(asked, ranks))
    except Exception as error:
        if isinstance(error, BadInput) or not users_line(error):
            raise
        raise BadInput(in_words(error)) from error


def kept_in_budget(setup: Setup, near: float = 0.0) -> Setup:
    """Return a set-up of the same run that keeps the privacy budget.

    The setting `privacy.budget.kept_by` decides how: by enough noise, or by a last round for each agent, after which
    the agent releases no more data (`Budget.stops`). A set-up without a budget is returned unchanged.

    Args:
        setup: the set-up, as `compose` returns it.
        near: a start value for the search of the noise, or 0; see `budget.within_budget`.

    Raises:
        BadInput: the budget cannot be kept; see `budget.within_budget`.
    """
    if setup.experiment.privacy.budget is not None:
        from mpinodes.running.budget import within_budget

        setup = rebuilt(setup, within_budget(setup, near))
    return setup


def rehearse(setup: Setup) -> None:
    """Try out, before the first round, the steps of a run that could fail only after long computations.

    No file is written. The steps are:

    - find room on the disk for the log and the record;
    - evaluate a loss of a user's stream;
    - compute the bounds of theorems, and the first two rounds of agent 0, if the run has a user's part other than a
      metric or a graph;
    - check that summary.json has no other value under the key of a user's metric;
    - encode the first states for a checkpoint, if `checkpoint.every` is set.

    Raises:
        BadInput: a step fails.
    """
    from mpinodes.launch.launching import in_words
    from mpinodes.running.estimate import require_room

    require_room(setup)
    parts = [setup.algorithm, setup.mixing, setup.mechanism, setup.feasible, setup.run.steps or setup.feasible]
    loss: Loss | None = None
    try:
        if is_users(type(setup.stream)):
            from mpinodes.evaluation.samples import Samples

            trial = f"data: round 1 of {type(setup.stream).__name__}"
            loss = setup.stream.of(0)(1)
            if isinstance(loss, SampleLoss) and loss.targets.shape != loss.features.shape[:1]:
                rows = loss.features.shape[0]
                raise ValueError(f"a loss has {rows} rows of features, but targets of shape {loss.targets.shape}")
            Samples(setup.stream, 1, setup.experiment.rounds).of(1, 1)
            setup.losses(0)(1).grad(np.zeros(setup.dimension), setup.blocks[0])
        if any(is_users(part) for part in (setup.loss, type(setup.stream), *map(type, parts))):
            trial = f"bounds() of {setup.experiment.name}"
            bounds(setup, np.array([1]), np.zeros((1, setup.dimension)))
            trial = "a trial of the first two rounds"
            _compute_two_rounds(setup)
    except BadInput:
        raise
    except Exception as error:
        reason = in_words(error)
        if isinstance(error, AttributeError) and trial.startswith("data") and not isinstance(loss, SampleLoss):
            reason = f"the evaluation needs samples, and a {type(loss).__name__} has none: extend SampleLoss"
        raise BadInput(f"{trial} fails: {reason}") from error
    for metric in filter(is_users, setup.metrics):
        if (key := (metric.key or metric.name).partition(".")[0]) in Summary.__struct_fields__:
            place = place_of(metric, "key" if metric.key else "name")
            raise BadInput(f"record.metrics: {place}: summary.json already has a {key!r}; choose another name")
    if setup.experiment.checkpoint.every:
        start = setup.algorithm.init(np.zeros(setup.dimension))
        metrics = {metric.name: vars(metric()) for metric in setup.metrics}
        try:
            packed_up({"state": start, "mixing": setup.mixing.init(0), "metrics": metrics})
        except TypeError as error:
            raise BadInput(f"checkpoint: {error}") from error


def _compute_two_rounds(setup: Setup) -> None:
    """Compute at most two rounds of agent 0, to find errors in a user's parts.

    No other agent is computed: the messages of all neighbors are copies of the message of agent 0.

    Raises:
        BadInput: the state of the algorithm has no field with the name of a hidden part.
    """
    algorithm, step = type(setup.algorithm), Step(setup, 0)
    arrivals: Arrivals | None = None
    frame, row = np.zeros(setup.frame_width), np.zeros(setup.layout.width)
    state = step.start()
    for name in algorithm.hidden:
        if name.isidentifier() and not hasattr(state.algorithm, name):
            state_class = type(state.algorithm).__name__
            raise BadInput(f"{place_of(algorithm, 'hidden')}: the {state_class} of init() has no field {name!r}")
    with np.errstate(all="ignore"):
        for _ in range(min(2, setup.experiment.rounds)):
            state = step(state, arrivals, frame, row)
            arrivals = Arrivals.of(setup, 0, state.here.senders, dict.fromkeys(state.here.senders, frame))
