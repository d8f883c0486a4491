"""A leading axis of independent runs: every part gives on three stacked inputs what it gives in three single calls.

All comparisons are of bits. What stays out is listed here by name: `ONE_RUN` with the error of each part.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from mpinodes.config import registry
from mpinodes.core import RELEASED, Inbox, Query
from mpinodes.core.seeds import Draws, DrawsOfRuns, Purpose
from mpinodes.losses.enforced import Reclipped
from mpinodes.rounds.step import LossOfRuns
from tests.algorithms.test_conformance import VARIANTS, built, vars_of

RUNS, D = 3, 12
# Parts that take one run at a time, and the error with which they refuse more.
ONE_RUN = {
    "gamma-norm": (AttributeError, "at"),  # the norm of a draw is a draw of its own
    "pvp-admm": (
        AttributeError,
        "data_grad|hessian|batch|prox|features|replace|clip",
    ),  # its update minimizes by Newton's method
}


def stacked(items: list[Any]) -> Any:
    """Return states or messages of single runs as one, whose vectors have a leading axis of runs."""
    first = items[0]
    if isinstance(first, np.ndarray):
        return np.stack(items)
    if dataclasses.is_dataclass(first):
        names = [field.name for field in dataclasses.fields(first)]
        return dataclasses.replace(first, **{n: stacked([getattr(item, n) for item in items]) for n in names})
    if isinstance(first, tuple):
        parts = [stacked(list(part)) for part in zip(*items, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)
    return first


def same(together: Any, items: list[Any]) -> None:
    """Require that vectors with a leading axis have the bits of the single vectors, and all other values are equal."""
    first = items[0]
    if isinstance(first, np.ndarray):
        np.testing.assert_array_equal(together, np.stack(items))
    elif dataclasses.is_dataclass(first) or isinstance(first, (tuple, list)):
        parts = [vars_of(item) for item in items]
        for one, others in zip(vars_of(together), zip(*parts, strict=True), strict=True):
            same(one, list(others))
    else:
        assert all(together == item for item in items)


class Given:
    """A loss whose noised gradient is the gradient, for algorithms that noise gradients."""

    def __init__(self, loss: Any) -> None:
        self.gradient = loss.grad


@pytest.mark.parametrize(("name", "variant"), VARIANTS, ids=str)
def test_algorithms(name: str, variant: dict) -> None:
    setup = built(name, variant, problem={"gradient_noise": 0.0})
    algorithm, me, d = setup.algorithm, setup.topology.agents - 1, setup.dimension
    vectors, losses = algorithm.vectors, setup.losses(me)
    rng = np.random.default_rng(0)
    start = rng.standard_normal(d)
    single = [algorithm.init(start.copy()) for _ in range(RUNS)]
    together = algorithm.init(np.stack([start] * RUNS))
    for t in range(1, 6):
        here = setup.topology.neighborhood(t, me)
        k, mine = len(here.senders), here.senders.index(me)
        same(algorithm.message(together, here), [algorithm.message(s, here) for s in single])
        same(algorithm.decision(together), [algorithm.decision(s) for s in single])
        sent = rng.standard_normal((k, RUNS, d * len(vectors)))
        loss, of_runs = losses(t), LossOfRuns([losses(t)] * RUNS)
        if algorithm.noises_gradients:
            loss, of_runs = Given(loss), Given(of_runs)
        scale = rng.uniform(0.5, 1.5)
        boxes = [Inbox(list(one), [1 / k] * k, scale, one[mine], vectors) for one in (*sent.transpose(1, 0, 2), sent)]
        if name in ONE_RUN:
            with pytest.raises(ONE_RUN[name][0], match=ONE_RUN[name][1]):
                algorithm.update(together, here, boxes[-1], of_runs)
            return
        single = [algorithm.update(s, here, box, loss) for s, box in zip(single, boxes[:RUNS], strict=True)]
        together = algorithm.update(together, here, boxes[-1], of_runs)
        same(together, single)


@pytest.mark.parametrize("name", registry.names(registry.MIXINGS))
def test_mixings(name: str) -> None:
    """A mixing computes weights from public facts and scalars, which all runs share; the inbox mixes by them."""
    rng, k = np.random.default_rng(1), 4
    weights, sent = rng.dirichlet(np.ones(k)).tolist(), rng.standard_normal((k, RUNS, 2 * D))
    together = Inbox(list(sent), weights, 1.0, sent[0], ("x", "y"))
    single = [Inbox(list(sent[:, r]), weights, 1.0, sent[0, r], ("x", "y")) for r in range(RUNS)]
    same(together.mix(), [one.mix() for one in single])
    same(together["y"].mix(), [one["y"].mix() for one in single])
    same(together["y"].own, [one["y"].own for one in single])


@pytest.mark.parametrize("name", registry.names(registry.MECHANISMS))
def test_mechanisms(name: str) -> None:
    kind, rng = registry.find(registry.MECHANISMS, name), np.random.default_rng(2)
    values = rng.standard_normal((RUNS, D))

    def mechanism(backend: str = "numpy"):
        known = {"epsilon": 0.7, "constant": None, "backend": backend}
        return kind(**{field.name: known[field.name] for field in dataclasses.fields(kind)})

    def draws() -> list[Draws]:
        return [Draws(bytes([r]) * 32, Purpose.NOISE, 1) for r in range(RUNS)]

    for t in (1, 2, 5):
        single = np.empty((RUNS, D))
        queries = [Query(value, 2.0, 1.0, t, RELEASED, 1.5) for value in (*values, values)]
        events = [
            mechanism().release(query, t, noise, out)
            for query, noise, out in zip(queries[:RUNS], draws(), single, strict=True)
        ]
        out, noise = np.empty((RUNS, D)), DrawsOfRuns(draws())
        if name in ONE_RUN:
            with pytest.raises(ONE_RUN[name][0], match=ONE_RUN[name][1]):
                mechanism().release(queries[-1], t, noise, out)
            return
        event = mechanism().release(queries[-1], t, noise, out)
        assert all(event == one for one in events)
        np.testing.assert_array_equal(out, single)
    if kind.backends != ("numpy",):
        with pytest.raises(AttributeError, match="at"):  # the lattice draws by a generator, which has one key
            mechanism("lattice").release(queries[-1], 1, noise, out)


@pytest.mark.parametrize("name", registry.names(registry.SETS))
def test_sets(name: str) -> None:
    blocks = tuple(slice(k, k + 4) for k in range(0, D, 4))
    feasible = registry.find(registry.SETS, name)(1.5, blocks)
    for size in (0.1, 1.0, 10.0, 1e200):
        x = size * np.random.default_rng(3).standard_normal((2, RUNS, D))
        with np.errstate(over="ignore"):
            same(feasible.project(x), [feasible.project(part) for part in x])
            same(feasible.project(x[0]), [feasible.project(part) for part in x[0]])
            same(feasible.prox_step(x[0], 0.3), [feasible.prox_step(part, 0.3) for part in x[0]])


@pytest.mark.parametrize("name", registry.names(registry.LOSSES))
@pytest.mark.parametrize(("clip", "whole"), [(np.inf, False), (0.3, False), (0.3, True)])
@pytest.mark.parametrize("samples", [1, 5])
def test_losses(name: str, clip: float, whole: bool, samples: int) -> None:
    kind, rng = registry.find(registry.LOSSES, name), np.random.default_rng(4)

    def loss() -> Any:
        targets = rng.integers(0, 3, samples).astype(float) if kind.per_class else rng.choice([-1.0, 1.0], samples)
        return kind(rng.standard_normal((samples, D)), targets, clip, whole, float(samples), 0.1)

    losses = [loss() for _ in range(RUNS)]
    points = rng.standard_normal((RUNS, D * (3 if kind.per_class else 1)))
    for made in (losses, [Reclipped(one, 0.2, whole, 0.1) for one in losses]):
        for block in (slice(None), slice(2, 7)):
            for method in ("grad", "data_grad"):
                single = [getattr(one, method)(x, block) for one, x in zip(made, points, strict=True)]
                same(getattr(LossOfRuns(made), method)(points, block), single)
                if made[0].takes_runs:
                    features, targets = (
                        np.concatenate([getattr(one, of) for one in made]) for of in ("features", "targets")
                    )
                    same(
                        getattr(dataclasses.replace(made[0], features=features, targets=targets), method)(
                            points, block
                        ),
                        single,
                    )
                    shared = [getattr(made[0], method)(x, block) for x in points]
                    same(getattr(made[0], method)(points, block), shared)
    assert losses[0].takes_runs == (samples == 1 and name in ("hinge", "logistic", "absolute", "least-squares"))
