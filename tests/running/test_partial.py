"""A run that was ended before its time: what its record tells of it."""

from __future__ import annotations

import numpy as np
import pytest

import mpinodes
from mpinodes import compare, report, run, spent
from mpinodes.presentation.privacy_words import lines
from mpinodes.runlog.directories import held
from mpinodes.running import monitor as watching
from tests.helpers.parts import run_of
from tests.helpers.records import summary_of, typed
from tests.running.test_resuming import SMALL, differences, go_on, killed


@pytest.mark.parametrize("decisions", [True, False])
def test_a_killed_run_has_a_summary_and_a_page_of_its_rounds(decisions, request, monkeypatch, tmp_path, capsys):
    words = f"{SMALL.partition('checkpoint')[0]} record.decisions={str(decisions).lower()}"
    other = killed(monkeypatch, tmp_path / "other", words, 18)
    rounds = mpinodes.load(other).sizes["round"]
    whole = run_of(tmp_path / "short", words.replace("rounds=24", f"rounds={rounds}"))
    if not decisions:
        request.getfixturevalue("undrawn")
    assert report.main([str(other)]) == 0
    assert capsys.readouterr().out.strip() == str(other / "report.html")
    one, two = summary_of(whole), summary_of(other)
    assert (two["partial"], two["rounds"], two["rounds_asked"]) == (True, rounds, 24)
    assert not one["partial"]
    assert two["network_regret"] == pytest.approx(one["network_regret"], rel=1e-7)
    assert two["privacy"] == one["privacy"] | {"recorded": rounds}
    assert (two["accuracy"] is None) == (not decisions)
    assert (two["agent_regret"] is None) == (not decisions)
    if decisions:
        assert two["accuracy"] == one["accuracy"]
    record = mpinodes.load(other)
    assert record.horizon.values[-1] == record.sizes["round"] == rounds
    assert not any(np.isnan(of.values).all() for name, of in record.items() if name.startswith(("network", "loss")))
    page = (other / "report.html").read_text()
    assert f"the {rounds} of its 24 rounds that are" in page
    cover = f"All numbers cover only the recorded rounds 1 to {rounds}: the run ended early"
    assert cover in page
    said, whole_said = (" ".join(" ".join(lines(typed(s).privacy, None)).split()) for s in (two, one))
    assert cover in said
    assert f"every link in rounds 1 to {rounds}, which are recorded" in said
    assert "recorded" not in whole_said
    assert "recorded rounds" in watching.result(typed(two), other)
    assert "recorded" not in watching.result(typed(one), whole)
    assert ">nan" not in page
    assert f"{rounds} rounds (of 24: the run ended early)" in page
    request.getfixturevalue("undrawn")
    assert report.main([str(other)]) == 0


@pytest.mark.parametrize("words", ["", " repeats=2"])
def test_of_two_at_work_on_a_run_one_is_refused(words, monkeypatch, tmp_path, capfd):
    """A page made of a run that goes on, or a second --resume, would take its record away."""
    one, other = run_of(tmp_path / "one", SMALL + words), killed(monkeypatch, tmp_path / "other", SMALL + words, 18)
    monkeypatch.setattr(held.__wrapped__, "__defaults__", (0.1,))
    with held(other):
        for command in (
            report.main, lambda words: run.main(["--lockstep", "--resume", *words]),
            *([lambda words: report.main([f"{words[0]}/repeat-0"])] if words else []),
        ):  # fmt: skip
            assert command([str(other)]) == 2
            assert "another process is at work on this run" in capfd.readouterr().err
    go_on(other)
    assert differences(one, other) == []


def test_it_is_not_taken_for_a_finished_one_and_goes_on(monkeypatch, tmp_path, capsys, undrawn):
    one, other = run_of(tmp_path / "one", SMALL), killed(monkeypatch, tmp_path / "other", SMALL, 18)
    assert report.main([str(other)]) == 0
    assert compare.main([str(one), str(other)]) == 2
    assert spent.main([str(one), str(other)]) == 2
    assert f"{other} ended after" in capsys.readouterr().err
    go_on(other)
    assert differences(one, other) == []


def test_of_repeats_each_that_was_begun_has_its_own(monkeypatch, tmp_path, capsys, undrawn):
    other = killed(monkeypatch, tmp_path / "other", f"{SMALL} repeats=3", 18, seed=1)
    assert report.main([str(other)]) == 0
    assert capsys.readouterr().out.split() == [str(other / f"repeat-{r}" / "report.html") for r in (0, 1)]
    assert [summary_of(other / f"repeat-{r}")["partial"] for r in (0, 1)] == [False, True]


def test_a_run_without_a_round_has_none(monkeypatch, tmp_path, capsys):
    assert report.main([str(killed(monkeypatch, tmp_path / "run", SMALL, 1))]) == 2
    assert "no round of the run is recorded" in capsys.readouterr().err
