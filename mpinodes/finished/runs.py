"""Read finished runs as one table: a row for each run, with the settings in which the runs differ and the results.

In some runs every agent has its own loss, and in other runs all agents share one loss. The table makes both kinds of
runs comparable: if every agent has its own loss, the sum of the losses in a round is divided by the number of agents,
and so are regrets.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from mpinodes.core.asked import flat
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import stored
from mpinodes.presentation import run_warnings
from mpinodes.summary.summary import FILE, Column, Summary, columns

if TYPE_CHECKING:
    import pandas


RUNS, TABLE = "runs", "table.csv"  # in the directory of a study: the runs, and the table that names them
COLUMNS = "columns.csv"  # beside a table: the labels and units of its columns
UNSEEN = ("report", "record", "audit", "deadline", "checkpoint")  # sections that do not change results
ORDER = ["algorithm.name", "algorithm.path", "data.name", "topology.name", "privacy.budget.epsilon", "privacy.epsilon"]
ORDER += ["topology.agents", "rounds", "", "name", "seed"]  # the order of keys in tables; "" stands for all other keys
CLAIMED, PURE, PROVEN, TUNED = "epsilon_claimed", "epsilon_proven_pure", "epsilon_proven", "epsilon_with_tuning"
WARNINGS = Column("codes of warnings", "", "warnings")  # separated by spaces


@dataclass(frozen=True)
class FinishedRun:
    """Hold a finished run: its directory, its summary and its settings.

    Attributes:
        place: the directory of the run.
        summary: the content of summary.json.
    """

    place: Path
    summary: Summary

    @classmethod
    def read(cls, place: Path) -> Self:
        """Return the finished run in a directory.

        Raises:
            BadInput: the directory has no run that this version of mpinodes can read, or the run ended early.
        """
        run = cls(place, s := Summary.read(place))
        if s.partial:
            rounds = f"{s.rounds} of {s.rounds_asked} rounds"
            raise BadInput(f"{place} ended after {rounds}; to finish it: python -m mpinodes.run --resume {place}")
        try:
            _ = run.keys["name"]
        except (OSError, ValueError, KeyError) as error:
            raise BadInput(f"{place}: not a finished run: experiment.toml: {type(error).__name__}: {error}") from error
        return run

    @cached_property
    def keys(self) -> dict[str, Any]:
        """Return the settings in experiment.toml, by dotted key such as "algorithm.name".

        The sections in `UNSEEN` are left out, because no message depends on them. Keys without a value are missing.

        Raises:
            BadInput: experiment.toml cannot be read, or is not TOML.
        """
        tree = stored(self.place / "experiment.toml")
        return {key: value for key, value in flat(tree) if key.partition(".")[0] not in UNSEEN}

    @cached_property
    def table(self) -> list[tuple[Column, Any]]:
        """Return the results of the run (metrics, privacy loss, size, warnings) as pairs (table column, value).

        If every agent has its own loss, a metric that sums the agents' losses is divided by the number of agents.
        """
        s, cells = self.summary, []
        tuning = columns(s.privacy.tuning) if s.privacy.tuning else ()
        facts = [*columns(s.privacy.network), *tuning, *columns(s.privacy), *columns(s)]
        taken = {"run", WARNINGS.name, *(column.name for column, _ in facts)}
        for metric in s.metrics:
            losses, value, name = s.losses_in_a_round(metric.variable), s.value(metric.key), short(metric.key)
            label, name = f"{metric.label}{', per loss' * (losses > 1)}", "metric_" * (name in taken) + name
            column = Column(label, metric.unit, name)
            cells.append((column, None if value is None else value / losses))
        return [*cells, *facts, (WARNINGS, " ".join(run_warnings.of(s)))]

    @cached_property
    def results(self) -> dict[str, Any]:
        """Return the results of the run as a dictionary from column names to values."""
        return {column.name: value for column, value in self.table}

    @cached_property
    def bits(self) -> Hashable:
        """Return a value that is equal for two runs with the same settings and the same results.

        Differences in the name of the run, in settings that cannot change a result, in seconds and in warnings are
        ignored.
        """
        asked = sorted((key, repr(value)) for key, value in self.keys.items() if key != "name")
        apart = ("seconds", WARNINGS.name)  # only the later run warns that both runs have the same noise
        return repr((asked, [result for result in self.results.items() if result[0] not in apart]))


def short(key: str) -> str:
    """Return the name of a metric's table column from the metric's key in summary.json.

    For example, "accuracy.test" becomes "accuracy_test". The beginning "network." is removed.
    """
    return key.replace(".", "_").removeprefix("network_")


def labels(runs: Sequence[FinishedRun]) -> dict[str, Column]:
    """Return the columns with results in the table of some runs, by column name.

    A column has a label and a unit. If the label contains the sign ε, the values of `privacy.adjacency` of the runs are
    added to the label.
    """
    of = " or ".join(sorted({run.summary.privacy.adjacency for run in runs}))
    columns = {column.name: column for run in reversed(runs) for column, _ in run.table}
    return {name: c._replace(label=f"{c.label} ({of})") if "ε" in c.label else c for name, c in columns.items()}


def summary_of(place: Path) -> Summary | None:
    """Return the summary of a finished run.

    Return None if the run is unfinished or ended early, or if this version of mpinodes cannot read the summary.
    """
    try:
        summary = Summary.read(place)
    except BadInput:
        return None
    return None if summary.partial else summary


def found(places: Sequence[Path], left_out: list[str] | None = None) -> list[FinishedRun]:
    """Return the finished runs in some directories, each run once.

    A directory may be a run, a job with repeats (runs that differ in the seed), or a study. A directory may also
    contain runs or jobs, but not studies, directly or in its subdirectory `runs`.

    Args:
        places: the directories.
        left_out: a list, to which a reason is added for each run in a subdirectory that cannot be read. If it is None,
            such a run raises BadInput.

    Raises:
        BadInput: one of `places` is not a finished run and contains no run, or none of the runs can be read.
    """
    runs: dict[Path, FinishedRun] = {}
    for place in places:
        for directory in list(_below(place)) or [place]:
            try:
                runs.setdefault(directory.resolve(), FinishedRun.read(directory))
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
    """Return a line of text for each unfinished run in a subdirectory, with the command that resumes the run.

    A run counts as unfinished if neither the run nor one of its repeats has a summary.
    """
    begun = [file.parent for file in sorted(place.glob("*/experiment.toml"))]
    return [f"{run}: not finished: python -m mpinodes.run --resume {run}" for run in begun if not any(_below(run))]


def members(study: Path) -> list[Path]:
    """Return the directories of all runs in the table.csv of a study, finished or not; empty without this file.

    Runs of an earlier study in the same directory are not in table.csv.
    """
    try:
        with (study / TABLE).open(newline="", encoding="utf-8") as file:
            return [study / RUNS / row["run"] for row in csv.DictReader(file)]
    except (OSError, UnicodeDecodeError, csv.Error, KeyError, TypeError):
        return []


def differing(runs: Sequence[FinishedRun]) -> list[str]:
    """Return the keys of the settings in which the runs differ, in the order of the list `ORDER`.

    If `name` equals `algorithm.name` in every run, `name` is left out.
    """
    keys = dict.fromkeys(key for run in runs for key in run.keys)
    if all(run.keys["name"] == run.keys.get("algorithm.name") for run in runs):
        del keys["name"]
    varied = [key for key in keys if len({frozen(run.keys.get(key)) for run in runs}) > 1]
    return sorted(varied, key=lambda key: (ORDER.index(key if key in ORDER else ""), key))


def frozen(value: Any) -> Hashable:
    """Return a setting as a hashable value; lists and dictionaries become text."""
    return repr(value) if isinstance(value, (list, dict)) else value


def table(place: str | Path) -> pandas.DataFrame:
    """Return a data frame with a row for each finished run in a directory.

    A row has the directory of the run, the settings in which the runs differ, and the results. The labels of the result
    columns are in `attrs["labels"]`. The units of those result columns that have a unit are in `attrs["units"]`.

    Raises:
        BadInput: the directory is not a finished run and contains no run, or a run in it cannot be read.
    """
    import pandas

    runs = found([Path(place)])
    keys = differing(runs)
    rows = [{"run": str(run.place), **{key: run.keys.get(key) for key in keys}, **run.results} for run in runs]
    frame = pandas.DataFrame(rows)
    frame.attrs["labels"] = {name: column.label for name, column in labels(runs).items()}
    frame.attrs["units"] = {name: column.unit for name, column in labels(runs).items() if column.unit}
    return frame


def csv_text(names: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Return the text of a CSV file with a line of names, and a line for each row; None and nan become empty cells.

    The text is that of pandas, which takes longer to import than to write the tables of a study.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([["" if value is None or value != value else value for value in row] for row in rows])
    return text.getvalue()


def columns_of(runs: Sequence[FinishedRun]) -> str:
    """Return the text of a CSV file with the name, the label and the unit of every result column."""
    rows = [(name, column.label, column.unit) for name, column in labels(runs).items()]
    return csv_text(("column", "label", "unit"), rows)


def warned(runs: Sequence[FinishedRun]) -> dict[str, str]:
    """Return a text for each warning code: the number of runs with this warning, and the meaning of the code."""
    return run_warnings.counted([run_warnings.of(run.summary) for run in runs])
