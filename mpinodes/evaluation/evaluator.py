"""Evaluate a run: compute the losses of its decisions once, and hand them to all metrics.

`Evaluator` takes the rounds of a run as they come. When the run has ended, it finds the comparators and lets the
metrics judge the run at its horizons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from mpinodes.core import Setup, Vector
from mpinodes.core.experiment import log_spaced
from mpinodes.core.parts import Judged, Metric
from mpinodes.evaluation.comparator import Comparator
from mpinodes.evaluation.hindsight import Tell, best_fixed, best_of_rounds, left_out
from mpinodes.evaluation.meter import Meter
from mpinodes.metrics.built_in import BUILT_IN
from mpinodes.runlog.log import Variable, Variables
from mpinodes.runlog.progress import write_stderr
from mpinodes.summary.merging import RULES, Rule
from mpinodes.summary.summary import BaselinesSummary, ShownMetric, StartSummary, WorthSummary


class Evaluator:
    """The evaluation of one run: `take` all rounds, `close`, then read the results.

    Attributes:
        judged: the judged run; only after `close`.
    """

    judged: Judged

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._meter = Meter(setup, log_spaced(setup.experiment.rounds))
        self._metrics = [metric() for metric in setup.metrics]
        self._last: dict[str, Vector] = {}
        self._baselines: BaselinesSummary
        self._variables: dict[str, Variable] = {}

    def take(self, estimates: Vector) -> Variables:
        """Take the next rounds, given all estimates, (r, agents, d), and return the values of metrics by round."""
        rounds = self._meter.take(estimates)
        variables: dict[str, Variable] = {}
        for metric in self._metrics:
            values = metric.take(rounds)
            if metric.dims[0] == "round" and values is not None:
                variables[metric.name] = _variable(metric, values, len(estimates))
                self._last[metric.name] = np.array(variables[metric.name].values[-1])
        return variables

    def recall(self, columns: Mapping[str, Vector]) -> None:
        """Take the next rounds from a record: the values of metrics by name, (r, ...), without estimates."""
        self._meter.recall(columns["loss"])
        by_round = {metric.name for metric in self._metrics if metric.dims[0] == "round"}
        self._last |= {name: np.array(columns[name][-1]) for name in by_round & columns.keys()}

    def state(self) -> dict[str, Any]:
        """Return the state of the meter and the metrics, as plain data."""
        metrics = {metric.name: vars(metric) for metric in self._metrics}
        return {"meter": self._meter.state(), "last": self._last, "metrics": metrics}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        self._meter.restore(state["meter"])
        self._last = state["last"]
        for metric in self._metrics:
            vars(metric).update(state["metrics"][metric.name])

    def close(self, tell: Tell, known: Mapping[int, Comparator] | None = None) -> None:
        """End the run and judge it at its horizons.

        Args:
            tell: is called with the number of comparators found, and of all.
            known: comparators by horizon, of another run on the same losses.
        """
        meter, feasible = self._meter, self._setup.feasible
        meter.end()
        everything = meter.losses.everything
        self._left_out = left_out(self._setup, meter)
        nothing = Comparator(np.full(self._setup.dimension, np.nan), np.nan, np.nan)
        fixed = [nothing] * len(meter.horizons) if self._left_out else best_fixed(meter, feasible, tell, known or {})
        dynamic = self._setup.experiment.record.dynamic_regret and not self._left_out
        accuracy, rmse = meter.by_set("accuracy"), meter.by_set("rmse")
        self.judged = Judged(
            horizons=meter.horizons, agents=self._setup.topology.agents, judged_by=self._setup.algorithm.judged_by,
            total=meter.total, last=meter.last, mean=meter.mean, judged=meter.judged, whole=meter.whole,
            accuracy=accuracy, rmse=rmse, least=np.array([c.value for c in fixed]),
            best=np.array([c.point for c in fixed]), within=np.array([c.certificate for c in fixed]),
            best_of_rounds=best_of_rounds(everything, feasible, meter.horizons, fixed) if dynamic else None,
            losses=cast(Any, everything.upto),
        )  # fmt: skip
        # Naming the largest class or the mean target, and staying at the start, learn nothing.
        first_accuracy, first_rmse = (
            {name: float(values[0, 1].mean()) for name, values in sets.items()} or None for sets in (accuracy, rmse)
        )
        lost = float(everything.upto(meter.seen).value(meter.last[0])) / meter.seen
        self._baselines = BaselinesSummary(
            majority=meter.naive("accuracy") or None,
            mean_target=meter.naive("rmse") or None,
            start=StartSummary(average_fitness=lost, accuracy=first_accuracy, rmse=first_rmse),
        )
        for metric in self._metrics:
            if metric.dims[0] != "horizon":
                continue
            try:
                values = metric.judge(self.judged)
                if values is not None and not np.isnan(values).all():
                    self._variables[metric.name] = _variable(metric, values, len(meter.horizons))
                    self._last[metric.name] = np.array(self._variables[metric.name].values[-1])
            except Exception as error:  # a failure of a user's metric is a warning
                if type(metric).__module__.startswith("mpinodes."):
                    raise
                why = f"{type(error).__name__}: {error}"
                write_stderr(f"mpinodes: warning: metric {metric.name} is left out: {why}\n")

    def variables(self) -> Variables:
        """Return the values of metrics by horizon."""
        return self._variables

    def summary(self) -> WorthSummary:
        """Return the last values of metrics, also per round and averaged over agents, and which of them are shown."""
        values: dict[str, Any] = {}
        for metric in self._metrics:
            if metric.summarized:
                last = self._last.get(metric.name)
                values |= _values(metric, None if last is None else last.tolist(), self._meter.seen)
        extra = self._metrics[len(BUILT_IN) :]
        shown = [
            ShownMetric(
                variable=metric.name, key=shown_key(metric), label=label(metric), unit=metric.unit,
                per_round=metric.per_round, figure=metric in extra,
                sums_agents=(metric in extra and metric.sums_agents) or UNSET,
            )
            for metric in self._metrics
            if metric.summarized and metric.shown and metric.name in self._last and "coordinate" not in metric.dims
        ]  # fmt: skip
        kind = self._meter.losses.kind.__name__
        return WorthSummary(
            values=values,
            comparator_left_out=self._left_out or None,
            accuracy_left_out=None if self._meter.predicts else f"{kind} predicts no target, as far as it says",
            baselines=self._baselines,
            metrics=shown,
        )


def rules(metrics: Sequence[type[Metric]]) -> dict[str, Rule]:
    """Return how the values of metrics merge over repeats, by dotted key."""
    return {key: RULES[metric.repeats] for metric in metrics if metric.summarized for key in _values(metric, None, 1)}


def key(metric: type[Metric] | Metric) -> str:
    """Return the dotted key of a metric's last value in summary.json."""
    return metric.key or metric.name


def label(metric: type[Metric] | Metric) -> str:
    """Return the name of a metric for people."""
    return metric.label or metric.name.replace("_", " ")


def shown_key(metric: type[Metric] | Metric) -> str:
    """Return the key of the value that is shown: per round if the metric adds up over rounds, averaged over agents."""
    return f"{key(metric)}{'_per_round' * metric.per_round}{'_mean' * ('agent' in metric.dims)}"


def _values(metric: Metric | type[Metric], last: Any, rounds: int) -> dict[str, Any]:
    """Return a metric's last value, that value per round, and the means over agents, by dotted key."""
    values = {key(metric): last}
    if metric.per_round:
        values[f"{key(metric)}_per_round"] = None if last is None else (np.array(last) / rounds).tolist()
    if "agent" in metric.dims:
        values |= {f"{name}_mean": None if x is None else float(np.mean(x)) for name, x in values.items()}
    return values


def _variable(metric: Metric, values: NDArray[Any], length: int) -> Variable:
    values = np.asarray(values, dtype=float)
    if values.ndim != len(metric.dims) or len(values) != length:
        raise TypeError(
            f"metric {metric.name!r} gave values of shape {values.shape} for dims {metric.dims}, {length} long"
        )
    return Variable(metric.dims, values, metric.long_name or label(metric), metric.unit)
