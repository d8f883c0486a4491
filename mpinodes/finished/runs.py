"""Finished runs as one table: a row each, with the keys in which they differ and their results as they are printed.

Where each agent has losses of its own, a round's loss is the sum over agents; where all share one, it is that one. To
be read side by side, losses and regrets are divided by how many losses a round has: the agents, or one.
"""

from __future__ import annotations

import csv
import json
import tomllib
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpinodes.core.errors import BadInput
from mpinodes.metrics.built_in import BUILT_IN
from mpinodes.presentation import run_warnings
from mpinodes.presentation.terminal import at
from mpinodes.runlog.layout_version import VERSION, read_object, require_version
from mpinodes.summary.combining import Json

if TYPE_CHECKING:
    import pandas


RUNS, TABLE = "runs", "table.csv"  # of a study: the directory that holds them, and what names them
SUMS = frozenset(metric.name for metric in BUILT_IN if metric.sums_agents)
UNSEEN = ("report", "record", "audit", "deadline", "checkpoint")  # keys that no result depends on
CLAIMED, PURE, PROVEN, RULE, DELTA = "claimed ε", "proven pure ε", "proven ε at δ", "rule", "δ"
WARNINGS = "warnings"  # codes of `run_warnings.MEANINGS`, with a space between two
FACTS = {"agents": "agents", "rounds": "rounds", "bytes_sent": "bytes sent", "seconds": "seconds"}


@dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes:
        place: its directory.
        summary: summary.json.
    """

    place: Path
    summary: Json

    @cached_property
    def keys(self) -> dict[str, Any]:
        """Every key of its experiment, dotted, with its value."""
        tree = tomllib.loads((self.place / "experiment.toml").read_text("utf-8"))
        return {key: value for key, value in flat(tree) if key.partition(".")[0] not in UNSEEN}

    def normalized(self, variable: str, values: Any) -> Any:
        """Values of a metric, as if each round had one loss."""
        return values / self.summary["agents"] if variable in SUMS and self.summary["decomposable"] else values

    @cached_property
    def results(self) -> dict[str, Any]:
        """What it was worth and what it cost, by printed names."""
        found: dict[str, Any] = {}
        for metric in self.summary["metrics"]:
            value = at(self.summary, metric["key"])
            found[metric["label"]] = None if value is None else self.normalized(metric["variable"], value)
        privacy = self.summary["privacy"]
        network = privacy["network"]
        found |= {CLAIMED: network["claimed"], PURE: network["proven_pure"], PROVEN: network["proven"]}
        found |= {RULE: network["rule"], DELTA: privacy["delta"]}
        found |= {label: self.summary.get(key) for key, label in FACTS.items()}
        return found | {WARNINGS: " ".join(run_warnings.of(self.summary))}

    @cached_property
    def bits(self) -> Hashable:
        """Equal for one run done twice: all that can change what it says, and what it said."""
        asked = sorted((key, repr(value)) for key, value in self.keys.items() if key != "name")
        apart = (FACTS["seconds"], WARNINGS)  # another run beside it may warn of shared noise
        return repr((asked, [result for result in self.results.items() if result[0] not in apart]))


def summary_of(place: Path) -> Json | None:
    """The summary of a run that is done; None: it is not, or another version of mpinodes did it."""
    summary = read_object(place / "summary.json") or {}
    return summary if summary.get("version") == VERSION and not summary.get("partial") else None


def found(places: Sequence[Path], left_out: list[str] | None = None) -> list[Run]:
    """Return the finished runs of directories: runs, repeats of a job, or all that is right below one or its `runs`.

    Args:
        places: the directories.
        left_out: takes the reasons of runs below a directory that cannot be read; None: such runs are refused.

    Raises:
        BadInput: a directory holds no run that can be read, or one that another version of mpinodes did.
    """
    runs: dict[Path, Run] = {}
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
    repeats = sorted(one.parent for one in place.glob("repeat-*/summary.json"))
    if repeats:
        yield from repeats
    elif (place / "summary.json").is_file():
        yield place
    elif named := members(place):
        yield from (one for one in named if (one / "summary.json").is_file())
    elif not place.name.startswith("repeat-"):
        for parent in (place / RUNS, place):
            for one in sorted(parent.glob("*/summary.json")):
                yield from _below(one.parent)


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


def _read(place: Path) -> Run:
    if not (place / "summary.json").is_file():
        raise BadInput(f"{place}: there is no finished run in it (no summary.json)")
    try:
        summary = json.loads((place / "summary.json").read_text("utf-8"))
        require_version(summary["version"], str(place))
        if summary.get("partial"):
            raise BadInput(
                f"{place}: ended before its time, after {summary['rounds']} of {summary['rounds_asked']} rounds: not "
                f"to be compared; go on with it: python -m mpinodes.run --resume {place}"
            )
        run = Run(place, summary)
        _ = run.results, run.keys["name"]
    except BadInput:
        raise
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise BadInput(f"{place}: not a finished run: {type(error).__name__}: {error}") from error
    return run


def differing(runs: Sequence[Run]) -> list[str]:
    """The keys in which they differ, algorithm first and seed last."""
    keys = dict.fromkeys(key for run in runs for key in run.keys)
    if all(run.keys["name"] == run.keys.get("algorithm.name") for run in runs):
        del keys["name"]
    return sorted((key for key in keys if len({frozen(run.keys.get(key)) for run in runs}) > 1), key=_rank)


def _rank(key: str) -> tuple[int, str]:
    first = "algorithm.name algorithm.path data.name topology.name privacy.budget.epsilon privacy.epsilon"
    ranks = [*first.split(), "topology.agents", "rounds", "", "name", "seed"]  # "": any other key
    return ranks.index(key if key in ranks else ""), key


def frozen(value: Any) -> Hashable:
    """A key's value, to be compared."""
    return repr(value) if isinstance(value, (list, dict)) else value


def table(place: str | Path) -> pandas.DataFrame:
    """Return a row for each run of a directory: the run's own directory, its keys that differ, its results."""
    import pandas

    runs = found([Path(place)])
    keys = differing(runs)
    rows = [{"run": str(run.place), **{key: run.keys.get(key) for key in keys}, **run.results} for run in runs]
    return pandas.DataFrame(rows)


def warned(runs: Sequence[Run]) -> dict[str, str]:
    """Return by code how many runs have a warning, and what it means."""
    return run_warnings.counted([run_warnings.of(run.summary) for run in runs])


def csv_of(rows: Sequence[Json]) -> str:
    """Return rows as CSV with a head of all their keys."""
    import pandas

    return str(pandas.DataFrame(list(rows), dtype=object).to_csv(index=False))


def flat(tree: Mapping[str, Any], prefix: str = "", whole: str = "") -> Iterator[tuple[str, Any]]:
    """Return every key of nested dictionaries, dotted, with its value; that of the key `whole` stays as it is."""
    for name, value in tree.items():
        if isinstance(value, dict) and f"{prefix}{name}" != whole:
            yield from flat(value, f"{prefix}{name}.", whole)
        else:
            yield f"{prefix}{name}", value
