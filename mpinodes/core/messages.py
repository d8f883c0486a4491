"""Define the messages of agents, and what a message states about its own privacy.

An algorithm returns a message, and never sends anything itself:

- A `Query`, `Queries` or `Solve` contains private data. The agent adds noise to the message before it is sent. The
  noised message is called a release.
- A `Say` contains a vector that was computed from noised gradients. It is sent without further noise.
- A `Start` or a `Relay` contains no data, and is sent without noise.

A message is sent as an array of floats, which is called a frame. Besides the message, a frame contains two kinds of
numbers without noise:

- The header has the round, the kind of the message, and bits by which agents learn whether messages still change.
- The scalars are public numbers from which the receivers compute mixing weights. The scalars come from a `Mixing`,
  which never receives the state or the loss of an agent.

An algorithm must state two facts about each message with data. Each fact says how much one changed sample changes the
message, if all earlier releases stay equal:

- The *sensitivity* is for a sample that no earlier message of the agent depends on.
- The *leakage* is for other samples. Such a sample can change the message only through the agent's hidden state, which
  is the part of the state that the releases do not determine.

If the leakage is unknown, the algorithm states `UNKNOWN`: from this round on, no epsilon is proven.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from math import inf, isfinite
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from mpinodes.core.errors import BadInput, one_line

Vector = NDArray[np.float64]
HEADER = 3  # floats in a frame before the releases: round, kind, and which agents still change (as bits)
Features: TypeAlias = Any  # (k, d): a dense array, or a scipy.sparse.csr_array


def stack(rows: Sequence[Features]) -> Features:
    """Return one feature matrix with the rows of all given matrices, which are all dense or all sparse.

    If there is only one matrix, the result is this matrix itself.
    """
    if len(rows) == 1:
        return rows[0]
    if isinstance(rows[0], np.ndarray):
        return np.concatenate(rows)
    from scipy.sparse import vstack

    return vstack(rows, format="csr")


def arrays(numbers: Any) -> Features:
    """Convert numbers to a dense NumPy array, or to a SciPy CSR array if the numbers are a sparse array."""
    if not hasattr(numbers, "tocsr"):
        return np.asarray(numbers)
    from scipy.sparse import csr_array

    return numbers if isinstance(numbers, csr_array) else csr_array(numbers)


def doubles(numbers: Any) -> Features:
    """Return real numbers in double precision, as a dense or sparse array. An array of float64 is not copied.

    Raises:
        BadInput: the type of the numbers is not real.
    """
    array = arrays(numbers)
    if not np.can_cast(array.dtype, np.float64, "same_kind"):
        raise BadInput(f"data: features or targets of type {array.dtype} are no real numbers; give arrays of float64")
    return array.astype(np.float64, copy=False)


class Diverged(RuntimeError):
    """Signal that a run diverges, or violates an assumption of its method."""

    _render_traceback_ = one_line


class Neighborhood(NamedTuple):
    """Hold the neighbors of an agent in one round.

    Attributes:
        t: the round, from 1.
        agent: the agent.
        in_neighbors: the agents from which the agent receives, ascending, without the agent itself.
        out_neighbors: the agents that receive from the agent, ascending, without the agent itself.
    """

    t: int
    agent: int
    in_neighbors: tuple[int, ...]
    out_neighbors: tuple[int, ...]

    @property
    def senders(self) -> tuple[int, ...]:
        """Return the in-neighbors and the agent itself, ascending: the agents whose releases this agent mixes."""
        return tuple(sorted((*self.in_neighbors, self.agent)))


class Released(NamedTuple):
    """State that a message depends only on earlier releases and on one loss function, but not on hidden state.

    The loss function is that of round `uses` of the message. If `uses` is 0, the message depends on no loss function.
    The same must hold for the hidden parts of the agent's state, if the algorithm names any: they depend only on
    earlier releases and on this loss function.
    """

    def numbers(self, hidden: int, vectors: int) -> tuple[float, ...]:
        """Return this leakage as floats for the logger: the number that stands for `Released`, then zeros.

        Args:
            hidden: the number of the algorithm's hidden parts.
            vectors: the number of vectors in a message.
        """
        return _alone(RELEASED_KIND, hidden, vectors)


class Unknown(NamedTuple):
    """State that the leakage of a message is unknown, so that no epsilon is proven from this round on.

    A replaced sample of an earlier loss function may then change the message without bound.
    """

    def numbers(self, hidden: int, vectors: int) -> tuple[float, ...]:
        """Return this leakage as floats for the logger: the number that stands for `Unknown`, then zeros.

        Args:
            hidden: the number of the algorithm's hidden parts.
            vectors: the number of vectors in a message.
        """
        return _alone(UNKNOWN_KIND, hidden, vectors)


class Hidden(NamedTuple):
    """State how much a sample of an earlier round can change a message through m hidden parts of the agent's state.

    A hidden part is a part of the state that the releases do not determine. Compare two runs on adjacent data sets
    whose releases so far are equal. Let h = (h_1, ..., h_m) be the differences of the hidden parts between the two
    runs. Let g be the difference of the gradient (or of another function of the data) that entered the state since the
    previous message. The object states numbers A, b, c, p, s, ℓ, r and w such that

        h <- A h + b g
        ‖g‖₂ ≤ s·[a changed sample is in the loss `uses`] + min(r, ℓ·‖p·h‖₂ + w)
        difference of vector v of the message = c_v · h, where c_v is row v of c

    The bracket [...] is 1 if its statement is true, and 0 otherwise. The bound on ‖g‖₂ is computed from h before the
    update. The term w counts only after a message that used a changed sample. All numbers are public constants, and
    must not depend on any agent's data.

    - If the dynamics are linear: state `exact=True`, and all numbers with their signs. Privacy accounting can then use
      the impulse response of this linear system, if all messages with hidden parts state `exact=True` and a number in
      A, b, p or c is negative.
    - If only norms are bounded (as by projections and Lipschitz maps): state nonnegative numbers. Then h is a vector of
      norms, and A h + b g is an upper bound.

    Attributes:
        transition: A, (m, m) nested tuples; m is the number of the algorithm's `hidden` parts.
        gradient: b, (m,).
        sensitivity: s, the L2 change of the gradient at one point between adjacent data.
        point: p, (m,): p·h is the difference of the point at which the gradient is taken; zeros for a released point.
        lipschitz: ℓ, the gradient's L2 change per L2 change of the point, on the same data; inf if unknown.
        largest: r, the largest L2 change of the gradient between two points, on the same data; inf if unknown.
        reads: c, (k, m) nested tuples, a row for each of the algorithm's `vectors`.
        exact: whether the numbers, with their signs, describe the dynamics exactly; else the numbers bound norms.
        offset: w, the largest L2 difference of the gradient that remains however small h is, in every round after a
            changed sample was used. For bandit feedback, w must include the rounding error of the gradient estimate:
            `Run.grad_rounding` times the weight of the gradient in the message. For delayed feedback and for bandit
            feedback, mpinodes may increase w (`offset_by`).
        coordinates: the number of coordinates of a vector that a changed sample of an earlier loss function can change;
            0 means all coordinates. The L1 difference of the vector is bounded by means of this number.
    """

    transition: Sequence[Sequence[float]]
    gradient: Sequence[float]
    sensitivity: float
    point: Sequence[float]
    lipschitz: float
    largest: float
    reads: Sequence[Sequence[float]]
    exact: bool = False
    offset: float = 0.0
    coordinates: int = 0

    def numbers(self, hidden: int, vectors: int) -> tuple[float, ...]:
        """Return this leakage as floats for the logger: a number for its kind, then all fields except `exact`.

        The number for the kind is `EXACT_KIND` if `exact` is true, else `HIDDEN_KIND`.

        Args:
            hidden: m, the number of the algorithm's hidden parts.
            vectors: k, the number of vectors in a message.

        Raises:
            ValueError: the shapes do not fit `hidden` and `vectors`; `sensitivity`, `lipschitz`, `largest`, `offset` or
                `coordinates` is below 0 or nan; an entry of A, b, p or c is not finite; or such an entry is below 0
                although `exact` is false.
        """
        transition, gradient, sensitivity, point, lipschitz, largest, reads, exact, offset, coordinates = self
        shapes = (len(transition), len(gradient), len(point), len(reads))
        rows = {*map(len, transition), *map(len, reads)}
        if not hidden or shapes != (hidden, hidden, hidden, vectors) or rows != {hidden}:
            raise ValueError(
                f"leaks=Hidden(...) must fit {hidden} hidden parts and {vectors} vectors: transition must have the "
                f"shape ({hidden}, {hidden}), gradient and point ({hidden},), and reads ({vectors}, {hidden}), not "
                f"{self}; the class attributes `hidden` and `vectors` name the hidden parts and the vectors"
            )
        bounds = (sensitivity, lipschitz, largest, offset, coordinates)
        if not all(bound >= 0 for bound in bounds):
            raise ValueError(
                f"leaks=Hidden(...): sensitivity, lipschitz, largest, offset and coordinates must be >= 0, not {bounds}"
            )
        if not isfinite(sum(gradient) + sum(point) + sum(map(sum, transition)) + sum(map(sum, reads))):
            raise ValueError(
                "leaks=Hidden(...): transition, gradient, point and reads must be finite; else state leaks=UNKNOWN"
            )
        if not exact and min(*gradient, *point, *chain(*transition, *reads)) < 0:
            raise ValueError("leaks=Hidden(...) has negative numbers: state exact=True, or bounds on norms, all >= 0")
        return (
            EXACT_KIND if exact else HIDDEN_KIND,
            *chain(*transition, gradient, (sensitivity,), point, (lipschitz, largest), *reads, (offset, coordinates)),
        )


class Feedback(NamedTuple):
    """State how much a sample of an earlier round can change a message, if the message is the only hidden state.

    The hidden state is the message before noise, from which the agent computes its next message.

    Compare two runs on adjacent data sets whose releases before round t are equal. Let δ(t) be the L2 difference of the
    message of round t, before noise, between the two runs. The object states numbers s, r, ℓ, w and λ such that

        δ(t) ≤ s·[a changed sample is in the loss `uses`] + min(r, ℓ·δ(t − 1) + w) + λ·δ(t − 1)

    The bracket [...] is 1 if its statement is true, and 0 otherwise. See `Hidden` for several hidden parts.

    Attributes:
        sensitivity: s, the L2 sensitivity of the message.
        lipschitz: ℓ, the difference of this message per unit of δ(t − 1) that comes through the loss function.
        largest: r, the largest difference of this message that δ(t − 1) can cause through the loss function.
        linear: λ, the difference of this message per unit of δ(t − 1) that does not come through the loss function, but
            for example through a regularizer whose gradient is taken at a hidden point.
        offset, coordinates: as in `Hidden`; `offset` is w.
    """

    sensitivity: float
    lipschitz: float
    largest: float
    linear: float = 0.0
    offset: float = 0.0
    coordinates: int = 0

    def numbers(self, hidden: int, vectors: int) -> tuple[float, ...]:
        """Return this leakage as floats for the logger: the floats of the `Hidden` that states the same leakage.

        Args:
            hidden: the number of the algorithm's hidden parts; it must be 1.
            vectors: the number of vectors in a message; it must be 1.

        Raises:
            ValueError: `hidden` or `vectors` is not 1, a number is below 0 or nan, or `linear` is infinite.
        """
        sensitivity, lipschitz, largest, linear, offset, coordinates = self
        if hidden != 1 or vectors != 1:
            parts = f"the class attributes `hidden` and `vectors` have {hidden} and {vectors} names"
            raise ValueError(f"leaks=Feedback(...) is for 1 hidden part and 1 vector; {parts}: state leaks=Hidden(...)")
        if not (all(number >= 0 for number in self) and linear < inf):
            raise ValueError(f"the numbers of a Feedback must be >= 0, and `linear` must be finite, not {self}")
        return (HIDDEN_KIND, linear, 1.0, sensitivity, 1.0, lipschitz, largest, 1.0, offset, coordinates)


RELEASED_KIND, HIDDEN_KIND, UNKNOWN_KIND, EXACT_KIND = 0.0, 1.0, 2.0, 3.0
RELEASED, UNKNOWN = Released(), Unknown()
Leakage: TypeAlias = Released | Feedback | Hidden | Unknown


def offset_by(message: Message, share: float) -> Message:
    """Return a copy of a message in which the `offset` of the leakage covers rounding errors or delays.

    The offset bounds the change of a gradient that remains even if the hidden state changes very little. The new offset
    is:

    - If the offset is 0: the field `largest` of the leakage.
    - If the offset is not 0: the offset, or `share` times `largest` if this number is larger.

    The message itself is returned in three cases:

    - The message is neither a `Query` nor a `Queries`.
    - The leakage is `RELEASED` or `UNKNOWN`.
    - The hidden state cannot change a gradient: `lipschitz` or `largest` is 0, or all entries of `point` are 0.
    """
    if not isinstance(message, (Query, Queries)) or not isinstance(leaks := message.leaks, (Feedback, Hidden)):
        return message
    moves = leaks.lipschitz > 0 and leaks.largest > 0
    if not moves or (isinstance(leaks, Hidden) and not any(leaks.point)):
        return message
    offset = max(leaks.offset, (share if leaks.offset else 1.0) * leaks.largest)
    return replace(message, leaks=leaks._replace(offset=offset))


@lru_cache(maxsize=64)
def _alone(kind: float, hidden: int, vectors: int) -> tuple[float, ...]:
    """Return the floats for a leakage without numbers: its kind, then a zero for each number of a `Hidden`."""
    return (kind,) + (0.0,) * (hidden * hidden + 2 * hidden + 5 + vectors * hidden if hidden else 0)


@dataclass(slots=True, eq=False)  # not frozen, because creating a frozen dataclass takes three times as long
class Query:
    """Hold a vector that an algorithm wants to send, with the numbers that are needed to add noise.

    Attributes:
        value: (d,) the vector without noise.
        l1: the L1 sensitivity of the vector, given all earlier releases; inf if the sensitivity is unbounded.
        l2: the L2 sensitivity of the vector, given all earlier releases; inf if the sensitivity is unbounded.
        uses: the round of the loss function that this vector depends on, but no earlier message of the agent; 0 if
            there is no such loss function.
        leaks: the leakage, which says how samples of earlier rounds change the vector: `RELEASED`, a `Feedback` or
            `Hidden`, or `UNKNOWN`.
        calibration: the number to which the noise is calibrated, as `Mechanism.release` defines it. None means the
            sensitivity (the L1 sensitivity for Laplace noise, the L2 sensitivity for gamma-norm noise); Gaussian noise
            needs a number. 0 means no noise, unless `privacy.scale` is a number.
        residual, solver_steps: the final gradient norm and the number of steps of the solver that computed the vector;
            0 if there was no solver.

    Raises:
        ValueError: a sensitivity is not positive, or the calibration is below 0 or nan.
    """

    value: Vector
    l1: float
    l2: float
    uses: int
    leaks: Leakage
    calibration: float | None = None
    residual: float = 0.0
    solver_steps: int = 0

    def __post_init__(self) -> None:
        if not (self.l1 > 0 and self.l2 > 0):
            raise ValueError(f"the sensitivities of a Query must be > 0, not l1={self.l1}, l2={self.l2}")
        if self.calibration is not None and not self.calibration >= 0:
            raise ValueError(f"the calibration of a Query must be >= 0, not {self.calibration}")


class Payload(NamedTuple):
    """Hold one of the named vectors of a `Queries`. The fields mean the same as in `Query`."""

    value: Vector
    l1: float
    l2: float
    calibration: float | None = None


@dataclass(slots=True, eq=False)
class Queries:
    """Hold several vectors of one message. Each vector gets independent noise.

    Attributes:
        vectors: maps each name in the algorithm's `vectors` to a vector (d,) with its sensitivities.
        uses, leaks: as in `Query`, for all vectors together, because all vectors depend on the same samples.
    """

    vectors: Mapping[str, Payload]
    uses: int
    leaks: Leakage


@dataclass(slots=True, eq=False)
class Solve:
    """Ask the agent to send the minimizer over x of f(x) + ‖x − center − e‖²/(2·step), where e is noise.

    For adjacent data sets, the same minimizer x belongs to two different noisy centers, `center` + e. The numbers `l2`
    and `log_volume` compare these two centers.

    Attributes:
        center: (d,) the center. If the center depends on private data in any way but by releases, state
            `leaks=UNKNOWN`.
        step: the step of the proximal operator.
        near: (d,) the point at which the solver starts.
        uses: the round whose loss function is f.
        l2: a bound on the L2 distance between the two noisy centers: `step` times the L2 change of ∇f at x.
        log_volume: a bound on the difference of log det(∂(center + e)/∂x) between the two noisy centers.
        calibration: the number a in the density of the noise, exp(−ε‖e‖₂/a) times a constant, with the nominal ε.
        tolerance: the gradient norm at which the solver stops.
        stretch: a bound on ‖x − minimizer‖ divided by the gradient norm at x: the inverse of the modulus of strong
            convexity.
        leaks: `RELEASED` if the center depends only on releases, else `UNKNOWN`.
        grid: the release is rounded to multiples of this number after a uniform dither is added; 0 means no rounding.
    """

    center: Vector
    step: float
    near: Vector
    uses: int
    l2: float
    log_volume: float
    calibration: float
    tolerance: float
    stretch: float
    leaks: Released | Unknown
    grid: float = 0.0


@dataclass(slots=True, eq=False)
class Say:
    """Hold a vector (d,) that was computed from noised gradients, and is sent without further noise.

    Only an algorithm that states `noises_gradients` may return a `Say`. The vector must be computed from noised
    gradients (`NoisedLoss`), received messages and public numbers alone. Then the vector reveals no more about the data
    than the noised gradients and the messages do.
    """

    value: Vector


class Start(Struct, frozen=True):
    """Ask the agent to send the starting point, which `Algorithm.init` received. This message is for round 1.

    The starting point does not depend on data and is sent without noise. If a message has several vectors, each vector
    is the starting point.
    """


class Relay(Struct, frozen=True):
    """Ask the agent to send the weighted sum of the releases that it mixed in the previous round (`Inbox.mix`).

    The sum is computed from releases alone, so the message is sent without noise.
    """


Message: TypeAlias = Query | Queries | Solve | Say | Start | Relay


class Solved(NamedTuple):
    """Hold the result of a solver that minimized a function of an agent's own data.

    Attributes:
        x: (d,) the approximate minimizer.
        residual: the L2 norm of the gradient of the minimized function at x.
        steps: the number of steps that the solver took.
    """

    x: Vector
    residual: float
    steps: int


@dataclass(slots=True, eq=False)
class Inbox:
    """Hold the k releases that agent i mixes in a round, in ascending order of the senders. Arrays are read-only.

    Agent i is one of the senders. If messages may be late, a sender may have several releases in one inbox. If a
    message has several vectors, `inbox["name"]` is the inbox of one vector.

    Attributes:
        releases: the k releases, each (d,). If a message has several vectors, d is the length of all vectors together.
        weights: (k,) the weights a_ij of the releases.
        scale: a number by which the algorithm divides. With push-sum: w_i, which divides the weighted sum of the
            releases. With `mixing.rescaling`: [r_i]_i, which divides the gradient. With other mixings: 1.
        own: (d,) the release of agent i.
        vectors: the names of the vectors if a message has several vectors; else empty.
    """

    releases: Sequence[Vector]
    weights: Sequence[float]
    scale: float
    own: Vector
    vectors: tuple[str, ...] = ()

    def mix(self) -> Vector:
        """Return the weighted sum of the releases as a new vector (d,), summed in ascending order of the senders.

        Raises:
            ValueError: the inbox has not as many weights as releases.
        """
        # not a BLAS routine, because each BLAS library sums in its own order; this order gives equal bits everywhere
        if len(self.weights) != len(self.releases):
            raise ValueError(f"the inbox has {len(self.weights)} weights for {len(self.releases)} releases")
        terms = map(np.multiply, self.weights, self.releases)
        mixed: Vector = next(terms)
        for term in terms:
            mixed += term
        return mixed

    def __getitem__(self, name: str) -> Inbox:
        """Return an inbox with only one of the named vectors of each release.

        Raises:
            ValueError: the message has no vector with this name, or has only one vector.
        """
        place, d = self.vectors.index(name), self.own.shape[-1] // len(self.vectors)
        part = slice(place * d, (place + 1) * d)
        releases = [release[..., part] for release in self.releases]
        return Inbox(releases, self.weights, self.scale, self.own[..., part])
