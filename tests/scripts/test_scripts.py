"""All other scripts, in a small form."""

from __future__ import annotations

import csv
import json
import re
import shutil
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from mpinodes.config import registry
from mpinodes.topology import stored
from tests.helpers.running import CHECKOUT, Done, command, mpirun, script_here

SCRIPTS = CHECKOUT / "scripts"
TESTED = {
    "bench/audits.py", "bench/logger.py", "bench/noise.py", "bench/pairs.py", "bench/round.py",
    "count_data.py", "draw_docs.py", "draw_topologies.py", "fairness/fairness.py", "first_hour.py",
    "gamma_norm_loss.py", "kills.py", "local_and_central.py", "net.py", "node_views.py", "own_data.py",
    "relayed_message.py", "simulated_faults.py", "small_runs.py", "worst_case.py",
}  # fmt: skip
BENCH = {  # all that bench/all.py is made of, in tests/scripts/test_bench.py
    "bench/all.py", "bench/commands.py", "bench/machine.py", "bench/memory.py", "bench/model.py", "bench/peer.py",
    "bench/plots.py", "bench/rows.py", "bench/study.py", "bench/watched.py", "bench/wires.py",
    "bench/peers/vectorised.py",
    "bench/peers/disropt_ring.py",  # which needs a package that is not ours: only its command is tested
}  # fmt: skip
ATTACK = {f"attack/{name}.py" for name in ("generated", "kinds", "replays", "search", "tables", "templates")}
NEEDS_A_BROWSER = {"click_page.py"}


def run(script: str, *words: str, cwd: Path) -> Done:
    done = script_here(SCRIPTS / script, *words, cwd=cwd)
    assert done.code == 0, done.err
    return done


def test_every_script_is_run_by_a_test():
    """Those of scripts/papers by all.py in `test_papers`, of scripts/attack in `test_attack`, write_topology.py in
    tests/topology."""
    index = (SCRIPTS / "papers" / "index.toml").read_text()
    texts = "".join(path.read_text() for path in (CHECKOUT / "tests").rglob("test_*.py"))
    shown = "".join(path.read_text() for path in (SCRIPTS / "papers").glob("*.py"))
    for path in SCRIPTS.rglob("*.py"):
        name = path.relative_to(SCRIPTS).as_posix()
        if path.parent.name == "papers":
            used = (f"from {path.stem} import", f'"{path.name}"')
            assert f'by = "{path.stem}"' in index or path.stem in ("all", "page") or any(word in shown for word in used)
        else:
            assert name in TESTED | BENCH | ATTACK | NEEDS_A_BROWSER or f"import {path.stem}\n" in texts, name


def test_pictures_of_the_documentation_are_those_that_are_drawn(tmp_path):
    run("draw_docs.py", str(tmp_path), cwd=tmp_path)
    for name in ("overview.svg", "numbers.svg"):
        drawn, kept = ((folder / name).read_text() for folder in (tmp_path, CHECKOUT / "docs"))
        assert re.findall(r"<!-- (.*?) -->", drawn) == re.findall(r"<!-- (.*?) -->", kept)  # its words


PAGE = """
```sh
python3 -m venv --without-pip .venv
python own.py && exit 3
.venv/bin/pip list
```
```python
# own.py
print("own", end="")
```
```python
x = 20
```
```python
import sys; print(x + 1, sys.prefix != sys.base_prefix)
```
"""


def test_the_first_hour_is_what_pages_show_in_a_fresh_clone(tmp_path):
    (tmp_path / "page.md").write_text(PAGE)
    script = str(SCRIPTS / "first_hour.py")
    done = command([sys.executable, script, str(tmp_path / "hour"), str(tmp_path / "page.md")], tmp_path)
    assert (done.code, (tmp_path / "hour" / "mpinodes" / "README.md").exists()) == (1, True), done.err
    commands = re.findall(r"^\$ (.*)\n([^\[]*)\[exit (\d), .*\]$", done.out, re.MULTILINE)
    assert commands == [
        ("python3 -m venv --without-pip .venv", "", "0"), ("python own.py && exit 3", "own", "3"),
        ("python block.py  # 1", "", "0"), ("python block.py  # 2", "21 True\n", "0"),
    ]  # fmt: skip


def test_noise_is_timed(tmp_path):
    lines = run("bench/noise.py", "--turns", "1", cwd=tmp_path).out.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [
        [law, str(d)] for law in ("laplace", "gaussian") for d in (10, 64, 784)
    ]
    assert all(" us (" in line for line in lines[1:])


def test_audits_of_sound_runs_and_of_planted_faults_are_counted(tmp_path):
    out = run("bench/audits.py", "--sound", "1", "--faults", "2", "--pairs", "2", cwd=tmp_path).out
    assert out.startswith("sound: 0 alarms in 1 audits, ")
    assert "none: exit 0" in out
    assert "a round without noise: found: " in out
    assert out.endswith("faults: 0 missed\n")


def test_dp_dsgd_is_attacked_where_its_account_is_tight(tmp_path):
    lines = run("worst_case.py", "games", "--quick", cwd=tmp_path).out.splitlines()
    shown = [re.match(r"(.*): [εμ] ≥ (-?[\d.]+), proven ([\d.]+) \(", line).groups() for line in lines]
    assert [float(proven) for _, _, proven in shown] == [2.0, 2.0, 2.0, 1.056, 3.071, 3.071]
    assert all(float(least) <= float(proven) for _, least, proven in shown)
    assert "2 runs by mpirun have the same scores" in lines[0]


def test_dp_dsgd_is_compared_fairly(tmp_path):
    def lines(item: str) -> list[str]:
        done = script_here(SCRIPTS / "fairness" / "fairness.py", item, str(tmp_path), "--quick", cwd=tmp_path)
        assert done.code == 0 or item == "same-law", done.err  # the short form may be apart by more
        return done.out.splitlines()

    assert re.match(r"8 agents and the curator: [\d.]+ points apart", lines("same-law")[-1])
    rows = [line.split(" | ")[0] for line in lines("baselines")]
    assert rows[2:] == ["| complete", "| ring", "| curator", "| alone", "| one-shot", "| no-noise"]
    chosen = tomllib.loads("\n".join(lines("search")))["study"]["cases"]
    methods = [case["name"].split(".")[1] for case in chosen]
    rows = [line.split(" | ")[0].removeprefix("| ") for line in lines("equal-epsilon")]
    assert rows[3:] == methods
    assert len(methods) == 6
    assert (tmp_path / "equal-epsilon.png").stat().st_size > 1000


def test_rounds_are_timed_beside_a_bare_loop(tmp_path):
    words = [*mpirun(), "-n", "8", sys.executable, str(SCRIPTS / "bench/round.py"), "--quick"]
    out = command(words, tmp_path).out
    line = r"^([\w-]+), (\d+) agents: mpinodes (\d+) rounds/s, bare loop (\d+) rounds/s, ratio ([\d.]+)"
    found = re.findall(line, out, re.MULTILINE)
    assert [case for case, *_ in found] == ["dpsda-ps", "d784", "ring"]
    for _, ours, bare, ratio in (map(float, numbers) for _, *numbers in found):
        assert ratio == pytest.approx(ours / bare, abs=0.01 + 0.01 * ratio)


def test_the_loggers_rounds_are_timed_part_by_part(tmp_path):
    lines = run("bench/logger.py", "--quick", "--csv", "table.csv", cwd=tmp_path).out.splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["dpsda-ps", "n", "n", "pp-admm"]
    assert re.search(r"rounds ~ agents\^-?[\d.]+, horizons ~ agents\^-?[\d.]+$", lines[4])
    with (tmp_path / "table.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        parts = [float(row[part]) for part in ("samples", "losses", "sums", "metrics", "record", "rest")]
        assert min(parts) >= 0
        assert float(row["us_per_round"]) == pytest.approx(sum(parts))
        assert float(row["ms_per_horizon"]) > 0
    assert [int(row["rounds"]) for row in rows] == [30, 20, 20, 9]


def test_two_checkouts_are_timed_in_turn(tmp_path):
    words = ("--old", str(CHECKOUT), "--new", str(CHECKOUT), "--ranks", "3", "--quick", "algorithm.name=dola")
    first, last = run("bench/pairs.py", *words, "topology.name=ring", cwd=tmp_path).out.splitlines()
    assert first.startswith("old ")
    assert last.startswith("median of 1: ")


def test_data_are_counted(tmp_path):
    (tmp_path / "mushrooms").write_text("1 1:1 2:1\n2 3:1\n1 4:1\n")
    out = run("count_data.py", str(tmp_path), cwd=tmp_path).out
    assert out.startswith("mushrooms: 3 rows (")
    assert "4 features, 1.33 non-zeros a row; 1: 2, 2: 1" in out


def test_a_relayed_message_tells_almost_as_much_as_its_link(tmp_path):
    """Exactly for straight lines, and in simulated runs for all."""
    out = run("relayed_message.py", "--runs", "200000", cwd=tmp_path).out
    link, linear = (float(line.split(": ")[-1]) for line in out.splitlines()[:2])
    found = {
        name: (float(tv), float(shown)) for name, tv, shown in re.findall(r"^(\w+): (\S+), guessed (\S+)", out, re.M)
    }
    assert (round(link, 3), round(linear, 3)) == (0.383, 0.040)
    exact = {"frozen": 1.0, "mild": 0.5, "steep": 99.0}
    for name, gain in exact.items():
        moved = 0.1 * gain / np.sqrt(1 + (0.1 * gain) ** 2)
        assert found[name][0] == pytest.approx(2 * norm.cdf(moved / 2) - 1, abs=6e-4), name
    assert found["steep"][0] == 0.381
    assert found["clipped"][0] > 0.37
    for name, (tv, shown) in found.items():
        assert tv <= link, name
        assert shown == pytest.approx(tv, abs=0.008), name  # the sign is the best guess: m is monotone in y


def test_node_views_are_drawn(tmp_path):
    out = run("node_views.py", str(tmp_path), "--quick", cwd=tmp_path).out
    for name in ("ring", "grid"):
        assert (tmp_path / f"node-views-{name}.png").read_bytes().startswith(b"\x89PNG")
    rows = re.findall(r"distance (\d+): proven ([\d.]+), .* shows ([\d.]+)", out)
    assert len(rows) >= 6
    assert all(float(shown) <= float(proven) for _, proven, shown in rows)


def test_faults_are_drawn_beside_runs_without(tmp_path):
    out = run("simulated_faults.py", str(tmp_path), "--quick", cwd=tmp_path).out
    assert (tmp_path / "faults.png").read_bytes().startswith(b"\x89PNG")
    rows = re.findall(r"^([\w-]+) +(.+?) +regret per round ([-\d.e]+), accuracy ([\d.]+)$", out, re.MULTILINE)
    assert len(rows) == 5
    found = {(algorithm, case): float(regret) for algorithm, case, regret, _ in rows}
    for algorithm, case in found:
        assert case == "no faults" or found[algorithm, case] != found[algorithm, "no faults"]


def test_what_gamma_norm_noise_tells_is_no_more_than_is_proven(tmp_path):
    _, line = run("gamma_norm_loss.py", "10", "--runs", "20000", "--delta", "1e-3", cwd=tmp_path).out.splitlines()
    d, before, now, shown = map(float, line.split())
    assert d == 10
    assert 0.6 * now < shown <= now < before / 2.5


def test_the_distance_grows_with_the_root_of_the_number_of_agents(tmp_path):
    out = run("local_and_central.py", str(tmp_path / "gap.png"), "--small", cwd=tmp_path).out
    assert out.startswith("ε = ")
    gaps = {int(n): float(of_curator) for n, of_curator in re.findall(r"^ +(\d+) +\S+ +(\S+) ", out, re.M)}
    assert gaps.keys() == {1, 2, 4}
    assert 1.2 < gaps[4] < 3.5
    assert (tmp_path / "gap.png").stat().st_size > 1000


def test_topologies_are_drawn_beside_their_files(tmp_path):
    """Given a folder, from there instead of from the package's."""
    shutil.copy(stored.folder() / "seven-agent-digraph.json", tmp_path)
    run("draw_topologies.py", str(tmp_path), cwd=tmp_path)
    pictures = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.png"))
    assert pictures == sorted(
        ["seven-agent-digraph.png", *(f"generated/{name}.png" for name in registry.names(registry.TOPOLOGIES))]
    )


def test_runs_that_are_killed_go_on_to_the_same_bits(tmp_path):
    """Under mpirun: in the launcher and an agent; under mpirun again and in lockstep."""
    out = run("kills.py", "--kills", "2", "--rounds", "400", cwd=tmp_path).out
    assert out.count(": same\n") == 2
    assert "2 runs, 0 differ" in out


def test_studies_that_are_killed_go_on_and_their_runs_have_the_bits_of_mpirun(tmp_path):
    words = ["rounds=5", "topology.agents=2", "topology.name=ring", "privacy.budget.epsilon=1", "study.seeds=2"]
    helper = CHECKOUT / "tests" / "helpers" / "studies_again.py"
    out = script_here(helper, str(tmp_path / "out"), "--kills", "2", "--runs", "1", *words, cwd=CHECKOUT).out
    assert out.count("SIGKILL to ") == 2
    assert re.search(r"2 kills, 1 runs again by mpirun, seed [0-9a-f]{8}: 0 differences\n$", out)


def test_the_time_left_of_a_study_is_held_against_the_time_it_took():
    words = ("--only", "rounds", "rounds=2,4", "study.seeds=2")
    done = command([sys.executable, "-m", "tests.helpers.time_left", *words], CHECKOUT)
    assert re.search(r"^rounds: 4 runs, 0 failed: predicted [\d.]+ s, took [\d.]+ s, error (\d+)%\n", done.out)
    assert done.code == int(float(re.search(r"median error (\d+)%", done.out)[1]) > 33)


def test_the_net_lists_what_differs_between_two_checkouts(tmp_path):
    """Hashes and numbers; regrets and values of the best decision within the sum of both certificates do not."""
    assert run("net.py", "old.json", "--only", "box", cwd=tmp_path).out == "0 of 1 configurations differ\n"
    old = json.loads((tmp_path / "old.json").read_text())
    outputs = old["box: dola"]
    numbers, name = outputs["numbers"], "summary.comparator.value"
    numbers[name] += 0.9 * numbers["summary.comparator.certificate"]
    (tmp_path / "old.json").write_text(json.dumps(old))
    words = ("net.py", "new.json", "--only", "box", "--compare", "old.json")
    assert run(*words, cwd=tmp_path).out == "0 of 1 configurations differ\n"
    numbers[name] += 10 * outputs["slack"][name]
    numbers["summary.privacy.network.proven"] *= 1 + 1e-8
    outputs["hashes"] |= {"./transcript": "another", "./only_old": "a hash"}
    (tmp_path / "old.json").write_text(json.dumps(old))
    done = script_here(SCRIPTS / words[0], *words[1:], cwd=tmp_path)
    assert done.code == 1, done.err
    title, *lines, last = done.out.splitlines()
    assert (title, last) == ("box: dola", "1 of 1 configurations differ")
    names = [line.split(":")[0].strip() for line in lines]
    assert names == ["./only_old", "./transcript", name, "summary.privacy.network.proven"]
    assert lines[0] == "    ./only_old: a hash -> missing"


def test_random_small_runs_end_with_results_or_are_refused(tmp_path):
    """A few by lockstep, and one by mpirun."""
    out = run("small_runs.py", "--runs", "4", "--mpirun-every", "4", cwd=tmp_path).out
    assert re.fullmatch(r"\d+ runs: (\d+ with exit code [02](, )?)+; 0 wrong\n", out)


def test_own_data_measures_every_row(tmp_path):
    run("own_data.py", str(tmp_path), "--small", cwd=tmp_path)
    shares = {result["row"]: result["share"] for result in json.loads((tmp_path / "results.json").read_text())}
    assert shares.keys() == {"default", "init", "tuned", "accounted", "curator", "one-shot", "no-noise"}
    assert min(shares.values()) > 0.5
