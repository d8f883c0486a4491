"""Where the time of a command goes."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mpinodes.summary.combining import Rules, total

PARTS = ("start_up", "rounds", "comparator", "accounting", "bounds", "report")
RANKS = ("working", "waiting")
RULES: Rules = {**dict.fromkeys((*PARTS, "total"), total), "ranks": dict.fromkeys(RANKS, total)}


class Stopwatch:
    """Seconds that each part has taken so far; together, all since it began.

    Args:
        begun: by `time.perf_counter`; None: now.
    """

    def __init__(self, begun: float | None = None) -> None:
        self._last = time.perf_counter() if begun is None else begun
        self._seconds = dict.fromkeys(PARTS, 0.0)
        self._ranks: dict[str, list[float]] | None = None

    def lap(self, part: str) -> None:
        """What was done since the last lap was this part."""
        now = time.perf_counter()
        self._seconds[part] += now - self._last
        self._last = now

    def of_ranks(self, times: Sequence[Sequence[float]] | None) -> None:
        """What the rounds took of every rank, the logger last: seconds at work, and waiting; None: there is one."""
        self._ranks = {name: list(of) for name, of in zip(RANKS, times, strict=True)} if times else None

    def add(self, seconds: dict[str, Any]) -> None:
        """What others have shown, up to now."""
        for part in PARTS:
            self._seconds[part] += seconds[part]
        self._ranks = seconds.get("ranks")
        self._last = time.perf_counter()

    def seconds(self) -> dict[str, Any]:
        """By part, and in all; of ranks, of the rounds."""
        return {**self._seconds, "total": sum(self._seconds.values()), "ranks": self._ranks}


def process_began(process: int | str = "self") -> float:
    """When a process was started, this one or another, by `time.perf_counter`, where Linux tells; else now."""
    now = time.perf_counter()
    try:
        ticks = int(Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()[19])
        # In hundredths of a second, rounded down: with the next one no run takes longer than the clock says.
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - (ticks + 1) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, AttributeError):
        return now
    return now - age if 0 <= age < 1e6 else now


def in_words(seconds: dict[str, float]) -> str:
    """The whole, and what parts of it can be felt."""
    felt = [f"{part.replace('_', '-')} {seconds[part]:.1f}" for part in PARTS if seconds[part] >= 0.05]
    return f"{seconds['total']:.1f} s in all: {', '.join(felt)}"
