"""Evaluate a run: compute the losses of its decisions once, and pass the losses to all metrics.

`Evaluator` receives the rounds of a run one block after another. Metrics with one value per round are computed for each
block when it arrives. When the run has ended, the evaluator finds the best fixed decisions in hindsight (comparators),
unless they are left out. Then the other metrics are computed at the horizons, which are the rounds at which results are
measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from mpinodes.core import SampleLoss, Set, Setup, Vector
from mpinodes.core.cached import cached
from mpinodes.core.errors import is_users
from mpinodes.core.experiment import log_spaced
from mpinodes.core.parts import Judged, Metric, mixed
from mpinodes.evaluation.comparator import Comparator, best
from mpinodes.evaluation.meter import Meter
from mpinodes.evaluation.samples import Total
from mpinodes.losses.linear import LinearLoss, PiecewiseLinearLoss
from mpinodes.metrics.built_in import BUILT_IN
from mpinodes.runlog.log import Variable, Variables
from mpinodes.runlog.progress import write_stderr
from mpinodes.summary.merging import RULES, Rule
from mpinodes.summary.summary import BaselinesSummary, ShownMetric, StartSummary, WorthSummary

LONG = 10.0  # seconds: comparators that would take longer are left out, unless the user sets comparator=true
Tell = Callable[[int, int], None]  # called with the number of horizons done and the number of all horizons


class Evaluator:
    """Evaluate one run: `take` the estimates of all rounds, `close` the run, then read the results.

    Attributes:
        judged: the decisions, losses and best fixed decisions of the finished run, which metrics read; set by `close`.
        variables: the values of the metrics that have no value for each round, by name; set by `close`. Metrics that do
            not apply to the run, have no number, or failed, are missing.
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
        """Add the next r rounds of the run. Return the values of the metrics that have one value per round, by name.

        A metric that does not apply to the run is missing.

        Args:
            estimates: (r, agents, d) the estimates of all agents in the next r rounds.

        Raises:
            TypeError: a metric gives values of the wrong shape.
        """
        rounds = self._meter.take(estimates)
        variables: dict[str, Variable] = {}
        for metric in self._metrics:
            values = metric.take(rounds)
            if metric.dims[0] == "round" and values is not None:
                variables[metric.name] = _variable(metric, values, len(estimates))
                self._last[metric.name] = np.array(variables[metric.name].values[-1])
        return variables

    def recall(self, columns: Mapping[str, Vector]) -> None:
        """Add the next rounds of a stored run: the recorded values of its metrics take the place of the estimates.

        Args:
            columns: for each metric name, an array whose first axis is the round. The name "loss" is required.
        """
        self._meter.recall(columns["loss"])
        by_round = {metric.name for metric in self._metrics if metric.dims[0] == "round"}
        self._last |= {name: np.array(columns[name][-1]) for name in by_round & columns.keys()}

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint stores: the sums of losses, the last values and the attributes of all metrics."""
        metrics = {metric.name: vars(metric) for metric in self._metrics}
        return {"meter": self._meter.state(), "last": self._last, "metrics": metrics}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from the state of an earlier evaluator, which its method `state` returned."""
        self._meter.restore(state["meter"])
        self._last = state["last"]
        for metric in self._metrics:
            vars(metric).update(state["metrics"][metric.name])

    def close(self, tell: Tell, known: Mapping[int, Comparator] | None = None) -> None:
        """End the run: find the best fixed decisions (comparators), and compute the metrics that need the whole run.

        If a user-defined metric fails, a warning is printed, and the metric is left out.

        Args:
            tell: a function that may be called with the number of comparators found and the number of all comparators.
            known: maps a number of rounds to the comparator of these first rounds, from another run on the same losses.
                Known comparators need not be computed.
        """
        meter, setup = self._meter, self._setup
        meter.end()
        everything = meter.losses.everything
        self._left_out = left_out(setup, meter)
        nothing = [Comparator(np.full(setup.dimension, np.nan), np.nan, np.nan)] * len(meter.horizons)
        fixed = nothing if self._left_out else best_fixed(meter, setup.feasible, tell, known or {})
        dynamic = setup.experiment.record.dynamic_regret and not self._left_out
        accuracy, rmse = meter.by_set("accuracy"), meter.by_set("rmse")
        self.judged = Judged(
            horizons=meter.horizons, agents=setup.topology.agents, judged_by=setup.algorithm.judged_by,
            total=meter.total, last=meter.last, mean=meter.mean, judged=meter.judged, whole=meter.whole,
            accuracy=accuracy, rmse=rmse, least=np.array([c.value for c in fixed]),
            best=np.array([c.point for c in fixed]), within=np.array([c.certificate for c in fixed]),
            best_of_rounds=best_of_rounds(everything, setup.feasible, meter.horizons, fixed) if dynamic else None,
            losses=cast(Any, everything.upto),
            weights=lambda: (some.weights for some in mixed(setup.mixing, setup.reached, range(setup.topology.agents))),
        )  # fmt: skip
        # Three baselines learn nothing: always predict the largest class, predict the mean target, stay at the start.
        first_accuracy, first_rmse = (
            {name: float(values[0, 1].mean()) for name, values in sets.items()} or None for sets in (accuracy, rmse)
        )
        lost = float(everything.upto(meter.seen).value(meter.last[0])) / meter.seen
        majority, mean_target = meter.naive("accuracy") or None, meter.naive("rmse") or None
        start = StartSummary(average_fitness=lost, accuracy=first_accuracy, rmse=first_rmse)
        best_marks = self.marks(fixed[-1].point) if np.isfinite(fixed[-1].point).all() else {}
        self._baselines = BaselinesSummary(
            majority=majority, mean_target=mean_target, best_fixed=best_marks or None, start=start
        )
        for metric in self._metrics:
            if metric.dims[0] != "horizon":
                continue
            try:
                values = metric.judge(self.judged)
                if values is not None and not np.isnan(values).all():
                    self.variables[metric.name] = _variable(metric, values, len(meter.horizons))
                    self._last[metric.name] = np.array(self.variables[metric.name].values[-1])
            except Exception as error:  # if a user-defined metric fails, warn and go on
                if not is_users(type(metric)):
                    raise
                reason = f"{type(error).__name__}: {error}"
                write_stderr(f"mpinodes: warning: metric {metric.name} is left out: {reason}\n")

    def marks(self, point: Vector) -> dict[str, float]:
        """Return the accuracy or the root mean squared error of a model (d,), by keys such as "accuracy.test".

        The result is empty if the run has no accuracy and no error.
        """
        return {key: float(samples.marks(point[:, None])[0]) for key, samples in self._meter.sets.items()}

    def summary(self) -> WorthSummary:
        """Return the results of the run for summary.json: the last values of the metrics, and results without learning.

        - The value of a metric is None if the metric does not apply to the run. Metrics that state `summarized = False`
          are left out.
        - The results without learning are the accuracy of always predicting the largest class, the error of always
          predicting the mean target, and the results at the starting point.
        - If the comparator or the accuracy is not computed, the result states why.
        """
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
            accuracy_left_out=None if self._meter.predicts else f"{kind} predicts no target of these samples",
            baselines=self._baselines,
            metrics=shown,
        )


def rules(metrics: Sequence[type[Metric]]) -> dict[str, Rule]:
    """Return the rules by which the values of metrics in summary.json are merged over repeats, such as the mean.

    The keys of the result are the dotted keys of the values in summary.json.
    """
    return {key: RULES[metric.repeats] for metric in metrics if metric.summarized for key in _values(metric, None, 1)}


def key(metric: type[Metric] | Metric) -> str:
    """Return the key in summary.json, with dots for nested keys, under which the last value of a metric is stored."""
    return metric.key or metric.name


def label(metric: type[Metric] | Metric) -> str:
    """Return the name under which tables and figures show a metric."""
    return metric.label or metric.name.replace("_", " ")


def shown_key(metric: type[Metric] | Metric) -> str:
    """Return the dotted key, in summary.json, of the number that tables and figures show for a metric.

    - If the metric adds up over rounds, the number is divided by the number of rounds.
    - If the metric has a value for each agent, the number is the mean over the agents.
    """
    return f"{key(metric)}{'_per_round' * metric.per_round}{'_mean' * ('agent' in metric.dims)}"


def _values(metric: Metric | type[Metric], last: Any, rounds: int) -> dict[str, Any]:
    """Return the values of a metric for summary.json, by dotted key: the last value, and numbers that follow from it.

    - If the metric adds up over rounds, there is also the last value divided by `rounds`.
    - If the metric has a value for each agent, there are also the means over the agents.
    """
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
            f"metric {metric.name!r} returned an array of shape {values.shape}; expected one axis for each of "
            f"{metric.dims}, and length {length} of the first axis"
        )
    return Variable(metric.dims, values, metric.long_name or label(metric), metric.unit)


def left_out(setup: Setup, meter: Meter) -> str:
    """Return why the best fixed decision (comparator), and so regret, is not computed; an empty text if it is computed.

    There are four possible reasons:

    - `comparator` is false.
    - The losses have no samples.
    - The losses are not known to be convex.
    - `comparator` is not set, and the computation is expected to take more than `LONG` seconds.
    """
    wanted = setup.experiment.comparator
    if wanted is False:
        return "comparator=false"
    if not isinstance(loss := setup.stream.of(0)(1), SampleLoss):
        return f"the class {type(loss).__name__} of the losses has no samples; only losses of samples have a comparator"
    if not meter.losses.kind.convex:
        return f"{meter.losses.kind.__name__} is not known to be convex; a convex loss must state convex = True"
    if wanted is None and (seconds := _expected_seconds(setup, meter)) > LONG:
        return f"the computation may take about {seconds:.0f} s; set comparator=true to compute the comparator"
    return ""


def _expected_seconds(setup: Setup, meter: Meter) -> float:
    """Estimate how many seconds the computation of the best fixed decisions (comparators) takes on one core.

    The estimate is the same on all machines. The true time may be a tenth of the estimate, or a few times the estimate.
    """
    kind, shares, d = meter.losses.kind, setup.stream.shares, setup.dimension
    owners = len(setup.samples) if setup.algorithm.decomposable else 1
    most = np.inf if shares is None else sum(len(share) for share in shares[:owners])
    rounds = meter.horizons[-1:] if setup.stream.batch == "all" else meter.horizons
    samples = np.minimum(rounds * float(sum(setup.samples[:owners])), most)
    # fitted to 3,000 to 60,000 samples with 10 to 784 features and norms of about 1
    if issubclass(kind, PiecewiseLinearLoss):
        factor = 6e-7 if kind.needs_labels else 3e-8 * np.minimum(samples, d)
        return float(np.sum(factor * samples * np.minimum(samples, d))) if meter.losses.is_dense else 0.0
    return 0.0 if issubclass(kind, LinearLoss) else float(np.sum(1e-3 + 2e-7 * samples * d))


def best_fixed(meter: Meter, feasible: Set, tell: Tell, known: Mapping[int, Comparator]) -> list[Comparator]:
    """Return the best fixed decision for each horizon T: the minimizer over v in 𝒳 of Σ_{t ≤ T} Σ_i f_i^t(v).

    A horizon is a round at which results are measured. f_i^t is the loss of agent i in round t. If all agents share one
    loss, the sum over i has one term.

    Args:
        meter: the sums of losses of the finished run.
        feasible: 𝒳, the feasible set.
        tell: a function that may be called with the number of horizons done and the number of all horizons.
        known: results of another run on the same losses, by horizon; these horizons need not be computed.
    """
    everything, began = meter.losses.everything, np.nan_to_num(meter.last[0])

    def solved() -> list[Comparator]:
        if everything.is_constant:
            once = best(everything.upto(1), feasible, began)
            return [Comparator(once.point, t * once.value, t * once.certificate) for t in meter.horizons.tolist()]
        fixed: list[Comparator] = []
        for t in meter.horizons.tolist():
            near = fixed[-1].point if fixed else began
            fixed.append(known[t] if t in known else best(everything.upto(t), feasible, near, [began]))
            tell(len(fixed), len(meter.horizons))
        return fixed

    return cached(solved, lambda: (best_fixed, everything.content(meter.seen), feasible, meter.horizons, began, known))


def best_of_rounds(everything: Total, feasible: Set, horizons: np.ndarray, fixed: list[Comparator]) -> Vector:
    """Return sums on the minimizers v(t) of the losses Σ_i f_i^t of single rounds t, as an array (2, h).

    Column k has the sums over the rounds t up to the horizon k:

        row 0    Σ_t Σ_i f_i^t(v(t))        the least losses
        row 1    Σ_t ‖v(t) − v(t − 1)‖      the length of the path of the minimizers, from t = 2

    Args:
        everything: the losses f_i^t of all agents i and rounds t.
        feasible: the feasible set, to which all v belong.
        horizons: (h,) the rounds at which results are measured; the first horizon is round 1.
        fixed: the best fixed decision at each horizon.
    """
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
