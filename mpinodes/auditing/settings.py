"""Experiments in which statements of sensitivity are put to the test by replay alone.

The run's own, with its agents, graph, dimension, batch and every key but its data, in the place of which samples at the
edge of their domain come; the same with larger batches, summed and averaged; and the small ones of `mpinodes.check`, in
which weights, regularizers, graphs and adjacency vary.
"""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mpinodes.auditing.adjacent_replay import Finding, replay
from mpinodes.auditing.checks import setups
from mpinodes.auditing.games import simulate
from mpinodes.config.compose import compose
from mpinodes.core import Diverged, Setup
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import Tree, merge

ROUNDS, AGENTS, FOLLOWED = 8, 4, 4  # at most: of a run of the own sizes; replayed; changed rounds followed to the end
BRIEF, LONG = 8, 40  # rounds of a small experiment; above how many it is left out
LARGEST = 2_000_000  # features of an experiment of its own sizes
BATCH = 3
ROUNDING = 1e-7  # relative, of what hidden state still makes of a message, lost over many rounds


class Tried(NamedTuple):
    """An experiment that was replayed.

    Attributes:
        what: for people.
        findings: of each agent; none where it could not be run.
        why: it could not.
    """

    what: str
    findings: list[Finding]
    why: str = ""


def tried(own: Setup, folder: Path, seed: int) -> Iterator[Tried]:
    """All of them, replayed; those that do not fit the algorithm are left out, but for the first."""
    try:
        for what, asked in _own_sizes(own, folder, seed):
            yield Tried(what, _replayed(asked, seed))
    except (BadInput, Diverged) as error:
        yield Tried("its own sizes", [], str(error))
    for what, asked in _small(own, folder, seed):
        try:
            yield Tried(what, _replayed(asked, seed))
        except (BadInput, Diverged):  # it does not fit the algorithm
            continue
        except Exception as error:  # of the user's part, which need not be for such an experiment
            yield Tried(what, [], f"{type(error).__name__}: {error}")


def _replayed(asked: Tree, seed: int) -> list[Finding]:
    """Some agents of an experiment, on adjacent data."""
    run = simulate(compose(asked, ranks=None))
    agents = np.unique(np.linspace(0, run.setup.topology.agents - 1, AGENTS).round().astype(int))
    found = [replay(run, int(agent), FOLLOWED, seed) for agent in agents]
    return [finding._replace(hidden=finding.hidden / (1 + ROUNDING)) for finding in found]


def _own_sizes(own: Setup, folder: Path, seed: int) -> Iterator[tuple[str, Tree]]:
    e = own.experiment
    tree: Tree = tomllib.loads(e.toml())
    tree["privacy"].pop("budget", None)
    always: Tree = {"report": False, "repeats": 1, "record": {"transcript": True, "metrics": []}}
    if not e.secret:
        always["noise"] = {"key": "probe"}
    shortest = e.algorithm.get("gradient_rounds", 0) + 3
    rounds = min(e.rounds, max(ROUNDS, shortest))
    batch: Any = e.data.get("batch", 1)
    yield "its own sizes", merge(tree, always, {"rounds": rounds}, _data(own, folder, seed, batch, rounds, tree))
    if own.algorithm.solves:  # for which sums of that many are other problems, badly conditioned
        return
    if batch == "all":
        flipped = {"problem": {"average": not e.problem.average}}
        data = _data(own, folder, seed, batch, rounds, tree)
        yield "its own sizes, sums or averages", merge(tree, always, {"rounds": rounds}, flipped, data)
        return
    other = BATCH if batch != BATCH else BATCH + 1
    data = _data(own, folder, seed, other, rounds, tree)
    for average in (False, True):
        changed = {"rounds": rounds, "problem": {"average": average}}
        words = f"its own sizes, {'averages' if average else 'sums'} of {other} samples"
        yield words, merge(tree, always, changed, data)


def _data(own: Setup, folder: Path, seed: int, batch: Any, rounds: int, tree: Tree) -> Tree:
    """Samples at corners of the cube, every other one (1, ..., 1): along it L1 is largest; targets far away, or labels.

    Changes `tree`, which has other data's keys.
    """
    rng = np.random.default_rng([seed, 11])
    n, classes = own.topology.agents, own.stream.classes
    d = own.dimension // (classes or 1)
    shared = own.experiment.data["partition"] == "shared"
    rows = (1 if shared else n) * (max(own.samples) if batch == "all" else rounds * batch)
    if rows * d > LARGEST:
        raise BadInput(f"{rows} samples of {d} features are more than an audit tries; fewer agents, or smaller batches")
    features = rng.choice([-1.0, 1.0], (rows, d))
    features[rng.random(rows) < 0.5] = 1.0
    signs = rng.permutation(np.resize([-1.0, 1.0], rows))
    labels = own.loss.needs_labels
    file = folder / f"own-{batch}.npz"
    far = rng.integers(classes, size=rows) if classes else setups.FAR * signs
    np.savez(file, features=features, targets=signs if labels else far)
    tree["data"] = {}
    return {
        "data": {
            "name": "file", "file": str(file), "targets": "labels" if labels else "classes" if classes else "real",
            "labels": list(range(classes)), "bound": 1.0,
            "batch": batch, "partition": own.experiment.data["partition"], "shuffle": False,
        },
    }  # fmt: skip


def _small(own: Setup, folder: Path, seed: int) -> Iterator[tuple[str, Tree]]:
    """Those of `mpinodes.check` that are short; the words of the algorithm's keys and the user's mechanism hold."""
    section = own.experiment.algorithm
    algorithm: Any = type(own.algorithm)
    chosen = {key: value for key, value in section.items() if isinstance(value, str)}
    privacy = {"path": own.experiment.privacy.path} if own.experiment.privacy.path else {}
    path = str(inspect.getsourcefile(algorithm))
    for what, asked in setups.experiments(algorithm, path, folder, seed):
        if asked["rounds"] <= LONG and "=" not in what:
            asked["algorithm"].pop("path", None)
            brief = {"rounds": min(asked["rounds"], max(BRIEF, asked["algorithm"].get("gradient_rounds", 0) + 3))}
            asked = merge(asked, brief, {"algorithm": chosen, "privacy": privacy})
            yield what, asked
            if what == "batches":  # averages, of weight 2
                weighted = {"average": False, "weight": 3.0}
                yield "sums, weighted", merge(asked, {"data": {"batch": 2}, "problem": weighted})
