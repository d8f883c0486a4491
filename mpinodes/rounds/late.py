"""Delay feedback: an agent learns the loss of a round k rounds later.

The model is that of P. Joulani, A. György, C. Szepesvári, "Online Learning under Delayed Feedback" (ICML 2013), with a
constant delay. The gradient of f^t at the point of round t is used in round t + k, with the step of that round. The
first k rounds use no gradient. A regularizer is public, and never delayed.

A message of round t + 1 first carries the loss of round t − k. A changed sample changes the message by its gradient
times the step of round t, so the noise is calibrated to the step that is applied. If gradients are taken at released
points, an older change changes the message no further, as without delay. If they are taken at hidden points, the point
of round t − k may have changed although the hidden parts of the current round have not. Therefore, in every round after
the first use, the gradient counts with the largest change that it can have (`offset`), whatever the delay.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from mpinodes.core import ALL, Loss, Message, Solved, Vector
from mpinodes.core.messages import Queries, Query, offset_by


@dataclass(slots=True)
class Late(Loss):
    """A loss whose gradient is revealed later; in its place it reveals an earlier gradient.

    Attributes:
        loss: the loss of the round.
        due: the earlier gradient that is revealed now; None in the first rounds.
        regularizer: λ.
        asked: the gradient of the samples' part, after the algorithm asked for it.
    """

    loss: Loss
    due: Vector | None
    regularizer: float
    asked: Vector | None = field(default=None, init=False)

    def value(self, x: Vector) -> float:
        """Raise NotImplementedError: the loss is not known yet."""
        raise NotImplementedError("feedback.delay: the loss of a round is not revealed in that round")

    def prox(self, v: Vector, step: float, near: Vector, tolerance: float) -> Solved:
        """Raise NotImplementedError: the loss is not known yet."""
        raise NotImplementedError("feedback.delay: the loss of a round is not revealed in that round")

    def grad(self, x: Vector, block: slice = ALL) -> Vector:
        """Return the gradient that is due, plus the regularizer's gradient at x."""
        return self.data_grad(x, block) + self.regularizer * x[block]

    def data_grad(self, x: Vector, block: slice = ALL) -> Vector:
        """Return the gradient that is due, without the regularizer, and store the gradient at x for later.

        Raises:
            ValueError: the algorithm asks for gradients at two points in one round.
        """
        gradient = self.loss.data_grad(x, block)
        if self.asked is not None and not np.array_equal(self.asked, gradient):
            raise ValueError("feedback.delay: update() asked for gradients at two points in one round")
        self.asked = gradient
        return np.zeros_like(gradient) if self.due is None else self.due.copy()


def delayed(message: Message, rounds: int) -> Message:
    """Return a message whose `uses` and leakage fit a feedback delay of `rounds` rounds."""
    if not isinstance(message, (Query, Queries)):
        return message
    return offset_by(replace(message, uses=max(message.uses - rounds, 0)), 1.0)
