"""ADMM for consensus learning.

X. Zhang, M. M. Khalili, M. Liu, "Improving the Privacy and Accuracy of ADMM-Based Distributed Algorithms", (8) and (9)
(Forero, Cano, Giannakis 2010). Agent i has B_i samples and V_i neighbours j, and its objective is O_i(f) = (C/B_i) Σ_n
L(y_n f·x_n) + (ρ/N)·½‖f‖². All λ_i start at 0, and f_i(0) is random. Iteration t is

    f_i(t) = argmin_f O_i(f) + 2 λ_i·f + η Σ_j ‖½(f_i(t−1) + f_j(t−1)) − f‖²
    λ_i   <- λ_i + (θ/2) Σ_j (f_i(t) − f_j(t))

with η = θ. Round 1 sends f_i(0), which does not depend on data. Round t + 1 sends f_i(t). With the step 1/(2ηV_i) and
the center c = mean_j ½(f_i + f_j) − λ_i/(ηV_i), the argmin is that of O_i(f) + ‖f − c‖²/(2·step). C is
`problem.weight`, and ρ/N is `problem.regularizer`.

Privacy of the perturbed variants. These variants add a noise e with density ∝ exp(−α(t)‖e‖₂) to the center. Their cost
follows from the problem alone. Given everything sent before, an output f is the minimizer for exactly one e. Adjacent
data change this e by at most step·2C/B. The density of f has the factor |∂e/∂f| = det(I + step·∇²O), which adjacent
data change by a factor of at most 1 + (C c₁/B)/(ρ/N + 1/step).

If k samples are replaced, the first bound is k times as large. For the second, let m = ρ/N + 1/step and write I +
step·∇²O = step·(m I + H + K), where H = (C/B) Σ L''_n x_n x_nᵀ sums over the replaced samples and K ≥ 0 over the
others. With M = m I + K, the logarithm of the factor is ln det(I + M^-½ H M^-½) up to a constant. It is at least 0.
Since M ≥ m I, it is at most ln det(I + H/m) = Σ ln(1 + h/m) over the eigenvalues h > 0 of H. The loss is convex, so
each sample adds a matrix with eigenvalues in [0, C c₁/B] and rank at most s (s = 1 for a loss of a·x). Thus H has at
most r = min(d, k s) positive eigenvalues, and their sum is at most k s C c₁/B. As ln is concave, the sum of logarithms
is largest if they are equal. So the logarithms of two adjacent data sets differ by at most r ln(1 + (k s C c₁/B)/(r
m)). For s = 1 this is attained: one data set has features 0, the other has k/r copies of r orthogonal features with the
largest curvature. If the loss is not known to be convex, c₁ counts as infinite.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import log1p, nan
from typing import Annotated, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from msgspec import Meta

from mpinodes.core import RELEASED, Algorithm, Inbox, Loss, Neighborhood, Solve, Start, Vector

__all__ = ["ADMM"]

S = TypeVar("S")

Positive = Annotated[float, Meta(gt=0, le=1e100)]
Growth = Annotated[float, Meta(ge=1, le=1e6)]
Positives: TypeAlias = Positive | tuple[Positive, ...]  # one for all agents, or one for each
Growths: TypeAlias = Growth | tuple[Growth, ...]
Rounds: TypeAlias = Any  # an iteration t, or an array of them


def of(value: float | Sequence[float], agent: int) -> float:
    """Return one agent's hyper-parameter, given one number for all agents or a sequence with a number for each."""
    return value if isinstance(value, (int, float)) else value[agent]


class State(NamedTuple):
    """Hold what an agent needs for its next round."""

    f: Vector  # (d,) f_i(t), as it was sent
    anchor: Vector  # (d,) the mean over neighbours j of ½(f_i(t) + f_j(t))
    dual: Vector  # (d,) λ_i(t)


@dataclass(frozen=True)
class Consensus(Algorithm[S]):
    """Define the local problem (8) and the dual update (9), which all ADMM variants share."""

    dual_step: Annotated[
        Positives,
        Meta(description="theta of iteration 1, or one for each agent; with unequal values ADMM misses the optimum"),
    ] = 0.5
    dual_growth: Annotated[Growth, Meta(description="q: theta(t) = theta q^(t - 1)")] = 1.0
    tolerance: Annotated[
        float, Meta(gt=0, le=1e-6, description="the gradient norm to which an agent solves its local problem")
    ] = 1e-10
    mixings = ("neighbors",)

    decomposable = True
    anytime = True
    takes_steps = False
    judged_by = "last"
    unconstrained = True
    whole_data = True
    solves = True
    random_start = True
    decides_release = True
    mechanism = "none"
    theorems = "mpinodes.bounds.m_admm"
    grid = 0.0  # releases are not rounded
    defaults = {
        "rounds": 101,
        "data": {"name": "unit-ball", "total": 3500, "batch": "all"},
        "problem": {"loss": "logistic", "average": True, "weight": 400.0, "regularizer": 0.15, "set": "none"},
        "topology": {"name": "ring"},
        "privacy": {"mechanism": "none", "clip": "inf"},
    }

    @property
    def solver_tolerance(self) -> float:
        """Return the hyper-parameter `tolerance`."""
        return self.tolerance

    def theta(self, agent: int, t: Rounds) -> Rounds:
        """Return the dual step θ_i(t)."""
        return of(self.dual_step, agent) * np.power(self.dual_growth, t - 1.0)

    def eta(self, agent: int, t: Rounds) -> Rounds:
        """Return the penalty η_i(t), which equals θ_i(t) here."""
        return self.theta(agent, t)

    def noise_scale(self, agent: int, t: Rounds) -> Rounds:
        """Return the noise scale 1/α_i(t), which is 0 here: no noise."""
        return 0.0 * t

    def problem(self, s: State, i: int, t: int) -> Solve:
        """Return the minimization of iteration t for agent i."""
        step = 1 / (2 * self.eta(i, t) * self.run.degrees[i])
        modulus = self.run.regularizer + 1 / step
        replaced = self.run.replaced[i]
        terms = replaced * self.run.sample_rank
        rank = min(self.run.dimension, terms)
        return Solve(
            center=s.anchor - 2 * step * s.dual,
            step=step,
            near=s.f,
            uses=t,
            l2=step * 2 * replaced * self.run.sample_weight[i] * self.run.sample_sensitivity,
            log_volume=rank * log1p(terms * self.run.sample_weight[i] * self.run.sample_curvature / (rank * modulus)),
            calibration=self.noise_scale(i, t),
            tolerance=self.tolerance,
            stretch=1 / modulus,
            leaks=RELEASED,
        )

    def after(self, s: State, here: Neighborhood, inbox: Inbox) -> State:
        """Return the state after the dual update (9), with the next anchor."""
        f, mean, neighbours = inbox.own, inbox.mix(), len(here.in_neighbors)
        dual = s.dual
        if here.t > 1:  # the random f_i(0) must not change the dual variable
            dual = dual + (self.theta(here.agent, here.t - 1) / 2) * neighbours * (f - mean)
        return State(f.copy(), 0.5 * (f + mean), dual)

    def validate(self) -> None:
        """Check the assumption of Theorem 3.1 on the penalties: η_i(t) ≥ θ_i(t), and neither decreases.

        Raises:
            ValueError: the penalties violate it, or an agent has no neighbours; the message names the agent.
        """
        if 0 in self.run.degrees:
            lonely = self.run.degrees.index(0)
            raise ValueError(f"agent {lonely} has no neighbours: ADMM is for two agents or more")
        for key, given in vars(self).items():
            if isinstance(given, (tuple, list)) and len(given) != self.run.agents:
                expected = f"one number, or one for each of the {self.run.agents} agents"
                raise ValueError(f"algorithm.{key} has {len(given)} values: expected {expected}")
        ends = np.array([1, max(self.run.rounds - 1, 1)])
        for i in range(self.run.agents):
            if not (self.eta(i, ends) < 1e100).all():
                raise ValueError(f"agent {i}: its penalty grows beyond 1e100: set algorithm.penalty_cap")
            # ln(eta/theta) is concave in t, with and without a cap on eta, so eta/theta is least at one of the ends.
            ratios = self.eta(i, ends) / self.theta(i, ends)
            if ratios.min() < 1:
                t = ends[int(ratios.argmin())]
                penalty, step = f"eta({t}) = {self.eta(i, t):g}", f"theta({t}) = {self.theta(i, t):g}"
                remedy = "raise algorithm.penalty (or penalty_cap), or lower algorithm.dual_step"
                low = f"its penalty {penalty} is below the dual step {step}, and ADMM may not converge"
                raise ValueError(f"agent {i}: {low}: {remedy}")


@dataclass(frozen=True)
class ADMM(Consensus[State]):
    """Send the minimizer without noise in every round."""

    paper = "Zhang, Khalili, Liu, Improving the Privacy and Accuracy of ADMM-Based Distributed Algorithms, (8)"

    def init(self, x: Vector) -> State:
        """Return the state with f_i(0) = x and λ_i(0) = 0."""
        return State(f=x, anchor=x, dual=np.zeros_like(x))

    def message(self, s: State, here: Neighborhood) -> Solve | Start:
        """Return f_i(0) in round 1, later the problem whose minimizer is f_i(t − 1)."""
        return Start() if here.t == 1 else self.problem(s, here.agent, here.t - 1)

    def update(self, s: State, here: Neighborhood, inbox: Inbox, loss: Loss) -> State:
        """Return the state after the dual update (9)."""
        return self.after(s, here, inbox)

    def decision(self, s: State) -> Vector:
        """Return f_i(t), the minimizer that was sent last."""
        return s.f


@dataclass(frozen=True)
class Perturbed(Consensus[S]):
    """Add noise with the rate α_i(t) = α_i(1) q₂^(t−1), times `privacy.epsilon`."""

    noise_rate: Annotated[
        Positives,
        Meta(description="alpha of iteration 1, or one for each agent, times privacy.epsilon; larger: less noise"),
    ] = 3.0
    noise_growth: Annotated[Growths, Meta(description="q2: alpha(t) = alpha q2^(t - 1); or one for each agent")] = 1.01

    mechanism = "gamma-norm"
    scale_key = "algorithm.noise_rate"
    defaults = {**ADMM.defaults, "privacy": {"mechanism": "gamma-norm", "clip": "inf"}}

    def noise_scale(self, agent: int, t: Rounds) -> Rounds:
        """Return the noise scale 1/α_i(t), for epsilon = 1."""
        return 1 / (of(self.noise_rate, agent) * np.power(of(self.noise_growth, agent), t - 1.0))

    @abstractmethod
    def claimed_losses(self, agent: int, t: Rounds) -> Rounds:
        """Return the ε that the paper claims for each of the iterations t, with the α that `privacy.epsilon` scales."""

    def claimed_epsilon(self, rounds: int, passes: int) -> list[float]:
        """Return the sum of the claimed losses for each agent; nan if features are longer than the paper assumes, 1."""
        if self.run.sample_sensitivity > 1:
            return [nan] * self.run.agents
        t = np.arange(1, rounds)
        return [float(np.sum(self.claimed_losses(i, t))) for i in range(self.run.agents)]
