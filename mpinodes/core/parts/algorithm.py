"""Define the base class of algorithms, the public constants that an algorithm may use, and the bound of a theorem."""

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
    """Hold the public constants of a run that its algorithm may use.

    No constant depends on the values of samples; the numbers of samples and of their features are public. The constants
    that begin with `grad_` are bounds on gradients, one for each agent. These bounds hold for the clipped gradient,
    restricted to the agent's block of coordinates (`blocks`); inf means that no bound is known.

    Attributes:
        agents: n, the number of agents.
        rounds: T, the number of rounds of the run. If the algorithm states `anytime` (its messages do not depend on T),
            this number is `sys.maxsize`, except in the method `validate`.
        dimension: d, the dimension of a decision.
        blocks: for each agent, the coordinates of the gradient that the agent uses: the block that it decides, or all.
        degrees: the number of out-neighbors of each agent in round 1.
        feasible: the constraint set 𝒳.
        regularizer: λ, the weight of (λ/2)‖x‖² in every agent's loss of a round.
        private: whether the run adds noise to releases.
        epsilon, delta: `privacy.epsilon`, the nominal epsilon of the paper (inf means no noise), and `privacy.delta`.
        grad_sensitivity: the largest L2 change of the gradient at one point between adjacent data sets.
        grad_range: the largest L2 difference between the data parts of the gradients at two points, on the same data.
            The data part is the gradient without the regularizer. If the algorithm states `gradients_in_set`, the two
            points are in 𝒳.
        grad_lipschitz: the Lipschitz constant (L2) of the data part of the gradient.
        sample_weight: for each agent, the factor on a sample's loss in the loss of a round. In a secret batch, the loss
            also has the factor 1/rate.
        replaced: for each agent, how many samples of a round differ between adjacent data sets: all samples for
            `privacy.adjacency = one-agent`, else 1. For one-round it is 1, because the gradient of the whole round is
            clipped like the gradient of one sample.
        sample_sensitivity: a bound on half of the L2 change of one sample's unclipped gradient, at one point, when the
            sample is replaced; inf if no bound is known or the loss may be nonconvex.
        sample_curvature: the largest norm of a sample's Hessian; inf if the norm is unknown or the loss may be
            nonconvex.
        sample_rank: the largest rank of a sample's Hessian.
        least_modulus: a lower bound on the modulus of strong convexity of every agent's loss with the regularizer.
        largest_smoothness: an upper bound on the Lipschitz constant of the gradient of every agent's loss with the
            regularizer.
        steps: the step schedule; None if the algorithm takes no steps. Use `step` instead, which is never None.
        gdp: maps (ε, δ) to the largest m for which m-Gaussian DP implies (ε, δ)-DP.
        grad_rounding: for each agent, the largest L2 error that rounding causes in a two-point gradient estimate; 0 if
            gradients are revealed. An algorithm with hidden parts must include this error in the `offset` of its
            leakage.
        rates: for each agent, the probability with which a sample is in a secret batch, or the share of the samples in
            a secret batch; 0 if batches are public.
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
    rates: tuple[float, ...] = ()

    @cached_property
    def step(self) -> Schedule:
        """Return the step schedule α, which maps the round t = 1, 2, ... to a step size.

        Raises:
            ValueError: the algorithm states that it takes no steps (`Algorithm.takes_steps`).
        """
        if self.steps is None:
            raise ValueError("the class states takes_steps = False, so it has no step schedule: set takes_steps = True")
        return self.steps


class Bound(NamedTuple):
    """Hold the bound that a theorem states for a quantity that the run measures, such as regret.

    Attributes:
        name: the theorem, and whether the bound is printed in the paper or was proved by the authors of mpinodes.
        of: the variable of record.h5 whose expectation over the noise is bounded.
        values: (h,) the bound at each of h horizons (rounds at which results are measured), in the unit of that
            variable; inf if the theorem gives no finite bound.
        applies: whether the run satisfies the assumptions of the theorem.
        why: the assumption that the run violates, or the reason for infinite values; else empty.
    """

    name: str
    of: str
    values: Vector
    applies: bool
    why: str

    @property
    def variable(self) -> str:
        """Return the name of the variable of record.h5 that stores this bound."""
        words = "".join(letter if letter.isalnum() else " " for letter in f"bound {self.of} {self.name.lower()}")
        return "_".join(words.split())


@dataclass(frozen=True, repr=False, eq=False)
class Algorithm(ABC, Generic[S]):
    """Define the messages and the state updates of an agent as pure functions of a state S.

    An algorithm is a frozen dataclass of hyper-parameters. Each field is a key `algorithm.<field>`, and must not have
    the name of an attribute of this class. The algorithm object never changes between rounds: all values that the next
    round needs are in S, a named tuple. A method must not store, change or randomly draw anything. The state and the
    inbox are read-only, and a method returns new objects.

    Attributes:
        run: the public constants of the run.
    """

    run: Run

    # True: every agent has its own loss. False: all agents share one loss, and each decides a block of coordinates.
    decomposable: ClassVar[bool]
    # The mixings that the algorithm may run with; the first is the default.
    mixings: ClassVar[tuple[str | type[Mixing], ...]]

    # The source: authors, title, year and number of the algorithm.
    paper: ClassVar[str] = ""
    # The module with a function `bounds` (arguments as below) that computes the bounds of the paper's theorems.
    theorems: ClassVar[str] = ""
    # Default settings of an experiment that chooses this algorithm: dotted keys and values.
    defaults: ClassVar[Mapping[str, Any]] = {}
    # Small experiments ("probes") on which `audit` tests the algorithm: name -> keys that the probe sets.
    probes: ClassVar[Mapping[str, Mapping[str, Any]]] = {"": {}}
    # The names of the vectors in a message. With one vector a message is a `Query`, with several it is a `Queries`.
    vectors: ClassVar[tuple[str, ...]] = ("x",)
    # The names of the hidden parts of the state, in the order of `Hidden.transition`. A name is a field of the state,
    # or a description in several words.
    hidden: ClassVar[tuple[str, ...]] = ()
    # Whether the algorithm takes gradient steps with `run.step`.
    takes_steps: ClassVar[bool] = True
    # The only number of agents that the algorithm supports; None: any.
    only_agents: ClassVar[int | None] = None
    # The only noise mechanism that the algorithm supports.
    mechanism: ClassVar[str] = "laplace"
    # The key that scales the noise if the algorithm does not use `privacy.scale`; empty: the algorithm uses it.
    scale_key: ClassVar[str] = ""
    # The weight of the iterate of round t in the running average: 1 (uniform) or t (linear).
    averaging: ClassVar[Literal["uniform", "linear"]] = "uniform"
    # For an offline method: the decision whose optimality gap is reported. None: the algorithm is an online method.
    judged_by: ClassVar[Literal["average", "last"] | None] = None
    # The default modulus of the step schedule, divided by the losses' modulus of strong convexity.
    modulus_share: ClassVar[float] = 1.0
    # Whether the algorithm never projects; the run then needs the constraint set R^d.
    unconstrained: ClassVar[bool] = False
    # Whether `update` takes gradients only at points of 𝒳. The class that defines `update` must state this itself.
    gradients_in_set: ClassVar[bool] = False
    # Whether an agent needs all its samples in every round.
    whole_data: ClassVar[bool] = False
    # Whether the agent noises gradients instead of messages: `update` then receives a loss whose only method is
    # `gradient(x)`, the clipped gradient plus noise, and `message` returns a `Say`. Every call is accounted for.
    noises_gradients: ClassVar[bool] = False
    # Whether an agent solves minimization problems with its losses, by `Loss.prox` or by a `Solve`.
    solves: ClassVar[bool] = False
    # Whether `init` receives a draw of N(0, I) instead of 0.
    random_start: ClassVar[bool] = False
    # Whether an agent's decision of a round is its release of that round, instead of the result of `decision`.
    decides_release: ClassVar[bool] = False
    # Whether the algorithm does not need to know the number of rounds; `run.rounds` is then `sys.maxsize`.
    anytime: ClassVar[bool] = False
    # Whether the privacy proof assumes that local solvers return exact minimizers.
    exact_minimizers: ClassVar[bool] = False
    # Whether `claimed_epsilon` also holds for adjacency one-agent, where all data of one agent may differ.
    claims_agents: ClassVar[bool] = False
    # Whether `update` is defined if messages of some neighbors are lost (`bears_loss`), and if messages of earlier
    # rounds arrive late (`bears_delay`). The inbox always has the agent's own newest message. mpinodes rejects a run
    # with faults if its algorithm is not defined for them.
    bears_loss: ClassVar[bool] = False
    bears_delay: ClassVar[bool] = False
    # Whether the proven epsilon of an agent also holds if all other agents collude and send arbitrary messages. This is
    # true if two facts hold: the agent mixes its own release, not a hidden vector; and no sensitivity or leakage that
    # the agent states depends on received messages. Subclasses do not inherit this statement.
    against_colluders: ClassVar[bool] = False

    @abstractmethod
    def init(self, x: Vector) -> S:
        """Return the state before round 1. The starting point x (d,) does not depend on data."""

    @abstractmethod
    def message(self, s: S, here: Neighborhood) -> Message:
        """Return the message that the agent wants to send in this round, before noise is added where needed."""

    @abstractmethod
    def update(self, s: S, here: Neighborhood, inbox: Inbox, loss: Loss) -> S:
        """Return the state of round t + 1, after the loss f^t was revealed.

        Args:
            s: the state of round t.
            here: the agent's neighbors in round t.
            inbox: the releases and weights that the agent mixes in round t.
            loss: f^t, as the agent learns it. If batches are secret, `loss` is the loss of the drawn batch. If feedback
                is delayed, `loss` returns gradients of an earlier round. If the algorithm states `noises_gradients`,
                `loss` has only the method `gradient`, which returns a gradient plus noise.
        """

    def decision(self, s: S) -> Vector:
        """Return the agent's estimate of all d coordinates of a decision; by default the field x of the state.

        Usually the agent's decision is this estimate, or the block of the estimate that the agent decides. There are
        three exceptions:

        - If the algorithm states `decides_release`: the decision is the release.
        - If the algorithm states `noises_gradients`: the decision is the point at which `update` takes the first
          gradient of the round.
        - If feedback is bandit feedback: the decision is the midpoint of the two points at which the agent learns its
          loss.
        """
        x: Vector = s.x  # type: ignore[attr-defined]
        return x

    def released(self, release: Vector, scale: float, t: int) -> Vector:
        """Return the model that a release states: by default the first vector of the release.

        The model of a run is the mean of these models over the agents, and over the rounds with the weights of
        `averaging`, projected onto 𝒳. If `judged_by` is "last", only the releases of the last round count. The result
        must be a function of the arguments and of public constants. Then the proven epsilon of the network covers the
        model, because this epsilon covers all releases. Override this method if a release is no estimate of x, such as
        a dual variable: without noise, the result must be the agent's `decision`, or the run has no model.

        Args:
            release: the vectors of the message of round t with their noise, as they are sent, one after another.
            scale: `Inbox.scale` of the round before, such as the weight w_i of push-sum; 1 in round 1.
            t: the round.
        """
        return release[..., : self.run.dimension]

    def validate(self) -> None:
        """Check that the hyper-parameters are consistent with each other and with the run.

        Raises:
            ValueError: the hyper-parameters are not consistent; the message says which values are allowed.
        """

    def claimed_epsilon(self, rounds: int, passes: int) -> float | Sequence[float] | None:
        """Return the pure ε that the paper claims for the first `rounds` rounds: one number, or one for each agent.

        Args:
            rounds: how many rounds the run has completed.
            passes: the largest number of times that the run may have used one sample.

        Returns:
            The claimed ε; None if the paper claims none.
        """
        return None

    def bounds(self, setup: Any, horizons: Horizons, minimizer: Vector) -> list[Bound]:
        """Return the bounds that the theorems of the paper state for a run.

        Args:
            setup: the `Setup` of the run. The type is `Any` because the module of `Setup` imports this class.
            horizons: (h,) the rounds at which the bounds are evaluated.
            minimizer: (h, d) the best fixed decision in hindsight at each horizon.
        """
        bounds = import_module(self.theorems).bounds if self.theorems else lambda *_: []
        return list(bounds(setup, horizons, minimizer))

    def carried_on(self, t: int) -> float | None:
        """Return the factor c in the formula of a message below; None if messages may have another form.

            message of agent i in round t > 1 = c Σ_j a_ij h_j + v_i

        Here h_j is the release of agent j in round t − 1, and a_ij is a mixing weight. The vector v_i must not depend
        on received messages. It may depend on the agent's data, but a change of the data must move v_i in the same
        direction in all rounds. Messages have this form, for example, if the losses do not change, the gradients are
        affine with a public linear part, and nothing is projected or clipped.
        """
        return None

    @property
    def gradients(self) -> int:
        """Return how many gradients `update` takes in every round, if the algorithm noises gradients."""
        return 1

    @property
    def releases(self) -> tuple[str, ...]:
        """Return the names of the releases of a round: the vectors of a message, or the gradients that get noise."""
        return tuple(f"gradient {k + 1}" for k in range(self.gradients)) if self.noises_gradients else self.vectors

    @property
    def hides(self) -> bool:
        """Return whether messages depend on hidden state: parts of the state that the releases do not determine.

        By default, the result is true if the class attribute `hidden` names a part of the state.
        """
        return bool(self.hidden)

    settled_key: ClassVar[str] = ""  # the setting from which `settled_below` is computed, for messages to the user

    @property
    def fewest_rounds(self) -> int:
        """Return the least number of rounds in which a run sends each kind of message of the algorithm at least once.

        The command `audit` chooses the rounds of its small runs by this number.
        """
        return 1

    @property
    def settled_below(self) -> float:
        """Return the relative change of relayed vectors below which the run ends early; 0: the run never ends early.

        A relayed vector is sent by a `Relay`: it is the weighted sum of received releases, without new noise. The run
        ends soon after a round in which every agent relays a vector whose L2 distance from its previous message v is at
        most `settled_below`·‖v‖₂.
        """
        return 0.0

    @property
    def solver_tolerance(self) -> float:
        """Return the gradient norm at which local solvers stop; 0 if the algorithm uses no solver."""
        return 0.0
