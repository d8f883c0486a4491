"""An experiment, every choice made, as it is written and read: TOML, and key=value pairs on top."""

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
IDENTITY = Annotated[str, Meta(min_length=1)]
FILES = "algorithm.path problem.path data.path privacy.path topology.path problem.set_path step.path"
SOURCES = tuple(FILES.split())  # keys that name files of the user's
SEED = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Count = Annotated[int, Meta(ge=1)]
Lateness = Annotated[int, Meta(ge=0, le=1000)]  # in rounds
Share = Annotated[float, Meta(ge=0, lt=1)]
Size = Annotated[float, Meta(ge=0, le=1e100)]


class Budget(Struct, forbid_unknown_fields=True, frozen=True):
    """What the run may lose at most, as proven for the network."""

    epsilon: Annotated[float, Meta(gt=0, le=1e12, description="the most that is to be lost, as proven for the network")]
    delta: Annotated[
        Share | None, Meta(description="delta of that epsilon; 0: pure epsilon. Default: privacy.delta")
    ] = None
    kept_by: Annotated[
        Literal["noise", "stopping"],
        Meta(
            description="how: noise chooses privacy.epsilon, and with it the noise, for the horizon; stopping lets an "
            "agent's releases tell of its data for as long as the budget lasts: then it relays what it hears. Repeats "
            "on the same data keep it together"
        ),
    ] = "noise"
    stops: Annotated[
        tuple[int, ...],
        Meta(
            description="of stopping, filled in: each agent's last round that may tell of its data; 0: it need not stop"
        ),
    ] = ()


class Privacy(Struct, forbid_unknown_fields=True, frozen=True):
    """What is promised, and the noise."""

    mechanism: Annotated[str, Meta(description="the noise on every release")] = "laplace"
    path: Annotated[
        str | None,
        Meta(description="a Python file of your own with a mechanism, in the place of the one that it says it takes"),
    ] = None
    epsilon: Annotated[
        float,
        Meta(
            gt=0,
            description="the paper's own privacy parameter; a label, not what is proven; inf = no noise. Algorithms "
            "whose noise does not come of a sensitivity say what they divide by it",
            extra={"range": (1e-12, 1e12)},
        ),
    ] = 1.0
    scale: Annotated[
        Finite | Literal["calibrated"],
        Meta(
            description="c: noise of scale c/epsilon, whatever the sensitivity, as the papers' experiments have it; "
            "calibrated: (L1 sensitivity)/epsilon"
        ),
    ] = "calibrated"
    delta: Annotated[float, Meta(gt=0, lt=1, description="delta of the proven epsilon")] = 1e-5
    tight: Annotated[
        bool,
        Meta(
            description="compose a run numerically too, at the horizon (dp-accounting, extra [tight]); a minute or so"
        ),
    ] = False
    clip: Annotated[
        Number | Literal["inf"],
        Meta(
            description="L2 bound on a sample's gradient (on a round's, for one-round adjacency), restricted to the "
            "agent's own coordinates; inf = no clipping, and no privacy is proven",
            extra={"range": (1e-100, 1e100)},  # see `losses.clipping`
        ),
    ] = 1.0
    adjacency: Annotated[
        Literal["one-sample", "one-round", "one-agent"],
        Meta(
            description="what may differ between adjacent data sets: one sample replaced; one round's whole loss; or "
            "all samples of one agent, by as many others, where agents have losses of their own"
        ),
    ] = "one-sample"
    budget: Budget | None = None

    @property
    def budget_delta(self) -> float:
        """The delta of the budget, by default that of what is proven."""
        own = self.budget.delta if self.budget else None
        return self.delta if own is None else own


class Problem(Struct, forbid_unknown_fields=True, frozen=True):
    """Loss and constraint set."""

    set: Annotated[str | None, Meta(description="the constraint set")] = None
    set_path: Annotated[
        str | None, Meta(description="a Python file of your own with a constraint set, instead of problem.set")
    ] = None
    radius: Annotated[
        Finite, Meta(description="half width of the box, or radius of the ball or of each agent's ball")
    ] = 5.0
    loss: Annotated[str | None, Meta(description="the loss of a sample")] = None
    path: Annotated[str | None, Meta(description="a Python file of your own with a loss, instead of problem.loss")] = (
        None
    )
    average: Annotated[bool, Meta(description="mean instead of sum of the losses of a round's samples")] = False
    weight: Annotated[Finite, Meta(description="C: factor on that sum or mean, beside the regularizer")] = 1.0
    regularizer: Annotated[
        Size, Meta(description="lambda: every agent's loss of a round has (lambda/2)||x||^2 added to it")
    ] = 0.0
    gradient_noise: Annotated[
        Size, Meta(description="variance of the stochastic error added to each gradient coordinate, after clipping")
    ] = 0.0
    settings: Annotated[
        dict[str, Any] | None,
        Meta(description="of a loss or a set of your own: its fields, which are keys of this section: problem.<field>"),
    ] = None


class Noise(Struct, forbid_unknown_fields=True, frozen=True):
    """How the noise is drawn."""

    backend: Annotated[
        Literal["numpy", "lattice", "opendp"],
        Meta(
            description="arithmetic of laplace and gaussian noise: numpy, whose low bits tell more than its law; "
            "lattice, rounded so that they do not, and accounted for; opendp, exact, slow and never reproducible"
        ),
    ] = "numpy"
    entropy: Annotated[
        Literal["seed", "os"],
        Meta(
            description="what noise is drawn from; seed: a key made of the seed and of every setting that can change a "
            "message: a rehearsal, which whoever guesses the seed can play again; os: a key of 256 bits that each "
            "agent has from its own system, uses once and stores nowhere"
        ),
    ] = "seed"
    key: Annotated[
        int | Annotated[str, Meta(min_length=1, max_length=1000)] | None,
        Meta(
            description="takes the place of the settings in what entropy=seed draws from: runs of one seed and one key "
            "share their noise, for paired experiments; together they hide nothing. Default: none is shared"
        ),
    ] = None


class Record(Struct, forbid_unknown_fields=True, frozen=True):
    """What is written."""

    decisions: Annotated[bool, Meta(description="keep every agent's estimate of every round in the record")] = False
    transcript: Annotated[
        bool, Meta(description="keep every frame on every link, as an eavesdropper sees it; replay reads it")
    ] = False
    dynamic_regret: Annotated[
        bool, Meta(description="regret against the best decision of every single round too; solves one problem a round")
    ] = False
    metrics: Annotated[
        tuple[str, ...],
        Meta(description="more to be told of the run: names, or paths of Python files of your own with a metric"),
    ] = ()


class Checkpoint(Struct, forbid_unknown_fields=True, frozen=True):
    """When all is written down that a run needs to go on: `python -m mpinodes.run --resume RUN`."""

    every: Annotated[
        Count | None,
        Meta(
            description="rounds from one checkpoint to the next, which --resume RUN goes on from; the last two are "
            "kept. Default: one alone, when a signal ends the run (SIGUSR1, SIGTERM, SIGINT). An agent's holds what "
            "its messages hide: it is as private as its data"
        ),
    ] = None


class Audit(Struct, forbid_unknown_fields=True, frozen=True):
    """How its privacy is attacked; nothing that is sent depends on it."""

    view: Annotated[
        str,
        Meta(
            pattern=r"^(links|agent:\d{1,6}|agents:\d{1,6}(,\d{1,6})*)$",
            extra={"expected": "links, an agent as in agent:3, or some as in agents:2,5"},
            description="what the adversary of audit and attacks sees: links, all that is said; agent:3, what that "
            "agent receives and knows itself; agents:2,5, all that these do together",
        ),
    ] = "links"

    @property
    def viewers(self) -> tuple[int, ...]:
        """The agents that collude, ascending; none: all links are seen."""
        return tuple(sorted({int(word) for word in self.view.partition(":")[2].split(",") if word}))


class Deadline(Struct, forbid_unknown_fields=True, frozen=True):
    """When a run that goes on no more is ended; nothing that is sent depends on it."""

    seconds: Annotated[
        Number | Literal["inf"] | None,
        Meta(
            description="a rank that waits so long for another ends the job with exit code 4 and says who waits for "
            "whom; inf = it waits for ever. Default: 600. Before "
            "the rounds and after them a rank that is at work says so, for 6000 s at most"
        ),
    ] = None


class Faults(Struct, forbid_unknown_fields=True, frozen=True):
    """What befalls messages and agents, drawn from the seed."""

    loss: Annotated[
        Share,
        Meta(
            description="probability that a message on a link is lost; both ends know which are, as of a graph that "
            "changes from round to round"
        ),
    ] = 0.0
    delay: Annotated[
        Lateness, Meta(description="the most rounds that a message comes late: 0 to so many, all alike probable")
    ] = 0
    churn: Annotated[
        Share,
        Meta(
            description="share of the time that agents are away: then they hear nobody and nobody hears them, and they "
            "go on with their own data alone"
        ),
    ] = 0.0
    absence: Annotated[
        int, Meta(ge=1, le=1_000_000_000, description="of churn: rounds that an agent is away at a time")
    ] = 10
    stragglers: Annotated[
        float,
        Meta(
            ge=0, le=1, description="share of the agents that are slow throughout: all they say comes faults.lag late"
        ),
    ] = 0.0
    lag: Annotated[int, Meta(ge=1, le=1000, description="of stragglers: rounds, beside those of faults.delay")] = 5

    @property
    def takes(self) -> bool:
        """Whether messages are lost, or agents away."""
        return bool(self.loss or self.churn)

    @property
    def most_late(self) -> int:
        """Rounds that a message comes late at most."""
        return self.delay + (self.lag if self.stragglers else 0)


class Revealed(Struct, forbid_unknown_fields=True, frozen=True):
    """What an agent is told of the loss of a round."""

    points: Annotated[
        Literal[0, 2],
        Meta(
            description="0: the gradient of the loss; 2: its values at two points that the agent plays, "
            "x + r u and x - r u with u of length 1 in a direction drawn anew from the seed, which is public; the "
            "estimate d (f(x + r u) - f(x - r u)) u / (2r) then takes the gradient's place, and regret is that of the "
            "points played. privacy.clip bounds what a sample adds to the slope along u, and so d times as much of the "
            "estimate: noise grows with d"
        ),
    ] = 0
    radius: Annotated[
        float,
        Meta(
            ge=1e-6,
            le=1e6,
            description="of points=2: r of round 1, below problem.radius: x is taken from within the set by as much",
        ),
    ] = 0.1
    decay: Annotated[float, Meta(ge=0, le=1, description="of points=2: r falls like t^-decay; 0: it stays")] = 0.5
    delay: Annotated[
        Lateness,
        Meta(
            description="k: what is told of the loss of round t, a gradient or an estimate, is told in round t + k and "
            "applied there with the step of that round, which the noise is for; in the first k rounds nothing is. It "
            "needs gradients at released points (gradient_at=public) for anything to be proven. Of messages that come "
            "late see faults.delay"
        ),
    ] = 0


class Output(Struct, forbid_unknown_fields=True, frozen=True):
    """Where it goes."""

    dir: Annotated[
        str, Meta(min_length=1, description="the run directory; empty or new. Default: runs/<name>-<number>")
    ]


class DataKeys(Struct, forbid_unknown_fields=True, frozen=True):
    """Keys of the section `data` that are not its stream's."""

    seed: Annotated[
        SEED | None,
        Meta(
            description="of the data, their shares and their order, where it is to stay as seed changes; default: seed"
        ),
    ] = None
    identity: Annotated[
        IDENTITY | None,
        Meta(
            description="a name of yours for the very samples, row by row, for mpinodes spent: runs of one name are on "
            "the same rows, and those of different names on data that have no sample in common. It stands in "
            "experiment.toml"
        ),
    ] = None


class GraphFile(Struct, forbid_unknown_fields=True, frozen=True):
    """Keys of the section `topology` where a file has the graph."""

    undirected: Annotated[bool, Meta(description="let every edge of a graph from a file carry messages both ways")] = (
        False
    )


class Experiment(Struct, forbid_unknown_fields=True, frozen=True):
    """A whole run, every choice made. The same experiment gives the same bits, if its noise is the seed's."""

    rounds: Annotated[Count, Meta(description="T, the horizon; default: as long as the data lasts")]
    seed: Annotated[
        SEED,
        Meta(
            description="of data, their order, gradient noise, graphs and starts, alike in all runs that have it; and, "
            "with every setting that can change a message, of the noise, which so differs between runs that differ. "
            "Whoever guesses it can draw that noise again: see noise.entropy, noise.key"
        ),
    ]
    repeats: Annotated[
        int,
        Meta(
            ge=1,
            le=100_000,
            description="runs in one job, with the seeds seed, seed + 1, ...; data.seed fixes the data",
        ),
    ]
    name: Annotated[
        str,
        Meta(
            min_length=1,
            pattern=r"^[\w.+-]+$",
            description="names the run directory and the page",
            extra={"expected": "letters, digits and the signs . + - _ alone"},
        ),
    ]
    algorithm: Annotated[dict[str, Any], Meta(description="name or path, and its hyper-parameters")]
    step: Annotated[dict[str, Any], Meta(description="kind of step schedule, and its parameters")]
    topology: Annotated[dict[str, Any], Meta(description="name or file, and its parameters")]
    data: Annotated[dict[str, Any], Meta(description="name of the stream of losses, and its parameters")]
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
    report: Annotated[bool, Meta(description="draw figures and page at the end")] = True
    comparator: Annotated[
        bool | None,
        Meta(
            description="find the best fixed decision, which regret is measured against; never for losses that are not "
            "known to be convex. Default: true, but where that is expected to take more than 10 s"
        ),
    ] = None

    @property
    def clip(self) -> float:
        """`privacy.clip` as a number."""
        return float(self.privacy.clip)

    @property
    def sources(self) -> dict[str, Path]:
        """The files of the user's that its parts are made of, by the key that names each."""
        sections = msgspec.to_builtins(self)
        named = {key: sections[key.partition(".")[0]].get(key.partition(".")[2]) for key in SOURCES}
        return {key: Path(path) for key, path in named.items() if path}

    @property
    def private(self) -> bool:
        """Whether releases are noised."""
        return self.privacy.mechanism != "none" and not isinf(self.privacy.epsilon)

    @property
    def reproducible(self) -> bool:
        """Whether it gives the same bits again: no noise, or noise from the seed."""
        return not self.private or (self.noise.backend != "opendp" and self.noise.entropy == "seed")

    @property
    def secret(self) -> bool:
        """Whether nobody can draw its noise again."""
        return self.private and not self.reproducible

    def toml(self) -> str:
        """The experiment as a file that runs again."""
        import tomli_w  # agents neither write nor read

        tree = {k: v for k, v in _without_none(msgspec.to_builtins(self)).items() if k != "output"}  # TOML has no null
        tree["problem"] |= tree["problem"].pop("settings", {})
        return tomli_w.dumps(tree)

    @classmethod
    def read(cls, path: Path) -> Experiment:
        """Return the experiment that `toml` wrote to a file.

        Raises:
            BadInput: the file cannot be read, or is no TOML.
            msgspec.ValidationError: it is no experiment.
        """
        tree = stored(path)
        keys, problem = {field.name for field in msgspec.structs.fields(Problem)}, tree.get("problem", {})
        own = {key: value for key, value in problem.items() if key not in keys}
        kept = {key: value for key, value in problem.items() if key in keys}
        return msgspec.convert(tree | {"problem": kept | ({"settings": own} if own else {})}, cls)


SECTIONS: dict[str, Any] = {
    "privacy": Privacy, "privacy.budget": Budget, "problem": Problem, "noise": Noise, "record": Record,
    "audit": Audit, "deadline": Deadline, "checkpoint": Checkpoint, "faults": Faults, "feedback": Revealed,
    "output": Output,
}  # fmt: skip


def is_file(word: str) -> bool:
    """Return whether a word where the name of a part may stand is the path of a user's file instead."""
    return word.endswith(".py")


def single_run(experiment: Experiment, repeat: int) -> Experiment:
    """The run that a repeat of an experiment is."""
    return msgspec.structs.replace(experiment, repeats=1, seed=experiment.seed + repeat)


def log_spaced(rounds: int, points: int = 20) -> np.ndarray:
    """The horizons at which a run is judged: about `points` of them, evenly spaced in log t, the last T."""
    return np.unique(np.geomspace(1, rounds, points).round().astype(int))


def _without_none(tree: Tree) -> Tree:
    return {k: _without_none(v) if isinstance(v, dict) else v for k, v in tree.items() if v is not None}


# Keys that experiments of older versions have: their defaults, and what to do where another value is asked for.
RETIRED: dict[str, tuple[Any, str]] = {
    "record.chunk": (65536, "leave it out: no result depends on it"),
    "record.agent_regret_every": (1, "leave it out: agent regret is found in every round"),
    "checkpoint.seconds": (None, "set checkpoint.every to a number of rounds"),
    "privacy.budget.covers": (
        "all",
        "leave it out: repeats on the same data keep a budget together; for runs that do by themselves: mpinodes sweep",
    ),
}


def current(tree: Tree) -> tuple[Tree, dict[str, Any]]:
    """Return what is asked for in today's keys and types, and by itself the keys that are retired."""
    retired: dict[str, Any] = {}

    def today(section: Tree, prefix: str = "") -> Tree:
        kept: Tree = {}
        for key, value in section.items():
            if prefix + key in RETIRED:
                retired[prefix + key] = value
            else:
                kept[key] = today(value, f"{prefix}{key}.") if isinstance(value, dict) else value
        return kept

    kept = today(tree)
    privacy = kept.get("privacy")
    if isinstance(privacy, dict) and privacy.get("epsilon") == "inf":
        privacy["epsilon"] = inf
    return kept, retired


def stored(path: Path) -> Tree:
    """Return the keys of the experiment that a run of this version or an older one wrote to a file.

    Raises:
        BadInput: the file cannot be read, or is no TOML.
    """
    return current(parse(str(path), []))[0]
