"""Define the setting `gradient_at`, and bound the leakage of messages that contain gradients at hidden points.

A point is hidden if it cannot be computed from the messages that the agents send. A changed sample of an earlier round
moves the hidden points of later rounds, and thereby the gradients at these points. The leakage of a message bounds how
far this moves the message.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from mpinodes.core import Feedback, Run

GradientAt = Annotated[
    Literal["hidden", "public"],
    Meta(
        description="the point of gradients. hidden: the agent's unreleased estimate, as the paper prints it; a sample "
        "then leaks in every later round. public: a point made of releases; each use of a sample leaks in one round"
    ),
]


def feedback(run: Run, agent: int, l2: float, weight: float, gain: float = 1.0, coordinates: int = 0) -> Feedback:
    """Return the leakage of a message that contains a gradient at a hidden point.

    A point is hidden if it cannot be computed from the messages that the agents send. The leakage bounds how far a
    changed sample of an earlier round moves the message, because it moves the hidden point.

    Args:
        run: the public constants of the run.
        agent: the sender of the message.
        l2: the L2 sensitivity of the message, given all earlier messages.
        weight: the factor of the gradient in the message; 0 if no gradient was taken yet.
        gain: the largest movement of the hidden point if the previous message, before noise, moves by L2 distance 1; 0
            if no gradient was taken yet.
        coordinates: the number of coordinates of the gradient that the message contains; 0 means all coordinates.
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
