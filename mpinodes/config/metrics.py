"""Find the classes of the metrics that `record.metrics` names."""

from __future__ import annotations

import re

from mpinodes.config import registry
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import is_file
from mpinodes.core.parts import Metric
from mpinodes.metrics.built_in import BUILT_IN

AXES = {("round",), ("round", "agent"), ("horizon",), ("horizon", "agent"), ("horizon", "coordinate")}
# Names of variables in record.h5 that are not metrics
_is_taken = re.compile(
    "(event|leakage|epsilon|bound)_.*|decision|offset|transcript|receiver|lateness|distance|repeat|seed|round|horizon|"
    "agent|viewer|neighbor|coordinate|word|vector|part|part_before"
).fullmatch


def metrics_of(words: tuple[str, ...]) -> tuple[type[Metric], ...]:
    """Return the classes of all metrics of a run: the built-in metrics, then the metrics that the user names.

    Args:
        words: `record.metrics`: names of metrics, or paths of Python files with a metric.

    Raises:
        BadInput: a metric does not exist or has mistakes, has the name of another variable of record.h5, has a name
            that is no Python name, or has axes that record.h5 cannot store.
    """
    metrics = list(BUILT_IN)
    for word in words:
        find = registry.from_path if is_file(word) else registry.find
        metric: type[Metric] = find(registry.METRICS, word)
        if metric.name in {other.name for other in metrics} or _is_taken(metric.name):
            raise BadInput(
                f"record.metrics = {word!r}: record.h5 already has a variable {metric.name!r}; give the metric another "
                "name"
            )
        if not metric.name.isidentifier():
            wrong_name = f"the class attribute name = {metric.name!r} of the metric is no Python name"
            raise BadInput(f"record.metrics = {word!r}: {wrong_name}; use only letters, digits and _, no digit first")
        if metric.dims not in AXES:
            axes = ", ".join(str(dims) for dims in sorted(AXES))
            wrong_dims = f"the class attribute dims = {metric.dims!r} of the metric does not name axes of record.h5"
            raise BadInput(f"record.metrics = {word!r}: {wrong_dims}; choose from: {axes}")
        metrics.append(metric)
    return tuple(metrics)
