"""Make events by hand, and compute their privacy loss."""

from __future__ import annotations

import numpy as np

from mpinodes.core import Event, Kind
from mpinodes.core.events import Events, Layout
from mpinodes.core.messages import HIDDEN_KIND
from mpinodes.privacy.accountant import price
from mpinodes.privacy.ledger import Facts, Saturated, Uses
from mpinodes.privacy.recursive import Agent, Followed, Recursive, open_ledger

DELTA = 1e-5
FEEDBACK = (
    "lipschitz",
    "largest",
    "linear",
)  # fields that state how older changes act on a message: `core.messages.Feedback`


def events(rounds: int, kind: Kind = Kind.LAPLACE, **fields: object) -> Events:
    """Return the events of one agent over some rounds.

    By default, gradients are taken at public points, and message t is the first that carries the data of round t - 1.
    With a field of `FEEDBACK`, each message leaks through one hidden part, which is the message itself.

    Args:
        rounds: the number of rounds.
        kind: the kind of all events.
        fields: fields of an `Event` or of `FEEDBACK`: a number for all rounds, or an array (rounds,).
    """
    hidden = ("x",) if set(FEEDBACK) & fields.keys() else ()
    data = np.zeros(rounds, Layout(1, ("x",), hidden).record)
    defaults = {"kind": kind, "scale": 1.0, "draws": 1.0, "l1": 1.0, "l2": 1.0, "uses": np.arange(rounds)}
    for name, value in (defaults | fields).items():
        if name in Event._fields:
            data["event"][name][:, 0] = value
    if hidden:
        leakage = data["leakage"]
        leakage["kind"] = HIDDEN_KIND
        for name in ("gradient", "point", "reads"):
            leakage[name] = 1.0
        leakage["sensitivity"] = data["event"]["l2"][:, 0]
        leakage["lipschitz"], leakage["largest"] = fields.get("lipschitz", 0.0), fields.get("largest", 0.0)
        leakage["transition"][:, 0, 0] = fields.get("linear", 0.0)
    return Events(data)


def by_round(t: int) -> list[int]:
    return [t - 1]


def loss(one_agent: Events, groups=by_round, agents: int = 1, tight: bool = False):
    return price([open_ledger(one_agent, Uses.of(one_agent, groups))], [agents], len(one_agent), DELTA, tight)


def facts_of(one_agent: Events, uses: Uses) -> Facts:
    """Return the facts of all events of an agent, (rounds,)."""
    facts = Facts(groups=uses.groups)
    facts.take(0, one_agent)
    return facts


def saturated(one_agent: Events, uses: Uses) -> Saturated:
    return Saturated(one_agent, uses, facts_of(one_agent, uses))


def recursive(one_agent: Events, uses: Uses) -> Recursive:
    """Return the ledger that follows one agent alone."""
    return Recursive(Followed([Agent(one_agent, uses, facts_of(one_agent, uses))]))
