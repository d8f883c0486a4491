"""PVP: private ADMM by primal variable perturbation: the minimizer is found without noise, and sent with it.

T. Zhang, Q. Zhu, "Dynamic Differential Privacy for ADMM-Based Distributed Classification Learning" (2017). ADMM, where
agent i sends f_i(t) + e, of density ∝ exp(−a_i(t)‖e‖₂), a_i(t) = a_i(1) q₂^(t−1) times `privacy.epsilon`, and uses what
it sent in the place of its f_i(t) ever after. The minimizer of a (ρ/N + 2ηV)-strongly convex function moves by at most
(2C/B)/(ρ/N + 2ηV) between adjacent data, and is found to within tolerance/(ρ/N + 2ηV): a release costs a times that,
pure. At δ it costs less (`privacy.gamma_norm`): given what was said before, f_i(t) follows from the data alone, so a
change shifts the noise by what does not hang on it, and by no more than a constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan, sqrt
from typing import NamedTuple

import numpy as np

from mpinodes.algorithms.admm import Perturbed
from mpinodes.algorithms.admm import State as Sent
from mpinodes.core import RELEASED, Inbox, Loss, Neighborhood, Query, Solved, Start, Vector

__all__ = ["PVPADMM"]


class State(NamedTuple):
    """What the next round needs."""

    sent: Sent
    found: Solved  # f_i(t), to be sent next


@dataclass(frozen=True)
class PVPADMM(Perturbed[State]):
    """Every agent sends the minimizer with noise."""

    paper = "Zhang, Zhu, Dynamic Differential Privacy for ADMM-Based Distributed Classification Learning (2017)"

    def init(self, x: Vector) -> State:
        """f_i(0) = x and λ_i(0) = 0."""
        return State(Sent(f=x, anchor=x, dual=np.zeros_like(x)), Solved(x, 0.0, 0))

    def message(self, s: State, here: Neighborhood) -> Query | Start:
        """f_i(0), or f_i(t − 1) to be noised."""
        if here.t == 1:
            return Start()
        ask, f = self.problem(s.sent, here.agent, here.t - 1), s.found
        l2 = (ask.l2 / ask.step + 2 * self.tolerance) * ask.stretch if f.residual <= self.tolerance else inf
        return Query(
            f.x,
            l1=sqrt(len(f.x)) * l2,
            l2=l2,
            uses=here.t - 1,
            leaks=RELEASED,
            calibration=ask.calibration,
            residual=f.residual,
            solver_steps=f.steps,
        )

    def update(self, s: State, here: Neighborhood, inbox: Inbox, loss: Loss) -> State:
        """(9), with what was sent in the place of f_i(t), and the argmin of (8) without noise."""
        sent = self.after(s.sent, here, inbox)
        ask = self.problem(sent, here.agent, here.t)
        return State(sent, loss.prox(ask.center, ask.step, ask.near, ask.tolerance))

    def decision(self, s: State) -> Vector:
        """f_i(t), before it is noised; what is decided is what is sent."""
        return s.found.x

    def claimed_epsilon(self, rounds: int, passes: int) -> list[float]:
        """Σ_t a_i(t) (2C/B_i)/(ρ/N + 2 η_i(t) V_i), by agent, for the a that `epsilon` makes."""
        if self.run.sample_sensitivity > 1:
            return [nan] * self.run.agents
        t = np.arange(1, rounds)
        losses = []
        for i, neighbours in enumerate(self.run.degrees):
            a, eta = self.run.epsilon / self.noise_scale(i, t), self.eta(i, t)
            losses.append(
                float(np.sum(2 * self.run.sample_weight[i] * a / (self.run.regularizer + 2 * eta * neighbours)))
            )
        return losses
