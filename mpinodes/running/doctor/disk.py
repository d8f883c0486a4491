"""The file system that runs are written to."""

from __future__ import annotations

import errno
import os
import tempfile
import time
from pathlib import Path

from mpinodes.running.doctor.report import Line

TRIED = 1_000_000  # bytes
REMEDY = {
    errno.ENOSPC: "make room, or write elsewhere (output.dir)",
    errno.EDQUOT: "your quota is used up: make room, or write elsewhere (output.dir)",
    errno.EROFS: "it is mounted read-only: write elsewhere (output.dir)",
    errno.EACCES: "write elsewhere (output.dir), or have its permissions changed",
}


def try_folder(asked: Path) -> Line:
    """Write a small record where runs are to be written, or where their directory would be made."""
    folder = asked.absolute()
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    where = f"{folder}" if folder == asked.absolute() else f"{folder} (for {asked})"
    if not folder.is_dir():
        return Line("mend", "output", f"{folder} is not a directory", "name another, or move it away")
    stat = os.statvfs(folder)
    space = f"{where}: {stat.f_frsize * stat.f_bavail / 1e6:,.0f} MB free"
    if stat.f_files and not stat.f_favail:
        return Line("mend", "output", f"{space}, but it takes no more files", REMEDY[errno.ENOSPC])
    try:
        with tempfile.TemporaryDirectory(prefix=".mpinodes-doctor-", dir=folder) as made:
            _fill(Path(made) / "trial")
            return _record(Path(made) / "record.h5", space)
    except OSError as error:
        what = os.strerror(error.errno) if error.errno else str(error).splitlines()[0]
        advice = REMEDY.get(error.errno or 0, "write elsewhere (output.dir)")
        return Line("mend", "output", f"{space}; nothing can be written there ({what})", advice)


def _fill(file: Path) -> None:
    """Write somewhat more than a record will have: HDF5 itself ends badly where there is no room."""
    with file.open("wb") as trial:
        trial.write(bytes(TRIED + 100_000))
        trial.flush()
        os.fsync(trial.fileno())
    file.unlink()


def _record(file: Path, space: str) -> Line:
    """Write a record as a run does."""
    import h5py
    import numpy as np

    begun = time.perf_counter()
    try:
        record = h5py.File(file, "w")
    except OSError as error:
        if "lock" not in str(error):
            raise
        advice = "export HDF5_USE_FILE_LOCKING=BEST_EFFORT"
        return Line("mend", "output", f"{space}; its files cannot be locked, so HDF5 makes no record", advice)
    with record:
        record["trial"] = np.zeros(TRIED // 8)
        record.flush()
        with file.open("rb") as again:
            os.fsync(again.fileno())
    took = f"{TRIED / 1e6:g} MB written in {1000 * (time.perf_counter() - begun):.0f} ms"
    return Line("ok", "output", f"{space}, {took}")
