"""Other people's packages that solve the same problem, in environments of their own; run, never imported or copied."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from commands import Refused, mpirun
from rows import Row

DRIVERS = Path(__file__).parent / "peers"
ATTEMPTS = {"disropt": (["disropt", "mpich"], ["disropt", "mpich", "numpy<2", "scipy<1.14"])}
LEFT_OUT = (
    "Left out: decent-bench (DGD). Its releases ask for Python 3.13: pip refuses them on 3.11, and with "
    "--ignore-requires-python 0.3.0 is syntax errors there (PEP 695); no driver for it could be tried."
)


def prepared(name: str, peers: Path | None) -> Callable[[Row], list[str]]:
    """The command of the peer that a row is called after.

    Raises:
        Refused: it is not here, and cannot be had.
    """
    if name.startswith("single-process"):
        return lambda row: script(row, 1)
    python = environment("disropt", peers)
    alone = ["--consensus"] * ("consensus" in name)
    return lambda row: [*mpirun(row.agents, python), str(DRIVERS / "disropt_ring.py"), *_sized(row), *alone]


def script(row: Row, runs: int) -> list[str]:
    """The command of the script that is thrown away, doing as many runs of a row's size."""
    words = [str(DRIVERS / "vectorised.py"), "--agents", str(row.agents), *_sized(row), "--runs", str(runs)]
    return [sys.executable, *words]


def _sized(row: Row) -> list[str]:
    return ["--dimension", str(row.dimension), "--rounds", str(row.rounds)]


def environment(package: str, peers: Path | None) -> str:
    """The Python of an environment that has the package, which is made where it is missing.

    Raises:
        Refused: no folder for it was given, or pip fails, with these versions and with older ones of what it needs.
    """
    if peers is None:
        raise Refused("left out: --peers gives no folder to install it in")
    where = peers.absolute() / package
    python = where / "bin" / "python"
    if python.exists() and not subprocess.run([python, "-c", f"import {package}"], capture_output=True).returncode:
        return str(python)
    said = []
    for words in ATTEMPTS[package]:
        subprocess.run([sys.executable, "-m", "venv", "--clear", where], check=True)
        pip = subprocess.run([python, "-m", "pip", "install", "-q", *words], capture_output=True, text=True)
        tried = subprocess.run([python, "-c", f"import {package}"], capture_output=True, text=True)
        if not tried.returncode:
            return str(python)
        said.append(f"pip install {' '.join(words)}: {((tried.stderr + pip.stderr).strip() or '?').splitlines()[-1]}")
    raise Refused(f"left out, does not install: {'; '.join(said)}")
