"""An experiment, every choice made, as it is written and read: TOML, and key=value pairs on top."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from math import isinf
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct, field

from mpinodes.core.errors import BadInput

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
UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # how such a text begins


class Budget(Struct, forbid_unknown_fields=True, frozen=True):
    """What the run may lose at most, as proven for the network."""

    epsilon: Annotated[Finite, Meta(description="the most that is to be lost, as proven for the network")]
    delta: Annotated[
        Share | None, Meta(description="delta of that epsilon; 0: pure epsilon. Default: privacy.delta")
    ] = None
    kept_by: Annotated[
        Literal["noise", "stopping"],
        Meta(
            description="how: noise chooses privacy.epsilon, and with it the noise, for the horizon; stopping lets an "
            "agent's releases tell of its data for as long as the budget lasts: then it relays what it hears"
        ),
    ] = "noise"
    covers: Annotated[
        Literal["all", "each"],
        Meta(
            description="of repeats on the same data: all of them, published together, or each by itself; where each "
            "has data of its own there is no difference"
        ),
    ] = "all"
    stops: Annotated[
        tuple[int, ...],
        Meta(
            description="of stopping, filled in: each agent's last round that may tell of its data; 0: it need not stop"
        ),
    ] = ()


class Privacy(Struct, forbid_unknown_fields=True, frozen=True):
    """What is promised, and the noise."""

    mechanism: Annotated[
        Literal["laplace", "gamma-norm", "gaussian", "none"], Meta(description="the noise on every release")
    ] = "laplace"
    path: Annotated[
        str | None,
        Meta(description="a Python file of your own with a mechanism, in the place of the one that it says it takes"),
    ] = None
    epsilon: Annotated[
        Number | Literal["inf"],
        Meta(
            description="the paper's own privacy parameter; a label, not what is proven; inf = no noise. Of ADMM: a "
            "factor on algorithm.noise_rate"
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
            "agent's own coordinates; inf = no clipping, and no privacy is proven"
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
    agent_regret_every: Annotated[
        Count,
        Meta(
            description="K: in every K-th round alone it is found what each agent's estimate would have lost; the K "
            "rounds from it on count as being as far from the network's loss. Agent regret is then an estimate, and "
            "costs the logger a K-th"
        ),
    ] = 1
    metrics: Annotated[
        tuple[str, ...],
        Meta(description="more to be told of the run: names, or paths of Python files of your own with a metric"),
    ] = ()
    chunk: Annotated[Count, Meta(description="bytes, about, that an agent hands to the logger at once")] = 65536


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
    seconds: Annotated[
        Annotated[float, Meta(gt=0, le=1e9)] | None,
        Meta(description="the same by the clock: a checkpoint when the last one is so many seconds old"),
    ] = None

    @property
    def are_asked_for(self) -> bool:
        """Whether there are checkpoints without a signal."""
        return bool(self.every or self.seconds)


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
    def epsilon(self) -> float:
        """`privacy.epsilon` as a number."""
        return float(self.privacy.epsilon)

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
        return self.privacy.mechanism != "none" and not isinf(self.epsilon)

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

        tree = {k: v for k, v in _without_none(msgspec.to_builtins(self)).items() if k != "output"}
        tree["problem"] |= tree["problem"].pop("settings", {})
        return tomli_w.dumps(tree)

    @classmethod
    def read(cls, path: Path) -> Experiment:
        """Return the experiment that `toml` wrote to a file.

        Raises:
            BadInput: the file cannot be read, or is no TOML.
            msgspec.ValidationError: it is no experiment.
        """
        tree = parse(str(path), [])
        keys, problem = {field.name for field in msgspec.structs.fields(Problem)}, tree.get("problem", {})
        own = {key: value for key, value in problem.items() if key not in keys}
        kept = {key: value for key, value in problem.items() if key in keys}
        return msgspec.convert(tree | {"problem": kept | ({"settings": own} if own else {})}, cls)


Tree = dict[str, Any]


def _without_none(tree: Tree) -> Tree:
    """TOML has no null: what is not there is left out."""
    return {k: _without_none(v) if isinstance(v, dict) else v for k, v in tree.items() if v is not None}


def merge(*trees: Mapping[str, Any]) -> Tree:
    """Nested dictionaries laid over each other, the last on top."""
    merged: Tree = {}
    for tree in trees:
        for key, value in tree.items():
            below = merged.get(key)
            merged[key] = merge(below, value) if isinstance(value, dict) and isinstance(below, dict) else value
    return merged


def flat(tree: Mapping[str, Any], prefix: str = "", whole: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every key of nested dictionaries, dotted, with its value; the value of the key `whole` stays as it is."""
    for name, value in tree.items():
        if isinstance(value, dict) and f"{prefix}{name}" != whole:
            yield from flat(value, f"{prefix}{name}.", whole)
        else:
            yield f"{prefix}{name}", value


def nested(settings: Mapping[str, Any]) -> Tree:
    """Return dotted keys as dictionaries within each other."""
    tree: Tree = {}
    for key, value in settings.items():
        for part in reversed(key.split(".")):
            value = {part: value}
        tree = merge(tree, value)
    return tree


def utf8(data: bytes) -> bytes:
    """Return a text as UTF-8 without its byte-order mark; by that mark UTF-16 is known, as PowerShell's `>` writes."""
    is_utf16 = data[:2] in UTF_16 and len(data) > 2
    return data.decode("utf-16", "replace").encode() if is_utf16 else data.removeprefix(b"\xef\xbb\xbf")


def parse(path: str | None, overrides: list[str]) -> Tree:
    """What the user asked for: a TOML file with key=value pairs on top.

    Raises:
        BadInput: the file is missing or malformed, or a pair is not one.
    """
    import tomllib

    asked: Tree = {}
    if path is not None:
        try:
            asked = tomllib.loads(utf8(Path(os.path.expanduser(path)).read_bytes()).decode())
        except OSError as error:
            raise BadInput(f"{path}: cannot be read: {error.strerror}") from error
        except ValueError as error:  # tomllib's, of text that is none, and of a number of thousands of digits
            raise BadInput(f"{path}: not TOML: {error}") from error
    for pair in overrides:
        key, equals, text = (word.strip() for word in pair.partition("="))
        if not equals or not all(key.split(".")):
            is_torn = any(word.count("[") + word.count("{") > word.count("]") + word.count("}") for word in overrides)
            hint = "; a list with blanks in it goes in quotes as a whole: 'key=[1, 2]'" if is_torn else ""
            raise BadInput(f"{pair!r}: expected key=value, as in privacy.epsilon=0.5{hint}")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except ValueError:
            value = text
        for part in reversed(key.split(".")):
            value = {part: value}
        asked = merge(asked, value)
    return asked


def asked_for(words: list[str]) -> Tree:
    """What the words of a command ask for: a file, if the first is no key=value, then overrides.

    Raises:
        BadInput: the file is missing or malformed, or a word is no pair.
    """
    file = words[0] if words and "=" not in words[0] else None
    return parse(file, words[1:] if file else words)


def gathered(*asked: str | Path | Mapping[str, Any]) -> Tree:
    """What files, words key=value, and dictionaries, nested or with dotted keys, ask for together, the last on top.

    Raises:
        BadInput: a file is missing or malformed, or something is none of these.
    """
    trees: list[Tree] = []
    for one in asked:
        if isinstance(one, Mapping):
            trees.append(_tree(one))
        elif isinstance(one, (str, Path)):
            trees.append(parse(None, [one]) if isinstance(one, str) and "=" in one else parse(str(one), []))
        else:
            raise BadInput(f"{one!r}: expected a file, a word key=value, or a dictionary")
    return merge(*trees)


def _tree(asked: Mapping[str, Any]) -> Tree:
    """With a dictionary for every dot of a key, and values as TOML has them."""
    tree: Tree = {}
    for key, value in asked.items():
        if not isinstance(key, str) or not all(key.split(".")):
            raise BadInput(f"{key!r}: expected the name of a key, as in 'privacy.epsilon'")
        below = _tree(value) if isinstance(value, Mapping) else _plain(value)
        for part in reversed(key.split(".")):
            below = {part: below}
        tree = merge(tree, below)
    return tree


def _plain(value: Any) -> Any:
    """A number of numpy as Python's, an array (of numpy or pandas) or tuple as a list, a path as its name."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return str(value) if isinstance(value, Path) else value


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


def chunk_rounds(e: Experiment, width: int) -> int:
    """Rounds that fit in a chunk at `width` floats a round, but at most an eighth of a run, to see it move.

    Where all is kept every so many rounds it is as near to that as lets whole chunks end there.
    """
    fit = max(1, min(e.rounds // 8, e.record.chunk // (8 * width)))
    if not (every := e.checkpoint.every):
        return fit
    chunks = max(1, (every + fit // 2) // fit)
    return -(-every // chunks)
