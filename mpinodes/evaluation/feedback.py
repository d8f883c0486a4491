"""What agents were told of their losses, in the summary, where it is other than the gradient of the round, at once."""

from __future__ import annotations

from mpinodes.core import Setup
from mpinodes.losses.two_point import Directions
from mpinodes.summary.combining import Json


def told(setup: Setup, rounds: int) -> Json | None:
    """What was told, how late, and how far from each other the points of the last round were; None: gradients."""
    asked = setup.experiment.feedback
    if not (asked.points or asked.delay):
        return None
    last = Directions(setup.experiment, setup.blocks, setup.dimension).radius(rounds) if asked.points else None
    return {"points": asked.points, "radius": asked.radius, "last_radius": last, "delay": asked.delay}


def in_words(found: Json) -> str:
    """In a sentence or two."""
    parts = []
    if found["points"]:
        falls = f" down to {found['last_radius']:.3g}" if found["last_radius"] != found["radius"] else ""
        parts.append(
            f"bandit feedback: {found['points']} values a round, at points {found['radius']:g}{falls} from the one "
            "between them; losses and regret are those of the points played, in public directions"
        )
    if late := found["delay"]:
        parts.append(
            f"feedback {late} round{'s' * (late > 1)} late: applied with the step of the round that it comes in, which "
            "the noise is for"
        )
    return f"{'; '.join(parts)}; no theorem here has it so"
