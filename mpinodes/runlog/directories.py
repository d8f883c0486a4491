"""Create, remove and lock run directories. A lock keeps a second job from writing to the same run directory."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path

from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import Experiment

RUNS, LOG = "runs", "log.txt"
UNBEGUN = {LOG, "experiment.toml", "experiment.toml.part"}  # all files of a run that was killed before round 1
PATIENCE = 10.0  # seconds to wait for another process that writes to a run directory


@contextmanager
def new_directory(experiment: Experiment, text: str = "") -> Iterator[Path]:
    """Create and lock a run directory, and write experiment.toml into it.

    The path is `output.dir`, or runs/<name>-<number> with the next free number. The directory is locked until the
    context ends. The lock lets only one of several runs that start in the same directory go on.

    Args:
        experiment: the experiment.
        text: the text of experiment.toml; empty: `Experiment.toml`.

    Raises:
        BadInput: the directory cannot be written, is locked by another process, or is not empty. Files of a run that
            was killed before round 1 do not count.
    """
    with ExitStack() as lock:
        try:
            if experiment.output is None:
                Path(RUNS).mkdir(exist_ok=True)
                for number in count(1):
                    path = Path(RUNS) / f"{experiment.name}-{number:03d}"
                    with suppress(FileExistsError):
                        path.mkdir()
                        break
            else:
                path = Path(experiment.output.dir)
                path.mkdir(parents=True, exist_ok=True)
                _require_unused(path)  # before log.txt is created among other files
            (path / LOG).touch()
            lock.enter_context(held(path, 1.0))
            _require_unused(path)
            # now, so that `--resume` works after an early kill
            write_text(path / "experiment.toml", text or experiment.toml())
        except BadInput:
            raise
        except (OSError, ValueError) as error:
            wanted = experiment.output.dir if experiment.output else "runs"
            reason = getattr(error, "strerror", None) or error
            raise BadInput(f"output.dir: cannot write to {wanted!r}: {reason}; set another output.dir") from error
        yield path


def _require_unused(path: Path) -> None:
    """Check that a directory is empty, or has only files of a run that was killed before round 1.

    Raises:
        BadInput: the directory has other files, or its log.txt is not empty.
    """
    is_used = (path / LOG).exists() and (path / LOG).stat().st_size > 0
    if is_used or {file.name for file in path.iterdir()} - UNBEGUN:
        raise BadInput(f"output.dir = {str(path)!r}: not empty: set another directory, or delete this directory")


def unmake_directory(path: Path) -> None:
    """Remove a run directory that is not needed; if its parent directory `runs` is then empty, remove `runs`, too."""
    shutil.rmtree(path, ignore_errors=True)
    if path.parent.name == RUNS:
        with suppress(OSError):
            path.parent.rmdir()


def require_there(directory: Path) -> None:
    """Raise `FileNotFoundError` if the run directory was removed or renamed during the run."""
    if not directory.is_dir():
        raise FileNotFoundError(f"{directory} was moved or removed during the run: a run directory must stay in place")


@contextmanager
def held(run: Path, patience: float = PATIENCE) -> Iterator[None]:
    """Lock a run directory until the context ends, so that no other job writes to it.

    The lock is on log.txt. For the directory of a repeat, the directory of the whole run is locked. Nothing is locked
    if there is no log.txt, or if the file system does not support locks.

    Raises:
        BadInput: another process held the lock for `patience` seconds, or log.txt cannot be written.
    """
    whole = run.absolute().parent if run.name.startswith("repeat-") else run
    path = (whole if (whole / LOG).exists() else run) / LOG
    if not path.exists():  # no run has started here
        yield
        return
    try:
        log = path.open("a")
    except OSError as error:
        raise BadInput(f"{run}: the directory cannot be written: {error.strerror}") from error
    with log:
        end = time.monotonic() + patience
        while not _locked(log.fileno()):
            if time.monotonic() > end:
                raise BadInput(f"{run}: another process is at work on this run; mpinodes watch shows its progress")
            time.sleep(0.05)
        yield


def is_held(run: Path) -> bool:
    """Return whether some process, perhaps this process, has locked a run directory.

    If the lock cannot be tested, for example because there is no log.txt, return True.
    """
    try:
        with (run / LOG).open("rb") as log:
            fcntl.flock(log, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    return False


def _locked(fd: int) -> bool:
    """Try to lock an open file; return False if another process holds the lock.

    If the file system does not support locks, return True.

    Args:
        fd: the descriptor of the file.
    """
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def draft_of(path: Path) -> Path:
    """Return the temporary path of a file: the file is written there, and renamed to `path` when it is complete."""
    return path.with_name(path.name + ".part")


def write_text(path: Path, text: str) -> None:
    """Write a text file. If an error occurs, the old file stays unchanged."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a binary file. If an error occurs, the old file stays unchanged."""
    draft = draft_of(path)
    try:
        draft.write_bytes(content)
        os.replace(draft, path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
