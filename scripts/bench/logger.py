"""What the logger's CPU goes to, and how it grows: python scripts/bench/logger.py [--quick] [--csv FILE] [--data DIR].

No agent runs: the logger is handed rows of random estimates, chunk by chunk, as agents would send them. So its share of
a run with any number of agents is found on one core. Printed is, in microseconds of CPU time by round, what it takes to
read the samples, to find the losses, to add them up, for metrics, for the record and for all else; in milliseconds what
a horizon takes beside that (averages, and what is judged there: labels, and F of offline methods); and what is done
once. Of rows that differ in one thing, growth is told as the exponent between neighbors.
"""

from __future__ import annotations

import argparse
import csv
import os
import platform
import tempfile
import time
from collections.abc import Callable
from functools import wraps
from math import log
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from mpinodes.config.compose import compose
from mpinodes.core.asked import asked_for
from mpinodes.evaluation import meter, regret, samples
from mpinodes.evaluation.evaluator import Evaluator
from mpinodes.rounds.plan import longest_chunk
from mpinodes.runlog import export
from mpinodes.runlog.log import Log
from mpinodes.running import logger
from mpinodes.summary.timing import Stopwatch

ROUNDLY = ("samples", "losses", "sums", "metrics", "record", "rest")
HORIZON, ONCE = "horizon", "once"
DOLA = "algorithm.name=dola topology.name=ring data.name=unit-ball data.total=200000"
TABLE = {  # of each row: what is asked for, and after how many rounds to stop
    "dpsda-ps": [("algorithm.name=dpsda-ps", None)],
    "dola, d = 784": [("algorithm.name=dola topology.name=ring data.dimension=784 data.total=25000", None)],
    "dola-minibatch": [("algorithm.name=dola-minibatch", None)],
    "pp-admm": [("algorithm.name=pp-admm", None)],
    "n": [(f"{DOLA} topology.agents={n}", 1000) for n in (7, 15, 31, 63, 127)],
    "d": [(f"{DOLA} data.total=20000 data.dimension={d}", 300) for d in (10, 64, 784)],
    "batch": [(f"{DOLA} data.batch={m}", 300) for m in (1, 10, 100)],
    "total": [(f"algorithm.name=pp-admm problem.weight=1 data.total={total}", 60) for total in (1000, 4000, 16000)],
}
FILES = {
    "pp-admm, Adult": ("algorithm.name=pp-admm data.name=adult data.dir={}/adult", None),
    "MNIST 6/8": ("algorithm.name=dpsda-ps data.name=mnist-6-8 data.dir={}/mnist rounds=1000", None),
    "dola, RCV1": ("algorithm.name=dola data.name=rcv1 data.dir={}/rcv1 rounds=199", None),
}
QUICK = {
    "dpsda-ps": [("algorithm.name=dpsda-ps rounds=30", None)],
    "n": [(f"{DOLA} data.total=2000 topology.agents={n}", 20) for n in (3, 6)],
    "pp-admm": [("algorithm.name=pp-admm problem.weight=1 data.total=200 rounds=9", None)],
}


class Took(NamedTuple):
    """CPU seconds of a run by part, and how much there was of what they grow with."""

    seconds: dict[str, float]
    agents: int
    dimension: int
    samples: int  # of all agents, in a round
    rounds: int
    horizons: int

    def by_round(self, part: str) -> float:
        """Microseconds."""
        return self.seconds[part] / self.rounds * 1e6

    @property
    def roundly(self) -> float:
        """All that rounds take, in microseconds by round."""
        return sum(map(self.by_round, ROUNDLY))

    @property
    def by_horizon(self) -> float:
        """Milliseconds."""
        return self.seconds[HORIZON] / self.horizons * 1e3


class Parts:
    """CPU time by part: what calls within a part belong to another is that one's alone."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys((*ROUNDLY, HORIZON, ONCE), 0.0)
        self._within: list[str] = []
        self._last = 0.0

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, whose time is the part's."""

        @wraps(function)
        def wrapped(*given: Any, **named: Any) -> Any:
            self._lap()
            self._within.append(part)
            try:
                return function(*given, **named)
            finally:
                self._lap()
                self._within.pop()

        return wrapped

    def _lap(self) -> None:
        now = time.process_time()
        if self._within:
            self.seconds[self._within[-1]] += now - self._last
        self._last = now


WHERE: list[tuple[Any, str, str]] = [
    (logger.Logger, "__init__", ONCE), (logger.Logger, "take", "rest"), (Evaluator, "take", "metrics"),
    (meter.Meter, "take", "sums"), (meter.Meter, "_keep", HORIZON), (meter.Meter, "end", HORIZON),
    (regret.Changing, "at", "losses"), (regret.ConstantLosses, "at", "losses"), (samples.Samples, "_of", "samples"),
    (Log, "append", "record"), (export, "add_variable", ONCE),
]  # fmt: skip


def took(words: str, stop: int | None) -> Took:
    """The logger's part of a run, of which the first rounds alone are looked at."""
    parts, kept = Parts(), [(owner, name, getattr(owner, name)) for owner, name, _ in WHERE]
    with tempfile.TemporaryDirectory() as there:
        setup = compose(asked_for([*words.split(), f"output.dir={there}/run", "report=false"]), None)
        try:
            for owner, name, part in WHERE:
                setattr(owner, name, parts.timed(part, getattr(owner, name)))
            rounds, horizons = followed(setup, Path(there), stop)
        finally:
            for owner, name, function in kept:
                setattr(owner, name, function)
    n = setup.topology.agents
    of_round = sum(setup.samples) if setup.algorithm.decomposable else setup.samples[0]
    return Took(parts.seconds, n, setup.dimension, of_round, rounds, horizons)


def followed(setup: Any, directory: Path, stop: int | None) -> tuple[int, int]:
    """Rounds and horizons of a run of random estimates."""
    e, n, width = setup.experiment, setup.topology.agents, setup.layout.width
    length, rng = longest_chunk(setup), np.random.default_rng(0)
    chunks = [np.zeros((n, length, width)) for _ in range(4)]
    for chunk in chunks:
        chunk[..., : setup.dimension] = rng.normal(size=(n, length, setup.dimension)) / setup.dimension**0.5
    one, done, last = logger.Logger(setup, directory, "none", Stopwatch()), 0, min(stop or e.rounds, e.rounds)
    while done < last:
        some = min(length, last - done)
        one.take(chunks[done // length % len(chunks)][:, :some])
        done += some
    one._log.sync()
    one._progress.close()
    found = one._evaluator._meter
    found.end()
    return done, len(found.horizons)


def grown(before: Took, now: Took) -> str:
    """The exponents with which the costs grow with what differs."""
    for name in ("agents", "dimension", "samples", "rounds"):
        ratio = getattr(now, name) / getattr(before, name)
        if ratio != 1:
            costs = ((now.roundly, before.roundly), (now.by_horizon, before.by_horizon))
            by_round, by_horizon = (log(a / b) / log(ratio) for a, b in costs)
            return f"rounds ~ {name}^{by_round:.2f}, horizons ~ {name}^{by_horizon:.2f}"
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few small runs")
    parser.add_argument("--only", action="append", help="a row or a group of the table; may be given more than once")
    parser.add_argument("--data", help="a directory with adult, mnist and rcv1, for these rows too")
    parser.add_argument("--csv", type=Path, help="a file for all rows")
    given = parser.parse_args()
    table = dict(QUICK if given.quick else TABLE)
    if given.data:
        table |= {name: [(words.format(given.data), stop)] for name, (words, stop) in FILES.items()}
    print(f"{platform.node()}: {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    head = ("n", "d", "samples", "rounds", *ROUNDLY, "us/round", "horizons", "ms each", "once, ms")
    print(f"{'':18}" + "".join(f"{name:>10}" for name in head))
    rows: list[list[Any]] = []
    with threadpool_limits(1), np.errstate(all="ignore"):
        for name in given.only or table:
            before: Took | None = None
            for words, stop in table[name]:
                found = took(words, stop)
                numbers = (*map(found.by_round, ROUNDLY), found.roundly)
                shown = [*found[1:5], *(f"{x:.1f}" for x in numbers), found.horizons]
                shown += [f"{found.by_horizon:.2f}", f"{1e3 * found.seconds[ONCE]:.0f}"]
                print(f"{name:18}" + "".join(f"{x:>10}" for x in shown), grown(before, found) if before else "")
                rows.append([name, words, *found[1:], *numbers, found.by_horizon, found.seconds[ONCE]])
                before = found
    if given.csv:
        with given.csv.open("w", newline="") as file:
            writer = csv.writer(file)
            sizes = ("agents", "dimension", "samples", "rounds", "horizons")
            writer.writerow(["row", "asked for", *sizes, *ROUNDLY, "us_per_round", "ms_per_horizon", "once"])
            writer.writerows(rows)


if __name__ == "__main__":
    main()
