"""Weight balancing, DOLA and its mini-batch form, DPPS and DPSR against the papers' equations in matrix form."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

from mpinodes.config import setup as pt
from mpinodes.core import Event
from mpinodes.simulation.agent import HEADER
from mpinodes.simulation.lockstep import simulate
from tests.algorithms.test_dpsda import parts_of
from tests.helpers import reference

METHODS = ["weight-balancing", "dola", "dola-minibatch", "dpps", "dpsr"]
ROUNDS = 60


def told(parts: pt.Setup) -> dict[str, np.ndarray]:
    """What the package's agents did: the fields of a `reference.Run`. Needs record.transcript=true."""
    rows = np.concatenate([chunk.copy() for chunk in simulate(parts)], axis=1).transpose(1, 0, 2)
    d, width = parts.dimension, len(Event._fields)
    x, events, frames = np.split(rows, [d, d + width], axis=2)
    assert (frames[:, :, 0] == np.arange(1, len(frames) + 1)[:, None]).all()
    scale = events[:, :, Event._fields.index("scale")]
    return {"x": x, "h": frames[:, :, HEADER : HEADER + d], "scale": scale, "said": frames[:, :, HEADER + d :]}


def slope(loss: str, m: np.ndarray, b: np.ndarray) -> np.ndarray:
    match loss:
        case "hinge":
            return np.where(b * m < 1, -b, 0.0)
        case "logistic":
            return -b / (1 + np.exp(b * m))
        case "absolute":
            return np.sign(m - b)
        case _:
            return 2 * (m - b)


def gradients(parts: pt.Setup, regularizer: float) -> reference.Gradients:
    """Every agent's gradient at a point of its own, from features and targets alone."""
    e = parts.experiment
    n = parts.topology.agents
    streams = [parts.stream.of(i) for i in range(n)]
    divisor = e.data["batch"] if e.problem.average else 1

    def of(t: int, i: int, x: np.ndarray) -> np.ndarray:
        a, b = streams[i](t).features, streams[i](t).targets
        samples = slope(e.problem.loss, a @ x, b)[:, None] * a
        if e.privacy.adjacency == "one-round":
            data = reference.clipped(samples.sum(axis=0, keepdims=True) / divisor, e.clip)
        else:
            data = reference.clipped(samples, e.clip) / divisor
        if e.problem.gradient_noise:
            error = reference.draws(e.seed, reference.GRADIENT_NOISE, i, t)
            data += error.normal(0.0, sqrt(e.problem.gradient_noise), len(x))
        return data + regularizer * x

    return lambda t, points: np.stack([of(t, i, points[i]) for i in range(n)])


def step(parts: pt.Setup) -> reference.Step:
    e = parts.experiment
    modulus = e.problem.regularizer / (2 if e.algorithm["name"] == "weight-balancing" else 1)
    offset, initial = e.step.get("offset", 0), e.step.get("initial", 1)
    return {
        "strongly-convex": lambda t: 1 / (modulus * (t + offset)),
        "inverse-sqrt": lambda t: initial / sqrt(t),
        "doubling": lambda t: initial / sqrt(2 ** np.floor(np.log2(t))),
    }[e.step["kind"]]


def doubly_stochastic(parts: pt.Setup):
    """Weights by round, and what agents say of them."""
    n, edges = parts.topology.agents, parts.topology.edges
    name = parts.experiment.algorithm["mixing"]
    if name == "laplacian":
        drawn = "each-round" in parts.experiment.topology["name"] or parts.experiment.topology["name"] == "matchings"
        largest = n if drawn else reference.laplacian_max(n, edges(1))
        return lambda t: reference.laplacian(n, edges(t), largest), lambda t: np.zeros((n, 0))
    weights = {"metropolis": reference.metropolis, "lazy-metropolis": reference.lazy_metropolis}[name]
    return lambda t: weights(n, edges(t)), lambda t: reference.adjacency(n, edges(t)).sum(axis=1)


def expected(parts: pt.Setup) -> reference.Run:
    """The same run in matrices."""
    e, d, n, edges = parts.experiment, parts.dimension, parts.topology.agents, parts.topology.edges
    radius = e.problem.radius
    project = {"ball": reference.ball(radius), "box": reference.box(radius), "none": lambda x: x}[e.problem.set]
    name, lam, alpha, run = e.algorithm["name"], e.problem.regularizer, step(parts), reference.Run(e.seed)
    mean_of_samples = e.problem.average and e.privacy.adjacency == "one-sample"
    changed = e.clip / (e.data["batch"] if mean_of_samples else 1)
    unit = 2 * changed * sqrt(d) / e.epsilon  # 0 where ε = ∞
    hidden = gradients(parts, lam)
    if name == "weight-balancing":
        start = 1 / n if e.topology["name"] == "eulerian" or n == 1 else 1 / len(edges(1))
        return reference.weight_balancing(
            run, e.rounds, d, hidden, lambda t: reference.adjacency(n, edges(t)), start, alpha, unit,
            public=e.algorithm["gradient_at"] == "public", corrected=e.algorithm["noise_index"] == "corrected",
        )  # fmt: skip
    if name == "dpps":
        matrices = lambda t: reference.column_stochastic(n, edges(t))  # noqa: E731
        return reference.dpps(run, e.rounds, d, hidden, matrices, project, alpha, unit)
    if name == "dpsr":
        return reference.dpsr(run, e.rounds, d, hidden, reference.uniform(n, edges(1)), project, alpha, unit)
    matrices, said = doubly_stochastic(parts)
    phi = lam if name == "dola-minibatch" else 0.0
    return reference.dola(
        run, e.rounds, d, gradients(parts, lam - phi), matrices, said, project, alpha, unit,
        phi=phi, public=e.algorithm.get("regularizer_at") == "public",
    )  # fmt: skip


BALL = f"data.name=unit-ball data.total=3000 rounds={ROUNDS} record.transcript=true privacy.clip=0.8"
OLR = (
    f"data.name=olr data.partition=even rounds={ROUNDS} record.transcript=true privacy.clip=2 privacy.scale=calibrated"
)
HINGE = f"{BALL} problem.loss=hinge"
LOGISTIC = f"{BALL} problem.loss=logistic problem.regularizer=0.2"
DOUBLING = "step.kind=doubling step.initial=0.5"
GRAPHS = ["erdos-renyi-each-round", "ring", "matchings"]

CASES = [
    *(
        f"algorithm.name=weight-balancing algorithm.gradient_at={point} algorithm.noise_index={index} {rest}"
        for point in ("hidden", "public")
        for index in ("paper", "corrected")
        for rest in (
            f"{LOGISTIC} step.kind=strongly-convex step.offset=1",
            f"{HINGE} {DOUBLING} problem.regularizer=0 topology.name=eulerian",
            f"{OLR} problem.loss=absolute {DOUBLING} problem.regularizer=0",
            f"{OLR} problem.loss=least-squares data.batch=3 problem.average=true problem.regularizer=0.5 "
            "step.kind=strongly-convex step.offset=1 topology.name=eulerian",
        )
    ),
    *(
        f"algorithm.name=dola topology.name={graph} algorithm.mixing={mixing} {rest}"
        for graph in GRAPHS
        for mixing in ("metropolis", "lazy-metropolis", "laplacian")
        for rest in (
            f"{HINGE} problem.regularizer=0.2 step.kind=strongly-convex",
            f"{OLR} problem.loss=absolute problem.set=box problem.regularizer=0 step.kind=inverse-sqrt "
            "step.initial=0.5 data.batch=2",
        )
    ),
    *(
        f"algorithm.name=dola topology.agents=5 {rest} problem.set=ball problem.radius=1"
        for rest in (
            f"{LOGISTIC} step.kind=strongly-convex",
            f"{LOGISTIC} data.batch=3 problem.average=true privacy.adjacency=one-round privacy.clip=0.2",
            f"{OLR} problem.loss=least-squares problem.regularizer=0 step.kind=inverse-sqrt step.initial=0.5",
        )
    ),
    *(
        f"algorithm.name=dola-minibatch algorithm.regularizer_at={point} data.batch=5 problem.average=true {rest}"
        for point in ("hidden", "public")
        for rest in (
            f"{HINGE} problem.regularizer=0.2",
            f"{LOGISTIC} algorithm.mixing=laplacian topology.name=matchings",
            f"{OLR} problem.loss=least-squares problem.regularizer=0.5 problem.set=box problem.radius=1",
        )
    ),
    *(
        f"algorithm.name={name} {rest}"
        for name in ("dpps", "dpsr")
        for rest in (
            HINGE,
            f"{LOGISTIC} problem.radius=1 data.batch=2",
            f"{OLR} problem.loss=absolute problem.set=box step.initial=0.1",
            f"{OLR} problem.loss=least-squares data.batch=2 problem.average=true step.initial=0.1",
        )
    ),
]


@pytest.mark.parametrize("noise", ["privacy.epsilon=inf problem.gradient_noise=0", "privacy.epsilon=0.7 seed=5"])
@pytest.mark.parametrize("words", CASES)
def test_a_run_equals_the_matrix_form(words, noise):
    """Decisions, releases, scales of the noise, and scalars: to rounding, draw by draw."""
    parts = parts_of(f"{words} {noise}")
    found, wanted = told(parts), expected(parts)
    for name in ("x", "h", "scale", "said"):
        one, other = found[name], getattr(wanted, name)
        assert one.shape == other.shape
        assert np.abs(one - other).max(initial=0) <= 1e-12 * np.abs(other).max(initial=0), name
    assert np.abs(found["x"][-1]).max() > 0.01  # something was learnt


def unbalanced_r(parts: pt.Setup, rounds: int) -> np.ndarray:
    """[r_i(t)]_i, (rounds, n): the diagonals of the powers of the row-stochastic A."""
    n = parts.topology.agents
    a = reference.uniform(n, parts.topology.edges(1))
    return np.array([np.diag(np.linalg.matrix_power(a, t)) for t in range(rounds)])


@pytest.mark.parametrize(
    ("words", "scale"),
    [  # d = 10, clip = 0.8, ε = 0.5; the step made with index 0 does not exist: x(1) holds no data
        ("algorithm.name=dola", lambda t: 2 * 0.8 * sqrt(10) / 0.5 / (0.01 * (t - 1)) if t > 1 else 0),
        (
            "algorithm.name=dola problem.regularizer=0 step.kind=inverse-sqrt step.initial=0.5",
            lambda t: 2 * 0.8 * sqrt(10) / 0.5 * 0.5 / sqrt(t - 1) if t > 1 else 0,
        ),
        ("algorithm.name=dola-minibatch", lambda t: 2 * 0.8 * sqrt(10) / 0.5 / (0.01 * (t - 1)) / 5 if t > 1 else 0),
        ("algorithm.name=weight-balancing", lambda t: 2 * 0.8 * sqrt(10) / 0.5 / (0.05 * (t + 1))),
        (
            "algorithm.name=weight-balancing algorithm.noise_index=corrected",
            lambda t: 2 * 0.8 * sqrt(10) / 0.5 / (0.05 * t) if t > 1 else 0,
        ),
        (
            "algorithm.name=weight-balancing step.kind=doubling",
            lambda t: 2 * 0.8 * sqrt(10) / 0.5 / sqrt([1, 2, 2, 4, 4, 4, 4, 8][t - 1]),
        ),
        ("algorithm.name=dpps", lambda t: 2 * 0.8 * sqrt(10) / 0.5),
    ],
)
def test_noise_has_the_scale_of_the_formulas(words, scale):
    parts = parts_of(f"{words} data.total=1000 rounds=8 privacy.clip=0.8 privacy.epsilon=0.5 record.transcript=true")
    found = told(parts)["scale"]
    np.testing.assert_allclose(found, np.outer([scale(t) for t in range(1, 9)], np.ones(7)), rtol=1e-14)


def test_rescaled_steps_need_rescaled_noise():
    """DPSR: x_i(t) carries 2·clip·√d·α(t − 1)/[r_i(t − 1)]_i /ε."""
    parts = parts_of("algorithm.name=dpsr rounds=8 privacy.clip=0.8 privacy.epsilon=0.5 record.transcript=true")
    alpha = 1 / np.sqrt(np.arange(1, 8))
    wanted = 2 * 0.8 * sqrt(10) / 0.5 * alpha[:, None] / unbalanced_r(parts, 7)
    found = told(parts)["scale"]
    assert (found[0] == 0).all()
    np.testing.assert_allclose(found[1:], wanted, rtol=1e-13)
    assert wanted[1:].std(axis=1).min() > 0  # agents of an unbalanced digraph differ, from the second step on


def test_noise_off_means_no_scale_and_no_difference_between_state_and_release():
    parts = parts_of("algorithm.name=dola rounds=20 privacy.mechanism=none record.transcript=true")
    found = told(parts)
    np.testing.assert_array_equal(found["h"], found["x"])
    assert not found["scale"].any()
