"""Noise with density ∝ exp(−‖e‖₂/scale): its norm is Gamma(d, scale), its direction uniform.

K. Chaudhuri, C. Monteleoni, A. Sarwate, "Differentially Private Empirical Risk Minimization" (2011). The ADMM papers
write exp(−α‖e‖₂) with α = 1/scale. A value of L2 sensitivity D2 becomes D2/scale-DP, because a shift by D2 changes ‖e‖₂
by at most D2. With δ > 0 it costs less, and the saving grows with d (`privacy.gamma_norm`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from mpinodes.core import Event, Kind, Mechanism, Query, Vector
from mpinodes.core.seeds import Draws

__all__ = ["GammaNorm"]


@dataclass(frozen=True)
class GammaNorm(Mechanism):
    """Add gamma-norm noise whose scale is calibration/epsilon, or c/epsilon if a constant c is given.

    The calibration is the inverse of the noise rate that the query asks for, or its L2 sensitivity if it asks for none.
    """

    scale_is = "inverse of the noise rate"

    def release(self, query: Query, t: int, noise: Draws, out: Vector) -> Event:
        """Write `query.value` plus noise to `out` (d,), and return the event."""
        calibration = query.l2 if query.calibration is None else query.calibration
        scale = (calibration if self.constant is None else self.constant) / self.epsilon
        draws = noise.at(t)
        direction = draws.standard_normal(out.shape)
        norm = draws.gamma(len(out), scale)
        np.add(query.value, direction * (norm / sqrt(direction @ direction)), out=out)
        return Event.of(query, Kind.GAMMA_NORM, scale)
