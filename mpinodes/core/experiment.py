"""Define the experiment: every choice that a user can make, with types and defaults.

An experiment has a struct for each of its fixed sections. The docstrings of these structs are the documentation of the
keys: `mpinodes run --explain` prints them. The sections `algorithm`, `step`, `topology` and `data` are tables, because
their keys depend on the part that the user chooses.
"""

from __future__ import annotations

from math import inf, isinf
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct, field

from mpinodes.core.asked import Tree, parse

Number = Annotated[float, Meta(gt=0)]
Finite = Annotated[float, Meta(gt=0, le=1e100)]
FILES = "algorithm.path problem.path data.path privacy.path topology.path problem.set_path step.path"
SOURCES = tuple(FILES.split())  # keys that name a user's Python files
Seed = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Count = Annotated[int, Meta(ge=1)]
Lateness = Annotated[int, Meta(ge=0, le=1000)]  # in rounds
Share = Annotated[float, Meta(ge=0, lt=1)]
Size = Annotated[float, Meta(ge=0, le=1e100)]
Clip = Annotated[Number | Literal["inf"], Meta(extra={"range": (1e-100, 1e100)})]  # see `losses.clipping`
Epsilon = Annotated[float, Meta(gt=0, extra={"range": (1e-12, 1e12)})]
Name = Annotated[str, Meta(pattern=r"^[\w.+-]+$", extra={"expected": "letters, digits and the signs . + - _ alone"})]
Text = Annotated[str, Meta(min_length=1)]
VIEW = r"^(links|agent:\d{1,6}|agents:\d{1,6}(,\d{1,6})*)$"
View = Annotated[str, Meta(pattern=VIEW, extra={"expected": "links, one agent (agent:3) or several (agents:2,5)"})]


class Budget(Struct, forbid_unknown_fields=True, frozen=True):
    """Bound the privacy loss of the run, as proven for the network.

    Attributes:
        epsilon: the largest epsilon that the run may have, as proven for the network.
        delta: the delta of that epsilon; 0 means pure epsilon. Default: privacy.delta.
        kept_by: how the run stays within the budget. noise chooses privacy.epsilon, and with it the noise, for the
            horizon. stopping lets an agent's releases depend on its data until its budget is spent; afterwards the
            agent only relays what it receives. Repeats on the same data share the budget.
        stops: for stopping, filled in by mpinodes: the last round of each agent whose release may depend on its data;
            0 means that the agent need not stop.
    """

    epsilon: Annotated[float, Meta(gt=0, le=1e12)]
    delta: Share | None = None
    kept_by: Literal["noise", "stopping"] = "noise"
    stops: tuple[int, ...] = ()


class Privacy(Struct, forbid_unknown_fields=True, frozen=True):
    """Choose the noise, and say what is promised.

    Attributes:
        mechanism: the noise on every release.
        path: a Python file of your own with a mechanism. It replaces the mechanism that it names.
        epsilon: the paper's privacy parameter (nominal epsilon), not what is proven; inf means no noise. Algorithms
            that do not calibrate noise to a sensitivity document what they divide by epsilon.
        scale: a number c sets the scale of the noise to c/epsilon for every sensitivity, as in the papers'
            experiments. calibrated sets the scale to (L1 sensitivity)/epsilon.
        delta: the delta of the proven epsilon.
        tight: also compose the run numerically at the horizon (dp-accounting, extra [tight]); takes about a minute.
        clip: L2 bound on a sample's gradient, or on a round's gradient for one-round adjacency, restricted to the
            agent's own coordinates. With inf gradients are not clipped, and no privacy is proven.
        adjacency: what differs between adjacent data sets: one replaced sample (one-sample), the whole loss of one
            round (one-round), or all samples of one agent, replaced by as many others (one-agent), if agents have
            losses of their own.
        budget: the section privacy.budget.
    """

    mechanism: str = "laplace"
    path: str | None = None
    epsilon: Epsilon = 1.0
    scale: Finite | Literal["calibrated"] = "calibrated"
    delta: Annotated[float, Meta(gt=0, lt=1)] = 1e-5
    tight: bool = False
    clip: Clip = 1.0
    adjacency: Literal["one-sample", "one-round", "one-agent"] = "one-sample"
    budget: Budget | None = None

    @property
    def budget_delta(self) -> float:
        """Return the delta of the budget; by default `delta`."""
        own = self.budget.delta if self.budget else None
        return self.delta if own is None else own


class Problem(Struct, forbid_unknown_fields=True, frozen=True):
    """Choose the loss and the constraint set.

    Attributes:
        set: the constraint set.
        set_path: a Python file of your own with a constraint set, instead of problem.set.
        radius: half the width of the box, or the radius of the ball or of each agent's ball.
        loss: the loss of a sample.
        path: a Python file of your own with a loss, instead of problem.loss.
        average: take the mean of the losses of a round's samples instead of their sum.
        weight: C, a factor on that sum or mean, but not on the regularizer.
        regularizer: lambda; (lambda/2)||x||^2 is added to every agent's loss of a round.
        gradient_noise: variance of the stochastic error that is added to each gradient coordinate after clipping.
        settings: the fields of the chosen loss and set, each of which is a key problem.<field>.
    """

    set: str | None = None
    set_path: str | None = None
    radius: Finite = 5.0
    loss: str | None = None
    path: str | None = None
    average: bool = False
    weight: Finite = 1.0
    regularizer: Size = 0.0
    gradient_noise: Size = 0.0
    settings: dict[str, Any] | None = None


class Noise(Struct, forbid_unknown_fields=True, frozen=True):
    """Choose how the noise is drawn.

    Attributes:
        backend: the arithmetic of laplace and gaussian noise. The low bits of numpy's doubles reveal more than the
            distribution does. lattice rounds releases so that their bits do not, and the rounding is accounted for.
            opendp is exact, slow and never reproducible.
        entropy: the source of the noise. seed: a key computed from the seed and from every setting that can change a
            message; the run is then not private as run, because anyone with the seed can regenerate the noise. os: a
            key of 256 bits that each agent takes from its operating system, uses once and stores nowhere.
        key: replaces the settings from which entropy=seed draws. Runs with equal seed and key share their noise, for
            paired experiments; published together they hide nothing. Default: runs do not share noise.
    """

    backend: Literal["numpy", "lattice", "opendp"] = "numpy"
    entropy: Literal["seed", "os"] = "seed"
    key: int | Annotated[str, Meta(min_length=1, max_length=1000)] | None = None


class Record(Struct, forbid_unknown_fields=True, frozen=True):
    """Choose what is recorded.

    Attributes:
        decisions: record every agent's estimate of every round.
        transcript: record every frame on every link, as an eavesdropper sees it; mpinodes replay reads it.
        dynamic_regret: also compute the regret against the best decision of every single round; solves one problem per
            round.
        metrics: further metrics of the run: names, or paths of Python files of your own with a metric.
    """

    decisions: bool = False
    transcript: bool = False
    dynamic_regret: bool = False
    metrics: tuple[str, ...] = ()


class Checkpoint(Struct, forbid_unknown_fields=True, frozen=True):
    """Choose when a run stores all that it needs to go on: `mpinodes run --resume RUN`.

    Attributes:
        every: rounds from one checkpoint to the next, from which --resume RUN goes on; the last two checkpoints stay.
            By default a run stores a checkpoint only when a signal ends it (SIGUSR1, SIGTERM, SIGINT). The checkpoint
            of an agent contains what its messages hide: it is as private as the agent's data.
    """

    every: Count | None = None


class Audit(Struct, forbid_unknown_fields=True, frozen=True):
    """Choose the adversary of audits; no message depends on this section.

    Attributes:
        view: what the adversary of audit and attacks sees. links: all messages. agent:3: what that agent receives and
            knows itself. agents:2,5: what these agents receive and know together.
    """

    view: View = "links"

    @property
    def viewers(self) -> tuple[int, ...]:
        """Return the agents that collude, ascending; empty if the adversary sees all links."""
        return tuple(sorted({int(word) for word in self.view.partition(":")[2].split(",") if word}))


class Deadline(Struct, forbid_unknown_fields=True, frozen=True):
    """Choose when a run that no longer makes progress is ended; no message depends on this section.

    Attributes:
        seconds: a rank that waits this long for another rank ends the job with exit code 4 and reports who waits for
            whom; inf means that it waits forever. Default: 600. Before and after the rounds, a rank that is still at
            work reports so, for at most 6000 s.
    """

    seconds: Number | Literal["inf"] | None = None


class Faults(Struct, forbid_unknown_fields=True, frozen=True):
    """Choose the faults of messages and agents, which are drawn from the seed.

    Attributes:
        loss: probability that a message on a link is lost. Both ends know which messages are lost, as in a graph that
            changes from round to round.
        delay: the largest number of rounds by which a message is late; each number from 0 on has the same probability.
        churn: share of the time that agents are away. An absent agent neither receives nor is received; it goes on
            with its own data alone.
        absence: for churn: the rounds that an agent is away at a time.
        stragglers: share of the agents that are slow in all rounds: all their messages are faults.lag rounds late.
        lag: for stragglers: rounds of lateness, in addition to those of faults.delay.
    """

    loss: Share = 0.0
    delay: Lateness = 0
    churn: Share = 0.0
    absence: Annotated[int, Meta(ge=1, le=1_000_000_000)] = 10
    stragglers: Annotated[float, Meta(ge=0, le=1)] = 0.0
    lag: Annotated[int, Meta(ge=1, le=1000)] = 5

    @property
    def takes(self) -> bool:
        """Return whether messages are lost or agents are away."""
        return bool(self.loss or self.churn)

    @property
    def most_late(self) -> int:
        """Return the largest number of rounds by which a message is late."""
        return self.delay + (self.lag if self.stragglers else 0)


class Revealed(Struct, forbid_unknown_fields=True, frozen=True):
    """Choose what an agent learns of the loss of a round.

    Attributes:
        points: 0: an agent learns the gradient of the loss. 2: an agent learns the loss at two points that it plays,
            x + r u and x - r u, where the unit vector u is drawn from the public seed. The estimate
            d (f(x + r u) - f(x - r u)) u / (2r) then replaces the gradient, and regret is that of the points played.
            privacy.clip bounds what a sample adds to the slope along u, and so d times as much of the estimate: the
            noise grows with d.
        radius: for points=2: r of round 1. It must be below problem.radius, because x keeps that distance from the
            boundary of the set.
        decay: for points=2: r decreases as t^-decay; 0 keeps r constant.
        delay: k: what an agent learns of the loss of round t arrives in round t + k, and is applied with the step of
            that round, to which the noise is calibrated; nothing arrives in the first k rounds. A proof needs gradients
            at released points (gradient_at=public). For late messages see faults.delay.
    """

    points: Literal[0, 2] = 0
    radius: Annotated[float, Meta(ge=1e-6, le=1e6)] = 0.1
    decay: Annotated[float, Meta(ge=0, le=1)] = 0.5
    delay: Lateness = 0


class Output(Struct, forbid_unknown_fields=True, frozen=True):
    """Choose where the run is written.

    Attributes:
        dir: the run directory; it must be empty or new. Default: runs/<name>-<number>.
    """

    dir: Text


class DataKeys(Struct, forbid_unknown_fields=True, frozen=True):
    """Hold the keys of the section `data` that no stream has as settings.

    Attributes:
        seed: seed of the data, of their partition and of their order, for data that stay the same when the seed of the
            run changes. Default: seed.
        identity: your name for these very samples, row by row, for mpinodes spent. Runs with the same name use the same
            rows, and runs with different names have no sample in common. experiment.toml contains the name.
    """

    seed: Seed | None = None
    identity: Text | None = None


class GraphFile(Struct, forbid_unknown_fields=True, frozen=True):
    """Hold the keys of the section `topology` for a graph that is read from a file.

    Attributes:
        undirected: let every edge of the file carry messages in both directions.
    """

    undirected: bool = False


class Experiment(Struct, forbid_unknown_fields=True, frozen=True):
    """Hold every choice of a run. An equal experiment gives equal bits, if its noise comes from the seed.

    Attributes:
        rounds: T, the horizon. Default: as many rounds as the data last.
        seed: seed of the data, their order, gradient noise, graphs and starting points, which are the same in all runs
            with this seed. The noise depends on the seed and on every setting that can change a message, so it differs
            between runs that differ. Anyone who guesses the seed can regenerate the noise: see noise.entropy and
            noise.key.
        repeats: number of runs in one job, with the seeds seed, seed + 1, ...; data.seed keeps the data the same.
        name: names the run directory and the page.
        algorithm: name or path of the algorithm, and its hyper-parameters.
        step: kind of the step schedule, and its parameters.
        topology: name or file of the graph, and its parameters.
        data: name of the stream of losses, and its parameters.
        problem, privacy, noise, record, audit, deadline, checkpoint, faults, feedback, output: the fixed sections.
        report: draw figures and page at the end.
        comparator: find the best fixed decision, against which regret is measured. Losses that are not known to be
            convex never have one. Default: true, unless the search is expected to take more than 10 s.
    """

    rounds: Count
    seed: Seed
    repeats: Annotated[int, Meta(ge=1, le=100_000)]
    name: Name
    algorithm: dict[str, Any]
    step: dict[str, Any]
    topology: dict[str, Any]
    data: dict[str, Any]
    problem: Problem
    privacy: Privacy = field(default_factory=Privacy)
    noise: Noise = field(default_factory=Noise)
    record: Record = field(default_factory=Record)
    audit: Audit = field(default_factory=Audit)
    deadline: Deadline = field(default_factory=Deadline)
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    faults: Faults = field(default_factory=Faults)
    feedback: Revealed = field(default_factory=Revealed)
    output: Output | None = None
    report: bool = True
    comparator: bool | None = None

    @property
    def clip(self) -> float:
        """Return `privacy.clip` as a number."""
        return float(self.privacy.clip)

    @property
    def sources(self) -> dict[str, Path]:
        """Return the user's Python files of the parts, by the key that names each file."""
        sections = msgspec.to_builtins(self)
        named = {key: sections[key.partition(".")[0]].get(key.partition(".")[2]) for key in SOURCES}
        return {key: Path(path) for key, path in named.items() if path}

    @property
    def private(self) -> bool:
        """Return whether noise is added to releases."""
        return self.privacy.mechanism != "none" and not isinf(self.privacy.epsilon)

    @property
    def reproducible(self) -> bool:
        """Return whether the run gives the same bits again: it has no noise, or noise from the seed."""
        return not self.private or (self.noise.backend != "opendp" and self.noise.entropy == "seed")

    @property
    def secret(self) -> bool:
        """Return whether nobody can regenerate the noise."""
        return self.private and not self.reproducible

    def toml(self) -> str:
        """Return the experiment as the text of a TOML file that can be run."""
        import tomli_w  # agents neither write nor read

        tree = {k: v for k, v in _without_none(msgspec.to_builtins(self)).items() if k != "output"}  # TOML has no null
        tree["problem"] |= tree["problem"].pop("settings", {})
        return tomli_w.dumps(tree)

    @classmethod
    def read(cls, path: Path) -> Experiment:
        """Return the experiment that `toml` wrote to a file.

        Raises:
            BadInput: the file cannot be read, or is not TOML.
            msgspec.ValidationError: the file is not an experiment.
        """
        tree = stored(path)
        problem, settings = Tree(), Tree()
        for key, value in tree.get("problem", {}).items():
            (problem if key in Problem.__struct_fields__ else settings)[key] = value
        return msgspec.convert(tree | {"problem": problem | ({"settings": settings} if settings else {})}, cls)


SECTIONS: dict[str, Any] = {
    "privacy": Privacy, "privacy.budget": Budget, "problem": Problem, "noise": Noise, "record": Record,
    "audit": Audit, "deadline": Deadline, "checkpoint": Checkpoint, "faults": Faults, "feedback": Revealed,
    "output": Output,
}  # fmt: skip


def is_file(word: str) -> bool:
    """Return whether a word in the place of a part's name is the path of a user's Python file."""
    return word.endswith(".py")


def single_run(experiment: Experiment, repeat: int) -> Experiment:
    """Return the experiment of one repeat, counted from 0."""
    return msgspec.structs.replace(experiment, repeats=1, seed=experiment.seed + repeat)


def log_spaced(rounds: int, points: int = 20) -> np.ndarray:
    """Return the horizons at which a run is evaluated: about `points` rounds, evenly spaced in log t; the last is T."""
    return np.unique(np.geomspace(1, rounds, points).round().astype(int))


def _without_none(tree: Tree) -> Tree:
    return {k: _without_none(v) if isinstance(v, dict) else v for k, v in tree.items() if v is not None}


# Keys that only older versions had: the old default, and what to do if an experiment sets another value.
RETIRED: dict[str, tuple[Any, str]] = {
    "record.chunk": (65536, "leave it out: no result depends on it"),
    "record.agent_regret_every": (1, "leave it out: agent regret is computed in every round"),
    "checkpoint.seconds": (None, "set checkpoint.every to a number of rounds"),
    "privacy.budget.covers": ("all", "leave it out: repeats on the same data share a budget; else use mpinodes sweep"),
}


def current(tree: Tree) -> tuple[Tree, dict[str, Any]]:
    """Return an experiment's keys without retired keys, in today's types; and the retired keys, dotted."""
    retired: dict[str, Any] = {}

    def without_retired(section: Tree, prefix: str = "") -> Tree:
        retired.update({prefix + key: value for key, value in section.items() if prefix + key in RETIRED})
        rest = {key: value for key, value in section.items() if prefix + key not in RETIRED}
        return {k: without_retired(v, f"{prefix}{k}.") if isinstance(v, dict) else v for k, v in rest.items()}

    today = without_retired(tree)
    privacy = today.get("privacy")
    if isinstance(privacy, dict) and privacy.get("epsilon") == "inf":
        privacy["epsilon"] = inf
    return today, retired


def stored(path: Path) -> Tree:
    """Return the keys of the experiment that a run of this version, or of an older one, wrote to a file.

    Raises:
        BadInput: the file cannot be read, or is not TOML.
    """
    return current(parse(str(path), []))[0]
