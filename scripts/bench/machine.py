"""What machine, kernel and libraries figures were taken on, and of which code."""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import multiprocessing
import os
import platform
import subprocess
from functools import cache
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


@cache
def code() -> str:
    """A digest of mpinodes' own files, but for comments and docstrings: results of other code are not of this one."""
    root, digest = Path(mpinodes.__file__).parent, hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        tree = ast.parse(path.read_bytes())
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
                node.body[0] = ast.Pass()
        digest.update(f"{path.relative_to(root)}\0{ast.dump(tree)}".encode())
    return digest.hexdigest()[:12]


def working() -> float:
    """CPU seconds so far of this process' workers of studies and of the server that starts them.

    They are missing in what the system counts for the children of this process, because the server ends after it.
    """
    spent: dict[str, int] = {}
    for process in multiprocessing.active_children():
        parent, own = _stat(process.pid)
        spent |= {str(process.pid): sum(own[:2]), parent: sum(_stat(parent)[1])}
    return sum(spent.values()) / os.sysconf("SC_CLK_TCK")


def _stat(process: int | str | None) -> tuple[str, list[int]]:
    """The parent of a process, and the ticks of the process and of its children that have ended."""
    words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return words[1], [*map(int, words[11:15])]


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
