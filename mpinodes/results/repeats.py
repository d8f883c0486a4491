"""Repeats of an experiment: repeat r is the run with seed + r, in a run directory of its own below the job's."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from msgspec.structs import replace

from mpinodes.config.compose import build
from mpinodes.core import Setup, Vector
from mpinodes.core.experiment import Experiment, single_run
from mpinodes.results.logger import Logger, conclude
from mpinodes.results.record import fresh_file, write_text

Json = dict[str, Any]

SPREAD = (
    "network_regret", "network_regret_average_iterate", "dynamic_regret", "average_fitness", "decision_norm",
    "training_loss", "decision_error",
)  # fmt: skip
PER_AGENT = ("agent_regret", "optimality_gap")
PER_SET = ("accuracy", "accuracy_last_decision")


def log(parts: Setup, directory: Path, mpi: str, rows: Callable[[Setup], Iterable[Vector]]) -> Json:
    """Follow every run of an experiment, whose parts are built already; returns the summary of them all."""

    def follow(run: Setup, place: Path) -> Json:
        logger = Logger(run, place, mpi)
        logger.follow(rows(run))
        return logger.finish()

    e = parts.experiment
    if e.repeats == 1:
        return follow(parts, directory)
    width = len(str(e.repeats - 1))
    places = [directory / f"repeat-{r:0{width}}" for r in range(e.repeats)]
    summaries = []
    for r, place in enumerate(places):
        run = dataclasses.replace(build(replace(single_run(e, r), report=False)), connected_over=parts.connected_over)
        place.mkdir()
        summaries.append(follow(run, place))
    write_text(directory / "experiment.toml", e.toml())
    _combine_records(directory / "record.h5", [place / "record.h5" for place in places])
    summary = _combined(e, summaries)
    conclude(e, directory, summary)
    return summary


def _combine_records(path: Path, records: list[Path]) -> None:
    """What is known by horizon, and losses by round, with a dimension `repeat` in front; the rest stays where it is."""
    with fresh_file(path) as whole:
        sources = [h5py.File(record) for record in records]
        first = sources[0]
        whole.attrs.update(first.attrs)
        # Repeats may stop in different rounds: kept are those that all have, and of horizons each one's last.
        rounds = min(len(source["round"]) for source in sources)
        latest = max(int(source["horizon"][-1]) for source in sources)
        shared = [h for h in first["horizon"][:-1] if all(h in source["horizon"][:-1] for source in sources)]
        for name, values in (
            ("repeat", np.arange(len(records))),
            ("horizon", np.array([*shared, latest])),
            ("agent", first["agent"][:]),
            ("round", np.arange(1, rounds + 1)),
        ):
            whole.create_dataset(name, data=values).make_scale(name)
        for name, dataset in first.items():
            dimensions = [axis.keys()[0] for axis in dataset.dims if axis.keys()]
            by_horizon = dimensions[:1] == ["horizon"] and "coordinate" not in dimensions
            if name in ("horizon", "round") or not (by_horizon or dimensions == ["round"]):
                continue
            made = whole.create_dataset(
                name, data=np.stack([_kept(source, name, shared, rounds) for source in sources])
            )
            for axis, dimension in enumerate(["repeat", *dimensions]):
                made.dims[axis].attach_scale(whole[dimension])
        for source in sources:
            source.close()


def _kept(source: h5py.File, name: str, shared: list[int], rounds: int) -> np.ndarray:
    """A variable of one repeat, at the horizons that all repeats have and its last, or for the rounds that all have."""
    values: np.ndarray = source[name][:]
    if source[name].dims[0].keys()[0] == "round":
        return values[:rounds]
    horizons = source["horizon"][:].tolist()
    return values[[*(horizons.index(h) for h in shared), -1]]


def _combined(experiment: Experiment, summaries: list[Json]) -> Json:
    """The first summary, with means in the place of its numbers, the worst privacy, and the spread beside them."""
    whole = dict(summaries[0])
    spread = {}
    for key in SPREAD:
        if whole[key] is not None:
            values = np.array([s[key] for s in summaries], dtype=float)
            whole[key] = float(values.mean())
            spread[key] = _spread(values)
    for key in PER_AGENT:
        if whole[key] is not None:
            values = np.array([s[key] for s in summaries], dtype=float)
            whole[key] = values.mean(axis=0).tolist()
            spread[key] = _spread(values.mean(axis=1))
    for key in PER_SET:
        if whole[key] is not None:
            table = {name: np.array([s[key][name] for s in summaries]) for name in whole[key]}
            whole[key] = {name: float(values.mean()) for name, values in table.items()}
            spread[key] = {name: _spread(values) for name, values in table.items()}
    least = [s["comparator"] for s in summaries]
    whole["comparator"] = {
        "value": float(np.mean([c["value"] for c in least])),
        "certificate": float(np.max([c["certificate"] for c in least])),
    }
    for k, bound in enumerate(whole["bounds"]):
        same = [s["bounds"][k] for s in summaries]
        bound |= {key: float(np.mean([b[key] for b in same])) for key in ("value", "measured")}
        bound["applies"] = all(b["applies"] for b in same)
    worst = max(summaries, key=lambda s: _order(s["privacy"]["network"]["proven"]))
    whole["privacy"] = worst["privacy"]
    whole["seconds"] = float(np.sum([s["seconds"] for s in summaries]))
    whole["rounds_per_second"] = experiment.rounds * len(summaries) / whole["seconds"]
    return whole | {"repeats": len(summaries), "seeds": [s["seed"] for s in summaries], "spread": spread}


def _order(epsilon: float | None) -> float:
    return np.inf if epsilon is None or np.isnan(epsilon) else epsilon


def _spread(values: np.ndarray) -> Json:
    return {"std": float(values.std(ddof=1)), "min": float(values.min()), "max": float(values.max())}
