"""Compare runs: group runs with equal settings, and compute means and differences of their results over seeds.

An axis is a key, other than the seed, by whose values runs are grouped. A group is all runs with equal values of all
axes; these runs usually differ only in the seed. The values of the first axis are compared with each other: a
difference is taken between two runs with the same seed, and these differences are averaged over the seeds.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas
from scipy.stats import t as student

from mpinodes.config.schema import suggest
from mpinodes.core.errors import BadInput
from mpinodes.finished import runs as tables
from mpinodes.finished.runs import RUNS, TABLE, FinishedRun, differing, frozen
from mpinodes.metrics.built_in import BUILT_IN
from mpinodes.studies.study import FILE, SEED, Study
from mpinodes.summary.summary import Column

CONFIDENCE = 0.95
ROUNDING = 1e-12  # relative to the mean: a smaller standard deviation counts as 0
MOST_NAMED = 3  # items that a remark lists by name
PROBLEM = ("problem", "data", "step", "privacy")  # sections of keys that define the optimization problem


class Estimate(NamedTuple):
    """Hold the mean of several values, one for each run or seed, with the uncertainty of the mean.

    Attributes:
        mean: the mean.
        std: the standard deviation of the values; nan if there is a single value.
        half: half the width of the 95 % confidence interval of the mean, by Student's t distribution; nan if there is a
            single value.
        number: the number of values.
    """

    mean: float
    std: float
    half: float
    number: int

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """Return the two ends of the mean's 95 % confidence interval, the lower end first.

        Both ends are None for a single value.
        """
        return (None, None) if np.isnan(self.half) else (self.mean - self.half, self.mean + self.half)

    @classmethod
    def of(cls, values: Sequence[Any] | np.ndarray) -> Estimate:
        """Compute the mean and its uncertainty from values, one for each run or seed."""
        mean, std, half = (float(x) for x in interval(np.array(values, float)))
        return cls(mean, std, half, len(values))


def interval(values: np.ndarray) -> tuple[Any, Any, Any]:
    """Return the mean, the standard deviation and half the width of the mean's 95 % confidence interval.

    All three are taken over the first axis of the array. The standard deviation and the width are nan if there is a
    single value.
    """
    number, mean = len(values), values.mean(axis=0)
    if number < 2:
        unknown = np.full(values.shape[1:], np.nan)
        return mean, unknown, unknown
    std = values.std(axis=0, ddof=1)
    std = np.where(std <= ROUNDING * np.abs(mean), 0.0, std)
    return mean, std, student.ppf((1 + CONFIDENCE) / 2, number - 1) * std / np.sqrt(number)


class Difference(NamedTuple):
    """Hold the mean difference of a result between two values of the compared key; all other keys have fixed values.

    Attributes:
        at: the fixed values of the other keys that distinguish runs.
        one, other: the two values of the compared key.
        result: the name of the result, a column of the table.
        estimate: the mean, over seeds, of the result at `one` minus the result at `other`.
    """

    at: tuple[Any, ...]
    one: Any
    other: Any
    result: str
    estimate: Estimate


@dataclass(frozen=True)
class Comparison:
    """Hold finished runs, and the keys that distinguish them, which are called axes.

    Attributes:
        title: the name of the study, or the names of the directories.
        runs: the runs, without repetitions: a run with the same settings and results as an earlier run is left out.
        axes: the keys that distinguish the runs. The values of the first key are compared. The seed is never an axis.
        over: the keys, besides the axes and the seed, that distinguish runs. Means are taken over these keys and the
            seed.
        listed: maps one key of each axis of the study to its values, in the order of the study; empty if no study was
            read.
        again: the runs that are left out of `runs` as repetitions.
        remarks: facts about the runs, as whole sentences.
    """

    title: str
    runs: list[FinishedRun]
    axes: list[str]
    over: list[str]
    listed: dict[str, list[Hashable]]
    again: list[FinishedRun]
    remarks: list[str]

    @classmethod
    def of(cls, places: Sequence[Path], by: str | None, along: Sequence[str] | None = None) -> Comparison:
        """Read finished runs, and choose the axes: the keys that distinguish the runs.

        - If the seed and the keys that the study varies distinguish all runs, the axes are the varied keys in which the
          runs differ; of keys that vary together, one key.
        - In all other cases, the axes are all keys in which the runs differ. A key is left out if its value follows
          from the axes before, or from a privacy budget.

        Args:
            places: the directory of a study, directories of runs, or directories that contain runs.
            by: the key whose values are compared. None means the first axis outside `along` with a value that is not a
                number; if there is none, the first axis outside `along`.
            along: the keys of all axes besides `by`; None means the axes as above.

        Raises:
            BadInput: there are no finished runs, or the runs do not differ in the key `by` or in a key of `along`.
        """
        left_out: list[str] = []
        by_bits: dict[Hashable, FinishedRun] = {}
        again = [run for run in tables.found(places, left_out) if by_bits.setdefault(run.bits, run) is not run]
        runs = list(by_bits.values())
        left_out += [line for place in places for line in tables.unfinished(place)]
        varied = [key for key in differing(runs) if key != SEED]
        for option, key in (("--by", by), *(("--along", key) for key in along or ())):
            if key is not None and key not in varied:
                raise BadInput(f"{option} {key}: not a key to compare runs by; {suggest(key, varied or ['more runs'])}")
        study = places[0] if len(places) == 1 and (places[0] / FILE).is_file() else None
        keys, listed = _inferred(runs, varied), {}
        remarks = _named("Runs left out, because they repeat others bit for bit", [str(run.place) for run in again])
        remarks += _named(f"{len(left_out)} runs are left out, because they are not finished", left_out)
        if study:
            try:
                listed = {axis.key: [frozen(p[axis.key]) for p in axis.points] for axis in Study.of([str(study)]).axes}
                apart_by = [key for key in listed if key != SEED and len(set(_values(runs, key))) > 1]
                keys = apart_by if _tell_apart(runs, apart_by) else keys
            except BadInput as error:
                remarks.append(f"{error}; the runs are grouped by the keys that distinguish them.")
            members = tables.members(study)
            if len(members) > (there := len(runs) + len(again)):
                remarks.append(f"{len(members) - there} runs of the study are missing here, because they are not done.")
            elif not members and (study / TABLE).is_file():
                remarks.append(f"{study / TABLE} is not the table of a study, so all runs in {study / RUNS} are read.")
        if by is not None and by not in keys:
            keys = _inferred(runs, [by, *keys])
        free = [key for key in keys if key not in (along or ())]
        words = (key for key in free if not all(map(_is_number, _values(runs, key))))
        first = by or next(words, free[0] if free else None)
        title = study.absolute().name if study else ", ".join(place.absolute().name for place in places[:3])
        axes = list(dict.fromkeys(filter(None, [first, *(keys if along is None else along)])))
        over = [] if _tell_apart(runs, axes) else [key for key in _inferred(runs, [*axes, *varied]) if key not in axes]
        if over:
            remarks.append(f"Means are over runs that differ in {', '.join(over)}; --along KEY,... separates them.")
        return cls(title, runs, axes, over, listed, again, remarks)

    @cached_property
    def groups(self) -> dict[tuple[Any, ...], list[FinishedRun]]:
        """Return the runs in groups: a mapping from values of the axes to the list of runs that have these values.

        An axis is a key, other than the seed, that distinguishes runs.
        """
        places = [{value: k for k, value in enumerate(self.points(axis))} for axis in self.axes]
        groups: dict[tuple[Any, ...], list[FinishedRun]] = {}
        for run in self.runs:
            groups.setdefault(tuple(frozen(run.keys.get(axis)) for axis in self.axes), []).append(run)
        in_order = sorted(groups, key=lambda values: [at[value] for at, value in zip(places, values, strict=True)])
        return {values: groups[values] for values in in_order}

    def points(self, axis: str) -> list[Any]:
        """Return the distinct values that a key has in the runs.

        - If all values are numbers, they are in ascending order.
        - In all other cases, they are in the order of the study; values that are not in the study come last.
        """
        values = list(dict.fromkeys(_values(self.runs, axis)))
        listed = [*self.listed.get(axis, []), *values]
        return sorted(values) if self.is_numeric(axis) else sorted(values, key=listed.index)

    def is_numeric(self, axis: str) -> bool:
        """Return whether the values of a key are numbers in all runs."""
        return all(map(_is_number, _values(self.runs, axis)))

    @cached_property
    def results(self) -> list[str]:
        """Return the names of all results that are a number in at least one run. The names are columns of the table."""
        names = dict.fromkeys(name for run in self.runs for name in run.results)
        return [name for name in names if any(isinstance(run.results.get(name), (int, float)) for run in self.runs)]

    @cached_property
    def columns(self) -> dict[str, Column]:
        """Return a mapping from the name of each result to its label and unit."""
        return tables.labels(self.runs)

    def estimates(self, name: str) -> dict[tuple[Any, ...], Estimate | None]:
        """Return the mean of a result over each group of runs, with the uncertainty of the mean.

        A group is all runs with equal values of the keys in `axes`. The returned dictionary maps these values to the
        mean; the mean is None if a run of the group lacks the result.
        """
        results = {values: [run.results.get(name) for run in runs] for values, runs in self.groups.items()}
        return {values: None if None in of_group else Estimate.of(of_group) for values, of_group in results.items()}

    def differences(self, names: Sequence[str]) -> list[Difference]:
        """Return the mean differences of results between each two values of the compared key, the first key of `axes`.

        A difference is taken between runs with the same seed and equal values of the other keys in `axes`, and is
        averaged over the seeds. A result without any difference is left out.

        Args:
            names: the names of the results.
        """
        differences: list[Difference] = []
        by_seed = {}
        for values, runs in self.groups.items():
            rows = [[run.results.get(name) for name in names] for run in runs]
            frame = pandas.DataFrame(rows, [run.keys.get(SEED) for run in runs], names, dtype=float)
            # Runs with secret noise may share a seed; average their results.
            by_seed[values] = frame.groupby(level=0).agg(lambda results: results.mean(skipna=False))
        for rest in dict.fromkeys(values[1:] for values in self.groups if self.axes):
            sides = [point for point in self.points(self.axes[0]) if (point, *rest) in by_seed]
            for first, second in combinations(sides, 2):
                apart = by_seed[first, *rest] - by_seed[second, *rest]
                pairs = ((name, apart[name].dropna().to_numpy()) for name in names)
                differences += [Difference(rest, first, second, name, Estimate.of(v)) for name, v in pairs if len(v)]
        return differences

    def beyond(self) -> list[tuple[str, str]]:
        """Return the keys besides the axes in which the runs differ, each with a text on its values.

        Axes are the keys by whose values runs are grouped. The keys `seed` and `name`, and the hash of a tuning, are
        left out. If an axis determines the value of a key, the text says which value belongs to which value of the
        axis.
        """
        left_out = (*self.axes, SEED, "name", "privacy.tuning.tag")
        keys = [key for key in differing(self.runs) if key not in left_out]
        keys.sort(key=lambda key: PROBLEM.index(key.partition(".")[0]) if key.partition(".")[0] in PROBLEM else 9)
        chosen, beyond = _chosen_by_budgets(self.runs), []
        for key in keys:
            all_values = list(dict.fromkeys(shown(run.keys.get(key)) for run in self.runs))
            number = f"({len(all_values)} values)"
            if key in chosen:
                beyond.append((key, f"chosen by privacy.budget {number}"))
                continue
            how = f"{', '.join(all_values[:6])}{', ...' * (len(all_values) > 6)} {number}"
            for axis in self.axes:  # an axis may determine the value of the key
                pairs = {(frozen(run.keys.get(axis)), shown(run.keys.get(key))) for run in self.runs}
                if len(pairs) == len(points := self.points(axis)):
                    by_value: dict[str, list[str]] = {}
                    for point, value in sorted(pairs, key=lambda pair: points.index(pair[0])):
                        by_value.setdefault(value, []).append(shown(point))
                    how = "; ".join(f"{value} ({', '.join(points_there)})" for value, points_there in by_value.items())
                    break
            beyond.append((key, how))
        return beyond


def shown(value: Any) -> str:
    """Return the value of a setting as text for tables and figures."""
    return "none" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _named(text: str, items: Sequence[str]) -> list[str]:
    """Return a list with one remark: the text and at most `MOST_NAMED` items. Without items, the list is empty."""
    more = f", and {len(items) - MOST_NAMED} more" if len(items) > MOST_NAMED else ""
    return [f"{text}: {', '.join(items[:MOST_NAMED])}{more}."] if items else []


def _chosen_by_budgets(runs: Sequence[FinishedRun]) -> set[str]:
    """Return the keys whose values mpinodes computes from a privacy budget.

    `privacy.epsilon` and `privacy.noise_multiplier` are among these keys only if all runs have `privacy.budget.kept_by`
    = noise.
    """
    noise = all(run.keys.get("privacy.budget.kept_by") == "noise" for run in runs)
    return {"privacy.budget.stops"} | ({"privacy.epsilon", "privacy.noise_multiplier"} if noise else set())


def _values(runs: Sequence[FinishedRun], key: str) -> list[Any]:
    return [frozen(run.keys.get(key)) for run in runs]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _tell_apart(runs: Sequence[FinishedRun], keys: Sequence[str]) -> bool:
    """Return whether no two runs have the same seed and the same values of `keys`."""
    return _parts(runs, [*keys, SEED]) == len(runs)


def _parts(runs: Sequence[FinishedRun], keys: Sequence[str]) -> int:
    """Return how many different combinations of values of the keys occur in the runs."""
    return len({tuple(frozen(run.keys.get(key)) for key in keys) for run in runs})


def _inferred(runs: Sequence[FinishedRun], candidates: Sequence[str]) -> list[str]:
    """Return the candidates that distinguish the runs, in their order.

    A candidate is left out if the candidates before it determine its value in every run, or if mpinodes computes its
    value from a privacy budget.
    """
    keys: list[str] = []
    chosen = _chosen_by_budgets(runs)
    for key in dict.fromkeys(candidates):
        if key not in chosen and _parts(runs, [*keys, key]) > _parts(runs, keys):
            keys.append(key)
    return keys


def compared_results(comparison: Comparison) -> list[str]:
    """Return the names of the metrics that tables of differences and figures show, the most important first.

    The metrics are those built-in metrics that have a rank (`Metric.compared` is not 0), and a value in at least one
    run.
    """
    ranks = {metric.name: metric.compared for metric in BUILT_IN if metric.compared}
    shown = {m.variable: tables.short(m.key) for run in comparison.runs for m in run.summary.metrics}
    names = [shown[name] for name in sorted(ranks, key=ranks.__getitem__) if name in shown]
    return [name for name in names if any(run.results.get(name) is not None for run in comparison.runs)]


def chosen_results(comparison: Comparison) -> list[str]:
    """Return the names of the results in the tables that people read.

    The results are the metrics of `compared_results`, the claimed and the proven ε of the network, without and with
    tuning, and the bytes sent. A result that no run has is left out.
    """
    costs = [tables.CLAIMED, tables.PROVEN, tables.TUNED, "bytes_sent"]
    there = [name for name in costs if any(run.results.get(name) is not None for run in comparison.runs)]
    return [*compared_results(comparison), *there]
