"""Signals that ask a run to stop: it writes down what it needs to go on, and ends."""

from __future__ import annotations

import signal
import time
from types import FrameType, TracebackType
from typing import Any

ASKING = (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT)
ONE = 0.5  # seconds in which launcher and terminal hand one and the same signal on


class Signals:
    """Listens to them, in the rounds of a run.

    A second SIGINT is an interrupt from the keyboard at once.

    Args:
        acts: whether this process is the one that acts on them; the others leave it to that one.

    Attributes:
        asked: the name of the one that came first; "": none has, or not for this one to act on.
    """

    def __init__(self, acts: bool = True) -> None:
        self._acts, self.asked = acts, ""
        self._interrupted = 0.0
        self._before: dict[int, Any] = {}

    def is_asked(self) -> bool:
        """Whether the run is to stop."""
        return bool(self.asked)

    def __enter__(self) -> Signals:
        try:
            self._before = {number: signal.signal(number, self._came) for number in ASKING}
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
        if self._acts and not self.asked:
            self.asked = signal.Signals(number).name
