"""The setting and the leakage of algorithms that may take gradients at hidden points."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from mpinodes.core import Feedback, Run

GradientAt = Annotated[
    Literal["hidden", "public"],
    Meta(
        description="where gradients are taken: hidden, as the paper prints it, at the agent's unreleased estimate "
        "(a sample then leaks in every later round); public: at a point made of releases (in one round only)"
    ),
]


def feedback(run: Run, agent: int, l2: float, weight: float, gain: float = 1.0, coordinates: int = 0) -> Feedback:
    """Return the leakage of a message that holds a gradient taken at a hidden point, which older changes move.

    Args:
        run: the public constants of the run.
        agent: the sender.
        l2: the L2 sensitivity of the message.
        weight: the factor of the gradient in the message; 0 before the first gradient.
        gain: how far the point moves if the previous message moves by 1; 0 before the first gradient.
        coordinates: how many coordinates the gradient has; 0 means all.
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
