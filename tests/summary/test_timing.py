"""Where the time of a command goes, against the clock."""

from __future__ import annotations

import time

import pytest
from msgspec import structs

from mpinodes.summary.timing import PARTS, Stopwatch
from tests.helpers.records import summary_of
from tests.helpers.running import run_alone


def test_laps_add_up_to_the_clock():
    begun = time.perf_counter()
    watch = Stopwatch(begun)
    for part in PARTS[:3]:
        time.sleep(0.01)
        watch.lap(part)
    seconds = structs.asdict(watch.timing())
    assert min(seconds[part] for part in PARTS[:3]) >= 0.01
    assert seconds["total"] == pytest.approx(sum(seconds[part] for part in PARTS))
    assert seconds["total"] <= time.perf_counter() - begun


@pytest.mark.parametrize("words", [["rounds=40"], ["rounds=10", "repeats=3", "report=false"]])
def test_all_seconds_of_a_command_are_recorded_and_printed(words, tmp_path):
    begun = time.perf_counter()
    result = run_alone("--lockstep", *words, "output.dir=run", cwd=tmp_path)
    clock = time.perf_counter() - begun
    seconds = summary_of(tmp_path / "run")["timing"]
    assert set(seconds) == {*PARTS, "total", "ranks"}
    assert seconds["ranks"] is None
    assert seconds["total"] == pytest.approx(sum(seconds[part] for part in PARTS))
    assert 0.6 * clock < seconds["total"] <= clock  # what is left is the end of the process
    assert f"{seconds['total']:.1f} s in all: start-up {seconds['start_up']:.1f}" in result.out
