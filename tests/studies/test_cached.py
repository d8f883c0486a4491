"""What a worker caches: runs have the same bits with and without it, and every changed dependence is seen."""

from __future__ import annotations

import sys
import threading
from functools import partial
from types import ModuleType

import numpy as np
import pytest

from mpinodes.core import cached as module
from mpinodes.core.asked import asked_for
from mpinodes.core.cached import cached
from mpinodes.evaluation import evaluator
from mpinodes.running import budget
from mpinodes.running.setup import set_up
from mpinodes.studies import sweeping
from mpinodes.studies.pools import one_by_one
from mpinodes.studies.study import Study
from tests.helpers.records import same_bits, summary_of

BASE = {
    "rounds": "4", "topology.agents": "3", "topology.name": "ring", "problem.preset": "digits",
    "algorithm.name": "dola", "privacy.budget.epsilon": "1",
}  # fmt: skip
# Settings on which a budget's noise, a comparator or an account depends, each with another value.
OTHERS = {
    "rounds": "3", "topology.agents": "4", "topology.name": "complete", "algorithm.name": "dpps",
    "privacy.budget.epsilon": "2", "privacy.budget.delta": "1e-3", "privacy.clip": "0.5", "privacy.scale": "0.3",
    "privacy.budget.kept_by": "stopping", "privacy.adjacency": "one-agent", "privacy.tight": "true", "seed": "1",
    "data.seed": "5", "data.partition": "shared", "data.batch": "2", "data.epochs": "2", "data.shuffle": "false",
    "data.name": "unit-ball", "problem.radius": "2", "problem.set": "box", "problem.loss": "hinge",
    "problem.regularizer": "0.1", "problem.average": "false", "step.initial": "0.3", "noise.backend": "lattice",
    "faults.loss": "0.3", "feedback.delay": "2", "feedback.points": "2", "record.decisions": "true",
}  # fmt: skip


@pytest.fixture(autouse=True)
def empty(monkeypatch):
    monkeypatch.setattr(module, "_stored", {})
    monkeypatch.setattr(module, "_size", 0)


@pytest.fixture
def caching(monkeypatch):
    monkeypatch.setattr(module, "is_on", True)


def swept(place, *words):
    base = [f"{key}={value}" for key, value in BASE.items() if not any(word.startswith(f"{key}=") for word in words)]
    study = Study.of([*base, *words, f"output.dir={place}"])
    done = sweeping.sweep(study, one_by_one, one_by_one)
    assert not done.failed
    return {run.name: run for run in (place / "runs").iterdir()}


def test_the_runs_of_a_study_have_the_same_bits_without_the_cache(tmp_path, monkeypatch):
    words = "algorithm.name=dola,dpsda-c", "privacy.budget.epsilon=0.5,2", "seed=0,1"
    runs = swept(tmp_path / "cached", *words)
    assert module._stored
    monkeypatch.setattr(module, "USERS", b"")  # nothing is equal
    others = swept(tmp_path / "computed", *words)
    assert runs.keys() == others.keys()
    for name, run in runs.items():
        assert same_bits(run, others[name]) == []
        assert summary_of(run)["privacy"] == summary_of(others[name])["privacy"]


def test_every_changed_setting_is_seen(tmp_path):
    swept(tmp_path / "first")
    for key, value in OTHERS.items():
        (one,) = swept(tmp_path / key, f"{key}={value}").values()
        stored, module._stored = module._stored, {}
        (other,) = swept(tmp_path / f"{key}-again", f"{key}={value}").values()
        module._stored = stored
        assert same_bits(one, other) == [], key


def test_what_does_not_depend_on_seed_or_budget_is_computed_once(monkeypatch, caching):
    numbers = []
    computed = budget.events
    monkeypatch.setattr(budget, "events", lambda setup: numbers.append(setup) or computed(setup))
    for epsilon, seed in ((1, 0), (2, 0), (1, 1)):
        words = (BASE | {"privacy.budget.epsilon": epsilon, "seed": seed}).items()
        set_up(asked_for([f"{key}={value}" for key, value in words]), None)
    exact = 3  # the events at the nominal epsilon that each search chooses
    assert 1 <= len(numbers) <= 1 + exact


def test_runs_with_the_same_data_share_their_comparators(tmp_path, monkeypatch):
    solved, solve = [], evaluator.best
    monkeypatch.setattr(evaluator, "best", lambda *of: solved.append(1) or solve(*of))
    swept(tmp_path / "one")
    alone = len(solved)
    swept(tmp_path / "all", "algorithm.name=dola,dpps", "privacy.budget.epsilon=1,2", "topology.name=ring,complete")
    assert 0 < alone == len(solved)
    swept(tmp_path / "others", "seed=1")
    assert len(solved) == 2 * alone


def test_equal_content_is_computed_once_and_every_use_has_a_copy(monkeypatch, caching):
    computed = []

    def compute(value):
        computed.append(value)
        return [value.sum(), float]

    first, again, other = (
        cached(partial(compute, x), lambda x=x: ("sum", x)) for x in (np.ones(3), np.ones(3), np.zeros(3))
    )
    assert len(computed) == 2
    assert first == again == [3.0, float]
    assert first is not again
    assert other == [0.0, float]
    monkeypatch.setattr(module, "is_on", False)
    cached(partial(compute, np.ones(3)), lambda: ("sum", np.ones(3)))
    assert len(computed) == 3


def test_values_without_content_are_never_equal(caching):
    lock = threading.Lock()
    assert [cached(lambda k=k: k, lambda: lock) for k in range(3)] == [0, 1, 2]


def test_classes_of_users_files_are_never_equal(monkeypatch, caching):
    """Two files of a study may have the same name, and so two classes the same pickle."""
    results = []
    for k in range(2):
        file = ModuleType("mpinodes_user_loss")
        file.Loss = type("Loss", (), {"__module__": file.__name__})
        monkeypatch.setitem(sys.modules, file.__name__, file)
        results.append(cached(lambda k=k: k, lambda file=file: file.Loss))
    assert results == [0, 1]


def test_the_cache_is_bounded(monkeypatch, caching):
    monkeypatch.setattr(module, "MOST", 10_000)
    for k in range(50):
        cached(lambda: b"0" * 1000, lambda k=k: k)
    assert 5_000 < sum(len(result) for result in module._stored.values()) == module._size <= module.MOST
    cached(lambda: b"0" * 20_000, lambda: "large")
    assert module._size == 0
