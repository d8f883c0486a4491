"""Serial and parallel tests by one command.

A test marked `@pytest.mark.mpi(min_size=N)` (pytest-mpi's own form) runs on N ranks: under plain pytest this
file starts `mpiexec -n N python -m pytest --with-mpi` for it, in a process group of its own and with a time
limit, and the test counts as run. Inside an MPI world (`mpiexec -n 8 python -m pytest --with-mpi`) a rank
that fails prints its report and ends the whole job, so that nothing hangs.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from tests.helpers.running import command, mpirun


def _in_world(config: pytest.Config) -> bool:
    return bool(config.getoption("--with-mpi") or config.getoption("--only-mpi"))


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """In an MPI world every rank has temporary directories of its own: pytest's clean-up is no collective call.

    Elsewhere hypothesis sets no deadlines, which a busy machine would miss.
    """
    if not _in_world(config):
        from hypothesis import settings  # which every rank of a parallel test would pay for

        settings.register_profile("any machine", deadline=None)
        settings.load_profile("any machine")
    if _in_world(config) and config.option.basetemp is None:
        config.option.basetemp = tempfile.mkdtemp(prefix="mpinodes-tests-")
        config.add_cleanup(lambda: shutil.rmtree(config.option.basetemp, ignore_errors=True))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take back pytest-mpi's skips: under plain pytest the parallel tests run all the same."""
    for item in items:
        if not _in_world(config):
            item.own_markers = [
                mark for mark in item.own_markers if "--with-mpi" not in str(mark.kwargs.get("reason", ""))
            ]
        elif "cli" in Path(item.path).parts and item.get_closest_marker("mpi") is None:
            item.add_marker(pytest.mark.skip(reason="starts mpirun itself: run it under plain pytest"))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Under plain pytest, run a parallel test on its ranks."""
    mark = pyfuncitem.get_closest_marker("mpi")
    if mark is None or _in_world(pyfuncitem.config):
        return None
    pytest_words = ["-m", "pytest", "--with-mpi", "-q", "-s", "-p", "no:cacheprovider", "--tb=short", pyfuncitem.nodeid]
    words = [*mpirun(), "-n", str(mark.kwargs["min_size"]), sys.executable, "-m", "mpi4py", *pytest_words]
    done = command(words, pyfuncitem.config.rootpath)
    if done.code != 0 or " passed" not in done.out or " skipped" in done.out:
        pytest.fail(f"exit {done.code}\n{done.err[-4000:] or done.out[-4000:]}", pytrace=False)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):  # type: ignore[no-untyped-def]
    """In an MPI world, a rank that fails says why and ends the job."""
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
