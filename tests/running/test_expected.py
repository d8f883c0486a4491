"""What a run is said to take, before its first round."""

from __future__ import annotations

import re
import shutil
from types import SimpleNamespace

import pytest

import mpinodes
from mpinodes.core.asked import asked_for
from mpinodes.core.errors import BadInput
from mpinodes.runlog.reader import Reader
from mpinodes.running.estimate import as_comments, in_words, logger_bytes, record_bytes
from mpinodes.running.setup import rehearse, set_up

WORDS = ["algorithm.name=dola", "data.name=unit-ball", "data.total=60", "topology.name=ring", "topology.agents=3"]


@pytest.mark.parametrize("more", [[], ["record.decisions=true", "record.transcript=true"]])
def test_a_record_takes_what_was_expected(more, tmp_path):
    words = [*WORDS, *more, "rounds=7", "report=false", f"output.dir={tmp_path / 'run'}"]
    expected = record_bytes(set_up(asked_for(words), None))
    with Reader(mpinodes.simulate(*words).directory) as record:
        taken = sum(record.read(name).values.nbytes for name in ("round", *record.by_round))
    assert taken <= expected <= taken + 7 * 8  # a loss at all samples is told only of those that stay the same


def test_a_disk_that_is_too_small_is_noticed_before_the_first_round(monkeypatch):
    setup = set_up(asked_for([*WORDS, "rounds=20"]), None)
    rehearse(setup)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    with pytest.raises(BadInput, match=r"output.dir: .* 20 rounds .* kB.* 1 kB left"):
        rehearse(setup)


def test_what_to_expect_is_told_below_the_experiment():
    assert all(line.startswith("# ") for line in as_comments(set_up(asked_for(WORDS), None)).splitlines())
    assert [in_words(size) for size in (10, 1500, 23 * 10**9, 10**15)] == ["0.01 kB", "1.5 kB", "23 GB", "1e+03 TB"]


def test_time_to_finish_grows_with_the_rounds_and_memory_does_not():
    short, long = (set_up(asked_for([*WORDS, "data.epochs=4000", f"rounds={r}"]), None) for r in (20_000, 80_000))
    assert logger_bytes(short) == logger_bytes(long)
    (start, finish), (start_of_long, finish_of_long) = (
        map(float, re.findall(r"([\d.e+]+) s to", as_comments(setup))) for setup in (short, long)
    )
    assert start == start_of_long
    assert finish < finish_of_long < 4 * finish


@pytest.mark.parametrize(("loss", "grows"), [("least-squares", False), ("absolute", True)])
def test_samples_that_never_come_again_are_in_the_memory_that_the_end_takes(loss, grows):
    words = ["algorithm.name=dola", "data.name=olr", f"problem.loss={loss}", "topology.name=ring", "topology.agents=3"]
    few, many = (logger_bytes(set_up(asked_for([*words, f"rounds={r}"]), None)) for r in (200_000, 400_000))
    assert few[0] == many[0]
    assert many[1] - few[1] == grows * 8 * 200_000 * 3 * 22
