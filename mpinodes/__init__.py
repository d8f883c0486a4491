"""Differentially private decentralized optimization, one MPI process per agent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpinodes.core.version import __version__ as __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas
    import xarray

    from mpinodes.finished.model import Model
    from mpinodes.finished.result import Result

__all__ = ["load", "load_model", "run_lockstep", "runs", "simulate"]


def load(run: str | Path) -> xarray.Dataset:
    """Read the record of a run into memory. The record of an unfinished run has the rounds that are recorded so far.

    Args:
        run: the run directory.

    Raises:
        FileNotFoundError: the directory contains no record.
        mpinodes.core.errors.BadInput: the record is damaged, or another version of mpinodes wrote it in another format.
    """
    from mpinodes.runlog.reader import load

    return load(Path(run).expanduser())


def load_model(run: str | Path) -> Model:
    """Return the model that a finished run trained: `load_model(RUN).predict(X)` and `.score(X, y)`.

    The model is made of releases alone, so the proven epsilon of the network covers it: see `Model`.

    Args:
        run: the run directory, or the file model.npz in it; for a run with repeats, the directory of a repeat.

    Raises:
        mpinodes.core.errors.BadInput: the run has no model, or a file of the run cannot be read.
    """
    from mpinodes.finished.model import load_model

    return load_model(Path(run).expanduser())


def run_lockstep(experiment: str | Path | dict[str, Any]) -> Path:
    """Run all agents of an experiment in this process, and return the run directory.

    Losses and other results have the same bits as under mpirun, if the noise is drawn from the seed.

    Args:
        experiment: the path of a TOML file, or the settings as nested dictionaries.

    Raises:
        mpinodes.core.errors.BadInput: the experiment is invalid, or its run directory cannot be used.
        mpinodes.core.messages.Diverged: the run diverges, for example because an estimate is no longer finite.
    """
    from mpinodes.core.asked import parse
    from mpinodes.running.job import run

    return run(experiment if isinstance(experiment, dict) else parse(str(experiment), []))[0]


def simulate(*asked: str | Path | Mapping[str, Any], **keys: Any) -> Result:
    """Run all agents of an experiment in this process, for example in a notebook, and return the result.

    Losses and other results have the same bits as under mpirun, if the noise is drawn from the seed.

    Args:
        asked: any number of settings: paths of TOML files, words as on the command line ("privacy.epsilon=0.5"), and
            dictionaries, nested or with dotted keys. Later arguments override earlier arguments. `data.file` may be a
            pandas data frame, which is stored as a .csv file in runs/frames. Wherever a part is named, as in
            `algorithm.name`, a class may take the place of the name. The source of a class that a notebook defines is
            stored in runs/classes, with all that the class uses, so the run can be repeated.
        keys: sections and keys of the experiment, which override `asked`: rounds=200, privacy={"epsilon": 0.5}.

    Returns:
        The result of the run, which is stored in a new run directory. The methods of the result read the files of this
        directory. If an argument sets the key `report` to true, the figures and the HTML page of the run are drawn at
        the end of the run. Otherwise `Result.plot` and `Result.report` draw them later.

    Raises:
        mpinodes.core.errors.BadInput: the experiment is invalid, or its run directory cannot be used.
        mpinodes.core.messages.Diverged: the run diverges, for example because an estimate is no longer finite.
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
    """Return a table with a row for each finished run in a directory, such as the directory of a study.

    The columns of the table are:

    - `run`: the run directory,
    - keys in which the runs differ, such as `privacy.epsilon`,
    - the results, by short names such as `accuracy_test`, `regret_per_round` and `epsilon_proven`,
    - `warnings`: the codes of the run's warnings.

    The dictionary `attrs["labels"]` of the table has the label of each result. The dictionary `attrs["units"]` has the
    unit of each result that has a unit. If each agent has its own loss function, losses and regrets are divided by the
    number of agents.

    Raises:
        mpinodes.core.errors.BadInput: the directory contains no finished run, or a run that ended early, or a run in
            a format that this version of mpinodes cannot read.
    """
    from mpinodes.finished.runs import table

    return table(Path(directory).expanduser())
