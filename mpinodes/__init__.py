"""Differentially private decentralized optimization, one MPI process per agent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import xarray

__version__ = "0.1.0"
__all__ = ["load", "run_lockstep"]


def load(run: str | Path) -> xarray.Dataset:
    """The record of a run directory, read into memory.

    Raises:
        FileNotFoundError: the directory holds no `record.h5`.
        mpinodes.core.errors.BadInput: it was made by a version of mpinodes with another layout of records.
    """
    import xarray

    from mpinodes.results.versions import require_version

    # A metric's unit may be seconds, and is not to make times of its numbers.
    record = xarray.load_dataset(Path(run) / "record.h5", engine="h5netcdf", decode_times=False)
    found = record.attrs.get("version")
    require_version(None if found is None else int(found), str(run))
    return record


def run_lockstep(experiment: str | Path | dict[str, Any]) -> Path:
    """Run all agents of an experiment in this process and return the run directory.

    The bits equal those of the same experiment under mpirun.

    Args:
        experiment: path of a TOML file, or its content as nested dictionaries.

    Raises:
        mpinodes.core.errors.BadInput: something in the experiment is wrong.
    """
    from mpinodes.core.experiment import parse
    from mpinodes.simulation.alone import run

    return run(experiment if isinstance(experiment, dict) else parse(str(experiment), []))[0]
