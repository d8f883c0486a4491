"""Compute the bounds of DPSDA-C and DPSDA-PS: Theorems 3 and 5, and the corollaries on running averages.

H. Cheng, X. Liao, H. Li, "Distributed Online Private Learning of Convex Nondecomposable Objectives". The regret R(T) of
n agents in d coordinates is bounded by

    R(T) ≤ (4dσ²/n + 2nL̂² + C + 2(L + diam 𝒳·G) √(nQ)) √T
    Theorem 3, column sums 1:  Q = 3n⁴L̂²K² + 3n⁴L̂² + 6n³dσ²K²
    Theorem 5, push-sum:       Q = 8n²β²L̂²/(γ²λ²(1−λ)²) + 16ndβ²σ²/(γ²(1−λ)²)

The symbols are:

- σ is the noise scale, and L ≥ ‖∇f‖.
- L̂² ≥ E‖u_i‖², where u_i is agent i's block of the gradient. In Assumption 2 we read L̂ = L² + ν² as L̂² = L² + ν².
- G ≥ ‖∇f(x) − ∇f(y)‖/‖x − y‖ on a block.
- C = sup ψ over 𝒳, where ψ is the proximal function of dual averaging.
- K bounds sup_t Σ_{s<t} max_ij |[W(t−1)⋯W(s)]_ij − 1/n|, where W are the mixing matrices.
- γ is the least push-sum weight of an agent, β = 2, and λ = (1 − n^(−nB))^(1/B) for graphs that are connected over B
  rounds.

With d = n and σ = 2nL̂/ε these formulas give the constants in the paper. By the corollaries, the regret of the running
average is at most 2 times the bound, if the loss functions are i.i.d.

The bound of Theorem 3 has three forms, which differ in K:

- As printed: K = 1/(θ(1−θ)), where θ = 1 − φ/4n², and φ is the least positive weight in W. This K holds for graphs that
  are connected in every round.
- Checked: K = θ_B/(θ²(1−θ_B)), where θ_B = θ^(1/B). This K holds for graphs that are connected over B rounds.
- Checked, own mixing: K is computed from the matrices W of the run.

The bound of Theorem 5 has two forms, which differ in Q:

- As printed: Q as above.
- Checked: n² times this Q, because Lemma 6 loses a factor n. The sum over l of |[A(t−1:s+1)]_ik − φ_i| + |[A(t−1:0)]_il
  − φ_i| has n terms, but (35) keeps only one.
"""

from __future__ import annotations

from math import expm1, inf, log, log1p, sqrt

import numpy as np
from numpy.typing import ArrayLike

from mpinodes.bounds import constants
from mpinodes.bounds.constants import bound, first_broken
from mpinodes.bounds.weights import Weights
from mpinodes.core import Bound, Setup, Vector
from mpinodes.topology import facts

BETA = 2.0


def bounds(setup: Setup, horizons: ArrayLike, minimizer: Vector) -> list[Bound]:
    """Compute the bounds on the network regret of the decisions and of their running average.

    - For push-sum weights: the bounds of Theorem 5 and Corollary 2 of the paper.
    - For other weights: the bounds of Theorem 3 and Corollary 1.

    Each bound is computed as the paper prints it, and in one or two corrected forms.
    """
    weights, root = Weights.of(setup), np.sqrt(np.asarray(horizons, dtype=float))
    push_sum = setup.experiment.algorithm["mixing"] == "push-sum"
    public = setup.experiment.algorithm["gradient_at"] == "public"
    kinked = setup.loss.sample_smoothness(1.0, 1.0) == inf
    uneven = "the columns of the weights do not sum to 1 (of weights 1/deg, only the rows do)"
    broken = first_broken(
        constants.unclipped(setup),
        "" if constants.are_steps(setup, lambda t: 1 / np.sqrt(t)) else "steps are not 1/sqrt(t)",
        "" if weights.sums_to_one(axis=0) else uneven,
        "" if setup.feasible.bounded else f"problem.set = {setup.experiment.problem.set!r} is unbounded",
        "the gradients have no known Lipschitz constant, as for a loss with a kink" if kinked else "",
        "gradients are taken at public points, not at y_i" if public else "",
        constants.clipped(setup),
    )
    repeated = "" if setup.stream.rounds is None else "the proof needs i.i.d. losses, but the data are finite"
    theorems = []
    e, n, d = setup.experiment, setup.topology.agents, setup.dimension
    largest = max(block.stop - block.start for block in setup.blocks)
    across = setup.feasible.diameter(d) * (sqrt(n) if setup.feasible.of_blocks else 1.0)
    regularizer = e.problem.regularizer
    of_block = constants.largest_gradient(setup) + (regularizer * across / 2 if regularizer else 0.0)
    lip = np.sqrt(of_block**2 + e.problem.gradient_noise * largest)  # L̂
    change = max(setup.run.grad_sensitivity)
    s = constants.noise_scales(setup, np.array([sqrt(largest) * n * change]))[0]  # σ
    norms = min(setup.stream.feature_norm, setup.stream.feature_bound * sqrt(largest)), setup.stream.feature_norm
    smooth = constants.terms(setup) * setup.loss.sample_smoothness(*norms) + regularizer
    # The bound on the regret after T rounds is M√T, with M = head + slope √Q.
    head = 4 * d * s**2 / n + 2 * n * lip**2 + across**2 / 8
    slope = 2 * (sqrt(n) * of_block + across * smooth) * sqrt(n)
    for how, q in (_theorem_5 if push_sum else _theorem_3)(setup, weights, lip, s).items():
        m = float(head + slope * np.sqrt(q))
        name, corollary = (f"Theorem {5 if push_sum else 3}, {how}", f"Corollary {2 if push_sum else 1}, {how}")
        theorems += [
            bound(name, "network_regret", m * root, broken),
            bound(corollary, "network_regret_average_iterate", 2 * m * root, first_broken(broken, repeated)),
        ]
    return theorems


def _theorem_3(setup: Setup, weights: Weights, lip: float, s: float) -> dict[str, float]:
    """Compute the term Q in the constant M of Theorem 3, which bounds the regret after T rounds by M√T.

    There are three forms of Q: by the formula that the paper prints, and by two corrected formulas. The keys of the
    result name these forms. The third form is inf if the columns of the weights do not sum to 1.

    Args:
        setup: the run.
        weights: the mixing matrices of the run.
        lip: the gradient bound L̂.
        s: the noise scale σ.
    """
    n, d, phi = setup.topology.agents, setup.dimension, weights.least
    b = facts.connectivity(setup.topology, setup.experiment.rounds)
    theta = 1 - phi / (4 * n * n)
    slow = -expm1(log(theta) / b)  # 1 − θ_B
    sums = {
        "as printed": 1 / (theta * (1 - theta)),
        "checked": (1 - slow) / (theta**2 * slow),
        "checked, own mixing": max(1.0, weights.sums()[1]) if weights.sums_to_one(axis=0) else inf,
    }
    return {how: 3 * n**4 * lip**2 * (k * k + 1) + 6 * n**3 * d * s**2 * k * k for how, k in sums.items()}


def _theorem_5(setup: Setup, weights: Weights, lip: float, s: float) -> dict[str, float]:
    """Compute the term Q in the constant M of Theorem 5, which bounds the regret after T rounds by M√T.

    There are two forms of Q: by the formula that the paper prints, and by the corrected formula. The keys of the result
    name these forms.

    Args:
        setup: the run.
        weights: the mixing matrices of the run.
        lip: the gradient bound L̂.
        s: the noise scale σ.
    """
    n, d = setup.topology.agents, setup.dimension
    b = facts.connectivity(setup.topology, setup.experiment.rounds)
    least = float(n) ** (-n * b)  # underflows to 0 for n = 64
    slow = -expm1(log1p(-least) / b) if n > 1 else 1.0  # 1 − λ
    gamma = weights.least_scale(setup.experiment.rounds)
    q = 0.0  # with one agent, z/w equals the mean of all z
    if n > 1 and slow == 0:
        q = inf
    elif n > 1:
        rate = np.float64(BETA / (gamma * slow))
        q = 8 * (n * rate * lip / (1 - slow)) ** 2 + 16 * n * d * (rate * s) ** 2
    return {"as printed": q, "checked": n * n * q}
