"""What agents were told of their losses, in the summary, where it is less than the gradient of the round."""

from __future__ import annotations

from typing import Any

from mpinodes.core import Setup
from mpinodes.losses.two_point import Directions

Json = dict[str, Any]


def told(setup: Setup, rounds: int) -> Json | None:
    """What was told, and how far from each other the points of the last round were; None: gradients."""
    asked = setup.experiment.feedback
    if not asked.points:
        return None
    last = Directions(setup.experiment, setup.blocks, setup.dimension).radius(rounds)
    return {"points": asked.points, "radius": asked.radius, "last_radius": last}


def in_words(found: Json) -> str:
    """In a sentence or two."""
    falls = f" down to {found['last_radius']:.3g}" if found["last_radius"] != found["radius"] else ""
    return (
        f"bandit feedback: {found['points']} values a round, at points {found['radius']:g}{falls} from the one between "
        "them; losses and regret are those of the points played, in public directions; no theorem here has it so"
    )
