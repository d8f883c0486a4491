"""The whole examination: what is seen from one process, and what only all ranks together can see."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import TYPE_CHECKING

from mpinodes.launch.launching import Launcher, in_words, launcher, shared_memory_lacks
from mpinodes.running.doctor import host
from mpinodes.running.doctor.disk import try_folder
from mpinodes.running.doctor.host import Host, Rank
from mpinodes.running.doctor.launchers import about_launcher, about_library, library, load
from mpinodes.running.doctor.report import NOTHING, Line, Report, most

if TYPE_CHECKING:
    from mpi4py import MPI

    from mpinodes.running.doctor.supervised import Stage


def examine(folder: Path, version: str, limit: float, stage: Stage) -> int:
    """Say what is found, from rank 0; returns the exit code.

    Args:
        folder: where runs are to be written.
        version: of mpinodes.
        limit: seconds that all of it may take.
        stage: is told what this is at.
    """
    started = launcher()
    report = Report(speaks=started is None or started.rank == 0)
    if warning := shared_memory_lacks():  # MPI, were it started, might end this process before it has spoken
        report.title(f"mpinodes {version}, {platform.node()}")
        report.add([Line("mend", "memory", warning)])
        return report.code
    found = load()
    if isinstance(found, Line):
        report.title(f"mpinodes {version}, {platform.node()}")
        report.add([found])
        _alone(folder, version, "none", report, stage)
        return report.code
    world = found.COMM_WORLD
    if world.size == 1:
        return _single(folder, version, started, report, stage)
    try:
        Together(world, report, stage, limit).examine(folder, version, started)
    except Exception as error:  # which one rank may meet while the others wait for it
        report = Report(speaks=True)
        report.add([Line("mend", "doctor", f"rank {world.rank} on {platform.node()}: {in_words(error)}")])
        world.Abort(report.code)
    return report.code


def _single(folder: Path, version: str, started: Launcher | None, report: Report, stage: Stage) -> int:
    """A world of one: on purpose, or because another MPI's launcher started it."""
    if started and started.rank != 0:
        return NOTHING  # each of them would say the same
    report.title(f"mpinodes {version} on {platform.node()}")
    report.add([about_library(), *about_launcher(started, 1)])
    _alone(folder, version, library(), report, stage)
    return report.code


def _alone(folder: Path, version: str, mpi: str, report: Report, stage: Stage) -> None:
    """What one process sees."""
    stage("looking at this host")
    here, mine = Rank.here(version, mpi), Host.here()
    report.add(host.about_cores([here]))
    report.add([host.about_blas([here])])
    report.add(host.about_memory([mine]))
    stage(f"writing to {folder}")
    report.add([try_folder(folder), host.about_versions([here])])


class Together:
    """What all ranks look at together; rank 0 speaks."""

    def __init__(self, world: MPI.Comm, report: Report, stage: Stage, limit: float) -> None:
        self._world, self._report, self._stage, self._limit = world, report, stage, limit

    def examine(self, folder: Path, version: str, started: Launcher | None) -> None:
        """All of it; a collective call."""
        self._report.title(f"mpinodes {version}, {self._world.size} ranks, rank 0 on {platform.node()}")
        self._report.add([about_library(), *about_launcher(started, self._world.size)])
        self._stage("looking at this host")
        ranks = self._all_ranks(Rank.here(version, library()))
        self._all_links()
        self._stage("waiting for what other ranks say of their hosts")
        hosts = self._hosts()
        self._report.add(host.about_cores(ranks))
        self._report.add([host.about_blas(ranks)] if ranks else [])
        self._report.add(host.about_memory(hosts))
        self._stage(f"writing to {folder}")
        self._report.add(self._disk(folder))
        self._report.add([host.about_versions(ranks)] if ranks else [])
        self._stage("exchanging frames on a ring")
        self._rounds()

    def _all_ranks(self, mine: Rank) -> list[Rank]:
        """What each says of itself, on rank 0."""
        from mpinodes.running.doctor.exchange import hear

        self._stage("waiting for a word from each rank")
        ranks = hear(self._world, mine, self._limit / 3)
        self._end_if("was not heard", [f"rank {r}" for r, said in enumerate(ranks) if said is None])
        return ranks

    def _all_links(self) -> None:
        """Whether neighbours reach each other, too."""
        from mpinodes.running.doctor.exchange import hear, silent_links

        self._stage("waiting for a frame from each neighbour")
        said = hear(self._world, silent_links(self._world, self._limit / 6), self._limit / 4)
        broken = [
            f"rank {r} (from {most(silent, 2)})" if silent else f"rank {r}"
            for r, silent in enumerate(said)
            if silent is None or silent
        ]
        self._end_if("got no frame", broken)

    def _end_if(self, what: str, who: list[str]) -> None:
        """Some rank hangs, and so will every call that waits for all."""
        if not who:
            return
        advice = "look whether it is stopped, and whether MPI's traffic passes between the hosts (firewall, interface)"
        self._report.add([Line("mend", "ranks", f"{most(who)} {what} in time", advice)])
        self._world.Abort(self._report.code)

    def _hosts(self) -> list[Host]:
        """Return facts of each host, on rank 0."""
        from mpinodes.rounds.network import assemble

        names = self._world.allgather(platform.node())
        first = {name: names.index(name) for name in names}
        mine = Host.here() if first[platform.node()] == self._world.rank else None
        assemble(self._world)
        return [fact for fact in self._world.gather(mine) or [] if fact]

    def _disk(self, folder: Path) -> list[Line]:
        """Try the logger's folder, which is the last rank's: it alone writes the record."""
        from mpinodes.rounds.network import assemble

        last = self._world.size - 1
        line = try_folder(folder) if self._world.rank == last else None
        assemble(self._world)
        return [self._world.bcast(line, root=last)]

    def _rounds(self) -> None:
        from mpinodes.running.doctor.exchange import about_rounds, measure_rounds

        pace = measure_rounds(self._world)
        self._report.add([about_rounds(pace, self._world.size)] if self._world.rank == 0 else [])
