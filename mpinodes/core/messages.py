"""Define the messages of agents, and what a message states about its own privacy.

An algorithm never sends. It returns a `Query`, `Queries` or a `Solve`, which its agent releases through the mechanism,
the only place that adds noise. Or it returns a `Start` or a `Relay`, which have no field for data. Everything else that
is sent without noise comes from a `Mixing`, which never receives state or loss.

Every message with data states what it leaks, in two parts. Its *own* sensitivity is how far the message moves if a
sample is replaced in the loss that it is the first to carry (`uses`), given everything released before. Its *leakage*
is how far it moves beyond that because an older change lives on in the agent's hidden state. Neither has a default.
Unknown leakage is stated as `UNKNOWN`, and nothing is proven of such a run.
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

from mpinodes.core.errors import BadInput

Vector = NDArray[np.float64]
HEADER = 3  # floats of a frame before its releases: round, kind, and the agents that still move (as bits)
Features: TypeAlias = Any  # (k, d): a dense array, or a scipy.sparse.csr_array


def stack(rows: Sequence[Features]) -> Features:
    """Return feature matrices stacked on top of each other."""
    if len(rows) == 1:
        return rows[0]
    if isinstance(rows[0], np.ndarray):
        return np.concatenate(rows)
    from scipy.sparse import vstack

    return vstack(rows, format="csr")


def arrays(numbers: Any) -> Features:
    """Return numbers in a form that NumPy or SciPy reads: as a dense array, or a sparse array by rows."""
    if not hasattr(numbers, "tocsr"):
        return np.asarray(numbers)
    from scipy.sparse import csr_array

    return numbers if isinstance(numbers, csr_array) else csr_array(numbers)


def doubles(numbers: Any) -> Features:
    """Return real numbers, dense or sparse, as doubles, without a copy if they are doubles already.

    Raises:
        BadInput: doubles cannot hold numbers of that type.
    """
    array = arrays(numbers)
    if not np.can_cast(array.dtype, np.float64, "same_kind"):
        raise BadInput(f"data: features or targets of type {array.dtype} are no real numbers; give arrays of float64")
    return array.astype(np.float64, copy=False)


class Diverged(RuntimeError):
    """Report that a run diverges or breaks an assumption of its method; the message says where and why."""


class Neighborhood(NamedTuple):
    """Hold an agent's neighbors in one round.

    Attributes:
        t: the round, from 1.
        agent: the agent.
        in_neighbors, out_neighbors: the agents from which it receives, and those that receive from it, ascending and
            without the agent itself.
    """

    t: int
    agent: int
    in_neighbors: tuple[int, ...]
    out_neighbors: tuple[int, ...]

    @property
    def senders(self) -> tuple[int, ...]:
        """Return the agents whose releases this agent mixes: its in-neighbors and itself, ascending."""
        return tuple(sorted((*self.in_neighbors, self.agent)))


class Released(NamedTuple):
    """State that a message depends only on released points and on the loss in `uses`: it has no leakage.

    Hidden parts of the state, if the algorithm has any, contain nothing else either.
    """

    def numbers(self, hidden: int, vectors: int) -> tuple[float, ...]:
        """Return kind and numbers for a row of an algorithm with these numbers of hidden parts and vectors."""
        return _alone(RELEASED_KIND, hidden, vectors)


class Unknown(NamedTuple):
    """State that the leakage is unknown: an older change may move the message without bound, and nothing is proven."""

    def numbers(self, hidden: int, vectors: int) -> tuple[float, ...]:
        """Return kind and numbers for a row of an algorithm with these numbers of hidden parts and vectors."""
        return _alone(UNKNOWN_KIND, hidden, vectors)


class Hidden(NamedTuple):
    """State that a message depends on hidden parts h_1, ..., h_m of the agent's state, whose dynamics are public.

    Let h be how far a changed sample moves the hidden parts, given everything released. Let g be how far it moves the
    gradient (or whatever else depends on the data) that entered the state since the previous message. Then

        h <- A h + b g,    ‖g‖₂ ≤ s·[a changed sample is in the loss `uses`] + min(r, ℓ·‖p·h‖₂ + w)  at the h before
        change of vector v = c_v · h

    where w counts only after a message that used a changed sample.

    If the dynamics are linear, state `exact=True` and all numbers with their signs: if all messages of a run are exact,
    the exact impulse response of the signed system is accounted for. If only norms are bounded (projections, Lipschitz
    maps), state nonnegative numbers, with h as a vector of norms; h <- A h + b g is then accounted for as a bound. The
    L1 change of a vector counts as √d times its L2 change, or as l1/l2 times if that is more. If an older change moves
    few coordinates only, state how many.

    All numbers are public constants: they must not depend on any agent's data.

    Attributes:
        transition: A, (m, m) nested tuples; m is the number of the algorithm's `hidden` parts.
        gradient: b, (m,).
        sensitivity: s, the L2 change of the gradient at one point between adjacent data.
        point: p, (m,), how the previous hidden parts move the point of the gradient; zeros for a released point.
        lipschitz: ℓ, the gradient's L2 change per L2 change of the point, on the same data; inf if unknown.
        largest: r, the largest L2 change of the gradient between two points, on the same data; inf if unknown.
        reads: c, (k, m) nested tuples, a row for each of the algorithm's `vectors`.
        exact: whether the numbers state exactly what happens, with signs, instead of a bound on norms.
        offset: w, how far the gradient moves in every round after a changed sample was used, however small h is. For
            bandit feedback it includes the rounding of the estimate (`Run.grad_rounding`, times its weight in the
            message). An offset of 0 then counts as `largest`; for delayed feedback the offset always does.
        coordinates: the number of coordinates of a vector that an older change can move; 0 for all.
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
        """Return kind and numbers for a row of an algorithm with these numbers of hidden parts and vectors.

        Raises:
            ValueError: the shapes do not fit the algorithm's `hidden` and `vectors`, a bound is below 0, or a weight is
                not finite.
        """
        transition, gradient, sensitivity, point, lipschitz, largest, reads, exact, offset, coordinates = self
        shapes = (len(transition), len(gradient), len(point), len(reads))
        rows = {*map(len, transition), *map(len, reads)}
        if not hidden or shapes != (hidden, hidden, hidden, vectors) or rows != {hidden}:
            raise ValueError(
                f"leaks=Hidden(...) must fit {hidden} hidden parts and {vectors} vectors: transition ({hidden}, "
                f"{hidden}), gradient and point ({hidden},), reads ({vectors}, {hidden}); the class attributes "
                "`hidden` and `vectors` name them"
            )
        bounds = (sensitivity, lipschitz, largest, offset, coordinates)
        if not all(bound >= 0 for bound in bounds):
            raise ValueError(
                f"sensitivity, lipschitz, largest, offset and coordinates of a leakage must be >= 0, not {bounds}"
            )
        if not isfinite(sum(gradient) + sum(point) + sum(map(sum, transition)) + sum(map(sum, reads))):
            raise ValueError("transition, gradient, point and reads of a leakage must be finite: else it is UNKNOWN")
        if not exact and min(*gradient, *point, *chain(*transition, *reads)) < 0:
            raise ValueError("a leakage with signs must be exact: state exact=True, or bounds on norms, all >= 0")
        return (
            EXACT_KIND if exact else HIDDEN_KIND,
            *chain(*transition, gradient, (sensitivity,), point, (lipschitz, largest), *reads, (offset, coordinates)),
        )


class Feedback(NamedTuple):
    """State the usual case of `Hidden`: one hidden part, which is the message itself.

    Let δ be the L2 change of the message. Then

        δ(t) = s·[a changed sample is in the loss `uses`] + min(r, ℓ·δ(t − 1) + w) + λ·δ(t − 1)

    Attributes:
        sensitivity: s, the message's own L2 sensitivity.
        lipschitz: ℓ, how far an older change of size 1 moves this message through the loss.
        largest: r, the most that any older change moves this message through the loss.
        linear: λ, how far an older change of size 1 moves this message otherwise, as through a regularizer whose
            gradient is taken at a hidden point.
        offset, coordinates: as in `Hidden`.
    """

    sensitivity: float
    lipschitz: float
    largest: float
    linear: float = 0.0
    offset: float = 0.0
    coordinates: int = 0

    def numbers(self, hidden: int, vectors: int) -> tuple[float, ...]:
        """Return kind and numbers for a row of an algorithm with these numbers of hidden parts and vectors.

        Raises:
            ValueError: the algorithm has other than one hidden part and one vector, or a number is below 0.
        """
        sensitivity, lipschitz, largest, linear, offset, coordinates = self
        if hidden != 1 or vectors != 1:
            raise ValueError(f"leaks=Feedback(...) is for one `hidden` part and one vector, not {hidden} and {vectors}")
        if not (all(number >= 0 for number in self) and linear < inf):
            raise ValueError(f"the numbers of a leakage must be >= 0, and linear finite: {self}")
        return (HIDDEN_KIND, linear, 1.0, sensitivity, 1.0, lipschitz, largest, 1.0, offset, coordinates)


RELEASED_KIND, HIDDEN_KIND, UNKNOWN_KIND, EXACT_KIND = 0.0, 1.0, 2.0, 3.0
RELEASED, UNKNOWN = Released(), Unknown()
Leakage: TypeAlias = Released | Feedback | Hidden | Unknown


def offset_by(message: Message, share: float) -> Message:
    """Return a message whose leakage has at least a given offset, if hidden parts move the points of its gradients.

    Args:
        message: the message. A message without data is returned as it is.
        share: the least offset, as a share of `largest`. If the message states no offset, the offset is `largest`,
            because a share of it is not a bound on absolute rounding.
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
    """Return the row of a leakage without numbers, which has zeros in the place of those of `Hidden`."""
    return (kind,) + (0.0,) * (hidden * hidden + 2 * hidden + 5 + vectors * hidden if hidden else 0)


@dataclass(slots=True, eq=False)  # not frozen, because frozen ones take three times as long to make in every round
class Query:
    """Hold a vector that an algorithm wants to send, with what the mechanism needs to release it.

    Attributes:
        value: (d,) the vector without noise.
        l1: the L1 sensitivity of the value given everything released before; inf if it is unbounded.
        l2: the L2 sensitivity, likewise.
        uses: the round whose loss first reaches the network with this value; 0 if there is none.
        leaks: the leakage: `RELEASED`, a `Feedback` or `Hidden`, or `UNKNOWN`.
        calibration: the number to which the noise is calibrated, as `Mechanism.release` defines it; None for the
            sensitivity, and 0 for a message that carries no noise in the paper.
        residual, solver_steps: the result of the local solve that made the value, if there was one, as in `Solved`.

    Raises:
        ValueError: a sensitivity is not positive, or the calibration is below 0.
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
            raise ValueError(f"a sensitivity must be > 0, not L1 {self.l1}, L2 {self.l2}")
        if self.calibration is not None and not self.calibration >= 0:
            raise ValueError(f"a calibration must be >= 0, not {self.calibration}")


class Payload(NamedTuple):
    """Hold one named vector of `Queries`, with value, l1, l2 and calibration as in `Query`."""

    value: Vector
    l1: float
    l2: float
    calibration: float | None = None


@dataclass(slots=True, eq=False)
class Queries:
    """Hold several vectors of one message, each with noise of its own, sent in one frame and accounted for jointly.

    Attributes:
        vectors: the vectors (d,) by the names in the algorithm's `vectors`.
        uses, leaks: as in `Query`, for all vectors together, because they depend on the same samples.
    """

    vectors: Mapping[str, Payload]
    uses: int
    leaks: Leakage


@dataclass(slots=True, eq=False)
class Solve:
    """Ask for a minimizer to send: argmin of f(x) + ‖x − center − e‖²/(2·step), where e is the mechanism's noise.

    Attributes:
        center: (d,) a point that depends only on releases; everything private is in f.
        step: the step of the proximal operator.
        near: (d,) the point at which the solver starts.
        uses: the round whose loss is f.
        l2: the L2 distance between noisy centers that give the same minimizer on adjacent data: step times the change
            of ∇f.
        log_volume: the difference of log det(∂(center + e)/∂x) between adjacent data.
        calibration: the inverse of the rate to which the noise is calibrated.
        tolerance: the gradient norm at which the solver stops.
        stretch: a bound on ‖x − minimizer‖ per gradient norm at x: the inverse of the modulus of strong convexity.
        leaks: `RELEASED`, if the center depends only on releases, or `UNKNOWN`.
        grid: the release is rounded to multiples of this number, after a uniform dither; 0 for no rounding.
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


class Start(Struct, frozen=True):
    """Ask to send the point that `init` received, in round 1. It depends on no data and is sent without noise."""


class Relay(Struct, frozen=True):
    """Ask to send the mix of the releases of the previous round, including its own. It reveals nothing new."""


Message: TypeAlias = Query | Queries | Solve | Start | Relay


class Solved(NamedTuple):
    """Hold the result of a local solve.

    Attributes:
        x: (d,) the approximate minimizer.
        residual: the L2 norm of the gradient at x.
        steps: the number of steps that the solver took.
    """

    x: Vector
    residual: float
    steps: int


@dataclass(slots=True, eq=False)
class Inbox:
    """Hold the releases that agent i mixes in a round, with its own, in ascending order of senders; all are read-only.

    Attributes:
        releases: k vectors (d,); the concatenation of several vectors, of which indexing by name selects one.
        weights: (k,) the a_ij, in the same order.
        scale: the number by which the mixed vector is to be divided (push-sum's w_i); 1 for other mixings.
        own: (d,) the agent's own release.
        vectors: the names of the vectors, if a message has several; else empty.
    """

    releases: Sequence[Vector]
    weights: Sequence[float]
    scale: float
    own: Vector
    vectors: tuple[str, ...] = ()

    def mix(self) -> Vector:
        """Return Σ_j a_ij h_j as a new vector (d,), summed in ascending order of j."""
        # not a gemv, so that the order of summation, and so every bit, is the same under any MPI and BLAS
        if len(self.weights) != len(self.releases):
            raise ValueError(f"{len(self.weights)} weights for {len(self.releases)} releases")
        terms = map(np.multiply, self.weights, self.releases)
        mixed: Vector = next(terms)
        for term in terms:
            mixed += term
        return mixed

    def __getitem__(self, name: str) -> Inbox:
        """Return the inbox of one named vector."""
        place, d = self.vectors.index(name), len(self.own) // len(self.vectors)
        part = slice(place * d, (place + 1) * d)
        return Inbox([release[part] for release in self.releases], self.weights, self.scale, self.own[part])
