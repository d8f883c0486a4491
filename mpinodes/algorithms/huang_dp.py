"""Private distributed optimization with geometrically falling steps and noise.

Z. Huang, S. Mitra, N. Vaidya, "Differentially Private Distributed Optimization" (2015), with the gradient steps of
M. Showkatbakhsh, C. Karakus, S. Diggavi, whose predecessor it is. x_i(t − 1) is the decision of round t:

    y_i = x_i(t−1) + Lap(b(t−1))               the release; x_i(0) = 0 holds no data and goes out as it is
    z_i = Σ_j a_ij y_j
    x_i = P(z_i − γ(t) ∇f_i(z_i)),  γ(t) = c q^(t−1)

b(t) = Δ√d c p^t/(ε(p − q)) with 0 < q < p < 1 and Δ the largest L2 change of ∇f_i between adjacent data, so that all
rounds together are ε-DP: Σ_t Δ√d γ(t)/b(t) ≤ ε.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Annotated, NamedTuple

from msgspec import Meta

from mpinodes.core import RELEASED, Algorithm, Inbox, Loss, Neighborhood, Query, Start, Vector

__all__ = ["HuangDP"]

Share = Annotated[float, Meta(gt=0, lt=1)]


class State(NamedTuple):
    """What the next round needs."""

    x: Vector  # (d,)


@dataclass(frozen=True)
class HuangDP(Algorithm[State]):
    """The iteration."""

    first_step: Annotated[float, Meta(gt=0, le=1e100, description="c: the step of round 1")] = 0.005
    step_decay: Annotated[Share, Meta(description="q: every step is q times the one before")] = 0.9
    noise_decay: Annotated[Share, Meta(description="p: all noise is p times that before; above step_decay")] = 0.95
    mixings = ("laplacian", "metropolis", "lazy-metropolis")

    decomposable = True
    anytime = True
    takes_steps = False
    paper = "Huang, Mitra, Vaidya, Differentially Private Distributed Optimization (2015)"
    judged_by = "last"
    whole_data = True
    against_colluders = True
    bears_loss = True
    bears_delay = True
    defaults = {
        "rounds": 101,
        "data": {"name": "mean", "batch": "all"},
        "topology": {"name": "erdos-renyi", "probability": 0.6},
        "privacy": {"epsilon": 4.0, "clip": "inf"},
    }

    def gamma(self, t: int) -> float:
        """γ(t)."""
        return self.first_step * self.step_decay ** (t - 1)

    def init(self, x: Vector) -> State:
        """x_i(0) = 0."""
        return State(x)

    def message(self, s: State, here: Neighborhood) -> Query | Start:
        """y_i."""
        t, p, q = here.t - 1, self.noise_decay, self.step_decay
        if t == 0:
            return Start()
        l2 = self.run.grad_sensitivity[here.agent]
        l1 = sqrt(len(s.x)) * l2
        noised = l1 * self.first_step * p**t / (p - q)
        return Query(s.x, l1=l1 * self.gamma(t), l2=l2 * self.gamma(t), uses=t, leaks=RELEASED, calibration=noised)

    def update(self, s: State, here: Neighborhood, inbox: Inbox, loss: Loss) -> State:
        """x_i."""
        z = inbox.mix()
        return State(self.run.feasible.project(z - self.gamma(here.t) * loss.grad(z)))

    def decision(self, s: State) -> Vector:
        """x_i."""
        return s.x

    def validate(self) -> None:
        """Whether q < p, and no step is 0.

        Raises:
            ValueError: it is not so.
        """
        if self.step_decay >= self.noise_decay:
            raise ValueError(
                f"algorithm.step_decay = {self.step_decay:g} must be below algorithm.noise_decay = "
                f"{self.noise_decay:g}: the noise must fall more slowly than the steps"
            )
        if self.gamma(rounds := self.run.rounds) < 1e-300:
            raise ValueError(f"the step of round {rounds} is 0: fewer rounds, or a larger algorithm.step_decay")

    def claimed_epsilon(self, rounds: int, passes: int) -> float:
        """ε in all, though every sample is used in every round."""
        return self.run.epsilon
