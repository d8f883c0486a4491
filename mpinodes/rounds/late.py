"""Feedback that comes late: what an agent learns of the loss of a round, k rounds after it.

As in P. Joulani, A. György, C. Szepesvári, "Online Learning under Delayed Feedback" (ICML 2013), with the same delay
throughout: the gradient of f^t at the point of round t is put to use in round t + k, with the step of that round; in
the first k rounds there is none. A regularizer is known, and never late.

A message of round t + 1 first carries the loss of round t − k. A changed sample moves the message by its gradient times
the step of round t, so the noise is for the step that is really applied. Where gradients are taken at released points,
an older change moves the message no further, as without delay. Where they are taken at hidden points, the point of
round t − k may have moved although the hidden parts of now have not: in every round after the first use the gradient
counts with the largest change that it can have (`offset`), whatever the delay.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from mpinodes.core import ALL, Loss, Message, Solved, Vector
from mpinodes.core.messages import Queries, Query, offset_by


@dataclass(slots=True)
class Late(Loss):
    """A loss whose gradient is told later, and in its place an earlier one is told now.

    Attributes:
        loss: the round's.
        due: what is told now; None: nothing yet.
        regularizer: λ.
        asked: the gradient of the samples' part, once it was asked for.
    """

    loss: Loss
    due: Vector | None
    regularizer: float
    asked: Vector | None = field(default=None, init=False)

    def value(self, x: Vector) -> float:
        """Not known yet."""
        raise NotImplementedError("feedback.delay: the loss of a round is not known in it")

    def prox(self, v: Vector, step: float, near: Vector, tolerance: float) -> Solved:
        """Of a loss that is not known yet: none."""
        raise NotImplementedError("feedback.delay: the loss of a round is not known in it")

    def grad(self, x: Vector, block: slice = ALL) -> Vector:
        """The one that is due, and the regularizer's at x."""
        return self.data_grad(x, block) + self.regularizer * x[block]

    def data_grad(self, x: Vector, block: slice = ALL) -> Vector:
        """The one that is due.

        Raises:
            ValueError: it is asked for at two places.
        """
        gradient = self.loss.data_grad(x, block)
        if self.asked is not None and not np.array_equal(self.asked, gradient):
            raise ValueError("feedback.delay: a gradient was asked for at two places in one round")
        self.asked = gradient
        return np.zeros_like(gradient) if self.due is None else self.due.copy()


def delayed(message: Message, rounds: int) -> Message:
    """Return what an algorithm wants to send, its uses and leakage changed for a delay of so many rounds."""
    if not isinstance(message, (Query, Queries)):
        return message
    return offset_by(replace(message, uses=max(message.uses - rounds, 0)), 1.0)
