"""Small experiments on which an algorithm has the least to hide behind.

One coordinate for each agent, samples at the edge of their domain, few rounds. Of gradient steps, the first sample of
agent 0 has a target so far away that its gradient is clipped, as it is with the sign of the target turned, so that it
moves by all it may; all other targets are 0, and gradients there follow the point they are taken at: what is hidden
tells.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mpinodes.config import registry
from mpinodes.config.defaults import FIRST
from mpinodes.config.requirements import AlgorithmClass
from mpinodes.core import Vector
from mpinodes.core.experiment import Experiment, Tree, merge

FAR = 100.0
FEW, MANY = 6, 160  # rounds
JOINT, SMALL, PAIR = 10, 3, 2  # agents


class Probe(NamedTuple):
    """One row of the table.

    Attributes:
        what: for people.
        asked: the experiment.
        secret: whether every sample's sign is a secret of its own, to be guessed from one run.
    """

    what: str
    asked: Tree
    secret: bool = False


# What of an algorithm is looked at, by its name: what is said of it, and its keys on top of its kind's.
INVERSE = {"kind": "inverse", "initial": 1.0}
LASTING = {"kind": "constant", "value": 0.45}  # times 2, the losses' curvature: 0.9 of a hidden change stays
VARIANTS: dict[str, list[tuple[str, Tree]]] = {
    "weight-balancing": [
        ("as printed", {"step": INVERSE}),
        ("gradient at hidden x, noise index right", {
            "rounds": 10, "step": LASTING, "algorithm": {"noise_index": "corrected"}, "privacy": {"epsilon": 2.0},
        }),
        ("gradient at public z, noise index as printed", {"step": INVERSE, "algorithm": {"gradient_at": "public"}}),
        ("both mended", {"step": INVERSE, "algorithm": {"gradient_at": "public", "noise_index": "corrected"}}),
    ],
    "dola-minibatch": [
        ("φ times hidden w, as printed", {}),
        ("φ times public b", {"algorithm": {"regularizer_at": "public"}}),
    ],
    "two-stage-gaussian": [
        ("hand-over noised, as (11)", {}),
        ("hand-over clean, as printed in (12)", {"algorithm": {"handover": "clean"}}),
        ("noise by the exact accounting", {"algorithm": {"calibration": "exact"}}),
    ],
}  # fmt: skip
JOINT_VARIANTS: list[tuple[str, Tree]] = [
    ("joint view, T = 1", {"rounds": 2}),  # the first message says nothing of data
    ("joint view", {"rounds": 3}),
    ("joint view, gradient at public point", {"rounds": 3, "algorithm": {"gradient_at": "public"}}),
]
OWN: dict[str, Tree] = {
    "dola-minibatch": {"problem": {"regularizer": 1.0}, "step": {"kind": "strongly-convex", "modulus": 0.5}},
    "huang-dp": {"algorithm": {"first_step": 0.3}},
    "two-stage-gaussian": {"algorithm": {"gradient_rounds": 5}, "rounds": 8, "privacy": {"delta": 1e-3}},
}


def probes(
    section: Tree, seed: int, folder: Path, adjacency: str = "one-sample", feedback: Tree | None = None
) -> list[Probe]:
    """Those of the algorithm that an `algorithm` section names; their data go to a folder.

    Keys of the section whose values are words hold for the probes too. Adjacent data differ in one sample, or, where
    the adjacency is one-agent, in all of an agent's. What agents are told of their losses is as in a section
    `feedback`.

    Raises:
        BadInput: there is no such algorithm.
    """
    section = section if {"name", "path"} & section.keys() else FIRST["algorithm"] | section
    algorithm = registry.chosen(registry.ALGORITHMS, section)
    name = _family(algorithm)
    words = {key: value for key, value in section.items() if isinstance(value, str)}
    made = _probes(algorithm, name, words, seed, folder, adjacency == "one-agent")
    return [probe._replace(asked=merge(probe.asked, {"feedback": feedback or {}})) for probe in made]


def of_view(whole: Experiment) -> Probe:
    """The run itself, in one process: against an adversary who is among its agents."""
    changes: Tree = {"repeats": 1, "report": False, "record": {"transcript": True}}
    viewers = whole.audit.viewers
    who = f"agent {viewers[0]} receives" if len(viewers) == 1 else f"agents {', '.join(map(str, viewers))} receive"
    return Probe(f"what {who}", merge(tomllib.loads(whole.toml()), changes))


def _probes(
    algorithm: AlgorithmClass, name: str, words: Tree, seed: int, folder: Path, of_agents: bool
) -> Iterator[Probe]:
    always: Tree = {
        "report": False, "record": {"transcript": True}, "data": {"name": "file", "shuffle": False, "epochs": 1},
        "seed": seed, "repeats": 1, "name": "probe", "noise": {"key": "probe"},  # whatever the folder
    }  # fmt: skip
    if of_agents:
        always = merge(always, {"privacy": {"adjacency": "one-agent"}})
    kind = _kind(algorithm, folder, of_agents)
    seen: list[Tree] = []
    variants = VARIANTS.get(name, [("", {})] if algorithm.decomposable or name == "dpcda" else JOINT_VARIANTS)
    if words.keys() - {"name", "path"}:  # the user says which
        variants = [("as asked", {k: v for k, v in variants[0][1].items() if k != "algorithm"})]
    for what, keys in variants:
        special = merge(OWN.get(name, {}), keys)
        usual = {key: value for key, value in kind.items() if not (key == "step" and key in special)}
        asked = merge(always, usual, special, {"algorithm": words})
        seen.append(asked)
        yield Probe(what, asked)
    if not algorithm.whole_data:
        agents = _agents(algorithm, PAIR)
        data = {"file": _secrets(algorithm, agents, seed, folder), "columns": _columns(algorithm, agents)}
        last = {"rounds": MANY, "data": data, "topology": {"agents": agents}}
        yield Probe("every sample, one run", merge(seen[0], last), secret=True)


def _family(algorithm: AlgorithmClass) -> str:
    """The name of the algorithm of ours that a class is or extends; empty: none."""
    names = registry.names(registry.ALGORITHMS)
    ours = {registry.find(registry.ALGORITHMS, name): name for name in names}
    return next((ours[base] for base in algorithm.__mro__ if base in ours), "")


def _agents(algorithm: AlgorithmClass, joint: int) -> int:
    """How many, each of one coordinate."""
    return SMALL if algorithm.decomposable else algorithm.only_agents or joint


def _kind(algorithm: AlgorithmClass, folder: Path, of_agents: bool) -> Tree:
    """The experiment that fits a kind of algorithms, on data of its own."""
    graph = {"topology": {"name": "complete", "agents": SMALL}}
    box = "none" if algorithm.unconstrained else "box"
    if algorithm.solves:
        file = _write(folder / "labels.npz", np.ones((2 * SMALL, 1)), np.tile([1.0, -1.0], SMALL))
        data: Tree = {"file": file, "labels": [-1, 1], "columns": 1, "batch": "all", "bound": 1.0}
        problem = {"loss": "logistic", "average": True, "weight": 2.0, "regularizer": 0.15, "set": "none"}
        return {"rounds": FEW, "data": data, "problem": problem} | graph
    if algorithm.whole_data:
        file = _write(folder / "points.npz", np.ones((2 * SMALL, 1)), np.zeros(2 * SMALL))
        data = {"file": file, "targets": "real", "columns": 1, "batch": "all", "bound": 1.0}
        problem = {"loss": "squared-distance", "set": box, "radius": 1.0}
        return {"rounds": FEW, "data": data, "problem": problem} | graph
    agents = _agents(algorithm, JOINT)
    problem = {"loss": "least-squares", "set": box, "radius": 1000.0, "regularizer": 0.0, "gradient_noise": 0.0}
    return {
        "rounds": FEW,
        "topology": {"name": "complete", "agents": agents},
        "data": {
            "file": _first_far(algorithm, agents, folder, of_agents), "columns": _columns(algorithm, agents),
            "targets": "real", "bound": 1.0, "batch": 1,
        },
        "problem": problem,
        "step": {"kind": "inverse-sqrt", "initial": 0.5},
        "privacy": {"clip": 1.0, "scale": "calibrated", "epsilon": 1.0},
    }  # fmt: skip


def _columns(algorithm: AlgorithmClass, agents: int) -> int:
    """How many features a sample has."""
    return 1 if algorithm.decomposable else agents


def _first_far(algorithm: AlgorithmClass, agents: int, folder: Path, of_agents: bool) -> str:
    """The first target of agent 0, or of all, far away, and the others 0; or all targets of agent 0."""
    targets = np.zeros((agents, 2 * FEW))
    targets[0, : 2 * FEW if of_agents else 1] = FAR
    return _targets(algorithm, targets, folder / "first")


def _secrets(algorithm: AlgorithmClass, agents: int, seed: int, folder: Path) -> str:
    """All targets far away, of random signs."""
    rng = np.random.default_rng([seed, 1])
    return _targets(algorithm, FAR * rng.choice([-1.0, 1.0], (agents, MANY)), folder / "secret")


def _targets(algorithm: AlgorithmClass, targets: Vector, path: Path) -> str:
    """A file for each agent's targets, (agents, rounds), with d = 1; of shared losses one, with d = agents."""
    if not algorithm.decomposable:
        return _write(path.with_suffix(".npz"), np.ones(targets.T.shape), targets[0])
    for agent, own in enumerate(targets):
        _write(path.with_name(f"{path.name}-{agent}.npz"), np.ones((len(own), 1)), own)
    return str(path.with_name(path.name + "-{agent}.npz"))


def _write(path: Path, features: Vector, targets: Vector) -> str:
    np.savez(path, features=features, targets=targets)
    return str(path)
