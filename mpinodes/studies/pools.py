"""Distribute the runs of a study: over worker processes, over the ranks of an MPI job, or one mpirun after another.

A pool applies a task to each item of a sequence. As soon as an item is done, `Pool.apply` yields a pair: the index of
the item, and the result of the task.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

from mpinodes.core.errors import BadInput
from mpinodes.launch.launching import mpirun
from mpinodes.studies.plans import PlannedRun, failure

# Modules that most runs import only when they need them: worker processes share them from the start.
LATE = ("h5py", "clarabel", "mpinodes.running.closing", "mpinodes.running.logger")


class Pool(NamedTuple):
    """Hold a function that applies a task to items, and the number of items on which it works at the same time."""

    apply: Callable[[Callable[[Any], Any], Sequence[Any]], Iterator[tuple[int, Any]]]
    size: int


one_by_one = Pool(lambda do, items: enumerate(map(do, items)), 1)  # one item after another, in this process


def by_executor(executor: Executor, do: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    """Apply `do` to all items in parallel, and yield the index and the result of each item as soon as the item is done.

    Args:
        executor: calls `do`, such as the `MPICommExecutor` of an MPI job.
        do: the function to apply.
        items: the items.
    """
    places = {executor.submit(do, item): place for place, item in enumerate(items)}
    for future in as_completed(places):
        yield places[future], future.result()


@contextmanager
def processes(size: int) -> Iterator[Pool]:
    """Provide worker processes for a `with` block: yield a pool that applies a task to items in these processes.

    If a worker process dies, the result of its item is None, and the other items are not affected. The worker processes
    end with the block. If the block raises an exception, the worker processes and their child processes are killed.

    Args:
        size: the number of worker processes.

    Raises:
        BadInput: no worker process can start, because /dev/shm is not writable.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([f"{__package__}.plans", *LATE])
    new = partial(ProcessPoolExecutor, 1, context, initializer=_obey)
    idle: SimpleQueue[ProcessPoolExecutor] = SimpleQueue()
    try:
        for _ in range(size):
            idle.put(new())
    except OSError as error:  # the locks that processes share are files in /dev/shm
        raise BadInput(f"no worker processes can start: {error.strerror}; make /dev/shm writable") from error

    def do_one(do: Callable[[Any], Any], item: Any) -> Any:
        worker = idle.get()
        try:
            try:
                future: Future[Any] = worker.submit(do, item)
            except BrokenProcessPool:  # the worker died while it had nothing to do
                worker = new()
                future = worker.submit(do, item)
            return future.result()
        except BrokenProcessPool:
            worker = new()
            return None
        finally:
            idle.put(worker)

    threads = ThreadPoolExecutor(size)  # each thread waits for one worker process
    try:
        yield Pool(lambda do, items: by_executor(threads, partial(do_one, do), items), size)
    except BaseException:
        threads.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            with suppress(ProcessLookupError):
                os.killpg(process.pid or 0, signal.SIGTERM)
            process.kill()
        raise
    finally:
        threads.shutdown()
        for _ in range(size):
            idle.get().shutdown(cancel_futures=True)


def _obey() -> None:
    """Let this worker process and its child processes end when the parent process ends; ignore keyboard interrupts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.setpgid(0, 0)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os.killpg(0, signal.SIGTERM)
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def by_mpirun(plans: Sequence[PlannedRun], places: Sequence[Path]) -> list[str]:
    """Do each run by an mpirun of its own; return for each run "", or the reason if the run fails."""
    return list(map(_by_mpirun, plans, places))


def _by_mpirun(plan: PlannedRun, place: Path) -> str:
    with tempfile.TemporaryDirectory(prefix="mpinodes-") as folder:
        file = Path(folder) / "experiment.toml"
        file.write_text(plan.experiment.toml(), "utf-8")
        words = ["-n", str(plan.agents + 1), sys.executable, "-m", "mpinodes.run", str(file), f"output.dir={place}"]
        line = [*mpirun(), *words]
        done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    if done.returncode == 0:
        return ""
    errors = [line for line in done.stderr.splitlines() if line.startswith("mpinodes: ")]
    reason = failure(place) or (errors[-1].removeprefix("mpinodes: ").removeprefix("error: ") if errors else "")
    return reason or f"mpirun ended with exit code {done.returncode}: {done.stderr.strip()[-200:]}"
