"""Make the small experiments of audits and checks.

In these experiments, a changed sample moves messages as far as possible, so that the sensitivities that an algorithm
states are nearly attained. Most experiments have few agents, few coordinates and few rounds, and samples at the edge of
their domain.

- `mpinodes check` has a list of experiments for each kind of algorithm: gradient steps on a stream (`streamed`), all
  samples in every round (`whole_data`), and local minimizations (`solved`).
- `mpinodes audit` has *probes*: experiments on which it plays a game, in which an adversary guesses private data.

In the game on two adjacent data sets, algorithms that take gradient steps on a stream of samples get these samples,
except in two further probes of noised gradients:

- The first sample of agent 0 has a very large target, so that its gradient is clipped. A flip of the target's sign
  moves the clipped gradient by the largest possible distance. With one-agent adjacency, all samples of agent 0 have
  such targets.
- All other samples have the target 0. Their gradients depend on the point at which they are taken, so that a change of
  the hidden state changes later messages.

Only this file of `mpinodes.auditing` names built-in losses, graphs or other parts of an experiment.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

import numpy as np

from mpinodes.config import registry
from mpinodes.config.defaults import FIRST
from mpinodes.core import Setup, Vector
from mpinodes.core.asked import Tree, merge
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import Experiment

FAR = 100.0  # a target so far away that its gradient is clipped
RECORDED: Tree = {"repeats": 1, "report": False, "record": {"transcript": True}}
ONE_AGENT: Tree = {"privacy": {"adjacency": "one-agent"}}  # two adjacent data sets differ in all samples of one agent
GRAPHS = ("complete", "ring", "random-digraph", "random-digraph-each-round", "erdos-renyi-each-round")
OF_MIXINGS = (*GRAPHS, "eulerian")
AGENTS, MANY = 3, 6
ROUNDS, LONG = 24, 160
BRIEF = 5  # value of hyper-parameters that count rounds
FEW, SECRETS = 6, 160  # number of rounds: of the game on two data sets; of the game on one run
JOINT, PAIR = 10, 2  # number of agents if all share one loss: in the game on two data sets; in the game on one run
PRICED = 10  # number of rounds of the two games on noised gradients, which are clipped in every round
SHORT, LARGEST, BATCH = 8, 2_000_000, 3  # of `own_sizes`: rounds, largest number of features, size of other batches


class Probe(NamedTuple):
    """Hold one experiment on which the audit plays a game. The result of the game becomes one row of the table.

    Attributes:
        what: the label of the row.
        asked: the settings of the experiment.
        secret: true if the adversary guesses the sign of every sample's target from one run; false if the adversary
            tells two adjacent data sets apart over many runs.
    """

    what: str
    asked: Tree
    secret: bool = False


def write(folder: Path, name: str, features: Any, targets: Any) -> str:
    """Write a file of samples, FOLDER/NAME.npz, and return its path."""
    path = folder / f"{name}.npz"
    np.savez(path, features=features, targets=targets)
    return str(path)


def experiments(algorithm: Any, path: str, folder: Path, seed: int) -> Iterator[tuple[str, Tree]]:
    """Yield labels and experiments for testing an algorithm, which may be unable to run on some of them.

    Args:
        algorithm: the class of the algorithm.
        path: the file that defines the class.
        folder: where the data files are written.
        seed: the seed of the experiments.
    """
    always: Tree = RECORDED | {
        "seed": seed, "name": "check", "noise": {"key": "check"},  # without a key, noise depends on the folder's name
        "algorithm": {"path": path, **brief(algorithm)},
        "privacy": {"mechanism": algorithm.mechanism, "delta": 1e-3},
    }  # fmt: skip
    make = solved if algorithm.solves else whole_data if algorithm.whole_data else streamed
    bases = list(make(algorithm, folder, seed))
    for label, tree in bases:
        yield label, merge(always, tree)
    (_, first), (again_label, again) = bases[0], bases[min(3, len(bases) - 1)]
    for key, value in variants(algorithm):
        yield f"{key}={value}", merge(always, first, {"algorithm": {key: value}})
        if isinstance(value, (str, bool)):
            yield f"{key}={value}, {again_label}", merge(always, again, {"algorithm": {key: value}})
    for mixing in algorithm.mixings[1:]:
        name = mixing if isinstance(mixing, str) else mixing.__name__
        yield f"mixing={name}", merge(always, first, {"algorithm": {"mixing": name}})
    if algorithm.bears_loss:
        yield "messages lost", merge(always, first, {"faults": {"loss": 0.3, "churn": 0.2, "absence": 2}})
    if algorithm.bears_delay:
        yield "messages late", merge(always, first, {"faults": {"delay": 2, "stragglers": 0.3, "lag": 2}})


def brief(algorithm: Any) -> Tree:
    """Return smaller values for the large integer hyper-parameters of an algorithm, so that runs are short.

    Integer hyper-parameters usually count rounds. A hyper-parameter whose default is above 2 * `BRIEF` gets the value
    `BRIEF`.
    """
    known = registry.keys(registry.ALGORITHMS, algorithm)
    counts = {f.name: f.default for f in fields(algorithm) if f.name in known and type(f.default) is int}
    return {name: BRIEF for name, default in counts.items() if default > 2 * BRIEF}


def variants(algorithm: Any) -> Iterator[tuple[str, Any]]:
    """Yield pairs: the name of a hyper-parameter of an algorithm, and a value that is not its default.

    The varied hyper-parameters are truth values, integers, floats, and strings with a fixed list of choices. If `brief`
    makes an integer smaller, the smaller value counts as its default.
    """
    defaults = {f.name: f.default for f in fields(algorithm)} | brief(algorithm)
    for key, (kind, _) in registry.keys(registry.ALGORITHMS, algorithm).items():
        while get_origin(kind) is Annotated:
            kind = get_args(kind)[0]
        default, choices = defaults[key], list[Any]()
        if get_origin(kind) is Literal:
            choices = [choice for choice in get_args(kind) if choice != default]
        elif isinstance(default, bool):
            choices = [not default]
        elif isinstance(default, int):
            choices = [default + 1, default // 2] if default else [1, 3]
        elif isinstance(default, float):
            choices = [default * 2, default / 2] if default else [0.1, 1.0]
        yield from ((key, choice) for choice in choices)


def graphs(algorithm: Any) -> Iterator[Tree]:
    """Yield a section `topology` for each graph of the list `GRAPHS`, again and again without end."""
    agents = algorithm.only_agents or AGENTS
    for name in itertools.cycle(GRAPHS):
        yield {"topology": {"name": name, "agents": agents + (name == "ring" and not algorithm.only_agents)}}


def others(tree: Tree) -> Iterator[Tree]:
    """Yield the same experiment on each graph of the list `GRAPHS`, except on the graph of the experiment itself."""
    for name in GRAPHS:
        if name != tree["topology"]["name"]:
            yield merge(tree, {"topology": {"name": name}})


def streamed(algorithm: Any, folder: Path, seed: int) -> Iterator[tuple[str, Tree]]:
    """Yield labels and experiments for algorithms that take gradient steps on a stream of samples.

    Args:
        algorithm: the class of the algorithm.
        folder: where the data files are written.
        seed: the seed of the data.
    """
    rng = np.random.default_rng([seed, 7])
    n = algorithm.only_agents or AGENTS
    d, wide = (1, 4) if algorithm.decomposable else (max(n, 2), 2 * max(n, 3))
    rows = LONG * (n + 1) * 2
    edge = rng.choice([-1.0, 1.0], (rows, d))
    mixed = np.where(rng.random(rows) < 0.4, FAR * rng.choice([-1.0, 1.0], rows), rng.normal(size=rows))
    distant = FAR * rng.choice([-1.0, 1.0], rows)
    quiet = np.where(rng.random(rows) < 0.05, FAR, 0.0)
    corners = rng.choice([-1.0, 1.0], (rows, wide))
    inner = np.where(rng.random((rows, 1)) < 0.5, corners, rng.uniform(-1, 1, (rows, wide)))
    few, labels = 8 * (n + 1), rng.choice([-1.0, 1.0], rows)
    samples = {"far": (edge, mixed), "distant": (edge, distant), "quiet": (edge, quiet), "labels": (inner, labels)}
    samples |= {"wide": (inner, distant), "few": (edge[:few], mixed[:few])}
    files = {name: write(folder, name, *arrays) for name, arrays in samples.items()}
    box, ball = {"set": "box", "radius": 1000.0}, {"problem": {"set": "ball", "radius": 1.5}}
    if algorithm.unconstrained:
        box, ball = {"set": "none"}, {}

    fixed: Tree = {
        "data": {"name": "file", "targets": "real", "bound": 1.0, "shuffle": False, "batch": 1},
        "problem": {"loss": "least-squares", "regularizer": 0.0, "gradient_noise": 0.0, **box},
        "privacy": {"clip": 1.0, "scale": "calibrated"},
    }

    logistic = merge(ball, {"data": {"targets": "labels"}, "problem": {"loss": "logistic", "regularizer": 0.2}})
    pairs: Tree = {"data": {"batch": 2}}
    crowd: Tree = {"topology": {"agents": algorithm.only_agents or MANY}}
    steep: Tree = {"problem": {"weight": 3.0}, "privacy": {"clip": 5.0}}
    averages: Tree = {"problem": {"average": True, "weight": 2.0, "gradient_noise": 0.01}, "privacy": {"clip": 2.0}}
    # The label, the rounds, the data file, the kind and first size of steps, epsilon, and further settings.
    recipes: list[tuple[Any, ...]] = [
        ("far targets", ROUNDS, "far", "inverse-sqrt", 0.5, 1.0),
        ("hidden point", 40, "quiet", "constant", 0.45, 500.0),
        ("labels, regularizer", ROUNDS, "labels", "inverse-sqrt", 1.0, 0.2, logistic, {"privacy": {"clip": 0.5}}),
        ("regularizer at a hidden point", 40, "quiet", "constant", 0.3, 500.0, {"problem": {"regularizer": 0.5}}),
        ("large steps", 12, "wide", "inverse-sqrt", 30.0, 20.0, ball, pairs, steep),
        ("batches", 16, "wide", "inverse", 1.0, 5.0, averages, {"data": {"batch": 3}}, crowd),
        ("loud noise", 12, "labels", "inverse-sqrt", 1.0, 0.005, logistic, crowd, {"topology": {"name": "complete"}}),
        ("samples used again", ROUNDS, "few", "inverse-sqrt", 0.3, 10.0, {"data": {"epochs": 4}}),
        ("whole rounds", 12, "far", "inverse-sqrt", 0.5, 1.0, pairs, {"privacy": {"adjacency": "one-round"}}),
        ("long", LONG, "distant", "inverse-sqrt", 0.3, 50.0, {"problem": {"regularizer": 0.1}}),
        ("long, hidden point", LONG, "quiet", "constant", 0.2, 1000.0),
    ]
    if algorithm.decomposable:
        recipes.append(("all samples of an agent", 12, "quiet", "inverse-sqrt", 0.5, 1.0, pairs, ONE_AGENT))
    for (label, rounds, data, kind, step, epsilon, *more), graph in zip(recipes, graphs(algorithm), strict=False):
        steps = {"step": {"kind": kind, "value" if kind == "constant" else "initial": step}}
        own = {"rounds": rounds, "data": {"file": files[data]}, "privacy": {"epsilon": epsilon}}
        yield label, merge(graph, fixed, own, steps if algorithm.takes_steps else {}, *more)


def whole_data(algorithm: Any, folder: Path, seed: int) -> Iterator[tuple[str, Tree]]:
    """Yield labels and experiments for algorithms that use all samples in every round.

    Args:
        algorithm: the class of the algorithm.
        folder: where the data files are written.
        seed: the seed of the data.
    """
    rng = np.random.default_rng([seed, 8])
    rows = 4 * (algorithm.only_agents or AGENTS) + 4
    points = write(folder, "points", rng.choice([-1.0, 1.0], (rows, 1)), np.zeros(rows))
    labels = write(folder, "whole-labels", rng.uniform(-1, 1, (rows, 3)), rng.choice([-1.0, 1.0], rows))
    box = {"set": "none"} if algorithm.unconstrained else {"set": "box", "radius": 1.0}
    always: Tree = {"data": {"name": "file", "batch": "all", "bound": 1.0}, "problem": box}
    few = merge(always, {"data": {"file": points, "targets": "real"}, "problem": {"loss": "squared-distance"}})
    logistic = {"loss": "logistic", "regularizer": 0.3, "average": True}
    own = merge(always, {"data": {"file": labels, "targets": "labels"}, "problem": logistic})
    recipes: list[tuple[str, Tree, Tree]] = [
        ("points", few, {"rounds": 12}),
        ("labels", own, {"rounds": 12, "privacy": {"clip": 1.0}}),
        ("weighted", few, {"rounds": 30, "problem": {"weight": 0.5}, "privacy": {"epsilon": 0.3}}),
        ("long", few, {"rounds": 60, "privacy": {"epsilon": 3.0}}),
        ("points, no set", few, {"rounds": 12, "problem": {"set": "none"}}),
        ("changing", own, {"rounds": 16, "privacy": {"epsilon": 5.0, "clip": 0.5}}),
    ]
    if algorithm.decomposable:
        recipes.append(("all samples of an agent", own, merge({"rounds": 12, "privacy": {"clip": 1.0}}, ONE_AGENT)))
    for (label, tree, changes), graph in zip(recipes, graphs(algorithm), strict=False):
        yield label, merge(graph, tree, changes)
        yield f"{label}, complete graph", merge(next(graphs(algorithm)), tree, changes)


def solved(algorithm: Any, folder: Path, seed: int) -> Iterator[tuple[str, Tree]]:
    """Yield labels and experiments for algorithms that solve local minimizations.

    Args:
        algorithm: the class of the algorithm.
        folder: where the data files are written.
        seed: the seed of the data.
    """
    rng = np.random.default_rng([seed, 9])
    single = write(folder, "one", np.ones((2 * AGENTS, 1)), np.tile([1.0, -1.0], AGENTS))
    many = write(folder, "many", rng.uniform(-1, 1, (20, 3)), rng.choice([-1.0, 1.0], 20))
    always: Tree = {
        "data": {"name": "file", "targets": "labels", "batch": "all", "bound": 1.0}, "privacy": {"clip": "inf"},
        "problem": {"loss": "logistic", "average": True, "set": "none", "weight": 2.0, "regularizer": 0.15},
        "topology": {"name": "complete", "agents": AGENTS},
    }  # fmt: skip
    recipes: list[tuple[str, str, int, Tree]] = [
        ("one coordinate", single, FEW, {}),
        ("three coordinates", many, 8, {"topology": {"name": "ring", "agents": 4}, "problem": {"regularizer": 0.5}}),
        ("a sum of losses", many, 6, {"problem": {"average": False, "weight": 0.3}}),
        ("long", single, 25, {"problem": {"regularizer": 0.3}}),
        ("all samples of an agent", many, 6, ONE_AGENT),
    ]
    for label, file, rounds, changes in recipes:
        yield label, merge(always, {"data": {"file": file}, "rounds": rounds}, changes)


def of_kind(algorithm: Any, seed: int, folder: Path, of_agents: bool) -> Tree:
    """Return the small experiment from which the games of an audit are made, and write its data files.

    Args:
        algorithm: the class of the algorithm.
        seed: the seed of the experiment.
        folder: where the data files are written.
        of_agents: whether adjacent data sets differ in all samples of one agent, instead of one sample.
    """
    always: Tree = RECORDED | {
        "rounds": FEW, "seed": seed, "name": "probe",
        "noise": {"key": "probe"},  # without a key, noise depends on the temporary folder
        "data": {"name": "file", "shuffle": False, "epochs": 1, "bound": 1.0},
        "topology": {"name": "complete", "agents": AGENTS},
    }  # fmt: skip
    always = merge(always, ONE_AGENT if of_agents else {})
    if algorithm.solves:
        stated = {"data": {"labels": [-1, 1], "columns": 1}}  # if they were read from the data, no ε would be proven
        return merge(always, next(solved(algorithm, folder, seed))[1], stated)
    box = {"set": "none" if algorithm.unconstrained else "box"}
    if algorithm.whole_data:
        file = write(folder, "points", np.ones((2 * AGENTS, 1)), np.zeros(2 * AGENTS))
        data = {"file": file, "targets": "real", "columns": 1, "batch": "all"}
        return merge(always, {"data": data, "problem": {"loss": "squared-distance", "radius": 1.0, **box}})
    targets = np.zeros((_agents(algorithm, JOINT), 2 * FEW))
    targets[0, : 2 * FEW if of_agents else 1] = FAR
    problem = {"loss": "least-squares", "radius": 1000.0, "regularizer": 0.0, "gradient_noise": 0.0, **box}
    return merge(always, _of_targets(algorithm, targets, folder / "first"), {
        "data": {"targets": "real", "batch": 1}, "problem": problem, "step": {"kind": "inverse-sqrt", "initial": 0.5},
        "privacy": {"clip": 1.0, "scale": "calibrated", "epsilon": 1.0},
    })  # fmt: skip


def _agents(algorithm: Any, joint: int) -> int:
    """Return the number of agents of an experiment for the audit's games.

    - If every agent has its own loss function: `AGENTS`.
    - If the agents share one loss function: the number that the algorithm prescribes; `joint` if it prescribes none.
    """
    return AGENTS if algorithm.decomposable else algorithm.only_agents or joint


def _of_targets(algorithm: Any, targets: Vector, path: Path) -> Tree:
    """Write targets to data files, and return the sections `data` and `topology` that use these files.

    - If every agent has its own loss function: every agent gets a file whose samples have one feature.
    - If all agents share one loss function: there is one file, with the targets of the first row. Its samples have a
      feature for each agent.

    All features are 1.

    Args:
        algorithm: the class of the algorithm.
        targets: a row for each agent, and a column for each sample of an agent.
        path: the beginning of the files' paths.
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
    """Yield labels and experiments with the settings of a run, but with extreme data and few rounds.

    - The first experiment has the batch size of the run. If the algorithm solves local minimizations, there is no
      other.
    - If every round uses all samples, a second experiment has sums of losses in place of averages, or the reverse.
    - If rounds use batches, two further experiments have another batch size: one with sums, and one with averages.

    All features are −1 or 1. Targets are −1 or 1, numbers of classes, or the extreme numbers ±`FAR`. No experiment has
    a privacy budget or secret batches.

    Args:
        own: the setup of the run.
        folder: where the data files are written.
        seed: the seed of the data.

    Raises:
        BadInput: the data would be too large.
    """
    e, n, classes = own.experiment, own.topology.agents, own.stream.classes
    rounds = min(e.rounds, max(SHORT, own.algorithm.fewest_rounds + 2))
    tree: Tree = tomllib.loads(e.toml())
    tree["privacy"].pop("budget", None)
    partition, own_batch = tree.pop("data")["partition"], e.data.get("batch", 1)
    key = {} if e.secret else {"noise": {"key": "probe"}}
    tree = merge(tree, RECORDED, {"record": {"metrics": []}, "rounds": rounds}, key)
    cases = [("its own sizes", own_batch, e.problem.average)]
    other = BATCH if own_batch != BATCH else BATCH + 1
    if own_batch == "all" and not own.algorithm.solves:  # a local minimization of a sum would be badly conditioned
        cases += [("its own sizes, sums or averages", own_batch, not e.problem.average)]
    elif not own.algorithm.solves:
        cases += [(f"its own sizes, sums of {other} samples", other, False)]
        cases += [(f"its own sizes, averages of {other} samples", other, True)]
    for label, batch, average in cases:
        rng = np.random.default_rng([seed, 11])
        d = own.dimension // (classes or 1)
        rows = (1 if partition == "shared" else n) * (max(own.samples) if batch == "all" else rounds * batch)
        if rows * d > LARGEST:
            raise BadInput(
                f"{rows} samples of {d} features are too many for an audit; set fewer agents or a smaller data.batch"
            )
        features = rng.choice([-1.0, 1.0], (rows, d))
        features[rng.random(rows) < 0.5] = 1.0
        targets, kind = rng.permutation(np.resize([-1.0, 1.0], rows)), "labels"
        if not own.loss.needs_labels:
            kind = "classes" if classes else "real"
            targets = rng.integers(classes, size=rows) if classes else FAR * targets
        data = {
            "name": "file", "file": write(folder, f"own-{batch}", features, targets), "bound": 1.0, "shuffle": False,
            "targets": kind, "labels": list(range(classes)), "batch": batch, "partition": partition,
        }  # fmt: skip
        yield label, merge(tree, {"data": data, "problem": {"average": average}})


def probes(
    section: Tree, seed: int, folder: Path, adjacency: str = "one-sample", feedback: Tree | None = None
) -> list[Probe]:
    """Return the probes of an algorithm: the small experiments on which the audit plays its games.

    - If `section` has no string besides `name` and `path`: there is a probe for each entry of `Algorithm.probes`.
    - If `section` has further strings, such as `gradient_at` = "public": one probe has the settings of the first entry,
      with these strings.
    - If the algorithm noises gradients: there are two further probes, with public and with secret batches. A secret
      batch contains each sample with probability ½.
    - If the algorithm does not need all samples in every round: there is one more probe, for the game on one run.

    Args:
        section: the section `algorithm` of the run. Only keys whose value is a string apply to the probes. If the
            section has neither `name` nor `path`, the algorithm is the default algorithm of mpinodes.
        seed: the seed of the audit.
        folder: where the data files of the probes are written.
        adjacency: with "one-agent", adjacent data sets differ in all samples of an agent; otherwise in one sample. The
            two probes of noised gradients always have the adjacency zero-out.
        feedback: the section `feedback` of the run.

    Raises:
        BadInput: there is no such algorithm.
    """
    section = section if {"name", "path"} & section.keys() else FIRST["algorithm"] | section
    algorithm = registry.chosen(registry.ALGORITHMS, section)
    words = {key: value for key, value in section.items() if isinstance(value, str)}
    fits = of_kind(algorithm, seed, folder, adjacency == "one-agent")
    stated: dict[str, Tree] = dict(algorithm.probes)
    if words.keys() - {"name", "path"}:  # the words that the user has chosen replace those of the algorithm's probes
        first = next(iter(stated.values()))
        numbers = {key: value for key, value in first.get("algorithm", {}).items() if not isinstance(value, str)}
        stated = {"as asked": {**first, "algorithm": numbers}}
    always: Tree = {"algorithm": words, "feedback": feedback or {}}
    made = []
    for label, keys in stated.items():
        base = {key: value for key, value in fits.items() if key != "step" or key not in keys}
        made.append(Probe(label, merge(base, keys, always)))
    if algorithm.noises_gradients:
        targets = FAR * np.resize([1.0, -1.0], (AGENTS, 4))
        base = {key: value for key, value in made[0].asked.items() if key != "privacy"}
        base = merge(base, _of_targets(algorithm, targets, folder / "clipped"), {"data": {"batch": "all"}})
        zeroed: Tree = {"adjacency": "zero-out", "clip": 1.0}
        public = {"rounds": PRICED, "privacy": {**zeroed, "noise_multiplier": PRICED**0.5 / 2}}
        secret = {"rounds": PRICED, "privacy": {**zeroed, "noise_multiplier": 1.0, "delta": 0.1}}
        secret["data"] = {"sampling": "poisson", "rate": 0.5}
        made += [Probe("clipped in every round", merge(base, public)), Probe("secret batches", merge(base, secret))]
    if not algorithm.whole_data:
        signs = np.random.default_rng([seed, 1]).choice([-1.0, 1.0], (_agents(algorithm, PAIR), SECRETS))
        sections = merge({"rounds": SECRETS}, _of_targets(algorithm, FAR * signs, folder / "secret"))
        made.append(Probe("every sample, one run", merge(made[0].asked, sections), secret=True))
    return made


def of_view(whole: Experiment) -> Probe:
    """Return a probe for the game that is played on the run itself, against an adversary that consists of agents.

    `whole` is the experiment of the run; its `audit.viewers` are the adversary's agents.
    """
    viewers = whole.audit.viewers
    who = f"agent {viewers[0]} receives" if len(viewers) == 1 else f"agents {', '.join(map(str, viewers))} receive"
    return Probe(f"what {who}", merge(tomllib.loads(whole.toml()), RECORDED))


def of_streams(path: str, stream: Any, folder: Path, seed: int) -> Iterator[tuple[str, Tree]]:
    """Yield names and experiments on a user's stream.

    In one experiment each agent has its own loss function. In the other experiment all agents share one loss function.

    Args:
        path: the file that defines the stream.
        stream: the class of the stream.
        folder: where the data file is written.
        seed: the seed of the data and of the experiments.
    """
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
    """Yield names and experiments for testing a metric.

    In one experiment every round has new samples. In the other experiment every round uses all samples.
    """
    for name, data in (("dola", "unit-ball"), ("huang-dp", "mean")):
        yield name, {
            "algorithm": {"name": name}, "rounds": 40, "seed": seed, "report": False, "data": {"name": data},
            "topology": {"name": "ring", "agents": 4}, "record": {"decisions": True},
        }  # fmt: skip
