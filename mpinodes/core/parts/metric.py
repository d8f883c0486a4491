"""Define the contract of metrics, and the data that a metric receives."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from mpinodes.core.messages import Vector
from mpinodes.core.parts.loss import Loss


class Stretch(Struct, frozen=True):
    """Hold some consecutive rounds of a run for the metrics, as the logger receives them.

    There are n agents and k deciders: k = 1, the network, for a nondecomposable objective, and k = n for a decomposable
    one.

    Attributes:
        rounds: (r,) the round numbers, from 1.
        estimates: (r, n, d) the estimate of every agent.
        decisions: (r, k, d) the decision of every decider.
        losses: (r,) the loss of the network.
        agent_losses: (r, n) the loss of the network with each agent's estimate in the place of all decisions.
        training_losses: (r,) the mean over agents of the mean loss of their own samples; None if losses change by
            round.
    """

    rounds: NDArray[np.int64]
    estimates: Vector
    decisions: Vector
    losses: Vector
    agent_losses: Vector
    training_losses: Vector | None


class Judged(Struct, frozen=True):
    """Hold a finished run for the metrics, with its state at h horizons.

    Attributes:
        horizons: (h,) rounds, ascending; the last entry is the last round of the run.
        agents: n.
        judged_by: the decision whose optimality gap is reported, for an offline method; None for an online method.
        total: (h, 2 + n) the cumulative loss of the network, of its running averages, and of each agent's estimate.
        last, mean: (h, d) the last and the average decision, averaged over the deciders.
        judged: (h, k, d) the decisions whose optimality gap is reported, for an offline method.
        whole: (h, k) the mean over rounds and agents of all losses of the run, at these decisions.
        accuracy: for each data set, (h, 2, k) the accuracy of the average and of the last decision.
        rmse: for each data set with real targets, (h, 2, k) the root mean squared error of the two decisions.
        least: (h,) the cumulative loss of the best fixed decision in hindsight.
        best: (h, d) the best fixed decision.
        within: (h,) the proven bound on how far `least` is above the minimum.
        best_of_rounds: (2, h) the cumulative loss of the best decision of every single round, and the path length of
            these decisions; None if the user did not ask for it.
        losses: maps t to the sum of all agents' losses of the rounds up to t, unclipped.
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


@dataclass
class Metric(ABC):
    """Compute an array of numbers from a run. A metric is a class of one file with these attributes.

    The array is the variable `name` of record.h5; its last entry by round or horizon goes to summary.json at `key`. The
    summary and the page print that entry with the label `label`. A metric of each agent also has its mean over agents
    in the summary, at `<key>_mean`. A metric that is read per round has that value at `<key>_per_round`.

    A metric overrides one of the two methods. Each run has its own instance, which may store what it received.
    """

    name: ClassVar[str]  # the variable in record.h5
    dims: ClassVar[tuple[str, ...]]  # the axes: "round" or "horizon", then perhaps "agent" or "coordinate"

    key: ClassVar[str] = ""  # the key in summary.json, with dots for nested keys; by default the name
    label: ClassVar[str] = ""  # the label in summary, page and figures; by default the words of the name
    long_name: ClassVar[str] = ""  # the description in record.h5; by default the label
    unit: ClassVar[str] = ""  # "share" for a share of 1, which is printed as a percentage
    per_round: ClassVar[bool] = False  # whether values add up over rounds, so that people divide them by the rounds
    sums_agents: ClassVar[bool] = False  # whether a decomposable objective makes the value a sum over agents
    # How the values of repeats are merged. A mean comes with its spread.
    repeats: ClassVar[Literal["mean", "largest", "least", "sum", "same"]] = "mean"
    summarized: ClassVar[bool] = True  # whether summary.json has the metric
    shown: ClassVar[bool] = True  # whether the summary and the page print the metric
    figure: ClassVar[str] = ""  # the file of the figure in which built-in metrics are drawn together; "": not drawn
    title: ClassVar[str] = ""  # the title of that figure
    compared: ClassVar[int] = 0  # the place among the results that a comparison of runs shows; 0: not shown there

    def take(self, rounds: Stretch) -> Vector | None:
        """Return the values of a metric by round, for the rounds received: (r, ...).

        Return None if the metric is by horizon, or if the run has no such values.
        """
        return None

    def judge(self, run: Judged) -> Vector | None:
        """Return the values of a metric by horizon: (h, ...).

        Return None if the metric is by round, or if the run has no such values.
        """
        return None
