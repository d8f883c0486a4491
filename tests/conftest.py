"""Run serial and parallel tests by one command.

A test marked `@pytest.mark.mpi(min_size=N)`, the marker of pytest-mpi, runs on N ranks. Under plain pytest, this file
starts `mpirun -n N python -m pytest --with-mpi` once for all such tests of a directory, in a process group of its own
and with a time limit. N is the largest number of ranks that a test of the directory needs.
Under `mpirun -n 8 python -m pytest --with-mpi`, a rank that fails prints its report and ends the whole job, so that no
other rank waits forever.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.helpers.running import Done, command, mpirun

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadFileScheduling


def _in_world(config: pytest.Config) -> bool:
    return bool(config.getoption("--with-mpi") or config.getoption("--only-mpi"))


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Under MPI, give each rank its own temporary directory, because the ranks' pytests clean up independently.

    Otherwise, switch off the deadlines of hypothesis, which a busy machine would miss.
    """
    if not _in_world(config):
        from hypothesis import settings  # imported here so that ranks of parallel tests do not load it

        settings.register_profile("any machine", deadline=None)
        settings.load_profile("any machine")
    if _in_world(config) and config.option.basetemp is None:
        config.option.basetemp = tempfile.mkdtemp(prefix="mpinodes-tests-")
        config.add_cleanup(lambda: shutil.rmtree(config.option.basetemp, ignore_errors=True))


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the figures of pages, where no one looks at them: they take most of the time of a short run."""
    monkeypatch.setattr("mpinodes.presentation.run_figures.draw_all", lambda *_: {})


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Under plain pytest, remove pytest-mpi's skip marks, because `pytest_pyfunc_call` runs the parallel tests."""
    for item in items:
        if not _in_world(config):
            item.own_markers = [
                mark for mark in item.own_markers if "--with-mpi" not in str(mark.kwargs.get("reason", ""))
            ]
        elif "cli" in Path(item.path).parts and item.get_closest_marker("mpi") is None:
            item.add_marker(pytest.mark.skip(reason="starts mpirun itself: run it under plain pytest"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    """Give all tests of a file to one worker, which makes the file's fixtures once. Files keep their order."""
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False
    return LoadFileScheduling(config, log)


def pytest_collection_finish() -> None:
    """Exclude the collected tests and all modules from garbage collection, because each study collects garbage.

    Without this, the studies of the tests spend most of their time on the search of 370,000 objects that stay.
    """
    gc.collect()
    gc.freeze()


def _ranks(item: pytest.Item) -> int | None:
    """Return the number of ranks of a parallel test."""
    mark = item.get_closest_marker("mpi")
    return mark and mark.kwargs["min_size"]


@lru_cache
def _run_under_mpi(ranks: int, nodes: tuple[str, ...], root: Path) -> Done:
    pytest_words = ["-m", "pytest", "--with-mpi", "-q", "-s", "-p", "no:cacheprovider", "--tb=short", *nodes]
    return command([*mpirun(), "-n", str(ranks), sys.executable, "-m", "mpi4py", *pytest_words], root)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Under plain pytest, run all parallel tests of a directory under one mpirun, on as many ranks as any needs."""
    if _ranks(pyfuncitem) is None or _in_world(pyfuncitem.config):
        return None
    beside = [item for item in pyfuncitem.session.items if item.path.parent == pyfuncitem.path.parent and _ranks(item)]
    ranks, nodes = max(map(_ranks, beside)), tuple(item.nodeid for item in beside)
    done = _run_under_mpi(ranks, nodes, pyfuncitem.config.rootpath)
    if done.code != 0 or " passed" not in done.out or " skipped" in done.out:
        pytest.fail(f"exit {done.code}\n{done.err[-4000:] or done.out[-4000:]}", pytrace=False)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):  # type: ignore[no-untyped-def]
    """Under MPI, print the report of a rank that fails, and end the job."""
    report = yield
    if _in_world(item.config) and report.failed:
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        if world.size > 1:
            os.write(
                2, f"\n==== rank {world.rank} failed: {item.nodeid} ({report.when})\n{report.longreprtext}\n".encode()
            )
            world.Abort(1)
    return report
