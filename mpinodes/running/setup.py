"""What every command begins with: from what was asked for to a set-up, its budget kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mpinodes.bounds import bounds
from mpinodes.config.building import build, rebuilt
from mpinodes.config.compose import compose
from mpinodes.config.metrics import metrics_of
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import Experiment, Tree
from mpinodes.core.parts import Loss, SampleLoss, Setup, is_built_in
from mpinodes.runlog.snapshot import packed_up


def set_up(asked: Tree, ranks: int | None) -> Setup:
    """The set-up of what the user asked for.

    Args:
        asked: nested dictionaries, as `core.experiment.parse` gives them.
        ranks: MPI processes, the logger among them; None in lockstep.

    Raises:
        BadInput: anything wrong with it, or no noise keeps the budget.
    """
    return kept_in_budget(compose(asked, ranks))


def kept_in_budget(setup: Setup, near: float = 0.0) -> Setup:
    """A set-up that was composed, with the noise or the stops that its budget asks for: ready to run.

    Args:
        setup: it.
        near: see `budget.within_budget`.

    Raises:
        BadInput: no noise keeps the budget.
    """
    if setup.experiment.privacy.budget is not None:
        from mpinodes.running.budget import within_budget

        setup = rebuilt(setup, within_budget(setup, near))
    return setup


def set_up_again(experiment: Experiment, connected_over: int) -> Setup:
    """The set-up of an experiment that has been set up before, perhaps by another process.

    Args:
        experiment: with every choice made, its budget's among them.
        connected_over: as found then.

    Raises:
        BadInput: a file is gone or has changed.
    """
    return replace(build(experiment), connected_over=connected_over, metrics=metrics_of(experiment.record.metrics))


def rehearse(setup: Setup) -> None:
    """Ask in the beginning for what else would fail in the end, when all rounds are done.

    Raises:
        BadInput: it fails.
    """
    from mpinodes.running.estimate import require_room

    if setup.experiment.checkpoint.are_asked_for:
        start = setup.algorithm.init(np.zeros(setup.dimension))
        metrics = {metric.name: vars(metric()) for metric in setup.metrics}
        try:
            packed_up({"state": start, "mixing": setup.mixing.init(0), "metrics": metrics})
        except TypeError as error:
            raise BadInput(f"checkpoint: {error}") from error
    require_room(setup)
    if not is_built_in(setup.stream):
        _rehearse_losses(setup)
    try:
        bounds(setup, np.array([1]), np.zeros((1, setup.dimension)))
    except Exception as error:
        raise BadInput(f"what {setup.experiment.name} proves of it fails: {type(error).__name__}: {error}") from error


def _rehearse_losses(setup: Setup) -> None:
    """Read and judge a first round of a user's stream.

    Raises:
        BadInput: it fails.
    """
    from mpinodes.evaluation.samples import Samples
    from mpinodes.launch.launching import in_words

    loss: Loss | None = None
    try:
        loss = setup.stream.of(0)(1)
        if isinstance(loss, SampleLoss) and loss.targets.ndim != 1:
            raise ValueError(f"targets of shape {loss.targets.shape}; expected (k,)")
        Samples(setup.stream, 1, setup.experiment.rounds).of(1, 1)
        setup.losses(0)(1).grad(np.zeros(setup.dimension), setup.blocks[0])
    except BadInput:
        raise
    except Exception as error:
        why = in_words(error)
        if isinstance(error, AttributeError) and not isinstance(loss, SampleLoss):
            why = f"a run is judged by samples, and a {type(loss).__name__} shows none: extend SampleLoss"
        raise BadInput(f"data: a round of {type(setup.stream).__name__} fails: {why}") from error
