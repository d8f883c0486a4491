"""What is scored of a run of the frontier: models of its messages alone, and what an online method lost on the way."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from desk import recorded
from frontier_data import Rows, Vector

from mpinodes.config.building import build
from mpinodes.core.experiment import Experiment
from mpinodes.core.messages import HEADER, Inbox
from mpinodes.core.parts import Setup
from mpinodes.losses.logistic import Logistic


class Outcome(NamedTuple):
    """Hold what came of a run.

    Attributes:
        models: two, each (agents, d): the last messages, and the mean of the messages of the second half of the rounds.
        lost: the mean loss, over rounds and agents, of an online method; nan: it is none.
        proven: ε of the network at δ; inf: there is no noise.
        bytes: of all frames on all links, and of the log2 n rounds more in which agents average their models.
        seconds: of the rounds of all agents, in one process.
    """

    models: Vector
    lost: float
    proven: float
    bytes: int
    seconds: float


class Reader:
    """Read the runs of a trial, for which the parts of mpinodes are composed once."""

    def __init__(self, run: Path) -> None:
        self._setup: Setup = build(Experiment.read(run / "experiment.toml"))
        e = self._setup.experiment
        self._is_dual, self._is_online = e.algorithm["name"] == "dpps", e.data["batch"] != "all"
        self._heard = heard(self._setup) if self._is_online else np.empty(0)

    def outcome(self, run: Path, own: Sequence[Rows]) -> Outcome:
        """Return what came of a run on the samples of each agent.

        A model of a dual method is the negative of its messages, of which the decision is a positive multiple.
        """
        (frames,) = recorded(run, "transcript")
        said = frames[:, :, HEADER : HEADER + self._setup.dimension]
        summary = json.loads((run / "summary.json").read_text())
        models = np.array([said[-1], said[1 + (len(said) - 1) // 2 :].mean(axis=0)])
        lost = self._lost(said, own) if self._is_online else np.nan
        agents, proven = said.shape[1], summary["privacy"]["network"]["proven"]
        sent = summary["bytes_sent"] + agents * (agents.bit_length() - 1) * frames.shape[-1] * 8
        epsilon = np.inf if proven is None else float(proven)
        return Outcome(-models if self._is_dual else models, lost, epsilon, sent, summary["timing"]["rounds"])

    def _lost(self, said: Vector, own: Sequence[Rows]) -> float:
        """The mean loss, by round and agent, of playing the mix of what is heard, in the set."""
        size, lost = int(self._setup.experiment.data["batch"]), []
        run, batches = self._setup.run, len(own[0].targets) // size
        for t, points in enumerate(self._heard @ said[:-1], 1):
            batch = slice((t - 1) % batches * size, ((t - 1) % batches + 1) * size)
            for point, rows in zip(points, own, strict=True):
                played = run.feasible.prox_step(point, run.step(t)) if self._is_dual else run.feasible.project(point)
                lost.append(loss(played, rows.at(batch)))
        return float(np.mean(lost))


def heard(setup: Setup) -> Vector:
    """(n, n) the weights of what each agent hears, the same in all rounds, for all agents have as many neighbours."""
    own = np.eye(setup.topology.agents)
    places = [setup.topology.neighborhood(1, i) for i in range(len(own))]
    states = [setup.mixing.init(i) for i in range(len(own))]
    scalars = [np.array(setup.mixing.outgoing(state, here), float) for state, here in zip(states, places, strict=True)]
    mixed = []
    for i, here in enumerate(places):
        _, weights, scale = setup.mixing.weights(states[i], here, [scalars[j] for j in here.senders])
        mixed.append(Inbox([own[j] for j in here.senders], weights, scale, own[i]).mix())
    return np.array(mixed)


def loss(point: Vector, rows: Rows) -> float:
    """Return the mean logistic loss of a point."""
    return float(np.logaddexp(0, -rows.targets * (rows.features @ point)).mean())


def accuracy(model: Vector, rows: Rows) -> float:
    """Return the accuracy of a model."""
    return float(((rows.features @ model > 0) == (rows.targets > 0)).mean())


def best_within(rows: Rows, radius: float) -> Vector:
    """(d,) the minimizer of the mean loss in a ball: of the penalty that brings its norm down to the radius."""
    mean = Logistic(*rows, np.inf, False, float(len(rows.targets)), 0.0)
    low, high, x = 1e-9, 1.0, np.zeros(rows.features.shape[1])
    for _ in range(25):
        penalty = (low * high) ** 0.5
        x = mean.prox(np.zeros_like(x), 1 / penalty, x, 1e-9).x
        low, high = (penalty, high) if np.linalg.norm(x) > radius else (low, penalty)
        if abs(np.linalg.norm(x) - radius) < 1e-3 * radius:
            break
    return np.asarray(x)
