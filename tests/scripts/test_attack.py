"""The tables of proven numbers and of bits, in their small form; and that they list what differs."""

from __future__ import annotations

import json
import sys

import pytest

from tests.helpers.running import CHECKOUT, command

ATTACK = CHECKOUT / "scripts" / "attack"


def attack(script: str, *words: object, code: int = 0) -> str:
    done = command([sys.executable, str(ATTACK / script), *map(str, words)], CHECKOUT)
    assert done.code == code, done.out + done.err
    return done.out


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.syspath_prepend(str(ATTACK))
    import tables

    return tables


def test_tables_list_rows_that_are_worse(tmp_path, tables, capsys):
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


def test_bits_list_configurations_that_differ(tmp_path):
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    assert "softmax: dola: " in attack("bits.py", old, "--only", "max")
    assert attack("bits.py", new, "--only", "max", "--compare", old) == "0 of 1 configurations differ\n"
    old.write_text('{"softmax: dola": "another"}')
    assert attack("bits.py", new, "--only", "max", "--compare", old, code=1).endswith("1 of 1 configurations differ\n")
