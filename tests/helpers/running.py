"""Run commands of the package: alone or under mpirun, each in a process group of its own, or in this process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from runpy import run_path
from tempfile import TemporaryFile
from typing import IO

import pytest

from mpinodes.launch.launching import mpirun
from mpinodes.launch.threads import ONE_THREAD

CHECKOUT = Path(__file__).parents[2]
LIMIT = 300.0  # seconds, after which a command counts as hung: far above what any needs on a busy machine


@dataclass(frozen=True)
class Done:
    """The exit code and the output of a finished command."""

    code: int
    out: str
    err: str


def command(words: list[str], cwd: Path, limit: float = LIMIT, env: dict[str, str] | None = None) -> Done:
    """Run a command in a process group of its own; fail the test, and kill the group, if it takes too long."""
    process = subprocess.Popen(
        words, cwd=cwd, env=os.environ | ONE_THREAD | (env or {}), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        pytest.fail(f"no end within {limit:g} s: {' '.join(words)}\n{out[-2000:]}\n{err[-2000:]}", pytrace=False)
    return Done(process.returncode, out, err)


def run_mpi(ranks: int, *words: str, cwd: Path, module: str = "mpinodes.run", **kwargs: object) -> Done:
    """Run `mpirun -n RANKS python -m MODULE WORDS`."""
    return command([*mpirun(), "-n", str(ranks), sys.executable, "-m", module, *words], cwd, **kwargs)  # type: ignore[arg-type]


def run_alone(*words: str, cwd: Path, module: str = "mpinodes.run", **kwargs: object) -> Done:
    """Run `python -m MODULE WORDS`."""
    return command([sys.executable, "-m", module, *words], cwd, **kwargs)  # type: ignore[arg-type]


@contextmanager
def _taken(number: int, file: IO[str]) -> Iterator[None]:
    """Let all that is written to a standard stream, by its name or by its number, come to a file."""
    before = os.dup(number)
    os.dup2(file.fileno(), number)
    try:
        with (redirect_stdout if number == 1 else redirect_stderr)(file):
            yield
    finally:
        os.dup2(before, number)
        os.close(before)


def _here(work: Callable[[], int | None], cwd: Path) -> Done:
    """Do the work of a command in this process."""
    with TemporaryFile("w+", buffering=1) as out, TemporaryFile("w+", buffering=1) as err:
        with chdir(cwd), _taken(1, out), _taken(2, err):
            try:
                code = work()
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else int(end.code is not None)
        for file in (out, err):
            file.seek(0)
        return Done(code or 0, out.read(), err.read())


def run_here(*words: str, cwd: Path, module: str = "mpinodes.run") -> Done:
    """Run a command in this process, where a process of its own is not what is tested."""
    return _here(lambda: import_module(module).main([*words]), cwd)


def script_here(script: Path, *words: str, cwd: Path) -> Done:
    """Run a script in this process, where a process of its own is not what is tested."""
    import matplotlib as mpl  # imported here so that ranks of parallel tests do not load it

    before = {*sys.modules}
    with pytest.MonkeyPatch.context() as patch, mpl.rc_context():
        patch.setattr(sys, "argv", [str(script), *words])
        patch.setattr(sys, "path", [str(script.parent), *sys.path])
        try:
            return _here(lambda: run_path(str(script), run_name="__main__") and None, cwd)
        finally:
            for name in sys.modules.keys() - before:  # another folder has modules of the same names
                if str(getattr(sys.modules[name], "__file__", "")).startswith(str(CHECKOUT / "scripts")):
                    del sys.modules[name]
