"""Nobody waits for ever: what a rank is at, for how long, and who else lives.

MPI notices neither a rank that is stopped or loops, nor a link that is cut: whoever waits for it waits in silence. So a
timer interrupts each rank some times in a deadline, wherever in Python it is, and asks how long it has been at the same
thing. Time is counted in these interruptions, not by the clock: a job that was stopped as a whole, and goes on, was
not late. A round pays nothing for it, and an endless loop is interrupted where it loops.

Agents are late with rounds. The logger may have much to do at once, and is late when it gives no sign of life: each
agent sends it one at every tick, and it sends one to every agent.
"""

from __future__ import annotations

import os
import signal
import time
from array import array
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from mpinodes.core.experiment import Deadline
from mpinodes.launch.watcher import Watched

if TYPE_CHECKING:
    from types import FrameType

    from mpi4py import MPI

    from mpinodes.core import Neighborhood

LEAST = 600.0  # seconds: a file system that hangs, or a machine that is needed elsewhere, may take some minutes
TIMES = 20.0  # as long as the slowest round
UNATTENDED = 6000.0  # seconds for what is done at once before the rounds and after them, where nothing moves meanwhile
TICK = 5.0  # seconds at most
TICKS = 16  # in a deadline, at least
SIGN = 1  # the tag of a sign of life, which says how long its rank may be silent from now on
LAST = -1.0  # what the last one says
GROWTH = 1.25  # of a pause between two looks of a rank that waits long
GROWTH_IN_A_ROUND = 1.03  # where it waits for its neighbors
FIRST_PAUSE, PAUSE = 1.25e-5, 4e-4  # seconds of one, at least and at most, for each rank there is
OVERDUE_LINE = "overdue: "  # begins a line of log.txt that is one rank's `Report`


class Waiting(NamedTuple):
    """What a rank waits for.

    Attributes:
        requests: of MPI's.
        ranks: the one that each waits for; None: those of the round's neighbors.
    """

    requests: Sequence[MPI.Request]
    ranks: Sequence[int] | None


class Present:
    """What this process is at; set by whoever is at it, read by its `Pulse`.

    Attributes:
        steps: counts what was done: rounds, chunks, phases.
        here: an agent's place in its round; None: before its rounds, and after them.
        waiting: for others, patiently; None: it does something itself.
        waited: seconds so far.
        busy: is doing what may take long: nothing is expected of it but that it lives.
    """

    __slots__ = ("busy", "here", "steps", "waited", "waiting")

    def __init__(self) -> None:
        self.steps = 0
        self.here: Neighborhood | None = None
        self.waiting: Waiting | None = None
        self.waited = 0.0
        self.busy = True


PRESENT = Present()


def pauses(ranks: int, growth: float = GROWTH) -> Iterator[float]:
    """Seconds between two looks of a rank that waits: a part of what it has waited already, if need be.

    64 ranks that look every millisecond take more than one core of a small machine, from whom they wait for; with 256,
    half of what an agent did in a round were looks in the first milliseconds. Yet who sleeps in a round makes his
    neighbors wait, and sleep: with pauses of a fifth of what they had waited, after one stall 55 of 64 agents on a ring
    were asleep at any time, for good, and made 75 rounds a second where they make 200.

    Args:
        ranks: how many there are.
        growth: of a pause, from one to the next; less one, about its part of what was waited.
    """
    pause, longest = FIRST_PAUSE * ranks, PAUSE * ranks
    while True:
        yield pause
        pause = min(growth * pause, longest)


class Report(msgspec.Struct, frozen=True):
    """What one rank says of a deadline that has passed.

    Attributes:
        rank, process: whose report it is.
        round: its round; 0: it is before the first, or after the last.
        seconds: for which it was at the same thing.
        since: when it began, UTC.
        waits_for: ranks; none: it was at work of its own.
    """

    rank: int
    process: int
    round: int
    seconds: float
    since: str
    waits_for: tuple[int, ...] = ()


class Overdue(BaseException):
    """A deadline has passed. Like an interrupt from the keyboard, it is nothing that a part of a run may handle."""

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self.report = report


class Pulse:
    """A rank's timer: raises `Overdue` where it is late, or what it waits for is."""

    def __init__(self, world: MPI.Comm, watched: Watched) -> None:
        self._world, self._logger, self._watched = world, world.size - 1, watched
        self._peers = range(self._logger) if world.rank == self._logger else [self._logger]
        self._signs: dict[int, MPI.Request] = {}
        self._allowed = dict.fromkeys(self._peers, 0.0)  # how long each may be silent
        self._left: set[int] = set()  # those that have given their last sign
        self._quiet = False
        self._begin(None)

    def _begin(self, limit: float | None) -> None:
        self._learns, self._limit = limit is None, LEAST if limit is None else limit
        self._tick = min(TICK, self._limit / TICKS)
        self._steps, self._ticks, self._all_ticks, self._slowest = -1, 0, 0, 0
        self._silent = dict.fromkeys(self._peers, 0)

    @property
    def settling(self) -> float:
        """Seconds after which whoever else is late will have said so."""
        return 2 * self._tick

    def start(self, deadline: Deadline | None = None) -> None:
        """From now on there is a deadline, that of an experiment, or, before one is known, what it is by default."""
        self.stop()
        self._begin(float(deadline.seconds) if deadline and deadline.seconds else None)
        signal.signal(signal.SIGALRM, self._ticked)
        signal.siginterrupt(signal.SIGALRM, False)
        signal.setitimer(signal.ITIMER_REAL, self._tick, self._tick)

    def stop(self) -> None:
        """There is none any more."""
        signal.setitimer(signal.ITIMER_REAL, 0)

    def end(self) -> None:
        """There is no deadline any more, and no sign under way: MPICH refuses to end where a message was not taken.

        Every rank gives a last sign, and waits for those of the ranks that it hears from.
        """
        self._quiet = True
        under_way = [*self._signs.values()]
        for rank in self._peers:
            self._sign(rank, LAST)
        under_way += self._signs.values()
        for pause in pauses(self._world.size):
            ahead = [rank for rank in self._peers if rank not in self._left]
            if not ahead and all([request.Test() for request in under_way]):
                break
            PRESENT.waiting = Waiting((), ahead)
            time.sleep(pause)
            self._take_signs()
        PRESENT.waiting = None
        self.stop()

    def _ticked(self, number: int, frame: FrameType | None) -> None:
        self._watched.raise_lost()
        self._all_ticks += 1
        for rank in self._peers:
            self._silent[rank] += 1
        self._give_signs()
        self._take_signs()
        if PRESENT.steps != self._steps:
            self._learn()
            self._steps, self._ticks = PRESENT.steps, 0
            return
        self._ticks += 1
        if report := self._late():
            raise Overdue(report)

    def _learn(self) -> None:
        if self._learns and PRESENT.here:
            self._slowest = max(self._slowest, self._ticks)
            self._limit = max(LEAST, TIMES * self._slowest * self._tick)

    def _give_signs(self) -> None:
        for rank in () if self._quiet else self._peers:
            if rank not in self._signs or self._signs[rank].Test():
                self._sign(rank, self._limit)

    def _sign(self, rank: int, limit: float) -> None:
        from mpi4py import MPI

        self._signs[rank] = self._world.Isend([array("d", [limit]), MPI.DOUBLE], dest=rank, tag=SIGN)

    def _take_signs(self) -> None:
        from mpi4py import MPI

        word = array("d", [0.0])
        for rank in self._peers:
            while message := self._world.Improbe(source=rank, tag=SIGN):  # which a tick cannot take away from `end`
                message.Recv([word, MPI.DOUBLE])
                self._silent[rank] = 0
                if word[0] == LAST:
                    self._left.add(rank)
                else:
                    self._allowed[rank] = word[0]

    def _waits_for(self) -> list[int]:
        """The ranks that have not done yet what this one waits for."""
        if (waiting := PRESENT.waiting) is None:
            return []
        ranks, here = waiting.ranks, PRESENT.here
        if ranks is None:
            ranks = (*here.in_neighbors, *here.out_neighbors) if here else ()
        if not (ranks and waiting.requests):
            return list(ranks)
        open_ones = (rank for rank, request in zip(ranks, waiting.requests, strict=True) if not request.Get_status())
        return sorted(set(open_ones))

    def _late(self) -> Report | None:
        waits_for = self._waits_for()
        if not waits_for:  # this rank is at work, and is the first to know whose fault it is that others wait
            most = self._limit - 2 * self._tick
            if PRESENT.busy:
                most = max(UNATTENDED, self._all_ticks * self._tick, self._limit)
            return self._report(self._ticks, []) if self._ticks * self._tick > most else None
        if waits_for[0] not in self._silent:
            return self._report(self._ticks, waits_for) if self._ticks * self._tick > self._limit else None
        silent = [r for r in waits_for if self._silent[r] * self._tick > max(self._limit, self._allowed[r])]
        return self._report(max(self._silent[r] for r in silent), silent) if silent else None

    def _report(self, ticks: int, waits_for: list[int]) -> Report:
        seconds = round(ticks * self._tick, 3)
        since = datetime.now(UTC) - timedelta(seconds=seconds)
        here = PRESENT.here
        when = f"{since:%Y-%m-%d %H:%M:%S} UTC"
        return Report(self._world.rank, os.getpid(), here.t if here else 0, seconds, when, tuple(waits_for))


class Place(NamedTuple):
    """Where a rank is."""

    host: str
    process: int


def line(report: Report) -> str:
    """A report, as a line of log.txt."""
    return f"{OVERDUE_LINE}{msgspec.json.encode(report).decode()}\n"


def reports_in(log: Path, places: Sequence[Place]) -> list[Report]:
    """Those of these ranks that log.txt holds; none where it cannot be read."""
    try:
        lines = log.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return []
    said = (line.removeprefix(OVERDUE_LINE) for line in lines if line.startswith(OVERDUE_LINE))
    found = [msgspec.json.decode(text, type=Report) for text in said]
    return [report for report in found if places[report.rank].process == report.process]


def in_words(reports: Iterable[Report], places: Sequence[Place]) -> str:
    """Who is to blame, as far as these ranks know: whoever is waited for and does not itself wait.

    Args:
        reports: of all that are known to be late, at least one.
        places: of all ranks.
    """
    told = {report.rank: report for report in reports}
    busy = [report for report in told.values() if not report.waits_for]
    if busy:
        return "; ".join(
            f"{_name(report.rank, places)}{_round(report)} has been at work of its own for {_how_long(report)}"
            for report in busy[:3]
        )
    awaited = {rank for report in told.values() for rank in report.waits_for}
    if silent := sorted(awaited - told.keys()):
        first = min(told.values(), key=lambda report: (not report.round, report.since))
        waiting = sorted(r.rank for r in told.values() if set(silent) & set(r.waits_for))
        return (
            f"no word from {_listed(silent, places)} for {_how_long(first)}; "
            f"{_listed(waiting, places, where=False)} wait{'s' * (len(waiting) == 1)} for "
            f"{'it' if len(silent) == 1 else 'them'}{_round(first)}"
            f"{_states(silent, places)}"
        )
    pairs = [(r.rank, other) for r in told.values() for other in r.waits_for if r.rank in told[other].waits_for]
    apart = [pair for pair in pairs if pair[0] < pair[1] and places[pair[0]].host != places[pair[1]].host]
    first = told[min(told)]
    if apart:
        one, other = apart[0]
        return (
            f"{_name(one, places)} on {places[one].host} and {_name(other, places)} on {places[other].host} wait for "
            f"each other, for {_how_long(told[one])}{_round(told[one])}: nothing passes between these hosts"
        )
    return f"{_listed(sorted(told), places, where=False)} wait for each other, for {_how_long(first)}{_round(first)}"


def _name(rank: int, places: Sequence[Place]) -> str:
    return "the logger" if rank == len(places) - 1 else f"agent {rank}"


def _listed(ranks: list[int], places: Sequence[Place], where: bool = True) -> str:
    """Some of the ranks, by name."""
    names = [
        f"{_name(r, places)} (process {places[r].process} on {places[r].host})" if where else _name(r, places)
        for r in ranks[:3]
    ]
    if len(ranks) > len(names):
        return f"{', '.join(names)} and {len(ranks) - len(names)} more"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _round(report: Report) -> str:
    return f" in round {report.round}" if report.round else ""


def _how_long(report: Report) -> str:
    return f"{report.seconds:.{0 if report.seconds > 20 else 1}f} s, since {report.since}"


def _states(ranks: list[int], places: Sequence[Place]) -> str:
    """What the system says of the processes of this host among them."""
    here = os.uname().nodename
    found = [_state(places[rank].process) for rank in ranks if places[rank].host == here]
    return f": {found[0]}" if found and len(set(found)) == 1 else ""


def _state(process: int) -> str:
    try:
        letter = Path(f"/proc/{process}/stat").read_text("utf-8", errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return "its process is gone"
    if letter in "Tt":
        return "its process is stopped (by SIGSTOP, or a debugger)"
    if letter == "Z":
        return "its process is dead"
    return "its process waits for a disk" if letter == "D" else "its process is alive, in a step that does not end"
