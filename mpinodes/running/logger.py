"""Log one run: write what the agents log to the log, evaluate their decisions, save checkpoints, and finish the run."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mpinodes.config import own_files as sources
from mpinodes.config.noise_key import noise_name
from mpinodes.core import Diverged, Setup, Vector
from mpinodes.evaluation.accounting import Accounting
from mpinodes.evaluation.evaluator import Evaluator
from mpinodes.finished.siblings import headed, sharing
from mpinodes.losses.two_point import Directions
from mpinodes.runlog.checkpoints import LOGGER, Chunk, Keeper, Order
from mpinodes.runlog.directories import require_there, write_text
from mpinodes.runlog.log import NAME, Log, Variable
from mpinodes.runlog.progress import Progress
from mpinodes.runlog.reader import RECORD
from mpinodes.runlog.versions import versions
from mpinodes.running import closing
from mpinodes.summary.summary import Summary
from mpinodes.summary.timing import Stopwatch

DRAWN_ROUNDS = 8  # the number of rounds whose graphs are recorded for drawing


class Logger:
    """Log one run: write what the agents log to the log, evaluate it, and finish the run.

    Call `follow`, then `finish`; do not call `finish` if a signal stopped the run. A new `Logger` changes the run
    directory:

    - If the run starts at round 1: experiment.toml and rounds.log are written anew.
    - If the run continues: rounds after the checkpoint are deleted from rounds.log, and summary.json is deleted.
    - In both cases: record.h5 and the logger's checkpoints of later rounds are deleted.

    Args:
        setup: the set-up of the run.
        directory: the run directory.
        mpi: the name of the MPI library, for the record.
        watch: the stopwatch of the command.
        checkpoint: the logger's checkpoint from which the run continues; None if the run starts at round 1.

    Attributes:
        accounting: the privacy accounting of the run; `finish` computes its results.
    """

    def __init__(
        self, setup: Setup, directory: Path, mpi: str, watch: Stopwatch, checkpoint: Mapping[str, Any] | None = None
    ) -> None:
        self._setup, self._directory, self._watch = setup, directory, watch
        e = setup.experiment
        self._keeper = Keeper(directory, LOGGER, noise_name(setup))
        self._evaluator, self.accounting = Evaluator(setup), Accounting(setup)
        self._sharing = sharing(setup, directory)
        self._directions = Directions(e, setup.blocks, setup.dimension) if e.feedback.points else None
        self._done, self._fitness, self._seconds, self._models = 0, 0.0, 0.0, np.empty((0, setup.dimension))
        graph = setup.topology
        drawn = range(1, min(graph.period or e.rounds, DRAWN_ROUNDS) + 1)
        drawing = {"title": graph.title, "agents": graph.agents, "period": graph.period}
        drawing |= {"rounds": [sorted(graph.edges(t)) for t in drawn], "names": graph.names}
        texts = {"experiment": e.toml(), "versions": json.dumps(versions(mpi)), "topology": json.dumps(drawing)}
        facts = {"attributes": texts, "sizes": {"agent": graph.agents, "coordinate": setup.dimension}}
        file, text = directory / "experiment.toml", headed(setup)
        if checkpoint is None:
            write_text(file, text)
            self._log = Log(directory / NAME, facts)
        else:
            self._done, self._fitness, self._seconds = checkpoint["round"], checkpoint["fitness"], checkpoint["seconds"]
            self._evaluator.restore(checkpoint["evaluator"])
            self._log = Log(directory / NAME, facts, checkpoint["log"], self._done)
            self._keeper.save(self._done, {**checkpoint, "stops": False})  # the agents may now send later rounds
            began = file.stat().st_mtime
            write_text(file, text)
            os.utime(file, (began, began))  # the time of this file is the time at which the run began
            (directory / "summary.json").unlink(missing_ok=True)  # exists if the user adds rounds to a finished run
        (directory / RECORD).unlink(missing_ok=True)  # readers would find only the old rounds in this file
        self._keeper.forget_after(self._done)
        self._progress = Progress(directory, e.name, e.rounds, self._done)

    def follow(self, chunks: Iterable[Chunk]) -> int | None:
        """Write the numbers that all agents log to the log, and evaluate the agents' decisions.

        Args:
            chunks: the numbers, in chunks of consecutive rounds, and then a chunk with the agents' models.
                `Chunk.order` says whether to save a checkpoint after the chunk. If the run ended early, the last chunk
                of rounds may have no order.

        Returns:
            The round after which a signal stopped the run; None if no signal stopped the run.
        """
        self._watch.lap("start_up")
        begun, before, order = time.perf_counter(), self._seconds, None
        try:
            for chunk in chunks:
                if chunk.models is not None:
                    self._models = chunk.models
                    continue
                begun, order = begun - chunk.seconds, chunk.order
                self.take(chunk.rows)
                self._seconds = before + time.perf_counter() - begun
                if order and order.keeps:
                    self._keep(order)
        finally:
            self._watch.lap("rounds")
            self._progress.close()
        self._keeper.keep_two()
        return self._done if order and order.stops else None

    def _keep(self, order: Order) -> None:
        """Save a checkpoint of the logger after the newest logged round."""
        if order.stops:
            self._log.sync()
        self._keeper.forget_before(order.forget)
        state = {"evaluator": self._evaluator.state(), "fitness": self._fitness, "seconds": self._seconds}
        state |= {"experiment": self._setup.experiment.toml(), "files": self._files, "log": self._log.place}
        self._keeper.save(self._done, {**state, "stops": order.stops}, order.stops)

    @cached_property
    def _files(self) -> list[sources.Stamp]:
        """Return the size, the time and, if the user has a stamp key, a hash of each data and graph file.

        A resumed run checks that these files are the same.
        """
        return sources.stamps(self._setup)

    def take(self, rows: Vector) -> None:
        """Evaluate the next rounds of all agents, and write them to the log.

        Args:
            rows: (agents, rounds, row width) the numbers that the agents log.

        Raises:
            Diverged: the decision of an agent is not finite; the error names the first such round and agent.
            BadInput: the metrics differ from the metrics with which the log began.
            OSError: the run directory was removed, or the log cannot be written.
        """
        estimates, events, frames = self._setup.layout.open(rows.transpose(1, 0, 2))
        bad = ~np.isfinite(estimates).all(axis=2)
        if bad.any():
            round, agent = np.argwhere(bad)[0].tolist()
            raise Diverged(
                f"the decision of agent {agent} is not finite in round {self._done + round + 1}: the run diverges; "
                "use smaller steps, less noise, or a bounded problem.set"
            )
        require_there(self._directory)
        measured = self._evaluator.take(estimates)
        columns = events.columns().items()
        messages = {name: Variable(("round", "agent", *others), values) for name, (others, values) in columns}
        variables = {**measured, **messages}
        record, axes = self._setup.experiment.record, ("round", "agent", "coordinate")
        if record.decisions:
            variables["decision"] = Variable(axes, estimates)
            if self._directions:
                variables["offset"] = Variable(axes, self._directions.offsets(self._done + 1, len(estimates)))
        if record.transcript:
            graph, axes = self._setup.reached, ("round", "agent", "neighbor")
            by_round = range(self._done + 1, self._done + len(frames) + 1)
            variables["transcript"] = Variable(("round", "agent", "word"), frames)
            variables["receiver"] = Variable(axes, np.array([graph.sends(t) for t in by_round], float))
            if links := self._setup.links:
                variables["lateness"] = Variable(axes, np.array([links.lateness(t) for t in by_round], float))
        self._log.append(variables)
        self._done += len(estimates)
        self._fitness += float(measured["loss"].values.sum())
        self._progress.show(self._done, self._fitness / self._done)

    def finish(self) -> Summary:
        """Evaluate the run after its last round, write record, summary and report, and return the summary."""
        return closing.finish(
            self._setup,
            self._directory,
            self._evaluator,
            self.accounting,
            models=self._models,
            watch=self._watch,
            shares=self._sharing,
            seconds=self._seconds,
            tell=self._progress.finishing,
        )
