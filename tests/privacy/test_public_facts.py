"""Public facts are stated, not read off the data: where they are read, nothing is proven, and it is said why."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from shutil import rmtree

import numpy as np
import pytest

from mpinodes.auditing.transcripts import Recorded, Replayed, Transcript
from mpinodes.config import registry
from mpinodes.config.compose import compose
from mpinodes.core.asked import parse
from mpinodes.core.errors import BadInput
from mpinodes.presentation.privacy_words import remarks
from mpinodes.summary.summary import Summary
from tests.helpers.parts import run_of, setup_of
from tests.helpers.records import read, summary_of
from tests.helpers.running import Done, run_here

WORDS = [
    "algorithm.name=dola", "topology.name=complete", "topology.agents=3", "rounds=6", "record.transcript=true",
    "step.kind=inverse-sqrt", "step.initial=0.001", "problem.regularizer=0", "problem.loss=hinge", "report=false",
]  # fmt: skip
PAIR = "topology.name=ring topology.agents=2"
ENDINGS = ["csv", "npz", "libsvm"]
HEADER = {"csv": ["data.header=false"]}


def write(path: Path, targets: list[float | str], features: list[float] | None = None) -> Path:
    """Samples of one feature, 1 if nothing else is said."""
    features = features or [1.0] * len(targets)
    if path.suffix == ".npz":
        np.savez(path, features=np.array(features)[:, None], targets=np.array(targets))
    elif path.suffix == ".csv":
        path.write_text("".join(f"{a},{b}\n" for a, b in zip(features, targets, strict=True)))
    else:
        path.write_text("".join(f"{b} 1:{a}\n" for a, b in zip(features, targets, strict=True)))
    return path


def command(file: Path, *words: str) -> Done:
    """Through the real command, into a directory `run`."""
    out = file.parent / "run"
    rmtree(out, ignore_errors=True)
    return run_here("--lockstep", *WORDS, f"data.file={file}", f"output.dir={out}", *words, cwd=file.parent)


def run(file: Path, *words: str) -> tuple[float | None, str]:
    """Without a process of its own: what is proven, and what leaves nothing proven."""
    rmtree(file.parent / "run", ignore_errors=True)
    return outcome(run_of(file.parent / "run", " ".join([*WORDS, f"data.file={file}", *words])))


def refusal(file: Path, *words: str) -> str:
    with pytest.raises(BadInput) as refused:
        run(file, *words)
    return str(refused.value)


def outcome(directory: Path) -> tuple[float | None, str]:
    privacy = summary_of(directory)["privacy"]
    return privacy["network"]["proven_pure"], privacy["unproven_because"]


def realised(recorded: Path, *other: str) -> float:
    """The largest ln of the ratio of the densities, under the recorded run's data and under other data.

    Given all that was said, it is Σ over agents and rounds of |m − m'|₁/scale: the noise is Laplace's.
    """
    one = Recorded(recorded)
    file = str(recorded / "experiment.toml")
    adjacent = Transcript(compose(parse(file, [*other]), ranks=None), one.frames, one.events)
    total = 0.0
    for agent in range(3):
        here, there = Replayed(one, agent), Replayed(adjacent, agent)
        for t in range(2, 7):
            moved = np.abs(here.messages[t - 1].value - there.messages[t - 1].value).sum()
            total += float(moved / one.events.scale[t - 1, agent, 0])
    return total


@pytest.mark.parametrize("ending", ENDINGS)
def test_one_sample_that_turns_all_labels_leaves_nothing_proven(tmp_path, ending):
    """All labels 0 and one 1, which is replaced by −1: the others are the larger ones then. Was: proven 1."""
    file = write(tmp_path / f"one.{ending}", [0.0] * 7 + [1.0] + [0.0] * 10)
    other = write(tmp_path / f"other.{ending}", [0.0] * 7 + [-1.0] + [0.0] * 10)
    done = command(file, *HEADER.get(ending, []))
    assert done.code == 0, done.err
    assert realised(tmp_path / "run", f"data.file={other}") == pytest.approx(15, rel=1e-6)
    proven, because = outcome(tmp_path / "run")
    assert proven is None
    assert "which label is +1 is read from the data (set data.labels=[0, 1])" in because
    assert "set data.columns=1)" in because
    assert f"Nothing is proven: {because}." in " ".join(done.out.split())


@pytest.mark.parametrize("ending", ENDINGS)
def test_stated_labels_prove_what_holds_for_every_file_that_has_them(tmp_path, ending):
    file = write(tmp_path / f"one.{ending}", [0] * 7 + [1] + [0] * 10)
    stated = ["data.labels=[0,1]", "data.columns=1", *HEADER.get(ending, [])]
    done = command(file, *stated)
    assert done.code == 0, done.err
    assert outcome(tmp_path / "run") == (pytest.approx(1), "")
    alone = write(tmp_path / f"alone.{ending}", [0] * 18)
    assert 0 < realised(tmp_path / "run", f"data.file={alone}") <= 1 + 1e-9
    refused = command(write(tmp_path / f"other.{ending}", [0] * 7 + [-1] + [0] * 10), *stated)
    assert refused.code == 2
    place = {"npz": "targets[7] (from 0)", "csv": "line 8, column 2"}.get(ending, "line 8")
    assert f"other.{ending}: {place}: label '-1' is neither 0 nor 1" in refused.err


def test_one_sample_of_libsvm_text_changes_the_length_of_every_frame_where_columns_are_not_stated(tmp_path):
    one, other = tmp_path / "one.libsvm", tmp_path / "other.libsvm"
    one.write_text("1 1:1\n-1 2:1\n" * 9)
    other.write_text("1 1:1\n-1 2:1\n" * 8 + "1 1:1\n-1 5:1\n")
    for file, length in ((one, 2), (other, 5)):
        proven, because = run(file)
        assert proven is None
        assert f"the number of columns is read from the file (set data.columns={length})" in because
        assert read(tmp_path / "run", "transcript").shape == (6, 3, 4 + length)
    for file in (one, other):
        assert run(file, "data.labels=[-1,1]", "data.columns=5") == (pytest.approx(1), "")
        assert read(tmp_path / "run", "transcript").shape == (6, 3, 4 + 5)
    refused = refusal(other, "data.labels=[-1,1]", "data.columns=4")
    assert "other.libsvm: line 18: index 5 is above 4, the number of features" in refused


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_lone_label_stops_nothing_where_both_are_stated(tmp_path, ending):
    file = write(tmp_path / f"one.{ending}", [1] * 18)
    aborted = refusal(file, "data.columns=1", *HEADER.get(ending, []))
    assert "1 different targets (1); two labels expected: set data.labels" in aborted
    done = run(file, "data.columns=1", "data.labels=[0,1]", *HEADER.get(ending, []))
    assert done == (pytest.approx(1), "")


def test_unshared_files_state_their_facts_too(tmp_path):
    """Was: proven 1, though the labels of one agent's file turned those of all."""
    for name, first in (("one", 1.0), ("other", -1.0)):
        for agent in range(3):
            write(tmp_path / f"{name}-{agent}.npz", [0.0] * 6 if agent else [first, *[0.0] * 5])
    file, other = tmp_path / "one-{agent}.npz", tmp_path / "other-{agent}.npz"
    assert run(file)[0] is None
    assert realised(tmp_path / "run", f"data.file={other}") == pytest.approx(15, rel=1e-6)
    for partition in ("even", "by-label"):  # which changes nothing here
        stated = ["data.columns=1", "data.labels=[0,1]", f"data.partition={partition}"]
        assert run(file, *stated) == (pytest.approx(1), "")
    refused = refusal(other, "data.columns=1", "data.labels=[0,1]")
    assert "other-0.npz: targets[0] (from 0): label '-1.0' is neither 0 nor 1" in refused


def test_shares_by_label_are_read_off_the_labels(tmp_path):
    """One label is turned, and samples change hands. Was: proven 1."""
    features = np.random.default_rng(5).choice([-1.0, 1.0], 18).tolist()
    file = write(tmp_path / "one.npz", [0.0] * 9 + [1.0] * 9, features)
    other = write(tmp_path / "other.npz", [0.0] * 8 + [1.0] * 10, features)
    stated = ["data.columns=1", "data.labels=[0,1]"]
    proven, because = run(file, *stated, "data.partition=by-label")
    assert realised(tmp_path / "run", f"data.file={other}") == pytest.approx(7, rel=1e-6)
    assert proven is None
    assert because.startswith("which agent has a sample depends on its label")
    assert run(file, *stated, "data.partition=uneven", "data.sizes=[6,7,5]", "rounds=5") == (pytest.approx(1), "")


TEXT = "0.5,no\n1,yes\n0,no\n" * 6
NAMES = "whether the first line has names is read from the file (set data.header=true or false)"
NO_NUMBER = "line 1, column 1: 'size' is not a finite number; data.header says whether the first line holds names"


@pytest.mark.parametrize(
    ("top", "header", "found"),
    [
        ("", [], (None, NAMES)),
        ("size,bought\n", [], (None, NAMES)),
        ("7,bought\n", [], "line 1, column 2: label 'bought' is neither 'no' nor 'yes'"),
        ("", ["data.header=false"], (1.0, "")),
        ("size,bought\n", ["data.header=true"], (1.0, "")),
        ("7,bought\n", ["data.header=true"], (1.0, "")),  # names may have numbers in them
        ("7,8\n", [], "line 1, column 2: label '8' is neither 'no' nor 'yes'"),
        ("7,8\n", ["data.header=true"], (1.0, "")),
        ("", ["data.header=true"], "the data last 5 rounds"),  # a sample is taken for names
        ("size,bought\n", ["data.header=false"], NO_NUMBER),
    ],
)
def test_whether_the_first_line_holds_names_is_stated(tmp_path, top, header, found):
    file = tmp_path / "one.csv"
    file.write_text(top + TEXT)
    words = ['data.labels=["no","yes"]', "data.columns=1", *header]
    if isinstance(found, str):
        assert found in refusal(file, *words)
    else:
        assert run(file, *words) == pytest.approx(found)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("data.labels=[0]", "data.labels = [0.0]: two different labels expected"),
        ("data.labels=[1,1.0]", "two different labels expected"),
        ("data.labels=[0,1] data.targets=real", "data.targets=real has no labels"),
        ("data.columns=2", "one.npz: 2 columns with the target, but data.columns = 2 and a target make 3"),
        ("data.columns=1 privacy.budget.epsilon=1", "which label is +1 is read from the data"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, words, message):
    assert message in refusal(write(tmp_path / "one.npz", [0.0, 1.0] * 9), *words.split())


def test_a_budget_is_kept_where_all_facts_are_stated(tmp_path):
    file = write(tmp_path / "one.csv", ["no", "yes"] * 9)
    stated = ["data.columns=1", "data.header=false", 'data.labels=["no","yes"]']
    assert run(file, *stated, "privacy.budget.epsilon=0.5") == (pytest.approx(0.5, rel=2e-3), "")


@pytest.mark.parametrize("name", sorted(set(registry.names(registry.STREAMS)) - {"file"}))
def test_the_built_in_data_sets_state_their_own(name):
    """None of them reads a fact off its data, unless it is asked to."""
    stream = registry.find(registry.STREAMS, name)
    assert stream(0, 3, None).unproven_because == ""


@pytest.mark.parametrize("ending", ENDINGS)
def test_words_are_labels_in_every_format(tmp_path, ending):
    words = f'algorithm.name=dola data.columns=1 data.labels=["no","yes"] {PAIR}'
    file = write(tmp_path / f"one.{ending}", ["no", "yes", "yes"] * 6)
    labels = setup_of(f"{words} data.file={file}").stream.labelled()["train"].targets
    assert labels.tolist() == [-1.0, 1.0, 1.0] * 6
    file = write(tmp_path / f"two.{ending}", ["no", "yes", "maybe", "never"])
    place = {"npz": "targets[2] (from 0)", "csv": "line 3, column 2"}.get(ending, "line 3")
    with pytest.raises(BadInput, match=re.escape(f"{file}: {place}: label 'maybe' is neither 'no' nor 'yes'")):
        setup_of(f"{words} data.file={file}")


def test_mushrooms_of_a_third_kind_are_refused_and_images_of_another_size(tmp_path):
    """Were: left out, so that one sample changed how many there are; and another dimension."""
    (tmp_path / "mushrooms").write_text("1 1:1\n2 3:1\n3 4:1\n2 1:1\n")
    with pytest.raises(BadInput, match="mushrooms: line 3: label '3' is neither 1 nor 2"):
        setup_of(f"algorithm.name=dola data.name=mushrooms data.dir={tmp_path} {PAIR}")
    (tmp_path / "train-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, 2, 20, 20) + bytes(800))
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, 2) + bytes([6, 8]))
    with pytest.raises(BadInput, match="each image has 400 pixels: expected 784"):
        setup_of(f"algorithm.name=dola data.name=mnist-6-8 data.dir={tmp_path} {PAIR}")


def test_no_value_stops_a_run_on_the_lattice(tmp_path):
    """With all features 0 agents say 0; with one of 1 they say what is far too large for the noise's lattice.

    Was: the second run alone stopped, with the value in its message.
    """
    words = ["noise.backend=lattice", "privacy.epsilon=1e12"]
    features = ([0.0] * 18, [1.0] + [0.0] * 17)
    files = [write(tmp_path / f"{k}.npz", [0.0, 1.0] * 9, each) for k, each in enumerate(features)]
    for file in files:
        run(file, *words)
    for file in files:
        assert run(file, *words, "data.columns=1", "data.labels=[0,1]") == (pytest.approx(1e12, rel=1e-3), "")


def test_a_choice_of_samples_is_said_to_be_taken_for_public(tmp_path):
    words = "rounds=3 algorithm.name=dola topology.name=ring topology.agents=2"
    for data, said in (("digits", "Which of the digits are sixes and eights is taken to be public."), ("olr", "")):
        loss = "" if data == "digits" else " problem.loss=least-squares"
        directory = run_of(tmp_path / data, f"{words} data.name={data}{loss}")
        privacy = Summary.read(directory).privacy
        assert privacy.public == said
        assert (said in remarks(privacy, privacy.noise)) is bool(said)


def test_what_local_solvers_do_on_adjacent_data_is_said_to_be_assumed(tmp_path):
    words = "algorithm.name=dvp-admm data.total=60 problem.weight=10 topology.agents=3 rounds=4"
    for grid in ("", " algorithm.grid=0.01 algorithm.tolerance=1e-12"):
        directory = run_of(tmp_path / f"run{grid}", words + grid)
        privacy = Summary.read(directory).privacy
        said = remarks(privacy, privacy.noise)
        assert any("local solvers" in sentence and "adjacent data" in sentence for sentence in said)
