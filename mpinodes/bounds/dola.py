"""Compute the bounds of DOLA on the regret (Theorem 2).

C. Li, P. Zhou, G. Chen, T. Jiang, "Differentially Private Distributed Online Learning". A number in parentheses, such
as (32), is an equation of the paper. As printed, the regret of any agent's decisions is at most

    λ-strongly convex, α = 1/(λt):    (mL/λ)A(1 + log T) + B·2√2mdL/(λε)·(1 + log T) + mR/2
    convex, α = 1/(2√t):              mL·A(√T − ½) + B·2√2mdL/ε·(√T − ½) + mR/2

    A = R + 3βθmL/(1−β) + 13L/2,  B = 3βθmL/(1−β) + (2L+1)/2m

The symbols are:

- There are m agents in d coordinates. R = diam 𝒳, and L bounds the gradients.
- ε is the nominal epsilon of a round, and α_t is the step size. [x]₊ is max{x, 0}.
- η is the least positive weight in the mixing matrices A(t), and the graphs are connected over any N rounds.
- θ = (1 − η/4m²)^(−2), and β = (1 − η/4m²)^(1/N).

In the convex case the paper prints mL/λ in (46), although λ = 0. The form as printed here has mL in this place.

The form "checked" uses another proof, because the paper's proof compares norms in (32), where squares of norms are
needed. The comment above `regrets` has this proof.
"""

from __future__ import annotations

from math import expm1, inf, log1p, sqrt

import numpy as np
from numpy.typing import ArrayLike

from mpinodes.bounds import constants
from mpinodes.bounds.constants import Rounds, before, bound, first_broken, upto
from mpinodes.bounds.weights import Weights
from mpinodes.core import Bound, Setup, Vector
from mpinodes.topology import facts


def bounds(setup: Setup, horizons: ArrayLike, minimizer: Vector) -> list[Bound]:
    """Compute the bounds of Theorem 2 of the DOLA paper on the regret.

    The printed formula gives a bound on an agent's regret. A corrected proof gives a bound on the network regret and a
    bound on an agent's regret.
    """
    weights, at = Weights.of(setup), np.asarray(horizons, dtype=np.int64)
    broken = broken_by(setup, weights)
    printed = regret_as_printed(setup, weights, at, max(setup.run.grad_sensitivity))
    network, agent = regrets(setup, weights, at)
    return [
        bound("Theorem 2, as printed", "agent_regret", printed, printed_broken_by(setup, broken)),
        bound("Theorem 2, checked", "network_regret", network, broken),
        bound("Theorem 2, checked", "agent_regret", agent, broken),
    ]


def broken_by(setup: Setup, weights: Weights) -> str:
    """Return the first assumption of the corrected Theorem 2 that the run breaks; an empty text if there is none.

    The corrected proof allows any step sizes and any noise scales.

    Args:
        setup: the run.
        weights: the mixing matrices of the run.
    """
    return first_broken(
        constants.unclipped(setup),
        "" if setup.feasible.bounded else f"problem.set = {setup.experiment.problem.set!r} has no diameter",
        "" if all(map(weights.sums_to_one, (0, 1))) else "the weights are not doubly stochastic",
        constants.clipped(setup),
    )


def _modulus(setup: Setup) -> float | None:
    """Return λ if the step size of every round t is 1/(λt), otherwise None."""
    modulus, offset = constants.strongly_convex_steps(setup) or (None, 0.0)
    return None if offset else modulus


def printed_broken_by(setup: Setup, broken: str) -> str:
    """Return the first assumption of the printed Theorem 2 that the run breaks; an empty text if there is none.

    The printed theorem, unlike the corrected proof, needs the steps and the noise of the paper and, for steps 1/(λt),
    losses that are λ-strongly convex.

    Args:
        setup: the run.
        broken: the result of `broken_by`.
    """
    modulus, regularizer = _modulus(setup), setup.experiment.problem.regularizer
    if modulus is None:
        wrong = not constants.are_steps(setup, lambda t: 0.5 / np.sqrt(t))
        reason = "steps are neither 1/(lambda t) nor 1/(2 sqrt(t))" if wrong else ""
    elif not regularizer:
        reason = "no regularizer, from which the bound takes the strong convexity"
    else:
        weak = modulus > regularizer * (1 + 1e-12)
        reason = f"steps 1/({modulus:g} t) need losses that are {modulus:g}-strongly convex" if weak else ""
    noise = "" if constants.calibrated(setup) else "the noise has one scale in all rounds, not S(t)/epsilon"
    return first_broken(broken, reason, noise)


def steepness(setup: Setup) -> np.float64:
    """Return L, a bound on the norm of an agent's gradient at points of 𝒳; inf if no bound is known.

    L is the bound on the clipped gradient, plus the largest gradient of the regularizer. The random error of the
    setting `problem.gradient_noise` is not included.
    """
    regularizer, across = setup.experiment.problem.regularizer, setup.feasible.diameter(setup.dimension)
    return constants.largest_gradient(setup) + (regularizer * across / 2 if regularizer else 0.0)


def regret_as_printed(setup: Setup, weights: Weights, at: Rounds, change: float) -> Vector:
    """Compute the bound on an agent's regret by Theorem 2, as the paper prints it: (h,).

    Args:
        setup: the run.
        weights: the mixing matrices of the run.
        at: (h,) the rounds at which the bound is evaluated.
        change: the L2 sensitivity of a gradient, 2L, to which the noise is calibrated.
    """
    e, m, d = setup.experiment, setup.topology.agents, setup.dimension
    across = setup.feasible.diameter(d)
    steep = steepness(setup)
    slow = log1p(-weights.least / (4 * m * m))
    n = facts.connectivity(setup.topology, e.rounds)
    shared = 3 * m * steep * np.exp(slow / n - 2 * slow) / -expm1(slow / n)  # 3βθmL/(1−β)
    modulus = _modulus(setup)
    growth = np.sqrt(at) - 0.5 if modulus is None else (1 + np.log(at)) / modulus  # Σ α
    s = constants.noise_scales(setup, np.array([sqrt(d) * change]))[0]
    noise = m * sqrt(2 * d) * s * (growth if constants.calibrated(setup) else at)  # Σ_t Σ_i E‖σ‖
    return np.asarray(
        m * steep * (across + shared + 6.5 * steep) * growth
        + (shared + (2 * steep + 1) / (2 * m)) * noise
        + m * across / 2
    )


# The form "checked" uses another proof, because the paper's proof compares norms in (32), where squares of norms are
# needed. Let μ_t be the noise scale, b_i(t) agent i's mixture of noisy messages, and G_t² the mean square of the
# gradients at b_i(t). With projection and doubly stochastic A(t), for any step sizes and any v ∈ 𝒳,
#
#     E Σ_t Σ_i f_i(b_i(t)) − f_i(v) ≤ Σ_t (mR²/2)[1/α_t − 1/α_{t−1} − λ]₊ + m d μ_t² [1/α_t − λ]₊ + (m/2) α_t G_t²
#
# If G_t = L, this is at most (mL²/λ)(½ + 4d²/ε²)(1 + log T), or mR²√T + mL²(½ + 4d²/ε²)√T + 3md²L²/ε². But the
# decisions are x_i, not b_i. Let x̄ be the mean of the x_i, D_t² = E Σ_i ‖x_i − x̄‖², J = 11ᵀ/m, and K = Σ_{k ≥ 0}
# sup_s ‖A(s+k−1)⋯A(s) − J‖₂, where the product of k = 0 matrices is the identity. Then
#
#     Σ_t D_t ≤ K Σ_t √m(√(2d) μ_t + α_t G_t)
#     E Σ_i f_i(x_i) − f_i(b_i) ≤ 2√m L D_t,  E Σ_i f_i(x_j) − f_i(x_i) ≤ (m + √m) L D_t
#
# because x_i is independent of the noise in b_i. The noise may move b_i outside 𝒳, which (22) overlooks. A regularizer
# has larger gradients outside 𝒳: G_t = L + λ√(2d)μ_t. If gradients have a stochastic error of variance ν² in each
# coordinate (`problem.gradient_noise`), G_t² = (L + λ√(2d)μ_t)² + dν².
def regrets(setup: Setup, weights: Weights, at: Rounds) -> tuple[Vector, Vector]:
    """Compute the bounds of the corrected proof of Theorem 2: on network regret and on an agent's regret, (h,) each.

    Args:
        setup: the run.
        weights: the mixing matrices of the run.
        at: (h,) the rounds at which the bounds are evaluated.
    """
    p, m, d = setup.experiment.problem, setup.topology.agents, setup.dimension
    alpha, across = constants.steps(setup, int(at[-1])), setup.feasible.diameter(d)
    # The noise μ_t of round t is calibrated to the step size of round t − 1; μ_1 = 0.
    mu = constants.noise_scales(setup, sqrt(d) * max(setup.run.grad_sensitivity) * before(alpha, 0.0))
    reach = np.sqrt(2 * d) * mu  # (E‖noise‖²)^½
    steep = steepness(setup)
    gradient = np.hypot(steep + p.regularizer * reach, sqrt(p.gradient_noise * d))  # G_t
    gains = np.maximum(0.0, 1 / alpha - 1 / before(alpha, inf) - p.regularizer)
    rounds = (
        m * across**2 / 2 * gains
        + m * d * mu**2 * np.maximum(0.0, 1 / alpha - p.regularizer)
        + m / 2 * alpha * gradient**2
    )
    k = weights.sums()[0] if weights.sums_to_one(0) and weights.sums_to_one(1) else inf
    apart = k * sqrt(m) * steep * before(reach + alpha * gradient, 0.0) if m > 1 else np.zeros_like(alpha)
    own = upto(rounds + 2 * sqrt(m) * apart, at)
    return own, own + upto((m + sqrt(m)) * apart, at)
