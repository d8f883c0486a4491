"""The versions of everything that a run was made with."""

from __future__ import annotations

import platform
import subprocess
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import numpy as np

from mpinodes.core.version import __version__


@lru_cache
def versions(mpi: str) -> dict[str, str]:
    """Return the versions of mpinodes, Python, NumPy and MPI, the host, and the commit if this is a checkout."""
    names = {"mpinodes": __version__, "python": platform.python_version(), "numpy": np.__version__, "mpi": mpi}
    names["host"] = platform.node()
    checkout = Path(__file__).parents[2]
    if (checkout / ".git").exists():
        words = ["git", "-C", str(checkout), "describe", "--always", "--dirty"]
        with suppress(OSError, subprocess.CalledProcessError):
            names["commit"] = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    return names
