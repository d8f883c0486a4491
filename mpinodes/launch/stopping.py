"""Handle signals that ask a run to stop. A run that stops saves a checkpoint first, so it can be resumed."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from mpinodes.launch.launching import INTERRUPTED, STOPPED, say

ASKING = (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT)
KEY_PRESS = 0.5  # seconds: SIGINTs that are closer come from one key press, passed on by terminal and launcher


class Ended(BaseException):
    """A signal ended a run after its last round, and a message was printed. The argument is the exit code."""


class Signals:
    """A context in which signals ask the run to stop, during its rounds and after them.

    During the rounds, the first signal only sets `asked`, and the run stops at the end of a chunk. A second SIGINT
    raises KeyboardInterrupt. After the rounds, SIGTERM and SIGINT end the run. The reason is written to `log.txt`,
    because Open MPI's mpirun, after it has received a signal, does not print the output of its ranks any more.

    Args:
        numbers: the signals to handle.

    Attributes:
        asked: the name of the first signal that came; "" if none came.
        run: the run directory in the process that acts on signals; None in processes that leave this to the logger.
        are_recorded: whether all rounds of the run are recorded.
    """

    def __init__(self, numbers: Sequence[signal.Signals] = ASKING) -> None:
        self._numbers, self.asked = numbers, ""
        self.run: Path | None = None
        self.are_recorded = False
        self._interrupted = 0.0
        self._before: dict[int, Any] = {}

    def is_asked(self) -> bool:
        """Return whether a signal has asked the run to stop."""
        return bool(self.asked)

    def __enter__(self) -> Signals:
        try:
            self._before = {number: signal.signal(number, self._handle) for number in self._numbers}
        except ValueError:  # not the main thread: the program that runs it handles signals itself
            self._before = {}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

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
        advice = f": all rounds are recorded; for summary and page: mpinodes report {self.run}" if ends else ""
        text = f"received {name}{advice}"
        with suppress(OSError), (self.run / "log.txt").open("a", encoding="utf-8", errors="replace") as log:
            log.write(text + "\n")
        if ends:
            say(text)
            raise Ended(INTERRUPTED if number == signal.SIGINT else STOPPED)
