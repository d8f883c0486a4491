"""Define the experiment: all settings of a run, with types and defaults.

A setting is a key in a section of a TOML file, as in `privacy.epsilon`. A struct defines the keys of a section. Its
docstring documents the keys, and is printed by `mpinodes run --explain`. The sections `algorithm`, `step`, `topology`
and `data` are dictionaries, because their keys depend on the algorithm, schedule, graph or data that the user chooses.
"""

from __future__ import annotations

from functools import cached_property
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
Adjacency = Literal["one-sample", "zero-out", "one-round", "one-agent"]
# What an adjacency changes, by which costs are added up.
UNITS = {"one-sample": "sample", "zero-out": "sample", "one-round": "round", "one-agent": "agent"}
View = Annotated[str, Meta(pattern=VIEW, extra={"expected": "links, one agent (agent:3) or several (agents:2,5)"})]


class Budget(Struct, forbid_unknown_fields=True, frozen=True):
    """Set an upper bound on the proven epsilon of the run.

    Attributes:
        epsilon: the largest epsilon that may be proven for the whole network.
        delta: the delta of that epsilon; 0 means pure epsilon. Default: privacy.delta.
        kept_by: how the run stays within the budget. noise: mpinodes chooses the noise such that the proven epsilon of
            all rounds is within the budget. It sets privacy.epsilon, or privacy.noise_multiplier for algorithms that
            noise gradients. stopping: an agent releases vectors that depend on its data until its budget is spent; from
            then on it only relays the messages that it receives. All repeats on the same data share one budget.
        stops: for kept_by=stopping: for each agent, the last round in which a release may depend on the agent's data; 0
            means that the agent need not stop. mpinodes computes this key.
    """

    epsilon: Annotated[float, Meta(gt=0, le=1e12)]
    delta: Share | None = None
    kept_by: Literal["noise", "stopping"] = "noise"
    stops: tuple[int, ...] = ()


class Tuning(Struct, forbid_unknown_fields=True, frozen=True):
    """State how the settings of the experiment were chosen; mpinodes tune writes this section.

    Attributes:
        mode: where the trials of settings were run. public: on a public file. private: on the private data, at a cost
            that no epsilon includes. accounted: on the private data; the run also prints the epsilon of tuning and the
            run together.
        trials: the number of trials, which was fixed beforehand.
        mu: for mode=accounted: trials and scores together satisfy mu-GDP.
        adjacency: the adjacency for which mu holds. With another privacy.adjacency, no epsilon of tuning is proven.
        tag: a hash of these keys and the data files with a key of the user, by which mpinodes notices changes of mu.
    """

    mode: Literal["public", "private", "accounted"]
    trials: Count
    mu: Size = 0.0
    adjacency: Adjacency | None = None
    tag: str = ""


class Privacy(Struct, forbid_unknown_fields=True, frozen=True):
    """Choose the noise, and which data sets are adjacent.

    Attributes:
        mechanism: the mechanism that adds noise to messages; for algorithms that noise gradients, to gradients.
        path: your Python file with a mechanism, which adds the noise instead of a built-in mechanism. The attribute
            takes_the_place_of of your class names the built-in mechanism.
        epsilon: the number that the paper of the algorithm calls epsilon (nominal epsilon). It sets the noise, unless
            noise_multiplier does; inf means no noise. The proven epsilon is another number, which mpinodes computes. If
            an algorithm does not calibrate its noise to a sensitivity, the documentation of the algorithm says which
            number is divided by epsilon.
        scale: calibrated: the scale of Laplace noise is (L1 sensitivity)/epsilon, unless the algorithm states another
            number in place of the sensitivity. A number c: the scale of the noise is c/epsilon, whatever the
            sensitivity is, as in the papers' experiments.
        delta: the delta at which epsilon is proven.
        tight: also compute the epsilon of the whole run by numerical composition, which takes about a minute. This key
            needs the package dp-accounting (extra [tight]).
        clip: L2 bound on the gradient of each sample; for adjacency=one-round or clipping=agent, on the gradient of an
            agent in a round. The bound is on the coordinates that the agent decides. inf: gradients are not clipped; an
            epsilon is then proven only if the loss and the norm of the features bound the change of a gradient.
        clipping: which gradient the clip bounds, unless adjacency=one-round. sample: the gradient of each sample.
            agent: the gradient of an agent in a round, which one sample may then change by twice the clip.
        adjacency: what differs between adjacent data sets. one-sample: one replaced sample. zero-out: one sample, whose
            gradient is replaced by zero; the number of samples stays public. one-round: the whole loss of one round.
            one-agent: all samples of one agent, replaced by equally many samples; only for objectives in
            which each agent has its own loss.
        noise_multiplier: for algorithms that noise gradients: sets the noise on the sum of clipped gradients, instead
            of privacy.epsilon. The standard deviation of Gaussian noise, or the scale of Laplace noise, is
            noise_multiplier times clip. With secret batches (data.sampling), privacy.epsilon cannot set the noise: the
            default of noise_multiplier is then 1, unless privacy.budget sets another value.
        budget: the section privacy.budget.
        tuning: the section privacy.tuning.
    """

    mechanism: str = "laplace"
    path: str | None = None
    epsilon: Epsilon = 1.0
    scale: Finite | Literal["calibrated"] = "calibrated"
    delta: Annotated[float, Meta(gt=0, lt=1)] = 1e-5
    tight: bool = False
    clip: Clip = 1.0
    clipping: Literal["sample", "agent"] = "sample"
    adjacency: Adjacency = "one-sample"
    noise_multiplier: Finite | None = None
    budget: Budget | None = None
    tuning: Tuning | None = None

    @property
    def budget_delta(self) -> float:
        """Return `privacy.budget.delta`, or `privacy.delta` if the budget has no delta."""
        own = self.budget.delta if self.budget else None
        return self.delta if own is None else own


class Problem(Struct, forbid_unknown_fields=True, frozen=True):
    """Choose the loss and the constraint set.

    Attributes:
        set: the constraint set.
        set_path: your Python file with a constraint set, instead of problem.set.
        radius: half the width of the box, or the radius of the ball or of each agent's ball.
        loss: the loss of a sample.
        path: your Python file with a loss, instead of problem.loss.
        average: true: the loss of a round is the mean of the losses of its samples. false: the loss is their sum.
        weight: C, a factor that multiplies the sum or mean of the samples' losses, but not the regularizer.
        regularizer: lambda; (lambda/2)||x||^2 is added to every agent's loss of a round.
        gradient_noise: variance of a random error that is added to each coordinate of a gradient after clipping.
        settings: further keys problem.<name> that the chosen loss or set defines.
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
        backend: the arithmetic of laplace and gaussian noise. numpy: double-precision numbers, whose lowest bits reveal
            more than exact real numbers would. lattice: releases are rounded to a lattice, so that their bits reveal no
            more than the proven epsilon; the proven epsilon accounts for the rounding. opendp: exact, slow and
            never reproducible.
        entropy: the source of the noise and of secret batches. seed: a noise key that is computed from the seed and,
            unless noise.key is set, from every setting that can change a message. The released numbers are then not
            private, because anyone with the seed can regenerate the noise. os: a noise key of 256 bits that each agent
            takes from its operating system, uses once and never stores.
        key: for entropy=seed: a number or text. The noise key is then computed from the seed and this value, and does
            not depend on other settings. Runs with equal seed and key have equal noise, which is useful for paired
            experiments. If such runs are published together, nothing is private. Default: runs with different settings
            have independent noise.
    """

    backend: Literal["numpy", "lattice", "opendp"] = "numpy"
    entropy: Literal["seed", "os"] = "seed"
    key: int | Annotated[str, Meta(min_length=1, max_length=1000)] | None = None


class Record(Struct, forbid_unknown_fields=True, frozen=True):
    """Choose which further data of a run are recorded.

    Attributes:
        decisions: record every agent's estimate of every round.
        transcript: record every message on every link, as an eavesdropper sees the message; mpinodes replay needs this.
        dynamic_regret: also compute the regret against the best decision of every single round; mpinodes then solves
            one optimization problem per round.
        metrics: further metrics of the run: names of metrics, or paths of your Python files with a metric.
    """

    decisions: bool = False
    transcript: bool = False
    dynamic_regret: bool = False
    metrics: tuple[str, ...] = ()


class Checkpoint(Struct, forbid_unknown_fields=True, frozen=True):
    """Choose when a run stores a checkpoint, from which `mpinodes run --resume RUN` continues the run.

    Attributes:
        every: store a checkpoint after every so many rounds. Old checkpoints are removed, and --resume RUN continues
            from the newest. By default a run stores a checkpoint only when a signal ends the run (SIGUSR1, SIGTERM,
            SIGINT). The checkpoint of an agent contains the agent's state without noise: keep it as private as the
            agent's data.
    """

    every: Count | None = None


class Audit(Struct, forbid_unknown_fields=True, frozen=True):
    """Choose the adversary of audits. This section changes no message of the run.

    Attributes:
        view: what the adversary of audits and attacks sees. links: all messages. agent:3: the messages that agent 3
            receives, and the data of agent 3. agents:2,5: the messages that agents 2 and 5 receive, and the data of
            agents 2 and 5.
    """

    view: View = "links"

    @property
    def viewers(self) -> tuple[int, ...]:
        """Return the agents that form the adversary, ascending; empty if the adversary sees all messages."""
        return tuple(sorted({int(word) for word in self.view.partition(":")[2].split(",") if word}))


class Deadline(Struct, forbid_unknown_fields=True, frozen=True):
    """Choose when a run that no longer makes progress is ended. This section changes no message of the run.

    Attributes:
        seconds: if an MPI rank waits this long for another rank, the job ends with exit code 4. An error message names
            the ranks that wait and the ranks that they wait for. inf: no limit. Default: 600. In the rounds, an agent
            and the logger wait for each other twice as long. Before the first round and after the last round, a job
            whose ranks still compute is not ended. The start of MPI may always take 10 seconds, and 2 seconds more for
            each rank per core.
    """

    seconds: Number | Literal["inf"] | None = None


class Faults(Struct, forbid_unknown_fields=True, frozen=True):
    """Choose the faults of messages and agents. The faults are drawn from the seed.

    Attributes:
        loss: probability that a message on a link is lost. The sender and the receiver know which messages are lost, as
            in a graph that changes from round to round.
        delay: largest number of rounds by which a message is late; the lateness is uniform on 0, ..., delay.
        churn: expected share of the rounds in which an agent is away. While an agent is away, it sends no messages, no
            messages are sent to it, and it still updates its decision.
        absence: for churn: length of one absence in rounds; two absences may follow each other.
        stragglers: share of the agents that are slow in all rounds: all messages of a slow agent are faults.lag rounds
            late.
        lag: for stragglers: how many rounds late the messages of slow agents are, in addition to the lateness by
            faults.delay.
    """

    loss: Share = 0.0
    delay: Lateness = 0
    churn: Share = 0.0
    absence: Annotated[int, Meta(ge=1, le=1_000_000_000)] = 10
    stragglers: Annotated[float, Meta(ge=0, le=1)] = 0.0
    lag: Annotated[int, Meta(ge=1, le=1000)] = 5

    @property
    def takes(self) -> bool:
        """Return whether the faults can keep a message from arriving: messages may be lost, or agents may be away."""
        return bool(self.loss or self.churn)

    @property
    def most_late(self) -> int:
        """Return the largest number of rounds by which a message is late."""
        return self.delay + (self.lag if self.stragglers else 0)


class Revealed(Struct, forbid_unknown_fields=True, frozen=True):
    """Choose what an agent learns about its loss in each round (gradients, or values at two points), and how late.

    Attributes:
        points: 0: an agent learns the gradient of its loss f. 2 (bandit feedback): an agent learns the loss at two
            points, x + r u and x - r u, where the unit vector u is drawn from the public seed. The estimate d (f(x + r
            u) - f(x - r u)) u / (2r) then replaces the gradient, and the regret is computed at the two points. Here d
            is the number of coordinates that the agent decides. By default privacy.clip bounds the contribution of one
            sample to the slope (f(x + r u) - f(x - r u)) / (2r). The noise grows with d, because the estimate is d
            times the slope.
        radius: for points=2: the value of r in round 1. A ball of a larger radius than r must fit into the set, because
            x keeps the distance r from the boundary of the set.
        decay: for points=2: r decreases as t^-decay; 0 keeps r constant.
        delay: k: the gradient or the loss values of round t arrive in round t + k. The algorithm uses them with the
            step size of round t + k, to which the noise is calibrated. Nothing arrives in the first k rounds. An
            epsilon is proven only if gradients are taken at released points, as with gradient_at=public. Messages are
            not late: see faults.delay.
    """

    points: Literal[0, 2] = 0
    radius: Annotated[float, Meta(ge=1e-6, le=1e6)] = 0.1
    decay: Annotated[float, Meta(ge=0, le=1)] = 0.5
    delay: Lateness = 0


class Output(Struct, forbid_unknown_fields=True, frozen=True):
    """Choose the directory to which the run is written.

    Attributes:
        dir: the run directory; the directory must be empty or new. Default: runs/<name>-<number>.
    """

    dir: Text


class DataKeys(Struct, forbid_unknown_fields=True, frozen=True):
    """Hold the keys that the section `data` has for all data, whatever stream the user chooses.

    Attributes:
        seed: seed of the data, of the partition of the samples among agents, and of the order of the samples. Set this
            key if the data must stay the same when the seed of the run changes. Default: seed.
        identity: a name that you give to the samples of this data set, for the command mpinodes spent. Runs with equal
            names must use the same samples in the same rows. Runs with different names must have no sample in common.
            experiment.toml contains the name.
        sampling: how an agent draws the batch of a gradient. none: in a public order. poisson: each sample with
            probability data.rate, by secret coins. fixed: data.batch samples by secret coins. A secret batch costs less
            privacy. If problem.average is true, the sum of the batch's gradients is divided by the expected size of the
            batch; if false, by the probability with which a sample is in the batch.
        rate: for sampling=poisson: the probability with which a sample is taken.
    """

    seed: Seed | None = None
    identity: Text | None = None
    sampling: Literal["none", "poisson", "fixed"] | None = None
    rate: Annotated[float, Meta(ge=1e-12, lt=1)] | None = None  # below, numbers of samples would overflow


class GraphFile(Struct, forbid_unknown_fields=True, frozen=True):
    """Hold the keys of the section `topology` for a graph that is read from a file.

    Attributes:
        undirected: true: messages are sent in both directions along every edge of the file.
    """

    undirected: bool = False


class Experiment(Struct, forbid_unknown_fields=True, frozen=True, dict=True):
    """Hold all settings of a run.

    Attributes:
        rounds: T, the number of rounds. Default: as many rounds as the data last.
        seed: seed of the data, their order, the gradient noise, the graphs and the starting points. Runs that differ
            only in settings of the privacy noise have the same data, graphs and starting points. By default the privacy
            noise depends on the seed and on every setting that can change a message. Anyone who guesses the seed can
            then regenerate the noise: see noise.entropy and noise.key.
        repeats: number of runs in one job. Their seeds are seed, seed + 1, ...; with data.seed all runs use the
            same data.
        name: the name of the run, which is printed on the run's page, and begins the name of the run directory unless
            output.dir is set.
        algorithm: name or path of the algorithm, and its hyper-parameters.
        step: kind or path of the step schedule, and its parameters.
        topology: name, path or file of the graph, and its parameters.
        data: name, path or file of the stream of losses, and its parameters.
        problem, privacy, noise, record, audit, deadline, checkpoint, faults, feedback, output: the fixed sections.
        baseline: a simpler method to compare the algorithm with, by the same code. none: the algorithm itself. curator:
            one agent has the data of all. alone: agents never send. one-shot: agents send once, in the last round, and
            average. no-noise: messages carry no noise. The epsilon of curator, alone and one-shot counts the noised
            messages as if they were sent.
        report: draw the figures and write the page (HTML) at the end of the run.
        comparator: compute the best fixed decision, against which regret is measured. For a loss that is not known to
            be convex, this decision is never computed. Default: true, unless the computation is expected to take more
            than 10 s.
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
    baseline: Literal["none", "curator", "alone", "one-shot", "no-noise"] = "none"
    comparator: bool | None = None

    @property
    def clip(self) -> float:
        """Return `privacy.clip` as a number."""
        return float(self.privacy.clip)

    @property
    def sampling(self) -> Any:
        """Return `data.sampling`: "none", "poisson" or "fixed"."""
        return self.data.get("sampling", "none")

    @property
    def shown(self) -> Any:
        """Return how many samples an agent's loss has in a round: a number or "all". Secret batches count as "all"."""
        return self.data.get("batch", 1) if self.sampling == "none" else "all"

    @property
    def is_isolated(self) -> bool:
        """Return whether agents send nothing, or only in the last round (`baseline` is alone or one-shot)."""
        return self.baseline in ("alone", "one-shot")

    @property
    def clips_rounds(self) -> bool:
        """Return whether the clip bounds the gradient of a whole round, instead of the gradient of each sample."""
        return self.privacy.adjacency == "one-round" or self.privacy.clipping == "agent"

    @property
    def sources(self) -> dict[str, Path]:
        """Return the user's Python files that the settings name, as a dictionary from settings to paths.

        The settings are those in `SOURCES`. The files of metrics (`record.metrics`) are not in the dictionary.
        """
        sections = msgspec.to_builtins(self)
        named = {key: sections[key.partition(".")[0]].get(key.partition(".")[2]) for key in SOURCES}
        return {key: Path(path) for key, path in named.items() if path}

    @property
    def private(self) -> bool:
        """Return whether the run adds noise."""
        return self.privacy.mechanism != "none" and not isinf(self.privacy.epsilon)

    @property
    def reproducible(self) -> bool:
        """Return whether a second run has the same bits: the run has no noise, or draws its noise from the seed."""
        return not self.private or (self.noise.backend != "opendp" and self.noise.entropy == "seed")

    @property
    def secret(self) -> bool:
        """Return whether the run has noise that nobody can regenerate, not even with the seed."""
        return self.private and not self.reproducible

    def toml(self) -> str:
        """Return the experiment as the text of a TOML file, with which it can be run again.

        The section `output` is left out. If `privacy.noise_multiplier` is set, `privacy.epsilon` is left out.
        """
        return self._text

    @cached_property
    def _text(self) -> str:
        import tomli_w  # imported here, because agents neither write nor read TOML

        tree = {k: v for k, v in _without_none(msgspec.to_builtins(self)).items() if k != "output"}  # TOML has no null
        tree["problem"] |= tree["problem"].pop("settings", {})
        if self.privacy.noise_multiplier is not None:
            tree["privacy"].pop("epsilon")  # the default, which has no meaning here; to set both is refused
        return tomli_w.dumps(tree)

    @classmethod
    def read(cls, path: Path) -> Experiment:
        """Return the experiment that a run wrote to a TOML file (by `toml`).

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
    "privacy": Privacy, "privacy.budget": Budget, "privacy.tuning": Tuning, "problem": Problem, "noise": Noise,
    "record": Record, "audit": Audit, "deadline": Deadline, "checkpoint": Checkpoint, "faults": Faults,
    "feedback": Revealed, "output": Output,
}  # fmt: skip


def is_file(word: str) -> bool:
    """Return whether a word is the path of a Python file, by which the user names a part, such as a loss."""
    return word.endswith(".py")


def single_run(experiment: Experiment, repeat: int) -> Experiment:
    """Return the experiment of one of several repeats: `repeats` is 1, and the seed is seed + `repeat` (from 0)."""
    return msgspec.structs.replace(experiment, repeats=1, seed=experiment.seed + repeat)


def log_spaced(rounds: int, points: int = 20) -> np.ndarray:
    """Return the rounds at which a run is evaluated: at most `points` rounds, about evenly spaced in log t.

    The rounds are ascending. The first round is 1 and the last round is T = `rounds`.
    """
    return np.unique(np.geomspace(1, rounds, points).round().astype(int))


def _without_none(tree: Tree) -> Tree:
    return {k: _without_none(v) if isinstance(v, dict) else v for k, v in tree.items() if v is not None}


# Keys that only older versions had: the old default, and what to do if an experiment sets another value.
RETIRED: dict[str, tuple[Any, str]] = {
    "record.chunk": (65536, "leave it out: no result depends on it"),
    "record.agent_regret_every": (1, "leave it out: agent regret is computed in every round"),
    "checkpoint.seconds": (None, "set checkpoint.every to a number of rounds"),
    "privacy.budget.covers": (
        "all",
        "leave it out: repeats on the same data share one budget; for separate budgets use mpinodes sweep",
    ),
}


def current(tree: Tree) -> tuple[Tree, dict[str, Any]]:
    """Convert the settings of an older version of mpinodes to settings of this version.

    Returns:
        Two values: the settings without the keys that no longer exist (`RETIRED`); and a dictionary with these removed
        keys (dotted) and their values.
    """
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
    """Return the settings of a run from its file experiment.toml, which an older version may have written.

    Raises:
        BadInput: the file cannot be read, or is not TOML.
    """
    return current(parse(str(path), []))[0]
