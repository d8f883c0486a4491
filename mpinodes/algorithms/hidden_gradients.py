"""Define the setting `gradient_at` and the leakage of algorithms that may take gradients at hidden points.

A point is hidden if it depends on an agent's data beyond what the agent has released. Leakage is the effect of older
changes of the data on a later message, through hidden points.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from mpinodes.core import Feedback, Run

GradientAt = Annotated[
    Literal["hidden", "public"],
    Meta(
        description="the point of gradients. hidden: the agent's unreleased estimate, as the paper prints it; a sample "
        "then leaks in every later round. public: a point made of releases; a sample then leaks in one round only"
    ),
]


def feedback(run: Run, agent: int, l2: float, weight: float, gain: float = 1.0, coordinates: int = 0) -> Feedback:
    """Return the leakage of a message that contains a gradient at a hidden point.

    A change of an older sample moves the hidden point, and thereby this message.

    Args:
        run: the public constants of the run.
        agent: the sender of the message.
        l2: the L2 sensitivity of the message.
        weight: the factor of the gradient in the message; 0 before the first gradient.
        gain: the largest L2 move of the point if the previous message moves by 1; 0 before the first gradient.
        coordinates: the number of coordinates of the gradient; 0 means all.
    """
    has_gradient = weight > 0 and gain > 0
    return Feedback(
        l2,
        lipschitz=weight * run.grad_lipschitz[agent] * gain if has_gradient else 0.0,
        largest=weight * run.grad_range[agent] if weight else 0.0,
        linear=weight * run.regularizer * gain,
        offset=weight * run.grad_rounding[agent] if has_gradient else 0.0,
        coordinates=coordinates,
    )
