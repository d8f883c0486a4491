"""Define the built-in metrics, in the order in which a summary prints them.

A metric has values for each round, or for each horizon (a round at which results are measured). Metrics of rounds are
computed from a `Stretch`, which holds consecutive rounds of a run. Metrics of horizons are computed from a `Judged`,
which holds the finished run. If a metric does not apply to a run, it has no values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, cast

import numpy as np

from mpinodes.core.messages import Vector
from mpinodes.core.parts import Judged, Metric, Stretch

AVERAGE, LAST = 0, 1  # indices of the two decisions in `Judged.accuracy` and `Judged.rmse`
DATA = {"test": "test data", "train": "training data"}
AT_ONCE = 2048  # coordinates that `consensus_error` processes together

ROUND, HORIZON, AGENTS, DECISION = ("round",), ("horizon",), ("horizon", "agent"), ("horizon", "coordinate")
REGRET = {"sums_agents": True, "per_round": True, "figure": "regret", "title": "Regret per round"}
SUM = {"sums_agents": True, "per_round": True}
ERROR = {"figure": "error", "title": "Distance to the best decision"}


def metric(name: str, dims: tuple[str, ...], values: Callable[[Any], Any], **attributes: Any) -> type[Metric]:
    """Return a new class of metric.

    Args:
        name: the name of the metric.
        dims: the names of the axes of the metric's values.
        values: a function that computes the values of the metric, or returns None if the metric does not apply to the
            run. The function gets a `Stretch` (consecutive rounds) if `dims` is ("round",), otherwise a `Judged` (the
            finished run).
        attributes: further attributes of the class.
    """
    method = "take" if dims == ROUND else "judge"
    members = {"name": name, "dims": dims, method: lambda self, run: values(run), **attributes}
    return cast(type[Metric], type("BuiltIn", (Metric,), members))


def on_a_set(marks: Literal["accuracy", "rmse"], of: str, decision: int = AVERAGE) -> type[Metric]:
    """Return the class of a metric: the accuracy, or the root mean squared error, of decisions on a data set.

    If each agent has its own decision, the metric is the mean over the agents. If the run has no accuracy (or error) on
    the data set, the metric has no values.

    Args:
        marks: "accuracy" for the accuracy, "rmse" for the root mean squared error.
        of: the data set, "test" or "train".
        decision: AVERAGE for the running average of the decisions, LAST for the last decision.
    """

    def values(run: Judged) -> Vector | None:
        by_set = getattr(run, marks)
        # take the mean before the index, because the order of summation must not depend on `decision`
        return by_set[of].mean(axis=2)[:, decision] if of in by_set else None

    share = marks == "accuracy"
    label = f"{'accuracy' if share else 'RMSE'}, {'last decision' if decision else 'running mean'}, {DATA[of]}"
    return metric(
        f"{marks}{'_train' * (of == 'train')}{'_last' * decision}", HORIZON, values,
        key=f"{marks}{'_last_decision' * decision}.{of}", unit="share" if share else "", label=label,
        figure="" if of == "train" and decision == LAST else marks,
        title="Accuracy" if share else "Root mean squared error",
        compared=(5 if share else 6) if of == "test" and decision == AVERAGE else 0,
    )  # fmt: skip


def of_agents(of: str) -> type[Metric]:
    """Return the class of a metric: the accuracy of each agent's average decision on a data set.

    The metric has no values if all agents share one decision, if there is only one agent, or if the run has no accuracy
    on the data set.

    Args:
        of: the data set, "test" or "train".
    """

    def values(run: Judged) -> Vector | None:
        accuracy = run.accuracy.get(of)
        return accuracy[:, AVERAGE] if accuracy is not None and accuracy.shape[2] > 1 else None

    words = f"accuracy of an agent, running mean, {DATA[of]}"
    name = f"accuracy{'_train' * (of == 'train')}_agents"
    return metric(name, AGENTS, values, unit="share", summarized=False, long_name=words)


def consensus_error(rounds: Stretch) -> Vector:
    """Return the consensus error of each round: the root mean square distance of the agents' estimates from their mean.

    With the estimate y_i of agent i, the consensus error is sqrt( (1/n) Σ_i ‖y_i − mean_j y_j‖² ).
    """
    r, n, d = rounds.estimates.shape
    squares = np.zeros((r, n))
    for start in range(0, d, AT_ONCE):  # a block of coordinates fits into the processor's cache
        some = rounds.estimates[:, :, start : start + AT_ONCE]
        apart = some - some.mean(axis=1, keepdims=True)
        squares += np.vecdot(apart, apart)
    return np.asarray(np.sqrt(squares.mean(axis=1)))


def optimality_gap(run: Judged) -> Vector | None:
    """Return the optimality gap F(x) − min F of the decisions x of an offline method; None for an online method.

    F is the mean of all losses of the run. The array has a row for each horizon (a round at which results are
    measured), and a column for each decision x by which the method is judged (`Judged.judged`).
    """
    least = float(run.least[-1]) / (int(run.horizons[-1]) * run.agents)
    return np.asarray(run.whole - least) if run.judged_by else None


def squared_error(of: Callable[[Judged], Vector]) -> Callable[[Judged], Vector | None]:
    """Return a function that computes the squared distance of decisions from the best fixed decision of a run.

    The returned function returns None if the method of the run is an online method. If the best fixed decision is
    unknown, the distances are nan.

    Args:
        of: a function that returns the decisions x of a run.
    """
    return lambda run: ((of(run) - run.best[-1]) ** 2).sum(axis=-1) if run.judged_by else None


def of_rounds(values: Callable[[Judged, Vector], Vector]) -> Callable[[Judged], Vector | None]:
    """Return a function that computes a metric with the help of the best decision of each single round.

    The returned function returns None if the run has not computed the best decisions of single rounds.

    Args:
        values: computes the metric from a run and from the array `best_of_rounds` of this run.
    """
    return lambda run: None if run.best_of_rounds is None else values(run, run.best_of_rounds)


BUILT_IN: tuple[type[Metric], ...] = (
    metric("loss", ROUND, lambda rounds: rounds.losses, long_name="loss of the network in a round",
           sums_agents=True, summarized=False),
    metric("training_loss", ROUND, lambda rounds: rounds.training_losses, label="training loss L(T)",
           figure="training", title="Training loss", compared=3),
    on_a_set("accuracy", "test"), on_a_set("accuracy", "train"),
    on_a_set("accuracy", "test", LAST), on_a_set("accuracy", "train", LAST), of_agents("test"), of_agents("train"),
    on_a_set("rmse", "test"), on_a_set("rmse", "train"),
    on_a_set("rmse", "test", LAST), on_a_set("rmse", "train", LAST),
    metric("average_fitness", HORIZON, lambda run: run.total[:, 0] / run.horizons,
           label="average fitness F(T)/T", sums_agents=True, compared=4),
    metric("decision_norm", HORIZON, lambda run: np.array([np.linalg.norm(x) for x in run.last]),
           label="norm of the last decision"),
    metric("consensus_error", ROUND, consensus_error, compared=7),
    metric("network_regret", HORIZON, lambda run: run.total[:, 0] - run.least, **REGRET,
           label="network regret per round, R(T)/T", long_name="network regret R(T)", compared=1),
    metric("network_regret_average_iterate", HORIZON, lambda run: run.total[:, 1] - run.least, **REGRET,
           label="running average's regret per round", long_name="regret of the running average"),
    metric("agent_regret", AGENTS, lambda run: run.total[:, 2:] - run.least[:, None], **REGRET,
           label="agents' regret per round, their mean", long_name="regret of an agent"),
    metric("dynamic_regret", HORIZON, of_rounds(lambda run, best: run.total[:, 0] - best[0]), **REGRET,
           label="dynamic regret per round", long_name="dynamic regret"),
    metric("path_length", HORIZON, of_rounds(lambda run, best: best[1]), label="path length of the best decisions"),
    metric("optimality_gap", AGENTS, optimality_gap, label="optimality gap, mean over agents", compared=2,
           long_name="optimality gap of an agent", figure="gap", title="Optimality gap"),
    metric("decision_error", HORIZON, squared_error(lambda run: run.judged.mean(axis=1)), **ERROR,
           label="‖mean decision − best‖²"),
    metric("agent_decision_error", AGENTS, squared_error(lambda run: run.judged), **ERROR,
           label="‖decision − best‖², mean over agents", long_name="‖decision − best‖² of an agent"),
    metric("comparator_value", HORIZON, lambda run: run.least, key="comparator.value", **SUM,
           label="best fixed decision, per round", long_name="loss of the best fixed decision"),
    metric("comparator_gap", HORIZON, lambda run: run.within, key="comparator.certificate", **SUM,
           long_name="certificate: proven bound on how far this loss is above the minimum", repeats="largest",
           shown=False),  # because it is printed beside the value
    metric("comparator_point", DECISION, lambda run: run.best, long_name="best fixed decision", summarized=False),
    metric("decision_last", DECISION, lambda run: run.last, long_name="last decision, mean over deciders",
           summarized=False),
    metric("decision_mean", DECISION, lambda run: run.mean, long_name="average decision, mean over deciders",
           summarized=False),
)  # fmt: skip
