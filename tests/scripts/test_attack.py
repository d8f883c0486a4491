"""The attack on proven numbers, in its small form; and that it refutes a part whose statements are wrong."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.helpers.running import CHECKOUT, script_here

ATTACK = CHECKOUT / "scripts" / "attack"


def attack(script: str, *words: object) -> str:
    done = script_here(ATTACK / script, *map(str, words), cwd=CHECKOUT)
    assert done.code == 0, done.out + done.err
    return done.out


@pytest.fixture
def modules(monkeypatch):
    monkeypatch.syspath_prepend(str(ATTACK))
    import generated
    import search
    import templates

    return generated, search, templates


def test_no_generated_set_up_reveals_more_than_it_prints(tmp_path):
    out = tmp_path / "results.jsonl"
    first = attack("generated.py", "--sets", 40, "--seconds", 30, "--out", out)
    report = attack("generated.py", "--sets", 100, "--seconds", 30, "--out", out).splitlines()
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    kinds = [line.split("  ")[0] for line in report[1:11]]
    assert len(kinds) == 10
    assert {row["kind"] for row in rows} == set(kinds[:-1])
    assert len({(row["kind"], row["number"]) for row in rows}) == len(rows)  # the second command went on
    assert len(first.splitlines()) >= 11
    assert sum(row["status"] == "proven" for row in rows) >= 0.6 * len(rows)


@pytest.mark.parametrize(("law", "wrong"), [("laplace", 2.0), ("gamma-norm", 1.5), ("gaussian", 4.0)])
def test_a_sensitivity_that_is_stated_too_small_is_refuted(law, wrong, modules, tmp_path):
    _, search, templates = modules
    import kinds

    rng = np.random.default_rng(0)
    text = templates.momentum(law, "z", 0.0, noise="l2 / self.run.epsilon" if law == "gaussian" else "None")
    text = text.replace("l2, regularizer = a *", f"l2, regularizer = a / {wrong} *")
    spec = search.Spec(2, 20, 1)
    asked = kinds.base(
        rng, spec, rounds=6, data={"shuffle": False}, algorithm=kinds.part(tmp_path, "algorithm", text),
        problem={"loss": "least-squares", "radius": 50.0}, privacy={"mechanism": law},
    )  # fmt: skip
    asked["privacy"] |= {"adjacency": "one-sample", "clip": 0.5}
    result = search.attack(search.Case("wrong", asked, spec), rng, tmp_path, 20)
    assert result.ratio == pytest.approx(wrong, rel=1e-3), result


def test_a_set_up_is_attacked_again_from_its_number(modules, tmp_path):
    generated, *_ = modules
    assert generated.attacked("own streams", 3, 0) == generated.attacked("own streams", 3, 0)


def test_tables_list_rows_that_are_worse(tmp_path, modules, capsys):
    import tables

    path = tmp_path / "table.json"
    assert "dola | laplace | one-sample | default: pure 1, " in attack("tables.py", path, "--only", "dola")
    new = json.loads(path.read_text())
    assert tables.compared(new, new) == 0
    smaller, unproven = "dola | laplace | one-sample | default", "dola | laplace | one-round | default"
    old = new | {smaller: {**new[smaller], "proven_pure": 0.5}, unproven: {"status": "unproven", "reason": "nothing"}}
    assert tables.compared(old, new) == 1
    report = capsys.readouterr().out.splitlines()
    assert report[1:3] == [f"WORSE: {smaller}", "    old: pure 0.5, at delta 1 by pure"]
    assert report[4] == f"differs: {unproven}"
    assert tables.compared(new, old) == 1  # what was proven is not
