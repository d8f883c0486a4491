"""Who does the runs of a study: worker processes, the ranks of an MPI job, or one mpirun after the other."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, as_completed, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Protocol, TypeVar

import msgspec

from mpinodes.core.experiment import Experiment
from mpinodes.launch.launching import mpirun, say
from mpinodes.studies.plans import PlannedRun, failure

Item = TypeVar("Item")
Result = TypeVar("Result")

DIED = "its process died: killed, or out of memory"


class Died:
    """What comes in the place of a result where the process that was at it is gone."""


class Pool(Protocol):
    """Does one thing to many items, and says which are done as they are."""

    size: int

    def each(self, do: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[tuple[int, Result | Died]]:
        """Places in `items`, and what came of each, in no order."""


class Processes:
    """As many worker processes as there are cores, each of one thread, and started once.

    A process that dies takes what it was at with it, and nothing else: every worker is a pool of its own.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([f"{__package__}.plans"])
        self._workers: list[ProcessPoolExecutor] = []

    def __enter__(self) -> Processes:
        try:
            self._workers = [self._new() for _ in range(self.size)]
        except OSError as error:  # locks of processes are files of /dev/shm
            say(f"warning: no worker processes ({error.strerror}: is /dev/shm writable?): one run after the other")
        return self

    def _new(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, self._context, initializer=_obey)

    def each(self, do: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[tuple[int, Result | Died]]:
        """See `Pool`."""
        if not self._workers:
            yield from OneByOne().each(do, items)
            return
        ahead, free = deque(enumerate(items)), deque(range(self.size))
        busy: dict[Future[Result], tuple[int, int]] = {}
        while ahead or busy:
            while ahead and free:
                place, item = ahead.popleft()
                worker = free.popleft()
                busy[self._submitted(worker, do, item)] = worker, place
            for future in wait(busy, return_when=FIRST_COMPLETED).done:
                worker, place = busy.pop(future)
                free.append(worker)
                try:
                    yield place, future.result()
                except BrokenProcessPool:
                    self._workers[worker] = self._new()
                    yield place, Died()

    def _submitted(self, worker: int, do: Callable[[Item], Result], item: Item) -> Future[Result]:
        try:
            return self._workers[worker].submit(do, item)
        except BrokenProcessPool:  # it died while it had nothing to do
            self._workers[worker] = self._new()
            return self._workers[worker].submit(do, item)

    def __exit__(self, kind: type[BaseException] | None, _: object, __: TracebackType | None) -> None:
        for process in multiprocessing.active_children() if kind else ():  # nobody waits for what they are at
            with suppress(ProcessLookupError):
                os.killpg(process.pid or 0, signal.SIGTERM)
            process.kill()
        for worker in self._workers:
            worker.shutdown(wait=True, cancel_futures=True)


def _obey() -> None:
    """End with the parent, however the parent ends, and with all that was started; leave interrupts to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.setpgid(0, 0)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os.killpg(0, signal.SIGTERM)
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


class Ranks:
    """All ranks of an MPI job but this one, by mpi4py's own pool."""

    def __init__(self, executor: Executor, size: int) -> None:
        self._executor, self.size = executor, size

    def each(self, do: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[tuple[int, Result | Died]]:
        """See `Pool`."""
        places = {self._executor.submit(do, item): place for place, item in enumerate(items)}
        for future in as_completed(places):
            yield places[future], future.result()


def cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0))


# -------------------------------------------------------------------------------------------------------------- mpirun
def by_mpirun(plan: PlannedRun, place: Path) -> str:
    """Run it by an mpirun of its own; returns why it failed, or nothing."""
    with tempfile.TemporaryDirectory(prefix="mpinodes-") as there:
        file = Path(there) / "experiment.toml"
        file.write_text(msgspec.msgpack.decode(plan.experiment, type=Experiment).toml(), "utf-8")
        words = ["-n", str(plan.agents + 1), sys.executable, "-m", "mpinodes.run", str(file), f"output.dir={place}"]
        line = [*mpirun(), *words]
        done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    if done.returncode == 0:
        return ""
    said = [line for line in done.stderr.splitlines() if line.startswith("mpinodes: ")]
    reason = failure(place) or (said[-1].removeprefix("mpinodes: ").removeprefix("error: ") if said else "")
    return reason or f"mpirun ended with exit code {done.returncode}: {done.stderr.strip()[-200:]}"


class OneByOne:
    """In this process, one after the other: where there can be no worker processes."""

    size = 1

    def each(self, do: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[tuple[int, Result | Died]]:
        """See `Pool`."""
        yield from ((place, do(item)) for place, item in enumerate(items))
