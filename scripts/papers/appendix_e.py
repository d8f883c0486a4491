"""Appendix E: the one sample of an ADMM agent that an attacker does not know, inferred from what was released.

Zhang, Khalili, Liu (penalty perturbation). The optimality condition of round t reads

    r(t) = −∇O⁻(f(t)) − 2λ(t−1) − η(t) Σ_j (2f(t) − f(t−1) − f_j(t−1)) = (C/B) y ℓ'(y f(t)·x) x + 2η(t)V ε(t),

with O⁻ the objective less the unknown sample (x, y) and the noise ε of density ∝ exp(−α(t)‖ε‖): the left side is
known to the attacker, and its mean over the rounds points to −y x, for ℓ' < 0.

The paper holds this to be impossible where the penalties η(t) are private. They are not: the releases tell them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mpinodes.algorithms.dvp_admm import DVPADMM
from mpinodes.auditing.transcripts import Recorded
from mpinodes.core import Setup, Vector
from mpinodes.core.errors import BadInput
from mpinodes.core.messages import HEADER
from mpinodes.losses.logistic import Logistic


@dataclass(frozen=True)
class Known:
    """What the attacker knows of an agent with V neighbours, B samples of logistic loss, and T rounds behind it.

    Attributes:
        own: (T + 1, d) the agent's releases f(0), …, f(T).
        neighbors: (V, T + 1, d) those of its neighbours.
        features: (B − 1, d) of the samples known.
        labels: (B − 1,) ±1.
        weight: C.
        regularizer: λ = ρ/N, the curvature of (λ/2)‖f‖².
        dual_step: θ, or (T,) θ(t).
        noise_rate: (T,) α(t).
    """

    own: Vector
    neighbors: Vector
    features: Vector
    labels: Vector
    weight: float
    regularizer: float
    dual_step: float | Vector
    noise_rate: Vector

    def until(self, rounds: int) -> Known:
        """The same after fewer rounds."""
        steps = np.broadcast_to(self.dual_step, len(self.noise_rate))[:rounds]
        return replace(
            self,
            own=self.own[: rounds + 1],
            neighbors=self.neighbors[:, : rounds + 1],
            dual_step=steps,
            noise_rate=self.noise_rate[:rounds],
        )


def known(recorded: Recorded, agent: int, sample: int) -> Known:
    """What an attacker knows who has heard a run of dvp-admm or pp-admm, and lacks one sample (from 0) of an agent.

    It has heard what `audit.view` says.

    Raises:
        BadInput: it was another algorithm, loss, or without noise, or agents stopped to tell of their data; or there is
            no such agent or sample; or the attacker did not hear the agent and all its neighbors.
    """
    setup = recorded.setup
    algorithm, experiment = setup.algorithm, setup.experiment
    if not (isinstance(algorithm, DVPADMM) and experiment.problem.loss == "logistic" and experiment.private):
        raise BadInput(
            f"{experiment.name} on {experiment.problem.loss} losses, epsilon = {experiment.privacy.epsilon}: the "
            "attack is on noisy penalties, those of dvp-admm and pp-admm on logistic losses"
        )
    if not 0 <= agent < setup.topology.agents:
        raise BadInput(f"there is no agent {agent}: the run has {setup.topology.agents}, from 0")
    if experiment.privacy.budget and any(experiment.privacy.budget.stops):
        raise BadInput("agents of this run stopped to tell of their data, to keep a budget: there is nothing to infer")
    _require_heard(setup, agent)
    loss: Any = setup.losses(agent)(1)
    if not 0 <= sample < len(loss.targets):
        raise BadInput(f"agent {agent} has no sample {sample}: it has {len(loss.targets)}, from 0")
    features = loss.features if isinstance(loss.features, np.ndarray) else loss.features.toarray()
    said = recorded.frames[:, :, HEADER : HEADER + setup.dimension].swapaxes(0, 1)
    return Known(
        own=said[agent],
        neighbors=said[list(setup.topology.neighborhood(1, agent).in_neighbors)],
        features=np.delete(features, sample, axis=0),
        labels=np.delete(loss.targets, sample),
        weight=setup.run.sample_weight[agent] * len(loss.targets),
        regularizer=setup.run.regularizer,
        dual_step=algorithm.theta(agent, np.arange(1, len(recorded.frames))),
        noise_rate=1 / recorded.events.scale[1:, agent, 0],
    )


def _require_heard(setup: Setup, agent: int) -> None:
    """Refuse an attacker who lacks a message that the attack is made of."""
    audit = setup.experiment.audit
    heard = {j for viewer in audit.viewers for j in setup.topology.neighborhood(1, viewer).senders}
    needed = set(setup.topology.neighborhood(1, agent).senders)
    if audit.viewers and (missing := sorted(needed - heard)):
        raise BadInput(
            f"audit.view = {audit.view!r}: the attack on agent {agent} needs what it and its neighbors say, and agent "
            f"{missing[0]} is not heard there; audit.view=links hears all"
        )


def infer(known: Known, penalty: float | Vector) -> Vector:
    """What points along y x of the unknown sample, as far as is known after each round.

    Args:
        known: what the attacker knows.
        penalty: η, or (T,) η(t): what it is, or what the attacker takes it to be.

    Returns:
        (T, d) minus the mean of r(1), …, r(t), with weights (α/η)²: one over their variance.
    """
    fixed, pull = _sides(known)
    eta = np.broadcast_to(penalty, len(fixed))[:, None]
    weights = (known.noise_rate[:, None] / eta) ** 2
    return np.asarray(np.cumsum(weights * (eta * pull - fixed), axis=0) / np.cumsum(weights, axis=0))


def fit_growth(known: Known, first: float) -> float:
    """The most likely q >= 1 after T rounds, where η(t) = first · q^(t−1) is all that is known of the penalties.

    ε(t) as a function of f(t) has the Jacobian I + ∇²O/(2η(t)V), so −Σ α‖ε‖ + Σ ln det(I + ∇²O/(2ηV)) is to be largest.
    The unknown sample's share of r is taken for constant, the mean that `infer` finds, and ∇²O for the other samples',
    which is off by 1/B of it.

    Raises:
        ValueError: fewer than 10 rounds, which determine nothing.
    """
    if len(known.own) <= 10:
        raise ValueError(f"{len(known.own) - 1} rounds do not determine a growth: at least 10 are needed")
    from scipy.optimize import minimize_scalar

    fixed, pull = _sides(known)
    spectra = _spectra(known)
    doubled = 2 * len(known.neighbors)
    passed = np.arange(len(fixed)) / len(fixed)

    def cost(growth: float) -> float:
        """Minus the log likelihood where the penalty grows by e^growth in all."""
        eta = first * np.exp(growth * passed)
        rest = fixed - eta[:, None] * pull
        rest -= np.average(rest, axis=0, weights=(known.noise_rate / eta) ** 2)
        norms = np.linalg.norm(rest, axis=1) / (doubled * eta)
        return float(known.noise_rate @ norms - np.log1p(spectra / (doubled * eta[:, None])).sum())

    growth = float(minimize_scalar(cost, bracket=(0.0, 1.0)).x)
    return float(np.exp(max(growth, 0.0) / len(fixed)))


def cosine(estimates: Vector, sample: Vector) -> Vector:
    """Cosines of (..., d) estimates with y x of the sample, (d,)."""
    return np.asarray(estimates @ sample / (np.linalg.norm(estimates, axis=-1) * np.linalg.norm(sample)))


def _sides(known: Known) -> tuple[Vector, Vector]:
    """r(t) = fixed(t) − η(t) pull(t), each (T, d)."""
    now, before = known.own[1:], known.own[:-1]
    others = known.neighbors
    apart = (known.own - others)[:, 1:-1].sum(axis=0)
    steps = np.broadcast_to(known.dual_step, len(now))
    twice_dual = np.cumsum(steps[:-1, None] * apart, axis=0)
    fixed = -np.array([_gradient(known, f) for f in now])
    fixed[1:] -= twice_dual
    pull = (2 * now - before - others[:, :-1]).sum(axis=0)
    return fixed, pull


def _gradient(known: Known, f: Vector) -> Vector:
    """∇O⁻(f)."""
    slopes = Logistic.slope(known.features @ f, known.labels)
    return np.asarray(known.weight / (len(slopes) + 1) * (slopes @ known.features) + known.regularizer * f)


def _spectra(known: Known) -> Vector:
    """(T, d) the eigenvalues of ∇²O⁻ at each release."""
    scale = known.weight / (len(known.labels) + 1)
    found = []
    for f in known.own[1:]:
        slopes = np.abs(Logistic.slope(known.features @ f, known.labels))
        hessian = scale * (known.features.T * (slopes * (1 - slopes))) @ known.features
        found.append(np.linalg.eigvalsh(hessian) + known.regularizer)
    return np.array(found)
