"""The check of one part of any kind: choose its tests, and run them."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from mpinodes.auditing.checks import algorithms, data, graphs, mechanisms, sets_and_steps
from mpinodes.auditing.checks import source_text as source
from mpinodes.auditing.checks.failures import Fault, Report
from mpinodes.config import registry

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


def check(kind: registry.PartKind, part: Any, seed: int) -> Report:
    """Run all tests of a part, and report their outcome.

    Args:
        kind: the kind of the part.
        part: its class.
        seed: of the test data.

    Raises:
        BadInput: no experiment with the part can be run.
    """
    path = inspect.getsourcefile(part) or ""
    report = Report(f"{kind.section}: {part.__name__} of {Path(path).name}")
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1), np.errstate(all="ignore"):
        report.take("imports", source.read(Path(path), kind.package))
        parameters = getattr(part, "__dataclass_params__", None)
        if kind is not registry.METRICS and not (parameters and parameters.frozen):
            where, right = f"{part.__name__} is not frozen", "put @dataclass(frozen=True) before it"
            report.take("", [Fault("a part that can be changed", where, right)])
        with report.exceptions(path):
            TESTS[kind.package](part, path, Path(folder), seed, report)
    return report
