"""Private consensus optimization in two stages with Gaussian noise.

M. Showkatbakhsh, C. Karakus, S. Diggavi, "Differentially Private Consensus-Based Distributed Optimization", its
Algorithm 1, whose t is our round: y_i(1) = 0, and x_i(t − 1) is the decision of round t. Stage I, t = 1 .. T:

    y_i(t) = x_i(t−1) + n_i,  n_i ~ N(0, M²(t−1) I)                  (11), the release
    z_i    = P(Σ_j w_ij y_j)                                         (9)
    x_i    = P(z_i − η(t) ∇f_i(z_i))                                 (8)

Stage II, t > T: x_i = Σ_j w_ij y_j (12), which is what goes out in the next round. The hand-over y_i(T + 1) carries
noise by (11), but none by (12): without, [z_i(T) − x_i(T)]/η(T) is the last gradient itself wherever x_i(T) lies
inside 𝒳.

With μ and L the least strong convexity and the largest smoothness of the f_i and K = (μ + L)/(2μL), Theorem 2 has
η(t) = K/t and M²(t) = (2/κ) K² √T/(t√t), κ = ε²/(4G²(ε + 2 ln(2/δ))), 2G being here the largest change of ∇f_i between
adjacent data. By Theorem 1, Σ_t Δ²(t)/M²(t) ≤ ε²/(ε + 2 ln(2/δ)) with Δ(t) = 2η(t)G makes the run (ε, δ)-DP; exactly,
Gaussian noise does at Σ_t Δ²(t)/M²(t) = m², m-GDP being (ε, δ)-DP, which takes less noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isinf, log, sqrt
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from msgspec import Meta

from mpinodes.core import (
    RELEASED,
    Algorithm,
    Bound,
    Horizons,
    Inbox,
    Loss,
    Neighborhood,
    Query,
    Relay,
    Setup,
    Start,
    Vector,
)

__all__ = ["TwoStageGaussian"]

Positive = Annotated[float, Meta(gt=0, le=1e100)]
Rounds: TypeAlias = Any  # a round t, or an array of them


class State(NamedTuple):
    """What the next round needs."""

    x: Vector  # (d,)


@dataclass(frozen=True)
class TwoStageGaussian(Algorithm[State]):
    """Algorithm 1."""

    gradient_rounds: Annotated[int, Meta(ge=1, description="T: rounds of stage I, with gradients and noise")] = 100
    handover: Annotated[
        Literal["noised", "clean"],
        Meta(description="the first release of stage II; clean: as (12) prints it, which gives the last gradient away"),
    ] = "noised"
    calibration: Annotated[
        Literal["theorem-2", "theorem-1", "exact"],
        Meta(
            description="of the noise to (epsilon, delta). theorem-2: the paper's schedule; theorem-1, exact: the "
            "least noise of the shape noise_decay or noise_shape by Theorem 1, or by exact Gaussian accounting"
        ),
    ] = "theorem-2"
    noise_decay: Annotated[float, Meta(ge=0, le=10, description="the noise M(t) falls like t^-noise_decay")] = 0.75
    noise_shape: Annotated[
        tuple[Positive, ...], Meta(description="instead of noise_decay: M(1), ..., M(T) up to a common factor")
    ] = ()
    noise_scale: Annotated[
        float, Meta(ge=0, le=1e100, description="instead of a calibration: that factor; 0: calibrated")
    ] = 0.0
    modulus: Annotated[
        float, Meta(ge=0, le=1e100, description="mu of the steps; 0: what is known of the losses without the data")
    ] = 0.0
    largest_curvature: Annotated[float, Meta(ge=0, le=1e100, description="L of the steps; 0: likewise")] = 0.0
    stop: Annotated[
        float,
        Meta(ge=0, lt=1, description="end stage II once no agent's release changes by more, relatively; 0: never"),
    ] = 0.0
    mixings = ("laplacian", "metropolis", "lazy-metropolis")

    decomposable = True
    anytime = True
    judged_by = "last"
    takes_steps = False
    paper = (
        "Showkatbakhsh, Karakus, Diggavi, Differentially Private Consensus-Based Distributed Optimization, Algorithm 1"
    )
    whole_data = True
    against_colluders = True
    mechanism = "gaussian"
    defaults = {
        "rounds": 131,
        "data": {"name": "mean", "batch": "all"},
        "topology": {"name": "erdos-renyi", "probability": 0.6},
        "privacy": {"mechanism": "gaussian", "epsilon": 4.0, "delta": 1e-3, "clip": "inf"},
    }

    @property
    def settled_below(self) -> float:
        """See `Algorithm`."""
        return self.stop

    @property
    def k(self) -> float:
        """K = (μ + L)/(2μL); 1/(2μ) where L is not known to be finite."""
        mu, largest = self.modulus or self.run.least_modulus, self.largest_curvature or self.run.largest_smoothness
        return (1 / mu + 1 / largest) / 2

    def eta(self, t: Rounds) -> Rounds:
        """η(t)."""
        return self.k / t

    def noise(self, t: Rounds) -> Rounds:
        """M(t), t ≤ T."""
        return self.factor * self.shape(t)

    def shape(self, t: Rounds) -> Rounds:
        """M(t) up to a common factor."""
        if self.noise_shape:
            return np.asarray(self.noise_shape)[np.asarray(t) - 1]
        return np.power(t, -self.noise_decay)

    @property
    def factor(self) -> float:
        """That factor, which makes the run (ε, δ)-DP."""
        if self.noise_scale:
            return self.noise_scale
        if isinf(self.run.epsilon):
            return 0.0
        theorem_1 = self.run.epsilon / sqrt(self.run.epsilon + 2 * log(2 / self.run.delta))
        if self.calibration == "theorem-2":
            return max(self.run.grad_sensitivity) * self.k * sqrt(2 * sqrt(self.gradient_rounds)) / theorem_1
        t = np.arange(1, self.gradient_rounds + 1)
        spent = sqrt(float(np.sum((max(self.run.grad_sensitivity) * self.eta(t) / self.shape(t)) ** 2)))
        return spent / (self.run.gdp(self.run.epsilon, self.run.delta) if self.calibration == "exact" else theorem_1)

    def init(self, x: Vector) -> State:
        """y_i(1) = 0."""
        return State(x)

    def message(self, s: State, here: Neighborhood) -> Query | Start | Relay:
        """(11); from T + 2 on (12)."""
        made, last = here.t - 1, self.gradient_rounds  # x_i was made in the round before
        if made == 0:
            return Start()
        if made > last:
            return Relay()
        l2 = self.run.grad_sensitivity[here.agent] * float(self.eta(made))
        clean = made == last and self.handover == "clean"
        noise = 0.0 if clean else float(self.noise(made))
        return Query(s.x, l1=sqrt(len(s.x)) * l2, l2=l2, uses=made, leaks=RELEASED, calibration=noise)

    def update(self, s: State, here: Neighborhood, inbox: Inbox, loss: Loss) -> State:
        """(9) and (8); from T + 1 on (12)."""
        mixed = inbox.mix()
        if here.t > self.gradient_rounds:
            return State(mixed)
        z = self.run.feasible.project(mixed)
        return State(self.run.feasible.project(z - self.eta(here.t) * loss.grad(z)))

    def carried_on(self, t: int) -> float | None:
        """1 − η(t − 1) times the Hessian, where that is the same for all losses, and nothing is projected."""
        curvature = self.run.least_modulus
        if self.run.feasible.bounded or curvature != self.run.largest_smoothness:
            return None
        return 1 - float(self.eta(t - 1)) * curvature

    def decision(self, s: State) -> Vector:
        """x_i."""
        return s.x

    def validate(self) -> None:
        """Whether there is a stage II, strong convexity, and noise for every round.

        Raises:
            ValueError: there is not.
        """
        if (rounds := self.run.rounds) <= self.gradient_rounds:
            raise ValueError(
                f"{rounds} rounds end before the hand-over: set rounds above algorithm.gradient_rounds = "
                f"{self.gradient_rounds}"
            )
        if not (self.modulus or self.run.least_modulus):
            raise ValueError(
                "the steps need strongly convex losses: set problem.regularizer above 0, or algorithm.modulus"
            )
        if self.noise_shape and len(self.noise_shape) != self.gradient_rounds:
            raise ValueError(
                f"algorithm.noise_shape has {len(self.noise_shape)} numbers: expected algorithm.gradient_rounds = "
                f"{self.gradient_rounds}"
            )
        if self.calibration == "theorem-2" and (self.noise_shape or self.noise_decay != 0.75) and not self.noise_scale:
            raise ValueError(
                "algorithm.calibration = 'theorem-2' is a schedule of its own, t^-0.75: take theorem-1 or exact for "
                "another shape, or set algorithm.noise_scale"
            )

    def claimed_epsilon(self, rounds: int, passes: int) -> list[float]:
        """Theorem 1, by agent, solved for ε at δ."""
        t = np.arange(1, min(rounds - 1, self.gradient_rounds) + 1)
        spent = [float(np.sum((change * self.eta(t) / self.noise(t)) ** 2)) for change in self.run.grad_sensitivity]
        return [(a + sqrt(a * a + 8 * a * log(2 / self.run.delta))) / 2 for a in spent]

    def bounds(self, setup: Setup, horizons: Horizons, minimizer: Vector) -> list[Bound]:
        """Theorem 2 and Corollary 2."""
        from mpinodes.bounds.two_stage_gaussian import bounds

        return bounds(setup, horizons, minimizer)
