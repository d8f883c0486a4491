"""PVP: private ADMM by primal variable perturbation: agents solve without noise, and send the minimizer plus noise.

T. Zhang, Q. Zhu, "Dynamic Differential Privacy for ADMM-Based Distributed Classification Learning" (2017). In iteration
t, agent i minimizes its local problem, which gives f_i(t), and sends f_i(t) + e. From then on, the agent uses the sent
vector instead of f_i(t). The density of the noise e is proportional to exp(−a_i(t)‖e‖₂), where a_i(t) is
`privacy.epsilon` times a_i(1) q₂^(t−1). The other symbols are those of the module `admm`.

Sensitivity: the objective of the local problem is (ρ/N + 2ηV)-strongly convex, and the solver stops at a gradient norm
of at most `tolerance`. If one sample is replaced, |L'| ≤ 1 and ‖x_n‖ ≤ 1, f_i(t) moves in L2 norm by at most

    (2C/B + 2·tolerance)/(ρ/N + 2ηV)

Privacy loss: a message has the pure ε of a_i(t) times this sensitivity. For δ > 0, `privacy.gamma_norm` gives a smaller
ε.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt
from typing import NamedTuple

import numpy as np

from mpinodes.algorithms.admm import Perturbed, Rounds
from mpinodes.algorithms.admm import State as Sent
from mpinodes.core import RELEASED, Inbox, Loss, Neighborhood, Query, Solved, Start, Vector

__all__ = ["PVPADMM"]


class State(NamedTuple):
    """Hold the state of one agent between two rounds."""

    sent: Sent  # the state of ADMM, in which the sent vector replaces the minimizer
    minimizer: Solved  # f_i(t), to be sent next


@dataclass(frozen=True)
class PVPADMM(Perturbed[State]):
    """Run private ADMM: agents solve local problems without noise, and send the minimizer plus noise."""

    paper = "Zhang, Zhu, Dynamic Differential Privacy for ADMM-Based Distributed Classification Learning (2017)"

    def init(self, x: Vector) -> State:
        """Return the state before round 1: the iterate f_i(0) is x, and the dual variable λ_i is 0."""
        return State(Sent(f=x, anchor=x, dual=np.zeros_like(x)), Solved(x, 0.0, 0))

    def message(self, s: State, here: Neighborhood) -> Query | Start:
        """Return the message of round t: the start f_i(0) if t = 1, otherwise the minimizer f_i(t − 1).

        If the run has noise, the mechanism adds the noise to the minimizer. If the solver did not reach the gradient
        norm `tolerance`, the stated sensitivity of the message is inf.
        """
        if here.t == 1:
            return Start()
        ask, f = self.problem(s.sent, here.agent, here.t - 1), s.minimizer
        l2 = (ask.l2 / ask.step + 2 * self.tolerance) * ask.stretch if f.residual <= self.tolerance else inf
        l1, uses, noise = sqrt(len(f.x)) * l2, here.t - 1, ask.calibration
        return Query(f.x, l1, l2, uses, RELEASED, noise, residual=f.residual, solver_steps=f.steps)

    def update(self, s: State, here: Neighborhood, inbox: Inbox, loss: Loss) -> State:
        """Return the state of the next round, with the updated dual variable and the next minimizer, without noise."""
        sent = self.after(s.sent, here, inbox)
        ask = self.problem(sent, here.agent, here.t)
        return State(sent, loss.prox(ask.center, ask.step, ask.near, ask.tolerance))

    def decision(self, s: State) -> Vector:
        """Return the minimizer f_i(t) without noise.

        As `decides_release` is true, mpinodes takes the sent vector, with noise, as the agent's decision instead.
        """
        return s.minimizer.x

    def claimed_losses(self, agent: int, t: Rounds) -> Rounds:
        """Return the ε that the paper claims for an agent i in each of the iterations t: noise rate times sensitivity.

            a_i(t) · (2C/B_i)/(ρ/N + 2 η_i(t) V_i)

        a_i(t) is the rate of the noise. The docstring of the module `admm` defines the other symbols.
        """
        a, eta = self.run.epsilon / self.noise_scale(agent, t), self.eta(agent, t)
        weight, neighbours = self.run.sample_weight[agent], self.run.degrees[agent]
        return 2 * weight * a / (self.run.regularizer + 2 * eta * neighbours)
