"""Weight balancing, DOLA and its mini-batch form, DPPS and DPSR against the papers' equations in matrix form."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

from mpinodes.core import Setup
from tests.helpers import matrix_forms, reference
from tests.helpers.parts import setup_of, told

ROUNDS = 60


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
    parts = setup_of(f"{words} {noise}")
    found, wanted = told(parts), matrix_forms.decomposable(parts)
    for name in ("x", "h", "scale", "said"):
        one, other = found[name], getattr(wanted, name)
        assert one.shape == other.shape
        assert np.abs(one - other).max(initial=0) <= 1e-12 * np.abs(other).max(initial=0), name
    assert np.abs(found["x"][-1]).max() > 0.01  # something was learnt


def unbalanced_r(parts: Setup, rounds: int) -> np.ndarray:
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
    parts = setup_of(f"{words} data.total=1000 rounds=8 privacy.clip=0.8 privacy.epsilon=0.5 record.transcript=true")
    found = told(parts)["scale"]
    np.testing.assert_allclose(found, np.outer([scale(t) for t in range(1, 9)], np.ones(7)), rtol=1e-14)


def test_rescaled_steps_need_rescaled_noise():
    """DPSR: x_i(t) carries 2·clip·√d·α(t − 1)/[r_i(t − 1)]_i /ε."""
    parts = setup_of("algorithm.name=dpsr rounds=8 privacy.clip=0.8 privacy.epsilon=0.5 record.transcript=true")
    alpha = 1 / np.sqrt(np.arange(1, 8))
    wanted = 2 * 0.8 * sqrt(10) / 0.5 * alpha[:, None] / unbalanced_r(parts, 7)
    found = told(parts)["scale"]
    assert (found[0] == 0).all()
    np.testing.assert_allclose(found[1:], wanted, rtol=1e-13)
    assert wanted[1:].std(axis=1).min() > 0  # agents of an unbalanced digraph differ, from the second step on


def test_noise_off_means_no_scale_and_no_difference_between_state_and_release():
    parts = setup_of("algorithm.name=dola rounds=20 privacy.mechanism=none record.transcript=true")
    found = told(parts)
    np.testing.assert_array_equal(found["h"], found["x"])
    assert not found["scale"].any()
