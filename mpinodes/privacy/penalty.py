"""Compute the density of a minimizer of an objective with a noisy linear term, for replay and audit."""

from __future__ import annotations

import numpy as np

from mpinodes.core import Solve, Vector
from mpinodes.core.norms import norm
from mpinodes.losses.linear import SmoothLoss


def log_density(x: Vector, ask: Solve, loss: SmoothLoss, scale: float) -> float:
    """Return the log density of the release x, (d,), up to a constant that is the same for all losses.

    x minimizes f(x) + ‖x − center − e‖²/(2·step) for a single e: e = x + step·∇f(x) − center; and ∂e/∂x = I +
    step·∇²f(x). The law of e has density ∝ exp(−‖e‖₂/scale) (X. Zhang, M. M. Khalili, M. Liu, (57) to (61)).
    """
    e = x + ask.step * loss.grad(x) - ask.center
    volume = ask.step * loss.hessian(x)
    volume.flat[:: len(x) + 1] += 1.0
    return float(np.linalg.slogdet(volume)[1]) - norm(e) / scale
