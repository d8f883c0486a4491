"""The loss that an algorithm sees if its agent noises gradients (`Algorithm.noises_gradients`)."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from mpinodes.core import Event, Query, Vector

Release = Callable[[Vector, int], tuple[Query, Event, Vector]]  # by point and number of the call


class Gradients:
    """The noised gradients that an agent releases in one round.

    Args:
        release: releases the gradient at a point; returns the query, its event and the noised gradient.
        calls: how many gradients the algorithm takes in every round.

    Attributes:
        queries, events, released: of the calls so far.
        played: the point of the first call, which is the agent's decision of the round; None before.
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
            ValueError: the algorithm asks for more gradients than it states.
        """
        part = len(self.events)
        if part == self._calls:
            raise ValueError(f"update() asked for more gradients than the {self._calls} that `gradients` states")
        if part == 0:
            self.played = x.copy()
        query, event, out = self._release(x, part)
        self.queries.append(query)
        self.events.append(event)
        self.released.append(out)
        return out.copy()

    def require_all(self) -> None:
        """Check that the algorithm took as many gradients as it states: the number of releases is public.

        Raises:
            ValueError: the algorithm took fewer gradients.
        """
        if len(self.events) < self._calls:
            raise ValueError(f"update() asked for {len(self.events)} of the {self._calls} that `gradients` states")

    def anew(self) -> Gradients:
        """Return the same gradients before the first call."""
        return Gradients(self._release, self._calls)


class NoisedLoss:
    """A loss whose only method returns clipped and noised gradients.

    Every call is a release of its own: the agent draws noise for the call and records an event. What an algorithm
    computes from the returned vectors costs no further privacy. `gradients` releases them.
    """

    def __init__(self, gradients: Gradients) -> None:
        self._gradients = gradients

    def gradient(self, x: Vector) -> Vector:
        """Return the noised gradient at a point x (d,), as a new vector."""
        return self._gradients.release(x)

    def __deepcopy__(self, memo: Any) -> NoisedLoss:
        """Return the loss itself, so that the gradients of a copy are counted, and have fresh noise and coins."""
        return self


def again(argument: Any) -> Any:
    """Return a deep copy of an argument of `update`; of a `NoisedLoss`, the loss before its first call.

    A check that repeats a call of `update` needs such arguments. An algorithm that calls this function breaks privacy.
    """
    return NoisedLoss(argument._gradients.anew()) if isinstance(argument, NoisedLoss) else deepcopy(argument)
