"""A study done: in lockstep, by ranks, by mpirun; cut short and taken up; what fails, and what cannot be."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest

import mpinodes.studies
from mpinodes.core.asked import asked_for
from mpinodes.core.errors import BadInput
from mpinodes.core.messages import HEADER
from mpinodes.running.setup import set_up
from mpinodes.studies import slurm, sweeping
from mpinodes.studies.pools import one_by_one
from mpinodes.studies.study import Study
from tests.helpers.records import same_bits, summary_of
from tests.helpers.running import CHECKOUT, Done, command, run_alone, run_here, run_mpi

SMALL = ["rounds=8", "data.name=digits", "topology.agents=3", "topology.name=ring"]
DOOMED = CHECKOUT / "tests" / "helpers" / "user_files" / "doomed.py"


def swept(place: Path, *words: str) -> sweeping.Swept:
    """A study, in this process."""
    return sweeping.sweep(Study.of([*SMALL, *words, f"output.dir={place}"]), one_by_one, one_by_one)


def by_command(*words: str, cwd: Path) -> Done:
    """A study, by worker processes of this process."""
    return run_here(*SMALL, *words, cwd=cwd, module="mpinodes.sweep")


def runs_of(place: Path) -> dict[str, Path]:
    """By the digits that their names end with."""
    return {run.name.rpartition("-")[2]: run for run in (place / "runs").iterdir()}


def table_of(place: Path) -> list[dict[str, str]]:
    with (place / "table.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def noise_of(run: Path) -> str:
    head = (run / "experiment.toml").read_text().partition("\n")[0]
    assert head.startswith("# noise ")
    return head


@pytest.fixture(scope="module")
def two_by_two(tmp_path_factory):
    """Done by the command, by worker processes."""
    place = tmp_path_factory.mktemp("studies") / "two"
    words = [*SMALL, "algorithm.name=dola,dpsda-c", "seed=0,1", f"output.dir={place}"]
    done = run_alone(*words, cwd=place.parent, module="mpinodes.sweep")
    assert done.code == 0, done.err
    assert "4 runs: 4 done now, 0 failed" in done.out
    return place


def test_runs_are_found_by_their_settings(two_by_two):
    names = {run.name.rpartition("-")[0] for run in (two_by_two / "runs").iterdir()}
    assert names == {"dola-seed0", "dola-seed1", "dpsda-c-seed0", "dpsda-c-seed1"}
    table = table_of(two_by_two)
    assert [(row["algorithm.name"], row["seed"], row["state"]) for row in table] == [
        ("dola", "0", "done"), ("dola", "1", "done"), ("dpsda-c", "0", "done"), ("dpsda-c", "1", "done"),
    ]  # fmt: skip
    for row in table:
        summary = summary_of(two_by_two / "runs" / row["run"])
        assert float(row["epsilon_proven"]) == summary["privacy"]["network"]["proven"]
        scalars = 1 if row["algorithm.name"] == "dola" else 0  # its degree
        words = HEADER + summary["dimension"] + scalars
        assert int(row["bytes_sent"]) == summary["bytes_sent"] == 8 * words * 6 * 8  # 6 edges, 8 rounds


def test_seeds_pair_everything_but_noise(two_by_two):
    noises = [noise_of(run) for run in runs_of(two_by_two).values()]
    assert len(set(noises)) == len(noises) == 4


def test_ranks_of_a_job_and_mpirun_make_the_same_bits(two_by_two, tmp_path):
    words = [*SMALL, "algorithm.name=dola,dpsda-c", "seed=0,1"]
    over = run_mpi(3, *words, f"output.dir={tmp_path}/over", cwd=tmp_path, module="mpinodes.sweep")
    assert over.code == 0, over.err
    fewer = ["study.exclude=[{seed=1}]", f"output.dir={tmp_path}/each"]
    each = run_here("--mpi", *words, *fewer, cwd=tmp_path, module="mpinodes.sweep")
    assert each.code == 0, each.err
    reference = runs_of(two_by_two)
    for place, number in ((tmp_path / "over", 4), (tmp_path / "each", 2)):
        made = runs_of(place)
        assert len(made) == number
        for digits, run in made.items():
            assert same_bits(run, reference[digits]) == []
            assert (run / "experiment.toml").read_bytes() == (reference[digits] / "experiment.toml").read_bytes()


def test_what_is_done_is_done_once_and_what_was_cut_short_anew(tmp_path):
    place = tmp_path / "study"
    swept(place, "algorithm.name=dola", "seed=0,1")
    one, other = sorted((place / "runs").iterdir())
    (other / "summary.json").write_text((other / "summary.json").read_text()[:200])
    (other / "left.over").touch()
    stamp = (one / "summary.json").stat().st_mtime_ns
    again = swept(place, "algorithm.name=dola", "seed=0,1,2")
    assert (len(again.plans), again.before, again.failed) == (3, 1, {})
    assert (one / "summary.json").stat().st_mtime_ns == stamp
    assert summary_of(other)["rounds"] == 8
    assert not (other / "left.over").exists()
    # another experiment has a place of its own, and the old runs stay
    more = swept(place, "algorithm.name=dola", "seed=0,1", "rounds=9")
    assert (len(more.plans), more.before) == (2, 0)
    assert len(list((place / "runs").iterdir())) == 5
    assert len(table_of(place)) == 2


FILES = {
    "one file": (["x.npz"], ["data.file=x.npz"]),
    "a file for each agent": (["a0.npz", "a1.npz", "a2.npz"], ["data.file=a{agent}.npz"]),
    "files of one name": (["one/x.npz", "two/x.npz"], ["data.file=one/x.npz,two/x.npz"]),
}


@pytest.mark.parametrize("name", FILES)
def test_a_study_goes_on_after_its_folder_moved(name, tmp_path, monkeypatch):
    files, words = FILES[name]
    rng = np.random.default_rng(0)
    for file in files:
        (tmp_path / "here" / file).parent.mkdir(parents=True, exist_ok=True)
        np.savez(tmp_path / "here" / file, features=rng.normal(size=(90, 3)), targets=rng.choice([-1.0, 1.0], 90))

    def again(folder: str, *more: str) -> tuple[int, int]:
        monkeypatch.chdir(tmp_path / folder)
        asked = ["algorithm.name=dola", "rounds=8", "topology.agents=3", "topology.name=ring", "data.labels=[-1,1]"]
        study = Study.of([*asked, "output.dir=study", *words, *more])
        done = sweeping.sweep(study, one_by_one, one_by_one)
        return len(done.plans), done.before

    runs = 2 * len(words[0].split(","))
    assert again("here", "seed=0,1") == (runs, 0)
    (tmp_path / "here").rename(tmp_path / "there")
    assert again("there", "seed=0,1") == (runs, runs)
    assert again("there", "seed=0,1,2") == (3 * runs // 2, runs)
    (tmp_path / "there").rename(tmp_path / "elsewhere")
    assert again("elsewhere", "seed=0,1,2") == (3 * runs // 2, 3 * runs // 2)
    (tmp_path / "elsewhere").rename(tmp_path / "last")  # where a file was written since, all is done anew
    rows = np.load(tmp_path / "last" / files[-1])
    np.savez(tmp_path / "last" / files[-1], features=rows["features"][::-1], targets=rows["targets"])
    assert again("last", "seed=0,1")[1] < runs


def test_a_budget_is_no_reason_to_begin_anew(tmp_path):
    words = ["algorithm.name=dola", "privacy.budget.epsilon=1,3"]
    swept(tmp_path / "study", *words)
    proven = sorted(summary_of(run)["privacy"]["network"]["proven"] for run in (tmp_path / "study" / "runs").iterdir())
    assert proven == [pytest.approx(1, rel=2e-3), pytest.approx(3, rel=2e-3)]
    assert all(p <= b for p, b in zip(proven, (1, 3), strict=True))
    assert swept(tmp_path / "study", *words).before == 2
    # of another seed it is found when it is run, to the same noise as by itself
    assert not swept(tmp_path / "study", *words, "seed=0,1").failed
    for run in (tmp_path / "study" / "runs").glob("*-seed1-*"):
        label = tomllib.loads((run / "experiment.toml").read_text())["privacy"]
        alone = [*SMALL, "algorithm.name=dola", "seed=1", f"privacy.budget.epsilon={label['budget']['epsilon']}"]
        assert label["epsilon"] == set_up(asked_for(alone), None).experiment.privacy.epsilon


def test_a_run_whose_planning_dies_is_named_alone(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import os\nfrom dataclasses import dataclass\nfrom mpinodes.algorithms.dola import DOLA\n__all__ = ['Mine']\n"
        "@dataclass(frozen=True)\nclass Mine(DOLA):\n"
        "    def __post_init__(self):\n        self.run.epsilon == 2 and os._exit(1)\n"
    )
    epsilons = ",".join(map(str, range(1, 33)))  # so many that a process plans several of them
    done = by_command("algorithm.path=mine.py", f"privacy.epsilon={epsilons}", "output.dir=study", cwd=tmp_path)
    assert done.code == 2, done.err
    assert "1 of 32 runs cannot be done" in done.err
    assert "its process died" in done.err
    assert "privacy.epsilon=2\n" in done.err


def test_a_run_that_fails_or_dies_stops_no_other(tmp_path):
    words = [f"algorithm.path={DOOMED}", "algorithm.fate=die,raise,live", "seed=0,1", "output.dir=study"]
    done = by_command(*words, cwd=tmp_path)
    assert done.code == 1, done.err
    assert "6 runs: 2 done now, 4 failed" in done.out
    rows = table_of(tmp_path / "study")
    told = {(row["algorithm.fate"], row["state"], row["reason"].partition(":")[0]) for row in rows}
    assert told == {("die", "failed", "its process died"), ("raise", "failed", "ArithmeticError"), ("live", "done", "")}
    assert done.out.count("failed: die-seed") == 2
    again = run_here("study", cwd=tmp_path, module="mpinodes.sweep")
    assert (again.code, "2 done before, 4 failed" in again.out) == (1, True)


@pytest.mark.parametrize("way", [[], ["--mpi"]])
def test_a_sweep_that_is_killed_leaves_no_process_behind(tmp_path, way):
    words = [*SMALL, "algorithm.name=dola", "data.epochs=9000", "rounds=800000", "seed=0,1,2", "output.dir=study", *way]
    line = [sys.executable, "-m", "mpinodes.sweep", *words]
    process = subprocess.Popen(line, cwd=tmp_path, stderr=subprocess.DEVNULL, start_new_session=True)
    until = time.monotonic() + 120
    while not list(tmp_path.glob("study/runs/*/progress.jsonl")) and time.monotonic() < until:
        time.sleep(0.05)
    process.kill()
    process.wait()
    until = time.monotonic() + 60
    while (left := _of_sweep(process.pid, tmp_path)) and time.monotonic() < until:
        time.sleep(0.05)
    assert left == []


def _of_sweep(leader: int, place: Path) -> list[int]:
    """Processes of its session, or at a run of its place: mpirun may give its ranks a session of their own."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                words = (entry / "cmdline").read_text("utf-8", "replace")
            except OSError:
                continue
            if (int(fields[3]) == leader or str(place) in words) and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def test_what_cannot_be_is_named_before_the_first_run(tmp_path):
    with pytest.raises(BadInput) as caught:
        swept(tmp_path / "study", "algorithm.name=dola,dolla", "data.batch=1,5000")
    said = str(caught.value)
    assert "3 of 4 runs cannot be" in said
    assert said.count("did you mean dola?") == 1
    assert "algorithm.name=dola, data.batch=5000" in said
    assert not (tmp_path / "study").exists()


def test_two_names_for_one_run_are_refused(tmp_path):
    with pytest.raises(BadInput, match="two runs of the study are the same"):
        swept(tmp_path / "study", "algorithm.name=dola", "report=false,true")


def test_a_directory_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").touch()
    with pytest.raises(BadInput, match=r"no study.toml in it"):
        swept(tmp_path, "seed=0,1")


def test_a_sweep_leaves_the_study_of_another_that_is_at_it_as_it_is(tmp_path):
    swept(tmp_path / "study", "algorithm.name=dola")
    before = (tmp_path / "study" / "study.toml").read_text()
    with sweeping._locked(tmp_path / "study", alone=True), pytest.raises(BadInput, match="another sweep"):
        swept(tmp_path / "study", "algorithm.name=dpps")
    assert (tmp_path / "study" / "study.toml").read_text() == before


def test_runs_of_another_study_in_its_place_are_told_of(tmp_path):
    place = tmp_path / "study"
    assert "of another study" not in told(place, "seed=0,1")
    assert "of another study" not in told(place, "seed=0,1,2")
    assert f"1 finished runs in {place}/runs are of another study" in told(place, "seed=1,2")


def told(place: Path, *words: str) -> str:
    found = swept(place, "algorithm.name=dola", *words)
    return str(found)


def test_results_that_cannot_be_read_are_not_deleted(tmp_path):
    swept(tmp_path / "study", "algorithm.name=dola")
    (run,) = (tmp_path / "study" / "runs").iterdir()
    summary = run / "summary.json"
    summary.write_text(summary.read_text().replace('"version": 3', '"version": 2'))
    with pytest.raises(BadInput, match=r"its record has version 2, older"):
        swept(tmp_path / "study", "algorithm.name=dola")
    assert summary.exists()


def test_a_file_of_the_users_that_changed_is_no_more_what_runs_were_done_with(tmp_path):
    mine = tmp_path / "mine.py"
    shutil.copyfile(DOOMED, mine)
    words = [f"algorithm.path={mine}", "algorithm.fate=live"]
    assert swept(tmp_path / "study", *words).failed == {}
    assert swept(tmp_path / "study", *words).before == 1
    mine.write_text(mine.read_text() + "# another\n")
    with pytest.raises(BadInput, match=r"the file algorithm.path = .* has changed since this run was done"):
        swept(tmp_path / "study", *words)


def test_noise_that_is_shared_is_said(tmp_path):
    study = swept(tmp_path / "study", "algorithm.name=dola", "rounds=8,9")
    assert "2 runs share their noise with others" in str(study)
    keyed = swept(tmp_path / "keyed", "algorithm.name=dola", "privacy.epsilon=1,2", "noise.key=3")
    assert "runs share their noise with others" not in str(keyed)


def test_parts_make_the_whole(tmp_path):
    for k in (0, 1):
        words = ["algorithm.name=dola", "seed=0,1,2", "--part", f"{k}/2", "output.dir=study"]
        done = by_command(*words, cwd=tmp_path)
        assert done.code == 0, done.err
        assert f"{2 - k} runs: {2 - k} done now" in done.out
    assert swept(tmp_path / "study", "algorithm.name=dola", "seed=0,1,2").before == 3


def test_a_job_array_is_written_where_there_is_no_slurm(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    said = slurm.submit([*SMALL, "seed=0,1,2", f"output.dir={tmp_path}/study"])
    script = tmp_path / "study" / "slurm.sh"
    assert "sbatch is not installed" in said
    assert str(script) in said
    assert "--array=0-2" in script.read_text()
    part = script.read_text().splitlines()[-1]
    done = command(["sh", "-c", part], tmp_path, env={"SLURM_ARRAY_TASK_ID": "1"})
    assert done.code == 0, done.err
    assert json.loads(next(tmp_path.glob("study/runs/seed1-*/summary.json")).read_text())["seed"] == 1


def test_a_study_in_python_is_that_of_the_command(two_by_two, tmp_path):
    asked = {
        "rounds": 8,
        "data.name": "digits",
        "topology": {"agents": 3, "name": "ring"},
        "output.dir": tmp_path / "mine",
    }
    study = {"grid": {"algorithm.name": ["dola", "dpsda-c"]}}
    swept = mpinodes.studies.sweep({**asked, "study": study}, "seed=0,1")
    assert (swept.directory, swept.before, swept.failed) == (tmp_path / "mine", 0, {})
    assert "4 runs: 4 done now, 0 failed" in repr(swept)
    reference = runs_of(two_by_two)
    for digits, run in runs_of(swept.directory).items():
        assert same_bits(run, reference[digits]) == []
    assert swept.table["epsilon_proven"].tolist() == [float(row["epsilon_proven"]) for row in table_of(two_by_two)]
    assert swept.table.to_csv(index=False) == (swept.directory / "table.csv").read_text()
    assert mpinodes.studies.sweep(swept.directory).before == 4
    with pytest.raises(BadInput, match="expected K/N"):
        mpinodes.studies.sweep(swept.directory, part="2/2")


def test_a_study_that_is_killed_goes_on_and_has_the_same_table(two_by_two, tmp_path):
    words = [*SMALL, "algorithm.name=dola,dpsda-c", "seed=0,1", f"output.dir={tmp_path}/study"]
    line = [sys.executable, "-m", "mpinodes.sweep", *words]
    process = subprocess.Popen(line, cwd=tmp_path, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 120
    while not list(tmp_path.glob("study/runs/*/summary.json")) and time.monotonic() < until:
        time.sleep(0.005)
    process.kill()
    process.wait()
    done = {path: path.stat().st_mtime_ns for path in tmp_path.glob("study/runs/*/summary.json")}
    again = swept(tmp_path / "study", "algorithm.name=dola,dpsda-c", "seed=0,1")
    assert (len(again.plans), again.failed) == (4, {})
    assert again.before >= len(done) > 0  # a worker may end its run after the sweep was killed
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in done.items())
    timed = {"seconds"}
    table, reference = table_of(tmp_path / "study"), table_of(two_by_two)
    assert [{**row, **dict.fromkeys(timed)} for row in table] == [{**row, **dict.fromkeys(timed)} for row in reference]
