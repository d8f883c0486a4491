"""Noise with density ∝ exp(−‖e‖₂/scale): its norm is Gamma(d, scale), its direction uniform.

K. Chaudhuri, C. Monteleoni, A. Sarwate, "Differentially Private Empirical Risk Minimization" (2011); the ADMM papers'
exp(−α‖e‖₂) with α = 1/scale. A value of L2 sensitivity D2 becomes D2/scale-DP: a shift changes ‖e‖₂ by no more. At δ
it costs less, the less the larger d is (`privacy.gamma_norm`).
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
    """Scale (inverse of the query's noise rate)/epsilon, or c/epsilon where a constant c is given."""

    def release(self, query: Query, t: int, noise: Draws, out: Vector) -> Event:
        """`query.value` plus noise, into `out`: (d,)."""
        calibration = query.l2 if query.calibration is None else query.calibration
        scale = (calibration if self.constant is None else self.constant) / self.epsilon
        draws = noise.at(t)
        direction = draws.standard_normal(out.shape)
        norm = draws.gamma(len(out), scale)
        np.add(query.value, direction * (norm / sqrt(direction @ direction)), out=out)
        return Event.of(query, Kind.GAMMA_NORM, scale)
