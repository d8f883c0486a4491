"""Define the loss that an algorithm with noised gradients receives (`Algorithm.noises_gradients`).

The algorithm can ask this loss for noised gradients, and for nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from mpinodes.core import Event, Query, Vector

Release = Callable[[Vector, int], tuple[Query, Event, Vector]]  # the arguments: a point, and the number of the call


class Gradients:
    """Add noise to the gradients of one agent in one round, and store each noised gradient with its privacy record.

    Args:
        release: a function that computes the gradient at a point and adds noise. Its arguments are the point, and the
            number of the gradient in the round, from 0. Its results are the gradient without noise as a `Query`, the
            event (record for privacy accounting), and the noised gradient.
        calls: how many gradients the algorithm takes in a round.

    Attributes:
        queries: the gradients without noise that were computed so far, each as a `Query`.
        events: the event of each of these gradients.
        released: each of these gradients with noise.
        played: the point of the first gradient, which is the agent's decision of the round; None before the first
            gradient.
    """

    def __init__(self, release: Release, calls: int) -> None:
        self._release, self._calls = release, calls
        self.queries: list[Query] = []
        self.events: list[Event] = []
        self.released: list[Vector] = []
        self.played: Vector | None = None

    def release(self, x: Vector) -> Vector:
        """Return the gradient at a point x (d,) plus noise, as a new vector.

        This release of the gradient is recorded for privacy accounting.

        Raises:
            ValueError: the algorithm asks for more gradients than `Algorithm.gradients` states.
            Diverged: the noised gradient is not finite.
        """
        part = len(self.events)
        if part == self._calls:
            raise ValueError(f"update() took more gradients in a round than `gradients` = {self._calls}")
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
            raise ValueError(f"update() took {len(self.events)} gradients, expected `gradients` = {self._calls}")

    def anew(self) -> Gradients:
        """Return a new object with the same arguments, for which no gradient was taken yet."""
        return Gradients(self._release, self._calls)


class NoisedLoss:
    """Give an algorithm noised gradients of the loss of a round, and nothing else about the loss.

    For each call of `gradient`, the agent draws noise and accounts for the privacy loss. Further computations with the
    returned vectors cost no privacy.

    Args:
        gradients: computes, noises and stores the gradients of the round.
    """

    def __init__(self, gradients: Gradients) -> None:
        self._gradients = gradients

    def gradient(self, x: Vector) -> Vector:
        """Return the gradient at a point x (d,) plus noise, as a new vector.

        The gradients of the samples, or their sum or mean, are clipped; the gradient of the regularizer is not clipped.

        Raises:
            ValueError: the algorithm asks for more gradients than `Algorithm.gradients` states.
            Diverged: the noised gradient is not finite.
        """
        return self._gradients.release(x)

    def __deepcopy__(self, memo: Any) -> NoisedLoss:
        """Return this object itself, so that privacy accounting also counts gradients that are taken from a copy."""
        return self


def again(argument: Any) -> Any:
    """Return a copy of an argument of `Algorithm.update`, with which a check can call `update` a second time.

    The copy of a `NoisedLoss` has no gradients yet. Privacy accounting does not count the gradients of this copy, so an
    algorithm must not call this function.
    """
    return NoisedLoss(argument._gradients.anew()) if isinstance(argument, NoisedLoss) else deepcopy(argument)
