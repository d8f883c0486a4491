"""The logger: takes the agents' rows as they come, and at the end says what the run cost and what it was worth."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from mpinodes.agent import frame_width
from mpinodes.comparator import Comparator, best
from mpinodes.experiment import Experiment, log_spaced, resolve
from mpinodes.parts import Parts
from mpinodes.privacy.accountant import Accountant, Loss, Losses
from mpinodes.progress import Progress
from mpinodes.protocol import Event, Vector
from mpinodes.record import DRAWN_ROUNDS, Record, versions, write_text
from mpinodes.regret import Meter, accuracy
from mpinodes.sets import Set

Json = dict[str, Any]


class Diverged(RuntimeError):
    """An agent's estimate is no longer a number."""


class Logger:
    """Follows one run; `take` every chunk of rows, then `finish`."""

    def __init__(self, parts: Parts, directory: Path, mpi: str, b: int) -> None:
        self._parts, self._directory, self._b = parts, directory, b
        e = parts.experiment
        self._horizons: NDArray[np.int64] = log_spaced(e.rounds)
        self._meter = Meter(parts, self._horizons)
        self._accountant = Accountant(_groups(parts), shared=e.data["partition"] == "shared")
        self._versions = versions(mpi)
        write_text(directory / "experiment.toml", e.toml())
        attributes = {"experiment": e.toml(), "versions": self._versions, "topology": _drawing(parts)}
        words = frame_width(parts) if e.record.transcript else 0
        self._record = Record(
            directory / "record.h5", parts.topology.agents, parts.dimension, attributes, e.record.decisions, words
        )
        self._progress = Progress(directory, e.name, e.rounds)
        self._done, self._fitness = 0, 0.0
        self._start = time.perf_counter()

    def follow(self, chunks: Iterable[Vector]) -> None:
        """Take all chunks, each (agents, rounds, row), to the last."""
        for chunk in chunks:
            self.take(chunk)
        self._seconds = time.perf_counter() - self._start
        self._progress.close()

    def take(self, rows: Vector) -> None:
        """Take the next rounds of every agent: (agents, rounds, row)."""
        d, rows = self._parts.dimension, rows.transpose(1, 0, 2)
        estimates, events, frames = np.split(rows, [d, d + len(Event._fields)], axis=2)
        self._refuse_divergence(estimates)
        rounds = self._meter.take(estimates)
        self._accountant.compose(events)
        self._record.append(rounds.loss, rounds.consensus_error, events, **self._optional(estimates, frames))
        self._done += len(estimates)
        self._fitness += float(rounds.loss.sum())
        self._progress.show(self._done, self._fitness / self._done)

    def _refuse_divergence(self, estimates: Vector) -> None:
        bad = ~np.isfinite(estimates).all(axis=2)
        if bad.any():
            round, agent = np.argwhere(bad)[0].tolist()
            raise Diverged(
                f"the estimate of agent {agent} is not finite in round {self._done + round + 1}: the run diverges; "
                "smaller steps or noise, or a bounded problem.set"
            )

    def _optional(self, estimates: Vector, frames: Vector) -> dict[str, Vector]:
        """What is recorded only on request, by variable."""
        record = self._parts.experiment.record
        found = {"decision": estimates} if record.decisions else {}
        if record.transcript:
            n = self._parts.topology.agents
            receiver = np.zeros((len(frames), n, n))
            for k in range(len(frames)):
                for j, i in self._parts.topology.edges(self._done + k + 1):
                    receiver[k, j, i] = 1
            found |= {"transcript": frames, "receiver": receiver}
        return found

    def finish(self) -> Json:
        """Complete record, summary and report; returns the summary."""
        e, horizons = self._parts.experiment, self._horizons
        losses_of = self._parts.stream.of(0)
        comparators = [
            comparator(losses_of, self._parts.feasible, t, start)
            for t, start in zip(horizons.tolist(), self._meter.mean, strict=True)
        ]
        values = np.array([c.value for c in comparators])
        regret = self._meter.total - values[:, None]
        claim = getattr(self._parts.algorithm, "claim", None) if e.private else None
        losses = self._accountant.losses(
            horizons, e.privacy.delta, claim and (lambda t: claim(e.epsilon, t)), e.privacy.tight
        )
        scores = {name: self._accuracies(name) for name in self._parts.stream.labelled()}
        along, each = ("horizon",), ("horizon", "agent")
        variables = {
            "network_regret": (along, regret[:, 0]),
            "network_regret_average_iterate": (along, regret[:, 1]),
            "agent_regret": (each, regret[:, 2:]),
            "average_fitness": (along, self._meter.total[:, 0] / horizons),
            "comparator_value": (along, values),
            "comparator_gap": (along, np.array([c.certificate for c in comparators])),
            "epsilon_claimed": (each, np.repeat(losses.claimed[:, None], regret.shape[1] - 2, axis=1)),
            "epsilon_claimed_network": (along, losses.claimed),
            "epsilon_proven_pure": (each, np.array([[loss.pure for loss in at] for at in losses.agents])),
            "epsilon_proven_pure_network": (along, np.array([loss.pure for loss in losses.network])),
            "epsilon_proven": (each, np.array([[loss.epsilon for loss in at] for at in losses.agents])),
            "epsilon_proven_network": (along, np.array([loss.epsilon for loss in losses.network])),
            "decision_last": (("horizon", "coordinate"), self._meter.last),
            "decision_mean": (("horizon", "coordinate"), self._meter.mean),
        }
        for name, (of_mean, of_last) in scores.items():
            suffix = "" if name == "test" else f"_{name}"
            variables |= {f"accuracy{suffix}": (along, of_mean), f"accuracy{suffix}_last": (along, of_last)}
        self._record.finish(horizons, variables)
        summary = self._summary(regret, comparators[-1], losses, scores)
        write_text(self._directory / "summary.json", json.dumps(_plain(summary), indent=2, allow_nan=False) + "\n")
        if e.report:
            from mpinodes.report import draw

            draw(self._directory)
        return summary

    def _accuracies(self, name: str) -> tuple[Vector, Vector]:
        features, labels = self._parts.stream.labelled()[name]
        return accuracy(self._meter.mean, features, labels), accuracy(self._meter.last, features, labels)

    def _summary(self, regret: Vector, least: Comparator, losses: Losses, scores: dict[str, Any]) -> Json:
        e, n = self._parts.experiment, self._parts.topology.agents
        network = _privacy(losses.claimed[-1], losses.network[-1])
        agents = [_privacy(losses.claimed[-1], loss) for loss in losses.agents[-1]]
        return {
            "name": e.name,
            "algorithm": e.algorithm.get("name", e.algorithm.get("path")),
            "data": self._parts.stream.title,
            "topology": self._parts.topology.title,
            "connectivity": self._b,
            "agents": n,
            "rounds": e.rounds,
            "dimension": self._parts.dimension,
            "seed": e.seed,
            "network_regret": regret[-1, 0],
            "network_regret_average_iterate": regret[-1, 1],
            "agent_regret": regret[-1, 2:].tolist(),
            "average_fitness": self._meter.total[-1, 0] / e.rounds,
            "comparator": {"value": least.value, "certificate": least.certificate},
            "decision_norm": float(np.linalg.norm(self._meter.last[-1])),
            "privacy": {
                "delta": e.privacy.delta,
                "agents": agents,
                "network": network,
                "noise": _noise(self._parts, self._accountant.events()),
            },
            "accuracy": {name: float(of_mean[-1]) for name, (of_mean, _) in scores.items()} or None,
            "accuracy_last_decision": {name: float(of_last[-1]) for name, (_, of_last) in scores.items()} or None,
            "seconds": self._seconds,
            "rounds_per_second": e.rounds / self._seconds,
            "versions": self._versions,
        }


def comparator(losses: Callable[[int], Any], feasible: Set, rounds: int, start: Vector) -> Comparator:
    """The best fixed decision for the losses of rounds 1 to `rounds`."""
    seen = [losses(t) for t in range(1, rounds + 1)]
    features = np.concatenate([loss.features for loss in seen])
    targets = np.concatenate([loss.targets for loss in seen])
    return best(type(seen[0])(features, targets, divisor=seen[0].divisor), feasible, start)


def _plain(value: Any) -> Any:
    """JSON has no infinity: a number that is not finite (a run that almost diverged) becomes null."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _groups(parts: Parts) -> Callable[[int], Sequence[int]]:
    """What an adjacent data set may change: a sample, by the stream's own numbers, or a round."""
    if parts.experiment.privacy.adjacency == "one-round":
        return lambda t: [t - 1]
    return parts.stream.groups


def _privacy(claimed: float, loss: Loss) -> Json:
    def number(value: float) -> float | None:
        return None if math.isnan(value) else float(value)

    return {
        "claimed": number(claimed),
        "proven_pure": number(loss.pure),
        "proven": number(loss.epsilon),
        "rule": loss.rule,
    }


def _noise(parts: Parts, events: Vector) -> Json | None:
    """The largest scale used, and the one that would make the label true of every release: (rounds, agents, fields)."""
    e = parts.experiment
    if not e.private:
        return None
    scale, l1 = (float(events[..., Event._fields.index(name)].max()) for name in ("scale", "l1"))
    needed = l1 / e.epsilon
    return {
        "epsilon": e.epsilon,
        "scale": scale,
        "calibrated_scale": None if math.isinf(needed) else needed,
        "calibrated": e.privacy.scale == "calibrated",
        "remark": getattr(parts.stream, "remark", "") if _is_default(e) else "",
    }


def _is_default(experiment: Experiment) -> bool:
    """Whether this is the experiment of a run without arguments, but for its seed and what it leaves behind."""
    default = resolve({}, None)
    same = {"seed": default.seed, "record": default.record, "output": None, "report": default.report}
    return msgspec.structs.replace(experiment, **same) == default


def _drawing(parts: Parts) -> Json:
    """As much of the topology as a picture needs."""
    graph = parts.topology
    rounds = min(graph.period or parts.experiment.rounds, DRAWN_ROUNDS)
    return {
        "title": graph.title,
        "agents": graph.agents,
        "period": graph.period,
        "rounds": [sorted(graph.edges(t)) for t in range(1, rounds + 1)],
    }
