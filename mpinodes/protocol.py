"""What the parts of a round say to each other.

An algorithm never sends: it returns a `Query`, and its agent releases it through the mechanism, the one
place that adds noise. What travels un-noised is made by a `Mixing`, which is never given state or loss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from mpinodes.seeds import Stream as Seeds

Vector = NDArray[np.float64]
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
        hidden_cap: what an older change makes of this message at most, in L2. Its L1 size is at most l1/l2 times its
            L2 size.

    Raises:
        ValueError: a sensitivity that is not positive, or a gain or cap below 0.
    """

    value: Vector
    l1: float
    l2: float
    uses: int
    hidden_gain: float
    hidden_cap: float

    def __post_init__(self) -> None:
        if not (self.l1 > 0 and self.l2 > 0):
            raise ValueError(f"a sensitivity must be > 0, not L1 {self.l1}, L2 {self.l2}")
        if not (self.hidden_gain >= 0 and self.hidden_cap >= 0):
            raise ValueError(f"hidden gain and cap must be >= 0, not {self.hidden_gain}, {self.hidden_cap}")


class Kind(IntEnum):
    """The law of a release's noise."""

    CLEAN = 0
    LAPLACE = 1
    GAUSSIAN = 2
    PURE = 3  # no shift of a fixed law, but l1/scale-DP all the same (penalty perturbation)


class Event(NamedTuple):
    """What one release was, for the ledger: floats, so that it travels to the logger in a row of numbers.

    The fields from `l1` on are those of the `Query`.
    """

    kind: float
    scale: float  # of the noise, per coordinate
    draws: float  # of noise on the same value: 1 where all receivers get the same release
    l1: float
    l2: float
    uses: float
    hidden_gain: float
    hidden_cap: float

    @classmethod
    def of(cls, query: Query, kind: Kind, scale: float) -> Event:
        """The event of releasing a query once."""
        return cls(kind, scale, 1.0, query.l1, query.l2, query.uses, query.hidden_gain, query.hidden_cap)


@dataclass(frozen=True, slots=True)
class Inbox:
    """The releases of one round as agent i hears them, its own among them, in ascending order of sender.

    Attributes:
        releases: k vectors (d,).
        row: (k,) the weights a_ij, in the same order.
        scale: what the mixed vector has to be divided by (push-sum's w_i); 1 where the mixing has none.
    """

    releases: Sequence[Vector]
    row: Sequence[float]
    scale: float

    def mix(self) -> Vector:
        """Σ_j a_ij h_j as a new (d,) vector, summed in ascending order of j."""
        # One elementwise product at a time, not a gemv: the order of summation, and so every bit, is then
        # the same in lockstep, under any MPI and on any BLAS.
        mixed = self.row[0] * self.releases[0]
        for weight, release in zip(self.row[1:], self.releases[1:], strict=True):
            mixed += weight * release
        return mixed


class Loss(Protocol):
    """f^t as one agent sees it."""

    def value(self, x: Vector) -> float:
        """f(x) at x: (d,)."""
        ...

    def grad(self, x: Vector, block: slice = ...) -> Vector:
        """The coordinates `block` of ∇f(x), clipped."""
        ...


class Algorithm(Protocol[S]):
    """A frozen dataclass of hyper-parameters whose methods are pure functions of explicit state.

    Fields named like a fact of the run (`agents`, `dimension`, `blocks`, `step`, `feasible`, `change`, `spread`,
    `smoothness`) are filled in by the experiment; every other field is a key `algorithm.<field>`.
    """

    mixing: str

    def init(self, x: Vector) -> S:
        """The state before round 1, from a data-free x: (d,)."""
        ...

    def message(self, s: S, round: Round) -> Query:
        """What the agent wants its neighbours to know in this round."""
        ...

    def update(self, s: S, round: Round, inbox: Inbox, loss: Loss) -> S:
        """The state of the next round, once f^t is revealed."""
        ...

    def decision(self, s: S) -> Vector:
        """The agent's full estimate (d,), from which its decision is read."""
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

    def of(self, agent: int) -> Callable[[int], Loss]:
        """The losses that this agent sees, by round from 1."""
        ...

    def groups(self, t: int) -> Sequence[int]:
        """Numbers from 0 for the samples of round t; samples that are always used together share one."""
        ...

    def samples(self, t: int) -> Sequence[int]:
        """The number of every sample of round t, in the order of the rows of its loss."""
        ...

    def labelled(self) -> Mapping[str, tuple[Vector, Vector]]:
        """The "train" and "test" sets (features (N, d), labels ±1 (N,)); empty where there are no labels."""
        ...


class Mixing(Protocol):
    """Weights a_ij, and the public scalars an agent sends so that receivers can know them."""

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
