"""Finished runs as one table: a row each, with the keys in which they differ and their results by short names.

Where each agent has losses of its own, a round's loss is the sum over agents; where all share one, it is that one. To
be read side by side, losses and regrets are divided by how many losses a round has: the agents, or one.
"""

from __future__ import annotations

import csv
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpinodes.core.asked import flat
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import stored
from mpinodes.presentation import run_warnings
from mpinodes.summary.summary import FILE, Column, Summary, columns

if TYPE_CHECKING:
    import pandas


RUNS, TABLE = "runs", "table.csv"  # of a study: the directory that holds them, and what names them
COLUMNS = "columns.csv"  # beside a table: its columns, what people call them, and their units
UNSEEN = ("report", "record", "audit", "deadline", "checkpoint")  # keys that no result depends on
ORDER = [  # of the keys that differ; "": any other key
    "algorithm.name", "algorithm.path", "data.name", "topology.name", "privacy.budget.epsilon", "privacy.epsilon",
    "topology.agents", "rounds", "", "name", "seed",
]  # fmt: skip
CLAIMED, PURE, PROVEN = "epsilon_claimed", "epsilon_proven_pure", "epsilon_proven"
WARNINGS = Column("codes of what a run warns of", "", "warnings")  # with a space between two


@dataclass(frozen=True)
class FinishedRun:
    """A finished run.

    Attributes:
        place: its directory.
        summary: of the run.
    """

    place: Path
    summary: Summary

    @cached_property
    def keys(self) -> dict[str, Any]:
        """Every key of its experiment, dotted, with its value."""
        tree = stored(self.place / "experiment.toml")
        return {key: value for key, value in flat(tree) if key.partition(".")[0] not in UNSEEN}

    @cached_property
    def table(self) -> list[tuple[Column, Any]]:
        """What the run was worth and what it cost: columns and values."""
        s, cells = self.summary, []
        facts = [*columns(s.privacy.network), *columns(s.privacy), *columns(s)]
        taken = {"run", WARNINGS.name, *(column.name for column, _ in facts)}
        for metric in s.metrics:
            losses, value, name = s.losses_in_a_round(metric), s.value(metric.key), short(metric.key)
            column = Column(
                f"{metric.label}{', per loss' * (losses > 1)}", metric.unit, "metric_" * (name in taken) + name
            )
            cells.append((column, None if value is None else value / losses))
        return [*cells, *facts, (WARNINGS, " ".join(run_warnings.of(s)))]

    def losses(self, variable: str) -> int:
        """Return how many losses a round sums in a metric, given its variable."""
        metrics = [metric for metric in self.summary.metrics if metric.variable == variable]
        return self.summary.losses_in_a_round(metrics[0]) if metrics else 1

    @cached_property
    def results(self) -> dict[str, Any]:
        """The values of the table, by names of columns."""
        return {column.name: value for column, value in self.table}

    @cached_property
    def bits(self) -> Hashable:
        """Equal for one run done twice: all that can change what it says, and what it said."""
        asked = sorted((key, repr(value)) for key, value in self.keys.items() if key != "name")
        apart = ("seconds", WARNINGS.name)  # another run beside it may warn of shared noise
        return repr((asked, [result for result in self.results.items() if result[0] not in apart]))


def short(key: str) -> str:
    """Return the column of a metric, given its dotted key in summary.json: `accuracy_test`, `regret_per_round`."""
    return key.replace(".", "_").removeprefix("network_")


def labels(runs: Sequence[FinishedRun]) -> dict[str, Column]:
    """Return the columns of results by name, with what people call them."""
    return {column.name: column for run in reversed(runs) for column, _ in run.table}


def summary_of(place: Path) -> Summary | None:
    """Return the summary of a run that is done; None: it is not, or another version of mpinodes did it."""
    try:
        summary = Summary.read(place)
    except BadInput:
        return None
    return None if summary.partial else summary


def found(places: Sequence[Path], left_out: list[str] | None = None) -> list[FinishedRun]:
    """Return the finished runs of directories: runs, repeats of a job, or all that is right below one or its `runs`.

    Args:
        places: the directories.
        left_out: takes the reasons of runs below a directory that cannot be read; None: such runs are refused.

    Raises:
        BadInput: a directory holds no run that can be read, or one that another version of mpinodes did.
    """
    runs: dict[Path, FinishedRun] = {}
    for place in places:
        for directory in list(_below(place)) or [place]:
            try:
                runs.setdefault(directory.resolve(), _read(directory))
            except BadInput as error:
                if left_out is None or directory == place:
                    raise
                left_out.append(str(error))
    if left_out and not runs:
        raise BadInput(left_out[0])
    return list(runs.values())


def _below(place: Path) -> Iterator[Path]:
    if repeats := sorted(file.parent for file in place.glob(f"repeat-*/{FILE}")):
        yield from repeats
    elif (place / FILE).is_file():
        yield place
    elif named := members(place):
        yield from (run for run in named if (run / FILE).is_file())
    elif not place.name.startswith("repeat-"):
        for parent in (place / RUNS, place):
            for file in sorted(parent.glob(f"*/{FILE}")):
                yield from _below(file.parent)


def unfinished(place: Path) -> list[str]:
    """Name the runs right below a directory that were begun and have no summary, and say how to finish them."""
    begun = [file.parent for file in sorted(place.glob("*/experiment.toml"))]
    return [f"{run}: not finished: python -m mpinodes.run --resume {run}" for run in begun if not any(_below(run))]


def members(study: Path) -> list[Path]:
    """The directories of a study's runs, done or not: there may be those of an earlier one beside them.

    Empty: its table is not there, or is none.
    """
    try:
        with (study / TABLE).open(newline="", encoding="utf-8") as file:
            return [study / RUNS / row["run"] for row in csv.DictReader(file)]
    except (OSError, UnicodeDecodeError, csv.Error, KeyError, TypeError):
        return []


def _read(place: Path) -> FinishedRun:
    run = FinishedRun(place, s := Summary.read(place))
    if s.partial:
        early = f"ended before its time, after {s.rounds} of {s.rounds_asked} rounds: not to be compared"
        raise BadInput(f"{place}: {early}; go on with it: python -m mpinodes.run --resume {place}")
    try:
        _ = run.keys["name"]
    except (OSError, ValueError, KeyError) as error:
        raise BadInput(f"{place}: not a finished run: experiment.toml: {type(error).__name__}: {error}") from error
    return run


def differing(runs: Sequence[FinishedRun]) -> list[str]:
    """The keys in which they differ, algorithm first and seed last."""
    keys = dict.fromkeys(key for run in runs for key in run.keys)
    if all(run.keys["name"] == run.keys.get("algorithm.name") for run in runs):
        del keys["name"]
    varied = [key for key in keys if len({frozen(run.keys.get(key)) for run in runs}) > 1]
    return sorted(varied, key=lambda key: (ORDER.index(key if key in ORDER else ""), key))


def frozen(value: Any) -> Hashable:
    """A key's value, to be compared."""
    return repr(value) if isinstance(value, (list, dict)) else value


def table(place: str | Path) -> pandas.DataFrame:
    """Return a row for each run of a directory: the run's own directory, its keys that differ, its results.

    `attrs["labels"]` has what people call the columns of results, and `attrs["units"]` their units.
    """
    import pandas

    runs = found([Path(place)])
    keys = differing(runs)
    rows = [{"run": str(run.place), **{key: run.keys.get(key) for key in keys}, **run.results} for run in runs]
    frame = pandas.DataFrame(rows)
    frame.attrs["labels"] = {name: column.label for name, column in labels(runs).items()}
    frame.attrs["units"] = {name: column.unit for name, column in labels(runs).items() if column.unit}
    return frame


def columns_of(runs: Sequence[FinishedRun]) -> str:
    """Return as CSV what people call the columns of results, and their units."""
    import pandas

    rows = [(name, column.label, column.unit) for name, column in labels(runs).items()]
    return str(pandas.DataFrame(rows, columns=["column", "label", "unit"]).to_csv(index=False))


def warned(runs: Sequence[FinishedRun]) -> dict[str, str]:
    """Return by code how many runs have a warning, and what it means."""
    return run_warnings.counted([run_warnings.of(run.summary) for run in runs])
