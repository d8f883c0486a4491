"""The contract of metrics."""

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
    """Some rounds in a row of a run, as they come, to a metric.

    With n agents, and k deciders: 1, the network, of a nondecomposable objective; n of a decomposable one.

    Attributes:
        rounds: (r,) their numbers, from 1.
        estimates: (r, n, d) every agent's.
        decisions: (r, k, d) every decider's.
        losses: (r,) what the network lost.
        agent_losses: (r, n) what it would have lost with each agent's estimate; where `record.agent_regret_every` has
            it found in some rounds alone, estimated in the others.
        training_losses: (r,) the mean over agents of the mean loss of their own samples; None: losses change by round.
    """

    rounds: NDArray[np.int64]
    estimates: Vector
    decisions: Vector
    losses: Vector
    agent_losses: Vector
    training_losses: Vector | None


class Judged(Struct, frozen=True):
    """A run that has ended, as it stood at its h horizons, to a metric.

    Attributes:
        horizons: (h,) rounds, ascending, the last one the run's last.
        agents: n.
        judged_by: which decision of an offline method its optimality gap is of; None: it is an online one.
        total: (h, 2 + n) what was lost up to there: by the network, its running averages, with each agent's estimate.
        last, mean: (h, d) last and average decision, averaged over the deciders.
        judged: (h, k, d) the decisions that an offline method is judged by.
        whole: (h, k) the mean over rounds and agents of all losses of the run, there.
        accuracy: by set, (h, 2, k) shares of labels that the average and the last decision get right.
        rmse: by set of real targets, (h, 2, k) the root of the mean squared error of theirs.
        least: (h,) what the best fixed decision would have lost up to there.
        best: (h, d) that decision.
        within: (h,) it may be above the minimum by this.
        best_of_rounds: (2, h) the same of the best decision of every single round, and the path length of these; None:
            not asked for.
        losses: t -> Σ over rounds up to t and agents of their losses, unclipped.
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
    """An array of numbers that is told of a run: `name` in record.h5, its last entry by round or horizon at `key`.

    A class of one file with these attributes and one of the two methods; each run has an instance of its own, which may
    remember what it took. Where a number is the agents', the summary has their mean too, at `<key>_mean`; where it is
    read per round, that at `<key>_per_round`. Summary and page print what stands there, under `label`.
    """

    name: ClassVar[str]  # of the variable of record.h5
    dims: ClassVar[tuple[str, ...]]  # of its axes: "round" or "horizon", and then perhaps "agent" or "coordinate"

    key: ClassVar[str] = ""  # of summary.json, dotted where it is within another; by default the name
    label: ClassVar[str] = ""  # in summary, page and figures; by default the name's words
    long_name: ClassVar[str] = ""  # of what record.h5 has, where it is not what the label says; by default the label
    unit: ClassVar[str] = ""  # "share": one of 1, printed as a percentage
    per_round: ClassVar[bool] = False  # whether it adds up by round, and is read divided by the rounds
    sums_agents: ClassVar[bool] = False  # whether it is a sum over the agents where each has losses of its own
    repeats: ClassVar[Literal["mean", "largest", "least", "sum", "same"]] = "mean"  # a mean comes with its spread
    summarized: ClassVar[bool] = True  # whether summary.json has it
    shown: ClassVar[bool] = True  # whether summary and page print it

    def take(self, rounds: Stretch) -> Vector | None:
        """The values of these rounds, of a metric by round: (r, ...); None: it has none, or is one by horizon."""
        return None

    def judge(self, run: Judged) -> Vector | None:
        """The values at the horizons, of a metric by horizon: (h, ...); None: this run has none."""
        return None
