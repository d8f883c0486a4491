"""Runs watched from another process."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time

import pytest

from mpinodes import report
from mpinodes.core.errors import BadInput
from mpinodes.running import monitor as watching
from tests.helpers.parts import run_of
from tests.helpers.running import mpirun, run_alone
from tests.helpers.slow import slow


def test_a_running_job_is_told_of_until_it_ends(tmp_path):
    (tmp_path / "slow.py").write_text(slow("0.1"))
    words = ["algorithm.path=slow.py", "topology.name=ring", "data.total=140", "rounds=70"]
    words += ["record.chunk=1", "output.dir=run", "report=false"]
    job = subprocess.Popen(
        [*mpirun(), "-n", "3", sys.executable, "-m", "mpinodes.run", *words], cwd=tmp_path, stdout=subprocess.DEVNULL
    )
    done = run_alone("run", "./run", cwd=tmp_path, module="mpinodes.watch")
    assert job.wait(60) == 0
    assert done.code == 0, done.err
    told = [line for line in done.out.splitlines() if ": round " in line]
    assert told, done.out
    assert any(" of 70, F/T " in line and " s left" in line for line in told)
    assert sum("run: done, 70 rounds in " in line for line in done.out.splitlines()) == 2


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def watched(tmp_path, monkeypatch):
    monkeypatch.setattr(watching, "SECONDS", 0.01)

    def told(*runs: str, terminal: bool = False) -> tuple[int, str]:
        out = Terminal() if terminal else io.StringIO()
        return watching.watch([tmp_path / run for run in runs], out), out.getvalue()

    return told


def test_what_it_works_out_is_what_the_run_will_say(tmp_path):
    for words in ("rounds=9 data.total=700 data.batch=5", "algorithm.name=dpsda-ps rounds=12"):
        run = run_of(tmp_path / words.partition("=")[0], words)
        summary = json.loads((run / "summary.json").read_text())
        worked, rounds = watching.Worked(run), summary["rounds"]
        regret = summary["average_fitness"] - worked.least(rounds)
        assert regret == pytest.approx(summary["network_regret_per_round"], rel=1e-5)
        network = summary["privacy"]["network"]
        assert worked.epsilon(rounds) == (
            f"ε claimed {watching.number(network['claimed'])}, proven {watching.number(network['proven'])}"
        )


def test_what_is_done_after_the_rounds_and_failures_are_told(tmp_path, watched):
    run = tmp_path / "run"
    run.mkdir()
    line = {"round": 30, "rounds": 30, "average_fitness": 0.5, "rounds_per_second": 9.0}
    (run / "progress.jsonl").write_text(json.dumps(line | {"finishing": "comparators", "done": 3, "of": 8}) + "\n{")
    assert watching.Watched(run).look() == "run: all 30 rounds done; comparators, 3 of 8 horizons"
    (run / "progress.jsonl").write_text(json.dumps(line) + "\n")
    assert "round 30 of 30, F/T 0.5, 9 rounds/s, rounds done; comparators are next" in watching.Watched(run).look()
    (run / "failed.txt").write_text("error: agent 1 (rank 1): planted \x1b[31m\n")
    code, told = watched("run")
    assert (code, told) == (1, "run: ended without a result: error: agent 1 (rank 1): planted  [31m\n")


def test_repeats_silence_and_a_directory_that_never_comes(tmp_path, watched, monkeypatch):
    place = tmp_path / "run" / "repeat-1"
    place.mkdir(parents=True)
    line = {"round": 3, "rounds": 30, "average_fitness": None, "rounds_per_second": 9.0}
    (place / "progress.jsonl").write_text(json.dumps(line) + "\n")
    assert watching.Watched(tmp_path / "run").look() == "run: repeat 1: round 3 of 30, 9 rounds/s, 3 s left"
    monkeypatch.setattr(watching, "SILENCE", 0.05)
    monkeypatch.setattr(watching, "UNBEGUN", 0.05)
    begun = time.monotonic()
    code, told = watched("run", "nothing")
    assert code == 1
    assert told.count("it counts as ended") == 2
    assert "nothing: no run has begun there" in told
    assert time.monotonic() - begun < 5


def test_a_run_that_nobody_is_at_work_on_has_ended(tmp_path, watched, monkeypatch):
    """A failed one, whose algorithm of the user's raises where ε is worked out too, and one that was killed."""
    monkeypatch.setattr(watching, "LEFT", 0.3)
    (tmp_path / "bad.py").write_text(slow("0 / (here.t < 9)"))
    words = f"algorithm.path={tmp_path / 'bad.py'} topology.name=ring rounds=12 data.total=700 record.chunk=1"
    with pytest.raises(ZeroDivisionError):
        run_of(tmp_path / "run", words)
    code, told = watched("run")
    assert code == 1
    assert "run: nobody is at work on it, and there is no result: it counts as ended" in told
    assert report.main([str(tmp_path / "run")]) == 0
    code, told = watched("run")
    assert code == 1
    assert told.startswith("run: ended before its time, with ")


@pytest.mark.parametrize("what", ["a file", "a directory of runs"])
def test_what_is_there_and_no_run_is_refused(what, tmp_path, watched):
    path = tmp_path / "it"
    if what == "a file":
        path.write_text("1,2\n")
    else:
        (path / "run").mkdir(parents=True)
    with pytest.raises(BadInput, match="not the directory of a run"):
        watched("it")


def test_a_finished_run_is_told_of_at_once_and_on_a_terminal_in_its_place(tmp_path, watched):
    run_of(tmp_path / "run", "rounds=4 data.total=700")
    code, told = watched("run")
    assert code == 0
    assert told.startswith("run: done, 4 rounds in ")
    assert told.rstrip().endswith("ε claimed 1, proven 1")
    code, told = watched("run", terminal=True)
    assert (code, told.count("\x1b[K\n")) == (0, 1)
