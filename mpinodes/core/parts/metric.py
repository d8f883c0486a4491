"""Define the base class of metrics, and the data that a metric receives.

A metric computes numbers from a run, such as regret or accuracy.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from mpinodes.core.messages import Vector
from mpinodes.core.parts.loss import Loss


class Stretch(Struct, frozen=True):
    """Hold r consecutive rounds of a run, from which metrics are computed during the run.

    There are n agents and k decisions in a round. If the objective is decomposable, each agent has a decision (k = n).
    Otherwise the network has one decision (k = 1), of which each agent decides a block.

    Attributes:
        rounds: (r,) the round numbers, from 1.
        estimates: (r, n, d) the estimate of every agent.
        decisions: (r, k, d) the decisions.
        losses: (r,) the loss of the network at its decisions.
        agent_losses: (r, n) the loss of the network if the estimate of one agent replaces all decisions.
        training_losses: (r,) the mean over agents of the mean loss of the agent's samples at the agent's decision,
            without the regularizer; None if the loss functions change from round to round, or if all agents share one
            loss.
    """

    rounds: NDArray[np.int64]
    estimates: Vector
    decisions: Vector
    losses: Vector
    agent_losses: Vector
    training_losses: Vector | None


class Judged(Struct, frozen=True):
    """Hold the results of a finished run at h horizons, from which metrics are computed. A horizon is a round.

    There are n agents and k decisions in a round. If the objective is decomposable, each agent has a decision (k = n);
    else the network has one decision (k = 1).

    Attributes:
        horizons: (h,) rounds, ascending; the last entry is the last round of the run.
        agents: n.
        judged_by: for an offline method, the decision whose optimality gap is reported: "average" (the running average)
            or "last"; None for an online method.
        total: (h, 2 + n) losses of the network, summed over the rounds up to a horizon: at its decisions, at the
            running averages of its decisions, and at the estimate of each agent. In a running average, round t has
            weight 1, or weight t if the attribute `averaging` of the algorithm is "linear".
        last, mean: (h, d) the last decision and the running average of the decisions, both averaged over the k
            decisions of a round.
        judged: (h, k, d) for an offline method, the decisions whose optimality gap is reported; empty for an online
            method.
        whole: (h, k) for an offline method, the loss at each decision in `judged`, averaged over all rounds of the
            experiment and over agents; zeros for an online method.
        accuracy: for each data set, (h, 2, k) the accuracy of the running average and of the last decision.
        rmse: for each data set with real targets, (h, 2, k) the root mean squared error of the same two decisions.
        least: (h,) the loss of the best fixed decision in hindsight, summed over rounds, as computed.
        best: (h, d) the best fixed decision in hindsight, as computed.
        within: (h,) a proven bound on the difference between `least` and the exact minimum; inf if there is no proven
            bound. `least`, `best` and `within` are nan if the best fixed decision is not computed.
        best_of_rounds: (2, h) two numbers on the decisions that minimize the loss of each single round, for the rounds
            up to a horizon: the sum of the least losses, and the sum of the distances between consecutive minimizers.
            None if `record.dynamic_regret` is false or the best fixed decision is not computed.
        losses: maps t to the sum of the unclipped losses of rounds 1 to t: of all agents if the objective is
            decomposable, else of the common loss.
        weights: returns an iterator over the mixing matrices (n, n) of rounds 1, 2, ...; row i has the weights of
            receiver i.
    """

    horizons: NDArray[np.int64]
    agents: int
    judged_by: Literal["average", "last"] | None
    total: Vector
    last: Vector
    mean: Vector
    judged: Vector
    whole: Vector
    accuracy: Mapping[str, Vector]
    rmse: Mapping[str, Vector]
    least: Vector
    best: Vector
    within: Vector
    best_of_rounds: Vector | None
    losses: Callable[[int], Loss]
    weights: Callable[[], Iterator[Vector]]


@dataclass
class Metric(ABC):
    """Compute an array of numbers from a run, such as the regret in each round. A user can add a metric in a file.

    A metric overrides either `take` or `judge`. Class attributes say where the array is written:

    - The array is the variable `name` of record.h5.
    - If `summarized` is true, the last value of the array is written to summary.json at `key`.
    - If `per_round` is true, summary.json also has this value divided by the number of rounds, at `<key>_per_round`.
    - If the array has an axis "agent", summary.json also has the means over agents, at the same keys followed by
      `_mean`.
    - If `shown` is true too, and the array has no axis "coordinate", the summary and the page print the last of these
      numbers with `label`.

    Each run has a metric object of its own, so a metric object may store data of the run.
    """

    name: ClassVar[str]  # the variable in record.h5
    dims: ClassVar[tuple[str, ...]]  # the axes: "round" or "horizon", then perhaps "agent" or "coordinate"

    key: ClassVar[str] = ""  # the key in summary.json, with dots for nested keys; by default the name
    label: ClassVar[str] = ""  # the label in summary, page and figures; by default the words of the name
    long_name: ClassVar[str] = ""  # the description in record.h5; by default the label
    unit: ClassVar[str] = ""  # "share" for a fraction of 1, which is printed as a percentage
    per_round: ClassVar[bool] = False  # whether values are sums over rounds, so that their mean per round is useful
    sums_agents: ClassVar[bool] = False  # whether the value is a sum over agents if the objective is decomposable
    # How the values of repeats are merged. A mean is printed with its standard deviation.
    repeats: ClassVar[Literal["mean", "largest", "least", "sum", "same"]] = "mean"
    summarized: ClassVar[bool] = True  # whether summary.json has the metric
    shown: ClassVar[bool] = True  # whether the summary and the page print the metric
    figure: ClassVar[str] = ""  # the file of the figure in which several built-in metrics are drawn; "": not drawn
    title: ClassVar[str] = ""  # the title of that figure
    compared: ClassVar[int] = 0  # the position of the metric in a comparison of runs; 0: not shown in a comparison

    def take(self, rounds: Stretch) -> Vector | None:
        """Return the values of the metric in r consecutive rounds, for a metric with the axis "round".

        The shape is (r, ...); the class attribute `dims` names the further axes. Return None if the metric has the axis
        "horizon", or if the metric is not defined for this run.
        """
        return None

    def judge(self, run: Judged) -> Vector | None:
        """Return the values of the metric at h horizons (rounds), for a metric with the axis "horizon".

        The shape is (h, ...); the class attribute `dims` names the further axes. Return None if the metric has the axis
        "round", or if the metric is not defined for this run.
        """
        return None
