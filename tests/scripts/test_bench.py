"""The benchmark in small: what it takes, what it leaves, and whether its model and its peers do what they say."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mpinodes.core.asked import asked_for
from mpinodes.running import job
from mpinodes.running.setup import set_up
from tests.helpers.records import read
from tests.helpers.running import CHECKOUT, command

BENCH = CHECKOUT / "scripts" / "bench"


def take(out: Path, *words: str) -> str:
    done = command([sys.executable, str(BENCH / "all.py"), str(out), "--quick", *words], out.parent)
    assert done.code == 0, done.err
    return done.out


@pytest.fixture
def bench(monkeypatch):
    """The benchmark's modules."""
    monkeypatch.syspath_prepend(str(BENCH))
    monkeypatch.syspath_prepend(str(BENCH / "peers"))
    import commands
    import model
    import peer
    import rows
    import vectorised

    yield {"commands": commands, "model": model, "peer": peer, "rows": rows, "vectorised": vectorised}
    for name in ("commands", "machine", "model", "peer", "rows", "vectorised"):
        sys.modules.pop(name, None)


def test_the_small_form_takes_every_kind_of_row(tmp_path):
    """One test: its rows take 20 seconds."""
    out = tmp_path / "out"
    text = take(out)
    assert re.search(r"a key there is not +failed: exit 2: .*unknown key nothing", text)
    assert "not taken" not in text
    runs_add_up(out)
    figures_are_left_there(out)
    what_is_done_is_not_taken_again(out)


def runs_add_up(out: Path) -> None:
    with (out / "table.csv").open(newline="") as file:
        runs = {run["row"]: run for run in csv.DictReader(file)}
    for name in ("default, no report", "n = 2, d = 10", "n = 4, d = 10", "complete, n = 4"):
        run = runs[name]
        assert float(run["ratio"]) == pytest.approx(float(run["whole"]) / float(run["bare"]))
        assert 0 < float(run["timing_total"]) <= float(run["whole"])
    watched = runs["n = 4, d = 10"]
    assert 0 < float(watched["step"]) < float(watched["agent"]) < float(watched["cpu"])
    assert float(runs["default, no report"]["pss_mb"]) > 8 * 10 or not Path("/proc/self/smaps_rollup").exists()
    assert float(runs["lockstep, n = 4, d = 10"]["logger"]) > 0
    assert float(runs["bare loop"]["cases_ring, 3 agents_ratio"]) > 0
    assert float(runs["wires"]["together_0"]) > 0
    script = runs["single-process script, d = 10"]
    assert float(script["theirs_cpu"]) < float(script["ours_cpu"])
    for name, number in (("docs/studies.md", 3), ("4 seeds of one setting", 4)):
        assert float(runs[name]["ours_runs"]) == number
        assert 0 < float(runs[name]["theirs_cpu"]) < float(runs[name]["ours_cpu"])


def figures_are_left_there(out: Path) -> None:
    told = json.loads((out / "machine.json").read_text())
    assert told["cores"] >= 1
    assert told["numpy"] == np.__version__
    for name in ("parts", "scaling", "start", "edges", "peers"):
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    text = (out / "model.txt").read_text()
    assert re.search(r"held against larger runs.*\n +n = 4, d = 10, 8 messages: bare start s .*; start-up and", text)
    assert "1,024 agents on 16 nodes" in text
    assert "decent-bench" in (out / "table.txt").read_text()


def what_is_done_is_not_taken_again(out: Path) -> None:
    """What failed is, and so is what was taken of other code."""
    rows = out / "rows"
    wires, failed, lockstep = (next(rows.glob(f"{name}*")) for name in ("wires", "commands-a-key", "lockstep"))
    before = {path: path.stat().st_mtime_ns for path in (wires, failed, lockstep)}
    lockstep.write_text(lockstep.read_text().replace(json.loads(lockstep.read_text())["code"], "0123456789ab"))
    take(out, "--only", "wires", "--only", "a key*", "--only", "lockstep")
    assert wires.stat().st_mtime_ns == before[wires]
    assert failed.stat().st_mtime_ns > before[failed]
    assert "0123456789ab" not in lockstep.read_text()


def test_a_command_that_takes_too_long_is_ended_with_all_it_started(bench, tmp_path, monkeypatch):
    commands = bench["commands"]
    sleeper = [*commands.mpirun(2), "-c", "import time; time.sleep(60)"]
    with pytest.raises(commands.Refused, match="ended after 1 s"):
        commands.timed(sleeper, tmp_path, limit=1)
    monkeypatch.setattr(commands, "free_memory", lambda: (5.0, 100.0))
    with pytest.raises(commands.Refused, match="12% of the memory must stay free"):
        commands.timed(sleeper, tmp_path, limit=30)
    with pytest.raises(commands.Refused, match="exit 7: nothing was said"):
        commands.timed([sys.executable, "-c", "raise SystemExit(7)"], tmp_path, limit=30)


def test_the_model_finds_the_costs_that_figures_were_made_of(bench):
    """Fitted to up to 63 agents, it predicts more; and a graph's edges are told from its agents."""
    model = bench["model"]
    cores, points = 2, []
    for n, degree in ((7, 2), (15, 2), (31, 2), (63, 2), (15, 4), (15, 14), (31, 30), (100, 2), (256, 2)):
        for d in (10, 784):
            m, ranks = n * degree, n + 1
            crowd = ranks / cores
            cost = n * (60e-6 + 40e-9 * d + 2e-4 * crowd / (crowd + 8)) + m * (8e-6 + 2e-9 * d)
            spent = model.Spent(60e-6, 80e-6, 1e-6 * n**2, 1.0, 5.0, 0.01, cost / cores)
            group = "grid" if degree == 2 else "edges"
            points.append(
                model.Point(group, n, d, m, cost / cores, 0.3 + 0.1 * ranks, 0.5 + 0.01 * ranks, spent, 1.0,
                            30.0 + 25.0 * ranks, 25.0, 50.0, 300.0)
            )  # fmt: skip
    few, many = model.split(points)
    assert {p.agents for p in many} == {100, 256}
    found = model.Model.of(model.Taken(cores, points, few, {}), few, [])
    for p in many:
        assert found.round(p) / cores == pytest.approx(p.round, rel=1e-6)
        assert found.bare(p) == pytest.approx(p.bare, rel=1e-6)
        assert found.own(p) == pytest.approx(p.own, rel=1e-6)
        assert found.memory(p) == pytest.approx(p.whole_mb, rel=1e-6)
    assert found.round.coefficients["messages"] == pytest.approx(8e-6)
    assert found.round.coefficients["agents × cold"] == pytest.approx(2e-4)
    edges = model.by_edges([p for p in points if p.agents == 15 and p.dimension == 10][:1] + [
        p._replace(group="edges") for p in points if p.agents == 15 and p.dimension == 10
    ])  # fmt: skip
    assert re.search(r"n = 15, 30 to 210 messages: seconds ~ messages\^0\.\d+, or \d+ µs \+ 4 µs × messages", edges[1])


def test_the_script_that_is_thrown_away_solves_the_same_problem(bench, tmp_path, monkeypatch):
    """Without noise it makes the decisions of mpinodes, and each agent's losses are ahead of another's by as much."""
    monkeypatch.chdir(tmp_path)
    words = [
        "algorithm.name=dola", "topology.name=ring", "topology.agents=5", "data.dimension=12", "data.total=200",
        "rounds=40", "privacy.epsilon=inf", "record.decisions=true", "report=false", "output.dir=run",
    ]  # fmt: skip
    job.run(asked_for(words))
    setup = set_up(asked_for([*words[:-1], "output.dir=other"]), None)
    losses = [[setup.losses(i)(t) for i in range(5)] for t in range(1, 41)]
    a = np.array([[loss.features[0] for loss in row] for row in losses])
    b = np.array([[loss.targets[0] for loss in row] for row in losses])
    script = bench["vectorised"]
    decisions = script.simulate(a, b, script.ring(5), epsilon=np.inf)
    np.testing.assert_allclose(decisions, read(Path("run"), "decision"), atol=1e-10)
    total, regret = script.losses(a, b, decisions).sum(axis=0), read(Path("run"), "agent_regret")[-1]
    np.testing.assert_allclose(total - total[0], regret - regret[0], atol=1e-9 * total[0])


def test_a_peer_is_left_out_where_it_has_no_place(bench, tmp_path):
    peer, rows = bench["peer"], bench["rows"]
    with pytest.raises(bench["commands"].Refused, match="--peers"):
        peer.prepared("disropt, subgradient, d = 784", None)
    python = tmp_path / "disropt" / "bin" / "python"
    python.parent.mkdir(parents=True)
    for program in (python, python.with_name("mpirun")):  # an environment that has all that it is asked for
        program.write_text("#!/bin/sh\nexit 0\n")
        program.chmod(0o755)
    row = next(row for row in rows.peers((784,)) if "consensus" in row.name)
    words = peer.prepared(row.name, tmp_path)(row)
    assert words[-8:] == [
        "7", str(python), str(BENCH / "peers" / "disropt_ring.py"),
        "--dimension", "784", "--rounds", "1000", "--consensus",
    ]  # fmt: skip


def test_memory_of_every_process_is_watched(tmp_path):
    hog = "import time; taken = bytearray(50_000_000); time.sleep(1.2)"
    words = [sys.executable, str(BENCH / "memory.py"), str(tmp_path / "seen"), sys.executable, "-c", hog]
    assert subprocess.run(words, check=False, timeout=60).returncode == 0
    head, *lines = (tmp_path / "seen.csv").read_text().splitlines()
    assert head == "seconds,process 0"
    assert 50 < max(float(line.split(",")[1]) for line in lines) < 90
    assert (tmp_path / "seen.png").stat().st_size > 5000
