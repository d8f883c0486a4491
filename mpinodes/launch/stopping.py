"""Signals that ask a run to stop: it writes down what it needs to go on, and ends."""

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
ONE = 0.5  # seconds in which launcher and terminal hand one and the same signal on


class Ended(BaseException):
    """A signal ended a run after its rounds, and that was said. Its argument is the exit code."""


class Signals:
    """Listens to them, in the rounds of a run and after them.

    A second SIGINT is an interrupt from the keyboard at once. After the rounds SIGTERM and SIGINT end the run, and
    `log.txt` says so at once: Open MPI's mpirun, to which they came, passes nothing on that is printed from now on.

    Args:
        numbers: of the signals.

    Attributes:
        asked: the name of the one that came first; "": none has.
        run: its directory, where this process acts on signals; None: it leaves that to another one.
        are_recorded: whether all rounds are.
    """

    def __init__(self, numbers: Sequence[signal.Signals] = ASKING) -> None:
        self._numbers, self.asked = numbers, ""
        self.run: Path | None = None
        self.are_recorded = False
        self._interrupted = 0.0
        self._before: dict[int, Any] = {}

    def is_asked(self) -> bool:
        """Whether the run is to stop."""
        return bool(self.asked)

    def __enter__(self) -> Signals:
        try:
            self._before = {number: signal.signal(number, self._came) for number in self._numbers}
        except ValueError:  # not the main thread: whoever runs this has signals of its own
            self._before = {}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _came(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if number == signal.SIGINT:
            if self._interrupted and now - self._interrupted > ONE:
                raise KeyboardInterrupt
            self._interrupted = self._interrupted or now
        name = signal.Signals(number).name
        self.asked = self.asked or name
        if self.run is None:
            return
        ends = self.are_recorded and number != signal.SIGUSR1
        text = (
            f"{name}: all rounds are recorded; to sum them up: mpinodes report {self.run}" if ends else f"{name} came"
        )
        with suppress(OSError), (self.run / "log.txt").open("a", encoding="utf-8", errors="replace") as log:
            log.write(text + "\n")
        if ends:
            say(text)
            raise Ended(INTERRUPTED if number == signal.SIGINT else STOPPED)
