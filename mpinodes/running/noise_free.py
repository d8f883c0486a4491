"""The same run without noise: what its noise costs."""

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
from mpinodes.core.experiment import parse, single_run
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
SHORT, LIGHT = 2000, 1e6  # rounds of agents, and numbers of the samples that these look at: half a second


def make_if_short(setup: Setup, directory: Path) -> None:
    """The same where nobody has to wait for it; no reference is made of what cannot be done so, and none of own parts.

    Args:
        setup: of the run, the first of its repeats.
        directory: the run's.
    """
    e = setup.experiment
    steps, batch = e.repeats * e.rounds * setup.topology.agents, e.data.get("batch", "all")
    if not e.private or e.sources or e.record.metrics or batch == "all":
        return
    if steps > SHORT or steps * batch * setup.dimension > LIGHT:
        return
    with suppress(BadInput, Diverged, OSError):
        make(directory)


def make(directory: Path) -> None:
    """Do a run again in lockstep, with its seeds and without its noise; what it was worth stays in the run directory.

    Raises:
        BadInput: there is no such run, it has no noise, or it cannot be done again here.
    """
    asked = parse(str(directory / "experiment.toml"), [])
    if not compose(asked, None).experiment.private:
        raise BadInput(f"{directory}: it has no noise that another run could leave out")
    privacy = {key: value for key, value in asked["privacy"].items() if key != "budget"}
    with threadpool_limits(1), np.errstate(all="ignore"):
        setup = compose(asked | {"privacy": privacy | {"epsilon": "inf"}}, None)
        e = setup.experiment
        done = [
            _evaluated(setup if e.repeats == 1 else build(single_run(e, r)), setup, place)
            for r, place in enumerate(places(directory, e.repeats))
        ]
    horizons = done[0][0]
    if any(other != horizons for other, *_ in done):
        raise BadInput(f"{directory}: without noise its repeats end in different rounds: there is no mean of them")
    curves = {name: np.mean([curves[name] for _, curves, _ in done], axis=0).tolist() for name in done[0][1]}
    summary, _ = merged([worth for *_, worth in done], rules(setup.metrics))
    write_text(directory / NOISE_FREE, NoiseFree(horizon=horizons, summary=summary, **curves).json().decode())


def _evaluated(setup: Setup, first: Setup, place: Path) -> tuple[list[int], dict[str, list[float]], WorthSummary]:
    """Return horizons, curves and summary of a run without noise; `place`: of the run with noise."""
    evaluator = Evaluator(dataclasses.replace(setup, metrics=first.metrics))
    for rows in simulate(setup):
        evaluator.take(setup.layout.open(rows.transpose(1, 0, 2))[0])
    evaluator.close(lambda done, of: None, _comparators(place))
    variables = evaluator.variables()
    curves = {name: variables[name].values.tolist() for name in CURVES if name in variables}
    return evaluator.judged.horizons.tolist(), curves, evaluator.summary()


def _comparators(place: Path) -> dict[int, Comparator]:
    """Of a run by horizon: what is best in hindsight does not depend on noise."""
    names = ("horizon", "comparator_point", "comparator_value", "comparator_gap")
    try:
        with Reader(place) as record:
            if any(name not in record for name in names):
                return {}
            horizons, *found = (record.read(name).values.tolist() for name in names)
    except OSError:  # as the report of it will say
        return {}
    return {t: Comparator(np.array(x), value, within) for t, x, value, within in zip(horizons, *found, strict=True)}
