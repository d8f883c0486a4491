"""Classes: the softmax loss, its constants, and runs that are judged by it."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

import mpinodes
from mpinodes.auditing.adjacent_replay import replay
from mpinodes.auditing.transcripts import Recorded
from mpinodes.core.errors import BadInput
from mpinodes.evaluation.comparator import best
from mpinodes.evaluation.gathered import Labelled
from mpinodes.losses.softmax import Softmax
from mpinodes.sets.ball import Ball
from mpinodes.streams.labelled import in_memory
from tests.helpers.parts import run_of, setup_of
from tests.helpers.records import summary_of

K, P, N = 4, 3, 12


@pytest.fixture
def rng():
    return np.random.default_rng(1)


def sampled(rng, **keys) -> Softmax:
    return Softmax(rng.normal(size=(N, P)), rng.integers(0, K, N).astype(float), **keys)


def by_formula(loss: Softmax, x) -> np.ndarray:
    """Of each sample."""
    logits = loss.features @ x.reshape(K, P).T
    return np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(N), loss.targets.astype(int)]


def numerical(value, x, h=1e-6):
    return np.array([(value(x + h * e) - value(x - h * e)) / (2 * h) for e in np.eye(len(x))])


def test_values_and_gradients_are_those_of_the_formula(rng):
    loss, x = sampled(rng, divisor=3.0, regularizer=0.2), rng.normal(size=K * P)
    assert loss.value(x) == pytest.approx(by_formula(loss, x).sum() / 3 + 0.1 * x @ x)
    np.testing.assert_allclose(loss.grad(x), numerical(loss.value, x), atol=1e-8)
    np.testing.assert_allclose(loss.grad(x, slice(2, 7)), loss.grad(x)[2:7], atol=1e-12)
    points = rng.normal(size=(2, 5, K * P))
    grouped = Softmax.values(loss.features, loss.targets.reshape(2, -1), points)
    for g in range(2):
        half = slice(g * N // 2, (g + 1) * N // 2)
        for p in range(5):
            np.testing.assert_allclose(grouped[g, p], by_formula(loss, points[g, p])[half])
    thin = Softmax(sparse.csr_array(loss.features), loss.targets)
    np.testing.assert_allclose(thin.grad(x), Softmax(loss.features, loss.targets).grad(x), atol=1e-12)
    np.testing.assert_allclose(Softmax.values(thin.features, loss.targets.reshape(2, -1), points), grouped)


@pytest.mark.parametrize("size", [1.0, 1e-200, 1e120, 1e250])
@pytest.mark.parametrize("block", [slice(None), slice(0, K * P), slice(2, 7)])
def test_no_sample_adds_more_than_the_clip_whatever_it_is(rng, size, block):
    for _ in range(20):
        one = Softmax(size * rng.normal(size=(1, P)), rng.integers(0, K, 1).astype(float), clip=0.3)
        x = rng.normal(size=K * P)
        with np.errstate(all="ignore"):  # as in a run
            assert np.linalg.norm(one.data_grad(x, block)) <= 0.3 * (1 + 1e-12)
    loss, x = sampled(rng, clip=0.3), rng.normal(size=K * P)
    each = [Softmax(loss.features[[k]], loss.targets[[k]]).data_grad(x)[block] for k in range(N)]
    kept = [g * min(1.0, 0.3 / np.linalg.norm(g)) for g in each]
    np.testing.assert_allclose(loss.data_grad(x, block), np.sum(kept, axis=0), atol=1e-12)


def test_its_constants_bound_gradients_and_hessians_and_are_nearly_reached(rng):
    steepest = largest = 0.0
    for _ in range(300):
        x, a = rng.normal(size=K * P) * rng.choice([0.1, 1, 30]), rng.normal(size=P)
        one = Softmax(a[None], rng.integers(0, K, 1).astype(float))
        steepest = max(steepest, np.linalg.norm(one.data_grad(x)) / np.linalg.norm(a))
        v = rng.normal(size=K * P)
        change = np.linalg.norm(one.data_grad(x + 1e-5 * v) - one.data_grad(x)) / (1e-5 * np.linalg.norm(v))
        largest = max(largest, change / (a @ a))
    assert Softmax.slope_bound() == np.sqrt(2)
    assert 1.2 < steepest <= np.sqrt(2) * (1 + 1e-12)
    assert Softmax.sample_smoothness(1, 1) == 0.5
    assert largest <= 0.5 + 1e-6
    chances = np.array([0.5, 0.5, 0, 0])
    assert np.linalg.eigvalsh(np.diag(chances) - np.outer(chances, chances))[-1] == pytest.approx(0.5)


@pytest.mark.parametrize("radius", [0.5, 5.0])
def test_the_comparator_is_within_its_certificate_of_the_best(rng, radius):
    total = sampled(rng)
    found = best(total, Ball(radius), np.zeros(K * P))
    assert np.linalg.norm(found.point) <= radius * (1 + 1e-12)
    assert found.certificate <= 1e-6 * found.value

    def within(z):  # any z, as a point of the ball
        return z * (radius / max(radius, np.linalg.norm(z)))

    other = min(minimize(lambda z: total.value(within(z)), rng.normal(size=K * P)).fun for _ in range(5))
    assert found.value - found.certificate <= other + 1e-9


def test_accuracy_counts_the_class_with_the_largest_prediction(rng):
    loss = sampled(rng)
    points = rng.normal(size=(K * P, 3))
    right = [(np.argmax(loss.features @ x.reshape(K, P).T, axis=1) == loss.targets).mean() for x in points.T]
    np.testing.assert_allclose(Labelled(in_memory(loss.features, loss.targets), Softmax, K).marks(points), right)


@pytest.fixture(scope="module")
def flowers(tmp_path_factory):
    """Three classes, by name, about three points."""
    draw = np.random.default_rng(3)
    kinds, centres = np.array(["a", "b", "c"]), np.array([[0.5, 0], [-0.3, 0.5], [-0.3, -0.5]])
    labels = np.resize([0, 1, 2], 360)
    features = (centres[labels] + draw.normal(scale=0.15, size=(360, 2))).clip(-1, 1)
    path = tmp_path_factory.mktemp("flowers") / "flowers.csv"
    lines = [f"{a!r},{b!r},{kinds[k]}" for (a, b), k in zip(features.tolist(), labels, strict=True)]
    path.write_text("\n".join(["x,y,kind", *lines]))
    return path


STATED = (
    'data.targets=classes data.labels=["a","b","c"] data.columns=2 data.header=true data.bound=1 problem.loss=softmax'
)


def test_a_run_on_classes_learns_them_and_proves_what_it_claims(flowers, tmp_path):
    words = f"algorithm.name=dola topology.agents=3 data.file={flowers} {STATED} data.train=300 problem.set=ball"
    open_, private = (
        summary_of(run_of(tmp_path / e, f"{words} privacy.epsilon={e} step.kind=inverse-sqrt step.initial=1"))
        for e in ("inf", "1")
    )
    assert open_["dimension"] == 6
    assert open_["accuracy"]["test"] > 0.9
    assert private["privacy"]["network"]["proven"] == pytest.approx(1)
    for found in (open_, private):
        assert found["network_regret"] >= -found["comparator"]["certificate"]
        assert found["comparator"]["certificate"] < 1e-5 * found["comparator"]["value"]


@pytest.mark.parametrize("algorithm", ["dola", "dpps", "dpsda-c", "dpsda-ps"])
def test_a_replaced_sample_moves_no_message_beyond_its_sensitivity(algorithm, flowers, tmp_path):
    graph = "topology.name=complete topology.agents=3"
    words = f"algorithm.name={algorithm} {graph} rounds=12 data.file={flowers} {STATED} record.transcript=true"
    directory = run_of(tmp_path / "run", words)
    found = [replay(Recorded(directory), agent, 4, 1) for agent in range(3)]
    assert not any(one.exceeded for one in found)
    assert max(one.direct for one in found) > 0.05


def test_clipping_and_domain_are_what_sensitivity_and_smoothness_are_made_of(flowers):
    words = f"algorithm.name=dola topology.agents=3 data.file={flowers} {STATED} data.batch=4 privacy.clip=0.7"
    run = setup_of(words).run
    assert run.dimension == 6
    assert run.grad_sensitivity == pytest.approx((1.4,) * 3)
    assert run.grad_lipschitz == pytest.approx((4 * 0.5 * 2.0,) * 3)  # ‖a‖² <= 2
    assert run.sample_sensitivity == pytest.approx(np.sqrt(2) * np.sqrt(2))
    assert inf not in run.grad_range


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("problem.loss=logistic", "'logistic' needs labels -1 and \\+1, .* has classes; set problem.loss=softmax"),
        ("problem.loss=least-squares", "problem.loss = .*data.targets=classes.*: set problem.loss=softmax"),
        ('data.labels=["a"]', "from two to 1000 different classes expected"),
        ('data.labels=["a","b"]', "line 4, column 3: label 'c' is neither 'a' nor 'b'"),
        ('data.labels=["a","b","d","e"]', "line 4, column 3: label 'c' is none of 'a', 'b', 'd', 'e'"),
        ("algorithm.name=pp-admm data.batch=all", "softmax"),
    ],
)
def test_what_does_not_go_with_classes_is_said(flowers, words, message):
    with pytest.raises(BadInput, match=message):
        setup_of(f"algorithm.name=dola topology.agents=3 data.file={flowers} {STATED} {words}")


def test_classes_that_are_not_stated_are_read_off_the_data_and_nothing_is_proven(tmp_path):
    np.savez(tmp_path / "f.npz", features=np.eye(3)[np.resize([0, 1, 2], 30)], targets=np.resize([7, 2, 5], 30))
    words = (
        f"algorithm.name=dola topology.agents=2 data.file={tmp_path}/f.npz data.targets=classes problem.loss=softmax"
    )
    found = summary_of(run_of(tmp_path / "run", words))
    assert found["privacy"]["network"]["proven"] is None
    assert "which classes there are is read from the data (set data.labels=[2, 5, 7])" in str(found["privacy"])
    with pytest.raises(BadInput, match="needs classes"):
        mpinodes.run_lockstep({"algorithm": {"name": "dola"}, "problem": {"loss": "softmax"}, "rounds": 3})
