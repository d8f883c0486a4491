"""Delay the feedback: an agent learns the gradient of the loss of a round k rounds later (`feedback.delay`).

The model is from P. Joulani, A. György, C. Szepesvári, "Online Learning under Delayed Feedback" (ICML 2013), with a
constant delay. The gradient of f^t at the point of round t is used in round t + k, with the step size of round t + k.
The first k rounds use no gradient. The gradient of the regularizer is public and never delayed.

The message of round t + 1 is the first message that depends on the loss function of round t − k. A changed sample of
this loss function changes the message by the change of the gradient times the step size of round t. The noise is
therefore calibrated to the step size of round t. If gradients are taken at released points, changed samples of earlier
loss functions do not change the message further, as without delay. If gradients are taken at hidden points, the point
of round t − k may differ between adjacent data even if the hidden parts of round t do not differ. Therefore privacy
accounting uses, in every round after the first use of a changed sample, the largest possible change of the gradient
(`offset`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from mpinodes.core import ALL, Loss, Message, Solved, Vector
from mpinodes.core.messages import Queries, Query, offset_by


@dataclass(slots=True)
class Late(Loss):
    """Wrap the loss of a round: an algorithm that asks for the gradient gets the gradient of the loss k rounds before.

    Attributes:
        loss: the loss of this round.
        due: the gradient of the earlier loss, without the regularizer; None in the first k rounds.
        regularizer: λ.
        asked: the gradient of this round's loss, without the regularizer; None until the algorithm calls `grad` or
            `data_grad`.
    """

    loss: Loss
    due: Vector | None
    regularizer: float
    asked: Vector | None = field(default=None, init=False)

    def value(self, x: Vector) -> float:
        """Raise NotImplementedError, because delayed feedback does not reveal the loss of this round."""
        raise NotImplementedError("feedback.delay: the loss of a round is not revealed in that round")

    def prox(self, v: Vector, step: float, near: Vector, tolerance: float) -> Solved:
        """Raise NotImplementedError, because delayed feedback does not reveal the loss of this round."""
        raise NotImplementedError("feedback.delay: the loss of a round is not revealed in that round")

    def grad(self, x: Vector, block: slice = ALL) -> Vector:
        """Return the gradient of the earlier loss plus the gradient of the regularizer at x.

        In the first k rounds, the gradient of the earlier loss is 0.
        """
        return self.data_grad(x, block) + self.regularizer * x[block]

    def data_grad(self, x: Vector, block: slice = ALL) -> Vector:
        """Return the gradient of the earlier loss, and store the gradient of this round's loss at x in `asked`.

        Both gradients are without the regularizer. In the first k rounds, return zeros.

        Raises:
            ValueError: the algorithm asks in one round for gradients at two points, and the gradients differ.
        """
        gradient = self.loss.data_grad(x, block)
        if self.asked is not None and not np.array_equal(self.asked, gradient):
            raise ValueError(
                "feedback.delay: update() asked for gradients at two points in one round, but may ask at one point only"
            )
        self.asked = gradient
        return np.zeros_like(gradient) if self.due is None else self.due.copy()


def delayed(message: Message, rounds: int) -> Message:
    """Return a message in which the first used round and the leakage are corrected for delayed feedback.

    The first used round is the round whose loss function the message is the first to depend on (`uses`); 0 means no new
    loss function. A `Start`, `Relay` or `Solve` is returned unchanged.

    Args:
        message: the message without delay.
        rounds: the delay of the feedback, in rounds.
    """
    if not isinstance(message, (Query, Queries)):
        return message
    return offset_by(replace(message, uses=max(message.uses - rounds, 0)), 1.0)
