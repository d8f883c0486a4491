"""Feedback that comes late: what an agent learns of the loss of a round, k rounds after it.

As in P. Joulani, A. György, C. Szepesvári, "Online Learning under Delayed Feedback" (ICML 2013), with the same delay
throughout: the gradient of f^t at the point of round t is put to use in round t + k, with the step of that round; in
the first k rounds there is none. A regularizer is known, and never late.

What a message of round t + 1 first tells of is then the loss of round t − k, and it moves by that gradient times the
step of round t: the noise is for the step that is really applied, as the algorithm has it. Where gradients are taken at
released points, an older change moves it no further, as without delay. Where they are taken at hidden ones, what a
change did to the point of round t − k comes back in round t, which no leakage that algorithms state tells of: it is
`UNKNOWN`, and nothing is proven.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from mpinodes.core import ALL, UNKNOWN, Feedback, Hidden, Leakage, Loss, Message, Solved, Vector
from mpinodes.core.messages import Queries, Query


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
    """What an algorithm says, which does not know that gradients come so many rounds late: as it is."""
    if not isinstance(message, (Query, Queries)):
        return message
    return replace(message, uses=max(message.uses - rounds, 0), leaks=_known(message.leaks))


def _known(leaks: Leakage) -> Leakage:
    """What of a leakage holds with delay: what a gradient at a hidden point makes of it does not."""
    if isinstance(leaks, (Feedback, Hidden)):
        moves = leaks.lipschitz > 0 and leaks.largest > 0
        return UNKNOWN if moves and (isinstance(leaks, Feedback) or any(leaks.point)) else leaks
    return leaks
