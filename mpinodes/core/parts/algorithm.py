"""Define the contract of algorithms, the public constants that an algorithm may use, and the bounds that it returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
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
    """Hold the facts of a run that its algorithm may use. All are public constants; none is computed from data.

    A bound on a gradient is a tuple with an entry for each agent. Such a gradient is clipped and restricted to the
    agent's block. The value inf means that no bound is known.

    Attributes:
        agents: n.
        rounds: T, the horizon. An algorithm that is `anytime` sees `sys.maxsize`, except in its `validate`.
        dimension: d.
        blocks: the coordinates of each agent's gradient: its own block, or all coordinates.
        degrees: the number of out-neighbors of each agent in round 1.
        feasible: the constraint set 𝒳.
        regularizer: λ, the weight of (λ/2)‖x‖² in every agent's loss of a round.
        private: whether the run adds noise to releases.
        epsilon, delta: `privacy.epsilon`, the paper's own parameter (inf means no noise), and `privacy.delta`.
        grad_sensitivity: the largest L2 change of the gradient at one point between adjacent data sets.
        grad_range: the largest L2 change of the samples' part of the gradient between any two points, on the same data.
            If the algorithm states `gradients_in_set`, the two points are in 𝒳.
        grad_lipschitz: the largest L2 change of that part per L2 change of the point.
        sample_weight: the factor on a sample's loss, for each agent.
        replaced: how many samples of one round an adjacent data set may replace, for each agent: one, or all.
        sample_sensitivity: half the largest change of a sample's unclipped gradient at one point when the sample is
            replaced.
        sample_curvature: the largest norm of a sample's Hessian; inf if it is unknown or the loss may be nonconvex.
        sample_rank: the largest rank of a sample's Hessian.
        least_modulus, largest_smoothness: bounds on the curvature of every agent's loss, including the regularizer: the
            modulus of strong convexity and the Lipschitz constant of the gradient.
        steps: the step schedule; None if the algorithm takes no steps (`step.kind`). Use `step` instead.
        gdp: maps (ε, δ) to the largest m for which m-GDP implies (ε, δ)-DP.
        grad_rounding: the largest L2 error of a two-point gradient estimate that rounding alone causes, for each agent;
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
        """Return the step schedule α, a function of the round t = 1, 2, ...

        Raises:
            ValueError: the algorithm states that it takes no steps (`Algorithm.takes_steps`).
        """
        if self.steps is None:
            raise ValueError("this algorithm states takes_steps = False, so the run has no step schedule")
        return self.steps


class Bound(NamedTuple):
    """A theorem's bound on a quantity that the run measures.

    Attributes:
        name: the theorem, and whether the bound is as printed in the paper or as checked by us.
        of: the variable of record.h5 whose mean over the noise is bounded.
        values: (h,) the bound at each horizon, in the unit of that variable; inf where the theorem gives nothing
            finite.
        applies: whether the run satisfies the theorem's assumptions.
        why: the assumption that the run violates, or the reason for infinite values; empty otherwise.
    """

    name: str
    of: str
    values: Vector
    applies: bool
    why: str

    @property
    def variable(self) -> str:
        """Return the name of the bound's own variable in record.h5."""
        words = "".join(letter if letter.isalnum() else " " for letter in f"bound {self.of} {self.name.lower()}")
        return "_".join(words.split())


@dataclass(frozen=True, repr=False, eq=False)
class Algorithm(ABC, Generic[S]):
    """Define an agent's messages and state updates as pure functions of an explicit state S.

    An algorithm is a frozen dataclass of hyper-parameters. Each field is a key `algorithm.<field>`; a field must not
    have the name of an attribute below. S is a named tuple of everything that the next round needs (a frozen dataclass
    takes three times as long to make). An algorithm remembers nothing else between rounds. A method must not store,
    change or draw anything: the state and the inbox are read-only, and a method returns new objects.

    Attributes:
        run: the public constants of the run.
    """

    run: Run

    # True: every agent has its own loss. False: all agents share the loss, and each decides a block of coordinates.
    decomposable: ClassVar[bool]
    # The mixings that the algorithm may run with; the first is the default.
    mixings: ClassVar[tuple[str | type[Mixing], ...]]

    # The source: authors, title, year and number of the algorithm.
    paper: ClassVar[str] = ""
    # The module that computes the bounds of the paper's theorems, by a function like `bounds` below; empty: none.
    theorems: ClassVar[str] = ""
    # Keys of the experiment that `algorithm.name` alone sets.
    defaults: ClassVar[Mapping[str, Any]] = {}
    # The probes that `audit` plays games on: by name, the keys that a probe adds to a small experiment.
    probes: ClassVar[Mapping[str, Mapping[str, Any]]] = {"": {}}
    # The names of the vectors in a message. With one vector a message is a `Query`, with several it is a `Queries`.
    vectors: ClassVar[tuple[str, ...]] = ("x",)
    # The names of the hidden parts of the state, in the order of `Hidden.transition`.
    hidden: ClassVar[tuple[str, ...]] = ()
    # Whether the algorithm takes gradient steps with `run.step`.
    takes_steps: ClassVar[bool] = True
    # The only number of agents that the algorithm supports; None: any.
    only_agents: ClassVar[int | None] = None
    # The only noise mechanism that the algorithm supports.
    mechanism: ClassVar[str] = "laplace"
    # The key of the setting that scales the noise, of an algorithm that has one in the place of `privacy.scale`.
    scale_key: ClassVar[str] = ""
    # The weight of the iterate of round t in the running average: 1 (uniform) or t (linear).
    averaging: ClassVar[Literal["uniform", "linear"]] = "uniform"
    # The decision whose optimality gap is reported, for an offline method; None: the algorithm is an online method.
    judged_by: ClassVar[Literal["average", "last"] | None] = None
    # The share of the losses' strong convexity that the step schedule uses as its modulus by default.
    modulus_share: ClassVar[float] = 1.0
    # Whether the algorithm never projects; the run then needs the constraint set R^d.
    unconstrained: ClassVar[bool] = False
    # Whether `update` takes gradients only at points of 𝒳. The class that defines `update` must state this itself.
    gradients_in_set: ClassVar[bool] = False
    # Whether an agent needs all its samples in every round.
    whole_data: ClassVar[bool] = False
    # Whether an agent minimizes its losses, by `Loss.prox` or a `Solve`.
    solves: ClassVar[bool] = False
    # Whether `init` receives a draw of N(0, I) instead of 0.
    random_start: ClassVar[bool] = False
    # Whether an agent's decision of a round is its release of that round, instead of `decision`.
    decides_release: ClassVar[bool] = False
    # Whether the algorithm works without knowing the horizon; `run.rounds` is then `sys.maxsize`, which no run has.
    anytime: ClassVar[bool] = False
    # Whether the privacy proof assumes that local solvers return exact minimizers.
    exact_minimizers: ClassVar[bool] = False
    # Whether `claimed_epsilon` also holds for adjacency one-agent, where all data of one agent may differ.
    claims_agents: ClassVar[bool] = False
    # Whether `update` is defined if some neighbors' messages are lost (`bears_loss`), and if messages of earlier rounds
    # arrive (`bears_delay`). An agent's own newest message is always there. A run with a fault that its algorithm does
    # not bear is refused.
    bears_loss: ClassVar[bool] = False
    bears_delay: ClassVar[bool] = False
    # Whether the proven epsilon of an agent also holds if all other agents collude and send anything they like. This
    # needs two facts: the agent mixes its own release, not a hidden vector; and no sensitivity or leakage that its
    # messages state depends on received messages. Subclasses do not inherit this statement.
    against_colluders: ClassVar[bool] = False

    @abstractmethod
    def init(self, x: Vector) -> S:
        """Return the state before round 1, given a point x (d,) that does not depend on data."""

    @abstractmethod
    def message(self, s: S, here: Neighborhood) -> Message:
        """Return the message that the agent wants to send in this round, before noise is added."""

    @abstractmethod
    def update(self, s: S, here: Neighborhood, inbox: Inbox, loss: Loss) -> S:
        """Return the state of the next round, once the loss f^t is revealed.

        Args:
            s: the state of this round.
            here: the agent's neighbors in this round.
            inbox: the releases and weights that the agent mixes in this round.
            loss: f^t.
        """

    def decision(self, s: S) -> Vector:
        """Return the agent's full estimate (d,): by default the field x of the state.

        The agent's decision is read from it, unless the algorithm `decides_release`.
        """
        x: Vector = s.x  # type: ignore[attr-defined]
        return x

    def validate(self) -> None:
        """Check the hyper-parameters against each other and against the run.

        Raises:
            ValueError: the hyper-parameters do not fit; the message says which values would.
        """

    def claimed_epsilon(self, rounds: int, passes: int) -> float | Sequence[float] | None:
        """Return the pure ε that the paper claims for the first `rounds` rounds: one number, or one for each agent.

        Args:
            rounds: how many rounds the run has done.
            passes: how many times the run may have used a sample: its passes over the data.

        Returns:
            The claimed ε; None if the paper claims none.
        """
        return None

    def bounds(self, setup: Any, horizons: Horizons, minimizer: Vector) -> list[Bound]:
        """Return the bounds that the paper's theorems give for a run.

        Args:
            setup: the `Setup` of the run. Its type is `Any` here because `Setup` imports this class.
            horizons: (h,) the rounds at which the bounds are evaluated.
            minimizer: (h, d) the best fixed decision in hindsight at each horizon.
        """
        bounds = import_module(self.theorems).bounds if self.theorems else lambda *_: []
        return list(bounds(setup, horizons, minimizer))

    def carried_on(self, t: int) -> float | None:
        """Return c if every agent's message of round t > 1 is c Σ_j a_ij h_j plus a term of its own data.

        The h_j are the releases of the round before. The agent's own term must not depend on the messages that it
        received, and must have the same direction in all rounds. This holds for gradients that are affine with a public
        linear part, of losses that stay the same, without projection and clipping. Return None if the messages are not
        known to have this form.
        """
        return None

    settled_key: ClassVar[str] = ""  # the setting that `settled_below` comes from

    @property
    def fewest_rounds(self) -> int:
        """Return the least number of rounds in which a run sends all kinds of its messages.

        The runs that `audit` makes itself have at least this many rounds.
        """
        return 1

    @property
    def settled_below(self) -> float:
        """Return the tolerance at which the run ends early.

        The run ends once, in some round, every agent's relay has changed by at most this share of its norm. The value 0
        means that the run never ends early.
        """
        return 0.0

    @property
    def solver_tolerance(self) -> float:
        """Return the gradient norm to which local problems are solved; 0 if the algorithm solves none."""
        return 0.0
