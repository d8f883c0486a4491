"""Warn that the results of a finished run cannot be drawn or worded; such a failure is not one of the run."""

from __future__ import annotations

import traceback
from contextlib import suppress
from pathlib import Path

from mpinodes.runlog.progress import write_stderr


def warn(directory: Path, failure: str, error: Exception) -> None:
    """Print one line on stderr, and write the traceback into the log of the run.

    Args:
        directory: the run directory.
        failure: what cannot be done, for the message.
        error: the reason.
    """
    log = directory / "log.txt"
    with suppress(OSError), log.open("a", encoding="utf-8", errors="backslashreplace") as file:
        file.write("".join(traceback.format_exception(error)))
    why = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    write_stderr(f"mpinodes: warning: {failure}, but all numbers are in {directory} ({why}; traceback in {log})\n")
