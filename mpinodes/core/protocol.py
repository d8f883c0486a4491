"""What the parts of a round say to each other.

An algorithm never sends: it returns a `Query` or a `Solve`, and its agent releases it through the mechanism, the one
place that adds noise; or a `Start` or a `Relay`, which have no field for data to be in. What else travels un-noised is
made by a `Mixing`, which is never given state or loss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from math import sqrt
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from mpinodes.core.seeds import Draws

Vector = NDArray[np.float64]
Features: TypeAlias = Any  # (k, d): a dense array, or a scipy.sparse.csr_array
S = TypeVar("S")


@lru_cache(maxsize=4096)
def _ascending(inn: tuple[int, ...], me: int) -> tuple[int, ...]:
    return tuple(sorted((*inn, me)))


@dataclass(frozen=True, slots=True)
class Round:
    """Agent `me`'s place in round `t` (from 1): its graph neighbours, ascending, never containing `me`."""

    t: int
    me: int
    inn: tuple[int, ...]
    out: tuple[int, ...]

    @property
    def senders(self) -> tuple[int, ...]:
        """Whose releases this agent mixes: its in-neighbours and itself, ascending."""
        return _ascending(self.inn, self.me)


@dataclass(frozen=True, slots=True)
class Query:
    """A vector that an algorithm wants to say, with what the mechanism must know to release it.

    Attributes:
        value: (d,) the clean vector.
        l1: L1 sensitivity of the value given everything released before; `inf` where nothing bounds it.
        l2: L2 sensitivity, likewise.
        uses: the round whose loss first reaches the network with this value; 0: none does.
        hidden_gain: what an older change of L2 size 1 in the agent's last message (beyond what was released) makes of
            this one, by public constants; 0: nothing, the step starts from what was released; inf: no bound.
        hidden_cap: what an older change makes of this message at most by that gain, in L2. Its L1 size is at most l1/l2
            times its L2 size.
        hidden_keep: what an older change of L2 size 1 makes of this message beside that, without a cap: a regularizer's
            share, taken at a hidden point.
        nominal: what the noise is calibrated to; None: l1. For Laplace noise an L1 sensitivity, a paper's own where
            that is not l1; for gamma-norm noise the inverse of its rate, for Gaussian noise its standard deviation. 0:
            a message that in this paper carries no noise.
        residual, solver_steps: of the local solve that made the value, where one did, as in `Solved`.

    Raises:
        ValueError: a sensitivity that is not positive, or a gain, cap, share or nominal sensitivity below 0.
    """

    value: Vector
    l1: float
    l2: float
    uses: int
    hidden_gain: float = 0.0
    hidden_cap: float = 0.0
    hidden_keep: float = 0.0
    nominal: float | None = None
    residual: float = 0.0
    solver_steps: int = 0

    def __post_init__(self) -> None:
        if not (self.l1 > 0 and self.l2 > 0):
            raise ValueError(f"a sensitivity must be > 0, not L1 {self.l1}, L2 {self.l2}")
        hidden = (self.hidden_gain, self.hidden_cap, self.hidden_keep)
        if not all(share >= 0 for share in hidden):
            raise ValueError(f"hidden gain, cap and keep must be >= 0, not {hidden}")
        if self.nominal is not None and not self.nominal >= 0:
            raise ValueError(f"the nominal sensitivity must be >= 0, not {self.nominal}")


@dataclass(frozen=True, slots=True)
class Solve:
    """A minimizer that an algorithm wants to say: of f(x) + ‖x − center − e‖²/(2·step), e the mechanism's noise.

    The center is made of what was released alone; all that is private is in f.

    Attributes:
        center: (d,).
        step: of the proximal operator.
        near: (d,) where the solver begins.
        uses: the round whose loss f is.
        l2: how far apart two centers with noise are, in L2, that give the same minimizer on adjacent data: step times
            the change of ∇f.
        log_volume: how far apart, on adjacent data, the logarithms of det(∂(center + e)/∂x) are.
        nominal: the inverse of the rate that the noise is calibrated to.
        tolerance: the largest gradient norm at which the minimizer counts as found.
        stretch: ‖x − minimizer‖ per gradient norm at x: the inverse of the strong convexity.
        grid: the release is rounded to multiples of it, after a uniform dither; 0: it is not.
    """

    center: Vector
    step: float
    near: Vector
    uses: int
    l2: float
    log_volume: float
    nominal: float
    tolerance: float
    stretch: float
    grid: float = 0.0


@dataclass(frozen=True, slots=True)
class Start:
    """The x that `init` was given, in round 1: no data has reached it, so it goes out as it is."""


@dataclass(frozen=True, slots=True)
class Relay:
    """The mix of what was heard in the round before, own release included: it tells nothing that was not said."""


Message: TypeAlias = Query | Solve | Start | Relay


class Solved(NamedTuple):
    """What a local solve found.

    Attributes:
        x: (d,).
        residual: the gradient's L2 norm there.
        steps: how many the solver took.
    """

    x: Vector
    residual: float
    steps: int


class Kind(IntEnum):
    """The law of a release's noise."""

    CLEAN = 0
    LAPLACE = 1
    GAUSSIAN = 2
    PURE = 3  # no shift of a fixed law, but l1/scale-DP all the same (penalty perturbation)


class Event(NamedTuple):
    """What one release was, for the ledger: floats, so that it travels to the logger in a row of numbers.

    The fields from `l1` to `hidden_keep` are those of the `Query`. Of a `Solve`, l1 and l2 are what divided by the
    scale gives the release's pure ε.
    """

    kind: float
    scale: float  # of the noise, per coordinate
    draws: float  # of noise on the same value: 1 where all receivers get the same release
    l1: float
    l2: float
    uses: float
    hidden_gain: float
    hidden_cap: float
    hidden_keep: float
    slip: float = 0.0  # total variation distance of the release to what is accounted for
    grain_l1: float = 0.0  # what rounding a value to a lattice adds to any change of it
    grain_l2: float = 0.0
    residual: float = 0.0  # of the local solve; it and what follows costs nothing
    solver_steps: float = 0.0

    @classmethod
    def of(cls, query: Query, kind: Kind, scale: float, grain: float = 0.0) -> Event:
        """The event of releasing a query once, rounded to multiples of `grain`; 0: as it is."""
        d = len(query.value)
        hidden = (query.hidden_gain, query.hidden_cap, query.hidden_keep)
        solve = (query.residual, query.solver_steps)
        return cls(kind, scale, 1.0, query.l1, query.l2, query.uses, *hidden, 0.0, d * grain, sqrt(d) * grain, *solve)


NOTHING_SAID = Event(Kind.CLEAN, 0.0, 1.0, 0.0, 0.0, 0, 0.0, 0.0, 0.0)  # the event of a `Start` or a `Relay`


@dataclass(frozen=True, slots=True)
class Inbox:
    """The releases of one round as agent i hears them, its own among them, in ascending order of sender.

    Attributes:
        releases: k vectors (d,).
        row: (k,) the weights a_ij, in the same order.
        scale: what the mixed vector has to be divided by (push-sum's w_i); 1 where the mixing has none.
        own: (d,) the agent's own release.
    """

    releases: Sequence[Vector]
    row: Sequence[float]
    scale: float
    own: Vector

    def mix(self) -> Vector:
        """Σ_j a_ij h_j as a new (d,) vector, summed in ascending order of j."""
        # One elementwise product at a time, not a gemv: the order of summation, and so every bit, is then
        # the same in lockstep, under any MPI and on any BLAS.
        mixed = self.row[0] * self.releases[0]
        for weight, release in zip(self.row[1:], self.releases[1:], strict=True):
            mixed += weight * release
        return mixed


class Loss(Protocol):
    """f^t as one agent sees it: a loss of its samples, and perhaps a regularizer (λ/2)‖x‖²."""

    def value(self, x: Vector) -> float:
        """f(x) at x: (d,)."""
        ...

    def grad(self, x: Vector, block: slice = ...) -> Vector:
        """The coordinates `block` of ∇f(x); the samples' part of it is clipped."""
        ...

    def data_grad(self, x: Vector, block: slice = ...) -> Vector:
        """The same without the regularizer."""
        ...

    def prox(self, v: Vector, step: float, near: Vector, tolerance: float) -> Solved:
        """Argmin f(x) + ‖x − v‖²/(2·step), of the loss unclipped, to a gradient norm, from a point near it."""
        ...


class Algorithm(Protocol[S]):
    """A frozen dataclass of hyper-parameters whose methods are pure functions of explicit state.

    Fields named like a fact of the run (`resolve.ALGORITHM_FACTS`, made in `parts`) are filled in by the experiment;
    every other field is a key `algorithm.<field>`.

    Class attributes, all but `decomposable` optional: `defaults`, the experiment it runs alone; `only_agents`, the one
    number of agents it is for; `average`, how the agents' iterates are averaged ("uniform" or "linear" in t);
    `offline`, that it is to be judged by an optimality gap, and of which iterate ("average" or "last");
    `modulus_share`, of the losses' strong convexity, the largest modulus for its steps; `unconstrained`, whether it
    never projects; `mechanism`, the only one it is for; `whole_data`, whether it needs all samples in every round;
    `random_start`, whether `init` is given a draw of N(0, I) instead of 0; `solves`, whether it minimizes its losses;
    `decides_release`, whether its decision of a round is what it releases then; `exact_minimizers`, whether what is
    proven is proven of their minimizers alone; `theorem`, the name of the file in
    bounds/ with the paper's bound. A field `stop`, where there is one, ends a run early: once in some round
    no agent's relay has changed by more than this, relatively, since the round before.
    """

    mixing: str
    decomposable: bool  # whether every agent has a loss of its own, or all share one and decide a block each

    def init(self, x: Vector) -> S:
        """The state before round 1, from a data-free x: (d,)."""
        ...

    def message(self, s: S, round: Round) -> Message:
        """What the agent wants its neighbours to know in this round."""
        ...

    def update(self, s: S, round: Round, inbox: Inbox, loss: Loss) -> S:
        """The state of the next round, once f^t is revealed."""
        ...

    def decision(self, s: S) -> Vector:
        """The agent's full estimate (d,), from which its decision is read, unless it `decides_release`."""
        ...


class Mechanism(Protocol):
    """Adds noise to a query."""

    def release(self, query: Query, t: int, noise: Seeds, out: Vector) -> Event:
        """Write the noised value to `out` and say what was released; one draw serves every receiver."""
        ...


class Stream(Protocol):
    """Where the losses come from: alike on every rank that builds it, random access in t."""

    dimension: int
    rounds: int | None  # how long it lasts; None: for ever
    title: str
    feature_bound: float  # largest |entry| of a feature, known without looking at the data
    feature_norm: float  # largest ‖·‖₂ of a sample's features, likewise

    def of(self, agent: int) -> Callable[[int], Loss]:
        """The losses that this agent sees, by round from 1."""
        ...

    def groups(self, agent: int) -> Callable[[int], Sequence[int]]:
        """By round, numbers from 0 for the agent's samples; samples that are always used together share one.

        Agents whose samples come alike get equal answers.
        """
        ...

    def samples(self, agent: int) -> Callable[[int], Sequence[int]]:
        """By round, the number of each of the agent's samples, in the order of the rows of its loss."""
        ...

    def labelled(self) -> Mapping[str, Any]:
        """The "train" and "test" sets, each a `formats.Source` of labels ±1; empty where there are no labels."""
        ...

    def forget(self) -> None:
        """Let go of what was read from files; losses that `of` made keep their own samples."""
        ...


class Diverged(RuntimeError):
    """The run has left what its method is sound for; the message says where and why."""


class Mixing(Protocol):
    """Weights a_ij, and the public scalars an agent sends so that receivers can know them.

    A dataclass whose fields are public facts of the topology (`agents`; `start`, the weight that balancing starts from;
    `laplacian_max`), filled in by the experiment.
    """

    @property
    def width(self) -> int:
        """How many scalars travel with each release."""
        ...

    def init(self, me: int) -> Any:
        """The state before round 1."""
        ...

    def say(self, s: Any, round: Round) -> Sequence[float]:
        """The `width` scalars that go out with this round's release."""
        ...

    def hear(self, s: Any, round: Round, said: Sequence[Vector]) -> tuple[Any, Sequence[float], float]:
        """New state, row and scale, from what every sender said (own among them, ascending)."""
        ...
