"""Define the loss that an algorithm receives if its agent noises gradients (`Algorithm.noises_gradients`)."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from mpinodes.core import Event, Query, Vector

Release = Callable[[Vector, int], tuple[Query, Event, Vector]]  # the arguments: a point, and the number of the call


class Gradients:
    """Release the noised gradients of one agent in one round, and store the releases.

    Args:
        release: takes a point and the number of the call (from 0), and releases the gradient at this point; returns the
            query, the event of the release, and the noised gradient.
        calls: how many gradients the algorithm takes in a round.

    Attributes:
        queries: the query of each call of `release` so far; a query has the gradient without noise.
        events: the event of each call so far.
        released: the noised gradient of each call so far.
        played: the point of the first call, which is the agent's decision of the round; None before the first call.
    """

    def __init__(self, release: Release, calls: int) -> None:
        self._release, self._calls = release, calls
        self.queries: list[Query] = []
        self.events: list[Event] = []
        self.released: list[Vector] = []
        self.played: Vector | None = None

    def release(self, x: Vector) -> Vector:
        """Release the gradient at a point x (d,), and return the noised gradient as a new vector.

        Raises:
            ValueError: the algorithm asks for more gradients than `Algorithm.gradients` states.
            Diverged: the noised gradient is not finite.
        """
        part = len(self.events)
        if part == self._calls:
            raise ValueError(f"update() took more gradients than the {self._calls} that `gradients` states")
        if part == 0:
            self.played = x.copy()
        query, event, out = self._release(x, part)
        self.queries.append(query)
        self.events.append(event)
        self.released.append(out)
        return out.copy()

    def require_all(self) -> None:
        """Check that the algorithm took as many gradients as `Algorithm.gradients` states.

        The number of releases must be public, so it must not depend on data.

        Raises:
            ValueError: the algorithm took fewer gradients.
        """
        if len(self.events) < self._calls:
            raise ValueError(f"update() took {len(self.events)} of the {self._calls} gradients that `gradients` states")

    def anew(self) -> Gradients:
        """Return a new object with the same arguments, in the state before the first call."""
        return Gradients(self._release, self._calls)


class NoisedLoss:
    """Give an algorithm noised gradients of the loss of a round, and nothing else about the loss.

    Each call of `gradient` is a release: the agent draws noise for the call and records an event. Whatever an algorithm
    computes from the returned vectors costs no further privacy.

    Args:
        gradients: releases and stores the noised gradients of the round.
    """

    def __init__(self, gradients: Gradients) -> None:
        self._gradients = gradients

    def gradient(self, x: Vector) -> Vector:
        """Return the gradient at a point x (d,) plus noise, as a new vector. The part of the samples is clipped.

        Raises:
            ValueError: the algorithm asks for more gradients than `Algorithm.gradients` states.
            Diverged: the noised gradient is not finite.
        """
        return self._gradients.release(x)

    def __deepcopy__(self, memo: Any) -> NoisedLoss:
        """Return the loss itself, so that a gradient which a copy returns is counted as a release of this loss."""
        return self


def again(argument: Any) -> Any:
    """Return an argument for a repeated call of `Algorithm.update`.

    If the argument is a `NoisedLoss`, return a new `NoisedLoss` of the same round, in the state before its first call.
    Otherwise return a deep copy. This function is for checks that call `update` again. An algorithm that calls this
    function breaks privacy, because the gradients of the new loss are not accounted for.
    """
    return NoisedLoss(argument._gradients.anew()) if isinstance(argument, NoisedLoss) else deepcopy(argument)
