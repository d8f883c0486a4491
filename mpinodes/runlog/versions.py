"""Define the version of the format of a run's files, and find the versions of the software that made the run."""

from __future__ import annotations

import platform
import subprocess
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import numpy as np

from mpinodes.core.errors import BadInput
from mpinodes.core.version import __version__

VERSION = 3  # of rounds.log, record.h5 and summary.json; raise it whenever these files, or the draws of noise, change


def require_version(version: int | None, where: str) -> None:
    """Check that the files of a run have the format version that this mpinodes can read.

    Args:
        version: the version of the format, as the record states it; None if the record states no version.
        where: the run directory, for the message.

    Raises:
        BadInput: the files have another version.
    """
    if version == VERSION:
        return
    if version is None:
        problem = "its record has no version number: the record was made by a very old mpinodes"
    else:
        age = "newer" if isinstance(version, int) and version > VERSION else "older"
        problem = f"its record has version {version}, {age}"
    remedy = "run its experiment.toml again, or read it with the mpinodes that its summary.json names under versions"
    raise BadInput(f"{where}: {problem}; this mpinodes reads version {VERSION}: {remedy}")


@lru_cache
def versions(mpi: str) -> dict[str, str]:
    """Return the versions of mpinodes, Python, NumPy and MPI, and the name of the host.

    The git commit of mpinodes is added if it is known.

    Args:
        mpi: the name and version of the MPI library.
    """
    names = {"mpinodes": __version__, "python": platform.python_version(), "numpy": np.__version__, "mpi": mpi}
    names["host"] = platform.node()
    checkout = Path(__file__).parents[2]
    if (checkout / ".git").exists():
        words = ["git", "-C", str(checkout), "describe", "--always", "--dirty"]
        with suppress(OSError, subprocess.CalledProcessError):
            names["commit"] = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    return names
