"""The contract: what every kind of part is, and all that it may say about itself.

A part is a class that extends one of the bases below: one file each, found by its name in this package, by entry point
or by a path of the user's. Whatever the rest of mpinodes asks of a part stands here, as a typed attribute or method;
where an answer is honest for most there is a default. Settings are the fields of a part's dataclass: each is a key of
the experiment (`algorithm.<field>`, `data.<field>`, `topology.<field>`). Class attributes are no settings.

The bases leave out what every part's own decorator makes again, and what is no part extends `msgspec.Struct`: to make
the methods of a dataclass takes half a millisecond of every rank.

    Algorithm    what an agent says, and what it makes of what it hears
    Mixing       the weights of what it hears, and the public scalars that receivers need to know them
    Mechanism    the noise
    Loss         f^t as an agent sees it;  SampleLoss: of samples, the part that `problem.loss` names
    Stream       where the losses come from
    Topology     who hears whom in a round
    Links        what gets through, where messages are lost or come late
    Set          the constraint set
    Metric       what is told of a run: in its record, its summary, its page, and over its repeats
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from mpinodes.core.events import Event, Layout
from mpinodes.core.experiment import Experiment
from mpinodes.core.messages import HEADER, Features, Inbox, Message, Neighborhood, Query, Solved, Vector, stack
from mpinodes.core.seeds import Draws

S = TypeVar("S")
Step = Callable[[int], float]  # a step schedule: t -> the step of round t = 1, 2, ...
Edges = frozenset[tuple[int, int]]
Horizons = NDArray[np.int64]  # (h,) rounds from 1, ascending
Matrix = NDArray[np.bool_]  # (n, n): at [j, i] whether j sends to i
ALL: slice = slice(None)
LOCATIONS = ("file", "dir")  # keys of `data` that name files


# ---------------------------------------------------------------------------------------------------------------- sets
class Set(ABC):
    """A closed convex set 𝒳, with its exact Euclidean projection."""

    bounded: ClassVar[bool] = True
    by_blocks: ClassVar[bool] = True  # whether an agent's block of the projection depends on that block alone

    @abstractmethod
    def diameter(self, d: int) -> float:
        """The largest ‖x − y‖₂ within 𝒳, over d coordinates of one agent; inf where it has none."""

    @abstractmethod
    def project(self, x: Vector) -> Vector:
        """Argmin over v in 𝒳 of ‖v − x‖₂: (d,) -> (d,)."""

    @abstractmethod
    def support(self, g: Vector) -> float:
        """Max over v in 𝒳 of ⟨g, v⟩; inf where it has none."""

    @abstractmethod
    def within(self, margin: float) -> Set:
        """Its points around which a ball of this radius, less than its own, lies in it; of R^d all."""

    def prox_step(self, z: Vector, alpha: float) -> Vector:
        """Π(z, α) = argmin over v in 𝒳 of ⟨z, v⟩ + ‖v‖²/(2α), which is P(−αz)."""
        return self.project(-alpha * z)


# ---------------------------------------------------------------------------------------------------------------- runs
@dataclass(frozen=True)
class Run:
    """What an algorithm knows of the run it is in; all from public constants, never from data.

    Attributes:
        agents: n.
        rounds: T, the horizon; `sys.maxsize` for an algorithm that is `anytime`, but in its `validate`.
        dimension: d.
        blocks: by agent, the coordinates that its gradients are taken of: its own, or all.
        degrees: by agent, its out-neighbors in round 1.
        feasible: 𝒳.
        regularizer: λ of every agent's loss of a round.
        private: whether releases are noised.
        epsilon, delta: `privacy.epsilon`, the paper's own parameter (inf: no noise), and `privacy.delta`.
        grad_sensitivity: by agent, how far its gradient (clipped, over its block) moves in L2 between adjacent data, at
            one point; inf: nothing bounds it.
        grad_range: by agent, how far the samples' part of it moves in L2 between any two points, on the same data; of
            an algorithm that states `gradients_in_set`, between any two points of 𝒳.
        grad_lipschitz: by agent, the same per L2 change of the point.
        sample_weight: by agent, the factor on a sample's loss.
        replaced: by agent, how many of the samples that it sees in a round adjacent data may replace: one, or all.
        sample_sensitivity: half the most that replacing a sample changes its own gradient by at one point, unclipped.
        sample_curvature: the largest norm of a sample's Hessian; inf: unknown, or the loss is not known to be convex.
        sample_rank: the largest rank of a sample's Hessian.
        least_modulus, largest_smoothness: between which the curvatures of all agents' losses lie, regularizer and all.
        steps: α, where the algorithm takes steps along a gradient (`step.kind`); see `step`.
        gdp: (ε, δ) -> the largest m for which m-GDP is (ε, δ)-DP.
        grad_rounding: by agent, how far rounding alone moves a two-point estimate in L2, however near two points are;
            0 where gradients are revealed. An algorithm with hidden parts states it in the `offset` of its leakage.
    """

    agents: int
    rounds: int
    dimension: int
    blocks: tuple[slice, ...]
    degrees: tuple[int, ...]
    feasible: Set
    regularizer: float
    private: bool
    epsilon: float
    delta: float
    grad_sensitivity: tuple[float, ...]
    grad_range: tuple[float, ...]
    grad_lipschitz: tuple[float, ...]
    sample_weight: tuple[float, ...]
    replaced: tuple[int, ...]
    sample_sensitivity: float
    sample_curvature: float
    sample_rank: int
    least_modulus: float
    largest_smoothness: float
    steps: Any
    gdp: Callable[[float, float], float] = field(repr=False)
    grad_rounding: tuple[float, ...] = ()

    @cached_property
    def step(self) -> Step:
        """α: the step of round t = 1, 2, ...

        Raises:
            ValueError: the algorithm says that it takes none (`Algorithm.takes_steps`).
        """
        if self.steps is None:
            raise ValueError("this algorithm takes no steps along a gradient: it has takes_steps = False")
        step: Step = self.steps
        return step


class Bound(NamedTuple):
    """A theorem's bound on a measured quantity.

    Attributes:
        name: the theorem, and whether as printed or checked.
        of: the variable of record.h5 that it bounds, in the mean over the noise.
        values: (h,) at the horizons, in that variable's unit; inf where nothing finite comes out.
        applies: whether the run is what the theorem assumes.
        why: which assumption the run breaks, or why the values are infinite; else empty.
    """

    name: str
    of: str
    values: Vector
    applies: bool
    why: str

    @property
    def variable(self) -> str:
        """Its own name in record.h5."""
        words = "".join(letter if letter.isalnum() else " " for letter in f"bound {self.of} {self.name.lower()}")
        return "_".join(words.split())


# ---------------------------------------------------------------------------------------------------------- algorithms
@dataclass(frozen=True, repr=False, eq=False)
class Algorithm(ABC, Generic[S]):
    """What an agent says in a round and what it makes of what it hears: pure functions of an explicit state S.

    A frozen dataclass of hyper-parameters, each a key `algorithm.<field>`, of any name but those used here. S is a
    named tuple of what the next round needs (a frozen dataclass takes three times as long to make); nothing else is
    remembered between rounds. No method may keep, change or draw anything: the state and the inbox are read only, and
    what is returned is new.

    Attributes:
        run: what the run knows, from public constants.
    """

    run: Run

    decomposable: ClassVar[bool]  # whether every agent has a loss of its own, or all share one and decide a block each
    mixings: ClassVar[tuple[str | type[Mixing], ...]]  # the weights that it may be run with, the default first

    paper: ClassVar[str] = ""  # where it is from: authors, title, year, algorithm
    defaults: ClassVar[Mapping[str, Any]] = {}  # of an experiment: what `algorithm.name` alone is to run with
    vectors: ClassVar[tuple[str, ...]] = ("x",)  # the names of the vectors of a message; one: a `Query`, else `Queries`
    hidden: ClassVar[tuple[str, ...]] = ()  # the names of hidden parts, in the order of `Hidden.transition`
    takes_steps: ClassVar[bool] = True  # whether it has steps along a gradient, `run.step`
    only_agents: ClassVar[int | None] = None  # the one number of agents that it is for
    mechanism: ClassVar[str] = "laplace"  # the only one that it is for
    averaging: ClassVar[Literal["uniform", "linear"]] = "uniform"  # weights of iterates in the average: 1, or t
    judged_by: ClassVar[Literal["average", "last"] | None] = None  # offline: which decision its optimality gap is of
    modulus_share: ClassVar[float] = 1.0  # of the losses' strong convexity, the largest modulus for its steps
    unconstrained: ClassVar[bool] = False  # whether it never projects
    gradients_in_set: ClassVar[bool] = False  # whether `update` takes gradients at points of 𝒳 alone; said with it
    whole_data: ClassVar[bool] = False  # whether it needs all samples in every round
    solves: ClassVar[bool] = False  # whether it minimizes its losses, by `Loss.prox` or a `Solve`
    random_start: ClassVar[bool] = False  # whether `init` is given a draw of N(0, I) instead of 0
    decides_release: ClassVar[bool] = False  # whether its decision of a round is what it releases then
    anytime: ClassVar[bool] = False  # whether it works without T: its `run.rounds` is then no number that a run has
    exact_minimizers: ClassVar[bool] = False  # whether what is proven is proven of its losses' minimizers alone
    claims_agents: ClassVar[bool] = False  # whether `claimed_epsilon` is of adjacency one-agent too
    # Whether what it does is defined where it hears from fewer than its graph says, and where what it hears was said in
    # earlier rounds; of its own it always has the newest. Unsaid, it is not run with such faults.
    bears_loss: ClassVar[bool] = False
    bears_delay: ClassVar[bool] = False
    # Whether what is proven of an agent's own losses is so against all other agents together, whatever they send: what
    # it mixes of its own is its release, and no number that its messages state rests on what it heard. Not inherited.
    against_colluders: ClassVar[bool] = False

    @abstractmethod
    def init(self, x: Vector) -> S:
        """The state before round 1, from a data-free x: (d,)."""

    @abstractmethod
    def message(self, s: S, here: Neighborhood) -> Message:
        """What the agent wants its neighbors to know in this round."""

    @abstractmethod
    def update(self, s: S, here: Neighborhood, inbox: Inbox, loss: Loss) -> S:
        """The state of the next round, once f^t is revealed."""

    @abstractmethod
    def decision(self, s: S) -> Vector:
        """The agent's full estimate (d,), from which its decision is read, unless it `decides_release`."""

    def validate(self) -> None:
        """Check hyper-parameters against each other and against the run.

        Raises:
            ValueError: they do not fit; says what would.
        """

    def claimed_epsilon(self, rounds: int, passes: int) -> float | Sequence[float] | None:
        """The paper's own pure ε for the first `rounds` rounds, of all agents or of each; None: it claims nothing.

        Args:
            rounds: of the run.
            passes: over the data: how often a sample may have been used.
        """
        return None

    def bounds(self, setup: Setup, horizons: Horizons, minimizer: Vector) -> list[Bound]:
        """What the paper's theorems say of this run, at each horizon (h,); minimizer: (h, d), that of each."""
        return []

    def carried_on(self, t: int) -> float | None:
        """c, where every agent's message of round t > 1 is c Σ_j a_ij h_j of the round before, and what its data add.

        What they add must be the same whatever was heard, and in all rounds of one direction: so for gradients that are
        affine with a public linear part, of losses that stay the same, without projection and unclipped. None: it is
        not known to be so.
        """
        return None

    @property
    def settled_below(self) -> float:
        """End the run once, in some round, no agent's relay has changed by more than this, relatively; 0: never."""
        return 0.0

    @property
    def solver_tolerance(self) -> float:
        """The gradient norm to which local problems are solved, where it `solves`."""
        return 0.0


# ------------------------------------------------------------------------------------------------------------- mixings
class GraphFacts(Struct, frozen=True, dict=True):
    """Public facts of a run's graph, found when they are asked for.

    Attributes:
        agents: n.
    """

    agents: int
    of_eulerian: Callable[[], bool]
    of_edges: Callable[[], int]
    of_laplacian: Callable[[], float]

    @cached_property
    def is_eulerian(self) -> bool:
        """Whether each agent hears as many as it sends to, in every round."""
        return self.of_eulerian()

    @cached_property
    def most_edges(self) -> int:
        """The largest number of edges of any round, one for each way."""
        return self.of_edges()

    @cached_property
    def laplacian_max(self) -> float:
        """The largest eigenvalue of the Laplacian of any round."""
        return self.of_laplacian()


@dataclass(frozen=True, repr=False, eq=False)
class Mixing(ABC):
    """Weights a_ij, and the public scalars that an agent sends so that receivers can know them.

    It is never given state or loss of an algorithm: what it says is made of the graph alone.

    Attributes:
        graph: public facts of it.
    """

    graph: GraphFacts

    undirected: ClassVar[bool] = False  # whether it needs every edge both ways
    fixed: ClassVar[bool] = False  # whether it needs the same graph in every round
    anytime: ClassVar[bool] = False  # whether it works without facts of the graphs of all rounds: it is given none
    # Under faults, `here` has whom an agent hears in a round, and who hears, then or later, what it says in it.
    under_faults: ClassVar[str] = ""  # what its weights keep then, for people; empty: they are not run with faults
    # Of what one sender said in several rounds and comes in one: the newest is heard, or each, a sender for each.
    hears: ClassVar[Literal["newest", "each"]] = "newest"

    @property
    def width(self) -> int:
        """How many scalars travel with each release."""
        return 0

    def init(self, agent: int) -> Any:
        """The state before round 1; by default there is none."""
        return None

    def outgoing(self, s: Any, here: Neighborhood) -> Sequence[float] | Vector:
        """The `width` scalars that go out with this round's release."""
        return ()

    @abstractmethod
    def weights(self, s: Any, here: Neighborhood, incoming: Sequence[Vector]) -> tuple[Any, Sequence[float], float]:
        """New state, weights (k,) and scale, from the scalars of every sender (own among them, ascending)."""


# ---------------------------------------------------------------------------------------------------------- mechanisms
@dataclass(frozen=True, repr=False, eq=False)
class Mechanism(ABC):
    """Adds noise to a query.

    Attributes:
        epsilon: `privacy.epsilon`, by which the noise is divided; inf: no noise.
        constant: c of `privacy.scale`: the scale is c/epsilon whatever the sensitivity; None: calibrated.
        backend: `noise.backend`, the arithmetic of its noise, one of `backends`.
    """

    epsilon: float = inf
    constant: float | None = None
    backend: str = "numpy"

    takes_the_place_of: ClassVar[str] = "laplace"  # for a user's own: which one's calibrations it takes
    backends: ClassVar[tuple[str, ...]] = ("numpy",)

    @abstractmethod
    def release(self, query: Query, t: int, noise: Draws, out: Vector) -> Event:
        """Write the noised value to `out`: (d,), and say what was released; one draw serves every receiver.

        `query.calibration` says what the noise is calibrated to: for Laplace noise an L1 sensitivity (None: `l1`), for
        Gaussian noise its standard deviation, for gamma-norm noise the inverse of its rate (None: `l2`).

        Args:
            query: what is to be said.
            t: the round.
            noise: whose generator of round t is `noise.at(t)`; the only randomness there is.
            out: where the release is written.
        """


# -------------------------------------------------------------------------------------------------------------- losses
class Loss(ABC):
    """f^t as one agent sees it: a loss of its samples, and perhaps a regularizer (λ/2)‖x‖²."""

    __slots__ = ()

    @property
    def played(self) -> Vector | None:
        """Of bandit feedback, the point (d,) between those played, once they are; None: gradients are revealed."""
        return None

    @abstractmethod
    def value(self, x: Vector) -> float:
        """f(x) at x: (d,)."""

    @abstractmethod
    def grad(self, x: Vector, block: slice = ALL) -> Vector:
        """The coordinates `block` of ∇f(x) as a new vector; the samples' part of it is clipped."""

    @abstractmethod
    def data_grad(self, x: Vector, block: slice = ALL) -> Vector:
        """The same without the regularizer."""

    @abstractmethod
    def prox(self, v: Vector, step: float, near: Vector, tolerance: float) -> Solved:
        """Argmin f(x) + ‖x − v‖²/(2·step), of the loss unclipped, to a gradient norm, from a point near it."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class SampleLoss(Loss):
    """A loss of samples (a_k, b_k): f(x) = Σ_k ℓ(x; a_k, b_k)/divisor + (λ/2)‖x‖².

    `losses.linear` has the usual case, ℓ a function of a_k·x: a new loss is then three short methods.
    One with a gradient of its own is clipped once more, sample by sample, before an agent sees it (`losses.enforced`).

    Attributes:
        features: (k, d) the a_k as rows, dense or a sparse CSR array.
        targets: (k,) the b_k.
        clip: L2 bound on the gradient (restricted to the block asked for) of one sample or, where `whole`,
            of the round; inf = not clipped.
        whole: clip the round's gradient rather than each sample's.
        divisor: 1 for the sum over the round's samples, k for their mean; or one for each sample, (k,).
        regularizer: λ.
    """

    features: Features
    targets: Vector
    clip: float = inf
    whole: bool = False
    divisor: float | Vector = 1.0
    regularizer: float = 0.0

    needs_labels: ClassVar[bool] = False  # targets are ±1
    predicts: ClassVar[bool] = False  # whether a_k·x is meant to be near b_k, where targets are real
    per_class: ClassVar[bool] = False  # targets are classes 0, 1, ..., and x has a row of coordinates for each of them
    has_prox: ClassVar[bool] = False  # whether `prox` is there: ℓ is twice differentiable
    convex: ClassVar[bool] = False  # whether ℓ is known to be convex in x for every sample
    sample_modulus: ClassVar[float] = 0.0  # of strong convexity, of one sample's loss in x

    @classmethod
    def sample_sensitivity(cls, norm: float) -> float:
        """The most that replacing a sample moves its gradient by at one point, features having norms up to this.

        Inf: clipping alone is relied on.
        """
        return inf

    @classmethod
    def sample_smoothness(cls, norm: float, other: float) -> float:
        """The most that a sample's gradient, over a block where its features have this norm, moves per move of x.

        Inf: nothing is known.

        Args:
            norm: of the features in the block.
            other: of those that the move is along.
        """
        return inf

    @classmethod
    def slope_bound(cls) -> float:
        """Sup |ℓ'| in the prediction a_k·x; inf where there is none."""
        return inf

    @classmethod
    def hessian_rank(cls, dimension: int) -> int:
        """Return the largest rank of a sample's Hessian, less what all samples share; unless stated, the full one."""
        return dimension

    @classmethod
    def value_rounding(cls, dimension: int, norm: float, radius: float) -> float:
        """Return how far rounding can move the computed loss of a sample; inf: unknown.

        Args:
            dimension: d.
            norm: the largest L2 norm of the sample's features.
            radius: the largest L2 norm of the point.
        """
        return inf

    def grad(self, x: Vector, block: slice = ALL) -> Vector:
        """The coordinates `block` of ∇f(x), the samples' part clipped, as a new vector."""
        gradient = self.data_grad(x, block)
        if self.regularizer:
            gradient += self.regularizer * (x if block is ALL else x[block])
        return gradient

    def prox(self, v: Vector, step: float, near: Vector, tolerance: float) -> Solved:
        """See `Loss.prox`; unless stated there is none."""
        raise NotImplementedError(f"{type(self).__name__} has no prox")

    @classmethod
    def predict(cls, features: Features, points: Vector, labels: Vector) -> NDArray[Any]:
        """Return which label each point predicts for each sample: unless stated, the one with the least loss.

        Args:
            features: (k, d).
            points: (d, p), each a column.
            labels: (K,) all that targets can be.

        Returns:
            (k, p) places in `labels`.
        """
        k = features.shape[0]
        losses = [cls.values(features, np.full((1, k), label), points.T[None])[0] for label in labels]
        return np.asarray(np.argmin(losses, axis=0).T)

    @classmethod
    @abstractmethod
    def values(cls, features: Features, targets: Vector, points: Vector) -> Vector:
        """Losses of single samples, unclipped, unaveraged, unregularized, at many points: (g, p, k).

        Of g groups of points, each is for k samples of its own; or all are for the same k.

        Args:
            features: (g k, d), group by group, or (k, d); dense or a sparse CSR array.
            targets: (g, k), or (1, k).
            points: (g, p, d).
        """


# ------------------------------------------------------------------------------------------------------------- streams
MakeLoss = Callable[[Features, Vector], SampleLoss]  # features (k, d), targets (k,)


class Recurring(Struct, frozen=True):
    """What `Stream.merged` gives where an agent has so many samples and no others, which come again and again.

    Attributes:
        features, targets: of all that it has.
        size: how many come in a round.
        make_loss: the loss of a round from its samples.
        places: by first and last round, which come, one after the other.
    """

    features: Features
    targets: Vector
    size: int
    make_loss: MakeLoss
    places: Callable[[int, int], NDArray[np.int64]]

    def __call__(self, first: int, last: int) -> SampleLoss:
        """See `Stream.merged`."""
        rows = self.places(first, last)
        one = self.make_loss(self.features[rows[: self.size]], self.targets[rows[: self.size]])
        return replace(one, features=self.features[rows], targets=self.targets[rows])


def files_of(path: Path) -> list[Path]:
    """Return the file itself, those of a pattern with {agent} in its name, or those of a directory, by name."""
    files = path.iterdir() if path.is_dir() else path.parent.glob(path.name.replace("{agent}", "*"))
    return sorted(file for file in files if file.is_file())


@dataclass(frozen=True, repr=False, eq=False)
class Stream(ABC):
    """Where the losses come from: alike on every rank that builds it, random access in t.

    `streams.labelled.LabelledStream` has the usual case, a fixed set of samples dealt to the agents: a new one is then
    one method that opens the data.

    All that it says here, but for the losses themselves, must be public: known without looking at any sample's values,
    as the dimension, the bounds, what becomes −1 and +1, and who has which samples. How many samples there are is
    public by definition: adjacent data sets differ in one that is replaced. What is read off the data after all must
    be named in `unproven_because`.

    Attributes:
        seed: of the data, their shares and their order.
        agents: n.
        make_loss: the loss of a round from its samples.
    """

    seed: int
    agents: int
    make_loss: MakeLoss

    defaults: ClassVar[Mapping[str, Any]] = {}  # of an experiment: what `data.name` alone is to run with
    remark: ClassVar[str] = ""  # on the noise of the default run
    lengthens: ClassVar[tuple[str, ...]] = ()  # settings that only say how long it lasts, and change no round's losses
    public: ClassVar[str] = ""  # a sentence: which choice of samples, made before adjacency, is taken to be public
    # Whether its samples are drawn from the seed, another data set for each; False: a row is the same sample whatever
    # the seed, which deals and orders them alone. None, nothing said: the same samples, in an order that nobody knows.
    drawn_from_seed: ClassVar[bool | None] = None

    @property
    @abstractmethod
    def title(self) -> str:
        """What a person would call it."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Features of a sample: d, but for a loss that has so many for each class."""

    @property
    @abstractmethod
    def rounds(self) -> int | None:
        """How long it lasts; None: for ever."""

    @property
    def source_files(self) -> Sequence[Path]:
        """The files that samples are read from; unless stated, those that settings `file` and `dir` name.

        The noise depends on their contents, so that runs on different data never share noise.
        """
        named = (getattr(self, key, "") for key in LOCATIONS)
        return [file for word in named if word for file in files_of(Path(word))]

    @property
    def has_labels(self) -> bool:
        """Whether targets are labels ±1."""
        return False

    @property
    def classes(self) -> int:
        """How many there are, where targets are classes 0, 1, ...; 0: they are none."""
        return 0

    @property
    def feature_bound(self) -> float:
        """The largest |entry| of a feature, known without looking at the data; inf: unknown."""
        return inf

    @property
    def feature_norm(self) -> float:
        """The largest ‖·‖₂ of a sample's features, likewise."""
        return inf

    @property
    def unproven_because(self) -> str:
        """What is read off the data, so that nothing is proven, and what would mend it; empty: nothing is."""
        return ""

    @property
    def makes_all_losses(self) -> bool:
        """Whether each loss is surely made by `make_loss`, of `batch` samples within the bounds that are stated here.

        Where it is not, constants of the loss's class bound nothing, and the gradient of a round that differs from what
        is stated is cut as a whole to half the sensitivity that is accounted for. Where a user's stream states that it
        is, each loss is verified, and a run ends at the first that was made otherwise (`losses.enforced`).
        """
        return False

    @property
    def shares(self) -> Sequence[NDArray[np.int64]] | None:
        """By agent, the numbers of its samples; None: there is no end of them."""
        return None

    def source_rows(self, agent: int) -> NDArray[np.int64] | None:
        """By the numbers that `samples` has of this agent's, their rows in the source; None: there are none."""
        return None

    @abstractmethod
    def of(self, agent: int) -> Callable[[int], Loss]:
        """The losses that this agent sees, by round from 1."""

    def merged(self, agent: int) -> Callable[[int, int], SampleLoss]:
        """By first and last round, the losses of these rounds as one: their samples, round by round.

        All else is as in the first of them. Who judges a run reads its samples so, many rounds at a time; of a
        `Recurring` each sample once.
        """
        losses: Callable[[int], Any] = self.of(agent)

        def read(first: int, last: int) -> SampleLoss:
            seen = [losses(t) for t in range(first, last + 1)]
            features, targets = stack([loss.features for loss in seen]), np.concatenate([loss.targets for loss in seen])
            merged: SampleLoss = replace(seen[0], features=features, targets=targets)
            return merged

        return read

    @abstractmethod
    def samples(self, agent: int) -> Callable[[int], Sequence[int]]:
        """By round, the number of each of the agent's samples, in the order of the rows of its loss."""

    def groups(self, agent: int) -> Callable[[int], Sequence[int]]:
        """By round, numbers from 0 for the agent's samples; samples that are always used together may share one.

        Agents whose samples come alike should get equal answers.
        """
        return self.samples(agent)

    def passes(self, rounds: int) -> int:
        """How often a sample may have been used in so many rounds."""
        return 1

    def labelled(self) -> Mapping[str, Any]:
        """The "train" and "test" sets, each a `formats.Source` of labels ±1 or classes; empty where there are none."""
        return {}

    def real_valued(self) -> Mapping[str, Any]:
        """The "train" and "test" sets with real targets, as `labelled`; empty where there are none."""
        return {}

    def forget(self) -> None:  # noqa: B027 (most have nothing to let go of)
        """Let go of what was read from files; losses that `of` made keep their own samples."""


def is_built_in(stream: Stream) -> bool:
    """Return whether a stream is of this package, whose statements are taken at their word."""
    return type(stream).__module__.startswith("mpinodes.streams.")


# ---------------------------------------------------------------------------------------------------------- topologies
Agents = Annotated[int, Meta(ge=1, description="how many; under mpirun it must be the ranks less the logger")]


@dataclass(frozen=True, repr=False, eq=False)
class Topology(ABC):
    """A possibly time-varying graph: who hears whom in round t, a pure function of t, alike on every rank.

    Edge (j, i) means: j sends to i. `topology.base` has the two usual cases: `Periodic`, sets of edges that repeat, and
    `EachRound`, a graph drawn anew in every round.

    Attributes:
        agents: n.
        seed: the run's, for graphs that are drawn; no key of its own.
    """

    agents: Agents
    seed: int = field(default=0, kw_only=True)

    from_file: ClassVar[bool] = False  # whether `topology.undirected` makes its edges go both ways

    @property
    @abstractmethod
    def title(self) -> str:
        """What a person would call it."""

    @property
    def source(self) -> str:
        """What error messages call it: its file, where it is from one."""
        return f"topology {self.title!r}"

    @property
    @abstractmethod
    def period(self) -> int | None:
        """After how many rounds the graph repeats; None: never."""

    @abstractmethod
    def edges(self, t: int) -> Edges:
        """The edges of round t = 1, 2, ..."""

    @abstractmethod
    def sends(self, t: int) -> Matrix:
        """The same as an (n, n) matrix, read only: at [j, i] whether j sends to i."""

    @abstractmethod
    def neighborhood(self, t: int, agent: int) -> Neighborhood:
        """An agent's place in round t."""


@dataclass(frozen=True, repr=False, eq=False)
class Links(ABC):
    """What gets through of a run's messages, and when: a pure function of t, alike on every rank.

    Attributes:
        graph: on whose edges they are sent.
        most_late: rounds that one comes late at most.
    """

    graph: Topology
    most_late: int

    @abstractmethod
    def neighborhood(self, t: int, agent: int) -> Neighborhood:
        """An agent's place in round t: whom it hears, and who hears, then or later, what it says."""

    @abstractmethod
    def heard(self, t: int, agent: int) -> tuple[tuple[int, int], ...]:
        """What an agent hears in round t: (sender, round in which it was said), ascending, its own among them."""

    @abstractmethod
    def carried(self, t: int, agent: int) -> Neighborhood:
        """Whose messages of round t get through to an agent, then or later, and to whom its own does."""

    @abstractmethod
    def lateness(self, t: int) -> NDArray[np.int64]:
        """By how many rounds what j says to i in round t comes late, at [j, i]; −1: it is lost, or was never said."""

    @abstractmethod
    def away(self, t: int) -> NDArray[np.bool_]:
        """Which agents are away in round t: (n,)."""

    @abstractmethod
    def sends(self, t: int) -> Matrix:
        """Whether j says anything to i in round t, lost or not, at [j, i]."""


# ------------------------------------------------------------------------------------------------------------- set-ups
@dataclass(frozen=True, repr=False, eq=False)
class Setup:
    """All that one run is made of, alike on every rank.

    Attributes:
        experiment: every choice made.
        topology, stream, feasible, algorithm, mixing, mechanism: its parts.
        run: what the algorithm knows of it.
        samples: that an agent sees in a round, by agent.
        losses: by agent, the losses that it sees by round, with the stochastic error of its gradients.
        make_key: makes `noise_key` of this set-up.
        cut: of an agent and a loss, the loss whose gradients keep the clip; None: those of `losses` surely do.
        metrics: of the run, the built-in ones first; on the rank of the logger alone.
        endless: whether agents go on when all have settled (`Algorithm.settled_below`).
        links: what gets through; None: all does, at once.
        connected_over: B: the union of the graphs of any B rounds is strongly connected; 0: not looked at.
        loss: the class of the losses' samples.
    """

    experiment: Experiment
    topology: Topology
    stream: Stream
    algorithm: Algorithm[Any]
    mixing: Mixing
    mechanism: Mechanism
    loss: type[SampleLoss]
    run: Run
    samples: tuple[int, ...]
    losses: Callable[[int], Callable[[int], Loss]]
    make_key: Callable[[Setup], bytes]
    cut: Callable[[int, Loss], Loss] | None = None
    connected_over: int = 0
    metrics: tuple[type[Metric], ...] = ()
    endless: bool = False
    links: Links | None = None

    @cached_property
    def noise_key(self) -> bytes:
        """What noise and dither are drawn from, where the seed is to give them again: 32 bytes, never written.

        Raises:
            OSError: a file that the experiment names cannot be read.
        """
        return self.make_key(self)

    @property
    def reached(self) -> Topology | Links:
        """Whom an agent's messages reach in a round, and whose reach it: by its topology, and what gets through."""
        return self.links or self.topology

    @property
    def dimension(self) -> int:
        """D."""
        return self.run.dimension

    @property
    def blocks(self) -> tuple[slice, ...]:
        """By agent, the coordinates that its gradients are taken of."""
        return self.run.blocks

    @property
    def feasible(self) -> Set:
        """𝒳."""
        return self.run.feasible

    @property
    def frame_width(self) -> int:
        """Floats of a frame: header, releases, the mixing's scalars."""
        return HEADER + len(self.algorithm.vectors) * self.dimension + self.mixing.width

    @property
    def layout(self) -> Layout:
        """Of the rows that agents hand to the logger."""
        frame = self.frame_width if self.experiment.record.transcript else 0
        return Layout(self.dimension, self.algorithm.vectors, self.algorithm.hidden, frame)


# ------------------------------------------------------------------------------------------------------------- metrics
class Stretch(Struct, frozen=True):
    """Some rounds in a row of a run, as they come, to a metric.

    With n agents, and k deciders: 1, the network, of a nondecomposable objective; n of a decomposable one.

    Attributes:
        rounds: (r,) their numbers, from 1.
        estimates: (r, n, d) every agent's.
        decisions: (r, k, d) every decider's.
        losses: (r,) what the network lost.
        agent_losses: (r, n) what it would have lost with each agent's estimate; where `record.agent_regret_every` has
            it found in some rounds alone, estimated in the others.
        training_losses: (r,) the mean over agents of the mean loss of their own samples; None: losses change by round.
    """

    rounds: NDArray[np.int64]
    estimates: Vector
    decisions: Vector
    losses: Vector
    agent_losses: Vector
    training_losses: Vector | None


class Judged(Struct, frozen=True):
    """A run that has ended, as it stood at its h horizons, to a metric.

    Attributes:
        horizons: (h,) rounds, ascending, the last one the run's last.
        agents: n.
        judged_by: which decision of an offline method its optimality gap is of; None: it is an online one.
        total: (h, 2 + n) what was lost up to there: by the network, its running averages, with each agent's estimate.
        last, mean: (h, d) last and average decision, averaged over the deciders.
        judged: (h, k, d) the decisions that an offline method is judged by.
        whole: (h, k) the mean over rounds and agents of all losses of the run, there.
        accuracy: by set, (h, 2, k) shares of labels that the average and the last decision get right.
        rmse: by set of real targets, (h, 2, k) the root of the mean squared error of theirs.
        least: (h,) what the best fixed decision would have lost up to there.
        best: (h, d) that decision.
        within: (h,) it may be above the minimum by this.
        best_of_rounds: (2, h) the same of the best decision of every single round, and the path length of these; None:
            not asked for.
        losses: t -> Σ over rounds up to t and agents of their losses, unclipped.
    """

    horizons: NDArray[np.int64]
    agents: int
    judged_by: Literal["average", "last"] | None
    total: Vector
    last: Vector
    mean: Vector
    judged: Vector
    whole: Vector
    accuracy: Mapping[str, Vector]
    rmse: Mapping[str, Vector]
    least: Vector
    best: Vector
    within: Vector
    best_of_rounds: Vector | None
    losses: Callable[[int], Loss]


@dataclass
class Metric(ABC):
    """An array of numbers that is told of a run: `name` in record.h5, its last entry by round or horizon at `key`.

    A class of one file with these attributes and one of the two methods; each run has an instance of its own, which may
    remember what it took. Where a number is the agents', the summary has their mean too, at `<key>_mean`; where it is
    read per round, that at `<key>_per_round`. Summary and page print what stands there, under `label`.
    """

    name: ClassVar[str]  # of the variable of record.h5
    dims: ClassVar[tuple[str, ...]]  # of its axes: "round" or "horizon", and then perhaps "agent" or "coordinate"

    key: ClassVar[str] = ""  # of summary.json, dotted where it is within another; by default the name
    label: ClassVar[str] = ""  # in summary, page and figures; by default the name's words
    long_name: ClassVar[str] = ""  # of what record.h5 has, where it is not what the label says; by default the label
    unit: ClassVar[str] = ""  # "share": one of 1, printed as a percentage
    per_round: ClassVar[bool] = False  # whether it adds up by round, and is read divided by the rounds
    sums_agents: ClassVar[bool] = False  # whether it is a sum over the agents where each has losses of its own
    repeats: ClassVar[Literal["mean", "largest", "least", "sum", "same"]] = "mean"  # a mean comes with its spread
    summarized: ClassVar[bool] = True  # whether summary.json has it
    shown: ClassVar[bool] = True  # whether summary and page print it

    def take(self, rounds: Stretch) -> Vector | None:
        """The values of these rounds, of a metric by round: (r, ...); None: it has none, or is one by horizon."""
        return None

    def judge(self, run: Judged) -> Vector | None:
        """The values at the horizons, of a metric by horizon: (h, ...); None: this run has none."""
        return None
