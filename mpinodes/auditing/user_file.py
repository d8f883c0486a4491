"""The check of one part of any kind: choose its tests, run them, and describe the outcome in words."""

from __future__ import annotations

import inspect
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from mpinodes.auditing.checks import algorithms, data, graphs, mechanisms, sets_and_steps
from mpinodes.auditing.checks import source_text as source
from mpinodes.auditing.checks.failures import Fault, Report
from mpinodes.config import registry
from mpinodes.core.errors import BadInput
from mpinodes.launch.launching import in_words

Test = Callable[[Any, str, Path, int, Report], None]

TESTS: dict[str, Test] = {
    "algorithms": algorithms.check_algorithm,
    "streams": data.check_stream,
    "losses": data.check_loss,
    "mechanisms": mechanisms.check_mechanism,
    "mixing": graphs.check_mixing,
    "topology": graphs.check_topology,
    "metrics": mechanisms.check_metric,
    "sets": sets_and_steps.check_set,
    "schedules": sets_and_steps.check_schedule,
}


class Outcome(NamedTuple):
    """The outcome of a check.

    Attributes:
        what: kind and name of the part.
        faults: the tests that failed.
        tested: by what was tested, how often.
        notes: what was left out, and why.
        seconds: the duration of the check.
    """

    what: str
    faults: list[Fault]
    tested: dict[str, int]
    notes: list[str]
    seconds: float

    def lines(self) -> list[str]:
        """Return the outcome as lines for the terminal."""
        counts = ", ".join(f"{count} {tests}" for tests, count in self.tested.items() if tests and count)
        head = f"{self.what}: {len(self.faults) or 'no'} fault{'s' * (len(self.faults) != 1)} found"
        left = [f"  left out: {note}" for note in self.notes]
        return [
            *(f"FAULT  {fault.line}" for fault in self.faults),
            f"{head}; tested: {counts or 'nothing'}; {self.seconds:.1f} s",
            *left,
            *([] if self.faults else ["a check tests statements and proves none"]),
        ]


def check(kind: registry.PartKind, part: Any, seed: int) -> Outcome:
    """Run all tests of a part."""
    begun, report = time.perf_counter(), Report()
    path = inspect.getsourcefile(part) or ""
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1), np.errstate(all="ignore"):
        environment = dict(os.environ)
        report.take("imports", source.read(Path(path), kind.package))
        if kind is not registry.METRICS:
            report.take("", source.frozen(part), 0)
        try:
            TESTS[kind.package](part, path, Path(folder), seed, report)
        except BadInput:
            raise
        except Exception as error:
            report.take("", [Fault(
                "it fails where it is called by itself", in_words(error),
                "a method must work on every valid argument",
            )], 0)  # fmt: skip
        if changed := sorted(
            k for k in environment.keys() | os.environ.keys() if environment.get(k) != os.environ.get(k)
        ):
            report.take("", [Fault(
                "the world outside is touched", f"the environment variable {changed[0]} was changed",
                "an agent must not use files, clocks, the environment, threads or the interpreter's state",
            )], 0)  # fmt: skip
    name = f"{kind.section}: {part.__name__} of {Path(path).name}"
    return Outcome(name, report.faults, report.tested, report.notes, time.perf_counter() - begun)
