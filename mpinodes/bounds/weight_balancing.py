"""Compute the bounds of weight balancing on the regret: Theorems 2 and 3.

J. Zhu, C. Xu, J. Guan, D. O. Wu, "Differentially Private Distributed Online Algorithms Over Time-Varying Directed
Networks". As printed, the regret of any agent's decisions is at most the following. The formulas after 2 belong to
Theorem 2, and the formulas after 3 to Theorem 3, whose steps follow the doubling scheme:

    2  α = 1/(μ̃(t+1)):  2nμ̃‖x*‖² + C₂(1 + log T)
       C₂ = (5L+2nL_max)·2√2nλdL_maxC/(μ̃ε(1−λ)) + 8ndL_max²/(μ̃ε²) + q²/μ̃
            + (L+4n+2nL_max)(nCL_max/(μ̃(1−λ)) + 2L_max/μ̃)
    3  doubling:  √2/(√2−1)·β√T
       β = n‖x*‖² + 2L_max(L+2n+2nL_max) + 2√2ndL_maxC(5L+2nL_max)/(ε(1−λ)) + q²
           + (L+4n+2nL_max)nCL_max/(1−λ) + 8ndL_max²/ε²

The symbols are:

- There are n agents in d coordinates. α is the step size, and ε is the nominal epsilon of a round.
- x* is the best fixed decision, and x_j(1) = 0.
- f_i is μ_i-strongly convex. L_i bounds agent i's gradients, and ν_i² is their variance.
- L = Σ L_i, L_max = max L_i, and q² = Σ (L_i + ν_i)².
- C and λ are the constants of Lemma 2, |[W(t)⋯W(s)]_ij − 1/n| ≤ Cλ^(t−s+1), which the paper does not state. If the rows
  of W also sum to 1, we use C = 1 and λ = max_t ‖W(t) − J‖₂, where J = 11ᵀ/n. If not, we fit C and λ to the products.

The paper assumes that gradients are bounded on all of R^d and that loss functions are strongly convex, but no loss
function has both properties. Here L_i is the bound on the gradient without the regularizer, plus the regularizer times
a bound on the root-mean-square norm of x_i, which the checked form computes.

The form "checked" does not bound the gradient of the regularizer, but computes a bound round by round. The comment
above `Region` has this recursion.
"""

from __future__ import annotations

from math import inf, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mpinodes.bounds import constants
from mpinodes.bounds.constants import Rounds, before, bound, first_broken, upto
from mpinodes.bounds.weights import Weights
from mpinodes.core import Bound, Setup, Vector
from mpinodes.topology import facts


def bounds(setup: Setup, horizons: ArrayLike, minimizer: Vector) -> list[Bound]:
    """Compute the bounds on the regret: of Theorem 2 for steps of the form 1/(μ (t + s)), of Theorem 3 for other steps.

    Each bound is computed as the paper prints it, and by a corrected proof.
    """
    weights, at = Weights.of(setup), np.asarray(horizons, dtype=np.int64)
    strong, graph, e = constants.strongly_convex_steps(setup), setup.topology, setup.experiment
    (modulus, offset), unfit = strong or (0.0, 0.0), ""
    if not strong:  # 1/√(2^m) for t = 2^m .. 2^(m+1) − 1
        is_doubling = constants.are_steps(setup, lambda t: np.asarray(1 / np.sqrt(2.0 ** (np.frexp(t)[1] - 1))))
        unfit = "" if is_doubling else "steps are neither 1/(mu (t + 1)) nor doubling"
    elif offset != 1:
        unfit = "steps are not 1/(mu (t + 1)): step.offset is not 1"
    elif not e.problem.regularizer:
        unfit = "no regularizer, from which the bound takes the strong convexity"
    elif modulus > e.problem.regularizer / 2 * (1 + 1e-12):
        unfit = (
            f"step.modulus = {modulus:g} is above problem.regularizer/2: the printed range, up to 1/2 sum mu_i, is "
            "wrong by a factor n; the proof holds up to (1/2n) sum mu_i"
        )
    sound = graph.period == 1 or facts.is_eulerian(graph, e.rounds)
    public = e.algorithm["gradient_at"] == "public"
    broken = first_broken(  # the checked form allows any noise
        constants.unclipped(setup),
        "" if sound else "Lemma 2 fails: the digraph changes, and agents have more or fewer senders than receivers",
        "" if facts.connectivity(graph, e.rounds) == 1 else "the digraph is not strongly connected in every round",
        unfit,
        "gradients are taken at public points, not at x_i" if public else "",
        constants.clipped(setup),
    )
    name, norm = f"Theorem {2 if strong else 3}", np.linalg.norm(minimizer, axis=-1)
    region = _region(setup, weights, constants.steps(setup, int(at[-1])))
    printed = _printed(setup, weights, region, at, norm)
    network, agent = _checked(setup, region, at, norm)
    noise = "" if _as_paper(setup) else "the noise is not of scale 2L sqrt(d) alpha(t)/epsilon"
    return [
        bound(f"{name}, as printed", "agent_regret", printed, first_broken(broken, noise)),
        bound(f"{name}, checked", "network_regret", network, broken),
        bound(f"{name}, checked", "agent_regret", agent, broken),
    ]


def _as_paper(setup: Setup) -> bool:
    """Return True if the noise has the scales that the paper prescribes, or if the run has no noise."""
    printed = setup.experiment.algorithm["noise_index"] == "paper"
    return not setup.experiment.private or (printed and constants.calibrated(setup))


# The form "checked" does not bound the gradient of the regularizer, but computes a bound round by round. Let M_t² ≥
# E‖x̄‖², S_t² ≥ E Σ_i ‖x_i − x̄‖², ρ_t = ‖W(t) − J‖₂, δ_t = ‖W(t)1 − 1‖₂, σ_t the noise scale, L_c the bound on
# gradients after clipping and without the regularizer, and λ the regularizer. For any step sizes and any v, since Σ_i
# (x_i − x̄) = 0:
#
#     M_{t+1}² = (|1 − αλ|M + αL_c)² + 2dσ²/n + α²ν²d/n
#     S_{t+1}² = ((ρ + αλ)S + δM + α√n L_c)² + 2ndρ²σ² + nα²ν²d
#     E Σ_t Σ_i f_i(x_i) − f_i(v) ≤ Σ_t (n/2)[1/α_t − 1/α_{t−1} − λ]₊(M + ‖v‖)² + dσ²/α
#                                       + (nα/2)((L_c + λM)² + ν²d/n) + √n L_c S + (λ/2)S²
#     E Σ_i f_i(x_j) − f_i(x_i)   ≤ (n + √n) L_c S + (nλ/2)(S² + 2SM)
#
# In the first round M = S = 0.
#
# Under Theorem 2 the first term is nonzero only in round 1, and the regret is logarithmic. This holds for μ̃ ≤ (1/n) Σ
# μ_i. The theorem also bounds Σ μ_j‖x̂_j − x*‖², where x̂_j is the weighted average of agent j's decisions. This bound
# needs μ̃ ≤ (1/2n) Σ μ_i. The paper has ½ Σ μ_i in equations (53) to (70), because the proof forgets the factor n of
# 1/α.
#
# Under Theorem 3 the checked bound grows faster than √T, for two reasons. The doubling scheme does not restart at x(1),
# although equation (82) assumes this. And on R^d only M bounds x̄(2^m).
class Region(NamedTuple):
    """Hold the step size, the noise scale and bounds on the decisions for each of the rounds 1 to T: arrays (T,).

    The bounds are on the decisions x_i and on their mean x̄.
    """

    alpha: Vector
    noise: Vector  # σ_t
    center: Vector  # M_t, where M_t² ≥ E‖x̄‖²
    spread: Vector  # S_t, where S_t² ≥ E Σ_i ‖x_i − x̄‖²


def _region(setup: Setup, weights: Weights, alpha: Vector) -> Region:
    """Return the step sizes, the noise scales and bounds on the agents' decisions x_i in every round.

    The bounds are numbers M_t and S_t with M_t² ≥ E‖x̄‖² and S_t² ≥ E Σ_i ‖x_i − x̄‖², where x̄ is the mean of the x_i.

    Args:
        setup: the run.
        weights: the mixing matrices of the run.
        alpha: (T,) the step sizes.
    """
    p, n, d = setup.experiment.problem, setup.topology.agents, setup.dimension
    made_with = alpha if setup.experiment.algorithm["noise_index"] == "paper" else before(alpha, 0.0)
    noise = constants.noise_scales(setup, sqrt(d) * max(setup.run.grad_sensitivity) * made_with)
    place = weights.places(len(alpha))
    rho = weights.contraction()[place]
    delta = np.linalg.norm(weights.first.sum(axis=2) - 1, axis=1)[place]
    steep, error = float(constants.largest_gradient(setup)), p.gradient_noise * d
    center, spread, m, s = np.zeros_like(alpha), np.zeros_like(alpha), 0.0, 0.0
    for t, (a, sigma, r, off) in enumerate(
        zip(alpha.tolist(), noise.tolist(), rho.tolist(), delta.tolist(), strict=True)
    ):
        center[t], spread[t] = m, s
        drift, draw = a * p.regularizer, a * a * error
        s_next = ((r + drift) * s + off * m + a * sqrt(n) * steep, 2 * n * d * r * r * sigma * sigma + n * draw)
        m_next = (abs(1 - drift) * m + a * steep, (2 * d * sigma * sigma + draw) / n)
        s, m = (sqrt(moved * moved + random) for moved, random in (s_next, m_next))
    return Region(alpha, noise, center, spread)


def _printed(setup: Setup, weights: Weights, region: Region, at: Rounds, norm: Vector) -> Vector:
    """Compute the bound on an agent's regret, as the paper prints it: (h,).

    Args:
        setup: the run.
        weights: the mixing matrices of the run.
        region: bounds on the agents' decisions in every round.
        at: (h,) the rounds at which the bound is evaluated.
        norm: (h,) ‖x*‖, the norm of the best fixed decision up to each of these rounds.
    """
    p, n, d = setup.experiment.problem, setup.topology.agents, setup.dimension
    doubly = weights.sums_to_one(axis=1)
    c, rate = (1.0, float(weights.contraction().max())) if doubly else weights.fitted()
    far = float((region.center + region.spread).max()) if p.regularizer else 0.0
    steep = constants.largest_gradient(setup) + p.regularizer * far
    total = n * steep
    both = 5 * total + 2 * n * steep
    squares = n * (steep + sqrt(p.gradient_noise * d)) ** 2
    strong = constants.strongly_convex_steps(setup)
    growth = (1 + np.log(at)) / strong[0] if strong else sqrt(2) / (sqrt(2) - 1) * np.sqrt(at)
    first, second = growth, growth  # of Σ σ_t and Σ σ_t²/α_t, per scale of a step of 1
    scale = constants.noise_scales(setup, np.array([sqrt(d) * max(setup.run.grad_sensitivity)]))[0]
    if not _as_paper(setup):
        first = upto(region.noise, at) / scale
        second = upto(region.noise**2 / region.alpha, at) / scale**2
    near = total + 4 * n + 2 * n * steep
    last = near if strong else total + 2 * n + 2 * n * steep
    mixed = c / (1 - rate) if rate < 1 else inf
    start = 2 * n * strong[0] * norm**2 if strong else n * norm**2 * growth
    return np.asarray(
        start
        + both * n * sqrt(2 * d) * scale * mixed * (rate if strong else 1.0) * first
        + 2 * n * scale**2 * second
        + (squares + near * n * steep * mixed + 2 * steep * last) * growth
    )


def _checked(setup: Setup, region: Region, at: Rounds, norm: Vector) -> tuple[Vector, Vector]:
    """Compute the bounds of the corrected proof on network regret and on an agent's regret: (h,) each.

    Args:
        setup: the run.
        region: bounds on the agents' decisions in every round.
        at: (h,) the rounds at which the bounds are evaluated.
        norm: (h,) ‖x*‖, the norm of the best fixed decision up to each of these rounds.
    """
    p, n, d = setup.experiment.problem, setup.topology.agents, setup.dimension
    alpha, sigma, center, spread = region
    lam, steep = p.regularizer, constants.largest_gradient(setup)
    gains = n / 2 * np.maximum(0.0, 1 / alpha - 1 / before(alpha, inf) - lam)
    start = upto(gains * center**2, at) + 2 * norm * upto(gains * center, at) + norm**2 * upto(gains, at)
    rounds = (
        d * sigma**2 / alpha
        + n * alpha / 2 * ((steep + lam * center) ** 2 + p.gradient_noise * d / n)
        + sqrt(n) * steep * spread
        + lam / 2 * spread**2
    )
    own = start + upto(rounds, at)
    others = (n + sqrt(n)) * steep * spread + n * lam / 2 * (spread**2 + 2 * spread * center)
    return own, own + upto(others, at)
