"""Runs side by side: by the axes along which they differ, means over seeds, and differences paired by seed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t as student

from mpinodes.config.registry import suggest
from mpinodes.core.errors import BadInput
from mpinodes.results import runs as tables
from mpinodes.results.runs import RUNS, TABLE, Run, differing, frozen
from mpinodes.studies.study import FILE, SEED, Axis, Study

CONFIDENCE = 0.95
ROUNDING = 1e-12  # a standard deviation of so little of the mean is that of equal values
MOST_NAMED = 3
PROBLEM = ("problem", "data", "step", "privacy")  # sections that make two runs one problem, or two


class Estimate(NamedTuple):
    """A mean over seeds.

    Attributes:
        mean: it.
        std: standard deviation of one; nan: of one alone there is none.
        half: of its 95 % interval, by Student's law; nan as well.
        number: of seeds.
    """

    mean: float
    std: float
    half: float
    number: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate:
        """From one value a seed."""
        mean, half = interval(np.array(values, float))
        std = float(_deviation(np.array(values, float))) if len(values) > 1 else np.nan
        return cls(float(mean), std, float(half), len(values))


def interval(values: np.ndarray) -> tuple[Any, Any]:
    """Mean over the first axis, and half the width of its 95 % interval; nan where there is one value alone."""
    number = len(values)
    if number < 2:
        return values.mean(axis=0), np.full(values.shape[1:], np.nan)
    half = student.ppf((1 + CONFIDENCE) / 2, number - 1) * _deviation(values) / np.sqrt(number)
    return values.mean(axis=0), half


def _deviation(values: np.ndarray) -> np.ndarray:
    std = values.std(axis=0, ddof=1)
    return np.where(std <= ROUNDING * np.abs(values.mean(axis=0)), 0.0, std)


class Difference(NamedTuple):
    """Of a result, between two values of an axis, all else equal.

    Attributes:
        at: values of the other axes.
        one, other: of the axis.
        result: its printed name.
        estimate: of `one` less `other`, seed by seed.
    """

    at: tuple[Any, ...]
    one: Any
    other: Any
    result: str
    estimate: Estimate


@dataclass(frozen=True)
class Comparison:
    """Finished runs, and how they are told apart.

    Attributes:
        title: what they are.
        runs: all of them, each once.
        axes: keys, the one whose values are compared first; no seed among them.
        listed: values of axes, as the study has them.
        again: runs that are one of the others, done twice.
        remarks: on which runs these are, in whole sentences.
    """

    title: str
    runs: list[Run]
    axes: list[str]
    listed: dict[str, list[Hashable]]
    again: list[Run]
    remarks: list[str]

    @classmethod
    def of(cls, places: Sequence[Path], by: str | None) -> Comparison:
        """Of a study's directory, or of any runs.

        Args:
            places: a study, or runs, or directories of runs.
            by: the axis to compare along; None: the first that is no number, or the first.

        Raises:
            BadInput: there are no finished runs, or no such axis.
        """
        runs, again = _once(tables.found(places))
        study = places[0] if len(places) == 1 and (places[0] / FILE).is_file() else None
        keys, remarks, listed = _inferred(runs), _done_again(again), {}
        if study:
            declared, unread = _axes_of(study)
            listed = {axis.key: [frozen(point[axis.key]) for point in axis.points] for axis in declared}
            told = [key for key in listed if key != SEED and len(set(_values(runs, key))) > 1]
            keys = told if not unread and _tell_apart(runs, told) else keys
            remarks += [*unread, *_missing(study, len(runs) + len(again))]
        if by is not None and by not in keys:
            raise BadInput(f"--by {by}: the runs differ along {', '.join(keys) or 'no axis'}; {suggest(by, keys)}")
        first = by or next((key for key in keys if not _is_numeric(runs, key)), keys[0] if keys else None)
        title = study.absolute().name if study else ", ".join(place.name for place in places[:3])
        axes = [first, *(key for key in keys if key != first)] if first else []
        return cls(title, runs, axes, listed, again, remarks)

    @cached_property
    def groups(self) -> dict[tuple[Any, ...], list[Run]]:
        """By values of the axes, in the order in which those first come."""
        found: dict[tuple[Any, ...], list[Run]] = {}
        for values in self._in_order:
            found[values] = []
        for run in self.runs:
            found[self.values_of(run)].append(run)
        return found

    @cached_property
    def _in_order(self) -> list[tuple[Any, ...]]:
        places = [{value: k for k, value in enumerate(self.points(axis))} for axis in self.axes]
        return sorted(
            {self.values_of(run) for run in self.runs},
            key=lambda values: [place[value] for place, value in zip(places, values, strict=True)],
        )

    def values_of(self, run: Run) -> tuple[Any, ...]:
        """Of the axes."""
        return tuple(frozen(run.keys.get(axis)) for axis in self.axes)

    def points(self, axis: str) -> list[Any]:
        """The values along an axis: numbers ascending, words as the study has them, or as they come."""
        values = list(dict.fromkeys(_values(self.runs, axis)))
        listed = [*self.listed.get(axis, []), *values]
        return sorted(values) if self.is_numeric(axis) else sorted(values, key=listed.index)

    def is_numeric(self, axis: str) -> bool:
        """Whether all its values are numbers."""
        return _is_numeric(self.runs, axis)

    @cached_property
    def results(self) -> list[str]:
        """Printed names of all results that are numbers."""
        names = dict.fromkeys(name for run in self.runs for name in run.results)
        return [name for name in names if any(isinstance(run.results.get(name), (int, float)) for run in self.runs)]

    def estimates(self, name: str) -> dict[tuple[Any, ...], Estimate | None]:
        """Of a result, by group; None: some run has none."""
        found: dict[tuple[Any, ...], Estimate | None] = {}
        for values, runs in self.groups.items():
            there = [float(x) for run in runs if (x := run.results.get(name)) is not None]
            found[values] = Estimate.of(there) if len(there) == len(runs) else None
        return found

    def differences(self, names: Sequence[str]) -> list[Difference]:
        """Along the first axis, paired by seed."""
        if not self.axes:
            return []
        found = []
        points = self.points(self.axes[0])
        for rest in dict.fromkeys(values[1:] for values in self.groups):
            for one, other in combinations(points, 2):
                pair = self._by_seed((one, *rest)), self._by_seed((other, *rest))
                seeds = [seed for seed in pair[0] if seed in pair[1]]
                for name in names:
                    values = [(_mean(pair[0][s], name), _mean(pair[1][s], name)) for s in seeds]
                    there = [a - b for a, b in values if a is not None and b is not None]
                    if there:
                        found.append(Difference(rest, one, other, name, Estimate.of(there)))
        return found

    def _by_seed(self, values: tuple[Any, ...]) -> dict[Any, list[Run]]:
        """Of one seed there are several where their noise is secret."""
        found: dict[Any, list[Run]] = {}
        for run in self.groups.get(values, []):
            found.setdefault(run.keys.get(SEED), []).append(run)
        return found

    def beyond(self) -> list[tuple[str, str]]:
        """The keys, beside the axes, in which the runs differ, those that make it another problem first, and how."""
        keys = [key for key in differing(self.runs) if key not in (*self.axes, SEED, "name")]
        keys.sort(key=lambda key: PROBLEM.index(key.partition(".")[0]) if key.partition(".")[0] in PROBLEM else 9)
        return [(key, self._how(key)) for key in keys]

    def _how(self, key: str) -> str:
        """By the values of the one axis that decides it, where there is one."""
        all_values = list(dict.fromkeys(shown(run.keys.get(key)) for run in self.runs))
        if key in _chosen_by_budgets(self.runs):
            return f"what privacy.budget asks for ({len(all_values)} values)"
        for axis in self.axes:
            decided: dict[Hashable, set[Hashable]] = {point: set() for point in self.points(axis)}
            for run in self.runs:
                decided[frozen(run.keys.get(axis))].add(shown(run.keys.get(key)))
            if all(len(values) == 1 for values in decided.values()):
                by_value: dict[Hashable, list[str]] = {}
                for point, values in decided.items():
                    by_value.setdefault(next(iter(values)), []).append(shown(point))
                return "; ".join(f"{value} ({', '.join(those)})" for value, those in by_value.items())
        return f"{', '.join(all_values[:6])}{', ...' if len(all_values) > 6 else ''} ({len(all_values)} values)"


def shown(value: Any) -> str:
    """A setting in a table or a figure."""
    return "none" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _once(runs: Sequence[Run]) -> tuple[list[Run], list[Run]]:
    """The runs, and those that are another one of them, done again."""
    kept: dict[Hashable, Run] = {}
    again = [run for run in runs if kept.setdefault(run.bits, run) is not run]
    return list(kept.values()), again


def _done_again(runs: Sequence[Run]) -> list[str]:
    if not runs:
        return []
    named = ", ".join(str(run.place) for run in runs[:MOST_NAMED])
    more = f", and {len(runs) - MOST_NAMED} more" if len(runs) > MOST_NAMED else ""
    return [f"A run done again, to the same bits, counts once: {named}{more}."]


def _axes_of(study: Path) -> tuple[tuple[Axis, ...], list[str]]:
    """As its file has them; or none, and why."""
    try:
        return Study.of([str(study)]).axes, []
    except BadInput as error:
        return (), [f"{error}; axes are the keys that tell the runs apart."]


def _missing(study: Path, runs: int) -> list[str]:
    """Which runs of a study are not there, as far as its table tells."""
    members = tables.members(study)
    if members and len(members) > runs:
        return [f"{len(members) - runs} runs of the study are not done, and missing here."]
    if not members and (study / TABLE).is_file():
        return [f"{study / TABLE}: not the table of a study; here are all runs in {study / RUNS}."]
    return []


def _mean(runs: Sequence[Run], name: str) -> float | None:
    """Of a result; None: some run has none."""
    there = [float(x) for run in runs if (x := run.results.get(name)) is not None]
    return sum(there) / len(there) if len(there) == len(runs) else None


def _chosen_by_budgets(runs: Sequence[Run]) -> set[str]:
    """The keys whose values follow from a budget, and are none of the user's."""
    noise = all(run.keys.get("privacy.budget.kept_by") == "noise" for run in runs)
    return {"privacy.budget.stops"} | ({"privacy.epsilon"} if noise else set())


def _values(runs: Sequence[Run], key: str) -> list[Any]:
    return [frozen(run.keys.get(key)) for run in runs]


def _is_numeric(runs: Sequence[Run], key: str) -> bool:
    return all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in _values(runs, key))


def _tell_apart(runs: Sequence[Run], keys: Sequence[str]) -> bool:
    """Whether no two runs have the same values of keys and the same seed."""
    told = [(*(frozen(run.keys.get(key)) for key in keys), run.keys.get(SEED)) for run in runs]
    return len(set(told)) == len(told)


def _inferred(runs: Sequence[Run]) -> list[str]:
    """As few keys as tell the runs apart, but for their seeds: none that those before it decide."""
    keys: list[str] = []
    parts: Callable[[], list[Hashable]] = lambda: [tuple(frozen(run.keys.get(key)) for key in keys) for run in runs]  # noqa: E731
    for key in differing(runs):
        if key == SEED or key in _chosen_by_budgets(runs):
            continue
        decided: dict[Hashable, set[Hashable]] = {}
        for part, run in zip(parts(), runs, strict=True):
            decided.setdefault(part, set()).add(frozen(run.keys.get(key)))
        if any(len(values) > 1 for values in decided.values()):
            keys.append(key)
    return keys


def chosen_results(comparison: Comparison) -> list[str]:
    """What tables and figures for people show: regret or gap, accuracy or error, disagreement, privacy, bytes."""
    wanted = (
        "network regret per round, R(T)/T", "optimality gap, mean over agents", "training loss L(T)",
        "accuracy, running mean, test data", "RMSE, running mean, test data", "consensus error", tables.CLAIMED,
        tables.PROVEN, "bytes sent",
    )  # fmt: skip
    there = [name for name in wanted if name in comparison.results]
    return [name for name in there if any(run.results.get(name) is not None for run in comparison.runs)]


def compared_results(comparison: Comparison) -> list[str]:
    """Those of them that a difference is told of."""
    others = (tables.CLAIMED, tables.PROVEN, "bytes sent")
    return [name for name in chosen_results(comparison) if name not in others]
