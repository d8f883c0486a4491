"""Where the time of a command goes."""

from __future__ import annotations

import time
from collections.abc import Sequence

from mpinodes.summary.summary import RanksSummary, TimingSummary

PARTS = ("start_up", "rounds", "comparator", "accounting", "bounds", "report")


class Stopwatch:
    """Seconds that each part has taken so far; together, all since it began.

    Args:
        begun: by `time.perf_counter`; None: now.
    """

    def __init__(self, begun: float | None = None) -> None:
        self._last = time.perf_counter() if begun is None else begun
        self._seconds = dict.fromkeys(PARTS, 0.0)
        self._ranks: RanksSummary | None = None

    def lap(self, part: str) -> None:
        """What was done since the last lap was this part."""
        now = time.perf_counter()
        self._seconds[part] += now - self._last
        self._last = now

    def of_ranks(self, times: Sequence[Sequence[float]] | None) -> None:
        """Take the seconds that every rank worked and waited in the rounds, the logger last; None: one rank."""
        self._ranks = RanksSummary(working=list(times[0]), waiting=list(times[1])) if times else None

    def add(self, timing: TimingSummary) -> None:
        """Add the seconds of other stopwatches, and begin the next lap now."""
        for part in PARTS:
            self._seconds[part] += getattr(timing, part)
        self._ranks = timing.ranks
        self._last = time.perf_counter()

    def timing(self) -> TimingSummary:
        """Return the seconds by part and in all, and those of the ranks."""
        return TimingSummary(**self._seconds, total=sum(self._seconds.values()), ranks=self._ranks)
