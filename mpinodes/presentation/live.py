"""What a page lets its reader pick from: curves by horizon, and the graph of every round."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np

from mpinodes.presentation.figure_data import Drawn
from mpinodes.summary.summary import NoiseFree

MOST = 30  # agents that have curves of their own


class Quantity(NamedTuple):
    """Curves with one axis.

    Attributes:
        name: of it.
        curves: names and variables; of agents, each has its own.
        per_round: whether it is divided by the rounds.
        factor: and multiplied by.
    """

    name: str
    curves: tuple[tuple[str, str], ...]
    per_round: bool = False
    factor: float = 1.0


QUANTITIES = (
    Quantity("accuracy (%)", (
        ("running mean, test", "accuracy"), ("last decision, test", "accuracy_last"),
        ("running mean, training", "accuracy_train"), ("agent", "accuracy_agents"),
    ), factor=100.0),
    Quantity("root mean squared error", (
        ("running mean, test", "rmse"), ("last decision, test", "rmse_last"), ("running mean, training", "rmse_train"),
    )),
    Quantity("regret per round", (
        ("network", "network_regret"), ("running average", "network_regret_average_iterate"),
        ("dynamic", "dynamic_regret"), ("agent", "agent_regret"),
    ), per_round=True),
    Quantity("optimality gap", (("agent", "optimality_gap"),)),
    Quantity("privacy loss ε", (
        ("network, claimed", "epsilon_claimed_network"), ("network, proven pure", "epsilon_proven_pure_network"),
        ("network, proven at δ", "epsilon_proven_network"), ("proven at δ, agent", "epsilon_proven"),
    )),
    Quantity("consensus and size", (("norm of the last decision", "decision_norm"),)),
)  # fmt: skip


def live(data: Drawn) -> dict[str, Any]:
    """Return the curves of a record, and of the same run without noise where that was made."""
    rounds = data["horizon"].values.tolist()
    found = []
    for quantity in QUANTITIES:
        curves = [curve for name, variable in quantity.curves for curve in _curves(data, quantity, name, variable)]
        if data.noise_free and data.noise_free.horizon == rounds:
            curves += _silent(data.noise_free, quantity)
        if curves:
            found.append({"name": quantity.name, "rounds": rounds, "curves": curves})
    agents = len(data["agent"].values)
    note = f"Curves of agents 0 to {MOST - 1} of {agents}; record.h5 has those of all." if agents > MOST else ""
    return {"quantities": found, "note": note, "topology": json.loads(data.attrs["topology"])}


def _curves(data: Drawn, quantity: Quantity, name: str, variable: str) -> list[dict[str, Any]]:
    if variable not in data:
        return []
    values = data[variable]
    if quantity.per_round:
        values = values / data["horizon"]
    if "repeat" in values.dims:
        values = values.mean("repeat")
    values = quantity.factor * values
    if "agent" not in values.dims:
        return [{"name": name, "agent": None, "values": _plain(values.values)}]
    columns = enumerate(values.values.T[:MOST])
    return [{"name": f"{name} {i}", "agent": i, "values": _plain(column)} for i, column in columns]


def _silent(silent: NoiseFree, quantity: Quantity) -> list[dict[str, Any]]:
    (name, variable), *_ = quantity.curves
    if not (curve := getattr(silent, variable, None)):
        return []
    values = np.array(curve, float) / (np.array(silent.horizon) if quantity.per_round else 1.0)
    return [{"name": f"{name}, without noise", "agent": None, "values": _plain(quantity.factor * values)}]


def _plain(values: np.ndarray) -> list[float | None]:
    """Return numbers for JSON, which has neither infinity nor what is no number."""
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in values.tolist()]
