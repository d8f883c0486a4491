"""Private distributed optimization with geometrically decreasing steps and noise.

Z. Huang, S. Mitra, N. Vaidya, "Differentially Private Distributed Optimization" (2015). In each round t, every agent i
sends its decision plus Laplace noise, mixes the received vectors, and takes a gradient step at the mix, as in the later
method `two_stage_gaussian`:

    y_i    = x_i(t−1) + Lap(b(t−1))               the message; x_i(t−1) is the decision of round t
    z_i    = Σ_j a_ij y_j                         the mix
    x_i(t) = P(z_i − γ(t) ∇f_i(z_i))

    γ(t) = c q^(t−1)                              the step size
    b(t) = Δ√d c p^t/(ε(p − q))                   the noise scale, unless `privacy.scale` is a number

The symbols are:

- c, q and p are the settings `first_step`, `step_decay` and `noise_decay`, with 0 < q < p < 1.
- a_ij are the mixing weights, and P is the projection onto the constraint set 𝒳 in R^d.
- Δ is the largest L2 change of ∇f_i between adjacent data.

The start x_i(0) = 0 depends on no data and gets no noise. With the noise scales b(t), all rounds together are ε-DP,
because Σ_t Δ√d γ(t)/b(t) ≤ ε.
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
    """Hold the state of one agent between two rounds."""

    x: Vector  # (d,)


@dataclass(frozen=True)
class HuangDP(Algorithm[State]):
    """Run gradient steps at mixes of received vectors. The steps and the Laplace noise decrease geometrically.

    Attributes:
        first_step: c: the step of round 1
        step_decay: q: every step is q times the previous step
        noise_decay: p: the noise scale is multiplied by p in each round; p > q
    """

    first_step: Annotated[float, Meta(gt=0, le=1e100)] = 0.005
    step_decay: Share = 0.9
    noise_decay: Share = 0.95
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
    probes = {"": {"algorithm": {"first_step": 0.3}}}

    def gamma(self, t: int) -> float:
        """Return the step γ(t) of round t."""
        return self.first_step * self.step_decay ** (t - 1)

    def init(self, x: Vector) -> State:
        """Return the state before round 1, whose decision is x. In a run x is 0."""
        return State(x)

    def message(self, s: State, here: Neighborhood) -> Query | Start:
        """Return the decision x_i(t − 1) as the message of round t, with its noise scale for ε = 1.

        In round 1 the message is the start 0, without noise.
        """
        t, p, q = here.t - 1, self.noise_decay, self.step_decay
        if t == 0:
            return Start()
        l2 = self.run.grad_sensitivity[here.agent]
        l1 = sqrt(s.x.shape[-1]) * l2
        noised = l1 * self.first_step * p**t / (p - q)
        return Query(s.x, l1=l1 * self.gamma(t), l2=l2 * self.gamma(t), uses=t, leaks=RELEASED, calibration=noised)

    def update(self, s: State, here: Neighborhood, inbox: Inbox, loss: Loss) -> State:
        """Return the state of the next round: the projection of z − γ(t) ∇f(z), where z is the mix of the releases."""
        z = inbox.mix()
        return State(self.run.feasible.project(z - self.gamma(here.t) * loss.grad(z)))

    def validate(self) -> None:
        """Check that the setting `step_decay` is below the setting `noise_decay`, and that no step size is almost 0.

        Raises:
            ValueError: `step_decay` is not below `noise_decay`, or the step size of the last round is below 1e-300.
        """
        if self.step_decay >= self.noise_decay:
            limit = f"algorithm.noise_decay = {self.noise_decay:g}: the noise must decrease more slowly than the steps"
            raise ValueError(f"algorithm.step_decay = {self.step_decay:g} must be below {limit}")
        if self.gamma(rounds := self.run.rounds) < 1e-300:
            remedy = "set fewer rounds, or raise algorithm.step_decay"
            raise ValueError(f"the step size of round {rounds} is below 1e-300: {remedy}")

    def claimed_epsilon(self, rounds: int, passes: int) -> float:
        """Return the ε that the paper claims for the whole run: `privacy.epsilon`.

        The claim holds for any number of rounds and passes, because in the proof every round may use every sample.
        """
        return self.run.epsilon
