"""Handle signals that ask a run to stop.

During the rounds, the first signal to the logger makes the run save a checkpoint and end.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from mpinodes.launch.launching import INTERRUPTED, STOPPED, say

ASKING = (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT)
KEY_PRESS = 0.5  # seconds: two SIGINTs within this time come from one key press, which terminal and launcher pass on


class Ended(BaseException):
    """Raised to end this process, because a signal came after the last round of the run.

    The only argument is the exit code. A message is printed before the exception is raised.
    """


class Signals:
    """Handle the signals that ask a run to stop, as a context manager.

    In every process, a signal sets the attribute `asked`. The logger, which records the rounds, decides what follows:

    - During the rounds, a signal to the logger stops the run a few rounds later.
    - When all rounds are recorded, SIGTERM and SIGINT make the logger raise `Ended`.

    In every process, a second SIGINT, more than `KEY_PRESS` seconds after the first, raises KeyboardInterrupt. The
    logger writes the names of all other signals to `log.txt`. Outside the main thread of a program, no signal is
    handled.

    Args:
        numbers: the signals to handle.

    Attributes:
        asked: the name of the first signal that this process received; "" if it received no signal.
        run: the run directory, in the logger; None in the other processes.
        are_recorded: whether all rounds of the run are recorded.
    """

    def __init__(self, numbers: Sequence[signal.Signals] = ASKING) -> None:
        self._numbers, self.asked = numbers, ""
        self.run: Path | None = None
        self.are_recorded = False
        self._interrupted, self._code = 0.0, 0
        self._before: dict[int, Any] = {}

    def is_asked(self) -> bool:
        """Return whether a signal has asked the run to stop."""
        return bool(self.asked)

    def __enter__(self) -> Signals:
        with suppress(ValueError):  # not the main thread: the program that runs it handles signals itself
            self._before = {number: signal.signal(number, self._handle) for number in self._numbers}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        if self._code and kind is None:
            raise Ended(self._code)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if number == signal.SIGINT:
            if self._interrupted and now - self._interrupted > KEY_PRESS:
                raise KeyboardInterrupt
            self._interrupted = self._interrupted or now
        name = signal.Signals(number).name
        self.asked = self.asked or name
        if self.run is None:
            return
        ends = self.are_recorded and number != signal.SIGUSR1
        text = f"received {name}"
        if ends:
            text += f": all rounds are recorded; to write the summary and the page: mpinodes report {self.run}"
        # Open MPI's mpirun no longer prints the output of its ranks after a signal.
        with suppress(OSError), (self.run / "log.txt").open("a", encoding="utf-8", errors="replace") as log:
            log.write(text + "\n")
        if ends:
            say(text)
            self._code = INTERRUPTED if number == signal.SIGINT else STOPPED
            sys.unraisablehook = lambda _: None  # a finalizer loses the exception; then `__exit__` raises it again
            raise Ended(self._code)
