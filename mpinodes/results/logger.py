"""The logger: hands the agents' rows, as they come, to record, evaluator and accounting, and at the end sums up."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mpinodes.bounds import bounds
from mpinodes.core import Diverged, Setup, Vector
from mpinodes.core.events import Events
from mpinodes.results import closing, theorems
from mpinodes.results.accounting import Accounting
from mpinodes.results.evaluator import Evaluator
from mpinodes.results.progress import Progress
from mpinodes.results.record import DRAWN_ROUNDS, Record, Variable, Variables, versions, write_text
from mpinodes.results.siblings import headed, sharing
from mpinodes.results.timing import Stopwatch

Json = dict[str, Any]


class Logger:
    """Follows one run; `take` every chunk of rows, then `finish`.

    Attributes:
        accounting: what the run cost in privacy.
    """

    def __init__(self, setup: Setup, directory: Path, mpi: str, watch: Stopwatch) -> None:
        self._setup, self._directory, self._watch = setup, directory, watch
        e = setup.experiment
        self._evaluator, self.accounting = Evaluator(setup), Accounting(setup)
        self._versions = versions(mpi)
        self._sharing = sharing(setup, directory)
        write_text(directory / "experiment.toml", headed(setup))
        attributes = {"experiment": e.toml(), "versions": self._versions, "topology": _drawing(setup)}
        self._record = Record(directory / "record.h5", setup.topology.agents, setup.dimension, attributes)
        self._progress = Progress(directory, e.name, e.rounds)
        self._done, self._fitness = 0, 0.0

    def follow(self, chunks: Iterable[Vector]) -> None:
        """Take all chunks, each (agents, rounds, row), to the last."""
        self._watch.lap("start_up")
        begun = time.perf_counter()
        try:
            for chunk in chunks:
                self.take(chunk)
        finally:
            self._record.write()
            self._seconds = time.perf_counter() - begun
            self._watch.lap("rounds")
            self._progress.close()

    def take(self, rows: Vector) -> None:
        """Take the next rounds of every agent: (agents, rounds, row)."""
        estimates, events, frames = self._setup.layout.open(rows.transpose(1, 0, 2))
        self._refuse_divergence(estimates)
        if not self._directory.is_dir():
            raise FileNotFoundError(f"{self._directory} is gone: a run directory stays where it is until the run ends")
        told = self._evaluator.take(estimates)
        self.accounting.take(events)
        self._record.append({**told, **_of_messages(events), **self._on_request(estimates, frames)})
        self._done += len(estimates)
        self._fitness += float(told["loss"].values.sum())
        self._progress.show(self._done, self._fitness / self._done)

    def _refuse_divergence(self, estimates: Vector) -> None:
        bad = ~np.isfinite(estimates).all(axis=2)
        if bad.any():
            round, agent = np.argwhere(bad)[0].tolist()
            raise Diverged(
                f"the estimate of agent {agent} is not finite in round {self._done + round + 1}: the run diverges; "
                "smaller steps or noise, or a bounded problem.set"
            )

    def _on_request(self, estimates: Vector, frames: Vector) -> Variables:
        """What is recorded only where it is asked for."""
        record, found = self._setup.experiment.record, {}
        if record.decisions:
            found["decision"] = Variable(("round", "agent", "coordinate"), estimates)
        if record.transcript:
            n = self._setup.topology.agents
            receiver = np.zeros((len(frames), n, n))
            for k in range(len(frames)):
                for j, i in self._setup.topology.edges(self._done + k + 1):
                    receiver[k, j, i] = 1
            found["transcript"] = Variable(("round", "agent", "word"), frames)
            found["receiver"] = Variable(("round", "agent", "neighbor"), receiver)
        return found

    def finish(self) -> Json:
        """Complete record, summary and report; returns the summary."""
        self._evaluator.close(partial(self._progress.finishing, "comparators"))
        self._watch.lap("comparator")
        judged, told = self._evaluator.judged, self._evaluator.variables()
        self.accounting.close(judged.horizons, partial(self._progress.finishing, "privacy accounting"))
        self._watch.lap("accounting")
        proven = bounds(self._setup, judged.horizons, judged.best)
        self._watch.lap("bounds")
        self._record.finish(judged.horizons, {**told, **self.accounting.variables(), **theorems.variables(proven)})
        summary = {
            **closing.facts(self._setup, self._done, self._seconds, self._versions),
            **self._evaluator.summary(),
            "bounds": theorems.section(proven, told),
            **self.accounting.summary(self._sharing),
        }
        closing.conclude(self._setup.experiment, self._directory, summary, self._watch)
        return summary


def _of_messages(events: Events) -> Variables:
    """Events and leakages."""
    return {name: Variable(("round", "agent", *axes), values) for name, (axes, values) in events.columns().items()}


def _drawing(setup: Setup) -> Json:
    """As much of the topology as a picture needs."""
    graph = setup.topology
    rounds = min(graph.period or setup.experiment.rounds, DRAWN_ROUNDS)
    return {
        "title": graph.title,
        "agents": graph.agents,
        "period": graph.period,
        "rounds": [sorted(graph.edges(t)) for t in range(1, rounds + 1)],
    }
