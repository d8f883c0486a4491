"""Delay the feedback by k rounds (`feedback.delay`): an agent learns the gradient of a round's loss k rounds later.

The model is from P. Joulani, A. György, C. Szepesvári, "Online Learning under Delayed Feedback" (ICML 2013), with a
constant delay. The gradient of f^t at the point of round t is used in round t + k, with the step size of round t + k.
The first k rounds use no gradient. The gradient of the regularizer is public and never delayed.

Privacy. The message of round t + 1 is the first message that depends on the loss function of round t − k. A changed
sample of this loss function changes the message by the change of the gradient times the step size of round t. The noise
is therefore calibrated to the step size of round t. Changed samples of earlier loss functions matter as follows:

- If gradients are taken at released points, such samples do not change the message further, given all earlier messages.
- If gradients are taken at hidden points, the points of round t − k may differ between adjacent data sets, even if the
  hidden variables of round t do not differ. Therefore privacy accounting uses the largest possible change of the
  gradient (`offset`) in every round after the first message that depends on a changed sample.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from mpinodes.core import ALL, Loss, Message, Solved, Vector
from mpinodes.core.messages import Queries, Query, offset_by


@dataclass(slots=True)
class Late(Loss):
    """Replace the loss of a round under delayed feedback: the algorithm gets the gradient of the loss k rounds before.

    Attributes:
        loss: the loss of this round.
        due: the gradient of the loss k rounds before, without the regularizer; None in the first k rounds.
        regularizer: λ, the weight of the regularizer λ‖x‖²/2.
        asked: the gradient of this round's loss, without the regularizer; None until the algorithm calls `grad` or
            `data_grad`.
    """

    loss: Loss
    due: Vector | None
    regularizer: float
    asked: Vector | None = field(default=None, init=False)

    def value(self, x: Vector) -> float:
        """Raise NotImplementedError, because delayed feedback does not reveal the loss of this round."""
        raise NotImplementedError("feedback.delay: value() cannot be called, because the loss arrives in a later round")

    def prox(self, v: Vector, step: float, near: Vector, tolerance: float) -> Solved:
        """Raise NotImplementedError, because delayed feedback does not reveal the loss of this round."""
        raise NotImplementedError("feedback.delay: prox() cannot be called, because the loss arrives in a later round")

    def grad(self, x: Vector, block: slice = ALL) -> Vector:
        """Return the gradient of the loss k rounds before, plus λx, the gradient of the regularizer.

        The loss k rounds before was differentiated at the point of that round. In the first k rounds, λx alone is
        returned.
        """
        return self.data_grad(x, block) + self.regularizer * x[block]

    def data_grad(self, x: Vector, block: slice = ALL) -> Vector:
        """Return the gradient of the loss k rounds before, without the regularizer; zeros in the first k rounds.

        The gradient of this round's loss at x is stored in the attribute `asked`.

        Raises:
            ValueError: the algorithm asks in one round for gradients at two points, and the gradients differ.
        """
        gradient = self.loss.data_grad(x, block)
        if self.asked is not None and not np.array_equal(self.asked, gradient):
            raise ValueError(
                "feedback.delay: update() took gradients at two points in one round, but only one point is allowed"
            )
        self.asked = gradient
        return np.zeros_like(gradient) if self.due is None else self.due.copy()


def delayed(message: Message, rounds: int) -> Message:
    """Return the message of an algorithm with the numbers for privacy accounting that hold under delayed feedback.

    Two numbers of a `Query` or `Queries` change; any other message is returned unchanged:

    - `uses`, the round of the loss function on which this message is the first to depend, decreases by the delay. If
      the result is below 0, `uses` becomes 0, which means that there is no such loss function.
    - `offset`, a bound on the change of a gradient through hidden state, becomes the largest possible change. If hidden
      state cannot change a gradient, `offset` stays the same.

    Args:
        message: the message without delay.
        rounds: the delay of the feedback, in rounds.
    """
    if not isinstance(message, (Query, Queries)):
        return message
    return offset_by(replace(message, uses=max(message.uses - rounds, 0)), 1.0)
