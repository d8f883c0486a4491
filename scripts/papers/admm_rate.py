"""Theorem 3.2 of the M-ADMM paper: how much each round contracts, and what is promised.

Zhang, Khalili, Liu: (1 + δ(t))‖Z(t) − Z*‖²_J(t) ≤ ‖Z(t−1) − Z*‖²_J(t). Drawn by round: the largest such δ(t) of a run,
and the bounds below it: (23) as printed, with its slip mended (checked), and all that its proof allows (sharp; see
mpinodes.bounds.admm). (a) logistic data on a 7-ring, η(t) = θ 1.02^(t−1); (b) quadratics of curvature 1e-3 on a
5-ring, η = 0.8. θ = 0.5.

python scripts/papers/admm_rate.py OUT
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import networkx as nx
import numpy as np
from matplotlib.axes import Axes
from shared import COLOURS, arguments, holds, panels, save

from mpinodes.bounds.admm import contraction, distance, sharp_contraction

THETA = 0.5
WEIGHT = 3.0  # C
REGULARIZER = 0.05
CURVATURE = 1e-3
ROUNDING = 1e-18  # of the first distance
ROUNDING_OF_RATIOS = 1e-6


@dataclass(frozen=True)
class Problem:
    """Σ O_i over n agents: gradients and Hessians of O_i(f_i) for f (n, d), and the curvatures that bound those."""

    gradient: Callable[[np.ndarray], np.ndarray]
    hessian: Callable[[np.ndarray], np.ndarray]
    shape: tuple[int, int]
    modulus: float
    smoothness: float


def logistic(agents: int) -> Problem:
    """O_i(f) = (C/B) Σ log(1 + exp(−y f·x)) + λ‖f‖²/2 with B = 20 samples in R³, ‖x‖ ≤ 1."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(agents, 20, 3)) + rng.normal(size=(agents, 1, 3))
    x /= np.maximum(1, np.linalg.norm(x, axis=2, keepdims=True))
    y = np.where(rng.random((agents, 20)) < 1 / (1 + np.exp(-4 * x[..., 0])), 1.0, -1.0)

    def wrong(f: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(y * np.einsum("nbd,nd->nb", x, f)))

    def gradient(f: np.ndarray) -> np.ndarray:
        return REGULARIZER * f - WEIGHT / 20 * np.einsum("nb,nbd->nd", y * wrong(f), x)

    def hessian(f: np.ndarray) -> np.ndarray:
        p = wrong(f)
        return REGULARIZER * np.eye(3) + WEIGHT / 20 * np.einsum("nb,nbd,nbe->nde", p * (1 - p), x, x)

    return Problem(gradient, hessian, (agents, 3), REGULARIZER, REGULARIZER + WEIGHT / 4)


def quadratic(agents: int) -> Problem:
    """O_i(f) = CURVATURE ‖f − c_i‖²/2 in R²."""
    centers = np.random.default_rng(0).normal(size=(agents, 2))
    flat = np.broadcast_to(CURVATURE * np.eye(2), (agents, 2, 2))
    return Problem(lambda f: CURVATURE * (f - centers), lambda f: flat, (agents, 2), CURVATURE, CURVATURE)


def newton(change: Callable[[np.ndarray], np.ndarray], start: np.ndarray) -> np.ndarray:
    """Where a Newton step no longer changes f."""
    f = start
    for _ in range(50):
        move = change(f)
        f = f - move
        if np.abs(move).max() <= 1e-14 * (1 + np.abs(f).max()):
            return f
    raise ArithmeticError("Newton's method did not converge")


def minimizer(problem: Problem) -> np.ndarray:
    """(d,) f*."""

    def change(f: np.ndarray) -> np.ndarray:
        everywhere = np.broadcast_to(f, problem.shape)
        return np.linalg.solve(problem.hessian(everywhere).sum(axis=0), problem.gradient(everywhere).sum(axis=0))

    return newton(change, np.zeros(problem.shape[1]))


def releases(ring: np.ndarray, problem: Problem, penalties: np.ndarray) -> np.ndarray:
    """(T + 1, n, d): f(0) ~ N(0, I), and f(1) to f(T) of M-ADMM, (10) and (11)."""
    f = np.random.default_rng(1).normal(size=problem.shape)
    degrees, released = ring.sum(axis=1)[:, None], [f]
    dual = np.zeros_like(f)
    for eta in penalties:
        pull, weights = 2 * dual - eta * (degrees * f + ring @ f), 2 * eta * degrees

        def change(f: np.ndarray, pull: np.ndarray = pull, weights: np.ndarray = weights) -> np.ndarray:
            slope = problem.gradient(f) + pull + weights * f
            return np.linalg.solve(problem.hessian(f) + weights[..., None] * np.eye(f.shape[1]), slope[..., None])[
                ..., 0
            ]

        f = newton(change, f)
        dual = dual + THETA / 2 * (degrees * f - ring @ f)
        released.append(f)
    return np.array(released)


def measured(ring: np.ndarray, problem: Problem, penalties: np.ndarray) -> np.ndarray:
    """The largest δ(t) that holds, by round; NaN from where only rounding is left."""
    f, best = releases(ring, problem, penalties), minimizer(problem)
    gradients = problem.gradient(np.broadcast_to(best, problem.shape))
    before, after = np.array(
        [
            [distance(ring, eta, THETA, f[: t + k], best, gradients) for k in (0, 1)]
            for t, eta in enumerate(penalties, 1)
        ]
    ).T
    return np.where(after > ROUNDING * before[0], before / after - 1, np.nan)


def promised(ring: np.ndarray, problem: Problem, penalties: np.ndarray) -> dict[str, np.ndarray]:
    """By form, (T,)."""
    constants = (THETA, problem.modulus, problem.smoothness)
    forms = {
        "as printed": lambda eta: contraction(ring, eta, *constants, printed=True),
        "sharp": lambda eta: sharp_contraction(ring, eta, *constants),
        "checked": lambda eta: contraction(ring, eta, *constants),
    }
    return {name: np.array([form(eta) for eta in penalties]) for name, form in forms.items()}


def draw(axes: Axes, found: np.ndarray, bounds: dict[str, np.ndarray]) -> None:
    t = np.arange(1, len(found) + 1)
    axes.plot(t, found, color=COLOURS[0], marker="o", ms=2.5, label="measured")
    for name, colour, dashes in zip(bounds, (COLOURS[3], COLOURS[2], COLOURS[4]), ("--", "-", "-."), strict=True):
        axes.plot(t, bounds[name], dashes, color=colour, label=name)
    axes.set(yscale="log", xlabel="t")


def verdict(found: np.ndarray, bounds: dict[str, np.ndarray]) -> str:
    """In how many rounds each form promises more than there is."""
    said = []
    for name, values in bounds.items():
        broken = int((values > found * (1 + ROUNDING_OF_RATIOS)).sum())  # NaN is never broken
        said.append(
            f"{name} {holds(not broken)}" + (f" in {broken} of {np.isfinite(found).sum()} rounds" if broken else "")
        )
    at = int(np.nanargmin(found))
    promises = ", ".join(f"{name} {values[at]:.3g}" for name, values in bounds.items())
    return f"{'; '.join(said)}. Least measured δ(t) {found[at]:.3g}; there {promises}."


def main() -> None:
    asked = arguments(__doc__).parse_args()
    rounds = 40 if asked.quick else 150
    cases = {
        "(a) logistic, 7-ring, η = 0.5·1.02^(t−1)": (7, logistic, THETA * 1.02 ** np.arange(rounds)),
        "(b) quadratics, 5-ring, η = 0.8": (5, quadratic, np.full(rounds, 0.8)),
    }
    figure, axes = panels(1, 2)
    verdicts = []
    for panel, (name, (agents, make, penalties)) in zip(axes, cases.items(), strict=True):
        ring, problem = nx.to_numpy_array(nx.cycle_graph(agents)), make(agents)
        found, bounds = measured(ring, problem, penalties), promised(ring, problem, penalties)
        draw(panel, found, bounds)
        panel.set_title(name)
        verdicts.append(f"{name[:3]} {verdict(found, bounds)}")
    axes[0].set_ylabel("δ(t)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    save(figure, asked.output / "admm-rate.png", "M-ADMM, Theorem 3.2: how much a round contracts", verdicts)


if __name__ == "__main__":
    main()
