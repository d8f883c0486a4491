"""Compute the bounds of DOLA with minibatches (Algorithm 2, Theorem 4) on the optimality gap.

C. Li, P. Zhou, G. Chen, T. Jiang, "Differentially Private Distributed Online Learning". As printed, the average w̄_i of
the T/h decisions of any agent satisfies, with probability 1 − 4γ log T,

    F(w̄_i) − min F ≤ h²R_D/(mT) + 4√(L² log(T/h)/λ)·h√(hR_D/m)/T + max{16L²/λ, 6}·h log(1/γ)/T

The symbols are:

- Each of m agents has T samples, in batches of h samples.
- The loss functions are λ-strongly convex, and L bounds the gradients.
- R_D is the bound of Theorem 2 for Algorithm 1 and T/h rounds, because (60) replaces T by T/h.
- γ is chosen such that the probability is `SURE`.

The proof has three mistakes:

1. (59) assumes that the loss function of a batch is a sum over the h samples. But the loss function is a mean, so the
   regret is not h times larger.
2. R_D bounds the expected regret. But (58) needs a bound on the regret for the noise that is actually drawn.
3. F in the proof is the expected loss function of future samples. But the run measures the gap on the samples of the
   run, and decisions of later rounds depend on these samples.

The form "checked" uses another proof, which is in the comment above `_checked`. Its expectation is over the noise, and
over the order in which agents use their samples.
"""

from __future__ import annotations

from math import hypot, sqrt
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from mpinodes.bounds import dola
from mpinodes.bounds.constants import Rounds, bound, first_broken, largest_gradient, steps, upto
from mpinodes.bounds.weights import Weights
from mpinodes.core import Bound, Setup, Vector
from mpinodes.streams.labelled import LabelledStream

SURE = 0.95  # the probability with which the printed form holds


def bounds(setup: Setup, horizons: ArrayLike, minimizer: Vector) -> list[Bound]:
    """Bound the optimality gap of the agents' average decisions, for the agent with the largest gap.

    One bound evaluates Theorem 4 of the DOLA paper as printed. The other bound follows from a corrected proof.
    """
    weights, at = Weights.of(setup), np.asarray(horizons, dtype=np.int64)
    stream, e, algorithm = setup.stream, setup.experiment, cast(Any, setup.algorithm)
    hidden = algorithm.regularizer_at == "hidden" and e.problem.regularizer
    ordered = not isinstance(stream, LabelledStream) or not stream.shuffle
    again = isinstance(stream, LabelledStream) and stream.passes(e.rounds) > 1
    broken = first_broken(
        "the regularizer's gradient is taken at x_i, not at b_i (algorithm.regularizer_at)" if hidden else "",
        "" if e.problem.average else "losses are sums over a batch, not means (problem.average)",
        "samples do not come in random order (data.shuffle)" if ordered else "",
        "samples are used more than once (data.epochs)" if again else "",
        dola.broken_by(setup, weights),
    )
    strong = "" if e.problem.regularizer else "no regularizer, from which the bound takes the strong convexity"
    printed = first_broken(strong, dola.printed_broken_by(setup, broken))
    name = f"Theorem 4, as printed, {SURE:.0%} sure"
    return [
        bound(name, "optimality_gap", _printed(setup, weights, at), printed),
        bound("Theorem 4, checked", "optimality_gap", _checked(setup, weights, at), broken),
    ]


def _printed(setup: Setup, weights: Weights, at: Rounds) -> Vector:
    """Compute the bound of Theorem 4, as the DOLA paper prints it, at the rounds `at`: (h,).

    Without a regularizer the theorem gives no bound: the entries are inf or nan.
    """
    m, h, modulus = setup.topology.agents, max(setup.samples), np.float64(setup.experiment.problem.regularizer)
    square = dola.steepness(setup) ** 2 / modulus  # L²/λ
    regret = dola.regret_as_printed(setup, weights, at, h * max(setup.run.grad_sensitivity)) / m
    gamma = np.minimum(1.0, (1 - SURE) / (4 * np.log(h * at)))
    total = h * at
    return np.asarray(
        h**2 * regret / total
        + 4 * np.sqrt(square * np.log(at)) * h * np.sqrt(h * regret) / total
        + np.maximum(16 * square, 6.0) * h * np.log(1 / gamma) / total
    )


# The form "checked" uses another proof. Its expectation is over the noise, and over the order in which agents use their
# samples. Each sample is used once. From here on the symbols are:
#
# - T is the number of rounds, φ the regularizer, and L the bound on gradients without the regularizer.
# - f_i^s is the loss function of agent i's batch of round s.
# - x_j(r) is the decision of agent j in round r, and x̄_j(t) the average of x_j(1), ..., x_j(t).
# - R(t) is the checked bound of Theorem 2 on an agent's regret.
# - U_{s,r}, for s < r, is the largest distance by which any decision of round r changes if an agent's batches of rounds
#   s and r are exchanged.
#
# All orders are equally likely. So for s ≥ r, E f_i^s(x_j(r)) equals E f_i^r(x_j(r)). For s < r, E f_i^s(x_j(r))
# exceeds E f_i^r(x_j(r)) by at most L U_{s,r}. Since F is convex, for any v ∈ 𝒳
#
#     E F(x̄_j(t)) − F(v) ≤ R(t)/(mt) + (L/(tT)) Σ_{r ≤ t} Σ_{s < r} U_{s,r},  Σ_{s < r} U_{s,r} ≤ √((r−1)V_r)
#     V_{r+1} = (1 − α_rφ)²V_r + r(2Lα_r)², or (|1 − α_rφ|√V_r + √r 2Lα_r)² if α_rφ > 1;  V_r ≤ (r−1)(diam 𝒳)²
#
# where V_r ≥ Σ_{s < r} U_{s,r}². Neither mixing nor projection increases the distance between two points. A gradient
# step of a convex loss function also does not increase this distance, except at a kink, where the gradient jumps. With
# α = 1/(φt), R(t)/(mt) decreases like log t/t, but the second term decreases only like 1/√T.
def _checked(setup: Setup, weights: Weights, at: Rounds) -> Vector:
    """Compute the bound of the corrected proof of Theorem 4 at the rounds `at`: (h,)."""
    _, agent = dola.regrets(setup, weights, at)
    across, phi = setup.feasible.diameter(setup.dimension), setup.experiment.problem.regularizer
    alpha, steep = steps(setup, int(at[-1])), largest_gradient(setup)
    moved, root = np.zeros(len(alpha)), 0.0  # √((r−1)V_r) of each round r, and √V_r
    for r, (a, kink) in enumerate(zip(alpha.tolist(), (2 * steep * alpha).tolist(), strict=True), start=1):
        moved[r - 1] = sqrt(r - 1) * root
        shrink, pushed = 1 - a * phi, sqrt(r) * kink
        root = min(hypot(shrink * root, pushed) if shrink >= 0 else -shrink * root + pushed, sqrt(r) * across)
    shifts = upto(moved, at) / setup.experiment.rounds
    return np.asarray((agent / setup.topology.agents + steep * shifts) / at)
