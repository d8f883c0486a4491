"""Theorem 3.2 of the M-ADMM paper: how much each round contracts, and what is promised.

Zhang, Khalili, Liu: (1 + δ(t))‖Z(t) − Z*‖²_J(t) ≤ ‖Z(t−1) − Z*‖²_J(t). Drawn by round: the largest such δ(t) of a run,
and the bounds below it: (23) as printed, with its slip mended (checked), and all that its proof allows (`sharp`).
(a) logistic data on a 7-ring, η(t) = θ 1.02^(t−1); (b) quadratics of curvature 1e-3 on a 5-ring, η = 0.8. θ = 0.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from pathlib import Path

import networkx as nx
import numpy as np
from desk import COLOURS, NOT, REPRODUCED, Desk, Verdict, panels, save
from matplotlib.axes import Axes
from sharp import sharp_contraction

import mpinodes
from mpinodes.bounds.admm import contraction, distance
from mpinodes.losses.least_squares import LeastSquares
from mpinodes.losses.linear import SmoothLoss
from mpinodes.losses.logistic import Logistic

NEEDS: tuple[str, ...] = ()
SETTINGS: tuple[str, ...] = ()
PAPER, ITEM = "madmm", "Theorem 3.2"

THETA = 0.5
ROUNDING = 1e-18  # of the first distance
ROUNDING_OF_RATIOS = 1e-6


@dataclass(frozen=True)
class Problem:
    """O_i(f) = (C/B) Σ_k ℓ(a_k·f, b_k) + λ‖f‖²/2, and M-ADMM's penalties η(t) = penalty · growth^(t−1)."""

    name: str  # of ℓ
    loss: type[SmoothLoss]
    features: np.ndarray  # (n, B, d)
    targets: np.ndarray  # (n, B)
    weight: float  # C
    regularizer: float  # λ
    modulus: float
    smoothness: float
    penalty: float
    growth: float

    def penalties(self, rounds: int) -> np.ndarray:
        return np.asarray(self.penalty * self.growth ** np.arange(rounds))

    def total(self, agents: range) -> SmoothLoss:
        """Σ O_i of some agents."""
        x, y = (np.concatenate([part[i] for i in agents]) for part in (self.features, self.targets))
        of_one = self.features.shape[1]
        return self.loss(x, y, divisor=of_one / self.weight, regularizer=len(agents) * self.regularizer)


def logistic(agents: int) -> Problem:
    """C = 3, λ = 0.05, B = 20 samples in R³, ‖x‖ ≤ 1."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(agents, 20, 3)) + rng.normal(size=(agents, 1, 3))
    x /= np.maximum(1, np.linalg.norm(x, axis=2, keepdims=True))
    y = np.where(rng.random((agents, 20)) < 1 / (1 + np.exp(-4 * x[..., 0])), 1.0, -1.0)
    return Problem("logistic", Logistic, x, y, 3.0, 0.05, 0.05, 0.05 + 3 / 4, THETA, 1.02)


def quadratic(agents: int) -> Problem:
    """O_i(f) = 1e-3 ‖f − c_i‖²/2 in R², c_i ~ N(0, I): mean of squares of its coordinates, C = 1e-3."""
    centers = np.random.default_rng(0).normal(size=(agents, 2))
    each = np.tile(np.eye(2), (agents, 1, 1))
    return Problem("least-squares", LeastSquares, each, centers, 1e-3, 0.0, 1e-3, 1e-3, 0.8, 1.0)


def releases(desk: Desk, problem: Problem, rounds: int) -> np.ndarray:
    """(T + 1, n, d): f(0) to f(T), of a run that is made where its directory does not hold it yet."""
    place = desk.runs / f"admm-rate-{problem.name}-T{rounds}"

    def make() -> None:
        for i, (features, targets) in enumerate(zip(problem.features, problem.targets, strict=True)):
            save(place.with_name(f"{place.name}-{i}.npz"), features=features, targets=targets)
        mpinodes.run_lockstep(experiment(place, problem, rounds))

    desk.once(place, make)
    found: np.ndarray = mpinodes.load(place).decision.values
    return found


def experiment(place: Path, problem: Problem, rounds: int) -> dict[str, object]:
    return {
        "rounds": rounds + 1,
        "report": False,
        "record": {"decisions": True},
        "algorithm": {
            "name": "m-admm", "dual_step": THETA, "penalty": problem.penalty, "penalty_growth": problem.growth,
            "tolerance": 1e-14,
        },
        "data": {
            "name": "file", "file": f"{place}-{{agent}}.npz", "batch": "all",
            "targets": "labels" if problem.loss.needs_labels else "real",
        },
        "topology": {"name": "ring", "agents": len(problem.targets)},
        "problem": {
            "loss": problem.name, "weight": problem.weight, "regularizer": problem.regularizer, "set": "none",
        },
        "output": {"dir": str(place)},
    }  # fmt: skip


def measured(ring: np.ndarray, problem: Problem, f: np.ndarray) -> np.ndarray:
    """The largest δ(t) that holds, by round; NaN from where only rounding is left."""
    zero = np.zeros(f.shape[2])
    best = problem.total(range(len(ring))).prox(zero, inf, zero, tolerance=0.0).x
    gradients = np.array([problem.total(range(i, i + 1)).grad(best) for i in range(len(ring))])
    before, after = np.array(
        [
            [distance(ring, eta, THETA, f[: t + k], best, gradients) for k in (0, 1)]
            for t, eta in enumerate(problem.penalties(len(f) - 1), 1)
        ]
    ).T
    return np.where(after > ROUNDING * before[0], before / after - 1, np.nan)


def promised(ring: np.ndarray, problem: Problem, rounds: int) -> dict[str, np.ndarray]:
    """By form, (T,)."""
    constants = (THETA, problem.modulus, problem.smoothness)
    forms = {
        "as printed": lambda eta: contraction(ring, eta, *constants, printed=True),
        "sharp": lambda eta: sharp_contraction(ring, eta, *constants),
        "checked": lambda eta: contraction(ring, eta, *constants),
    }
    return {name: np.array([form(eta) for eta in problem.penalties(rounds)]) for name, form in forms.items()}


def draw(axes: Axes, found: np.ndarray, bounds: dict[str, np.ndarray]) -> None:
    t = np.arange(1, len(found) + 1)
    axes.plot(t, found, color=COLOURS[0], marker="o", ms=2.5, label="measured")
    for name, colour, dashes in zip(bounds, (COLOURS[3], COLOURS[2], COLOURS[4]), ("--", "-", "-."), strict=True):
        axes.plot(t, bounds[name], dashes, color=colour, label=name)
    axes.set(yscale="log", xlabel="t")


def verdicts(case: str, found: np.ndarray, bounds: dict[str, np.ndarray]) -> list[Verdict]:
    """In how many rounds each form promises more than there is."""
    told, at = [], int(np.nanargmin(found))
    for name, values in bounds.items():
        broken = int((values > found * (1 + ROUNDING_OF_RATIOS)).sum())  # NaN is never broken
        told.append(
            Verdict(
                PAPER, ITEM, f"(1 + δ)‖Z(t) − Z*‖² ≤ ‖Z(t−1) − Z*‖², δ {name}, on {case}",
                NOT if broken else REPRODUCED,
                f"broken in {broken} of {np.isfinite(found).sum()} rounds; least measured δ {found[at]:.3g}",
                f"there promised {values[at]:.3g}", f"× {values[at] / found[at]:.3g}",
                because="(23) takes σ_min of (W − θI)(D − A), which is 0 on consensus" if broken else "",
            )
        )  # fmt: skip
    return told


def redraw(desk: Desk) -> list[Verdict]:
    rounds = 40 if desk.quick else 150
    cases = {
        "(a) logistic, 7-ring, η = 0.5·1.02^(t−1)": logistic(7),
        "(b) quadratics, 5-ring, η = 0.8": quadratic(5),
    }
    figure, axes = panels(1, 2)
    told = []
    for panel, (name, problem) in zip(axes, cases.items(), strict=True):
        ring = nx.to_numpy_array(nx.cycle_graph(len(problem.targets)))
        found, bounds = measured(ring, problem, releases(desk, problem, rounds)), promised(ring, problem, rounds)
        draw(panel, found, bounds)
        panel.set_title(name)
        told += verdicts(name, found, bounds)
    axes[0].set_ylabel("δ(t)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    desk.save(figure, "admm-rate.png", "M-ADMM, Theorem 3.2: how much a round contracts", told)
    return told
