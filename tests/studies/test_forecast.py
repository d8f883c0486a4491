"""The order of the runs of a study, and the time that the study says is left."""

from __future__ import annotations

import heapq
import statistics
from collections import Counter
from types import SimpleNamespace

import pytest

from mpinodes.studies.forecast import Forecast, Timed, in_order, kind, size, timed


def plan(algorithm="dola", rounds=100, agents=4, dimension=10, is_ready=True, seed=0):
    parts = {"algorithm": {"name": algorithm}, "data": {"name": "digits", "batch": 1}, "topology": {"name": "ring"}}
    e = SimpleNamespace(**parts, rounds=rounds, seed=seed)
    return SimpleNamespace(experiment=e, agents=agents, dimension=dimension, is_ready=is_ready, seed=seed)


def study(seconds, seeds):
    """Plans by a table of the seconds of a run by its settings, and those seconds by plan."""
    plans = [plan(*settings, is_ready=seed == 0, seed=seed) for settings in seconds for seed in range(seeds)]
    return plans, {id(one): each * (1 if one.is_ready else 1.5) for one, each in
                   zip(plans, [s for s in seconds.values() for _ in range(seeds)], strict=True)}  # fmt: skip


def error(plans, seconds, workers=2, importing=0.05):
    """The relative error of the time left, predicted after the first tenth of the runs, on simulated workers."""
    now = [0.0]
    queue = in_order(plans)
    forecast = Forecast(queue, workers, lambda: now[0])
    busy, fresh, k, done, noted = [(0.0, w, None, 0.0) for w in range(workers)], {*range(workers)}, 0, 0, None
    while busy:
        now[0], worker, ended, took = heapq.heappop(busy)
        if ended is not None:
            forecast.done(ended, Timed("", took))
            done += 1
            if done == -(-len(plans) // 10):
                noted = now[0], forecast.left()
        if k < len(queue):
            took = seconds[id(queue[k])] + importing * (worker in fresh)
            fresh.discard(worker)
            heapq.heappush(busy, (now[0] + took, worker, k, took))
            k += 1
    at, left = noted
    assert forecast.left() == pytest.approx(0.0, abs=max(seconds.values()))
    return abs(left - (now[0] - at)) / (now[0] - at)


def test_after_a_tenth_of_a_study_the_time_left_is_known_within_a_third():
    tables = [
        study({("dola",): 0.2}, 60),
        study({("dola",): 0.2, ("dpps",): 1.0}, 20),
        study({("dola",): 0.1, ("dpps",): 3.0, ("dpsda-c",): 0.5}, 30),
        study({("dola", r): 0.1 + r / 2000 for r in (100, 200, 400, 800, 1600)}, 10),
        study({("dola", r): 0.1 + r / 2000 for r in (1600, 800, 400, 200, 100)}, 10),
        study({("dpps", 200, n): 0.1 + n / 50 for n in (3, 7, 15, 31)}, 15),
        study({(name, 100, n): c * (1 + n / 10) for name, c in (("a", 0.1), ("b", 2.0)) for n in (4, 8)}, 12),
        study({(f"method-{k}",): 0.1 * k for k in range(1, 10)}, 8),
        study({(f"method-{k}", 100 * k): 0.05 * k * k for k in range(1, 7)}, 6),
        study({("dola", r): 0.1 + r / 500 for r in (1000, 10000)}, 20),
    ]
    errors = [error(*table, workers) for table in tables for workers in (1, 2, 4)]
    assert statistics.median(errors) < 1 / 6
    assert statistics.quantiles(errors, n=10)[-1] < 2 / 3


def test_the_first_runs_are_one_of_each_kind_and_the_others_start_with_the_longest():
    plans, _ = study({("dola", r): 1.0 for r in (100, 400, 200)} | {("dpps", 300): 1.0}, 4)
    ordered = in_order(plans)
    assert Counter(map(id, ordered)) == Counter(map(id, plans))
    kinds = {kind(one) for one in plans}
    assert {kind(one) for one in ordered[: len(kinds)]} == kinds
    others = [size(one) for one in ordered[len(kinds) :]]
    assert others == sorted(others, reverse=True)
    assert in_order(plans) == ordered  # a continued study has the order of a new one


def test_no_time_is_told_before_a_run_is_done_and_a_worker_that_died_tells_none():
    plans, _ = study({("dola",): 1.0}, 3)
    now = [0.0]
    forecast = Forecast(plans, 1, lambda: now[0])
    assert forecast.left() is None
    forecast.done(0, None)
    assert forecast.left() is None
    now[0] = 5.0
    forecast.done(1, Timed("", 5.0))
    assert forecast.left() == pytest.approx(5.0)
    forecast.done(2, Timed("failed", 5.0))
    assert forecast.left() == pytest.approx(0.0, abs=5.0)
    assert timed(len, "abc").result == 3
