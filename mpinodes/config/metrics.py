"""The metrics that `record.metrics` names."""

from __future__ import annotations

from mpinodes.config import registry
from mpinodes.core.errors import BadInput
from mpinodes.core.parts import Metric
from mpinodes.metrics.built_in import BUILT_IN

KEY = "record.metrics"
AXES = {("round",), ("round", "agent"), ("horizon",), ("horizon", "agent"), ("horizon", "coordinate")}


def chosen_metrics(wanted: tuple[str, ...]) -> list[type[Metric]]:
    """Their classes, by name or by path of a Python file.

    Raises:
        BadInput: there is none of that name, a file holds none, or two would be told under one name.
    """
    found: list[type[Metric]] = []
    for word in wanted:
        metric = registry.from_path(word, KEY) if word.endswith(".py") else registry.find("metrics", word, KEY)
        _require_metric(metric, word)
        if metric.name in {other.name for other in (*BUILT_IN, *found)}:
            raise BadInput(f"{KEY} = {word!r}: there is a metric {metric.name!r} already; give it another name")
        found.append(metric)
    return found


def _require_metric(metric: type, word: str) -> None:
    if not issubclass(metric, Metric):
        raise BadInput(f"{KEY} = {word!r}: its class must extend mpinodes.core.parts.Metric")
    given = vars(metric) | {key: value for base in metric.__mro__ for key, value in vars(base).items()}
    for attribute in ("name", "dims"):
        if attribute not in given:
            raise BadInput(f"{KEY} = {word!r}: its class must have the attribute {attribute!r}")
    if metric.dims not in AXES:
        axes = ", ".join(str(dims) for dims in sorted(AXES))
        raise BadInput(f"{KEY} = {word!r}: dims = {metric.dims!r}; choose from: {axes}")
