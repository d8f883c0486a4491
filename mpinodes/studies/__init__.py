"""Run studies, which are sets of runs with different settings: `sweep` does the runs, and `compare` compares them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from mpi4py import MPI

    from mpinodes.studies.comparison_report import ComparisonReport
    from mpinodes.studies.sweeping import Swept

__all__ = ["compare", "sweep"]


def sweep(
    *asked: str | Path | Mapping[str, Any],
    mpi: bool = False,
    part: str | None = None,
    world: MPI.Intracomm | None = None,
) -> Swept | None:
    """Do all runs of a study that are not done yet, and write the table of the study.

    If a run fails, the other runs are still done. The number of processes that do runs is:

    - without `mpi` and `world`: the number of cores, but at most the number of runs;
    - with `mpi`: one, which starts one mpirun after another;
    - with `world`: the number of ranks besides rank 0.

    Args:
        asked: the study: a TOML file, the directory of a study, or a dictionary. This first argument may be left out.
            Further arguments are words as on the command line: "seed=0,1,2" varies the seed, "rounds=100" sets a value
            in all runs.
        mpi: whether each run is started by a separate mpirun, one run after another.
        part: K/N: only runs K, K + N, K + 2N, ... are done, and no table is written.
        world: the communicator of an MPI job, all ranks of which call this function. Rank 0 distributes the runs.

    Returns:
        The directory, the table and the failures of the study; None on all ranks except rank 0.

    Raises:
        mpinodes.core.errors.BadInput: no run was started. The study or `part` is malformed; some runs cannot be done
            (the message names these runs); or the directory of the study has other content, is in use, or cannot be
            written.
    """
    from mpinodes.studies import pools, sweeping
    from mpinodes.studies.plans import in_lockstep
    from mpinodes.studies.study import Study

    if world is None:
        study = Study.of(asked)
        workers = pools.processes(min(pools.cores(), len(study.points())))
        with workers as pool, pools.processes(1) if mpi else nullcontext(pool) as runner:
            return sweeping.sweep(study, pool, runner, pools.by_mpirun if mpi else in_lockstep, part)
    from concurrent.futures import Executor
    from functools import partial

    from mpi4py.futures import MPICommExecutor

    with MPICommExecutor(world, root=0) as executor:
        if executor is None:
            return None
        pool = pools.Pool(partial(pools.by_executor, cast(Executor, executor)), world.size - 1)
        return sweeping.sweep(Study.of(asked), pool, pool, part=part)


def compare(
    *runs: str | Path,
    by: str | None = None,
    along: Sequence[str] | None = None,
    output: str | Path | None = None,
    table: str = "long",
    width: str = "",
    style: str = "",
    ax: Axes | None = None,
) -> ComparisonReport:
    """Compare finished runs, and write tables, figures and a page of Markdown.

    Runs with equal values of the keys in `by` and `along` form a group. The results of a group are averaged.

    Args:
        runs: the directory of a study, directories of finished runs, or directories that contain finished runs.
        by: the key whose values are compared. None means a key that is varied, if possible a key with a value that is
            not a number.
        along: further keys whose values separate the groups. None means all keys that the study varies, or keys that
            distinguish the runs (`comparing.Comparison.of`).
        output: the directory to write; None means `compare` in the study's directory, or in the working directory.
        table: the form of table.md and table.tex: "long" has a row for each setting; "wide" has the main result, with a
            column for each value of the compared key.
        width: "column" or "page": the width of the figures, 3.3 or 7 inches, with text of at least 7 points and without
            the warnings of the runs. "" means as wide as the panels need.
        style: a style of matplotlib, or a file with a style, which overrides the style of the figures.
        ax: Axes of matplotlib, into which the main figure is drawn, too: the accuracy (or the first metric) against
            the first key with numbers, or against the rounds.

    Returns:
        The directory, and the means and the differences as data frames.

    Raises:
        mpinodes.core.errors.BadInput: there are no finished runs, the runs do not differ in the key `by` or in a key of
            `along`, or the output cannot be written.
    """
    from mpinodes.studies.comparison_report import write

    places = [Path(run).expanduser() for run in runs]
    target = None if output is None else Path(output).expanduser()
    return write(places, by, target, along, table, width=width, style=style, ax=ax)
