"""What the summary of repeats says, key by key."""

from __future__ import annotations

import json
from typing import get_args, get_type_hints

import numpy as np
import pytest

import mpinodes
from mpinodes.core.asked import nested, parse
from mpinodes.metrics.built_in import BUILT_IN
from mpinodes.running import closing
from mpinodes.summary.merging import largest, least, mean, merged, rule_of, same, total, worst
from mpinodes.summary.summary import BaselinesSummary, StartSummary, Summary, WorthSummary
from tests.helpers.records import typed

ADMM = "algorithm.name=pp-admm rounds=8 data.total=700 problem.weight=30 repeats=3 report=false"


def repeated(words: str, where) -> tuple[dict, list[dict]]:
    run = mpinodes.run_lockstep(parse(None, [*words.split(), f"output.dir={where}/run"]))
    of_each = [json.loads((place / "summary.json").read_text()) for place in sorted(run.glob("repeat-*"))]
    return json.loads((run / "summary.json").read_text()), of_each


def test_rules():
    assert (same([3, 3]), same(["a", "b"])) == (3, None)
    assert (mean([1.0, 4.0]), mean([[1.0, 2.0], [3.0, 4.0]]), mean([1.0, None])) == (2.5, [2.0, 3.0], None)
    assert (total([1, 2]), total([[1, 2], [3, 4]]), total([1, None])) == (3, [4, 6], None)
    assert (largest([1, None, 3]), least([1, None, 3]), largest([None])) == (3, 1, None)
    assert (worst([1.0, 3.0]), worst([1.0, None])) == (3.0, None)
    runs = [
        worth([1.0, 3.0], BaselinesSummary(majority={"test": 1.0}, start=StartSummary(average_fitness=5.0))),
        worth([2.0, 6.0], BaselinesSummary(majority={"test": 2.0}, start=StartSummary(average_fitness=None))),
    ]
    whole, spread = merged(runs, {"a.b": mean, "c": largest})
    assert whole.values == {"a.b": [1.5, 4.5], "c": 6.0}
    assert whole.baselines == BaselinesSummary(majority={"test": 1.5}, start=StartSummary(average_fitness=None))
    half = {"std": np.sqrt(0.5), "min": 1.0, "max": 2.0}
    assert nested(spread) == {
        "a": {"b": {"std": np.sqrt(2), "min": 2.0, "max": 4.0}}, "baselines": {"majority": {"test": half}},
    }  # fmt: skip
    assert merged([worth(None, None), worth(None, None)], {"a.b": mean})[0].baselines is None


def worth(values, baselines) -> WorthSummary:
    return WorthSummary(values={"a.b": values, "c": max(values or [0.0])}, baselines=baselines, metrics=[])


def parts(kind) -> set[type]:
    """A class of a summary, and all within it that is merged field by field."""
    hints = get_type_hints(kind, include_extras=True).values()
    inner = {one for hint in hints if not rule_of(hint) for one in (hint, *get_args(hint))}
    return {kind}.union(*(parts(one) for one in inner if hasattr(one, "__struct_fields__")))


def test_every_field_of_a_summary_has_a_rule_or_is_merged_field_by_field():
    of_the_whole = {"repeats", "seeds", "spread"}
    assert len(parts(Summary)) == 10
    for kind in parts(Summary):
        for name, hint in get_type_hints(kind, include_extras=True).items():
            is_struct = any(hasattr(one, "__struct_fields__") for one in (hint, *get_args(hint)))
            assert rule_of(hint) or is_struct or name in of_the_whole, (kind, name)


@pytest.mark.parametrize("words", ["data.name=olr rounds=9 repeats=2 report=false record.dynamic_regret=true", ADMM])
def test_a_summary_of_repeats_has_the_keys_of_each(words, tmp_path):
    whole, of_each = repeated(words, tmp_path)
    assert set(whole) == set(of_each[0]) | {"repeats", "seeds", "spread"}


@pytest.mark.parametrize("words", ["data.name=olr rounds=9 repeats=2 report=false faults.loss=0.1", ADMM])
def test_a_summary_is_read_as_it_was_written(words, tmp_path):
    repeated(words, tmp_path)
    assert Summary.read(tmp_path / "run").json() == (tmp_path / "run" / "summary.json").read_bytes()


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
    found = closing.combined(BUILT_IN, [typed(tree) for tree in failed])
    assert found.solver.unsolved == 3
    assert found.privacy.unproven_because
    assert (found.privacy.network.proven, found.privacy.network.rule) == (None, "unproven")


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
