"""Measure how long each part of a command takes."""

from __future__ import annotations

import time
from collections.abc import Sequence

from mpinodes.summary.summary import RanksSummary, TimingSummary

PARTS = ("start_up", "rounds", "comparator", "accounting", "bounds", "report")


class Stopwatch:
    """Measure how many seconds each part of a command takes.

    Args:
        begun: the start time by `time.perf_counter`; None means now.
    """

    def __init__(self, begun: float | None = None) -> None:
        self._last = time.perf_counter() if begun is None else begun
        self._seconds = dict.fromkeys(PARTS, 0.0)
        self._ranks: RanksSummary | None = None

    def lap(self, part: str) -> None:
        """Add the seconds since the last call to the time of a part."""
        now = time.perf_counter()
        self._seconds[part] += now - self._last
        self._last = now

    def of_ranks(self, times: Sequence[Sequence[float]] | None) -> None:
        """Store the seconds for which each rank worked and waited in the rounds.

        Args:
            times: two lists, the seconds of work and the seconds of waiting, by rank, the logger last; None if there is
                only one process.
        """
        self._ranks = RanksSummary(working=list(times[0]), waiting=list(times[1])) if times else None

    def add(self, timing: TimingSummary) -> None:
        """Add the seconds that another stopwatch measured, for example in a repeat.

        The next call of `lap` counts the seconds since this call.
        """
        for part in PARTS:
            self._seconds[part] += getattr(timing, part)
        self._ranks = timing.ranks
        self._last = time.perf_counter()

    def timing(self) -> TimingSummary:
        """Return the seconds of each part, their sum, and the seconds of the ranks."""
        return TimingSummary(**self._seconds, total=sum(self._seconds.values()), ranks=self._ranks)
