"""A whole run in this process: set up, simulated in lockstep, logged."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import Tree
from mpinodes.core.parts import Setup
from mpinodes.results import repeats
from mpinodes.results.record import make_directory, unmake_directory
from mpinodes.simulation.lockstep import simulate
from mpinodes.simulation.setup import rehearse, set_up


def run(asked: Tree, begun: float | None = None) -> tuple[Path, dict[str, Any]]:
    """Run an experiment given as nested dictionaries; returns the run directory and the summary.

    Args:
        asked: the experiment.
        begun: when the command did, by `time.perf_counter`; None: now.

    Raises:
        BadInput: something in the experiment is wrong.
    """
    return run_set_up(lambda: set_up(asked, ranks=None), begun)


def run_set_up(make_setup: Callable[[], Setup], begun: float | None = None) -> tuple[Path, dict[str, Any]]:
    """Run what is to be set up; returns the run directory and the summary.

    Args:
        make_setup: sets it up.
        begun: when the command did, by `time.perf_counter`; None: now.

    Raises:
        BadInput: something in the experiment is wrong.
    """
    begun = time.perf_counter() if begun is None else begun
    with threadpool_limits(1), np.errstate(all="ignore"):
        setup = make_setup()
        rehearse(setup)
        directory = make_directory(setup.experiment)
        try:
            return directory, repeats.log(setup, directory, "none (lockstep)", simulate, begun)
        except BadInput:  # a file is found to be wrong where its rows are read
            unmake_directory(directory)
            raise
        except Exception as error:
            with (directory / "log.txt").open("a", encoding="utf-8", errors="backslashreplace") as log:
                log.write(traceback.format_exc())
            error.add_note(f"(traceback in {directory / 'log.txt'})")
            raise
