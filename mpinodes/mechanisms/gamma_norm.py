"""Add noise e in R^d with a density ∝ exp(−‖e‖₂/scale): the norm ‖e‖₂ is Gamma(d, scale), the direction uniform.

K. Chaudhuri, C. Monteleoni, A. Sarwate, "Differentially Private Empirical Risk Minimization" (2011). The ADMM papers
write the density as exp(−α‖e‖₂) with the noise rate α = 1/scale.

The release of a value of L2 sensitivity D2 is (D2/scale)-DP, because a shift by D2 changes ‖e‖₂ by at most D2. For δ >
0 a smaller ε is proven (`privacy.gamma_norm`), which falls with the dimension d.
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
    """Add noise e with a density proportional to exp(−‖e‖₂/scale).

    The scale is a constant divided by epsilon. The constant is the first of these numbers that exists:

    - the number c of the setting `privacy.scale`;
    - the number that the algorithm states in the field `calibration` of the query: the inverse of the paper's noise
      rate for epsilon = 1;
    - the L2 sensitivity of the query.
    """

    scale_is = "inverse of the noise rate"

    def release(self, query: Query, t: int, noise: Draws, out: Vector) -> Event:
        """Write `query.value` plus noise to `out` (d,), and return the privacy event (noise and sensitivity)."""
        calibration = query.l2 if query.calibration is None else query.calibration
        scale = (calibration if self.constant is None else self.constant) / self.epsilon
        draws = noise.at(t)
        direction = draws.standard_normal(out.shape)
        norm = draws.gamma(len(out), scale)
        np.add(query.value, direction * (norm / sqrt(direction @ direction)), out=out)
        return Event.of(query, Kind.GAMMA_NORM, scale)
