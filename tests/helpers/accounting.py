"""Events made by hand, and what they cost."""

from __future__ import annotations

import numpy as np

from mpinodes.core import Event, Kind
from mpinodes.privacy.accountant import price
from mpinodes.privacy.ledger import Uses, open_ledger

DELTA = 1e-5


def field(name: str) -> int:
    """Where it stands in a row of an event."""
    return Event._fields.index(name)


def events(rounds: int, kind: Kind = Kind.LAPLACE, **fields: object) -> np.ndarray:
    """(rounds, fields of an Event); by default public points, round t - 1 first carried by message t."""
    made = np.zeros((rounds, len(Event._fields)))
    defaults = {
        "kind": kind, "scale": 1.0, "draws": 1.0, "l1": 1.0, "l2": 1.0,
        "uses": np.arange(rounds), "hidden_gain": 0.0, "hidden_cap": 0.0, "hidden_keep": 0.0,
    }  # fmt: skip
    for name, value in (defaults | fields).items():
        made[:, field(name)] = value
    return made


def by_round(t: int) -> list[int]:
    return [t - 1]


def loss(one_agent: np.ndarray, groups=by_round, agents: int = 1, tight: bool = False):
    return price([open_ledger(one_agent, Uses.of(one_agent, groups))], [agents], len(one_agent), DELTA, tight)
