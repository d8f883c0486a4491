"""Create, remove and lock run directories. A lock lets only one process at a time write to a run directory."""

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
def new_directory(experiment: Experiment) -> Iterator[Path]:
    """Create and lock the run directory: `output.dir`, or runs/<name>-<number> with the next free number.

    The directory is locked until the context ends, and is inspected under this lock. So of several runs that start in
    the same directory, one run goes on. experiment.toml is written at once, so that `--resume` works after a kill.

    Raises:
        BadInput: the directory cannot be written, has other files than those of a run that was killed before round 1,
            or is locked by another process.
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
            write_text(path / "experiment.toml", experiment.toml())  # now, so that `--resume` works after an early kill
        except BadInput:
            raise
        except (OSError, ValueError) as error:
            wanted = experiment.output.dir if experiment.output else "runs"
            why = getattr(error, "strerror", None) or error
            raise BadInput(f"output.dir: cannot write to {wanted!r}: {why}; set another output.dir") from error
        yield path


def _require_unused(path: Path) -> None:
    """Check that a directory has no files but those of a run that was killed before round 1.

    Raises:
        BadInput: the directory has other files, or its log.txt is not empty.
    """
    is_used = (path / LOG).exists() and (path / LOG).stat().st_size > 0
    if is_used or {file.name for file in path.iterdir()} - UNBEGUN:
        raise BadInput(f"output.dir = {str(path)!r}: not empty: set another directory, or delete this one")


def unmake_directory(path: Path) -> None:
    """Remove a run directory that is not needed, and also the parent directory `runs` if `runs` is empty then."""
    shutil.rmtree(path, ignore_errors=True)
    if path.parent.name == RUNS:
        with suppress(OSError):
            path.parent.rmdir()


def require_there(directory: Path) -> None:
    """Raise `FileNotFoundError` if the run directory was removed or renamed while the run went on."""
    if not directory.is_dir():
        raise FileNotFoundError(f"{directory} is gone: a run directory stays where it is until the run ends")


@contextmanager
def held(run: Path, patience: float = PATIENCE) -> Iterator[None]:
    """Lock a run directory for writing until the context ends, because two writers would destroy the record.

    For the directory of a repeat, the directory of the whole run is locked. If there is no log.txt, or if the file
    system does not support locks, nothing is locked.

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
                raise BadInput(f"{run}: another process is at work on it; mpinodes watch shows the progress")
            time.sleep(0.05)
        yield


def is_held(run: Path) -> bool:
    """Return whether a process, perhaps this process, has locked a run directory.

    Return True also if the lock cannot be tested, for example because there is no log.txt.
    """
    try:
        with (run / LOG).open("rb") as log:
            fcntl.flock(log, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    return False


def _locked(fd: int) -> bool:
    """Try to lock an open file, given by its descriptor; return False if another process holds the lock.

    Return True also if the file system does not support locks.
    """
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def draft_of(path: Path) -> Path:
    """Return the temporary path where a file is written first; the complete file is then renamed to `path`."""
    return path.with_name(path.name + ".part")


def write_text(path: Path, text: str) -> None:
    """Write a text file completely, or leave the old file unchanged if an error occurs."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a binary file completely, or leave the old file unchanged if an error occurs."""
    draft = draft_of(path)
    try:
        draft.write_bytes(content)
        os.replace(draft, path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
