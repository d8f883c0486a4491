"""The comparator: min over v in 𝒳 of F(v) = Σ_t Σ_i f_i^t(v), with a certificate of how far off it may be.

Smooth losses on bounded sets: accelerated projected gradient with adaptive restart (Beck, Teboulle 2009; O'Donoghue,
Candès 2015), since all it needs of a set is its exact projection; now and then Newton's method goes on from there, on
the face of 𝒳 that has been found (`faces`). The certificate is the Frank-Wolfe gap
max_{v ∈ 𝒳} ⟨∇F(x), x − v⟩ ≥ F(x) − min F, which holds for any convex F. On all of R^d: Newton's method where F is
regularized and d is moderate, else L-BFGS-B; losses are never negative, so F(x) itself bounds the error, and where F is
μ-strongly convex so does ‖∇F‖²/(2μ).

Piecewise linear losses: a quadratic or second-order cone program, solved by Clarabel; the certificate is the duality
gap at multipliers made feasible: with ℓ(m, b) = max of s(m − b) over slopes s in [lo, hi], any such s gives
min F ≥ −s·b + min_{v ∈ 𝒳} ⟨Aᵀs, v⟩ + (μ/2)‖v‖².
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mpinodes.core import SampleLoss, Set, Vector
from mpinodes.core.sets import Ball, Box, ProductOfBalls
from mpinodes.evaluation.faces import newton_on_face
from mpinodes.losses.clipping import plain_norms
from mpinodes.losses.linear import LinearLoss, PiecewiseLinearLoss, SmoothLoss, dense
from mpinodes.losses.softmax import Softmax
from mpinodes.losses.squared_distance import SquaredDistance

TOLERANCE = 1e-9  # of the certificate, relative to the value, or to the regret
ROUNDED = 1e-7  # as near as Clarabel comes, where it has to do without more
NEGLIGIBLE = 1e-3  # of a regret, where more takes long
ITERATIONS = 20_000
PRODUCTS = 5e10  # of two numbers, at most, in one solution
CHEAP = 2e9  # products after which what is negligible is enough
FEW = 60  # samples with a kink, to begin with
DENSE = 2000  # a Gram matrix up to this size is made whole


class Comparator(NamedTuple):
    """The best fixed decision in hindsight.

    Attributes:
        point: (d,) in 𝒳.
        value: F(point).
        certificate: F(point) − min F is at most this.
    """

    point: Vector
    value: float
    certificate: float


def best(
    total: SampleLoss, feasible: Set, start: Vector, regret: float = 0.0, others: Sequence[Vector] = ()
) -> Comparator:
    """Return the comparator of F = `total`, the unclipped loss of all rounds at once: no worse than start, others, 0.

    Args:
        total: F, convex.
        feasible: 𝒳.
        start: (d,) near the comparator.
        regret: the least that hangs on it; the comparator need not come closer than a certain part of that.
        others: tried where the comparator from `start` is worse.
    """
    with np.errstate(all="ignore"):  # far from the minimum of steep losses
        found = _from(total, feasible, start, regret)
        points = [feasible.project(x) for x in (start, *others, np.zeros_like(start))]
        point = min(points, key=total.value)
        value = total.value(point)
        if found.value <= value:
            return found
        again = _from(total, feasible, point, regret)
        least = np.nanmax([-np.inf, found.value - found.certificate, again.value - again.certificate])
        if not again.value <= value:
            again = Comparator(point, value, 0.0)
        return again._replace(certificate=_capped(total, max(again.value - float(least), 0.0), again.value))


def _capped(total: SampleLoss, gap: float, value: float) -> float:
    """Return a certificate: F is at most `gap` above its minimum, and at most F, if ℓ is known to be 0 or more."""
    return min(gap, value) if type(total).__module__.startswith("mpinodes.losses.") else gap


def _from(total: Any, feasible: Set, start: Vector, regret: float) -> Comparator:
    if isinstance(total, PiecewiseLinearLoss):
        return _piecewise(total, feasible, start, regret)
    if isinstance(total, SquaredDistance):
        return _nearest(total, feasible)
    if feasible.bounded:
        return _projected_gradient(total, feasible, start, regret)
    return _unconstrained(total, start)


def _quasi_newton(total: SampleLoss, start: Vector) -> Vector:
    """By scipy's L-BFGS-B, begun again from where it stops as long as that helps."""
    from scipy.optimize import minimize

    x, value = start, np.inf
    while (now := total.value(x)) < value * (1 - 1e-12):
        value = now
        x = minimize(
            total.value,
            x,
            jac=total.grad,
            method="L-BFGS-B",
            options={"maxiter": ITERATIONS, "maxfun": 2 * ITERATIONS, "ftol": 1e-16, "gtol": 1e-12},
        ).x
    return x


def _nearest(total: SquaredDistance, feasible: Set) -> Comparator:
    """F is a multiple of the squared distance to one point, and a constant: P of that point."""
    weights = np.ones(len(total.targets)) / total.divisor
    x = feasible.project(weights @ total.features / (total.weight + total.regularizer))
    gradient, value = total.grad(x), total.value(x)
    gap = float(gradient @ x) + feasible.support(-gradient) if feasible.bounded else float(gradient @ gradient)
    return Comparator(x, value, min(max(gap, 0.0), value))


def _unconstrained(total: SampleLoss, start: Vector) -> Comparator:
    if isinstance(total, SmoothLoss) and total.regularizer and len(start) <= DENSE:
        x = total.prox(start, np.inf, start, tolerance=0.0).x  # as far as rounding lets it
    else:
        x = _quasi_newton(total, start)
    gradient, value = total.grad(x), total.value(x)
    modulus = _modulus(total)
    gap = float(gradient @ gradient) / (2 * modulus) if modulus else np.inf
    return Comparator(x, value, _capped(total, gap, value))


def _modulus(total: SampleLoss) -> float:
    """Of strong convexity: the regularizer's, and for least squares that of the samples on the span they have."""
    if total.regularizer or not isinstance(total, LinearLoss) or not total.strongly_convex_link:
        return total.regularizer
    if total.features.shape[1] > DENSE:
        return total.regularizer
    gram = np.linalg.eigvalsh(dense(total.features.T @ total.features))
    return total.curvature() / np.max(total.divisor) * float(np.min(gram[gram > 1e-10 * gram[-1]], initial=np.inf))


def _smoothness(total: SampleLoss) -> float:
    """Of F: the largest eigenvalue of its Hessian is at most this; inf: unknown."""
    a = total.features
    if not isinstance(total, LinearLoss):
        norm = float(plain_norms(a).max(initial=0.0))
        return total.sample_smoothness(norm, norm) * len(total.targets) / np.min(total.divisor) + total.regularizer
    if min(a.shape) <= DENSE:
        small = dense(a.T @ a if a.shape[1] <= a.shape[0] else a @ a.T)
        largest = float(np.linalg.eigvalsh(small)[-1])
    else:
        from scipy.sparse.linalg import LinearOperator, eigsh

        d = a.shape[1]
        gram = LinearOperator((d, d), matvec=lambda v: a.T @ (a @ v), dtype=np.float64)
        largest = 1.01 * float(eigsh(gram, k=1, v0=np.ones(d), return_eigenvectors=False)[0])
    return total.curvature() / np.min(total.divisor) * largest + total.regularizer


def _projected_gradient(total: SampleLoss, feasible: Set, start: Vector, regret: float) -> Comparator:
    smoothness = _smoothness(total)
    step = 1 / max(smoothness, np.finfo(float).tiny) if smoothness < np.inf else 1.0
    x = y = feasible.project(start)
    momentum = 1.0
    point, lowest, polish = x, np.inf, 20
    numbers = total.features.size if isinstance(total.features, np.ndarray) else total.features.nnz
    products = 2 * max(numbers, 1)  # of one iteration
    for iteration in range(int(min(ITERATIONS, max(500, PRODUCTS / products)))):
        gradient = total.grad(y)
        ahead = feasible.project(y - step * gradient)
        while smoothness == np.inf and _is_too_far(total, y, gradient, ahead, step):
            step /= 2
            ahead = feasible.project(y - step * gradient)
        if (y - ahead) @ (ahead - x) > 0:
            momentum = 1.0
        larger = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        x, y, momentum = ahead, ahead + (momentum - 1) / larger * (ahead - x), larger
        if iteration % 20 == 0:
            value, gap = _certified(total, feasible, x)
            if gap < lowest:
                point, lowest = x, gap
            wanted = TOLERANCE * max(value, regret)
            if iteration >= polish and isinstance(total, SmoothLoss | Softmax) and lowest > wanted:
                x = y = newton_on_face(total, feasible, point, lambda x: _certified(total, feasible, x)[1])
                polish, momentum = 2 * iteration, 1.0
                if (gap := _certified(total, feasible, x)[1]) < lowest:
                    point, lowest = x, gap
            if lowest <= max(wanted, NEGLIGIBLE * regret if iteration * products > CHEAP else 0.0):
                break
    value, gap = _certified(total, feasible, point)
    return Comparator(point, value, gap)


def _is_too_far(total: SampleLoss, y: Vector, gradient: Vector, ahead: Vector, step: float) -> bool:
    """Return whether F is above the parabola of this step, which then is too long."""
    moved = ahead - y
    limit = total.value(y) + float(gradient @ moved) + float(moved @ moved) / (2 * step)
    return bool(step > np.finfo(float).tiny and not total.value(ahead) <= limit + 1e-12 * abs(limit))


def _certified(total: SampleLoss, feasible: Set, x: Vector) -> tuple[float, float]:
    """F(x), and the Frank-Wolfe gap there (or F(x), where that is less and no loss is below 0)."""
    gradient, value = total.grad(x), total.value(x)
    return value, _capped(total, max(float(gradient @ x) + feasible.support(-gradient), 0.0), value)


def _piecewise(total: PiecewiseLinearLoss, feasible: Set, start: Vector, regret: float) -> Comparator:
    """By Clarabel, of few samples: those whose kink is far from the best decision are linear near it.

    Which ones are few enough is guessed from the best decision that is known. Where a guess was wrong the certificate
    tells, for it is that of all samples: those that it was wrong of are added, unless these are so many that what was
    found is far from anything, and the next guess is of twice as many.
    """
    n, at, lowest = len(total.targets), feasible.project(start), Comparator(start, 0.0, np.inf)
    size = max(FEW, isqrt(n)) if feasible.bounded or total.regularizer else n  # or that of few may have no minimum
    few, least, beyond = np.zeros(n, bool), total.value(at), total.features @ at - total.targets
    while not few.all() and lowest.certificate > TOLERANCE * max(lowest.value, regret):
        few[np.argpartition(np.abs(beyond), size)[:size] if 2 * size < n else slice(None)] = True
        side = np.sign(beyond)
        found = _conic(total, feasible, few, side)
        lowest = min(lowest, found, key=lambda each: each.certificate)
        there = total.features @ found.point - total.targets
        wrong = ~few & (np.sign(there) != side)
        if not wrong.any() and lowest.certificate <= ROUNDED * lowest.value:
            break
        if np.count_nonzero(wrong) <= 10 * size:
            few |= wrong
        if found.value < least:
            least, beyond = found.value, there
        size *= 2
    return lowest


def _conic(total: PiecewiseLinearLoss, feasible: Set, some: NDArray[np.bool_], side: Vector) -> Comparator:
    """Min over v, e of Σ e/divisor + (μ/2)‖v‖²  s.t.  e ≥ lo (Av − b), e ≥ hi (Av − b), v ∈ 𝒳, by Clarabel.

    Coordinates that no sample has are left out: the best value there is 0.

    Args:
        total: F.
        feasible: 𝒳.
        some: (n,) samples whose kinks count; of the others the slope is that of their side.
        side: (n,) above the kink where > 0.
    """
    import clarabel
    from scipy import sparse

    whole = total.features
    used = np.flatnonzero(whole.any(axis=0)) if isinstance(whole, np.ndarray) else np.unique(whole.indices)
    a, b = sparse.csr_array(whole[np.flatnonzero(some)])[:, used], total.targets[some]
    divisor = np.broadcast_to(total.divisor, len(some))
    n, d = len(b), len(used)
    lo, hi = total.slopes(total.targets)
    fixed = np.where(some, 0.0, np.where(side > 0, hi, lo) / divisor)
    lo, hi = lo[some], hi[some]
    below = [sparse.diags_array(s) @ a for s in (lo, hi)]
    minus = -sparse.eye_array(n)
    set_rows, set_bounds, set_cones = _cones(feasible, used)
    constraints = sparse.block_array([[below[0], minus], [below[1], minus]], format="csc")
    bounds = np.concatenate([lo * b, hi * b])
    if set_bounds.size:
        wide = sparse.hstack([set_rows, sparse.csr_array((len(set_bounds), n))])
        constraints, bounds = sparse.vstack([constraints, wide], format="csc"), np.concatenate([bounds, set_bounds])
    quadratic = sparse.diags_array(np.concatenate([np.full(d, total.regularizer), np.zeros(n)]), format="csc")
    linear = np.concatenate([(fixed @ whole)[used], 1 / divisor[some]])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    cones = [clarabel.NonnegativeConeT(2 * n), *set_cones]
    solution = clarabel.DefaultSolver(quadratic, linear, constraints, bounds, cones, settings).solve()
    x = np.zeros(total.features.shape[1])
    x[used] = solution.x[:d]
    x = feasible.project(x)
    multipliers = np.maximum(np.array(solution.z[: 2 * n]), 0.0)
    weight = multipliers[:n] + multipliers[n:]
    share = np.divide(multipliers[n:], weight, out=np.full(n, 0.5), where=weight > 0)
    fixed[some] = (lo + share * (hi - lo)) / divisor[some]
    value = total.value(x)
    return Comparator(x, value, _capped(total, max(value - _dual(total, feasible, fixed), 0.0), value))


def _cones(feasible: Set, used: Any) -> tuple[Any, Vector, list[Any]]:
    """𝒳, on the coordinates used, as rows G, bounds h and cones K: h − G v ∈ K."""
    import clarabel
    from scipy import sparse

    d = len(used)
    one = sparse.eye_array(d, format="csr")
    match feasible:
        case Box(radius):
            return sparse.vstack([one, -one]), np.full(2 * d, radius), [clarabel.NonnegativeConeT(2 * d)]
        case Ball(radius):
            blocks = [np.arange(d)]
        case ProductOfBalls(radius, owned):
            blocks = [np.flatnonzero((used >= block.start) & (used < block.stop)) for block in owned]
        case _:
            return sparse.csr_array((0, d)), np.zeros(0), []
    rows = [sparse.vstack([sparse.csr_array((1, d)), -one[block]]) for block in blocks]
    bounds = [np.append(radius, np.zeros(len(block))) for block in blocks]
    cones = [clarabel.SecondOrderConeT(len(block) + 1) for block in blocks]
    return sparse.vstack(rows), np.concatenate(bounds), cones


def _dual(total: PiecewiseLinearLoss, feasible: Set, slope: Vector) -> float:
    """A lower bound on F, from a slope of each sample between its two, over its divisor."""
    pull = np.asarray(slope @ total.features)
    constant = -float(slope @ total.targets)
    if not total.regularizer:
        return constant - feasible.support(-pull)
    v = feasible.project(-pull / total.regularizer)
    return constant + float(pull @ v) + 0.5 * total.regularizer * float(v @ v)
