"""Compute losses where agents play two points in a round (`losses.two_point`): the mean of both losses."""

from __future__ import annotations

import numpy as np

from mpinodes.core import Setup
from mpinodes.evaluation.meter import Columns, Losses, Lost, Points
from mpinodes.evaluation.samples import Total
from mpinodes.losses.two_point import Directions


class Played(Losses):
    """The mean of the losses at two points around each decision and estimate; averages are judged as they are.

    Args:
        losses: losses at any points.
        setup: of the run.
    """

    def __init__(self, losses: Losses, setup: Setup) -> None:
        self._losses, self.kind, self.is_dense = losses, losses.kind, losses.is_dense
        self._directions = Directions(setup.experiment, setup.blocks, setup.dimension)
        self._decomposable, self._regularizer = setup.algorithm.decomposable, setup.experiment.problem.regularizer

    @property
    def everything(self) -> Total:
        """Return all samples of the run."""
        return self._losses.everything

    def columns(self, first: int, last: int) -> Columns:
        """Return the coordinates that the losses of some rounds depend on."""
        return self._losses.columns(first, last)

    def at(self, first: int, columns: Columns, points: Points) -> Lost:
        """Return the mean losses at both points, with what the regularizer is larger there than between the points."""
        apart = self._directions.offsets(first, len(points.decisions))
        away = apart[..., columns]
        of_deciders = away if self._decomposable else away.sum(axis=1, keepdims=True)
        ahead, behind = (
            self._losses.at(first, columns, points._replace(
                decisions=points.decisions + sign * of_deciders, estimates=points.estimates + sign * away,
            ))
            for sign in (1.0, -1.0)
        )  # fmt: skip
        owned = 0.5 * self._regularizer * np.vecdot(apart, apart)  # (r, n)
        own, everybodys = (ahead.own + behind.own) / 2, (ahead.everybodys + behind.everybodys) / 2
        training = None
        if ahead.training is not None and behind.training is not None:
            training = (ahead.training + behind.training) / 2
        agents = points.decisions.shape[1]
        return Lost(own + owned.sum(axis=1), ahead.averaged, everybodys + agents * owned, training)
