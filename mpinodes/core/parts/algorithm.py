"""The contract of algorithms, and what an algorithm knows of its run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from mpinodes.core.messages import Inbox, Message, Neighborhood, Vector
from mpinodes.core.parts.feasible import Set
from mpinodes.core.parts.loss import Loss
from mpinodes.core.parts.mixing import Mixing
from mpinodes.core.parts.schedule import Schedule

S = TypeVar("S")
Horizons = NDArray[np.int64]  # (h,) rounds from 1, ascending


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
    steps: Schedule | None
    gdp: Callable[[float, float], float] = field(repr=False)
    grad_rounding: tuple[float, ...] = ()

    @cached_property
    def step(self) -> Schedule:
        """α: the step of round t = 1, 2, ...

        Raises:
            ValueError: the algorithm says that it takes none (`Algorithm.takes_steps`).
        """
        if self.steps is None:
            raise ValueError("this algorithm takes no steps along a gradient: it has takes_steps = False")
        return self.steps


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

    def bounds(self, setup: Any, horizons: Horizons, minimizer: Vector) -> list[Bound]:
        """Return what the paper's theorems say of a run.

        Args:
            setup: the `Setup` of the run, which knows this class.
            horizons: (h,) the rounds that the bounds are for.
            minimizer: (h, d) the best fixed decision of each horizon.
        """
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
