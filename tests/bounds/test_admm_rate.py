"""Theorem 3.2 of the M-ADMM paper: the contraction of each round, by an M-ADMM written here once more."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import networkx as nx
import numpy as np
import pytest

from mpinodes.bounds.admm import contraction, distance
from scripts.papers.sharp import sharp_contraction

THETA = 0.5
ROUNDS = 60
GRAPHS = {
    "5-ring": nx.cycle_graph(5),
    "7-ring": nx.cycle_graph(7),
    "complete": nx.complete_graph(6),
    "star": nx.star_graph(5),
    "random": nx.gnp_random_graph(9, 0.4, seed=3),
}
PENALTIES = {
    "theta": lambda t: THETA,
    "above": lambda t: 1.6 * THETA,
    "far above": lambda t: 8 * THETA,
    "half": lambda t: THETA / 2,
    "geometric": lambda t: THETA * 1.05 ** (t - 1),
    "falling": lambda t: THETA * (1 + 2 / t),
}
SLACK = 1e-9  # of a distance, for rounding
COUNTER = {"penalty": 0.8, "dual_step": THETA, "modulus": 1e-3, "smoothness": 1e-3}


class Problem(NamedTuple):
    """Σ O_i.

    Attributes:
        solve: of linear terms c (n, d) and squares' weights q (n,), argmin O_i(f) + ⟨c_i, f⟩ + q_i‖f‖²/2: (n, d).
        minimizer: (d,).
        gradients: (n, d) at the minimizer.
        modulus: the least one.
        smoothness: the largest one.
    """

    solve: Callable[[np.ndarray, np.ndarray], np.ndarray]
    minimizer: np.ndarray
    gradients: np.ndarray
    modulus: float
    smoothness: float


def quadratics(n: int, modulus: float, smoothness: float, seed: int = 0) -> Problem:
    """O_i(f) = ½⟨f − c_i, H_i(f − c_i)⟩ in R³, eigenvalues of H_i from modulus to smoothness."""
    rng = np.random.default_rng(seed)
    spectrum = np.geomspace(modulus, smoothness, 3)
    bases = np.linalg.qr(rng.normal(size=(n, 3, 3)))[0]
    h = bases * spectrum @ bases.transpose(0, 2, 1)
    centers = rng.normal(size=(n, 3))
    pulls = np.einsum("nij,nj->ni", h, centers)
    minimizer = np.linalg.solve(h.sum(axis=0), pulls.sum(axis=0))

    def solve(c: np.ndarray, q: np.ndarray) -> np.ndarray:
        return np.linalg.solve(h + q[:, None, None] * np.eye(3), (pulls - c)[..., None])[..., 0]

    return Problem(solve, minimizer, h @ minimizer - pulls, modulus, smoothness)


def newton(x: np.ndarray, y: np.ndarray, scale: float, c: np.ndarray, q: float) -> np.ndarray:
    """Argmin over f of scale Σ log(1 + exp(−y f·x)) + ⟨c, f⟩ + q‖f‖²/2; x (m, d), y (m,)."""
    f = np.zeros(x.shape[1])

    def value(f: np.ndarray) -> float:
        return scale * np.logaddexp(0, -y * (x @ f)).sum() + c @ f + q * f @ f / 2

    for _ in range(50):
        p = 1 / (1 + np.exp(y * (x @ f)))
        gradient = c + q * f - scale * (y * p) @ x
        move = np.linalg.solve(scale * (x.T * (p * (1 - p))) @ x + q * np.eye(len(f)), gradient)
        length = 1.0
        while value(f - length * move) > value(f) + 1e-13 * abs(value(f)):
            length /= 2
        f = f - length * move
        if np.linalg.norm(gradient) < 1e-13:
            break
    return f


def logistic(n: int, weight: float = 3.0, regularizer: float = 0.05, seed: int = 0) -> Problem:
    """O_i(f) = (C/20) Σ log(1 + exp(−y f·x)) + λ‖f‖²/2 of 20 samples in R³, ‖x‖ ≤ 1, elsewhere for each agent."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 20, 3)) + rng.normal(size=(n, 1, 3))
    x /= np.maximum(1, np.linalg.norm(x, axis=2, keepdims=True))
    y = np.where(rng.random((n, 20)) < 1 / (1 + np.exp(-4 * x[..., 0])), 1.0, -1.0)
    scale = weight / 20

    def solve(c: np.ndarray, q: np.ndarray) -> np.ndarray:
        return np.array([newton(*one) for one in zip(x, y, [scale] * n, c, q + regularizer, strict=True)])

    minimizer = newton(x.reshape(-1, 3), y.ravel(), scale, np.zeros(3), n * regularizer)
    p = 1 / (1 + np.exp(y * (x @ minimizer)))
    gradients = regularizer * minimizer - scale * np.einsum("nm,nmd->nd", y * p, x)
    return Problem(solve, minimizer, gradients, regularizer, regularizer + weight / 4)


def m_admm(graph: nx.Graph, problem: Problem, penalty: Callable[[int], float | np.ndarray], rounds: int = ROUNDS):
    """f(0), ..., f(rounds) by (10) and (11), f(0) ~ N(0, I): (rounds + 1, n, d)."""
    f = np.random.default_rng(1).normal(size=problem.gradients.shape)
    dual, released = np.zeros_like(f), [f]
    degrees = np.array([graph.degree(i) for i in graph])
    for t in range(1, rounds + 1):
        eta = np.broadcast_to(penalty(t), len(degrees))
        midpoints = np.array([sum((f[i] + f[j]) / 2 for j in graph[i]) for i in graph])
        f = problem.solve(2 * dual - 2 * eta[:, None] * midpoints, 2 * eta * degrees)
        dual = dual + THETA / 2 * np.array([sum(f[i] - f[j] for j in graph[i]) for i in graph])
        released.append(f)
    return np.array(released)


def factors(graph: nx.Graph, problem: Problem, penalty: Callable[[int], float], rounds: int = ROUNDS) -> np.ndarray:
    """‖Z(t−1) − Z*‖²_J(t)/‖Z(t) − Z*‖²_J(t) − 1, by round; inf from where only rounding is left."""
    f, a = m_admm(graph, problem, penalty, rounds), nx.to_numpy_array(graph)
    found, first = [], None
    for t in range(1, rounds + 1):
        before, after = (
            distance(a, penalty(t), THETA, f[:last], problem.minimizer, problem.gradients) for last in (t, t + 1)
        )
        first = first or before
        found.append(before / after - 1 if after > 1e-18 * first else np.inf)
    return np.array(found)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize(
    "problem",
    [
        lambda n: quadratics(n, 0.1, 5),
        lambda n: quadratics(n, 0.3, 0.3),
        lambda n: quadratics(n, 0.01, 1),
        logistic,
    ],
    ids=["quadratics", "isotropic", "flat", "logistic"],
)
def test_every_round_contracts_as_checked_and_as_sharp(graph, penalty, problem):
    graph, penalty = GRAPHS[graph], PENALTIES[penalty]
    problem, a = problem(len(graph)), nx.to_numpy_array(graph)
    rounds = 25
    measured = factors(graph, problem, penalty, rounds)
    assert np.isfinite(measured).sum() >= 10
    constants = (THETA, problem.modulus, problem.smoothness)
    checked = np.array([contraction(a, penalty(t), *constants) for t in range(1, rounds + 1)])
    sharp = np.array([sharp_contraction(a, penalty(t), *constants) for t in range(1, rounds + 1)])
    assert (measured >= sharp - SLACK).all()
    assert (sharp > checked).all()
    assert (checked > 0).all()


def test_the_printed_form_promises_150_times_what_a_five_ring_does():
    graph, a = GRAPHS["5-ring"], nx.to_numpy_array(GRAPHS["5-ring"])
    measured = factors(graph, quadratics(5, 1e-3, 1e-3), lambda t: 0.8, 300)
    assert contraction(a, **COUNTER, printed=True) == pytest.approx(0.0984, abs=5e-5)
    assert contraction(a, **COUNTER) == pytest.approx(0.000401, abs=5e-7)
    assert sharp_contraction(a, **COUNTER) == pytest.approx(0.0006250, abs=5e-8)
    assert measured.min() == pytest.approx(0.0006251, abs=5e-8)
    assert (measured < contraction(a, **COUNTER, printed=True)).sum() > 200


def test_printed_and_checked_are_one_where_penalty_is_the_dual_step():
    for graph in map(nx.to_numpy_array, GRAPHS.values()):
        checked, printed = (contraction(graph, THETA, THETA, 0.1, 2, printed=printed) for printed in (False, True))
        assert checked == printed
        assert contraction(graph, 0.6, THETA, 0.1, 2) < contraction(graph, 0.6, THETA, 0.1, 2, printed=True)


@pytest.mark.parametrize("printed", [False, True])
@pytest.mark.parametrize(("modulus", "smoothness"), [(1e-3, 1e-3), (0.1, 5), (40, 50)])
@pytest.mark.parametrize("penalty", [THETA, 0.7, 20.0])
def test_mu_is_the_best(penalty, modulus, smoothness, printed):
    a = nx.to_numpy_array(GRAPHS["random"])
    laplacian, signless = np.diag(a.sum(axis=1)) - a, np.diag(a.sum(axis=1)) + a
    slope, largest = THETA * np.linalg.eigvalsh(laplacian)[1], penalty * np.linalg.eigvalsh(signless)[-1]
    least, square = (penalty - THETA) * np.linalg.eigvalsh(laplacian)[[1, -1]]
    mu = 1 + np.logspace(-7, 7, 200_001)
    primal = (mu**2 * smoothness**2 + mu * square**2) / (slope * (mu - 1)) + largest
    best = np.minimum(slope / (mu**2 * largest), (2 * modulus + 2 * least * printed) / primal).max()
    found = contraction(a, penalty, THETA, modulus, smoothness, printed=printed)
    assert found == pytest.approx(best, rel=1e-3)
    assert found >= best * (1 - 1e-12)


def one_round(graph: nx.Graph, eta: np.ndarray, curvature: float | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of O_i = curvature_i f²/2 in R: J, and the matrix of a round, for Z = (f, Y) with Y orthogonal to 1."""
    a, n = nx.to_numpy_array(graph), len(graph)
    degrees = np.diag(a.sum(axis=1))
    w, (values, vectors) = np.diag(eta), np.linalg.eigh(degrees - a)
    root = vectors[:, 1:] * np.sqrt(values[1:])  # √L on the coordinates of Y along the eigenvectors but 1
    inverse = np.linalg.inv(np.eye(n) * curvature + 2 * w @ degrees)
    f = inverse @ np.hstack([w @ (degrees + a), -root])
    y = np.hstack([np.zeros((n - 1, n)), np.eye(n - 1)]) + THETA * root.T @ f
    penalties = w @ (degrees + a)
    j = np.block([[(penalties + penalties.T) / 2, np.zeros((n, n - 1))], [np.zeros((n - 1, n)), np.eye(n - 1) / THETA]])
    return j, np.vstack([f, y])


def worst(graph: nx.Graph, penalty: float, curvature: float | np.ndarray) -> float:
    """The δ of the worst Z(t−1)."""
    j, step = one_round(graph, np.full(len(graph), penalty), curvature)
    values, vectors = np.linalg.eigh(j)
    kept = values > 1e-12 * values[-1]  # J is 0 where Qf is, and f then without effect
    root = vectors[:, kept] * np.sqrt(values[kept])
    return float(1 / np.linalg.norm(root.T @ step @ (vectors[:, kept] / np.sqrt(values[kept])), 2) ** 2 - 1)


@pytest.mark.parametrize("penalty", [0.25, THETA, 0.8, 3.0])
@pytest.mark.parametrize("curvature", [1e-3, 0.3, 10.0])
@pytest.mark.parametrize("graph", GRAPHS)
def test_sharp_is_within_a_fifth_of_the_worst_case_of_one_curvature(graph, curvature, penalty):
    """Only h = curvature g is left there, and no smaller contraction can be proven than that of the worst Z(t−1)."""
    graph = GRAPHS[graph]
    sharp = sharp_contraction(nx.to_numpy_array(graph), penalty, THETA, curvature, curvature)
    assert 0.8 < sharp / worst(graph, penalty, curvature) <= 1 + 1e-9


@pytest.mark.parametrize("penalty", [0.25, THETA, 0.8, 3.0])
@pytest.mark.parametrize(("modulus", "smoothness"), [(1e-3, 1e-2), (0.1, 2), (0.05, 40)])
@pytest.mark.parametrize("graph", ["5-ring", "complete", "star"])
def test_no_larger_contraction_than_the_sharp_one_can_be_proven_but_for_a_twentieth(
    graph, modulus, smoothness, penalty
):
    """Quadratics of either curvature, one for each agent, do no better from the worst Z(t−1)."""
    graph = GRAPHS[graph]
    sharp = sharp_contraction(nx.to_numpy_array(graph), penalty, THETA, modulus, smoothness)
    ends = itertools.product([modulus, smoothness], repeat=len(graph))
    least = min(worst(graph, penalty, np.array(curvatures)) for curvatures in ends)
    assert 0.95 < sharp / least <= 1 + 1e-9


def test_distances_may_grow_where_agents_differ_in_penalty():
    """Two agents, and the paper's Fig. 1(a) in round 10: no δ ≥ 0 holds."""
    figure = np.array([0.55, 0.65, 0.6, 0.55, 0.6]) * np.array([1.01, 1.03, 1.1, 1.2, 1.02]) ** 9
    for graph, eta, norm in [(nx.path_graph(2), np.array([0.5, 1.0]), False), (GRAPHS["5-ring"], figure, True)]:
        j, step = one_round(graph, eta, 0.1)
        assert (np.linalg.eigvalsh(j)[0] > 0) == norm
        assert np.linalg.eigvalsh(j - step.T @ j @ step)[0] < -0.1
        equal, step = one_round(graph, np.full(len(eta), eta.max()), 0.1)
        assert np.linalg.eigvalsh(equal - step.T @ equal @ step)[0] > -1e-12


def test_distance_is_that_of_its_definition():
    graph, problem = GRAPHS["random"], logistic(9)
    f, a = m_admm(graph, problem, lambda t: 0.8, 12), nx.to_numpy_array(graph)
    values, vectors = np.linalg.eigh(np.diag(a.sum(axis=1)) - a)
    root = vectors * np.sqrt(values.clip(0)) @ vectors.T
    y, best = np.zeros_like(f[0]), -np.linalg.pinv(root, rcond=1e-6) @ problem.gradients
    np.testing.assert_allclose(root @ best, -problem.gradients, atol=1e-10)  # (17)
    for t in range(13):
        y = y + THETA * root @ f[t] if t else y
        away = f[t] - problem.minimizer
        wanted = np.sum((y - best) ** 2) / THETA + 1.7 * np.sum(away * ((np.diag(a.sum(axis=1)) + a) @ away))
        found = distance(a, 1.7, THETA, f[: t + 1], problem.minimizer, problem.gradients)
        assert found == pytest.approx(wanted, rel=1e-9)


def test_where_there_is_no_proof_there_is_no_number():
    a = nx.to_numpy_array(GRAPHS["5-ring"])
    unequal = [0.5, 0.6, 0.5, 0.5, 0.5]
    for form in (contraction, sharp_contraction):
        with pytest.raises(ValueError, match=r"penalties from 0\.5 to 0\.6 in one round.*same penalty"):
            form(a, unequal, THETA, 0.1, 2)
        with pytest.raises(ValueError, match=r"penalty 0\.24, dual step 0\.5.*at least half"):
            form(a, 0.24, THETA, 0.1, 2)
        with pytest.raises(ValueError, match="at least half of a positive"):
            form(a, 0.24, 0, 0.1, 2)
        with pytest.raises(ValueError, match="not symmetric"):
            form(np.triu(a), THETA, THETA, 0.1, 2)
        with pytest.raises(ValueError, match="connected graph of at least 2"):
            form(np.zeros((1, 1)), THETA, THETA, 0.1, 2)
        with pytest.raises(ValueError, match="connected graph of at least 2"):
            form(np.kron(np.eye(2), [[0, 1], [1, 0]]), THETA, THETA, 0.1, 2)
        assert form(a, np.full(5, 0.8), THETA, 0.1, 2) == form(a, 0.8, THETA, 0.1, 2)
    with pytest.raises(ValueError, match="modulus 0, smoothness 2"):
        contraction(a, THETA, THETA, 0, 2)
    with pytest.raises(ValueError, match="penalties of at least"):
        contraction(a, 0.49, THETA, 0.1, 2, printed=True)
    assert contraction(a, unequal, THETA, 0.1, 2, printed=True) > 0
    with pytest.raises(ValueError, match="in one round"):
        distance(a, unequal, THETA, np.zeros((1, 5, 1)), np.zeros(1), np.zeros((5, 1)))
