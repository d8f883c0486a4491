"""What the summary of repeats says, key by key."""

from __future__ import annotations

import json

import numpy as np
import pytest

import mpinodes
from mpinodes.core import experiment as ex
from mpinodes.evaluation import accounting, evaluator
from mpinodes.metrics.built_in import BUILT_IN
from mpinodes.running import closing
from mpinodes.summary.combining import combine, largest, least, mean, same, spreads, total, worst

ADMM = "algorithm.name=pp-admm rounds=8 data.total=700 problem.weight=30 repeats=3 report=false"


def repeated(words: str, where) -> tuple[dict, list[dict]]:
    run = mpinodes.run_lockstep(ex.parse(None, [*words.split(), f"output.dir={where}/run"]))
    of_each = [json.loads((place / "summary.json").read_text()) for place in sorted(run.glob("repeat-*"))]
    return json.loads((run / "summary.json").read_text()), of_each


def test_rules():
    assert (same([3, 3]), same(["a", "b"])) == (3, None)
    assert (mean([1.0, 4.0]), mean([[1.0, 2.0], [3.0, 4.0]]), mean([1.0, None])) == (2.5, [2.0, 3.0], None)
    assert (total([1, 2]), total([[1, 2], [3, 4]]), total([1, None])) == (3, [4, 6], None)
    assert (largest([1, None, 3]), least([1, None, 3]), largest([None])) == (3, 1, None)
    assert (worst([1.0, 3.0]), worst([1.0, None])) == (3.0, None)
    rules = {"a": mean, "b": {"c": mean, "d": largest}}
    runs = [{"a": [1.0, 3.0], "b": {"c": 1.0, "d": 5}}, {"a": [2.0, 6.0], "b": {"c": 2.0, "d": 4}}]
    assert combine(rules, runs) == {"a": [1.5, 4.5], "b": {"c": 1.5, "d": 5}}
    half = {"std": np.sqrt(0.5), "min": 1.0, "max": 2.0}
    assert spreads(rules, runs) == {"a": {"std": np.sqrt(2), "min": 2.0, "max": 4.0}, "b": {"c": half}}
    assert combine(rules, [{"b": None}, {"b": None}]) == {"b": None}


def test_what_has_no_rule_is_refused():
    with pytest.raises(LookupError, match="'new' combine"):
        combine({}, [{"new": 1}])


@pytest.mark.parametrize("words", ["data.name=olr rounds=9 repeats=2 report=false record.dynamic_regret=true", ADMM])
def test_every_key_of_a_summary_has_a_rule(words, tmp_path):
    whole, of_each = repeated(words, tmp_path)
    rules = {**closing.FACTS, **evaluator.rules(BUILT_IN), **accounting.RULES}
    assert set(of_each[0]) <= set(rules)
    assert set(whole) == set(of_each[0]) | {"repeats", "seeds", "spread"}


def test_of_solvers_no_repeat_hides_what_another_left_unsolved(tmp_path):
    whole, of_each = repeated(ADMM, tmp_path)
    solvers = [s["solver"] for s in of_each]
    assert whole["solver"]["largest_residual"] == max(s["largest_residual"] for s in solvers)
    assert whole["solver"]["most_steps"] == max(s["most_steps"] for s in solvers)
    assert whole["solver"]["steps"] == pytest.approx(np.mean([s["steps"] for s in solvers]))
    failed = [s | {"solver": s["solver"] | {"unsolved": k}} for k, s in enumerate(of_each)]
    failed[1]["privacy"] = json.loads(json.dumps(failed[1]["privacy"]))
    failed[1]["privacy"]["unproven_because"] = "a local solver ended short of its tolerance"
    failed[1]["privacy"]["network"] |= {"proven": None, "rule": "unproven"}
    found = closing.combined(BUILT_IN, failed)
    assert found["solver"]["unsolved"] == 3
    assert found["privacy"]["unproven_because"]
    assert (found["privacy"]["network"]["proven"], found["privacy"]["network"]["rule"]) == (None, "unproven")


def test_numbers_are_means_and_privacy_the_worst(tmp_path):
    whole, of_each = repeated("rounds=9 data.name=olr repeats=3 report=false", tmp_path)
    for key in ("network_regret", "average_fitness", "consensus_error", "network_regret_per_round"):
        values = [s[key] for s in of_each]
        assert whole[key] == pytest.approx(np.mean(values), rel=1e-12)
        assert whole["spread"][key]["max"] == max(values)
    assert whole["comparator"]["certificate"] == max(s["comparator"]["certificate"] for s in of_each)
    assert whole["privacy"]["network"]["proven"] == max(s["privacy"]["network"]["proven"] for s in of_each)
    assert whole["privacy"]["noise"]["scale"] == max(s["privacy"]["noise"]["scale"] for s in of_each)
    assert (whole["seed"], whole["seeds"]) == (0, [0, 1, 2])
