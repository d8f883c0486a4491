"""Evaluate a run: compute the losses of its decisions once, and hand them to all metrics.

`Evaluator` takes the rounds of a run as they come. When the run has ended, it finds the comparators and lets the
metrics judge the run at its horizons.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from mpinodes.core import SampleLoss, Set, Setup, Vector
from mpinodes.core.experiment import log_spaced
from mpinodes.core.parts import Judged, Metric
from mpinodes.evaluation.comparator import Comparator, best
from mpinodes.evaluation.meter import Meter
from mpinodes.evaluation.samples import Total
from mpinodes.losses.linear import LinearLoss, PiecewiseLinearLoss
from mpinodes.metrics.built_in import BUILT_IN
from mpinodes.runlog.log import Variable, Variables
from mpinodes.runlog.progress import write_stderr
from mpinodes.summary.merging import RULES, Rule
from mpinodes.summary.summary import BaselinesSummary, ShownMetric, StartSummary, WorthSummary

LONG = 10.0  # expected seconds above which a comparator that was not asked for is left out
Tell = Callable[[int, int], None]  # is called with the numbers of horizons done and of all


class Evaluator:
    """The evaluation of one run: `take` all rounds, `close`, then read the results.

    Attributes:
        judged: the judged run; only after `close`.
        variables: the values of metrics by horizon; only after `close`.
    """

    judged: Judged

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._meter = Meter(setup, log_spaced(setup.experiment.rounds))
        self._metrics = [metric() for metric in setup.metrics]
        self._last: dict[str, Vector] = {}
        self._baselines: BaselinesSummary
        self.variables: dict[str, Variable] = {}

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
        majority, mean_target = meter.naive("accuracy") or None, meter.naive("rmse") or None
        start = StartSummary(average_fitness=lost, accuracy=first_accuracy, rmse=first_rmse)
        self._baselines = BaselinesSummary(majority=majority, mean_target=mean_target, start=start)
        for metric in self._metrics:
            if metric.dims[0] != "horizon":
                continue
            try:
                values = metric.judge(self.judged)
                if values is not None and not np.isnan(values).all():
                    self.variables[metric.name] = _variable(metric, values, len(meter.horizons))
                    self._last[metric.name] = np.array(self.variables[metric.name].values[-1])
            except Exception as error:  # a failure of a user's metric is a warning
                if type(metric).__module__.startswith("mpinodes."):
                    raise
                why = f"{type(error).__name__}: {error}"
                write_stderr(f"mpinodes: warning: metric {metric.name} is left out: {why}\n")

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


def left_out(setup: Setup, meter: Meter) -> str:
    """Return why no comparator, and so no regret, is computed; empty: it is computed."""
    wanted = setup.experiment.comparator
    if wanted is False:
        return "comparator=false"
    if not isinstance(loss := setup.stream.of(0)(1), SampleLoss):
        name = setup.experiment.problem.loss
        return f"a {type(loss).__name__} shows no samples, and losses here are those of {name} on the stream's own"
    if not meter.losses.kind.convex:
        return f"{meter.losses.kind.__name__} is not known to be convex; a loss that is states convex = True"
    if wanted is None and (seconds := _expected_seconds(setup, meter)) > LONG:
        return f"it may take about {seconds:.0f} s; comparator=true has it found all the same"
    return ""


def _expected_seconds(setup: Setup, meter: Meter) -> float:
    """Return about how long all horizons take on one core, from counts alone, so that all machines decide alike.

    Fitted to 3,000 to 60,000 samples of 10 to 784 features with norms of about 1. Losses with kinks take a tenth of
    that where features are short or the regularizer is strong, and some times as long where features are long. With
    labels for targets, few samples are near their kinks. The smooth losses take no longer than a part of the rounds.
    """
    kind, shares, d = meter.losses.kind, setup.stream.shares, setup.dimension
    owners = len(setup.samples) if setup.algorithm.decomposable else 1
    most = np.inf if shares is None else sum(len(share) for share in shares[:owners])
    rounds = meter.horizons[-1:] if setup.stream.batch == "all" else meter.horizons
    samples = np.minimum(rounds * float(sum(setup.samples[:owners])), most)
    if issubclass(kind, PiecewiseLinearLoss):
        factor = 6e-7 if kind.needs_labels else 3e-8 * np.minimum(samples, d)
        return float(np.sum(factor * samples * np.minimum(samples, d))) if meter.losses.is_dense else 0.0
    return 0.0 if issubclass(kind, LinearLoss) else float(np.sum(1e-3 + 2e-7 * samples * d))


def best_fixed(meter: Meter, feasible: Set, tell: Tell, known: Mapping[int, Comparator]) -> list[Comparator]:
    """Return argmin over v in 𝒳 of Σ_t Σ_i f_i^t(v) over the rounds up to every horizon.

    Args:
        meter: of the run.
        feasible: 𝒳.
        tell: is called after every horizon.
        known: comparators by horizon, of another run on the same losses.
    """
    everything, began = meter.losses.everything, np.nan_to_num(meter.last[0])
    if everything.is_constant:
        once = best(everything.upto(1), feasible, np.nan_to_num(meter.mean[-1]), others=[began])
        return [Comparator(once.point, t * once.value, t * once.certificate) for t in meter.horizons.tolist()]
    fixed: list[Comparator] = []
    for t, sums, mean in zip(meter.horizons.tolist(), meter.total, meter.mean, strict=True):
        if t in known:
            fixed.append(known[t])
            continue
        near = [began, *(c.point for c in fixed[-1:])]
        # The decisions of a run may be unknown (nan), and the losses of averages and agents.
        fixed.append(best(everything.upto(t), feasible, np.nan_to_num(mean), float(np.nanmin(sums)), near))
        tell(len(fixed), len(meter.horizons))
    return fixed


def best_of_rounds(everything: Total, feasible: Set, horizons: np.ndarray, fixed: list[Comparator]) -> Vector:
    """Return Σ_t min_v Σ_i f_i^t(v), and the path length Σ_t ‖v(t) − v(t − 1)‖ of the minimizers: (2, h)."""
    if everything.is_constant:
        return np.array([[c.value for c in fixed], np.zeros(len(fixed))])
    at = fixed[0]
    sums, totals = np.array([at.value, 0.0]), np.zeros((2, len(horizons)))
    totals[:, horizons == 1] = sums[:, None]
    for t in range(2, int(horizons[-1]) + 1):
        before, at = at, best(everything.upto(t, first=t), feasible, at.point)
        sums += at.value, float(np.linalg.norm(at.point - before.point))
        totals[:, horizons == t] = sums[:, None]
    return totals
