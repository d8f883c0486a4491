"""Find the best fixed decision in hindsight (the comparator), with a proven bound on its error.

The comparator minimizes F(v) = Σ_t Σ_i f_i^t(v) over all v in the set 𝒳, where f_i^t is the loss of agent i in round t.
If all agents share one loss, the sum over i has one term. The method depends on the losses and on 𝒳:

- If the losses are piecewise linear and 𝒳 states its `cones`: Clarabel solves a quadratic or second-order cone program.
- If other losses are not strongly convex in each sample and 𝒳 = R^d: Newton's method if F is smooth and regularized and
  d is moderate, else L-BFGS-B.
- In all other cases: accelerated projected gradient with adaptive restart (Beck, Teboulle 2009; O'Donoghue, Candès
  2015). If the losses have a Hessian, d is moderate and 𝒳 states its cones, Newton's method takes over after many
  iterations. Each of its steps is a quadratic program over 𝒳, solved by Clarabel.

A certificate is a proven bound on F(x) − min F, where x is the computed point. The certificate is the least of the
bounds that apply; if no bound applies, the certificate is inf:

- For a cone program of piecewise linear losses: the duality gap at feasible multipliers.
- If 𝒳 is bounded: the Frank-Wolfe gap max_{v ∈ 𝒳} ⟨∇F(x), x − v⟩, which is a bound for any convex F.
- If 𝒳 is unbounded and F is known to be μ-strongly convex: ‖∇F(x)‖²/(2μ).
- For built-in losses: F(x), because built-in losses are never negative.

The duality gap is F(x) minus the following lower bound on min F. Let A be the features, b the targets, w the weights of
the samples, and μ the regularizer. Let lo_j and hi_j be the two slopes of the loss of sample j. For any vector s of
numbers s_j in [w_j lo_j, w_j hi_j],

    min F ≥ −s·b + min_{v ∈ 𝒳} (⟨Aᵀs, v⟩ + (μ/2)‖v‖²),

because sample j adds to F the largest s_j(⟨A_j, v⟩ − b_j) over all these s_j.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mpinodes.core import Cone, SampleLoss, Set, Vector
from mpinodes.losses.clipping import plain_norms
from mpinodes.losses.linear import LinearLoss, PiecewiseLinearLoss, SmoothLoss, dense

TOLERANCE = 1e-9  # certificate at which a solver stops, relative to the larger of F and the regret of staying at 0
ROUNDED = 1e-7  # certificate, relative to F, that Clarabel reaches despite rounding errors
NEGLIGIBLE = 1e-4  # certificate, relative to the regret of staying at 0, that is accepted after `CHEAP` multiplications
ITERATIONS = 20_000  # most iterations of projected gradient, and of each L-BFGS-B
PRODUCTS = 5e10  # most multiplications for one comparator
CHEAP = 2e9  # multiplications after which the certificate `NEGLIGIBLE` is accepted
OVERHEAD = 20_000  # the fixed cost of an iteration, in multiplications
FEW = 60  # fewest samples whose kinks the first piecewise linear program models
DENSE = 2000  # largest size of a Gram matrix that is computed
STEPS, HALVINGS = 50, 8  # most steps of Newton's method, and the number of step lengths tried: 1, 1/2, 1/4, ...
PRECISE: Any = {"maxiter": ITERATIONS, "maxfun": 2 * ITERATIONS, "ftol": 1e-16, "gtol": 1e-12}  # for L-BFGS-B


class Comparator(NamedTuple):
    """Hold the best fixed decision in hindsight: an approximate minimizer over the set 𝒳 of F, the sum of all losses.

    If the best fixed decision is not computed, all numbers are nan.

    Attributes:
        point: (d,) the decision, in 𝒳.
        value: F(point).
        certificate: a proven upper bound on F(point) − min F; inf if no bound is known.
    """

    point: Vector
    value: float
    certificate: float


def best(total: SampleLoss, feasible: Set, start: Vector, others: Sequence[Vector] = ()) -> Comparator:
    """Minimize F, the sum of all loss functions, over the feasible set 𝒳.

    The guesses and 0 are projected onto 𝒳, and the solver starts from the projected point with the least F. If F is
    less at this point than at the solver's result, this point is the result.

    Args:
        total: F, a convex sum of loss functions without clipping.
        feasible: 𝒳.
        start: (d,) a guess of the minimizer.
        others: further guesses.
    """
    with np.errstate(all="ignore"):  # steep losses may overflow far from the minimum
        points = [feasible.project(x) for x in (start, *others, np.zeros_like(start))]
        values = np.nan_to_num([total.value(x) for x in points], nan=np.inf)
        at, value = points[int(values.argmin())], float(values.min())
        lost = float(values[-1]) if values[-1] < np.inf else value
        if isinstance(total, PiecewiseLinearLoss) and feasible.has_cones:
            solved = _piecewise(total, feasible, at, lost)
        elif inside := _interior(total, feasible, at, lost):
            solved = inside
        elif feasible.inradius < np.inf or total.sample_modulus:
            solved = _projected_gradient(total, feasible, at, lost)
        else:
            solved = _unconstrained(total, feasible, at)
        if solved.value <= value:
            return solved
        gap = value - (solved.value - solved.certificate)
        return Comparator(at, value, _capped(total, np.inf if np.isnan(gap) else max(gap, 0.0), value))


def _capped(total: SampleLoss, gap: float, value: float) -> float:
    """Return a proven bound on F(x) − min F: the given bound, or F(x) if F(x) is a smaller bound.

    F(x) is a bound for built-in loss functions, because they are never negative.

    Args:
        total: F.
        gap: a proven bound on F(x) − min F; inf if none is known.
        value: F(x).
    """
    return min(gap, value) if type(total).__module__.startswith("mpinodes.losses.") else gap


def _interior(total: SampleLoss, feasible: Set, start: Vector, lost: float) -> Comparator | None:
    """Minimize F = `total` by Newton's method, as on all of R^d. Return the result if it lies in the bounded set 𝒳.

    Return None if F is not smooth and regularized, if Newton's method is not cheap, or if it ends outside of 𝒳 or with
    a certificate that is not small.

    Args:
        total: F.
        feasible: 𝒳.
        start: (d,) a point in 𝒳.
        lost: F at the projected 0.
    """
    n, d = total.features.shape
    is_cheap = 10 * (n + d) * d**2 <= CHEAP
    if not (is_cheap and feasible.bounded and isinstance(total, SmoothLoss) and total.regularizer):
        return None
    x = total.prox(start, np.inf, start, tolerance=TOLERANCE * lost / (8 * feasible.reach(d))).x
    if not np.array_equal(feasible.project(x), x):
        return None
    value, gap = _certified(total, feasible, x)
    return Comparator(x, value, gap) if gap <= TOLERANCE * max(value, lost - value) else None


def _unconstrained(total: SampleLoss, feasible: Set, start: Vector) -> Comparator:
    """Minimize F = `total` on all of R^d.

    The method is Newton's method if F is smooth and regularized and d ≤ `DENSE`, else L-BFGS-B.
    """
    from scipy.optimize import minimize

    x, value = start, np.inf
    if isinstance(total, SmoothLoss) and total.regularizer and len(x) <= DENSE:
        x = total.prox(x, np.inf, x, tolerance=0.0).x  # to rounding
    else:
        while (now := total.value(x)) < value * (1 - 1e-12):  # restart L-BFGS-B from its last point until F stalls
            value, x = now, minimize(total.value, x, jac=total.grad, method="L-BFGS-B", options=PRECISE).x
    value, gap = _certified(total, feasible, x)
    if isinstance(total, LinearLoss) and total.strongly_convex_link and not total.regularizer and len(x) <= DENSE:
        # F is strongly convex on the span of the samples. Columns are scaled to norm 1, so that small columns count.
        rows = dense(total.features) / np.sqrt(np.reshape(total.divisor, (-1, 1)))
        sizes = np.linalg.norm(rows, axis=0)
        sizes[sizes == 0] = 1.0
        rows, gradient = rows / sizes, total.grad(x) / sizes
        moduli = np.linalg.eigvalsh(rows.T @ rows if len(rows) > len(x) else rows @ rows.T)
        least = float(np.min(moduli[moduli > 1e-13 * moduli[-1]], initial=np.inf))
        gap = _capped(total, float(gradient @ gradient) / (2 * total.curvature() * least), value)
    return Comparator(x, value, gap)


def _weight(total: SampleLoss) -> float:
    """Return the sum of the weights of all samples in F. The weight of a sample is 1 / `divisor`."""
    return float((np.ones(len(total.targets)) / total.divisor).sum())


def _smoothness(total: SampleLoss) -> float:
    """Return an upper bound on the largest eigenvalue of the Hessian of F = `total`; inf if no bound is known."""
    a = total.features
    if not (isinstance(total, LinearLoss) and total.predicts):
        norm = float(plain_norms(a).max(initial=0.0))
        return total.sample_smoothness(norm, norm) * _weight(total) + total.regularizer
    if min(a.shape) <= DENSE:
        small = dense(a.T @ a if a.shape[1] <= a.shape[0] else a @ a.T)
        largest = float(np.linalg.eigvalsh(small)[-1])
    else:
        from scipy.sparse.linalg import LinearOperator, eigsh

        d = a.shape[1]
        gram = LinearOperator((d, d), matvec=lambda v: a.T @ (a @ v), dtype=np.float64)
        largest = 1.01 * float(eigsh(gram, k=1, v0=np.ones(d), return_eigenvectors=False)[0])
    return total.curvature() / np.min(total.divisor) * largest + total.regularizer


def _projected_gradient(total: SampleLoss, feasible: Set, start: Vector, lost: float) -> Comparator:
    """Minimize F over the feasible set 𝒳 by accelerated projected gradient, later by Newton's method where possible.

    Newton's method needs a Hessian of F, d ≤ `DENSE`, and a set 𝒳 that states its cones.

    Args:
        total: F.
        feasible: 𝒳.
        start: (d,) a point in 𝒳.
        lost: F at the projection of 0 onto 𝒳. An error that is a small part of `lost` − min F is accepted.
    """
    smoothness, d = _smoothness(total), len(start)
    step = 1 / max(smoothness, np.finfo(float).tiny) if smoothness < np.inf else 1.0
    point = x = y = start
    momentum, lowest = 1.0, np.inf
    # multiplications of one iteration; the size of a sparse array is the number of its stored entries
    products = 2 * max(total.features.size, 1) * d // total.features.shape[1]
    has_hessian = hasattr(total, "hessian") and d <= DENSE and feasible.has_cones
    # the cost of one step of Newton's method, in iterations of projected gradient
    polish = max(20, 25 * d**3 // (products + OVERHEAD)) if has_hessian else ITERATIONS
    for iteration in range(int(min(ITERATIONS, max(500, PRODUCTS / products)))):
        gradient = total.grad(y)
        ahead = feasible.project(y - step * gradient)
        while smoothness == np.inf and step > np.finfo(float).tiny:
            moved = ahead - y  # halve the step until F(ahead) is below the quadratic upper model at y
            limit = total.value(y) + float(gradient @ moved) + float(moved @ moved) / (2 * step)
            if total.value(ahead) <= limit + 1e-12 * abs(limit):
                break
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
            wanted = TOLERANCE * max(value, lost - value)
            if iteration >= polish and lowest > wanted:
                x, lowest = _newton(total, feasible, point, step, wanted)
                point, y, momentum, polish = x, x, 1.0, 2 * iteration
            if lowest <= max(wanted, NEGLIGIBLE * (lost - value) if iteration * products > CHEAP else 0.0):
                break
    value, gap = _certified(total, feasible, point)
    return Comparator(point, value, gap)


def _newton(total: Any, feasible: Set, x: Vector, step: float, wanted: float) -> tuple[Vector, float]:
    """Improve the point x by Newton's method. Return the point with the least certificate, and that certificate.

    A certificate is a proven bound on F(x) − min F. Each step minimizes the quadratic model of F at x over the feasible
    set 𝒳, and then makes a step of projected gradient.

    Args:
        total: F, with a Hessian.
        feasible: 𝒳.
        x: (d,) a point in 𝒳.
        step: the step size of the projected gradient.
        wanted: the certificate at which the method ends.
    """
    from scipy import sparse

    rows, bounds, cones = _cones(feasible, np.arange(len(x)))
    point, (value, lowest) = x, _certified(total, feasible, x)
    for _ in range(STEPS):
        hessian = total.hessian(x)
        curved = np.diag(hessian)  # coordinates are scaled to a curvature of 1
        scale = 1 / np.sqrt(np.maximum(curved, max(1e-16 * float(curved.max()), np.finfo(float).tiny)))
        model = sparse.csc_array(np.triu(hessian * scale * scale[:, None]))
        scaled = rows @ sparse.diags_array(scale)
        moved, _ = _clarabel(model, total.grad(x) * scale, scaled, bounds - rows @ x, cones, precise=True)
        toward = feasible.project(x + scale * moved) - x
        for shorter in 0.5 ** np.arange(HALVINGS):
            ahead = x + shorter * toward
            ahead = feasible.project(ahead - step * total.grad(ahead))
            now, gap = _certified(total, feasible, ahead)
            if now < value or gap < lowest:
                break
        else:
            break
        x, value = ahead, now
        if gap < lowest:
            point, lowest = x, gap
        if lowest <= wanted:
            break
    return point, lowest


def _clarabel(
    quadratic: Any, linear: Vector, rows: Any, bounds: Vector, cones: list[Any], precise: bool = False
) -> tuple[Vector, Vector]:
    """Minimize ½ v'Pv + q'v over all v with h − G v in the cone K. Return the minimizer and the dual multipliers.

    The solver is Clarabel.

    Args:
        quadratic: P, only its upper triangle, sparse.
        linear: q.
        rows: G, sparse.
        bounds: h.
        cones: K, one cone for each block of rows.
        precise: whether to set tolerances near rounding errors. With these tolerances Clarabel may fail on a linear
            program.
    """
    import clarabel
    from scipy import sparse

    settings = clarabel.DefaultSettings()
    settings.verbose = False
    if precise:
        settings.tol_gap_abs, settings.tol_gap_rel, settings.tol_feas = 0.0, 1e-13, 1e-13
        settings.static_regularization_constant, settings.iterative_refinement_max_iter = 1e-11, 50
        settings.iterative_refinement_abstol = settings.iterative_refinement_reltol = 1e-15
    solution = clarabel.DefaultSolver(quadratic, linear, sparse.csc_array(rows), bounds, cones, settings).solve()
    return np.array(solution.x), np.array(solution.z)


def _certified(total: SampleLoss, feasible: Set, x: Vector) -> tuple[float, float]:
    """Return F(x), where F = `total`, and the smallest known bound on F(x) − min F over the feasible set.

    The bound is inf if no bound is known: the set is unbounded, and the loss is neither built in nor strongly convex.
    """
    gradient, value = total.grad(x), total.value(x)
    if feasible.bounded:
        return value, _capped(total, max(float(gradient @ x) + feasible.support(-gradient), 0.0), value)
    modulus = total.regularizer + total.sample_modulus * _weight(total)
    return value, _capped(total, float(gradient @ gradient) / (2 * modulus) if modulus else np.inf, value)


def _piecewise(total: PiecewiseLinearLoss, feasible: Set, start: Vector, lost: float) -> Comparator:
    """Minimize a piecewise linear F by a sequence of small programs, which are solved by Clarabel.

    The loss function of a sample has one kink, at which its slope changes. A program is small because it contains only
    the kinks that are nearest to the best point so far; all other loss functions are treated as linear. Later programs
    contain more kinks. If F has no regularizer and the set is unbounded, the only program contains all kinks.

    Args:
        total: F.
        feasible: the feasible set.
        start: (d,) a feasible point.
        lost: F at the projection of 0 onto the feasible set. An error that is a small part of `lost` − min F is
            accepted.
    """
    n, lowest = len(total.targets), Comparator(start, 0.0, np.inf)
    has_minimum = feasible.bounded or total.regularizer  # then the problem with few kinks also has a minimum
    size = max(FEW, isqrt(n)) if has_minimum else n
    few, least, beyond = np.zeros(n, bool), total.value(start), total.features @ start - total.targets
    while not few.all() and lowest.certificate > TOLERANCE * max(lowest.value, lost - lowest.value):
        few[np.argpartition(np.abs(beyond), size)[:size] if 2 * size < n else slice(None)] = True
        side = np.sign(beyond)
        solved = _conic(total, feasible, few, side)
        lowest = min(lowest, solved, key=lambda comparator: comparator.certificate)
        there = total.features @ solved.point - total.targets
        wrong = ~few & (np.sign(there) != side)
        if not wrong.any() and lowest.certificate <= ROUNDED * lowest.value:
            break
        if np.count_nonzero(wrong) <= 10 * size:
            few |= wrong
        if solved.value < least:
            least, beyond = solved.value, there
        size *= 2
    return lowest


def _conic(total: PiecewiseLinearLoss, feasible: Set, some: NDArray[np.bool_], side: Vector) -> Comparator:
    """Minimize a piecewise linear F over the feasible set 𝒳 by Clarabel, with some loss functions made linear.

    The loss function of a chosen sample keeps its kink, at which its slope changes. The loss function of any other
    sample is replaced by a linear function with one of the two slopes. For the chosen samples, with features A, targets
    b, and slopes lo and hi, the program is

        min over v, e of Σ e/divisor + (μ/2)‖v‖²  s.t.  e ≥ lo (Av − b), e ≥ hi (Av − b), v ∈ 𝒳.

    The linear functions of the other samples are added to the objective.

    Args:
        total: F, with the regularizer μ.
        feasible: 𝒳.
        some: (n,) whether a sample is chosen.
        side: (n,) the sign that selects the slope of a sample that is not chosen: hi if the sign is positive, else lo.
    """
    import clarabel
    from scipy import sparse

    whole = total.features
    used = np.flatnonzero(whole.any(axis=0)) if isinstance(whole, np.ndarray) else np.unique(whole.indices)
    # In a coordinate without features, 0 is optimal if a point of 𝒳 stays in 𝒳 when the coordinate is set to 0.
    used = used if feasible.solid else np.arange(whole.shape[1])
    a, b = sparse.coo_array(whole[np.flatnonzero(some)][:, used]), total.targets[some]
    divisor = np.broadcast_to(total.divisor, len(some))
    n, d = len(b), len(used)
    lo, hi = total.slopes(total.targets)
    fixed = np.where(some, 0.0, np.where(side > 0, hi, lo) / divisor)
    lo, hi = lo[some], hi[some]
    set_rows, set_bounds, set_cones = _cones(feasible, used)
    # G has the blocks [lo A, −1], [hi A, −1], [G of 𝒳, 0]. SciPy's products and stacks of sparse arrays would take
    # longer than the solver, so its entries are listed here.
    row, column, e, of_set = *a.coords, np.arange(n), sparse.coo_array(set_rows)
    entries = np.concatenate([lo[row] * a.data, hi[row] * a.data, np.full(2 * n, -1.0), of_set.data])
    down = np.concatenate([row, row + n, e, e + n, of_set.coords[0] + 2 * n])
    across = np.concatenate([column, column, e + d, e + d, of_set.coords[1]])
    there = entries != 0
    at = down[there], across[there]
    rows = sparse.csc_array((entries[there], at), shape=(2 * n + len(set_bounds), d + n))
    bounds = np.concatenate([lo * b, hi * b, set_bounds])
    strong = np.arange(d if total.regularizer else 0)
    diagonal = np.full(len(strong), total.regularizer), (strong, strong)
    quadratic = sparse.csc_array(diagonal, shape=(d + n, d + n))
    linear = np.concatenate([(fixed @ whole)[used], 1 / divisor[some]])
    cones = [clarabel.NonnegativeConeT(2 * n), *set_cones]
    solved, multipliers = _clarabel(quadratic, linear, rows, bounds, cones)
    x = np.zeros(total.features.shape[1])
    x[used] = solved[:d]
    x = feasible.project(x)
    below, above = np.maximum(multipliers[: 2 * n], 0.0).reshape(2, n)
    share = np.divide(above, below + above, out=np.full(n, 0.5), where=below + above > 0)
    fixed[some] = (lo + share * (hi - lo)) / divisor[some]
    value = total.value(x)
    return Comparator(x, value, _capped(total, max(value - _dual(total, feasible, fixed), 0.0), value))


def _cones(feasible: Set, used: Any) -> tuple[Any, Vector, list[Any]]:
    """Describe the feasible set by constraints on the coordinates `used`: return G, h and cones K with h − G v ∈ K."""
    import clarabel
    from scipy import sparse

    cones = feasible.cones(used) or [Cone(sparse.csr_array((0, len(used))), np.zeros(0))]
    kinds = [clarabel.SecondOrderConeT if cone.second_order else clarabel.NonnegativeConeT for cone in cones]
    sizes = [kind(len(cone.bounds)) for kind, cone in zip(kinds, cones, strict=True)]
    rows = [sparse.csr_array(cone.rows) for cone in cones]
    return sparse.vstack(rows) if rows[1:] else rows[0], np.concatenate([cone.bounds for cone in cones]), sizes


def _dual(total: PiecewiseLinearLoss, feasible: Set, slope: Vector) -> float:
    """Return a lower bound on the minimum of F over the feasible set 𝒳: the dual objective at given multipliers.

    Args:
        total: F, a sum of piecewise linear losses.
        feasible: 𝒳.
        slope: (n,) the multiplier of each sample: a number between the least and the largest slope of its loss, divided
            by the divisor of its loss.
    """
    pull = np.asarray(slope @ total.features)
    constant = -float(slope @ total.targets)
    if not total.regularizer:
        return constant - feasible.support(-pull)
    v = feasible.project(-pull / total.regularizer)
    return constant + float(pull @ v) + 0.5 * total.regularizer * float(v @ v)
