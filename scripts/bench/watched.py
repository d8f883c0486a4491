"""A run whose ranks tell what they spent: mpirun -n N python scripts/bench/watched.py FILE key=value ...

Without mpirun all agents are in this one process, where caches are warm and nothing is sent. It is `mpinodes.run` with
a clock of CPU time around every agent's rounds, every step (1.3 µs each), and the logger's work in the rounds and
after. FILE gets what was found as JSON; the seconds of the whole are in the run's summary.json, as ever.
"""

from __future__ import annotations

import os

from mpinodes.launch.threads import ONE_THREAD

os.environ.update(ONE_THREAD)  # before numpy is imported

import functools
import json
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mpinodes.launch.launching import Launcher

SWITCHES = ("waited", "displaced")  # context switches: of its own will, or because its time was up


class Spent:
    """CPU seconds and context switches by name."""

    def __init__(self) -> None:
        self.of: dict[str, float] = {}
        self.calls: dict[str, int] = {}

    def around(self, owner: Any, method: str, name: str, switches: bool = False) -> None:
        """Count what a function or method spends; with switches, also these and the seconds of the clock."""
        function = getattr(owner, method)
        self.of[name], self.calls[name] = 0.0, 0

        @functools.wraps(function)
        def watched(*args: Any, **kwargs: Any) -> Any:
            usage = resource.getrusage(resource.RUSAGE_SELF) if switches else None
            started, begun = time.perf_counter(), time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                self.of[name] += time.process_time() - begun
                self.calls[name] += 1
                if usage:
                    now = resource.getrusage(resource.RUSAGE_SELF)
                    found = (now.ru_nvcsw - usage.ru_nvcsw, now.ru_nivcsw - usage.ru_nivcsw)
                    for word, number in zip(SWITCHES, found, strict=True):
                        self.of[word] = self.of.get(word, 0.0) + number
                    self.of["wall"] = self.of.get("wall", 0.0) + time.perf_counter() - started

        setattr(owner, method, watched)


def under_mpi(started: Launcher, words: list[str]) -> tuple[int, list[dict[str, float]]]:
    """Exit code, and what every rank spent: of agents, by round."""
    import mpinodes.rounds.agent as agent
    from mpinodes.launch.launching import find_world
    from mpinodes.rounds.step import Step
    from mpinodes.running.job import Job

    world, spent = find_world(started), Spent()
    if world.rank == world.size - 1:
        watch_logger(spent)
    else:
        spent.around(agent, "run_agent", "rounds", switches=True)
        spent.around(Step, "__call__", "step")
    job = Job(world)
    code = job.guarded(lambda: job.run(words))
    if code:
        return code, []
    return code, world.gather(by_round(spent), root=world.size - 1) or []


def in_lockstep(words: list[str]) -> tuple[int, list[dict[str, float]]]:
    """As `under_mpi`: an agent, whose figures are the mean of all, and the logger."""
    from mpinodes.core.asked import asked_for
    from mpinodes.rounds.step import Step
    from mpinodes.running import job

    spent, steps = Spent(), Spent()
    watch_logger(spent)
    steps.around(Step, "__call__", "step")
    job.run(asked_for(words))
    agents = steps.calls["step"] / rounds_of(words)
    steps.of["rounds"] = spent.of["follow"] - spent.of["take"]
    return 0, [{name: value / agents for name, value in by_round(steps).items()}, by_round(spent)]


def watch_logger(spent: Spent) -> None:
    """Its arithmetic in the rounds, all that it does in them, and what comes after."""
    from mpinodes.running.logger import Logger

    spent.around(Logger, "take", "take")
    spent.around(Logger, "follow", "follow")
    spent.around(Logger, "finish", "finish")


ROUNDS: list[int] = []


def rounds_of(words: list[str]) -> int:
    """Of the run that was made: as its summary has them."""
    if not ROUNDS:
        where = next(word for word in words if word.startswith("output.dir=")).partition("=")[2]
        ROUNDS.append(int(json.loads((Path(where) / "summary.json").read_text())["rounds"]))
    return ROUNDS[0]


def by_round(spent: Spent) -> dict[str, float]:
    """All but `finish`, which comes once; of the logger also how many chunks came."""
    rounds = rounds_of(sys.argv[2:])
    chunks = {"chunks": spent.calls["take"] / rounds} if "take" in spent.calls else {}
    return {name: value if name == "finish" else value / rounds for name, value in spent.of.items()} | chunks


def main() -> int:
    from mpinodes.launch.launching import has_more_ranks_than_cores, launcher

    if has_more_ranks_than_cores():  # as `mpinodes.run` does
        from mpinodes.launch.forking import fork_with_others

        sys.argv[1:] = fork_with_others(sys.argv[1:])
    file, *words = sys.argv[1:]
    started = launcher()
    code, ranks = in_lockstep(words) if started is None or started.size == 1 else under_mpi(started, words)
    if ranks:
        Path(file).write_text(json.dumps({"agents": ranks[:-1], "logger": ranks[-1]}))
    return code


if __name__ == "__main__":
    sys.exit(main())
