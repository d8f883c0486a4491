"""Private consensus optimization in two stages with Gaussian noise.

M. Showkatbakhsh, C. Karakus, S. Diggavi, "Differentially Private Consensus-Based Distributed Optimization", Algorithm
1. In stage I, every agent i sends its decision plus noise, mixes the received vectors, and takes a gradient step. In
stage II, the agents only average.

Stage I, rounds t = 1 .. T:

    y_i(t) = x_i(t−1) + n_i,  n_i ~ N(0, M²(t−1) I)                  (11), the message; y_i(1) = 0 has no noise
    z_i    = P(Σ_j w_ij y_j)                                         (9)
    x_i(t) = P(z_i − η(t) ∇f_i(z_i))                                 (8)

Stage II, rounds t > T:

    x_i(t) = Σ_j w_ij y_j                                            (12), sent in the next round

The symbols are:

- x_i(t − 1) is the decision of round t. w_ij are the mixing weights.
- P is the projection onto the constraint set 𝒳.
- η(t) is the step size, and M(t) is the standard deviation of the noise.

The *hand-over* is the first message of stage II, y_i(T + 1). It has noise by (11), but not by (12); the setting
`handover` decides. Without noise, an observer of all messages can compute the last gradient as [z_i(T) − x_i(T)]/η(T),
if x_i(T) is in the interior of 𝒳.

Noise: Theorem 2 takes

    η(t) = K/t,  M²(t) = (2/κ) K² √T/(t√t)
    K = (μ + L)/(2μL),  κ = ε²/(4G²(ε + 2 ln(2/δ)))

where μ is the least strong convexity and L the largest smoothness of the f_i, and 2G is the largest L2 change of ∇f_i
between adjacent data. With Δ(t) = 2η(t)G, a run with a noised hand-over is (ε, δ)-DP under each of two conditions:

- Theorem 1: Σ_t Δ²(t)/M²(t) ≤ ε²/(ε + 2 ln(2/δ)).
- Exact accounting of Gaussian noise: Σ_t Δ²(t)/M²(t) ≤ m², where m is the largest number for which m-GDP implies (ε,
  δ)-DP. This condition allows less noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isinf, log, sqrt
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from msgspec import Meta

from mpinodes.core import RELEASED, Algorithm, Inbox, Loss, Neighborhood, Query, Relay, Start, Vector

__all__ = ["TwoStageGaussian"]

Positive = Annotated[float, Meta(gt=0, le=1e100)]
NotNegative = Annotated[float, Meta(ge=0, le=1e100)]
Rounds: TypeAlias = Any  # a round t, or an array of them


class State(NamedTuple):
    """Hold the state of one agent between two rounds."""

    x: Vector  # (d,)


@dataclass(frozen=True)
class TwoStageGaussian(Algorithm[State]):
    """Run gradient steps with Gaussian noise in stage I, and averaging without gradients in stage II.

    Attributes:
        gradient_rounds: T: rounds of stage I, with gradients and noise
        handover: the first release of stage II; clean: without noise, as in (12), reveals the last gradient
        calibration: how the noise is calibrated to (epsilon, delta). theorem-2: the paper's schedule of noise.
            theorem-1: the least noise of the chosen shape that Theorem 1 allows. exact: the least noise of the chosen
            shape by exact Gaussian accounting
        noise_decay: the noise M(t) decreases as t^-noise_decay
        noise_shape: used instead of noise_decay: M(1), ..., M(T) up to a common factor
        noise_scale: common factor of the noise M(t); 0: calibrated
        modulus: mu in the steps; 0: a data-independent bound
        largest_curvature: L in the steps; 0: a data-independent bound
        stop: stage II ends if every release changes by at most this share of its norm
    """

    gradient_rounds: Annotated[int, Meta(ge=1)] = 100
    handover: Literal["noised", "clean"] = "noised"
    calibration: Literal["theorem-2", "theorem-1", "exact"] = "theorem-2"
    noise_decay: Annotated[float, Meta(ge=0, le=10)] = 0.75
    noise_shape: tuple[Positive, ...] = ()
    noise_scale: NotNegative = 0.0
    modulus: NotNegative = 0.0
    largest_curvature: NotNegative = 0.0
    stop: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    mixings = ("laplacian", "metropolis", "lazy-metropolis")

    decomposable = True
    anytime = True
    judged_by = "last"
    takes_steps = False
    theorems = "mpinodes.bounds.two_stage_gaussian"
    paper = (
        "Showkatbakhsh, Karakus, Diggavi, Differentially Private Consensus-Based Distributed Optimization, Algorithm 1"
    )
    whole_data = True
    against_colluders = True
    mechanism = "gaussian"
    scale_key = "algorithm.noise_scale"
    settled_key = "algorithm.stop"
    defaults = {
        "rounds": 131,
        "data": {"name": "mean", "batch": "all"},
        "topology": {"name": "erdos-renyi", "probability": 0.6},
        "privacy": {"mechanism": "gaussian", "epsilon": 4.0, "delta": 1e-3, "clip": "inf"},
    }

    probes = {
        what: {"rounds": 8, "privacy": {"delta": 1e-3}, "algorithm": {"gradient_rounds": 5, **keys}}
        for what, keys in {
            "hand-over noised, as (11)": {},
            "hand-over clean, as printed in (12)": {"handover": "clean"},
            "noise by the exact accounting": {"calibration": "exact"},
        }.items()
    }

    @property
    def fewest_rounds(self) -> int:
        """Return T + 1: after the T rounds of stage I, round T + 1 has the first message of stage II."""
        return self.gradient_rounds + 1

    @property
    def settled_below(self) -> float:
        """Return the setting `stop`, which may end the run before its last round.

        The run ends soon after a round of stage II in which every agent's vector changed by at most `stop` times its
        norm. If `stop` is 0, the run never ends early.
        """
        return self.stop

    @property
    def k(self) -> float:
        """Return the factor K = (μ + L)/(2μL) of the step size K/t.

        The strong convexity μ is the setting `modulus`, or `Run.least_modulus` if this setting is 0. The smoothness L
        is the setting `largest_curvature`, or `Run.largest_smoothness` if this setting is 0.
        """
        mu, largest = self.modulus or self.run.least_modulus, self.largest_curvature or self.run.largest_smoothness
        return (1 / mu + 1 / largest) / 2

    def eta(self, t: Rounds) -> Rounds:
        """Return the step η(t) = K/t of round t."""
        return self.k / t

    def noise(self, t: Rounds) -> Rounds:
        """Return M(t), the standard deviation of the noise on x_i(t), for the rounds t ≤ T of stage I.

        If `handover` = clean, x_i(T) is nevertheless sent without noise. In a run without noise, no noise is added.
        """
        return self.factor * self.shape(t)

    def shape(self, t: Rounds) -> Rounds:
        """Return the shape of the noise in round t ≤ T: its standard deviation M(t), divided by `factor`.

        The shape is entry t of the setting `noise_shape`, or t^(−noise_decay) if `noise_shape` is empty.
        """
        if self.noise_shape:
            return np.asarray(self.noise_shape)[np.asarray(t) - 1]
        return np.power(t, -self.noise_decay)

    @property
    def factor(self) -> float:
        """Return the number that, times `shape(t)`, gives the standard deviation M(t) of the noise.

        - If `noise_scale` is above 0: the setting `noise_scale`.
        - If `noise_scale` is 0, and ε is inf: 0.
        - Otherwise: the number that the setting `calibration` determines from ε and δ. The run is then (ε, δ)-DP if the
          first message of stage II carries noise.
        """
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
        """Return the state before round 1, whose decision is x. In a run x is 0."""
        return State(x)

    def message(self, s: State, here: Neighborhood) -> Query | Start | Relay:
        """Return the message of round t.

        - If t = 1: the start 0, without noise.
        - If 2 ≤ t ≤ T + 1: the decision x_i(t − 1) plus noise; for t = T + 1 without noise if `handover` = clean.
        - If t > T + 1: a relay, which is the mix of the received vectors without new noise.
        """
        made, last = here.t - 1, self.gradient_rounds  # x_i was computed in the previous round
        if made == 0:
            return Start()
        if made > last:
            return Relay()
        l2 = self.run.grad_sensitivity[here.agent] * float(self.eta(made))
        clean = made == last and self.handover == "clean"
        noise = 0.0 if clean else float(self.noise(made))
        return Query(s.x, l1=sqrt(s.x.shape[-1]) * l2, l2=l2, uses=made, leaks=RELEASED, calibration=noise)

    def update(self, s: State, here: Neighborhood, inbox: Inbox, loss: Loss) -> State:
        """Return the state of the next round.

        In stage I, the new decision is a projected gradient step from the mix of the received vectors. In stage II, the
        new decision is the mix.
        """
        mixed = inbox.mix()
        if here.t > self.gradient_rounds:
            return State(mixed)
        z = self.run.feasible.project(mixed)
        return State(self.run.feasible.project(z - self.eta(here.t) * loss.grad(z)))

    def carried_on(self, t: int) -> float | None:
        """Return the factor with which a message of round t contains the mix of the messages of round t − 1.

        The factor is 1 − η(t − 1)·h if all loss functions have the Hessian h·I. The result is None if this is not
        known, or if the constraint set is bounded, so that decisions are projected. The caller must check that 2 ≤ t ≤
        T + 1, and that gradients are not clipped.
        """
        curvature = self.run.least_modulus
        if self.run.feasible.bounded or curvature != self.run.largest_smoothness:
            return None
        return 1 - float(self.eta(t - 1)) * curvature

    def validate(self) -> None:
        """Check the number of rounds, the strong convexity of the losses, and the settings of the noise.

        Raises:
            ValueError: the run ends before stage II; the losses are not known to be strongly convex and `modulus` is 0;
                or two settings of the noise contradict each other. The message says which keys to change.
        """
        if (rounds := self.run.rounds) <= self.gradient_rounds:
            remedy = f"set rounds above algorithm.gradient_rounds = {self.gradient_rounds}"
            raise ValueError(f"the run ends after {rounds} rounds, before stage II (averaging) begins: {remedy}")
        if not (self.modulus or self.run.least_modulus):
            raise ValueError("the steps need strongly convex losses: set problem.regularizer or algorithm.modulus")
        if self.noise_shape and len(self.noise_shape) != self.gradient_rounds:
            expected = f"algorithm.gradient_rounds = {self.gradient_rounds}"
            raise ValueError(f"algorithm.noise_shape has {len(self.noise_shape)} numbers: expected {expected}")
        if self.calibration == "theorem-2" and (self.noise_shape or self.noise_decay != 0.75) and not self.noise_scale:
            remedy = "for another shape, set calibration to theorem-1 or exact, or set algorithm.noise_scale"
            raise ValueError(f"algorithm.calibration = 'theorem-2' needs noise of the shape t^-0.75: {remedy}")

    def claimed_epsilon(self, rounds: int, passes: int) -> list[float]:
        """Return the ε that Theorem 1 of the paper claims for each agent after `rounds` rounds, at `privacy.delta`.

        The claim assumes noise on the hand-over (the first message of stage II), even if `handover` = clean.
        """
        t = np.arange(1, min(rounds - 1, self.gradient_rounds) + 1)
        spent = [float(np.sum((change * self.eta(t) / self.noise(t)) ** 2)) for change in self.run.grad_sensitivity]
        return [(a + sqrt(a * a + 8 * a * log(2 / self.run.delta))) / 2 for a in spent]
