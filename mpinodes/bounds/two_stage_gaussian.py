"""Compute the bounds of two-stage Gaussian consensus on the squared error: Theorem 2 and Corollary 2.

M. Showkatbakhsh, C. Karakus, S. Diggavi, "Differentially Private Consensus-Based Distributed Optimization". In stage I,
rounds 1 to T, agents use gradients. In stage II, agents only average. The last decisions of stage I are handed over to
stage II, with or without noise. A number in parentheses, such as (17), is an equation of the paper. As printed, the
squared errors are at most

    E‖x̄(T) − x*‖² ≤ B = ‖x*‖²/T + G²(1 + 1/(1−β))K² log T/T + (2√(2p)G/√κ)(4 + 3/(1−β))K²/T^¼ + 2pK²/κ
    E‖x_i(t) − x*‖² ≤ 4‖x(T)‖²β^(2(t−T)) + 2B,  ‖x(T)‖² ≤ N sup{‖x‖²: x ∈ 𝒳}

The symbols are:

- x(t − 1), as in the paper, is the decision of our round t. So x̄(T) is the mean decision of round T + 1, and x_i(t)
  for t > T are decisions of stage II.
- There are N agents in p coordinates. Each f_i is μ-strongly convex and has an L-Lipschitz gradient.
- G ≥ ‖∇f_i‖ on 𝒳, and K = (μ + L)/(2μL). [x]₊ is max{x, 0}.
- β = ‖W − J‖₂, where W is the mixing matrix and J = 11ᵀ/N.
- κ = ε²/(4G_s²(ε + 2 log(2/δ))), where 2G_s is the largest change of ∇f_i between adjacent data sets. The paper has G
  in place of G_s, but the noise needs this change.

The paper has these mistakes:

- (17) has the term C_√T/√T, which the paper never defines. In the proof of (17), this term is twice the term C_∜T/∜T of
  Theorem 2.
- B is too small for T = 1, because log 1 = 0. The proof uses Σ 1/t ≤ log T.
- (30) has only half of its last two terms.
- (34) has 3 in place of 4.
- The theorem has 2p, but (31) has 4p.
- The projection error, in the paper u(t), comes from the noise n(t − 1), not from n(t).
- The hand-over to stage II has no noise in (18), but has noise in (11).

In two places the proof can be made sharper. 1 − 1/t is 0 at t = 1, so the first step removes ‖x*‖². The bounds in (33)
and (34) decrease like 1/√T, but B has 1/T^¼. The corrected closed form is

    B = G²K²(1 + 2/(1−β))(1 + log T)/T + (2√(2p)G/√κ)K²(4 + 8/(1−β))/√T + 4pK²/κ

The form "checked" evaluates the sums of the proof for any step sizes, noise scales and doubly stochastic weights. The
comment above `_checked` has these sums.
"""

from __future__ import annotations

from math import inf, isfinite, log, sqrt
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from mpinodes.bounds import constants
from mpinodes.bounds.constants import Rounds, before, bound, first_broken
from mpinodes.bounds.weights import Weights
from mpinodes.core import Bound, Setup, Vector

CONNECTED = 1 - 1e-12  # ‖W − J‖₂ is below this for a connected graph


class Constants(NamedTuple):
    """Hold the constants of a run that Theorem 2 needs. The docstring of the module defines the symbols."""

    algorithm: Any  # has the schedules of step sizes and noise scales
    gradient: np.float64  # G
    reach: float  # sup ‖x‖ over 𝒳
    start: float  # ‖x*‖²
    noise: Vector  # (T,) M_1, ..., M_T: the noise scales of the releases in rounds 2 to T + 1


def bounds(setup: Setup, horizons: ArrayLike, minimizer: Vector) -> list[Bound]:
    """Bound the squared error of the mean decision and of each agent's decision.

    There are two forms of each bound: by the formula that the paper prints, and by a corrected proof. T is the number
    of rounds with gradients.

    - The printed bound on the mean decision is inf before round T + 1.
    - The printed bound on an agent's decision is inf before round T + 2.
    """
    at, weights, c = np.asarray(horizons, dtype=np.int64), Weights.of(setup), _constants(setup, minimizer)
    unbounded = "" if isfinite(c.gradient) else "the gradients of an agent's loss have no bound"
    broken = first_broken(unbounded, constants.clipped(setup, c.reach))
    beta, last, a = float(weights.contraction().max()), len(c.noise), c.algorithm
    sure = setup.run.least_modulus, setup.run.largest_smoothness
    mu, smooth = a.modulus or sure[0], a.largest_curvature or sure[1]
    is_known = mu <= sure[0] * (1 + 1e-12) and smooth >= sure[1] * (1 - 1e-12)
    steps = f"the steps assume mu = {mu:g}, L = {smooth:g}; the losses are known to have {sure[0]:g} and {sure[1]:g}"
    due = _root(setup) * a.k * np.sqrt(2 * sqrt(last)) * np.arange(1, last) ** -0.75
    is_due = np.allclose(c.noise[:-1], due, rtol=1e-9, atol=0)
    assumed = first_broken(
        broken,
        "" if is_known else steps,
        "" if is_due else "the noise does not have the scales of Theorem 2",
        "gradients are stochastic (problem.gradient_noise)" if setup.experiment.problem.gradient_noise else "",
        "" if beta < CONNECTED else "the graph is not connected in every round",
    )
    theorem, corollary = _printed(setup, c, at, beta)
    noised = "the hand-over carries noise, which the paper's proofs of stage II leave out" if c.noise[-1] else ""
    later = noised if at[-1] > last + 1 else ""
    printed = [
        bound("Theorem 2, as printed", "decision_error", theorem, first_broken(assumed, later)),
        bound("Corollary 2, as printed", "agent_decision_error", corollary, first_broken(assumed, noised)),
    ]
    mean, agents = _checked(setup, weights, c, at)
    return [
        *(b._replace(values=np.where(at > last + k, b.values, inf)) for k, b in enumerate(printed)),
        bound("Theorem 2, checked", "decision_error", mean, broken),
        bound("Corollary 2, checked", "agent_decision_error", agents, broken),
    ]


def _constants(setup: Setup, minimizer: Vector) -> Constants:
    """Return the constants of a run that Theorem 2 needs."""
    e, algorithm, regularizer = setup.experiment, cast(Any, setup.algorithm), setup.experiment.problem.regularizer
    reach, best = setup.feasible.diameter(setup.dimension) / 2, np.atleast_2d(minimizer)[-1]
    samples = np.float64(constants.terms(setup) * constants.sample_gradient(setup, reach))
    gradient = min(samples, constants.largest_gradient(setup)) + (regularizer * reach if regularizer else 0.0)
    t = np.arange(1, algorithm.gradient_rounds + 1)
    noise = constants.noise_scales(setup, np.zeros(len(t)))  # of a run without noise, or with one scale for all rounds
    if e.private and constants.calibrated(setup):
        noise = np.asarray(algorithm.noise(t) * ((t < len(t)) | (algorithm.handover == "noised")))
    return Constants(algorithm, gradient, reach, float(best @ best), noise)


def _root(setup: Setup) -> np.float64:
    """Return 1/√κ, a factor of the noise scale; 0 if the run has no noise.

        κ = ε²/(4G²(ε + 2 log(2/δ)))

    2G is the largest change of an agent's gradient between adjacent data sets.
    """
    e = setup.experiment
    if not e.private:
        return np.float64(0.0)
    return np.float64(
        max(setup.run.grad_sensitivity) * sqrt(e.privacy.epsilon + 2 * log(2 / e.privacy.delta)) / e.privacy.epsilon
    )


def _printed(setup: Setup, c: Constants, at: Rounds, beta: float) -> tuple[Vector, Vector]:
    """Compute the printed bounds on the squared errors of the mean decision and of an agent's decision: (h,) each.

    Args:
        setup: the run.
        c: the constants of the run.
        at: (h,) the rounds at which the bounds are evaluated.
        beta: the largest ‖W − J‖₂ over all mixing matrices W.
    """
    n, p, last, k = setup.topology.agents, setup.dimension, len(c.noise), c.algorithm.k
    root, mixing = _root(setup), 1 / (1 - beta) if beta < CONNECTED else inf
    mean = (
        c.start / last
        + (c.gradient * k) ** 2 * (1 + mixing) * log(last) / last
        + 2 * sqrt(2 * p) * c.gradient * root * (4 + 3 * mixing) * k**2 / last**0.25
        + 2 * p * (k * root) ** 2
    )
    agents = 4 * n * c.reach**2 * beta ** (2.0 * (at - 1 - last)) + 2 * mean
    return np.full(len(at), mean), np.asarray(agents)


# The form "checked" evaluates the sums of the proof for any step sizes, noise scales and doubly stochastic weights. Let
# ν² be the variance of gradients, Ĝ² = G² + ν²p, c_t = [1 − η_t/K]₊, ρ_t = ‖W(t) − J‖₂, and M_t the noise scale of
# x(t), with M_0 = D_1 = 0:
#
#     B_0 = ‖x*‖²,  B_t = c_t(B_{t−1} + pM_{t−1}²) + η_t²Ĝ² + 2η_tG(D_t + √p M_{t−1})
#     D_{t+1} = ρ_{t+1}(D_t + √p(M_{t−1} + M_t) + η_tĜ)
#
# Then B_t ≥ E Σ_i ‖x_i(t) − x*‖²/N for t ≤ T, so N B_t bounds the squared error of each agent. The proof does not need
# x* to be inside 𝒳, because Σ_i ⟨∇f_i(x*), z̄ − x*⟩ ≥ 0 for z̄ ∈ 𝒳 is enough. After a hand-over with noise scale M_T,
# which may be 0:
#
#     E‖x̄(t) − x*‖² ≤ B_T + pM_T²/N
#     E‖x_i(t) − x*‖² ≤ 2N(ρ_{T+1}⋯ρ_t)²(min{B_T, sup ‖x‖²} + pM_T²) + 2(B_T + pM_T²/N)
def _checked(setup: Setup, weights: Weights, c: Constants, at: Rounds) -> tuple[Vector, Vector]:
    """Compute the corrected bounds on the squared errors of the mean decision and of an agent's decision: (h,) each.

    Args:
        setup: the run.
        weights: the mixing matrices of the run.
        c: the constants of the run.
        at: (h,) the rounds at which the bounds are evaluated.
    """
    n, p, last = setup.topology.agents, setup.dimension, len(c.noise)
    rho = weights.contraction()[weights.places(max(int(at[-1]), last + 1))]
    eta = c.algorithm.eta(np.arange(1, last + 1))
    rate = 2 / (1 / np.float64(setup.run.least_modulus) + 1 / np.float64(setup.run.largest_smoothness))
    noise = sqrt(p) * c.noise
    moved = eta * np.hypot(c.gradient, sqrt(setup.experiment.problem.gradient_noise * p))
    shrink = np.maximum(0.0, 1 - rate * eta)
    rows = (shrink, before(noise, 0.0), noise, moved, 2 * eta * c.gradient, rho[1 : last + 1])
    b, d = [c.start], 0.0  # B_0, ..., and D
    for keep, noise_before, noise_now, move, gain, mix in zip(*(row.tolist() for row in rows), strict=True):
        b.append(keep * (b[-1] + noise_before * noise_before) + move * move + gain * (d + noise_before))
        d = mix * (d + noise_before + noise_now + move)
    errors, released = np.array(b), p * c.noise[-1] ** 2
    first = errors[np.minimum(at - 1, last)]
    mean = np.where(at > last + 1, first + released / n, first)
    left = np.concatenate([[1.0], np.cumprod(rho[last:])])[np.maximum(at - 1 - last, 0)] ** 2
    apart = 2 * n * left * (np.minimum(errors[-1], c.reach**2) + released)
    return mean, np.where(at > last + 1, apart + 2 * mean, n * first)
