"""DVP: private ADMM by dual variable perturbation. The penalty term of every local problem contains noise.

T. Zhang, Q. Zhu, "Dynamic Differential Privacy for ADMM-Based Distributed Classification Learning" (2017), as described
by X. Zhang, M. M. Khalili, M. Liu, "Improving the Privacy and Accuracy of ADMM-Based Distributed Algorithms", (24) to
(26). The symbols are those of the module `admm`; the penalty η equals the dual step θ.

The noise e of agent i in iteration t has a density proportional to exp(−α_i(t)‖e‖₂), where α_i(t) is `privacy.epsilon`
times α_i(1) q₂^(t−1). By Theorem 4.1, the privacy loss of agent i over T iterations is at most

    P_i(T) = Σ_t C (1.4 c₁ + α_i(t)) / (η_i(t) V_i B_i)

if |L'| ≤ 1, ‖x_n‖ ≤ 1, c₁ = sup L'' and the conditions in `validate` hold. If one sample is replaced, the accountant
uses a sharper bound:

    Σ_t [α_i(t) C/(η_i(t) V_i B_i) + ln(1 + C c₁/(B_i (ρ/N + 2 η_i(t) V_i)))]
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import Annotated

from msgspec import Meta

from mpinodes.algorithms.admm import ADMM, Perturbed, Rounds, State
from mpinodes.core import Solve

__all__ = ["DVPADMM"]


@dataclass(frozen=True)
class DVPADMM(Perturbed[State], ADMM):
    """Run private ADMM: every agent minimizes a local problem with added noise. The penalty equals the dual step.

    Attributes:
        grid: releases are rounded to multiples of this number after a private dither, which hides the errors of local
            solvers and costs a delta. 0: no rounding; the proof holds for exact minimizers only
    """

    grid: Annotated[float, Meta(ge=0, le=1)] = 0.0

    paper = "Zhang, Zhu, Dynamic Differential Privacy for ADMM-Based Distributed Classification Learning (2017)"
    exact_minimizers = True
    against_colluders = True

    def problem(self, s: State, i: int, t: int) -> Solve:
        """Return the local problem of agent i in iteration t, as the message. mpinodes adds the noise to this problem.

        The local problem is (25) of the paper by Zhang, Khalili and Liu. If the setting `grid` is above 0, a small
        random vector (a dither) is added to the minimizer. The sum is then rounded to multiples of `grid` before it is
        sent.
        """
        return replace(super().problem(s, i, t), grid=self.grid)

    def validate(self) -> None:
        """Check the settings and, if the run has noise, the conditions of Theorems 3.1 and 4.1 for every agent i.

        The conditions are

            C ≤ B_i  and  2c₁ < (B_i/C)(ρ/N + 2θV_i)

        where c₁ is the largest curvature of a sample's loss function, and θ is the dual step of iteration 1. The
        docstring of the module `admm` defines the other symbols.

        Raises:
            ValueError: a condition does not hold, or a setting is wrong; the message names the agent or the setting.
        """
        super().validate()
        for i in range(self.run.agents) if self.run.private else ():
            if self.run.sample_weight[i] > 1:
                weight = f"{self.run.sample_weight[i]:.6g}"
                remedy = "lower problem.weight (C), or give the agent more samples (B)"
                raise ValueError(f"agent {i}: the weight C/B of a sample is {weight}, and must be at most 1: {remedy}")
            convex = (self.run.regularizer + 2 * self.theta(i, 1) * self.run.degrees[i]) / self.run.sample_weight[i]
            if not 2 * self.run.sample_curvature < convex:
                remedy = "raise algorithm.dual_step, or lower problem.weight (C)"
                unbounded = "use a convex loss, and bound the features by data.bound or data.norm"
                raise ValueError(
                    f"agent {i}: 2 c1 = {2 * self.run.sample_curvature:g} is not below (B/C)(rho/N + 2 theta V) = "
                    f"{convex:.3g}, as the proof of privacy requires; c1 is the largest curvature of a sample's loss: "
                    + (remedy if self.run.sample_curvature < inf else unbounded)
                )

    def claimed_losses(self, agent: int, t: Rounds) -> Rounds:
        """Return the ε that equation (26) of the paper claims for an agent in each of the iterations t."""
        alpha, eta = self.run.epsilon / self.noise_scale(agent, t), self.eta(agent, t)
        weight, neighbours = self.run.sample_weight[agent], self.run.degrees[agent]
        return weight * (1.4 * self.run.sample_curvature + alpha) / (eta * neighbours)
