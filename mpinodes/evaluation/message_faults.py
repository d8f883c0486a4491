"""What became of the messages of a run with faults, in the summary."""

from __future__ import annotations

import msgspec
import numpy as np

from mpinodes.core import Setup
from mpinodes.summary.combining import Json, Rules, same, total

RULES: Rules = {
    "asked": same, "weights": same, "sent": total, "lost": total, "late": total, "rounds_late": total,
    "rounds_away": total, "agent_rounds": total,
}  # fmt: skip


def told(setup: Setup, rounds: int) -> Json | None:
    """What was asked for, what it came to in so many rounds, and what the weights kept; None: there are no faults."""
    if setup.links is None:
        return None
    sent = lost = late = rounds_late = away = 0
    for t in range(1, rounds + 1):
        said, lateness = setup.links.sends(t), setup.links.lateness(t)
        sent += int(said.sum())
        lost += int((said & (lateness < 0)).sum())
        late += int((lateness > 0).sum())
        rounds_late += int(np.maximum(lateness, 0).sum())
        away += int(setup.links.away(t).sum())
    return {
        "asked": msgspec.to_builtins(setup.experiment.faults),
        "weights": setup.mixing.under_faults,
        "sent": sent,
        "lost": lost,
        "late": late,
        "rounds_late": rounds_late,
        "rounds_away": away,
        "agent_rounds": setup.topology.agents * rounds,
    }


def in_words(befell: Json) -> str:
    """In a sentence or two."""
    asked, sent, arrived = befell["asked"], befell["sent"], befell["sent"] - befell["lost"]
    found = []
    if asked["loss"]:
        found.append(f"{befell['lost'] / max(1, sent):.1%} of {sent} messages lost")
    if befell["late"]:
        mean = befell["rounds_late"] / max(1, arrived)
        found.append(f"{befell['late'] / max(1, arrived):.1%} of the others late, by {mean:.2g} rounds in the mean")
    if asked["churn"]:
        found.append(f"agents away {befell['rounds_away'] / befell['agent_rounds']:.1%} of the time")
    return f"faults: {', '.join(found) or 'none befell it'}; {befell['weights']}"
