"""The largest contraction of M-ADMM that the proof of Theorem 3.2 allows; notation and proof: mpinodes.bounds.admm.

"Sharp" is the largest δ for which δ‖Z(t) − Z*‖²_J is at most the difference of the two distances for all g, p, h with
(m+M)⟨g, h⟩ ≥ mM‖g‖² + ‖h‖², an inequality that gradients of such functions satisfy. The sharp δ is at least the checked
δ, because all steps of the checked proof hold for these g, p, h.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import ArrayLike

from mpinodes.bounds.admm import common_penalty, laplacians


def sharp_contraction(
    adjacency: ArrayLike, penalty: ArrayLike, dual_step: float, modulus: float, smoothness: float
) -> float:
    """Compute the largest δ(t) that the proof's identities allow.

    Arguments are those of `mpinodes.bounds.admm.contraction`, checked.
    """
    from scipy.optimize import minimize_scalar

    laplacian, signless = laplacians(adjacency)
    eta = common_penalty(penalty, dual_step)
    n, mean = len(laplacian), sqrt(modulus * smoothness)
    identity, zero = np.eye(n), np.zeros((n, n))
    moved, dual = _root(eta * signless), _root(np.linalg.pinv(laplacian, hermitian=True) / dual_step)
    # ‖Z(t) − Z*‖²_J is the squared norm of `distances` applied to (g, h, √(ηQ)p)
    distances = np.block([[(eta - dual_step) * dual @ laplacian, dual, dual @ moved], [moved, zero, zero]])

    def largest_share(c: float) -> float:
        """Compute 1/δ for the condition on h with multiplier τ(c).

        The condition |c| < 1 covers all τ that give a positive definite form.
        """
        tau = 2 / (modulus + smoothness + 2 * mean * c)
        own = (2 * eta - dual_step) * laplacian + tau * modulus * smoothness * identity
        cross = tau * mean * c * identity
        difference = np.block([[own, cross, zero], [cross, tau * identity, zero], [zero, zero, identity]])
        return float(np.linalg.eigvalsh(distances @ np.linalg.solve(difference, distances.T))[-1])

    # δ is concave in τ, and any τ gives a valid δ
    return 1 / float(minimize_scalar(largest_share, bounds=(-1, 1), method="bounded").fun)


def _root(matrix: np.ndarray) -> np.ndarray:
    """Compute the square root of a symmetric positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray(vectors * np.sqrt(values.clip(0)) @ vectors.T)
