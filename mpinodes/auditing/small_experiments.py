"""The small experiments of audits and checks; of their files, only this one names parts.

The experiments make an algorithm's data as visible as possible, so that its statements are nearly attained: few agents
and coordinates, samples at the edge of their domain, few rounds. `mpinodes check` has recipes for each kind of
algorithm. The games of `mpinodes audit` have one coordinate for each agent. For gradient steps, the first sample of
agent 0 has a target so far away that its gradient is clipped. With the target's sign flipped it is clipped too, so the
change moves the gradient as far as it can. All other targets are 0, where gradients follow the point at which they are
taken, so that hidden state becomes visible.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import numpy as np

from mpinodes.config import registry
from mpinodes.core import Setup, Vector
from mpinodes.core.asked import Tree, merge
from mpinodes.core.errors import BadInput

FAR = 100.0  # a target whose gradient is clipped
GRAPHS = ("complete", "ring", "random-digraph", "random-digraph-each-round", "erdos-renyi-each-round")
OF_MIXINGS = (*GRAPHS, "eulerian")
AGENTS, MANY = 3, 6
ROUNDS, LONG = 24, 160
BRIEF = 5  # value of a hyper-parameter that counts rounds
FEW, SECRETS = 6, 160  # rounds of the game on two data sets, and of the game on one run
JOINT, PAIR = 10, 2  # agents of each game if they share one loss
SHORT, LARGEST, BATCH = 8, 2_000_000, 3  # `own_sizes`: rounds, most features, and the other batch
# Recipes that need more agents than the others.
CROWDS: dict[str, Tree] = {
    "batches": {"topology": {"agents": MANY}},
    "loud noise, many neighbors": {"topology": {"name": "complete", "agents": MANY}},
}


def write(folder: Path, name: str, features: Any, targets: Any) -> str:
    """Write a file of samples, and return its path."""
    path = folder / f"{name}.npz"
    np.savez(path, features=features, targets=targets)
    return str(path)


def experiments(algorithm: Any, path: str, folder: Path, seed: int) -> Iterator[tuple[str, Tree]]:
    """Yield experiments for an algorithm of a file, each with a label; not all of them will fit the algorithm."""
    always: Tree = {
        "report": False, "record": {"transcript": True}, "seed": seed, "repeats": 1, "name": "check",
        "algorithm": {"path": path}, "privacy": {"mechanism": algorithm.mechanism, "delta": 1e-3},
        "noise": {"key": "check"},  # else noise would depend on the temporary folder
    }  # fmt: skip
    always = merge(always, {"algorithm": brief(algorithm)})
    if algorithm.solves:
        bases = list(solved(folder, seed))
    elif algorithm.whole_data:
        bases = list(whole_data(algorithm, folder, seed))
    else:
        bases = list(streamed(algorithm, folder, seed))
    for label, tree in bases:
        yield label, merge(always, tree)
    first = merge(always, bases[0][1])
    again = merge(always, bases[min(3, len(bases) - 1)][1])
    for key, value in variants(algorithm):
        yield f"{key}={value}", merge(first, {"algorithm": {key: value}})
        if isinstance(value, (str, bool)):
            yield f"{key}={value}, {bases[min(3, len(bases) - 1)][0]}", merge(again, {"algorithm": {key: value}})
    for mixing in algorithm.mixings[1:]:
        name = mixing if isinstance(mixing, str) else mixing.__name__
        yield f"mixing={name}", merge(first, {"algorithm": {"mixing": name}})
    if algorithm.bears_loss:
        yield "messages lost", merge(first, {"faults": {"loss": 0.3, "churn": 0.2, "absence": 2}})
    if algorithm.bears_delay:
        yield "messages late", merge(first, {"faults": {"delay": 2, "stragglers": 0.3, "lag": 2}})


def brief(algorithm: Any) -> Tree:
    """Return hyper-parameters that count something, usually rounds, reduced for short runs."""
    known = registry.keys(registry.ALGORITHMS, algorithm)
    counts = {f.name: f.default for f in fields(algorithm) if f.name in known and type(f.default) is int}
    return {name: BRIEF for name, default in counts.items() if default > 2 * BRIEF}


def variants(algorithm: Any) -> Iterator[tuple[str, Any]]:
    """Yield other values of hyper-parameters, one at a time."""
    defaults = {f.name: f.default for f in fields(algorithm)} | brief(algorithm)
    for key, (kind, _) in registry.keys(registry.ALGORITHMS, algorithm).items():
        while get_origin(kind) is Annotated:
            kind = get_args(kind)[0]
        default = defaults[key]
        choices: list[Any] = []
        if get_origin(kind) is Literal:
            choices = [choice for choice in get_args(kind) if choice != default]
        elif kind is bool:
            choices = [not default]
        elif isinstance(default, (int, float)) and not isinstance(default, bool):
            choices = [default + 1, default // 2] if isinstance(default, int) else [default * 2, default / 2]
            choices = choices if default else [1, 3] if isinstance(default, int) else [0.1, 1.0]
        yield from ((key, choice) for choice in choices)


def graphs(algorithm: Any) -> Iterator[Tree]:
    """Yield topologies in turn, without end; `others` gives alternatives to a topology that does not fit."""
    agents = algorithm.only_agents or AGENTS
    for name in itertools.cycle(GRAPHS):
        yield {"topology": {"name": name, "agents": agents + (name == "ring" and not algorithm.only_agents)}}


def others(tree: Tree) -> Iterator[Tree]:
    """Yield the same experiment on each other graph."""
    for name in GRAPHS:
        if name != tree["topology"]["name"]:
            yield merge(tree, {"topology": {"name": name}})


def streamed(algorithm: Any, folder: Path, seed: int) -> Iterator[tuple[str, Tree]]:
    """Yield experiments for algorithms of gradient steps on a stream."""
    rng = np.random.default_rng([seed, 7])
    n = algorithm.only_agents or AGENTS
    d = 1 if algorithm.decomposable else max(n, 2)
    rows = LONG * (n + 1) * 2
    edge = rng.choice([-1.0, 1.0], (rows, d))
    mixed = np.where(rng.random(rows) < 0.4, FAR * rng.choice([-1.0, 1.0], rows), rng.normal(size=rows))
    distant = FAR * rng.choice([-1.0, 1.0], rows)
    quiet = np.where(rng.random(rows) < 0.05, FAR, 0.0)
    wide = 4 if algorithm.decomposable else 2 * max(n, 3)
    corners = rng.choice([-1.0, 1.0], (rows, wide))
    inner = np.where(rng.random((rows, 1)) < 0.5, corners, rng.uniform(-1, 1, (rows, wide)))
    labels = rng.choice([-1.0, 1.0], rows)
    samples = {"far": (edge, mixed), "distant": (edge, distant), "quiet": (edge, quiet), "labels": (inner, labels)}
    samples["wide"] = inner, distant
    fixed = {"name": "file", "bound": 1.0, "shuffle": False, "batch": 1}
    data = {
        name: {"data": fixed | {"file": write(folder, name, *of), "targets": "labels" if name == "labels" else "real"}}
        for name, of in samples.items()
    }
    small = edge[: 8 * (n + 1)], mixed[: 8 * (n + 1)]
    data["few"] = merge(data["far"], {"data": {"file": write(folder, "few", *small), "epochs": 4}})
    loose = {"set": "none"} if algorithm.unconstrained else {"set": "box", "radius": 1000.0}
    tight = {"set": "none"} if algorithm.unconstrained else {"set": "ball", "radius": 1.5}
    real = {"problem": {"loss": "least-squares", "regularizer": 0.0, "gradient_noise": 0.0, **loose}}

    def step(kind: str, value: float) -> Tree:
        key = "value" if kind == "constant" else "initial"
        return {"step": {"kind": kind, key: value}} if algorithm.takes_steps else {}

    def noise(epsilon: float, clip: float = 1.0, **other: Any) -> Tree:
        return {"privacy": {"epsilon": epsilon, "clip": clip, "scale": "calibrated", **other}}

    log = {"problem": {"loss": "logistic", "regularizer": 0.2, "gradient_noise": 0.0, **tight}}
    steep = {"problem": {"regularizer": 0.5}}
    recipes: list[tuple[str, list[Any]]] = [
        ("far targets", [data["far"], real, step("inverse-sqrt", 0.5), noise(1.0), {"rounds": ROUNDS}]),
        ("hidden point", [data["quiet"], real, step("constant", 0.45), noise(500.0), {"rounds": 40}]),
        ("labels, regularizer", [data["labels"], log, step("inverse-sqrt", 1.0), noise(0.2, 0.5), {"rounds": ROUNDS}]),
        ("regularizer at a hidden point",
         [data["quiet"], merge(real, steep), step("constant", 0.3), noise(500.0), {"rounds": 40}]),
        ("large steps", [data["wide"], merge(real, {"problem": tight}), step("inverse-sqrt", 30.0), noise(20.0, 5.0),
                         {"rounds": 12, "data": {"batch": 2}, "problem": {"weight": 3.0}}]),
        ("batches", [data["wide"], real, step("inverse", 1.0), noise(5.0, 2.0), {"rounds": 16}, {"data": {"batch": 3},
                     "problem": {"average": True, "weight": 2.0, "gradient_noise": 0.01}}]),
        ("loud noise, many neighbors", [data["labels"], log, step("inverse-sqrt", 1.0), noise(0.005), {"rounds": 12}]),
        ("samples used again", [data["few"], real, step("inverse-sqrt", 0.3), noise(10.0), {"rounds": ROUNDS}]),
        ("whole rounds", [data["far"], real, step("inverse-sqrt", 0.5), noise(1.0, 1.0, adjacency="one-round"),
                          {"rounds": 12, "data": {"batch": 2}}]),
        ("long", [data["distant"], merge(real, {"problem": {"regularizer": 0.1}}), step("inverse-sqrt", 0.3),
                  noise(50.0), {"rounds": LONG}]),
        ("long, hidden point", [data["quiet"], real, step("constant", 0.2), noise(1000.0), {"rounds": LONG}]),
    ]  # fmt: skip
    if algorithm.decomposable:
        recipes.append(
            ("all samples of an agent", [data["quiet"], real, step("inverse-sqrt", 0.5),
             noise(1.0, 1.0), one_agent(), {"rounds": 12, "data": {"batch": 2}}]),
        )  # fmt: skip
    for (label, trees), graph in zip(recipes, graphs(algorithm), strict=False):
        crowd = CROWDS.get(label, {}) if not algorithm.only_agents else {}
        yield label, merge({}, *trees, graph, crowd)


def one_agent(**privacy: Any) -> Tree:
    """Return settings by which adjacent data sets differ in all samples of one agent."""
    return {"privacy": {"adjacency": "one-agent", **privacy}}


def whole_data(algorithm: Any, folder: Path, seed: int) -> Iterator[tuple[str, Tree]]:
    """Yield experiments for algorithms that use all samples in every round."""
    rng = np.random.default_rng([seed, 8])
    n = algorithm.only_agents or AGENTS
    points = write(folder, "points", rng.choice([-1.0, 1.0], (4 * n + 4, 1)), np.zeros(4 * n + 4))
    labels = write(folder, "whole-labels", rng.uniform(-1, 1, (4 * n + 4, 3)), rng.choice([-1.0, 1.0], 4 * n + 4))
    few = {"data": {"name": "file", "file": points, "targets": "real", "batch": "all", "bound": 1.0}}
    own = {"data": {"name": "file", "file": labels, "targets": "labels", "batch": "all", "bound": 1.0}}
    box = {"set": "none"} if algorithm.unconstrained else {"set": "box", "radius": 1.0}
    distance = {"problem": {"loss": "squared-distance", **box}}
    logistic = {"problem": {"loss": "logistic", "regularizer": 0.3, "average": True, **box}}
    recipes: list[tuple[str, list[Any]]] = [
        ("points", [few, distance, {"rounds": 12}]),
        ("labels", [own, logistic, {"rounds": 12, "privacy": {"clip": 1.0}}]),
        ("weighted", [few, distance, {"rounds": 30, "problem": {"weight": 0.5}, "privacy": {"epsilon": 0.3}}]),
        ("long", [few, distance, {"rounds": 60, "privacy": {"epsilon": 3.0}}]),
        ("points, no set", [few, {"problem": {"loss": "squared-distance", "set": "none"}}, {"rounds": 12}]),
        ("changing", [own, logistic, {"rounds": 16, "privacy": {"epsilon": 5.0, "clip": 0.5}}]),
    ]
    if algorithm.decomposable:
        recipes.append(("all samples of an agent", [own, logistic, {"rounds": 12}, one_agent(clip=1.0)]))
    for (label, trees), graph in zip(recipes, graphs(algorithm), strict=False):
        yield label, merge({}, *trees, graph)
        yield f"{label}, complete graph", merge({}, *trees, next(graphs(algorithm)))


def solved(folder: Path, seed: int) -> Iterator[tuple[str, Tree]]:
    """Yield experiments for algorithms of local minimizations."""
    rng = np.random.default_rng([seed, 9])
    single = write(folder, "one", np.ones((2 * AGENTS, 1)), np.tile([1.0, -1.0], AGENTS))
    many = write(folder, "many", rng.uniform(-1, 1, (20, 3)), rng.choice([-1.0, 1.0], 20))

    def of(file: str, rounds: int, graph: str, **problem: Any) -> Tree:
        return {
            "rounds": rounds,
            "data": {"name": "file", "file": file, "targets": "labels", "batch": "all", "bound": 1.0},
            "problem": {"loss": "logistic", "average": True, "set": "none", "weight": 2.0, "regularizer": 0.15}
            | problem,
            "topology": {"name": graph, "agents": 4 if graph == "ring" else AGENTS},
            "privacy": {"clip": "inf"},
        }

    yield "one coordinate", of(single, 6, "complete")
    yield "three coordinates", of(many, 8, "ring", regularizer=0.5)
    yield "a sum of losses", of(many, 6, "complete", average=False, weight=0.3)
    yield "long", of(single, 25, "complete", regularizer=0.3)
    yield "all samples of an agent", merge(of(many, 6, "complete"), one_agent())


def of_kind(algorithm: Any, seed: int, folder: Path, of_agents: bool) -> Tree:
    """Return the experiment of the games that fits the kind of an algorithm, on its own data files.

    Args:
        algorithm: the class.
        seed: of the experiment.
        folder: where the data are written.
        of_agents: whether adjacent data sets differ in all samples of agent 0, instead of one sample.
    """
    always: Tree = {
        "report": False, "record": {"transcript": True}, "rounds": FEW, "seed": seed, "repeats": 1, "name": "probe",
        "noise": {"key": "probe"},  # else noise would depend on the temporary folder
        "data": {"name": "file", "shuffle": False, "epochs": 1, "bound": 1.0},
        "topology": {"name": "complete", "agents": AGENTS},
    }  # fmt: skip
    if of_agents:
        always["privacy"] = {"adjacency": "one-agent"}
    box = "none" if algorithm.unconstrained else "box"
    if algorithm.solves:
        file = write(folder, "labels", np.ones((2 * AGENTS, 1)), np.tile([1.0, -1.0], AGENTS))
        data: Tree = {"file": file, "labels": [-1, 1], "columns": 1, "batch": "all"}
        problem = {"loss": "logistic", "average": True, "weight": 2.0, "regularizer": 0.15, "set": "none"}
        return merge(always, {"data": data, "problem": problem})
    if algorithm.whole_data:
        file = write(folder, "points", np.ones((2 * AGENTS, 1)), np.zeros(2 * AGENTS))
        data = {"file": file, "targets": "real", "columns": 1, "batch": "all"}
        return merge(always, {"data": data, "problem": {"loss": "squared-distance", "set": box, "radius": 1.0}})
    targets = np.zeros((_agents(algorithm, JOINT), 2 * FEW))
    targets[0, : 2 * FEW if of_agents else 1] = FAR
    problem = {"loss": "least-squares", "set": box, "radius": 1000.0, "regularizer": 0.0, "gradient_noise": 0.0}
    return merge(always, _of_targets(algorithm, targets, folder / "first"), {
        "data": {"targets": "real", "batch": 1}, "problem": problem, "step": {"kind": "inverse-sqrt", "initial": 0.5},
        "privacy": {"clip": 1.0, "scale": "calibrated", "epsilon": 1.0},
    })  # fmt: skip


def secrets(algorithm: Any, seed: int, folder: Path) -> Tree:
    """Return changes to the experiment of `of_kind` that make every sample's sign an independent secret."""
    rng = np.random.default_rng([seed, 1])
    targets = FAR * rng.choice([-1.0, 1.0], (_agents(algorithm, PAIR), SECRETS))
    return merge({"rounds": SECRETS}, _of_targets(algorithm, targets, folder / "secret"))


def _agents(algorithm: Any, joint: int) -> int:
    """Return the number of agents of a game; each has one coordinate."""
    return AGENTS if algorithm.decomposable else algorithm.only_agents or joint


def _of_targets(algorithm: Any, targets: Vector, path: Path) -> Tree:
    """Write targets, (agents, rounds), as data files, and return the section that uses them.

    Decomposable losses have a file with d = 1 for each agent; a shared loss has one file.
    """
    agents = len(targets)
    if algorithm.decomposable:
        for agent, own in enumerate(targets):
            write(path.parent, f"{path.name}-{agent}", np.ones((len(own), 1)), own)
        data: Tree = {"file": str(path.with_name(path.name + "-{agent}.npz")), "columns": 1}
    else:
        data = {"file": write(path.parent, path.name, np.ones(targets.T.shape), targets[0]), "columns": agents}
    return {"data": data, "topology": {"agents": agents}}


def own_sizes(own: Setup, folder: Path, seed: int) -> Iterator[tuple[str, Tree]]:
    """Yield the run itself on other data, and with other batches, summed and averaged.

    The features are corners of the cube; about every other one is (1, ..., 1), along which the L1 norm is largest.
    Targets are far away, or labels.

    Raises:
        BadInput: the data would be too large.
    """
    e, n, classes = own.experiment, own.topology.agents, own.stream.classes
    rounds = min(e.rounds, max(SHORT, own.algorithm.fewest_rounds + 2))
    tree: Tree = tomllib.loads(e.toml())
    tree["privacy"].pop("budget", None)
    partition, batch = tree.pop("data")["partition"], e.data.get("batch", 1)
    changes: Tree = {"report": False, "repeats": 1, "record": {"transcript": True, "metrics": []}, "rounds": rounds}
    tree = merge(tree, changes, {} if e.secret else {"noise": {"key": "probe"}})

    def data(batch: Any) -> Tree:
        rng = np.random.default_rng([seed, 11])
        d = own.dimension // (classes or 1)
        rows = (1 if partition == "shared" else n) * (max(own.samples) if batch == "all" else rounds * batch)
        if rows * d > LARGEST:
            raise BadInput(
                f"{rows} samples of {d} features are more than an audit tries; use fewer agents or smaller batches"
            )
        features = rng.choice([-1.0, 1.0], (rows, d))
        features[rng.random(rows) < 0.5] = 1.0
        targets = rng.permutation(np.resize([-1.0, 1.0], rows))
        if not own.loss.needs_labels:
            targets = rng.integers(classes, size=rows) if classes else FAR * targets
        return {"data": {
            "name": "file", "file": write(folder, f"own-{batch}", features, targets), "bound": 1.0, "shuffle": False,
            "targets": "labels" if own.loss.needs_labels else "classes" if classes else "real",
            "labels": list(range(classes)), "batch": batch, "partition": partition,
        }}  # fmt: skip

    yield "its own sizes", merge(tree, data(batch))
    if own.algorithm.solves:  # sums of so many losses would be badly conditioned
        return
    if batch == "all":
        flipped = {"problem": {"average": not e.problem.average}}
        yield "its own sizes, sums or averages", merge(tree, flipped, data(batch))
        return
    other = BATCH if batch != BATCH else BATCH + 1
    for average in (False, True):
        words = f"its own sizes, {'averages' if average else 'sums'} of {other} samples"
        yield words, merge(tree, {"problem": {"average": average}}, data(other))


def of_streams(path: str, stream: Any, folder: Path, seed: int) -> Iterator[tuple[str, Tree]]:
    """Yield experiments on the stream of a file: with a loss for each agent, and with one shared loss."""
    rng = np.random.default_rng(seed)
    samples = write(folder, "samples", rng.uniform(-1, 1, (120, 3)), rng.choice([-1.0, 1.0], 120))
    problem = dict(stream.defaults.get("problem", {"loss": "least-squares", "set": "ball", "radius": 10.0}))
    data = {"path": path} | ({"file": samples} if "file" in stream.__dataclass_fields__ else {})
    for name in ("dola", "dpsda-ps"):
        yield name, {
            "algorithm": {"name": name}, "rounds": 12, "seed": seed, "data": data,
            "topology": {"name": "complete", "agents": 3}, "privacy": {"clip": 1.0},
            "problem": {"regularizer": 0.1, **problem},
        }  # fmt: skip


def of_metrics(seed: int) -> Iterator[tuple[str, Tree]]:
    """Yield an online and an offline experiment."""
    for name, data in (("dola", "unit-ball"), ("huang-dp", "mean")):
        yield name, {
            "algorithm": {"name": name}, "rounds": 40, "seed": seed, "report": False, "data": {"name": data},
            "topology": {"name": "ring", "agents": 4}, "record": {"decisions": True},
        }  # fmt: skip
