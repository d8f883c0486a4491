"""ADMM for consensus learning.

X. Zhang, M. M. Khalili, M. Liu, "Improving the Privacy and Accuracy of ADMM-Based Distributed Algorithms", (8) and (9)
(Forero, Cano, Giannakis 2010). In each iteration t, every agent i minimizes its own objective plus a penalty on the
distance to its neighbors j, and then updates its dual variable:

    (8) f_i(t) = argmin_f O_i(f) + 2 λ_i·f + η Σ_j ‖½(f_i(t−1) + f_j(t−1)) − f‖²
    (9) λ_i   <- λ_i + (θ/2) Σ_j (f_i(t) − f_j(t))

    O_i(f) = (C/B_i) Σ_n L(y_n f·x_n) + (ρ/N)·½‖f‖²                                 the agent's objective

The symbols are:

- f_i(t) is the iterate of agent i, a vector of length d. f_i(0) is random.
- λ_i is the dual variable of agent i. All λ_i start at 0.
- L is the loss function. Agent i has B_i samples, with features x_n and labels y_n.
- N is the number of agents. Agent i has V_i neighbors.
- C is `problem.weight` if `problem.average` is true, and ρ/N is `problem.regularizer`.
- θ is the dual step, and η is the penalty, which equals θ.

In round 1 the agents send f_i(0), which does not depend on data. In round t + 1 they send f_i(t).
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
Positives: TypeAlias = Positive | tuple[Positive, ...]  # one number for all agents, or a number for each agent
Growths: TypeAlias = Growth | tuple[Growth, ...]
Rounds: TypeAlias = Any  # an iteration t, or an array of them


def of(value: float | Sequence[float], agent: int) -> float:
    """Return an agent's hyper-parameter: `value` itself if `value` is a number, otherwise entry `agent` of `value`."""
    return value if isinstance(value, (int, float)) else value[agent]


class State(NamedTuple):
    """Hold the state of one agent between two rounds."""

    f: Vector  # (d,) f_i(t), as it was sent
    anchor: Vector  # (d,) the mean over neighbours j of ½(f_i(t) + f_j(t)); before round 1, f_i(0)
    dual: Vector  # (d,) λ_i(t)


# The privacy of the perturbed variants, without the index i. c₁ is sup L'' times the largest ‖x_n‖². With the step
# 1/(2ηV_i) and the center c = mean_j ½(f_i + f_j) − λ_i/(ηV_i), the iterate f_i(t) of equation (8) minimizes O_i(f) +
# ‖f − c‖²/(2·step). The perturbed variants add noise e with density ∝ exp(−α(t)‖e‖₂) to the center. Given all earlier
# messages and the data, an output f is the minimizer for exactly one noise vector e. Two adjacent data sets give two
# such vectors e for the same f. Their L2 distance is at most step·2C/B. The density of f contains the determinant
# |∂e/∂f| = det(I + step·∇²O). The determinants for two adjacent data sets have a ratio of at most 1 + (C c₁/B)/(ρ/N +
# 1/step).
#
# If k samples are replaced, the bound on the distance of the two e is k times as large. For the determinant, let m =
# ρ/N + 1/step and write I + step·∇²O = step·(m I + H + K). Here H = (C/B) Σ L''_n x_n x_nᵀ is the sum over the replaced
# samples. The matrix K is the sum over all other samples and is positive semidefinite. With M = m I + K, the logarithm
# of the determinant is ln det(I + M^-½ H M^-½) plus a number that the replacement does not change. The term ln det(I +
# M^-½ H M^-½) is at least 0. Since M ⪰ m I, the term is at most ln det(I + H/m) = Σ ln(1 + h/m) over the eigenvalues h
# > 0 of H. The loss function is convex, so each sample adds to H a matrix with eigenvalues in [0, C c₁/B] and rank at
# most s (s = 1 for a loss function that depends only on f·x_n). Thus H has at most r = min(d, k s) positive
# eigenvalues, and the sum of these eigenvalues is at most k s C c₁/B. As ln is concave, Σ ln(1 + h/m) is largest if the
# eigenvalues h are equal. So the logarithms of the determinants for two adjacent data sets differ by at most r ln(1 +
# (k s C c₁/B)/(r m)). For s = 1 this bound is attained: in one data set the k replaced samples have features 0. In the
# other data set they are k/r copies of r orthogonal feature vectors, with the largest curvature. If the loss function
# is not known to be convex, c₁ counts as infinite.
@dataclass(frozen=True)
class Consensus(Algorithm[S]):
    """Define what all ADMM variants share: the local problem of an agent, and the update of the dual variable.

    The local problem is equation (8) and the dual update equation (9) in the docstring of the module.

    Attributes:
        dual_step: theta of iteration 1, or one for each agent; with unequal values ADMM misses the optimum
        dual_growth: q: theta(t) = theta q^(t - 1)
        tolerance: the gradient norm at which the solver of local problems stops
    """

    dual_step: Positives = 0.5
    dual_growth: Growth = 1.0
    tolerance: Annotated[float, Meta(gt=0, le=1e-6)] = 1e-10
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
        """Return `tolerance`, the gradient norm at which the solver of local problems stops."""
        return self.tolerance

    def theta(self, agent: int, t: Rounds) -> Rounds:
        """Return the dual step θ_i(t) of an agent in iteration t."""
        with np.errstate(over="ignore"):  # an infinite step is rejected before the first round
            return of(self.dual_step, agent) * np.power(self.dual_growth, t - 1.0)

    def eta(self, agent: int, t: Rounds) -> Rounds:
        """Return the penalty η_i(t) of an agent in iteration t. In this class η_i(t) equals the dual step θ_i(t)."""
        return self.theta(agent, t)

    def noise_scale(self, agent: int, t: Rounds) -> Rounds:
        """Return the noise scale 1/α_i(t) of an agent in iteration t. In this class the scale is 0: no noise."""
        return 0.0 * t

    def problem(self, s: State, i: int, t: int) -> Solve:
        """Return the local problem of agent i in iteration t: equation (8) in the docstring of the module.

        All variants except PVP return this problem as a message. mpinodes then solves the problem, and sends the
        minimizer. The comment above this class derives the fields `l2` and `log_volume`, which bound the privacy loss.
        """
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
        """Return the next state of an agent, after the agents exchanged their iterates.

        The state has the sent iterate f_i, the mean of ½(f_i + f_j) over the neighbors j, and the dual variable λ_i. In
        round 1, λ_i stays 0. In later rounds, equation (9) in the docstring of the module gives the new λ_i.
        """
        f, mean, neighbours = inbox.own, inbox.mix(), len(here.in_neighbors)
        dual = s.dual
        if here.t > 1:  # because the random f_i(0) must not change the dual variable
            dual = dual + (self.theta(here.agent, here.t - 1) / 2) * neighbours * (f - mean)
        return State(f.copy(), 0.5 * (f + mean), dual)

    def validate(self) -> None:
        """Check that every agent has a neighbor, and that the settings are valid.

        - A setting that is a list must have one value for each agent.
        - The penalty η_i(t) must be at least the dual step θ_i(t) in every iteration t (Theorem 3.1 of the paper).
        - The penalty η_i(t) must be below 1e100 in every iteration t.

        Raises:
            ValueError: one of these conditions does not hold; the message names the agent or the setting.
        """
        if 0 in self.run.degrees:
            lonely = self.run.degrees.index(0)
            raise ValueError(f"agent {lonely} has no neighbours: ADMM needs two agents or more, each with a neighbour")
        for key, given in vars(self).items():
            if isinstance(given, (tuple, list)) and len(given) != self.run.agents:
                expected = f"one number, or one for each of the {self.run.agents} agents"
                raise ValueError(f"algorithm.{key} has {len(given)} values: expected {expected}")
        ends = np.array([1, max(self.run.rounds - 1, 1)])
        for i in range(self.run.agents):
            if not (self.eta(i, ends) < 1e100).all():
                remedy = "lower algorithm.dual_growth or, with m-admm and pp-admm, set algorithm.penalty_cap"
                raise ValueError(f"agent {i}: its penalty grows beyond 1e100: {remedy}")
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
    """Run ADMM without noise: send the start f_i(0) in round 1, and then the minimizer of the local problem."""

    paper = "Zhang, Khalili, Liu, Improving the Privacy and Accuracy of ADMM-Based Distributed Algorithms, (8)"

    def init(self, x: Vector) -> State:
        """Return the state before round 1: the iterate f_i(0) is x, and the dual variable λ_i is 0."""
        return State(f=x, anchor=x, dual=np.zeros_like(x))

    def message(self, s: State, here: Neighborhood) -> Solve | Start:
        """Return the message of round t: the start f_i(0) if t = 1, otherwise the local problem of iteration t − 1.

        mpinodes then solves the local problem, and sends f_i(t − 1), the minimizer of this problem.
        """
        return Start() if here.t == 1 else self.problem(s, here.agent, here.t - 1)

    def update(self, s: State, here: Neighborhood, inbox: Inbox, loss: Loss) -> State:
        """Return the state of the next round, with the new dual variable; see `after`."""
        return self.after(s, here, inbox)

    def decision(self, s: State) -> Vector:
        """Return the iterate that the agent sent last."""
        return s.f


@dataclass(frozen=True)
class Perturbed(Consensus[S]):
    """Define what the private ADMM variants share: noise e whose density is proportional to exp(−a‖e‖₂).

    The rate a of the noise of agent i in iteration t is

        a = privacy.epsilon · α_i(1) · q₂^(t−1)

    where α_i(1) is the setting `noise_rate`, and q₂ is the setting `noise_growth`.

    Attributes:
        noise_rate: alpha of iteration 1, or one for each agent, times privacy.epsilon; larger: less noise
        noise_growth: q2: alpha(t) = alpha q2^(t - 1); or one for each agent
    """

    noise_rate: Positives = 3.0
    noise_growth: Growths = 1.01

    mechanism = "gamma-norm"
    scale_key = "algorithm.noise_rate"
    defaults = {**ADMM.defaults, "privacy": {"mechanism": "gamma-norm", "clip": "inf"}}

    def noise_scale(self, agent: int, t: Rounds) -> Rounds:
        """Return the noise scale of an agent in iteration t if `privacy.epsilon` is 1: 1/(α_i(1) q₂^(t−1)).

        α_i(1) is the setting `noise_rate`, and q₂ is the setting `noise_growth`.
        """
        return 1 / (of(self.noise_rate, agent) * np.power(of(self.noise_growth, agent), t - 1.0))

    @abstractmethod
    def claimed_losses(self, agent: int, t: Rounds) -> Rounds:
        """Return the ε that the paper claims for an agent in each of the iterations t.

        The smaller the setting `privacy.epsilon`, the smaller is this ε.
        """

    def claimed_epsilon(self, rounds: int, passes: int) -> list[float]:
        """Return the ε that the paper claims for each agent: the sum of the ε of the iterations 1 to `rounds` − 1.

        The paper assumes |L'| ≤ 1 and ‖x_n‖ ≤ 1. If `Run.sample_sensitivity` is above 1, every ε is nan.
        """
        if self.run.sample_sensitivity > 1:
            return [nan] * self.run.agents
        t = np.arange(1, rounds)
        return [float(np.sum(self.claimed_losses(i, t))) for i in range(self.run.agents)]
