"""Compute how much a round of M-ADMM reduces the distance to the solution (Theorem 3.2).

X. Zhang, M. M. Khalili, M. Liu, "Improving the Privacy and Accuracy of ADMM-Based Distributed Algorithms". A number in
parentheses, such as (22), is an equation of the paper. By the theorem, round t divides the squared distance ‖Z(t) −
Z*‖²_J(t) by at least 1 + δ(t):

    (1 + δ(t))‖Z(t) − Z*‖²_J(t) ≤ ‖Z(t−1) − Z*‖²_J(t)
    δ = max over μ > 1 of min{θS/(μ²σ̃), N/((μ²M² + μσ̄²)/(θS(μ − 1)) + σ̃)}                                       (23)

The symbols are:

- O_i is the objective of agent i, and Ô(f) = Σ_i O_i(f_i).
- m is the least modulus of convexity, and M the largest smoothness, of the O_i.
- f(t) are the decisions, η_i(t) the penalties, W(t) = diag(η_i(t)), and θ is the dual step.
- A is the adjacency matrix, D the diagonal matrix of degrees, L = D − A and Q = D + A. 1 is the vector of ones.
- Z = (Y, f) is the state, with Y(0) = 0 and Y(t) = Y(t−1) + θ√L f(t).
- Z* = (Y*, f*) is the solution: each row of f* is the minimizer of Σ_i O_i.
- J(t) = diag(I/θ, W(t)Q), and ‖Z‖²_J = ⟨Z, JZ⟩. A raised + denotes the pseudo-inverse.
- S is the least nonzero singular value of L, σ̃ the largest singular value of WQ, and σ̄ the largest singular value of
  (W − θI)L.
- N depends on the form of the theorem. As printed, N = 2m + 2σ̄_min, where σ̄_min is the least nonzero singular value
  of (W − θI)L. In the checked form, N = 2m, because (22) needs the least eigenvalue of (W − θI)L in place of σ̄_min,
  and this eigenvalue is at most 0.

Both sides of the inequality use the norm of J(t). If η grows, the distance at the beginning of round t + 1 is larger
than at the end of round t, and the factors of the rounds cannot be multiplied. There is no checked form if the η_i
differ.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import ArrayLike

from mpinodes.core import Vector

ZERO = 1e-9  # singular values below this multiple of the largest singular value count as 0


# The checked form. Let all η_i be equal to η. Let g = f(t) − f*, p = f(t) − f(t−1), h = ∇Ô(f(t)) − ∇Ô(f*), v = h +
# (η−θ)Lg + ηQp. From (34) and (35):
#
#     ‖Y(t) − Y*‖² = ⟨v, L⁺v⟩
#     ‖Z(t−1) − Z*‖²_J − ‖Z(t) − Z*‖²_J = 2⟨g, h⟩ + (2η−θ)⟨g, Lg⟩ + η⟨p, Qp⟩
#
# The paper drops the term θ⟨g, Lg⟩ in (55). With this term, the proof of the checked form holds for all η ≥ θ/2, even
# if η decreases.
#
# If the η_i differ, WQ and (W − θI)L are not symmetric. Then the symmetric parts of WQ and (W − θI)L need not be
# positive semidefinite, although (39) to (42) and (54) to (56) assume this. Also ‖·‖_J need not be a norm. The
# difference above becomes
#
#     2⟨g, h⟩ + θ⟨g, Lg⟩ + 2⟨g, (W − θI)Lg⟩ + ⟨p, WQp⟩ + ⟨g, (WQ − QW)p⟩
#
# The theorem needs ⟨f, WQf⟩ ≥ 0 for all f, and a positive difference for all g, p, h. For example, two agents with η_1
# = θ and η_2 = 2θ violate this condition, and the distance to the solution can grow. So there is no checked form for
# different η_i.
def contraction(
    adjacency: ArrayLike, penalty: ArrayLike, dual_step: float, modulus: float, smoothness: float, printed: bool = False
) -> float:
    """Compute δ(t) of equation (23) of the paper, which says how fast the algorithm approaches the solution.

    By the theorem in the docstring of the module, round t divides the squared distance to the solution by at least 1 +
    δ(t). The theorem is proven only for the corrected formula, and for releases without noise.

    Args:
        adjacency: (n, n) A, zeros and ones, of a connected undirected graph.
        penalty: η(t), equal for all agents; for the printed formula also (n,), a penalty for each agent.
        dual_step: θ, equal for all agents and rounds.
        modulus: m, positive, the least modulus of convexity of the agents' objectives.
        smoothness: M, at least m, the largest smoothness of the agents' objectives.
        printed: whether to use the formula that the paper prints; otherwise the corrected formula.

    Raises:
        ValueError: the graph, the penalties or the constants violate the assumptions.
    """
    from scipy.optimize import brentq

    laplacian, signless = laplacians(adjacency)
    if not 0 < modulus <= smoothness:
        raise ValueError(f"modulus {modulus:g}, smoothness {smoothness:g}: Theorem 3.2 needs 0 < modulus <= smoothness")
    eta = np.broadcast_to(np.asarray(penalty, dtype=float), len(laplacian))
    if not printed:
        common_penalty(eta, dual_step)
    elif not eta.min() >= dual_step > 0:
        raise ValueError(
            f"penalty {eta.min():g}, dual step {dual_step:g}: Theorem 3.2 needs a positive dual step, and penalties of "
            "at least the dual step"
        )
    differences = _singular_values((eta - dual_step)[:, None] * laplacian)
    largest = _singular_values(eta[:, None] * signless)[0]
    slope = dual_step * _singular_values(laplacian)[-1]
    gain = 2 * modulus + (2 * differences[-1] if printed else 0.0)
    square, linear = smoothness**2, differences[0] ** 2

    def dual(mu: float) -> float:
        return float(slope / (mu * mu * largest))

    def primal(mu: float) -> float:
        return float(gain / ((mu * mu * square + mu * linear) / (slope * (mu - 1)) + largest))

    top = 1 + sqrt(1 + linear / square)  # `primal` increases up to here; `dual` decreases everywhere
    if dual(top) >= primal(top):
        return primal(top)
    return dual(brentq(lambda mu: dual(mu) - primal(mu), 1 + 1e-12, top))


def distance(
    adjacency: ArrayLike,
    penalty: ArrayLike,
    dual_step: float,
    releases: ArrayLike,
    minimizer: ArrayLike,
    gradients: ArrayLike,
) -> float:
    """Compute ‖Z(t) − Z*‖²_J, the squared distance of the algorithm's state after round t from the solution.

    The docstring of the module defines the state Z(t) = (Y(t), f(t)) and the norm. The part Y* of the solution is
    −(√L)⁺∇Ô(f*), the only solution of equation (17) of the paper in the range of √L.

    Args:
        adjacency: (n, n) A, zeros and ones, of a connected undirected graph.
        penalty: η in J: η(t) for the left side of the theorem, η(t+1) for the right side in round t + 1.
        dual_step: θ, equal for all agents and rounds.
        releases: (t + 1, n, d) the agents' decisions f(0), ..., f(t).
        minimizer: (d,) f*, the minimizer of the sum of the agents' objectives O_i.
        gradients: (n, d) ∇O_i(f*), whose sum is 0.

    Raises:
        ValueError: the graph is directed, is not connected or has only one agent; or the agents have different η, for
            which ‖·‖_J need not be a norm; or η is less than half of θ; or θ is not positive.
    """
    laplacian, signless = laplacians(adjacency)
    eta = common_penalty(penalty, dual_step)
    away = np.asarray(releases) - np.asarray(minimizer)
    # √L(Y(t) − Y*). Subtract f* before summing: the sum of the differences stays small, that of f(s) grows with t.
    dual = dual_step * laplacian @ away[1:].sum(axis=0) + np.asarray(gradients)
    inverse = np.linalg.pinv(laplacian, hermitian=True)
    return float(np.sum(dual * (inverse @ dual)) / dual_step + eta * np.sum(away[-1] * (signless @ away[-1])))


def laplacians(adjacency: ArrayLike) -> tuple[Vector, Vector]:
    """Return the Laplacian L = D − A and the signless Laplacian Q = D + A of an adjacency matrix.

    Raises:
        ValueError: the graph is directed, is not connected, or has only one agent.
    """
    a = np.asarray(adjacency, dtype=float)
    if (a != a.T).any():
        raise ValueError("Theorem 3.2 needs an undirected graph, but the adjacency matrix is not symmetric")
    degrees = np.diag(a.sum(axis=1))
    if np.linalg.matrix_rank(degrees - a, hermitian=True) != len(a) - 1 or len(a) == 1:
        raise ValueError(
            "Theorem 3.2 needs a connected graph of at least 2 agents, but this graph has 1 agent or is not connected"
        )
    return degrees - a, degrees + a


def common_penalty(penalty: ArrayLike, dual_step: float) -> float:
    """Return the penalty η that all agents have in a round.

    Raises:
        ValueError: Theorem 3.2 is not proven for this round: the agents have different penalties, η is less than half
            of the dual step, or the dual step is not positive.
    """
    eta = np.unique(np.asarray(penalty, dtype=float))
    if len(eta) > 1:
        raise ValueError(
            f"penalties from {eta[0]:g} to {eta[-1]:g} in one round: Theorem 3.2 is proven only if all agents have the "
            "same penalty"
        )
    if not eta[0] >= dual_step / 2 > 0:
        raise ValueError(
            f"penalty {eta[0]:g}, dual step {dual_step:g}: the proof of Theorem 3.2 needs the penalty to be at least "
            "half of a positive dual step"
        )
    return float(eta[0])


def _singular_values(matrix: Vector) -> Vector:
    """Return the nonzero singular values of a matrix, descending; for a zero matrix, an array with one entry, 0.

    Values below `ZERO` times the largest count as 0.
    """
    values = np.linalg.svd(matrix, compute_uv=False)
    return np.asarray(values[values >= ZERO * values[0]]) if values[0] else np.zeros(1)
