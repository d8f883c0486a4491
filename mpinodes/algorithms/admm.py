"""ADMM for consensus learning.

X. Zhang, M. M. Khalili, M. Liu, "Improving the Privacy and Accuracy of ADMM-Based Distributed Algorithms", (8) and (9)
(Forero, Cano, Giannakis 2010). With O_i(f) = (C/B_i) Σ_n L(y_n f·x_n) + (ρ/N)·½‖f‖² over agent i's B_i samples, V_i
neighbours j, all λ_i = 0 and random f_i(0), iteration t is

    f_i(t) = argmin_f O_i(f) + 2 λ_i·f + η Σ_j ‖½(f_i(t−1) + f_j(t−1)) − f‖²
    λ_i   <- λ_i + (θ/2) Σ_j (f_i(t) − f_j(t))

with η = θ. Round 1 sends f_i(0), which no data has reached, and round t + 1 sends f_i(t). With the step 1/(2ηV_i) and
the center c = mean_j ½(f_i + f_j) − λ_i/(ηV_i), the argmin is that of O_i(f) + ‖f − c‖²/(2·step). Here C is
`problem.weight` and ρ/N `problem.regularizer`.

The perturbed variants draw a noise e with density ∝ exp(−α(t)‖e‖₂) into the center; what that costs is said here, since
it follows from the problem alone: given all that was sent, an output f is the minimizer for one e only, which adjacent
data move by at most step·2C/B, and the density of f has the factor |∂e/∂f|, det(I + step·∇²O), which they change by at
most 1 + (C c₁/B)/(ρ/N + 1/step).

Where k samples are replaced, the first is k times as much. As to the second, let m = ρ/N + 1/step, so that
I + step·∇²O = step·(m I + H + K), H = (C/B) Σ L''_n x_n x_nᵀ being of the samples replaced, K ≥ 0 of those that stay.
With M = m I + K the factor's logarithm is, up to a constant, ln det(I + M^-½ H M^-½), which is no less than 0 and, as
M ≥ m I, at most ln det(I + H/m) = Σ ln(1 + h/m) over the eigenvalues h > 0 of H. Each sample adds a matrix of rank at
most s, with eigenvalues in [0, C c₁/B], for the loss is convex; s = 1 for a loss of a·x. So there are at most
r = min(d, k s) eigenvalues, which add up to the trace, at most k s C c₁/B; ln being concave, the sum is largest where
they are equal. Two data sets differ by at most r ln(1 + (k s C c₁/B)/(r m)): for s = 1 reached where one has features 0
and the other k/r copies of r orthogonal ones, all at the largest curvature. Of a loss that is not known to be convex
c₁ counts as infinite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log1p
from typing import Annotated, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from msgspec import Meta

from mpinodes.core import RELEASED, Algorithm, Bound, Horizons, Inbox, Loss, Neighborhood, Setup, Solve, Start, Vector

__all__ = ["ADMM"]

S = TypeVar("S")

Positive = Annotated[float, Meta(gt=0, le=1e100)]
Growth = Annotated[float, Meta(ge=1, le=1e6)]
Rounds: TypeAlias = Any  # an iteration t, or an array of them


def of(value: float | Sequence[float], agent: int) -> float:
    """What is given for all agents at once, or for each."""
    return value if isinstance(value, (int, float)) else value[agent]


class State(NamedTuple):
    """What the next round needs."""

    f: Vector  # (d,) f_i(t), as sent
    anchor: Vector  # (d,) mean over neighbours j of ½(f_i(t) + f_j(t))
    dual: Vector  # (d,) λ_i(t)


@dataclass(frozen=True)
class Consensus(Algorithm[S]):
    """The problem of (8), and (9)."""

    dual_step: Annotated[
        Positive | tuple[Positive, ...],
        Meta(description="theta of iteration 1; or one for each agent, though unequal ones lead away from the best"),
    ] = 0.5
    dual_growth: Annotated[Growth, Meta(description="q: theta(t) = theta q^(t - 1)")] = 1.0
    tolerance: Annotated[
        float, Meta(gt=0, le=1e-6, description="gradient norm to which an agent solves its local problem")
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
    defaults = {
        "rounds": 101,
        "data": {"name": "unit-ball", "total": 3500, "batch": "all"},
        "problem": {"loss": "logistic", "average": True, "weight": 400.0, "regularizer": 0.15, "set": "none"},
        "topology": {"name": "ring"},
        "privacy": {"mechanism": "none", "clip": "inf"},
    }

    @property
    def rounds_releases(self) -> bool:
        """Whether what is sent is rounded to a grid."""
        return False

    def bounds(self, setup: Setup, horizons: Horizons, minimizer: Vector) -> list[Bound]:
        """Theorem 3.2."""
        from mpinodes.bounds.m_admm import bounds

        return bounds(setup, horizons, minimizer)

    @property
    def solver_tolerance(self) -> float:
        """See `Algorithm`."""
        return self.tolerance

    def theta(self, agent: int, t: Rounds) -> Rounds:
        """θ_i(t)."""
        return of(self.dual_step, agent) * np.power(self.dual_growth, t - 1.0)

    def eta(self, agent: int, t: Rounds) -> Rounds:
        """η_i(t) = θ_i(t)."""
        return self.theta(agent, t)

    def noise_scale(self, agent: int, t: Rounds) -> Rounds:
        """1/α_i(t): no noise."""
        return 0.0 * t

    def problem(self, s: State, i: int, t: int) -> Solve:
        """The minimization of iteration t."""
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
        """(9), and the next anchor."""
        f, mean, neighbours = inbox.own, inbox.mix(), len(here.in_neighbors)
        dual = s.dual
        if here.t > 1:  # f_i(0) moves no dual
            dual = dual + (self.theta(here.agent, here.t - 1) / 2) * neighbours * (f - mean)
        return State(f.copy(), 0.5 * (f + mean), dual)

    def validate(self) -> None:
        """Whether the penalties are what Theorem 3.1 asks for: η_i(t) ≥ θ_i(t), neither falling.

        Raises:
            ValueError: they are not, or there is nobody to agree with; names the agent.
        """
        if 0 in self.run.degrees:
            lonely = self.run.degrees.index(0)
            raise ValueError(f"agent {lonely} has no neighbours: ADMM is for two agents or more")
        for key, given in vars(self).items():
            if isinstance(given, (tuple, list)) and len(given) != self.run.agents:
                raise ValueError(
                    f"algorithm.{key} has {len(given)} values: expected one number, or one for each of the "
                    f"{self.run.agents} agents"
                )
        ends = np.array([1, max(self.run.rounds - 1, 1)])
        for i in range(self.run.agents):
            if not (self.eta(i, ends) < 1e100).all():
                raise ValueError(f"agent {i}: its penalty grows beyond 1e100: set algorithm.penalty_cap")
            # Growing powers with or without a cap: where the least ratio is at no end, there is none below 1.
            low = self.eta(i, ends) / self.theta(i, ends)
            if low.min() < 1:
                t = ends[int(low.argmin())]
                raise ValueError(
                    f"agent {i}: its penalty eta({t}) = {self.eta(i, t):g} is below the dual step theta({t}) = "
                    f"{self.theta(i, t):g}, and ADMM may not converge: raise algorithm.penalty (or penalty_cap), or "
                    "lower algorithm.dual_step"
                )


@dataclass(frozen=True)
class ADMM(Consensus[State]):
    """Every agent sends the minimizer."""

    paper = "Zhang, Khalili, Liu, Improving the Privacy and Accuracy of ADMM-Based Distributed Algorithms, (8)"

    def init(self, x: Vector) -> State:
        """f_i(0) = x and λ_i(0) = 0."""
        return State(f=x, anchor=x, dual=np.zeros_like(x))

    def message(self, s: State, here: Neighborhood) -> Solve | Start:
        """f_i(0), or the problem that f_i(t − 1) minimizes."""
        return Start() if here.t == 1 else self.problem(s, here.agent, here.t - 1)

    def update(self, s: State, here: Neighborhood, inbox: Inbox, loss: Loss) -> State:
        """(9)."""
        return self.after(s, here, inbox)

    def decision(self, s: State) -> Vector:
        """f_i(t)."""
        return s.f


@dataclass(frozen=True)
class Perturbed(Consensus[S]):
    """With noise of rate α_i(t) = α_i(1) q₂^(t−1), times `privacy.epsilon`."""

    noise_rate: Annotated[
        Positive | tuple[Positive, ...],
        Meta(description="alpha of iteration 1, or one for each agent; large: little noise"),
    ] = 3.0
    noise_growth: Annotated[
        Growth | tuple[Growth, ...], Meta(description="q2: alpha(t) = alpha q2^(t - 1); or one for each agent")
    ] = 1.01

    mechanism = "gamma-norm"
    defaults = {**ADMM.defaults, "privacy": {"mechanism": "gamma-norm", "clip": "inf"}}

    def noise_scale(self, agent: int, t: Rounds) -> Rounds:
        """1/α_i(t)."""
        return 1 / (of(self.noise_rate, agent) * np.power(of(self.noise_growth, agent), t - 1.0))
