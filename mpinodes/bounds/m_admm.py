"""Compute bounds for M-ADMM and ADMM, by Theorem 3.2, on the distance of decisions from the best decision.

X. Zhang, M. M. Khalili, M. Liu, "Improving the Privacy and Accuracy of ADMM-Based Distributed Algorithms". The module
`admm` states the theorem and its symbols. The theorem bounds the squared distance ‖Z(t) − Z*‖²_J(t) of the state from
the solution by a number B, round by round:

    ‖Z(t−1) − Z*‖²_J(t) ≤ B(t),  B(t+1) = η(t+1)/η(t) · B(t)/(1 + δ(t))

B(1) is known, because Y(0) = 0 and the seed determines f(0). The recursion holds because η never decreases. From B(t)
follow bounds on g = f(t) − f*, the difference of the decisions of round t + 1 from the best decision f*. The comment
above `Shares` derives these bounds.

There are two forms of every bound, with the printed and with the corrected factor δ(t). On a bipartite graph the
printed form gives no bound. If releases have noise, the paper bounds the privacy loss, but not the distance from the
best decision.
"""

from __future__ import annotations

from math import inf
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from mpinodes.bounds.admm import contraction, distance, laplacians
from mpinodes.bounds.constants import Rounds, bound, first_broken, whole_losses
from mpinodes.core import Bound, Setup, Vector
from mpinodes.core.seeds import Draws, Purpose

ZERO = 1e-9  # eigenvalues below this multiple of the largest eigenvalue count as 0


# Printed form. ‖Z(t) − Z*‖²_J is at least η⟨g, Qg⟩. So with M = ηQ
#
#     ‖g_i‖² ≤ (M⁻¹)_ii B(t)/(1 + δ(t)),  ‖mean g_i‖² ≤ 1ᵀM⁻¹1/n² · B(t)/(1 + δ(t))
#
# On a bipartite graph Q is singular, and the printed form bounds nothing.
#
# Checked form. On any connected graph (34) and (35) give
#
#     B(t) ≥ ⟨g, Mg⟩,  M = ηQ + (2η−θ)L + 2mI,  hence  ‖g_i‖² ≤ (M⁻¹)_ii B(t),  ‖mean g_i‖² ≤ 1ᵀM⁻¹1/n² · B(t)
#
# if local problems are solved exactly. In fact local problems are solved until the gradient has norm at most τ. So
# f_i(t) is within s_i = τ/(m + 2ηV_i) of the exact minimizer, where V_i is the number of agent i's neighbours. Z(t) is
# within e = ‖s‖√λ_max(θL + ηQ) of its exact value. Therefore the checked form has
#
#     √B(t+1) = √(η(t+1)/η(t)) (√(B(t)/(1 + δ(t))) + e),  ‖g_i‖ ≤ √((M⁻¹)_ii B(t)) + s_i
#
# The printed form has no terms s_i and e.
#
# Comparison. If η = θ in all rounds, both forms have the same δ. Then the checked bound is at most the printed bound,
# up to the terms s_i and e, because 2m ≥ δησ_max(Q). If η > θ, the printed δ, which is not proven, is larger than the
# checked δ. Then the printed bound may be smaller than the checked bound in late rounds.
class Shares(NamedTuple):
    """Hold the factors from which the bounds on decisions are computed, for a round with penalty η.

    The docstring of the module defines B. If local problems are solved exactly, B bounds three numbers:

    - In the next round, B is `shrink` times B if η is constant.
    - The squared error of the mean decision is at most `mean` times B.
    - The squared error of agent i's decision is at most `agents[i]` times B.

    In the printed form, `mean` and `agents` include the factor 1/(1 + δ).
    """

    shrink: float  # 1/(1 + δ)
    mean: float  # 1ᵀM⁻¹1/n²: of the mean decision, per unit of B
    agents: Vector  # (n,) (M⁻¹)_ii: of each decision, per unit of B
    short: Vector  # (n,) s_i, from inexact local solves; 0 in the printed form
    moved: float  # e; 0 in the printed form


def bounds(setup: Setup, horizons: ArrayLike, minimizer: Vector) -> list[Bound]:
    """Bound the squared distance from the best decision, for the mean decision and for the farthest agent's decision.

    Each bound is computed by Theorem 3.2 as the paper prints it, and by a corrected proof. If the graph, the penalties
    or the losses break an assumption, the values are inf. The bounds apply only if releases have no noise and are not
    rounded. The best decision is the last row of `minimizer`.
    """
    at, best = np.asarray(horizons, dtype=np.int64), np.atleast_2d(minimizer)[-1]
    noised = "Theorem 3.2 is about M-ADMM without noise; for noised releases the paper bounds privacy, not the error"
    is_rounded = cast(Any, setup.algorithm).grid
    rounded = "releases are rounded (algorithm.grid), so they are not the minimizers" if is_rounded else ""
    theorems = []
    for form, printed in (("as printed", True), ("checked", False)):
        broken, values = first_broken(noised if setup.experiment.private else "", rounded), (np.full(len(at), inf),) * 2
        try:
            values = _decisions(setup, best, at, printed)
        except ValueError as error:
            broken = first_broken(broken, str(error))
        pairs = zip(("decision_error", "agent_decision_error"), values, strict=True)
        theorems += [bound(f"Theorem 3.2, {form}", of, squares, broken) for of, squares in pairs]
    return theorems


def _shares(setup: Setup, eta: float, theta: float, printed: bool) -> Shares:
    """Compute the factors that give the bounds of a round with penalty η, in the printed or in the corrected form.

    Args:
        setup: the run.
        eta: η, the penalty that all agents have in the round.
        theta: θ, the dual step.
        printed: whether to use the formula that the paper prints; otherwise, the corrected proof.

    Raises:
        ValueError: the graph is bipartite, so that the printed formula does not bound the decisions; or the graph, the
            penalty or the constants violate the assumptions of `admm.contraction`.
    """
    adjacency, modulus = setup.topology.sends(1).astype(float), setup.run.least_modulus
    (laplacian, signless), n = laplacians(adjacency), len(adjacency)
    form, short, moved = eta * signless, np.zeros(n), 0.0
    values = np.linalg.eigvalsh(form)
    if printed and values[0] <= ZERO * values[-1]:
        raise ValueError("the graph is bipartite, so its matrix D + A is singular: then Theorem 3.2 bounds no decision")
    delta = contraction(adjacency, eta, theta, modulus, setup.run.largest_smoothness, printed=printed)
    shrink = 1 / (1 + delta)
    if printed:
        inverse = shrink * np.linalg.inv(form)
    else:
        inverse = np.linalg.inv(form + (2 * eta - theta) * laplacian + 2 * modulus * np.eye(n))
        short = cast(Any, setup.algorithm).tolerance / (modulus + 2 * eta * adjacency.sum(axis=1))
        moved = float(np.linalg.norm(short)) * float(np.linalg.eigvalsh(theta * laplacian + form)[-1]) ** 0.5
    return Shares(shrink, float(inverse.mean()), np.diag(inverse), short, moved)


def _decisions(setup: Setup, best: Vector, at: Rounds, printed: bool) -> tuple[Vector, Vector]:
    """Bound the squared error of the mean decision, and the largest squared error of an agent: (h,) each.

    Args:
        setup: the run.
        best: (d,) f*, the best decision.
        at: (h,) the rounds at which the bounds are evaluated. The decision of round 1 is f(0).
        printed: whether to use the formula that the paper prints; otherwise, the corrected proof.

    Raises:
        ValueError: penalties differ between agents; dual steps differ between agents or rounds; the first penalty is
            less than half of the dual step; the dual step is not positive; the graph is directed, is not connected or
            has only one agent; or `_shares` raises the error.
    """
    a: Any = setup.algorithm
    n, d, iterations = setup.topology.agents, setup.dimension, int(at[-1]) - 1
    t = np.arange(1, max(iterations, 1) + 1)
    theta, eta = (np.array([of(i, t) for i in range(n)]) for of in (a.theta, a.eta))
    if np.ptp(theta) > 0:
        raise ValueError("dual steps differ between agents or rounds: Theorem 3.2 needs one dual step (theta)")
    if np.ptp(eta, axis=0).any():
        raise ValueError("penalties differ between agents: Theorem 3.2 is proven only for equal penalties")
    adjacency = setup.topology.sends(1).astype(float)
    first = np.array([Draws(setup.experiment.seed, Purpose.START, i).at(0).standard_normal(d) for i in range(n)])
    gradients = np.array([loss.grad(best) for loss in whole_losses(setup)])
    start = distance(adjacency, eta[0, 0], theta[0, 0], first[None], best, gradients)  # B(1)
    away, penalties = first - best, eta[0, :iterations]
    step = float(theta[0, 0])
    shares = {penalty: _shares(setup, penalty, step, printed) for penalty in np.unique(penalties).tolist()}
    mean = [float(np.sum(away.mean(axis=0) ** 2))]
    worst = [float(np.sum(away**2, axis=1).max())]
    reach, before = start**0.5, inf  # √B
    for penalty in penalties.tolist():
        reach *= max(1.0, penalty / before) ** 0.5
        share, before = shares[penalty], penalty
        mean.append((share.mean**0.5 * reach + float(share.short.mean())) ** 2)
        worst.append(float((np.sqrt(share.agents) * reach + share.short).max()) ** 2)
        reach = share.shrink**0.5 * reach + share.moved
    return np.array(mean)[at - 1], np.array(worst)[at - 1]
