"""What a run was made with."""

from __future__ import annotations

import platform
import subprocess
from functools import lru_cache
from pathlib import Path

import numpy as np

from mpinodes.core.version import __version__


@lru_cache
def versions(mpi: str) -> dict[str, str]:
    """What the run was made with."""
    found = {"mpinodes": __version__, "python": platform.python_version(), "numpy": np.__version__, "mpi": mpi}
    return found | {"host": platform.node()} | ({"commit": commit} if (commit := _commit()) else {})


def _commit() -> str:
    """The git commit of the checkout that the package runs from; empty where it does not."""
    checkout = Path(__file__).parents[2]
    if not (checkout / ".git").exists():
        return ""
    try:
        words = ["git", "-C", str(checkout), "describe", "--always", "--dirty"]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
