"""What machine, kernel and libraries figures were taken on, and of which code."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

import mpinodes

PACKAGES = ("mpi4py", "numpy", "scipy", "networkx", "h5py", "matplotlib", "msgspec")


def described() -> dict[str, Any]:
    """As far as this machine tells."""
    from mpi4py import MPI

    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return {
        "cpu": _after("/proc/cpuinfo", "model name") or platform.processor() or "unknown",
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(int((_after("/proc/meminfo", "MemTotal") or "0 kB").split()[0]) / 1e6, 1),
        "kernel": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "mpi": MPI.Get_library_version().splitlines()[0].strip().rstrip("\0"),
        "blas": f"{blas['name']} {blas['version']}, one thread",
        **{name: importlib.metadata.version(name) for name in PACKAGES},
        "load": load(),
        "commit": commit(),
        "code": code(),
    }


def code() -> str:
    """A digest of mpinodes' own files: rows of other code are not these rows."""
    root, digest = Path(mpinodes.__file__).parent, hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def commit() -> str:
    """Of the checkout, with + where its files are not as committed; empty: it is none."""
    words = ["git", "-C", str(Path(mpinodes.__file__).parents[1]), "describe", "--always", "--dirty=+"]
    try:
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _after(file: str, word: str) -> str:
    """The value of the first line that begins with a word."""
    try:
        lines = Path(file).read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(word)), "")


def load() -> float:
    """Processes that ran or wanted to, over the last minute."""
    return round(os.getloadavg()[0], 2)
