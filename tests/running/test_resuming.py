"""A run that was ended before its time goes on to the bits that it would have had."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from random import Random

import networkx as nx
import numpy as np
import pytest

import mpinodes
from mpinodes.config import own_files as sources
from mpinodes.core.asked import parse
from mpinodes.core.errors import BadInput
from mpinodes.launch.stopping import Signals
from mpinodes.rounds.lockstep import run_agents
from mpinodes.rounds.plan import Plan
from mpinodes.rounds.step import Step
from mpinodes.runlog import checkpoints, snapshot
from mpinodes.runlog.checkpoints import LOGGER, Keeper, Stopped, keepers_of, name_of
from mpinodes.running import job
from tests.helpers.parts import run_of, setup_of
from tests.helpers.records import same_bits, summary_of

SMALL = (
    "algorithm.name=dola data.total=100 topology.agents=3 topology.name=ring rounds=24 checkpoint.every=5 "
    "comparator=false"
)
GRADIENTS = (
    "algorithm.name=dp-dsgd data.total=400 topology.agents=3 rounds=24 checkpoint.every=5 data.sampling=poisson "
    "data.rate=0.1 privacy.adjacency=zero-out algorithm.momentum=0.5 algorithm.local_steps=2"
)
TIMES = {"seconds", "rounds_per_second", "timing", "spread", "asked"}  # in which a run and the same again differ


class Killed(BaseException):
    """What ends a run in these tests."""


class Asked(Signals):
    """A signal that comes after so many looks for it."""

    def __init__(self, looks: int):
        super().__init__()
        self._looks = looks

    def is_asked(self):
        self._looks -= 1
        self.asked = "SIGUSR1" * (self._looks < 0)
        return super().is_asked()


def killed(monkeypatch, where: Path, words: str, at: int, seed: int = 0) -> Path:
    """A run that ends without a word as it is about to begin a round, of a certain seed."""
    plain = Step.__call__

    def step(self, state, arrivals, frame, row):
        if (state.here.t + (arrivals is not None), self._setup.experiment.seed) == (at, seed):
            raise Killed
        return plain(self, state, arrivals, frame, row)

    with monkeypatch.context() as patched:
        patched.setattr(Step, "__call__", step)
        with pytest.raises(Killed):
            run_of(where, words)
    return where


def go_on(where: Path, *words: str, signals: Signals | None = None) -> Path:
    with job.Job(signals=signals) as again:
        return again.alone(lambda: again.reopen(where, list(words)))[0]


def differences(one: Path, other: Path) -> list[str]:
    """Of two records and summaries, but for times."""
    a, b = summary_of(one), summary_of(other)
    return [*same_bits(one, other), *(key for key in a.keys() | b.keys() if key not in TIMES and a[key] != b[key])]


@pytest.mark.parametrize(
    "words",
    [
        "dpsda-c", "dpsda-ps", "dpcda", "dpps", "dpsr", "weight-balancing", "dola", "dola-minibatch data.epochs=5",
        "admm", "m-admm", "pp-admm problem.weight=20", "dvp-admm problem.weight=20", "pvp-admm problem.weight=20",
        "two-stage-gaussian algorithm.gradient_rounds=5 algorithm.stop=1e-9", "huang-dp", "gossip-averaging",
        "dola topology.name=erdos-renyi-each-round noise.backend=lattice problem.gradient_noise=0.1 data.epochs=2",
        "dp-dsgd data.batch=1 algorithm.local_steps=2 algorithm.momentum=0.5",
        "dp-dsgd data.sampling=poisson data.rate=0.2 noise.backend=lattice",
    ],
)  # fmt: skip
def test_agents_go_on_to_the_same_bits(words, tmp_path):
    """Every number that they hand to the logger, whatever they remember."""
    size = "" if words.startswith(("dpsda", "dpcda", "gossip", "two-stage", "huang")) else "data.total=140"
    setup = setup_of(f"algorithm.name={words} {size} rounds=12 record.transcript=true checkpoint.every=7")
    keepers = keepers_of(tmp_path, setup.topology.agents, "run")
    whole = np.concatenate([rows.copy() for rows, *_ in run_agents(setup, Plan(setup), keepers)], axis=1)
    kept = [keeper.load(7) for keeper in keepers]
    rest = np.concatenate([rows.copy() for rows, *_ in run_agents(setup, Plan(setup, 7), keepers, kept)], axis=1)
    assert whole.shape[1] == 12
    np.testing.assert_array_equal(whole[:, 7:], rest)


@pytest.mark.parametrize(
    ("words", "at"),
    [
        (SMALL, 13),
        (f"{SMALL} record.decisions=true record.transcript=true comparator=true", 24),
        ("algorithm.name=dpsda-ps rounds=16 checkpoint.every=7 record.dynamic_regret=true", 9),
        ("algorithm.name=pp-admm data.total=140 problem.weight=20 rounds=12 checkpoint.every=4", 7),
        (f"{GRADIENTS} record.transcript=true", 13),
    ],
)
def test_a_run_goes_on_to_the_same_record_and_summary(words, at, monkeypatch, tmp_path):
    one = run_of(tmp_path / "one", words)
    other = killed(monkeypatch, tmp_path / "other", words, at)
    assert not (other / "summary.json").exists()
    assert go_on(other) == other
    assert differences(one, other) == []
    told = (other / "progress.jsonl").read_text().splitlines()
    rounds = [line.split(",")[0] for line in told if "finishing" not in line]
    assert len(set(rounds)) == len(rounds)


def test_it_may_be_ended_any_number_of_times(monkeypatch, tmp_path):
    """Before the first checkpoint too, where it begins anew; and what is kept stays little."""
    one, other = run_of(tmp_path / "one", SMALL), killed(monkeypatch, tmp_path / "other", SMALL, 4)
    for looks in (1, 1, 1):
        with pytest.raises(Stopped) as stop:
            go_on(other, signals=Asked(looks))
        assert stop.value.in_words("SIGTERM").startswith("SIGTERM: stopped after round ")
        assert stop.value.in_words("").endswith(f"--resume {other}")
        assert len(list((other / "checkpoint").glob("[0-9]*-*"))) <= 2 * 4
    go_on(other)
    assert differences(one, other) == []


def test_a_signal_alone_makes_a_checkpoint_that_goes_with_the_end_of_the_run(tmp_path):
    words = SMALL.replace("checkpoint.every=5", "")
    one = run_of(tmp_path / "one", words)
    assert not (one / "checkpoint").exists()
    asked = parse(None, [*words.split(), "report=false", f"output.dir={tmp_path / 'other'}"])
    with pytest.raises(Stopped):
        job.run(asked, signals=Asked(3))
    assert (tmp_path / "other" / "checkpoint").stat().st_mode & 0o777 == 0o700
    go_on(tmp_path / "other")
    assert differences(one, tmp_path / "other") == []
    assert not (tmp_path / "other" / "checkpoint").exists()


@pytest.mark.parametrize("at", [3, 14])
def test_repeats_go_on_with_the_one_that_they_were_in(at, monkeypatch, tmp_path):
    words = f"{SMALL} repeats=2 data.seed=1"
    one, other = run_of(tmp_path / "one", words), killed(monkeypatch, tmp_path / "other", words, at, seed=1)
    before = (other / "repeat-0" / "record.h5").read_bytes()
    go_on(other)
    assert (other / "repeat-0" / "record.h5").read_bytes() == before
    assert differences(one, other) == []
    for r in range(2):
        assert differences(one / f"repeat-{r}", other / f"repeat-{r}") == []


def test_a_metric_of_the_users_that_remembers_goes_on(monkeypatch, tmp_path):
    (tmp_path / "furthest.py").write_text(
        "import numpy as np\n"
        "from mpinodes.core import Metric\n"
        "__all__ = ['Furthest']\n"
        "class Furthest(Metric):\n"
        "    name, dims = 'furthest', ('round',)\n"
        "    def __init__(self):\n"
        "        self.most = 0.0\n"
        "    def take(self, rounds):\n"
        "        found = np.maximum.accumulate([self.most, *np.abs(rounds.estimates).max(axis=(1, 2))])[1:]\n"
        "        self.most = float(found[-1])\n"
        "        return found\n"
    )
    words = f"{SMALL} record.metrics=[{str(tmp_path / 'furthest.py')!r}]"
    one, other = run_of(tmp_path / "one", words), killed(monkeypatch, tmp_path / "other", words, 17)
    go_on(other)
    assert differences(one, other) == []
    third = killed(monkeypatch, tmp_path / "third", words, 17)
    with (tmp_path / "furthest.py").open("a") as file:
        file.write("# another\n")
    with pytest.raises(BadInput, match=r"record.metrics = .* has changed"):
        go_on(third)


def flip(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.write_bytes(whole)


@pytest.mark.parametrize("hurt", [{LOGGER: 15}, {name_of(1): 15}, {name_of(0): 15, LOGGER: 10}, {"rounds": 0}])
def test_what_is_damaged_is_said_and_the_checkpoint_before_is_taken(hurt, monkeypatch, tmp_path, capfd):
    one, other = run_of(tmp_path / "one", SMALL), killed(monkeypatch, tmp_path / "other", SMALL, 18)
    for name, t in hurt.items():
        flip(other / "checkpoint" / f"{t}-{name}") if t else (other / "rounds.log").write_bytes(b"nothing")
    go_on(other)
    assert differences(one, other) == []
    said = capfd.readouterr().err
    assert ("rounds.log" if "rounds" in hurt else "damaged") in said
    assert "the run continues from the checkpoint before" in said


@pytest.mark.parametrize("piece", ["checkpoint/15-agent-1", "checkpoint/15-logger", "rounds.log", "agent-0 as agent-1"])
def test_a_piece_of_another_run_or_agent_is_not_taken_for_its_own(piece, monkeypatch, tmp_path, capfd):
    one, other = run_of(tmp_path / "one", SMALL), killed(monkeypatch, tmp_path / "other", SMALL, 18)
    foreign = killed(monkeypatch, tmp_path / "foreign", f"{SMALL} seed=7", 18, seed=7)
    if piece.startswith("agent"):
        (other / "checkpoint" / "15-agent-1").write_bytes((other / "checkpoint" / "15-agent-0").read_bytes())
    else:
        (other / piece).write_bytes((foreign / piece).read_bytes())
    go_on(other)
    assert differences(one, other) == []
    assert "damaged" in capfd.readouterr().err


def test_a_flipped_bit_is_refused_or_harmless(monkeypatch, tmp_path, capfd):
    """Anywhere in the log and the checkpoints: of what the run stands on it is told, the rest is written anew."""
    words = SMALL.replace("rounds=24", "rounds=9").replace("every=5", "every=3")
    one, intact, rng = run_of(tmp_path / "one", words), killed(monkeypatch, tmp_path / "intact", words, 8), Random(0)
    files = [path.relative_to(intact) for path in (intact / "checkpoint").iterdir()]
    told = 0
    for k in range(24):
        other = shutil.copytree(intact, tmp_path / "other")
        path = other / (files[k % len(files)] if k % 2 else "rounds.log")
        whole = bytearray(path.read_bytes())
        whole[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        path.write_bytes(whole)
        go_on(other)
        assert differences(one, other) == []
        told += "damaged" in capfd.readouterr().err
        shutil.rmtree(other)
    assert told > 12


def test_a_longer_run_goes_on_where_nothing_that_was_said_depends_on_its_length(tmp_path):
    words = "algorithm.name=dpps data.total=700 topology.agents=3 checkpoint.every=20 record.decisions=true"
    one, other = run_of(tmp_path / "one", f"{words} rounds=40"), run_of(tmp_path / "other", f"{words} rounds=25")
    go_on(other, "rounds=40")
    a, b = mpinodes.load(one), mpinodes.load(other)
    by_round = [name for name in a if a[name].dims[0] == "round"]
    assert "decision" in by_round
    assert [name for name in by_round if not a[name].equals(b[name])] == []
    assert {*a.horizon.values.tolist(), 25} >= {*b.horizon.values[b.horizon > 25].tolist()}
    np.testing.assert_array_equal(a.network_regret.values[-1], b.network_regret.values[-1])
    one, other = summary_of(one), summary_of(other)
    for way in ("claimed", "proven_pure", "proven"):  # added up in another order
        found, wanted = (run["privacy"]["network"][way] for run in (other, one))
        assert found == (wanted and pytest.approx(wanted, rel=1e-12))
    with pytest.raises(BadInput, match="all 40 rounds are done"):
        go_on(tmp_path / "other")


REFUSED = [
    ("seed=3", "seed was 0 and is 3"),
    ("privacy.epsilon=0.5 problem.radius=3", "privacy.epsilon was 1.0 and is 0.5, problem.radius was .* and is 3"),
    ("rounds=20", "rounds was 24 and is 20"),
    ("nonsense", "nonsense.*key=value"),
    ("nonsense=1", "unknown key nonsense"),
]


@pytest.mark.parametrize("metrics", ["[]", '["disagreement"]'])
def test_other_metrics_are_another_experiment(metrics, monkeypatch, tmp_path):
    (tmp_path / "furthest.py").write_text(
        "from mpinodes.core.parts import Metric\nfrom dataclasses import dataclass\n"
        "__all__ = ['Ones']\n@dataclass\nclass Ones(Metric):\n    name, dims = 'furthest', ('round',)\n"
        "    def take(self, rounds):\n        return rounds.losses * 0 + 1.0\n"
    )
    words = f"{SMALL} record.metrics=[{str(tmp_path / 'furthest.py')!r}]"
    run = killed(monkeypatch, tmp_path / "run", words, 18)
    with pytest.raises(BadInput, match=r"record\.metrics was"):
        go_on(run, f"record.metrics={metrics}")


def test_a_run_whose_rounds_are_in_its_record_alone_cannot_go_on(tmp_path):
    run = run_of(tmp_path / "run", SMALL.partition("checkpoint")[0])
    before = (run / "record.h5").read_bytes()
    with pytest.raises(BadInput, match=r"record\.h5.*checkpoint\.every"):
        go_on(run, "rounds=30")
    assert (run / "record.h5").read_bytes() == before


def test_another_experiment_is_refused_with_its_keys(monkeypatch, tmp_path):
    where = killed(monkeypatch, tmp_path / "run", SMALL, 12)
    for words, why in REFUSED:
        with pytest.raises(BadInput, match=why):
            go_on(where, *words.split())
    toml = where / "experiment.toml"
    toml.write_text(toml.read_text().replace("radius = 10", "radius = 110"))
    with pytest.raises(BadInput, match=r"problem.radius was .* and is 1"):
        go_on(where)
    with pytest.raises(BadInput, match=r"no experiment.toml"):
        go_on(tmp_path)


@pytest.mark.parametrize("changed", ["data.csv", "graph.json", "part-1.csv"])
def test_files_that_changed_meanwhile_are_refused(changed, monkeypatch, tmp_path):
    rows = [f"{np.sin(k):.3f},{np.cos(k):.3f},{k % 2 * 2 - 1}" for k in range(120)]
    graph = nx.node_link_data(nx.cycle_graph(3), edges="edges")
    for name in ("data.csv", *(f"part-{i}.csv" for i in range(3))):
        (tmp_path / name).write_text("\n".join(rows))
    (tmp_path / "graph.json").write_text(json.dumps(graph))
    file = "data.csv" if changed == "graph.json" else changed.replace("-1", "-{agent}")
    words = (
        f"algorithm.name=dola data.name=file data.file={tmp_path / file} data.header=false rounds=24 "
        f"topology.file={tmp_path / 'graph.json'} checkpoint.every=5 comparator=false"
    )
    where, place = killed(monkeypatch, tmp_path / "run", words, 12), tmp_path / changed
    before = place.read_text()
    place.write_text(before.replace("0.000", "0.001", 1).replace('"multigraph": false', '"multigraph":  false'))
    with pytest.raises(BadInput, match=rf"{changed} has changed"):
        go_on(where)
    place.write_text(before)
    go_on(where)


@pytest.mark.parametrize("name", ["data.csv", "part-{agent}.csv", "code.py", "graph.json"])
@pytest.mark.parametrize("move", [shutil.move, shutil.copy])
def test_a_run_goes_on_after_its_files_were_moved(name, move, monkeypatch, tmp_path):
    rows = [f"{np.sin(k):.3f},{np.cos(k):.3f},{k % 2 * 2 - 1}" for k in range(120)]
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir(), new.mkdir()
    for file in ("data.csv", "part-0.csv", "part-1.csv", "part-2.csv"):
        (old / file).write_text("\n".join(rows))
    (old / "graph.json").write_text(json.dumps(nx.node_link_data(nx.cycle_graph(3), edges="edges")))
    (old / "code.py").write_text((Path(mpinodes.__file__).parent / "losses" / "logistic.py").read_text())
    key = {"code.py": "problem.path", "graph.json": "topology.file"}.get(name, "data.file")
    words = "algorithm.name=dola data.header=false checkpoint.every=5 rounds=24 comparator=false topology.agents=3 "
    words += f"{key}={old / name}" + ("" if key == "data.file" else f" data.file={old / 'data.csv'}")
    words = words.replace("topology.agents=3 ", "") if key == "topology.file" else words
    whole, where = run_of(tmp_path / "whole", words), killed(monkeypatch, tmp_path / "run", words, 12)
    for i in range(3 if "{agent}" in name else 1):
        move(old / name.replace("{agent}", str(i)), new)
        (old / name.replace("{agent}", str(i))).unlink(missing_ok=True)
    with pytest.raises(BadInput, match=rf"no such file; if it was moved, add {key}=PATH"):
        go_on(where)
    go_on(where, f"{key}={new / name}")
    assert differences(whole, where) == [] or key == "problem.path"  # whose place the summary names
    assert same_bits(whole, where) == []


def test_a_change_in_the_middle_of_a_large_file_is_noticed_whatever_its_time(monkeypatch, tmp_path):
    file = tmp_path / "large.npz"
    np.savez(file, features=np.ones((300_000, 8)), targets=np.tile([1.0, -1.0], 150_000))
    words = f"algorithm.name=dola data.file={file} data.batch=1 rounds=24 topology.agents=3 checkpoint.every=5"
    where, stat = killed(monkeypatch, tmp_path / "run", words, 12), file.stat()
    assert stat.st_size > 1 << 24
    for at in (stat.st_size // 2, stat.st_size // 2 + (1 << 19)):
        with file.open("r+b") as opened:
            opened.seek(at)
            before = opened.read(1)
            opened.seek(at)
            opened.write(b"?")
        os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        files = sources.stamps(setup_of(words))
        kept = Keeper(where, LOGGER).load(10)["files"]
        assert not sources.is_same(kept[0], files[0])
        with file.open("r+b") as opened:
            opened.seek(at)
            opened.write(before)
    assert sources.is_same(kept[0], sources.stamps(setup_of(words))[0])


def test_without_its_key_a_stamp_is_size_and_time(monkeypatch, tmp_path):
    (tmp_path / "d.csv").write_text("1,1\n2,-1\n" * 30)
    setup = setup_of(
        f"data.file={tmp_path / 'd.csv'} data.header=false algorithm.name=dola topology.agents=2 rounds=20"
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "one"))
    (here,) = sources.stamps(setup)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    (there,) = sources.stamps(setup)
    assert here[3] != there[3]
    assert sources.is_same(here, there)
    os.utime(tmp_path / "d.csv", (1e9, 1e9))
    assert not sources.is_same(here, sources.stamps(setup)[0])
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")  # which cannot be written to
    assert sources.stamps(setup)[0][2:] == ("", "")


def test_a_longer_run_is_refused_where_it_would_have_said_other_things(tmp_path):
    words = "algorithm.name=dola algorithm.mixing=laplacian topology.name=matchings data.total=140"
    where = run_of(tmp_path / "run", f"{words} rounds=12 checkpoint.every=5")
    with pytest.raises(BadInput, match=r"rounds = .* depend on the number of rounds"):
        go_on(where, "rounds=20")


def test_a_checkpoint_of_another_version_is_a_clear_line(monkeypatch, tmp_path):
    with monkeypatch.context() as patched:
        patched.setattr(checkpoints, "LAYOUT", 0)
        where = killed(patched, tmp_path / "run", SMALL, 12)
    with pytest.raises(BadInput, match=r"has layout 0, expected 7"):
        go_on(where)


@pytest.mark.parametrize("words", [SMALL, GRADIENTS])
def test_rounds_said_with_secret_noise_are_never_said_again_with_other_noise(words, monkeypatch, tmp_path):
    words = f"{words} noise.entropy=os"
    with pytest.raises(BadInput, match="the noise is secret"):
        go_on(killed(monkeypatch, tmp_path / "killed", words, 12))
    asked = parse(None, [*words.split(), "report=false", f"output.dir={tmp_path / 'run'}"])
    with pytest.raises(Stopped):
        job.run(asked, signals=Asked(3))
    with monkeypatch.context() as patched:
        patched.setattr(Step, "__call__", None)
        with pytest.raises(TypeError):
            go_on(tmp_path / "run")
    with pytest.raises(BadInput, match="the noise is secret"):  # for what was said since nobody knows
        go_on(tmp_path / "run")


@pytest.mark.parametrize("words", [SMALL, GRADIENTS])
def test_a_run_with_secret_noise_that_a_signal_stopped_goes_on_with_new_keys(words, monkeypatch, tmp_path):
    drawn = []
    own = os.urandom
    monkeypatch.setattr(os, "urandom", lambda size: drawn.append(own(size)) or drawn[-1])
    asked = parse(None, [*words.split(), "noise.entropy=os", "report=false", f"output.dir={tmp_path / 'run'}"])
    with pytest.raises(Stopped):
        job.run(asked, signals=Asked(3))
    before = {key for key in drawn if len(key) == 32}
    go_on(tmp_path / "run")
    after = {key for key in drawn if len(key) == 32} - before
    assert len(before) == len(after) == 3
    assert summary_of(tmp_path / "run")["rounds"] == 24


def test_secret_noise_and_a_damaged_checkpoint_of_an_agent_begin_nothing_again(tmp_path):
    asked = parse(None, [*SMALL.split(), "noise.entropy=os", "report=false", f"output.dir={tmp_path / 'run'}"])
    with pytest.raises(Stopped):
        job.run(asked, signals=Asked(3))
    for file in (tmp_path / "run" / "checkpoint").glob("*-agent-1"):
        file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(BadInput, match="the noise is secret"):
        go_on(tmp_path / "run")


def test_state_that_is_no_plain_data_is_refused_before_the_first_round(tmp_path):
    (tmp_path / "own.py").write_text(
        "from dataclasses import dataclass, replace\n"
        "from typing import Any, NamedTuple\n"
        "from mpinodes.algorithms.dola import DOLA\n"
        "__all__ = ['Own']\n"
        "class Wider(NamedTuple):\n"
        "    x: Any\n"
        "    made_with: float\n"
        "    more: Any = frozenset({1, 2})\n"
        "@dataclass(frozen=True)\n"
        "class Own(DOLA):\n"
        "    def init(self, x):\n"
        "        return Wider(*super().init(x))\n"
        "    def update(self, state, here, inbox, loss):\n"
        "        return Wider(*super().update(state, here, inbox, loss)[:2])\n"
    )
    words = SMALL.replace("algorithm.name=dola", f"algorithm.path={tmp_path / 'own.py'}")
    with pytest.raises(BadInput, match=r"checkpoint.*is a frozenset, which cannot be stored"):
        run_of(tmp_path / "run", words)


def test_a_keeper_keeps_what_is_needed(tmp_path):
    one, other = Keeper(tmp_path, "agent-0", "run"), Keeper(tmp_path, LOGGER, "run")
    for t in (5, 10, 15):
        one.save(t, {"x": t})
        other.save(t, {"x": t})
    one.forget_before(10)
    assert (one.rounds(), other.rounds()) == ([15, 10], [15, 10, 5])
    other.forget_before(10)
    kept = sorted(path.name for path in (tmp_path / "checkpoint").glob("[0-9]*"))
    assert kept == ["10-agent-0", "10-logger", "15-agent-0", "15-logger"]
    Keeper(tmp_path, LOGGER, "run").forget_after(10)
    assert other.rounds() == [10]
    assert other.load(10) == {"x": 10, "round": 10, "layout": checkpoints.LAYOUT, "of": (LOGGER, "run")}
    with pytest.raises(snapshot.Damaged, match="belongs to another round, agent or run"):
        Keeper(tmp_path, LOGGER, "other").load(10)
    (tmp_path / "checkpoint" / f"10-{LOGGER}").rename(tmp_path / "checkpoint" / f"15-{LOGGER}")
    with pytest.raises(snapshot.Damaged, match="belongs to another round"):
        other.load(15)


@pytest.mark.parametrize(
    ("every", "chunks"), [(40, 1), (90, 1), (110, 1), (120, 2), (400, 5), (10**9, None), (10**18, None)]
)
def test_whole_chunks_end_where_all_is_kept(every, chunks, monkeypatch):
    """75 rounds fit in one: a rest of some rounds, at every checkpoint, costs what a whole one does."""
    words = "algorithm.name=dpsda-ps rounds=10000 data.epochs=36"
    width = setup_of(words).layout.width
    monkeypatch.setattr("mpinodes.rounds.plan.CHUNK", 8 * width * 75)
    plan = Plan(setup_of(f"{words} checkpoint.every={every}"))
    assert plan.longest == (-(-every // chunks) if chunks else 76)
    ends = [0]
    while order := plan.next():
        ends.append(order.end)
        plan.came(order)
    begun = ends.index(every * (400 // every)) if chunks else 10  # chunks grow in the beginning
    lengths = np.diff(ends[begun:-1])
    assert lengths.min() > 0.9 * plan.longest
