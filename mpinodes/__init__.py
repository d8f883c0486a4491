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
    """The record of a run directory, read into memory; of a run that goes on, its rounds so far.

    Raises:
        FileNotFoundError: the directory holds no `record.h5`.
        mpinodes.core.errors.BadInput: it is damaged, or was made by a version of mpinodes with another layout of
            records.
    """
    from mpinodes.runlog.reader import load

    return load(Path(run).expanduser())


def run_lockstep(experiment: str | Path | dict[str, Any]) -> Path:
    """Run all agents of an experiment in this process and return the run directory.

    The bits equal those of the same experiment under mpirun.

    Args:
        experiment: path of a TOML file, or its content as nested dictionaries.

    Raises:
        mpinodes.core.errors.BadInput: something in the experiment is wrong.
    """
    from mpinodes.core.asked import parse
    from mpinodes.running.job import run

    return run(experiment if isinstance(experiment, dict) else parse(str(experiment), []))[0]


def simulate(*asked: str | Path | Mapping[str, Any], **keys: Any) -> Result:
    """Run an experiment in this process, as a notebook has it, to the bits of the same under mpirun.

    Args:
        asked: each the path of a TOML file, a word as on the command line ("privacy.epsilon=0.5"), or a dictionary,
            nested or with dotted keys; the last goes before. `data.file` may be a pandas data frame: it is kept as a
            .csv in runs/frames.
        keys: sections and keys of the experiment, before all else: rounds=200, privacy={"epsilon": 0.5}.

    Returns:
        What came of it, in a run directory of its own; figures and page are drawn when they are asked for.

    Raises:
        mpinodes.core.errors.BadInput: something in the experiment is wrong.
        mpinodes.core.messages.Diverged: an estimate ceased to be finite.
    """
    from mpinodes.core.asked import gathered
    from mpinodes.finished.result import Result
    from mpinodes.running.job import run

    tree = gathered({"report": False}, *asked, keys)
    if not isinstance((tree.get("data") or {}).get("file", ""), str):
        from mpinodes.data.columns import kept

        tree["data"] = kept(tree["data"])
    return Result(run(tree)[0])


def runs(directory: str | Path) -> pandas.DataFrame:
    """The finished runs of a study's directory, or of any directory that holds some: one row each.

    Columns: `run`, its directory; the keys in which the runs differ; what each was worth and what it cost, by short
    names (`accuracy_test`, `regret_per_round`, `epsilon_proven`), whose labels are in `attrs["labels"]` and units in
    `attrs["units"]`; `warnings`, the codes of what it warns of. Where each agent has losses of its own, losses and
    regrets are divided by the number of agents, so that they read as where all agents share one.

    Raises:
        mpinodes.core.errors.BadInput: there is no finished run, or another version of mpinodes made it.
    """
    from mpinodes.finished.runs import table

    return table(Path(directory).expanduser())
