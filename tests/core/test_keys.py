"""Whose noise is whose: what the key of a run's noise is made of, and what it is not."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from mpinodes.config import registry
from mpinodes.config.compose import compose
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import Experiment, parse
from mpinodes.core.keys import knows_horizon, noise_name
from mpinodes.core.messages import HEADER
from mpinodes.core.parts import Setup
from mpinodes.core.seeds import Draws, Purpose
from mpinodes.simulation import alone
from mpinodes.simulation.lockstep import simulate

USER_FILES = Path(__file__).parents[1] / "helpers" / "user_files"
# Every key that may change while the noise stays: none can change a message, or the noise is not drawn by it.
CHANGES_NO_MESSAGE = {
    "privacy.budget", *(f"privacy.budget.{key}" for key in ("epsilon", "delta", "kept_by", "covers")),
    "rounds", "repeats", "name", "report", "output", "audit.view", "noise.entropy", "privacy.tight", "data.epochs",
    "record.decisions", "record.transcript", "record.dynamic_regret", "record.metrics", "record.chunk",
    "record.agent_regret_every", "deadline.seconds", "checkpoint.every", "checkpoint.seconds",
    "faults.absence", "faults.lag", "comparator",
}  # fmt: skip


def setup_of(*words: str) -> Setup:
    return compose(parse(None, list(words)), None)


def said(*words: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Decisions, releases, and noise scales of a run: (rounds, agents, ...)."""
    setup = setup_of("record.transcript=true", *words)
    parts = [[a.copy() for a in (d, e.scale[..., 0], f)] for d, e, f in map(setup.layout.open, simulate(setup))]
    decisions, scales, frames = (np.concatenate(part, axis=1).swapaxes(0, 1) for part in zip(*parts, strict=True))
    return decisions, frames[..., HEADER : HEADER + setup.dimension], scales


def test_two_settings_of_one_seed_do_not_give_each_other_away():
    """DOLA with clip 1 and with clip 2, each "proven 0.1": the second's noise was twice the first's."""
    words = ["algorithm.name=dola", "topology.name=complete", "privacy.epsilon=0.1", "rounds=30"]
    (one, heard, scale), (two, heard_too, scale_too) = said(*words, "privacy.clip=1"), said(*words, "privacy.clip=2")
    np.testing.assert_allclose(scale_too, 2 * scale)
    assert scale[1:].min() > 100
    without_noise = 2 * heard - heard_too
    told = np.abs(without_noise - (2 * one - two))[1:]
    assert np.median(told) > scale[1:].min()  # on the old code at most 1e-9: two unknowns fewer, all of it data
    noise = [((h - d)[1:] / s[1:, :, None]).ravel() for h, d, s in ((heard, one, scale), (heard_too, two, scale_too))]
    assert abs(np.corrcoef(*noise)[0, 1]) < 0.1


def test_runs_that_mean_to_share_their_noise_do():
    words = ["algorithm.name=dola", "rounds=5", "noise.key=paired"]
    (one, heard, scale), (two, heard_too, scale_too) = said(*words, "privacy.clip=1"), said(*words, "privacy.clip=2")
    scale, scale_too = scale[..., None], scale_too[..., None]
    np.testing.assert_allclose((heard - one)[1:] / scale[1:], (heard_too - two)[1:] / scale_too[1:], atol=1e-9)
    third = said(*words, "seed=1")[1]
    assert not (third[1:] == heard[1:]).any()
    keys = {setup_of(*words[:-1], *key).noise_key for key in ([], ["noise.key=paired"], ["noise.key=1"])}
    assert len(keys) == 3


def leaves(tree: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for key, value in tree.items():
        found += leaves(value, (*path, key)) if isinstance(value, dict) else [(*path, key)]
    return found


def other(value: Any, path: tuple[str, ...]) -> Any:
    """A value that the key could have instead, whether or not the run then makes sense."""
    words = {
        "mechanism": ("laplace", "gaussian"), "set": ("ball", "box"), "adjacency": ("one-sample", "one-round"),
        "backend": ("numpy", "lattice"), "entropy": ("seed", "os"), "scale": ("calibrated", 1.0),
        "kept_by": ("noise", "stopping"), "covers": ("all", "each"), "view": ("links", "agent:0"),
        "seconds": ("inf", 9.0),
    }  # fmt: skip
    if path[0] == "checkpoint":
        return 9
    if path == ("comparator",):
        return False
    if path == ("problem", "settings"):
        return {"delta": 1.0}
    if path[-1] in words:
        return next(word for word in words[path[-1]] if word != value)
    if path == ("feedback", "points"):
        return 2
    if path[0] == "faults":
        return 0.5 if isinstance(value, float) else value + 1
    if path == ("output",):
        return {"dir": "elsewhere"}
    if path == ("noise", "key"):
        return "other"
    if path == ("privacy", "budget"):
        return {"epsilon": 1.0}
    if path[-1] == "delta" and value is None:
        return 0.5
    if value in ("inf", float("inf")):
        return 1.0
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value / 2 if path[-1] in ("delta", "decay") else value * 2 + 1
    if isinstance(value, (list, tuple)):
        return [*value, 7 if path[-1] != "metrics" else "other"]
    return f"{value}-other" if isinstance(value, str) else "other"


RUNS = [
    *([f"algorithm.name={name}"] for name in registry.names(registry.ALGORITHMS)),
    ["algorithm.name=dola", "privacy.budget.epsilon=1", "privacy.budget.kept_by=stopping", "rounds=20"],
]


@pytest.mark.parametrize("words", RUNS, ids=lambda words: words[0].partition("=")[2])
def test_every_setting_that_can_change_a_message_changes_the_noise(words):
    setup = setup_of(*words)
    tree = msgspec.to_builtins(setup.experiment)
    kept = set()
    for path in leaves(tree):
        if path[-1] == "path":  # what stands in a file counts, not where it is: below
            continue
        changed = json.loads(json.dumps(tree))
        place = changed
        for part in path[:-1]:
            place = place[part]
        place[path[-1]] = other(place[path[-1]], path)
        again = dataclasses.replace(setup, experiment=msgspec.convert(changed, Experiment))
        assert again.experiment != setup.experiment, path
        if again.noise_key == setup.noise_key:
            kept.add(".".join(path))
    assert kept <= CHANGES_NO_MESSAGE
    assert kept >= {"repeats", "name", "report", "record.chunk"}


def test_the_contents_of_the_users_files_count_and_not_where_they_are(tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        shutil.copy(USER_FILES / "extra.py", tmp_path / name)
    with (tmp_path / "c" / "extra.py").open("a") as file:
        file.write("\nCHANGED = 1\n")
    graph = '{"agents": 3, "name": "g", "rounds": [[[0, 1], [1, 2], [2, 0], [1, 0], [2, 1], [0, 2]]]}'
    keys = [setup_of(f"algorithm.path={tmp_path / name / 'extra.py'}", "rounds=5").noise_key for name in "abc"]
    assert keys[0] == keys[1] != keys[2]
    graph = json.loads((Path(__file__).parents[2] / "topologies" / "seven-agent-digraph.json").read_text())
    for name in "abc":
        (tmp_path / name / "g.json").write_text(json.dumps(graph, indent=2 if name == "c" else None))
    words = ["algorithm.name=dpsda-ps"]
    keys = [setup_of(*words, f"topology.file={tmp_path / name / 'g.json'}").noise_key for name in "abc"]
    assert keys[0] == keys[1] != keys[2]


def test_what_a_users_file_imports_counts_too(tmp_path, monkeypatch):
    """Found by a stranger: a constant in a helper module changed the messages, and not the noise."""
    monkeypatch.syspath_prepend(tmp_path)
    source = (
        (USER_FILES / "extra.py").read_text().replace("from mpinodes.core", "import key_helper\nfrom mpinodes.core", 1)
    )
    (tmp_path / "mine.py").write_text(source)
    (tmp_path / "key_helper.py").write_text("def late():\n    from key_constants import GAIN\n    return GAIN\n")
    keys = []
    for gain in (1, 2):
        (tmp_path / "key_constants.py").write_text(f"GAIN = {gain}\n")
        keys.append(setup_of(f"algorithm.path={tmp_path / 'mine.py'}", "rounds=5").noise_key)
    assert keys[0] != keys[1]


@pytest.mark.parametrize("name", ["mine.csv", "part-{agent}.csv"])
def test_the_contents_of_data_files_count_and_not_where_they_are(tmp_path, name, monkeypatch):
    names, keys = set(), []
    for place, last in (("a", "1"), ("b/c", "1"), ("d", "-1")):
        (tmp_path / place).mkdir(parents=True)
        for file in (name.replace("{agent}", str(i)) for i in range(2)):
            (tmp_path / place / file).write_text("x,y\n" + "1,1\n1,-1\n" * 14 + f"1,{last}\n")
        monkeypatch.chdir(tmp_path / place)
        words = (
            "algorithm.name=dola",
            f"data.file={name}",
            "topology.agents=2",
            "data.columns=1",
            "topology.name=complete",
            "rounds=2",
        )
        keys.append(setup_of(*words).noise_key)
        names.add(noise_name(setup_of(*words)))
        assert keys[-1] == setup_of(*words, "data.identity=mine").noise_key
    assert keys[0] == keys[1] != keys[2]
    assert len(names) == 1  # what is written tells nothing of the data


def test_a_data_set_has_the_same_noise_in_any_directory(tmp_path):
    keys = []
    for place, head in (("a", b"p"), ("b", b"p"), ("c", b"e")):
        (tmp_path / place).mkdir()
        (tmp_path / place / "mushrooms").write_bytes(b"")
        rows = [f"{k % 2 + 1} {k % 112 + 1}:1" for k in range(8124)]
        (tmp_path / place / "mushrooms").write_text("\n".join(rows[:: 1 if head == b"p" else -1]) + "\n")
        words = "algorithm.name=dola", "topology.name=complete", "data.name=mushrooms", f"data.dir={tmp_path / place}"
        keys.append(setup_of(*words, "rounds=2").noise_key)
    assert keys[0] == keys[1] != keys[2]


def test_nothing_that_a_run_writes_has_a_hash_of_its_data(tmp_path):
    """Whoever knows all rows but one could try all that the last may be."""
    file = tmp_path / "mine.csv"
    rows = [f"{k % 7 / 7:.3f},{k % 2}" for k in range(60)]
    file.write_text("x,y\n" + "\n".join(rows) + "\n")
    words = f"data.file={file}", "data.labels=[0,1]", "checkpoint.every=2", "record.transcript=true", "rounds=6"
    asked = parse(None, ["algorithm.name=dola", "topology.agents=2", *words, f"output.dir={tmp_path / 'r'}"])
    alone.run(asked)
    content = file.read_bytes()
    whole = b"".join(path.read_bytes() for path in (tmp_path / "r").rglob("*") if path.is_file())
    key = compose(asked, None).noise_key
    hashes = [hashlib.new(name, content).digest() for name in ("sha256", "sha1", "md5", "blake2b")]
    hashes += [hashlib.blake2b(content, digest_size=size).digest() for size in (8, 16, 32)]
    for digest in (*hashes, key):
        assert digest[:8] not in whole
        assert digest.hex()[:12].encode() not in whole


@pytest.mark.parametrize("name", registry.names(registry.ALGORITHMS))
def test_a_longer_run_begins_with_a_shorter_one(name):
    short, long = (12, 14) if name != "two-stage-gaussian" else (110, 115)
    if name == "weight-balancing":  # on a fixed graph
        assert not knows_horizon(setup_of(f"algorithm.name={name}", "rounds=12"))
    (_, heard, _), (_, heard_longer, _) = (said(f"algorithm.name={name}", f"rounds={t}") for t in (short, long))
    np.testing.assert_array_equal(heard, heard_longer[:short])


def test_the_horizon_counts_where_a_message_may_depend_on_it():
    balancing = ["algorithm.name=weight-balancing", "topology.name=eulerian"]
    drawn = ["algorithm.name=dola", "algorithm.mixing=laplacian", "topology.name=erdos-renyi-each-round"]
    users = [f"algorithm.path={USER_FILES / 'extra.py'}"]
    for words in (drawn, users, balancing):
        assert knows_horizon(setup_of(*words, "rounds=9"))
        assert setup_of(*words, "rounds=9").noise_key != setup_of(*words, "rounds=8").noise_key


def test_an_anytime_algorithm_is_told_no_horizon():
    setup = setup_of("algorithm.name=dola", "rounds=9")
    assert setup.run.rounds == 9
    assert setup.algorithm.run.rounds > 10**9
    with pytest.raises(ValueError, match="says that it is anytime"):
        _ = setup.mixing.graph.most_edges


def test_the_seed_alone_does_not_give_the_noise():
    """Of DPSDA the first message is pure noise: on the old code it told every small seed, and all noise after it."""
    words = "algorithm.name=dpsda-ps", "rounds=4", "seed=1234"
    _, heard, scale = said(*words)

    def left(source: int | bytes) -> float:
        return float(np.abs(heard[0, 0] - Draws(source, Purpose.NOISE, 0).at(1).laplace(0.0, scale[0, 0], 64)).max())

    assert left(1234) > 1
    assert left(setup_of(*words).noise_key) < 1e-12  # a rehearsal: who guesses the seed and the settings has it


def test_two_versions_of_mpinodes_share_no_noise(monkeypatch):
    setup = setup_of("rounds=3")
    names, keys = [noise_name(setup)], [setup.noise_key]
    monkeypatch.setattr("mpinodes.core.keys.__version__", "0.0.9", raising=False)
    names.append(noise_name(setup_of("rounds=3")))
    keys.append(setup_of("rounds=3").noise_key)
    assert len(set(names)) == len(set(keys)) == 2


def test_a_key_is_for_noise_that_is_drawn_by_one():
    with pytest.raises(BadInput, match=r"noise\.key = 'a': .* set noise.entropy=seed"):
        setup_of("noise.key=a", "noise.entropy=os")


def test_a_secret_key_is_another_in_every_run_and_of_every_agent():
    heard = [said("algorithm.name=dpsda-ps", "rounds=4", "noise.entropy=os")[1] for _ in range(2)]
    assert not (heard[0] == heard[1]).any()
    assert len(np.unique(heard[0][0])) == heard[0][0].size


def run(directory: Path, *words: str) -> dict[str, Any]:
    asked = parse(None, [*words, "rounds=4", "report=false", f"output.dir={directory}"])
    return alone.run(asked)[1]["privacy"]


def test_a_run_beside_it_with_the_same_noise_on_other_data_is_named(tmp_path):
    file = tmp_path / "mine.npz"
    np.savez(file, features=np.eye(8, 2), targets=np.array([1.0, -1.0] * 4))
    words = ["algorithm.name=dola", f"data.file={file}", "topology.agents=2"]
    runs = tmp_path / "runs"
    assert run(runs / "one", *words)["shares_noise_with"] == []
    assert run(runs / "again", *words)["shares_noise_with"] == []  # the same data
    assert run(runs / "other-clip", *words, "privacy.clip=2")["shares_noise_with"] == []
    time.sleep(0.05)
    np.savez(file, features=2 * np.eye(8, 2), targets=np.array([1.0, -1.0] * 4))
    assert run(runs / "edited", *words)["shares_noise_with"] == []  # other contents have other noise
    np.savez(tmp_path / "older.npz", features=3 * np.eye(8, 2), targets=np.array([1.0, -1.0] * 4))
    os.utime(tmp_path / "older.npz", (1e9, 1e9))
    time.sleep(0.05)
    (tmp_path / "older.npz").rename(file)  # which leaves the time of its last writing
    assert run(runs / "moved", *words)["shares_noise_with"] == []
    assert run(runs / "secret", *words, "noise.entropy=os")["shares_noise_with"] == []
    assert run(runs / "paired", *words, "noise.key=1")["shares_noise_with"] == []
    time.sleep(0.05)
    np.savez(file, features=2 * np.eye(8, 2), targets=np.array([1.0, -1.0] * 4))
    assert run(runs / "paired-edited", *words, "noise.key=1")["shares_noise_with"] == ["paired"]
    (runs / "paired-edited").rename(tmp_path / "away")
    assert run(runs / "pair", *words, "noise.key=1", "data.shuffle=false")["shares_noise_with"] == ["paired"]


@pytest.mark.parametrize(("entropy", "key"), [("seed", "rehearsal"), ("os", "secret")])
def test_the_summary_says_what_the_proof_assumes(tmp_path, entropy, key):
    from mpinodes.results.privacy_words import lines

    privacy = run(tmp_path / "run", f"noise.entropy={entropy}")
    assert privacy["key"] == key
    assumed = "    rehearsal: the noise can be redrawn from the seed; proven for a secret key used once"
    assert (assumed in lines(privacy, None)) == (entropy == "seed")
    assert run(tmp_path / "silent", "privacy.epsilon=inf")["key"] is None
