"""Compute the Rényi divergences between noise of density ∝ exp(−‖e‖₂/b) in R^d and the same noise shifted by a vector.

The noise is called gamma-norm noise. The function `log_density` computes the log density of a released minimizer whose
objective has a linear term with this noise; replay and audit need this density.

Symbols. The shift has the L2 norm xb. D_a is the divergence of order a, which depends on x alone, because the density
is invariant under rotation. Let b = 1 and let u be a unit vector. P_0 is the density of the noise, and P_x the density
of the noise shifted by xu. I and K are Bessel functions, z = x/2, k = 2a − 1 and ν = d/2 − 1.

In elliptic coordinates with foci at the two centers, ‖e‖ + ‖e − xu‖ = xξ and ‖e‖ − ‖e − xu‖ = xη, the integral E of
P_x^a P_0^(1−a) is

    exp((a − 1) D_a) = E = z k^(−ν) (K_{ν+1}(z) I_ν(kz) + K_ν(z) I_{ν+1}(kz)/k) = M(z) Λ_ν(kz) + N(z) Λ_{ν+1}(kz),

where M, N > 0, Λ_ν(w) = Σ_j (w²/4)^j/(j! (ν+1)_j), and (·)_j is the rising factorial. By reflection, the divergence of
P_0 from P_x is equal to the divergence of P_x from P_0. For d = 1 the divergence is that of Laplace noise.

- The divergence grows with x, because P_0^a is symmetric and unimodal, and P_0^(1−a) is symmetric with its minimum at 0
  (T. W. Anderson, 1955). So the curve of the largest shift bounds the curve of every shift.
- Curves of several rounds add up, order by order, also if shifts depend on earlier messages. Two conditions must hold:
  the bounds on the shifts are constants, and the shift of a round does not depend on the noise of the same round.
- D_a ≤ a x²/(2d), that is x²/(2d)-zCDP, which is sharp for small x. Proof: Λ_ν' = w Λ_{ν+1}/(2(ν+1)) and, term by term,
  Λ_{ν+1} ≤ Λ_ν. So ∂E/∂k ≤ E k z²/(2(ν+1)), and E = 1 at k = 1.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, exp, sqrt

import numpy as np

from mpinodes.core import Solve, Vector
from mpinodes.core.norms import norm
from mpinodes.losses.linear import SmoothLoss
from mpinodes.privacy.curves import ORDERS, pure_rdp

MARGIN = 1e-9  # relative margin on E − 1, whose terms are positive; the < 2e5 roundings of a term add less than 3e-11
LARGEST = 100_000  # largest d of the exact computation; above it only a x²/(2d) and the bound of `pure_rdp` are used
EXPONENT = 600.0  # exp(EXPONENT) and exp(-EXPONENT) are finite, positive floats
HALVINGS = 60  # after this number of halvings of its terms, the rest of a series is below rounding


def gamma_norm_rdp(d: int, x: Vector) -> Vector:
    """Return the Rényi divergences between gamma-norm noise in R^d and the same noise after a shift.

    Gamma-norm noise has a density ∝ exp(−‖e‖₂/scale). The result has a row for each shift in `x` and a column for each
    order of `curves.ORDERS`. The entries are upper bounds; they are loose only for large shifts and orders
    (`EXPONENT`), or if d is above `LARGEST`.

    Args:
        d: the dimension.
        x: the lengths of the shifts, in units of the noise's scale.
    """
    x = np.asarray(x, dtype=float)
    small = x[:, None] ** 2 / (2 * d) * ORDERS * (1 + MARGIN)
    exact = np.array([_exact(d, shift) for shift in x.tolist()]).reshape(small.shape)
    pure = np.where(x[:, None] < 1e-3, np.inf, pure_rdp(x))  # for small x, cancellation makes `pure_rdp` useless
    return np.asarray(np.minimum(np.minimum(small, exact), pure))


@lru_cache(maxsize=10_000)
def _exact(d: int, x: float) -> Vector:
    """Return the Rényi divergences of gamma-norm noise shifted by x noise scales in R^d, one for each order.

    For orders so large that the series would overflow (`EXPONENT`), the entries are upper bounds. If the series would
    overflow at every order, or if x or d is too large, all entries are inf.
    """
    from scipy.special import k0e, k1e

    w, z = (ORDERS - 0.5) * x, x / 2
    sound = np.minimum(w, w * w / (2 * d)) <= EXPONENT  # w and w²/(2d) are both upper bounds on log Λ_ν
    if d > LARGEST or z > EXPONENT or not sound[0]:
        return np.full(len(ORDERS), np.inf)
    # M = z^(ν+1) K_{ν+1}(z)/(2^ν Γ(ν+1)) and N = z^(ν+2) K_ν(z)/(2^(ν+1) Γ(ν+2)), by a recursion over d in steps of 2
    if d % 2:
        m, n = exp(-z), z * exp(-z)
    else:
        m, n = z * float(k1e(z)) * exp(-z), z * z * float(k0e(z)) * exp(-z) / 2
    for below in range(2 - d % 2, d, 2):
        m, n = m + n, z * z / (below * (below + 2)) * m
    # E − 1 at w = kz. At k = 1, E is 1, so subtracting the terms at k = 1 one by one gives E − 1 without cancellation.
    h = d / 2 - 1
    halving = ceil((sqrt(h * h + 2 * float(w[sound][-1]) ** 2) - h) / 2)  # from here on, each term at most halves
    j = np.arange(1.0, halving + HALVINGS)[:, None]
    terms = [np.cumprod(u * u / (4 * j * (h + j)), axis=0) for u in (w[sound], np.array([z]))]
    excess = ((m + n * d / (d + 2 * j)) * (terms[0] - terms[1])).sum(axis=0)
    logarithm = np.log1p(excess * (1 + MARGIN))
    # For larger orders, a bound: R = (log Λ_ν)' is the mean of a cosine under an exponentially tilted law, so R grows
    # with w, and R' = 1 − R² − 2cR/w with c = ν + ½. So R ≤ w/(c + √(c² + w²)). The same bound holds for Λ_{ν+1}, whose
    # c is larger, and therefore for (log E)'.
    c = (d - 1) / 2
    s = np.hypot(c, w)
    most = s - c * np.log(c + s)
    beyond = (logarithm[-1] + most[~sound] - most[sound][-1]) * (1 + MARGIN)
    return np.asarray(np.concatenate([logarithm, beyond]) / (ORDERS - 1))


def log_density(x: Vector, ask: Solve, loss: SmoothLoss, scale: float) -> float:
    """Return the log density of a released minimizer x, (d,), up to a constant that does not depend on the loss.

    The release x minimizes f(x) + ‖x − center − e‖²/(2·step), where e is the noise with density ∝ exp(−‖e‖₂/scale).
    Exactly one e gives the release x: e = x + step·∇f(x) − center. So the density of x is the density of e times the
    determinant of ∂e/∂x = I + step·∇²f(x). Source: X. Zhang, M. M. Khalili, M. Liu, (57) to (61).

    Args:
        x: the release.
        ask: the `Solve` with center and step.
        loss: f.
        scale: the scale of the noise e.
    """
    e = x + ask.step * loss.grad(x) - ask.center
    volume = ask.step * loss.hessian(x)
    volume.flat[:: len(x) + 1] += 1.0
    return float(np.linalg.slogdet(volume)[1]) - norm(e) / scale
