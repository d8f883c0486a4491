"""What agents say to each other, and what a message says of itself.

An algorithm never sends: it returns a `Query`, `Queries` or a `Solve`, and its agent releases it through the mechanism,
the one place that adds noise; or a `Start` or a `Relay`, which have no field for data to be in. What else travels
un-noised is made by a `Mixing`, which is never given state or loss.

Every message with data states what it leaks, in two parts. Its *own* sensitivity: how far it moves when a sample of the
loss that it first carries (`uses`) is replaced, given all that was said before. And its *leakage*: what an older change
still makes of it beyond what was said before, for state that an agent keeps to itself may remember. There is no default
for either. What is not known is stated as `UNKNOWN`, and nothing is proven of it.
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
    """Feature matrices on top of each other."""
    if len(rows) == 1:
        return rows[0]
    if isinstance(rows[0], np.ndarray):
        return np.concatenate(rows)
    from scipy.sparse import vstack

    return vstack(rows, format="csr")


def arrays(numbers: Any) -> Features:
    """Return numbers that NumPy or SciPy can read as a plain array, dense or sparse by rows."""
    if not hasattr(numbers, "tocsr"):
        return np.asarray(numbers)
    from scipy.sparse import csr_array

    return numbers if isinstance(numbers, csr_array) else csr_array(numbers)


def doubles(numbers: Any) -> Features:
    """Return real numbers, dense or sparse, as doubles: an array that holds doubles is returned as it is.

    Raises:
        BadInput: the numbers are of a type that doubles do not hold.
    """
    array = arrays(numbers)
    if not np.can_cast(array.dtype, np.float64, "same_kind"):
        raise BadInput(f"data: features or targets of type {array.dtype} are no real numbers; give arrays of float64")
    return array.astype(np.float64, copy=False)


class Diverged(RuntimeError):
    """The run has left what its method is sound for; the message says where and why."""


class Neighborhood(NamedTuple):
    """An agent's place in the graph of one round.

    Attributes:
        t: the round, from 1.
        agent: whose place it is.
        in_neighbors, out_neighbors: whom it hears and who hears it, ascending, never itself.
    """

    t: int
    agent: int
    in_neighbors: tuple[int, ...]
    out_neighbors: tuple[int, ...]

    @property
    def senders(self) -> tuple[int, ...]:
        """Whose releases this agent mixes: its in-neighbors and itself, ascending."""
        return tuple(sorted((*self.in_neighbors, self.agent)))


class Released(NamedTuple):
    """The message is made of released points and the loss it names in `uses`: an older change moves it no further.

    Nor do the hidden parts, where the algorithm has some, hold anything else.
    """

    def numbers(self, hidden: int, vectors: int) -> tuple[float, ...]:
        """The kind and all numbers, flat, for a row of an algorithm with so many hidden parts and vectors."""
        return _alone(RELEASED_KIND, hidden, vectors)


class Unknown(NamedTuple):
    """Nothing is stated: an older change may move the message without bound, and nothing is proven of the run."""

    def numbers(self, hidden: int, vectors: int) -> tuple[float, ...]:
        """The kind and all numbers, flat, for a row of an algorithm with so many hidden parts and vectors."""
        return _alone(UNKNOWN_KIND, hidden, vectors)


class Hidden(NamedTuple):
    """The message depends on hidden parts h_1, ..., h_m of the agent's state, whose dynamics are public.

    Let h be the change of the hidden parts that a changed sample makes, given all that was said. With g the change of
    the gradient (or whatever else the data enter by) that was put into the state since the message before:

        h <- A h + b g,    ‖g‖₂ ≤ s·[a changed sample is in the loss `uses`] + min(r, ℓ·‖p·h‖₂ + w)  at the h before
        change of vector v = c_v · h

    where w counts only after a message that used a changed sample.

    Where the dynamics are linear, state `exact=True` and all numbers with their signs: the exact impulse response of
    the signed system is accounted for, as far as all messages of a run are exact. Where only norms are bounded
    (projections, Lipschitz maps), state nonnegative numbers and take h as a vector of norms; then h <- A h + b g is a
    bound, and is accounted for as such. The L1 change of a vector counts as √d times its L2 change, or as l1/l2 times
    where that is more; where an older change moves few coordinates only, state how many.

    All numbers are public constants: they must not depend on anybody's data.

    Attributes:
        transition: A, (m, m) nested tuples, m the number of the algorithm's `hidden` parts.
        gradient: b, (m,).
        sensitivity: s, the L2 change of the gradient between adjacent data at one and the same point.
        point: p, (m,): how the hidden parts before move the point that the gradient is taken at; 0: it is released.
        lipschitz: ℓ, the gradient's L2 change per L2 change of the point, on the same data; inf: unknown.
        largest: r, the most that the gradient moves between any two points, on the same data; inf: unknown.
        reads: c, (k, m) nested tuples, a row for each of the algorithm's `vectors`.
        exact: whether this is what happens, signs and all, and not a bound on norms.
        offset: w, what moves the gradient in every round after a changed sample was used, however small h is. Under
            bandit feedback it includes the rounding of the estimate (`Run.grad_rounding`, times what a message takes
            of it); where a message then states 0, it counts as `largest`, as it does wherever feedback is late.
        coordinates: how many coordinates of a vector an older change can move; 0: all.
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
        """The kind and all numbers, flat, for a row of an algorithm with so many hidden parts and vectors.

        Raises:
            ValueError: the shapes are not those of the algorithm's `hidden` and `vectors`, a bound is below 0, or a
                weight is not finite.
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
    """The usual `Hidden`: one hidden part, which is the message itself.

    With δ its L2 change:

        δ(t) = s·[a changed sample is in the loss `uses`] + min(r, ℓ·δ(t − 1) + w) + λ·δ(t − 1)

    Attributes:
        sensitivity: s, the message's own L2 sensitivity.
        lipschitz: ℓ, what an older change of size 1 makes of this message, up to `largest`: a loss's share.
        largest: r, the most that it makes of it that way.
        linear: λ, what it makes of it beside that: a regularizer's share, taken at a hidden point.
        offset, coordinates: as in `Hidden`.
    """

    sensitivity: float
    lipschitz: float
    largest: float
    linear: float = 0.0
    offset: float = 0.0
    coordinates: int = 0

    def numbers(self, hidden: int, vectors: int) -> tuple[float, ...]:
        """The kind and all numbers, flat, for a row of an algorithm with so many hidden parts and vectors.

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


def with_offset(leaks: Leakage, share: float) -> Leakage:
    """Return a leakage whose gradients at points that hidden parts move have at least an offset.

    Args:
        leaks: of a message.
        share: of `largest`, that the offset is at least. If the message states no offset, the offset is `largest`: an
            algorithm that cuts its gradients has a small `largest`, and a share says nothing of absolute rounding.
    """
    if not isinstance(leaks, (Feedback, Hidden)) or not (leaks.lipschitz > 0 and leaks.largest > 0):
        return leaks
    if isinstance(leaks, Hidden) and not any(leaks.point):
        return leaks
    return leaks._replace(offset=max(leaks.offset, (share if leaks.offset else 1.0) * leaks.largest))


def offset_by(message: Message, share: float) -> Message:
    """Return a message with that leakage; one without data is returned as it is."""
    if not isinstance(message, (Query, Queries)):
        return message
    return replace(message, leaks=with_offset(message.leaks, share))


def leakage_width(hidden: int, vectors: int) -> int:
    """Floats of a leakage's numbers, beside its kind."""
    return hidden * hidden + 2 * hidden + 5 + vectors * hidden if hidden else 0


@lru_cache(maxsize=64)
def _alone(kind: float, hidden: int, vectors: int) -> tuple[float, ...]:
    return (kind,) + (0.0,) * leakage_width(hidden, vectors)


@dataclass(slots=True, eq=False)  # not frozen, because frozen ones take three times as long to make in every round
class Query:
    """A vector that an algorithm wants to say, with what the mechanism must know to release it.

    Attributes:
        value: (d,) the clean vector.
        l1: L1 sensitivity of the value given everything released before; `inf` where nothing bounds it.
        l2: L2 sensitivity, likewise.
        uses: the round whose loss first reaches the network with this value; 0: none does.
        leaks: what older changes make of it: `RELEASED`, a `Hidden`, or `UNKNOWN`.
        calibration: what the noise is calibrated to, in the mechanism's own terms (see `Mechanism.release`); None:
            its sensitivity. 0: a message that in this paper carries no noise.
        residual, solver_steps: of the local solve that made the value, where one did, as in `Solved`.

    Raises:
        ValueError: a sensitivity that is not positive, or a calibration below 0.
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
    """One named vector of `Queries`; value, l1, l2 and calibration as in `Query`."""

    value: Vector
    l1: float
    l2: float
    calibration: float | None = None


@dataclass(slots=True, eq=False)
class Queries:
    """Several vectors of one message, noised each by itself, sent in one frame and accounted for jointly.

    Attributes:
        vectors: by name, those that the algorithm's `vectors` lists, each (d,).
        uses, leaks: as in `Query`, of all together: they tell of the same samples.
    """

    vectors: Mapping[str, Payload]
    uses: int
    leaks: Leakage


@dataclass(slots=True, eq=False)
class Solve:
    """A minimizer that an algorithm wants to say: of f(x) + ‖x − center − e‖²/(2·step), e the mechanism's noise.

    Attributes:
        center: (d,) made of what was released alone; all that is private is in f.
        step: of the proximal operator.
        near: (d,) where the solver begins.
        uses: the round whose loss f is.
        l2: how far apart two centers with noise are, in L2, that give the same minimizer on adjacent data: step times
            the change of ∇f.
        log_volume: how far apart, on adjacent data, the logarithms of det(∂(center + e)/∂x) are.
        calibration: the inverse of the rate that the noise is calibrated to.
        tolerance: the largest gradient norm at which the minimizer counts as found.
        stretch: ‖x − minimizer‖ per gradient norm at x: the inverse of the strong convexity.
        leaks: `RELEASED`, as the center asks for, or `UNKNOWN`.
        grid: the release is rounded to multiples of it, after a uniform dither; 0: it is not.
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
    """The x that `init` was given, in round 1: no data has reached it, so it goes out as it is."""


class Relay(Struct, frozen=True):
    """The mix of what was heard in the round before, own release included: it tells nothing that was not said."""


Message: TypeAlias = Query | Queries | Solve | Start | Relay


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


@dataclass(slots=True, eq=False)
class Inbox:
    """The releases that agent i mixes in a round, its own among them, in ascending order of sender; all read only.

    Attributes:
        releases: k vectors (d,); of an algorithm with several `vectors` side by side, to be taken by name.
        weights: (k,) the a_ij, in the same order.
        scale: what the mixed vector has to be divided by (push-sum's w_i); 1 where the mixing has none.
        own: (d,) the agent's own release.
        vectors: the names of several vectors; empty: there is one.
    """

    releases: Sequence[Vector]
    weights: Sequence[float]
    scale: float
    own: Vector
    vectors: tuple[str, ...] = ()

    def mix(self) -> Vector:
        """Σ_j a_ij h_j as a new (d,) vector, summed in ascending order of j."""
        # not a gemv, so that the order of summation, and so every bit, is the same under any MPI and BLAS
        if len(self.weights) != len(self.releases):
            raise ValueError(f"{len(self.weights)} weights for {len(self.releases)} releases")
        terms = map(np.multiply, self.weights, self.releases)
        mixed: Vector = next(terms)
        for term in terms:
            mixed += term
        return mixed

    def __getitem__(self, name: str) -> Inbox:
        """The same of one named vector alone."""
        place, d = self.vectors.index(name), len(self.own) // len(self.vectors)
        part = slice(place * d, (place + 1) * d)
        return Inbox([release[part] for release in self.releases], self.weights, self.scale, self.own[part])
