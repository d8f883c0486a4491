"""Choose the order of the runs of a study, and predict the time until all runs are done.

Runs of the same kind have the same algorithm, data, graph, rounds and agents, and take about the same time. One run of
each kind is done first, then all other runs, the longest first. If no run of a kind is done yet, the time of such a run
is predicted from its rounds, agents and dimension.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from itertools import islice
from statistics import median
from typing import Any, NamedTuple

from mpinodes.core.parts import LOCATIONS
from mpinodes.studies.plans import PlannedRun

OVERHEAD = 4000  # the time of a run outside the rounds, as a number of agents' rounds
LIGHT = 100  # coordinates that take as long as all else in a round of an agent
RECENT = 20  # the number of latest runs of a kind from which the time of the next is predicted
Kind = tuple[Any, ...]


class Timed(NamedTuple):
    """Hold the result of a task, and the wall-clock and the CPU seconds that the task took."""

    result: Any
    seconds: float
    cpu: float = 0.0


def timed(do: Callable[[Any], Any], item: Any) -> Timed:
    """Apply `do` to an item, and measure the time."""
    begun, used = time.perf_counter(), sum(os.times()[:4])  # of this process and of child processes that ended
    return Timed(do(item), time.perf_counter() - begun, sum(os.times()[:4]) - used)


def kind(plan: PlannedRun) -> Kind:
    """Return the settings that determine how long a run takes, and whether its noise scale is already computed."""
    e = plan.experiment
    parts = (str(part.get("path", part.get("name"))) for part in (e.algorithm, e.topology))
    data = repr({key: value for key, value in e.data.items() if key not in ("seed", *LOCATIONS)})
    return *parts, data, e.rounds, plan.agents, plan.is_ready


def size(plan: PlannedRun) -> int:
    """Return a number that is about proportional to the time of a run, if the algorithms of all runs are equal."""
    return (OVERHEAD + plan.experiment.rounds * plan.agents) * (LIGHT + plan.dimension)


def in_order(plans: Sequence[PlannedRun]) -> list[PlannedRun]:
    """Return runs in the order in which to start them: one run of each kind, then all others, the longest first."""
    first = {kind(plan): k for k, plan in reversed([*enumerate(plans)])}
    samples = random.Random(0).sample(sorted(first.values()), len(first))
    others = sorted({*range(len(plans))}.difference(samples), key=lambda k: (-size(plans[k]), k))
    return [plans[k] for k in samples + others]


class Forecast:
    """Predict how long the unfinished runs of a study will take, if no worker is ever idle.

    Args:
        plans: the runs, in the order in which they start.
        workers: the number of runs that are done at the same time.
        clock: returns the time in seconds.
    """

    def __init__(
        self, plans: Sequence[PlannedRun], workers: int, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._kinds, self._workers, self._clock, self._begun = [*map(kind, plans)], workers, clock, clock()
        self._sizes = {kind(plan): size(plan) for plan in plans}
        self._left = dict.fromkeys(range(len(plans)))  # the runs that are not done, in their order
        self._number = Counter(self._kinds)  # of these runs, by kind
        self._times = defaultdict[Kind, deque[float]](lambda: deque(maxlen=RECENT))
        self._worked = 0.0

    def done(self, k: int, outcome: Timed | None) -> None:
        """Take into account that run k is done; the outcome is None if the worker died."""
        del self._left[k]
        self._number[self._kinds[k]] -= 1
        if outcome is not None:
            self._times[self._kinds[k]].append(outcome.seconds)
            self._worked += outcome.seconds

    def left(self) -> float | None:
        """Return the predicted number of seconds until all runs are done; None if no duration of a run is known."""
        if not self._times:
            return None
        elapsed = self._clock() - self._begun
        known = {of: median(times) for of, times in self._times.items()}
        ratio = median(seconds / self._sizes[of] for of, seconds in known.items())
        unknown = {
            of: known.get((*of[:-1], not of[-1]), ratio * number)
            for of, number in self._sizes.items()
            if of not in known
        }
        started = [self._kinds[k] for k in islice(self._left, self._workers)]
        so_far = max(elapsed - self._worked / self._workers, 0.0)  # of each of these runs, in the mean
        unknown |= {of: max(unknown[of], 2 * so_far) for of in started if of in unknown}
        ahead = sum(number * (known | unknown)[of] for of, number in self._number.items())
        return max((self._worked + ahead) / self._workers - elapsed, 0.0)
