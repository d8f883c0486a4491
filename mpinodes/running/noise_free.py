"""Run an experiment again without noise, to show how much the noise increases regret or decreases accuracy."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from mpinodes.config.building import build
from mpinodes.config.compose import compose
from mpinodes.core import Setup
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import single_run, stored
from mpinodes.core.messages import Diverged
from mpinodes.evaluation.comparator import Comparator
from mpinodes.evaluation.evaluator import Evaluator, rules
from mpinodes.rounds.lockstep import simulate
from mpinodes.runlog.checkpoints import places
from mpinodes.runlog.directories import write_text
from mpinodes.runlog.reader import Reader
from mpinodes.summary.merging import merged
from mpinodes.summary.summary import NOISE_FREE, NoiseFree, WorthSummary

CURVES = ("network_regret", "accuracy", "accuracy_train", "rmse", "rmse_train")
# Limits below which the second run takes at most half a second: on agents × rounds × repeats, and on the number of
# features of all samples that are used.
SHORT, LIGHT = 2000, 1e6


def make_if_short(setup: Setup, directory: Path) -> None:
    """Run the experiment again without noise (`make`), if this takes very little time.

    Nothing is done in these cases:

    - The run has no noise, or has too many rounds, agents, repeats, samples or features.
    - The experiment has user-defined parts or further metrics (`record.metrics`).
    - The experiment does not set `data.batch` to a number of samples.

    A `BadInput`, `Diverged` or `OSError` of the second run is ignored.

    Args:
        setup: the set-up of the run, or of the first of its repeats.
        directory: the directory of the run.
    """
    e = setup.experiment
    steps, batch = e.repeats * e.rounds * setup.topology.agents, e.data.get("batch", "all")
    is_plain = e.private and not e.sources and not e.record.metrics and batch != "all"
    if is_plain and steps <= SHORT and steps * batch * setup.dimension <= LIGHT:
        with suppress(BadInput, Diverged, OSError):
            make(directory)


def make(directory: Path) -> None:
    """Run the experiment of a run directory again in one process, with the same seeds, but without noise.

    The curves and the summary of the second run are written to the file `NOISE_FREE` in the directory. The settings
    `privacy.budget` and `privacy.noise_multiplier` are ignored.

    Raises:
        BadInput: the directory has no run, the run has no noise, the experiment cannot be run on this host, or its
            repeats end in different rounds without noise.
        Diverged: the run without noise diverges.
        OSError: the file cannot be written.
    """
    asked = stored(directory / "experiment.toml")
    if not compose(asked, None).experiment.private:
        raise BadInput(f"{directory}: this run has no noise, so a second run without noise is the same")
    privacy = {key: value for key, value in asked["privacy"].items() if key not in ("budget", "noise_multiplier")}
    with threadpool_limits(1), np.errstate(all="ignore"):
        setup = compose(asked | {"privacy": privacy | {"epsilon": "inf"}}, None)
        e = setup.experiment
        done = []
        for r, place in enumerate(places(directory, e.repeats)):
            run = setup if e.repeats == 1 else build(single_run(e, r))
            done.append(_evaluated(dataclasses.replace(run, metrics=setup.metrics), place))
    horizons = done[0][0]
    if any(other != horizons for other, *_ in done):
        raise BadInput(f"{directory}: without noise, the repeats end in different rounds, so no mean curve is defined")
    curves = {name: np.mean([curves[name] for _, curves, _ in done], axis=0).tolist() for name in done[0][1]}
    summary, _ = merged([worth for *_, worth in done], rules(setup.metrics))
    write_text(directory / NOISE_FREE, NoiseFree(horizon=horizons, summary=summary, **curves).json().decode())


def _evaluated(setup: Setup, place: Path) -> tuple[list[int], dict[str, list[float]], WorthSummary]:
    """Run an experiment without noise, and return its results.

    Args:
        setup: the set-up of the run without noise.
        place: the directory of the run with noise, whose record has the best fixed decisions.

    Returns:
        Three values: the rounds at which curves are measured; the curves named in `CURVES`, such as the regret of the
        network; and the summary.
    """
    evaluator = Evaluator(setup)
    for rows in simulate(setup):
        evaluator.take(setup.layout.open(rows.transpose(1, 0, 2))[0])
    # The best fixed decision in hindsight does not depend on the noise, so it is read from the run with noise.
    comparators: dict[int, Comparator] = {}
    names = ("horizon", "comparator_point", "comparator_value", "comparator_gap")
    with suppress(OSError), Reader(place) as record:  # the report will say that the record cannot be read
        if all(name in record for name in names):
            horizons, *columns = (record.read(name).values.tolist() for name in names)
            comparators = {t: Comparator(np.array(x), *rest) for t, x, *rest in zip(horizons, *columns, strict=True)}
    evaluator.close(lambda done, of: None, comparators)
    variables = evaluator.variables
    curves = {name: variables[name].values.tolist() for name in CURVES if name in variables}
    return evaluator.judged.horizons.tolist(), curves, evaluator.summary()
