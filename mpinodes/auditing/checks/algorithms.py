"""Test an algorithm: whether its statements are true, and whether its methods are pure.

A method is pure if equal arguments give equal results, and if the arguments are not changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from mpinodes.auditing.checks.elsewhere import alone, over_mpi
from mpinodes.auditing.checks.failures import Fault, Report
from mpinodes.auditing.checks.purity import purity
from mpinodes.auditing.checks.statements import statements
from mpinodes.auditing.small_experiments import experiments, others
from mpinodes.auditing.transcripts import Transcript, simulate
from mpinodes.config.building import rebuilt
from mpinodes.config.compose import compose
from mpinodes.core import Diverged
from mpinodes.core.asked import Tree
from mpinodes.core.errors import BadInput

ENOUGH = 5  # after this number of runs and one more, the tests end as soon as any fault was found
APART = 3  # number of runs, in addition to the longest run, that are repeated in another process


def check_algorithm(algorithm: Any, path: str, folder: Path, seed: int, report: Report) -> None:
    """Run an algorithm on small experiments, and report faults.

    - Decisions must be finite, in some runs also without noise.
    - Methods must be pure: equal arguments give equal results.
    - Statements, such as a sensitivity, must be true.
    - Some runs must send the same messages again in another process. If no fault was found, one run is repeated over
      MPI.
    - The algorithm must be able to run on at least one of the experiments.

    Args:
        algorithm: the class of the algorithm.
        path: the file that defines the class.
        folder: where data files are written.
        seed: the seed of the experiments.
        report: gets the faults.
    """
    runs: list[Transcript] = []
    for label, asked in experiments(algorithm, path, folder, seed):
        with report.exceptions(label):
            try:
                run = _on_some_graph(label, asked)
            except (BadInput, Diverged) as error:
                report.notes.append(f"{label}: not tried: {error}")
                continue
            report.take("experiments", finite(run))
            runs.append(run)
    if not runs:
        reasons = "; ".join(report.notes[-2:])
        report.add(Fault("no experiment fits the algorithm", reasons, "an algorithm must run on data from a file"))
        return
    for k, run in enumerate(runs):
        if report.faults and k > ENOUGH:
            report.notes.append(f"{len(runs) - k} more experiments: not tried, because faults were found")
            break
        report.take("calls made again", purity(run, seed), _messages(run), run.label)
        if k < APART:
            report.take("messages without noise", without_noise(run), _messages(run), run.label)
        with report.exceptions(run.label):
            statements(run, seed, report)
    apart = [*runs[:APART], max(runs, key=lambda run: len(run.frames))]
    report.take("messages in another process", alone(apart, folder), sum(map(_messages, apart)))
    if not report.faults:
        report.take("runs over MPI", over_mpi(runs[0], folder, report))


def _messages(run: Transcript) -> int:
    """Return the number of messages of a run."""
    return int(np.prod(run.frames.shape[:2]))


def _on_some_graph(label: str, asked: Tree) -> Transcript:
    """Run an experiment on its graph; if the algorithm cannot run on this graph, try other graphs.

    Other graphs are tried after a `Diverged`, and after a `BadInput` that names the topology.

    Raises:
        BadInput, Diverged: no tried graph fits the algorithm. The error is that of the experiment's own graph.
    """
    errors: list[Exception] = []
    for tree in (asked, *others(asked)):
        try:
            return simulate(compose(tree, ranks=None), label)
        except (BadInput, Diverged) as error:
            errors.append(error)
            if isinstance(errors[0], BadInput) and "topology" not in str(errors[0]):
                break
    raise errors[0]


def finite(run: Transcript) -> Iterator[Fault]:
    """Yield a fault if any decision of a run is not finite."""
    for t, i in np.argwhere(~np.isfinite(run.decisions).all(axis=2))[:1].tolist():
        where = f"{run.label}: agent {i}, round {t + 1}"
        yield Fault("a decision that is not finite", where, "decisions are finite numbers")


def without_noise(run: Transcript) -> Iterator[Fault]:
    """Run the experiment again without noise, and yield a fault if any decision is not finite."""
    e = run.setup.experiment
    clean = msgspec.structs.replace(e, privacy=msgspec.structs.replace(e.privacy, epsilon=inf))
    yield from finite(simulate(rebuilt(run.setup, clean), f"{run.label}, no noise"))
