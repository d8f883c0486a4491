"""Runs that differ in the seed, computed together: the bits of single runs, fallbacks, memory, and sweeps cut short."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mpinodes.config import registry
from mpinodes.rounds import lockstep
from mpinodes.running.job import Job
from mpinodes.studies import plans as module
from mpinodes.studies import pools, sweeping
from mpinodes.studies.plans import PlannedRun, performed, planned
from mpinodes.studies.pools import one_by_one
from mpinodes.studies.study import Study
from tests.helpers.records import same_bits, summary_of

DIGITS = ["topology.agents=4", "topology.name=ring", "data.name=digits"]
DOLA = [*DIGITS, "algorithm.name=dola"]
# Algorithms whose runs are done one by one: they solve, end early, noise gradients, or draw their starting points.
ALONE = {"admm", "dp-dsgd", "m-admm", "pp-admm", "dvp-admm", "pvp-admm"}
OWN = """
from dataclasses import dataclass
from mpinodes.algorithms.dola import DOLA

__all__ = ["Own"]

@dataclass(frozen=True)
class Own(DOLA):
    def update(self, s, here, inbox, loss):
        following = super().update(s, here, inbox, loss)
        x = following.x
        return following._replace(x={})
"""


def plans_of(place: Path, *words: str) -> list[PlannedRun]:
    place.mkdir(parents=True)
    plans = planned(Study.of(["rounds=6", "study.seeds=3", *words]).points(), place)
    assert all(isinstance(plan, PlannedRun) for plan in plans), plans
    near = {plan.setting: plan.near for plan in plans if plan.near}
    return [plan if plan.is_ready else replace(plan, near=near[plan.setting]) for plan in plans]


def same_alone(place: Path, plans: list[PlannedRun]) -> None:
    """Require that each run has the bits, and the privacy loss, of the same run done alone."""
    for plan in plans:
        assert performed([plan], place.parent / "alone") == [""]
        alone = place.parent / "alone" / plan.name
        assert same_bits(place / plan.name, alone) == []
        assert summary_of(place / plan.name)["privacy"] == summary_of(alone)["privacy"]


@pytest.fixture
def together(monkeypatch) -> list[int]:
    """The numbers of runs that are computed together."""
    numbers, run_together = [], module.run_together
    monkeypatch.setattr(module, "run_together", lambda runs: numbers.append(len(runs)) or run_together(runs))
    return numbers


@pytest.mark.parametrize("seed", [["comparator=false"], ["data.seed=0"]], ids=["own data", "same data"])
@pytest.mark.parametrize("name", registry.names(registry.ALGORITHMS))
def test_runs_have_the_bits_that_they_have_alone(name, seed, tmp_path, together):
    words = {"dpcda": [], "two-stage-gaussian": ["algorithm.gradient_rounds=4", "topology.name=ring"]}.get(
        name, ["topology.name=complete"]
    )
    words += ["data.total=2100"] * (name in ("dola", "dola-minibatch", "dpps", "dpsr", "weight-balancing"))
    seeds = 2 if name in ALONE else 3
    plans = plans_of(tmp_path / "all", f"algorithm.name={name}", *words, *seed, f"study.seeds={seeds}")
    assert performed(plans, tmp_path / "all") == [""] * seeds
    assert together == ([] if name in ALONE else [3])
    same_alone(tmp_path / "all", plans)


@pytest.mark.parametrize(
    "word", ["data.batch=3", "problem.loss=hinge", "privacy.budget.epsilon=1", "privacy.adjacency=one-round",
             "problem.gradient_noise=0.1", "record.transcript=true", "topology.name=erdos-renyi", "data.name=unit-ball"]
)  # fmt: skip
def test_settings_change_nothing_about_that(word, tmp_path):
    plans = plans_of(tmp_path / "all", *[w for w in DOLA if w.partition("=")[0] != word.partition("=")[0]], word)
    assert performed(plans, tmp_path / "all") == [""] * 3
    same_alone(tmp_path / "all", plans)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("x / max(1.0, float(abs(x).max()))", "gives other numbers"),
        ("x if x.ndim == 1 else x[9]", "IndexError"),
        ("x", ""),
    ],
)
def test_a_users_part_that_takes_one_run_falls_back_to_single_runs(change, reason, tmp_path, capfd):
    file = tmp_path / "own.py"
    file.write_text(OWN.format(change))
    plans = plans_of(tmp_path / "all", *DIGITS, f"algorithm.path={file}")
    assert performed(plans, tmp_path / "all") == [""] * 3
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == bool(reason)
    assert reason in "".join(lines)
    same_alone(tmp_path / "all", plans)


@pytest.mark.parametrize("words", [["privacy.epsilon=0.5,2"], ["privacy.budget.epsilon=0.5,2"]])
def test_runs_with_other_scales_of_the_noise_are_computed_together(tmp_path, together, words):
    plans = plans_of(tmp_path / "all", *DOLA, *words, "study.seeds=2")
    assert performed(plans, tmp_path / "all") == [""] * 4
    assert together == [4]
    same_alone(tmp_path / "all", plans)


def test_fewer_runs_are_computed_together_if_memory_is_short(tmp_path, together, monkeypatch):
    plans = plans_of(tmp_path / "all", *DOLA, "comparator=false", "study.seeds=7")
    monkeypatch.setattr(lockstep, "MEMORY", 8 * 284 * 64 * 3)
    assert performed(plans, tmp_path / "all") == [""] * 7
    assert sum(together) >= 4
    assert max(together) == 2
    same_alone(tmp_path / "all", plans)


def test_the_reason_of_a_failure_is_that_of_the_run_alone(tmp_path, together):
    plans = plans_of(
        tmp_path / "all", *DOLA, "problem.regularizer=1e90", "problem.set=none", "step.kind=constant", "rounds=20"
    )
    reasons = performed(plans, tmp_path / "all")
    assert together == [3]
    assert all("the run diverges" in reason for reason in reasons)
    assert all((tmp_path / "all" / plan.name / "failed.txt").exists() for plan in plans)


def test_a_sweep_that_is_killed_among_runs_that_go_together_repeats_none_and_loses_none(tmp_path, monkeypatch):
    words = ["rounds=9", *DOLA, "comparator=false", "study.seeds=8", f"output.dir={tmp_path}/study"]
    done, alone = [], Job.alone

    def killed(*of):
        if len(done) % 3 == 2:
            done.append("killed")
            raise KeyboardInterrupt
        done.append("run")
        return alone(*of)

    monkeypatch.setattr(Job, "alone", killed)
    for before in (0, 2, 4):
        with pytest.raises(KeyboardInterrupt):
            sweeping.sweep(Study.of(words), one_by_one, one_by_one)
        assert len([*(tmp_path / "study" / "runs").glob("*/summary.json")]) == before + 2
    swept = sweeping.sweep(Study.of(words), one_by_one, one_by_one)
    assert (swept.before, len(swept.failed), done.count("run")) == (6, 0, 8)
    monkeypatch.setattr(Job, "alone", alone)
    whole = sweeping.sweep(Study.of([*words, f"output.dir={tmp_path}/whole"]), one_by_one, one_by_one)
    columns = [name for name in whole.table if "seconds" not in name and "per_second" not in name]
    assert swept.table[columns].equals(whole.table[columns])


def test_runs_beside_a_run_whose_process_dies_are_done_alone(tmp_path):
    file, trigger = tmp_path / "dies.py", tmp_path / "trigger"
    file.write_text(
        "import os\nfrom dataclasses import dataclass\nfrom mpinodes.algorithms.dola import DOLA\n"
        "__all__ = ['Dies']\n@dataclass(frozen=True)\nclass Dies(DOLA):\n"
        "    def claimed_epsilon(self, rounds, passes):\n"
        "        try:  # one worker can remove the file, and dies\n"
        f"            os.unlink({str(trigger)!r})\n"
        "        except FileNotFoundError:\n"
        "            return super().claimed_epsilon(rounds, passes)\n"
        "        os._exit(9)\n"
    )
    trigger.touch()
    words = ["rounds=9", *DIGITS, "study.seeds=16", f"algorithm.path={file}", f"output.dir={tmp_path}/study"]
    with pools.processes(2) as pool:
        swept = sweeping.sweep(Study.of(words), one_by_one, pool)
    assert not trigger.exists()
    assert not swept.failed
    assert np.array(swept.table["state"] == "done").all()
