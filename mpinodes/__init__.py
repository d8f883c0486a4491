"""Differentially private decentralized optimization, one MPI process per agent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpinodes.core.version import __version__ as __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas
    import xarray

    from mpinodes.finished.result import Result

__all__ = ["load", "run_lockstep", "runs", "simulate"]


def load(run: str | Path) -> xarray.Dataset:
    """Return the record of a run directory, read into memory; if the run is still going on, the rounds so far.

    Args:
        run: the run directory.

    Raises:
        FileNotFoundError: the directory holds no record.
        mpinodes.core.errors.BadInput: the record is damaged, or has the layout of another version of mpinodes.
    """
    from mpinodes.runlog.reader import load

    return load(Path(run).expanduser())


def run_lockstep(experiment: str | Path | dict[str, Any]) -> Path:
    """Run all agents of an experiment in this process, and return the run directory.

    The bits equal those of the same experiment under mpirun.

    Args:
        experiment: the path of a TOML file, or its content as nested dictionaries.

    Raises:
        mpinodes.core.errors.BadInput: the experiment is invalid.
    """
    from mpinodes.core.asked import parse
    from mpinodes.running.job import run

    return run(experiment if isinstance(experiment, dict) else parse(str(experiment), []))[0]


def simulate(*asked: str | Path | Mapping[str, Any], **keys: Any) -> Result:
    """Run an experiment in this process, as in a notebook; the bits equal those of the same experiment under mpirun.

    Args:
        asked: any number of TOML file paths, words as on the command line ("privacy.epsilon=0.5"), and dictionaries,
            nested or with dotted keys. Later arguments override earlier ones. `data.file` may be a pandas data frame,
            which is stored as a .csv file in runs/frames.
        keys: sections and keys of the experiment, which override `asked`: rounds=200, privacy={"epsilon": 0.5}.

    Returns:
        The result, in a run directory of its own. Figures and page are drawn on request.

    Raises:
        mpinodes.core.errors.BadInput: the experiment is invalid.
        mpinodes.core.messages.Diverged: an estimate is no longer finite.
    """
    from mpinodes.core.asked import gathered
    from mpinodes.finished.result import Result
    from mpinodes.running.job import run

    tree = gathered({"report": False}, *asked, keys)
    if not isinstance((tree.get("data") or {}).get("file", ""), str):
        from mpinodes.data.table import kept

        tree["data"] = kept(tree["data"])
    return Result(run(tree)[0])


def runs(directory: str | Path) -> pandas.DataFrame:
    """Return the finished runs of a study's directory, or of any directory that holds runs, as a row each.

    The columns are `run`, the run directory; the keys in which the runs differ; the results, by short names such as
    `accuracy_test`, `regret_per_round` and `epsilon_proven`; and `warnings`, the codes of warnings. `attrs["labels"]`
    holds the labels of the results, and `attrs["units"]` their units. If each agent has losses of its own, losses and
    regrets are divided by the number of agents, to be comparable with runs in which all agents share one loss.

    Raises:
        mpinodes.core.errors.BadInput: there is no finished run, or another version of mpinodes wrote it.
    """
    from mpinodes.finished.runs import table

    return table(Path(directory).expanduser())
