"""Experiments in which replay alone tests the statements of sensitivity under other settings than the run's.

There are three sources. The first is the run itself, with its agents, graph, dimension, batch and every other key, on
other data: samples at the edge of their domain. The second is the same run with larger batches, summed and averaged.
The third is the small experiments of `mpinodes.check`, in which weights, regularizers, graphs and adjacency vary.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mpinodes.auditing.adjacent_replay import Finding, replay
from mpinodes.auditing.small_experiments import experiments, own_sizes
from mpinodes.auditing.transcripts import simulate
from mpinodes.config.compose import compose
from mpinodes.core import Diverged, Setup
from mpinodes.core.asked import Tree, merge
from mpinodes.core.errors import BadInput

AGENTS, FOLLOWED = 4, 4  # at most so many agents, and changed rounds whose later messages are all compared
BRIEF, LONG = 8, 40  # rounds of a small experiment; longer recipes are left out
ROUNDING = 1e-7  # relative rounding error of the bounds on hidden state, accumulated over rounds


class Tried(NamedTuple):
    """An experiment that was replayed.

    Attributes:
        what: its label.
        findings: by agent; none if the experiment could not be run.
        why: why it could not.
    """

    what: str
    findings: list[Finding]
    why: str = ""


def tried(own: Setup, folder: Path, seed: int) -> Iterator[Tried]:
    """Replay all experiments; small ones that do not fit the algorithm are left out silently.

    The small ones have the word-valued keys and the mechanism of the user.
    """
    try:
        for label, asked in own_sizes(own, folder, seed):
            yield Tried(label, _replayed(asked, seed))
    except (BadInput, Diverged) as error:
        yield Tried("its own sizes", [], str(error))
    algorithm, privacy = type(own.algorithm), own.experiment.privacy
    words = {key: value for key, value in own.experiment.algorithm.items() if isinstance(value, str)}
    users: Tree = {"algorithm": words, "privacy": {"path": privacy.path} if privacy.path else {}}
    for label, asked in experiments(algorithm, str(inspect.getsourcefile(algorithm)), folder, seed):
        if asked["rounds"] > LONG or "=" in label:
            continue
        asked["algorithm"].pop("path", None)
        asked = merge(asked, {"rounds": min(asked["rounds"], BRIEF)}, users)
        variants = [(label, asked)]
        if label == "batches":  # these have averages of weight 2
            weighted = {"average": False, "weight": 3.0}
            variants.append(("sums, weighted", merge(asked, {"data": {"batch": 2}, "problem": weighted})))
        for name, variant in variants:
            try:
                yield Tried(name, _replayed(variant, seed))
            except (BadInput, Diverged):  # the experiment does not fit the algorithm
                continue
            except Exception as error:  # raised by the user's part, which need not handle such an experiment
                yield Tried(name, [], f"{type(error).__name__}: {error}")


def _replayed(asked: Tree, seed: int) -> list[Finding]:
    """Run an experiment, and replay some of its agents on adjacent data."""
    run = simulate(compose(asked, ranks=None))
    agents = np.unique(np.linspace(0, len(run.agents) - 1, AGENTS).round().astype(int))
    findings = [replay(run, int(agent), FOLLOWED, seed) for agent in agents]
    return [finding._replace(hidden=finding.hidden / (1 + ROUNDING)) for finding in findings]
