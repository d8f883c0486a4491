"""Finished runs, published together."""

from __future__ import annotations

import json
import os
import re
import shutil

import numpy as np
import pytest

from mpinodes.core.errors import BadInput
from mpinodes.finished import joint_cost as spent
from mpinodes.finished.runs import found
from mpinodes.privacy.curves import gdp_epsilon, gdp_mu
from mpinodes.runlog.versions import VERSION
from tests.helpers.parts import run_of, setup_of
from tests.helpers.records import summary_of
from tests.helpers.running import run_here

DOLA = "algorithm.name=dola topology.agents=3 topology.name=complete rounds=9 comparator=false"
DIGITS = f"{DOLA} data.name=digits"
ALL = re.compile(r"^(?:all \d+ )?together +(\S+) +(\S+)", re.MULTILINE)


def together(*places, delta=None) -> tuple[list[float | None], str]:
    """Pure ε and ε at δ, as printed, and all that is said."""
    said = spent.text(spent.read(places), delta)
    numbers = [None if word == "unproven" else float(word) for word in ALL.search(said).groups()]
    return numbers, " ".join(said.split())


def csv_file(path, rows=27) -> str:
    rng = np.random.default_rng(rows)
    np.savetxt(path, np.column_stack([rng.uniform(-1, 1, rows), np.where(np.arange(rows) % 2, 1, -1)]), delimiter=",")
    return stated(path)


def stated(path) -> str:
    return f"data.file={path} data.bound=1 data.columns=1 data.labels=[-1,1] data.header=false"


def test_curves_are_composed_row_by_row_over_runs_that_differ(tmp_path):
    a = run_of(tmp_path / "a", f"{DIGITS} data.seed=5 seed=1")
    b = run_of(tmp_path / "b", f"{DIGITS} data.seed=5 seed=2 privacy.clip=2 privacy.epsilon=0.5 step.modulus=0.5")
    c = run_of(tmp_path / "c", f"{DIGITS} data.seed=6 seed=3")  # other rows in these rounds, for most
    (pure, proven), said = together(a, b)
    assert pure == pytest.approx(1.5)
    assert proven < summary_of(a)["privacy"]["network"]["proven"] + summary_of(b)["privacy"]["network"]["proven"]
    assert "sample by sample" in said
    assert "fixed before the first" in said
    assert 1 <= together(a, c)[0][0] <= 2
    assert together(a)[0][0] == pytest.approx(1.0)


def test_a_job_of_repeats_counts_as_its_repeats(tmp_path):
    job = run_of(tmp_path / "job", f"{DIGITS} data.epochs=3 rounds=250 repeats=2")
    own = summary_of(job)["privacy"]["together"]["network"]
    (pure, proven), _ = together(job)
    assert (pure, proven) == (pytest.approx(own["proven_pure"], rel=1e-3), pytest.approx(own["proven"], rel=1e-3))
    assert together(job, job / "repeat-0")[0] == [pure, proven]


def test_gaussian_runs_add_the_squares_of_mu(tmp_path):
    words = "algorithm.name=two-stage-gaussian topology.agents=3 topology.name=complete data.points=10 data.seed=1"
    words += " comparator=false"
    runs = [run_of(tmp_path / f"{k}", f"{words} seed={k} privacy.epsilon={k}") for k in (1, 2)]
    privacy = [summary_of(run)["privacy"] for run in runs]
    mu = [gdp_mu(p["network"]["proven"], p["delta"]) for p in privacy]
    expected = gdp_epsilon(float(np.hypot(*mu)), privacy[0]["delta"])
    (pure, proven), said = together(*runs)
    assert (pure, proven) == (None, pytest.approx(expected, rel=1e-3))
    assert "by GDP" in said


def test_other_data_compose_in_parallel(tmp_path):
    digits = run_of(tmp_path / "digits", f"{DIGITS} seed=1 privacy.epsilon=0.7")
    ball = run_of(tmp_path / "ball", f"{DOLA} data.total=30 seed=2")
    anew = run_of(tmp_path / "anew", f"{DOLA} data.total=30 seed=3")
    numbers, said = together(digits, ball, anew)
    assert numbers[0] == pytest.approx(1.0)
    assert "3 data sets with no sample in common" in said


def test_files_are_the_same_data_unless_declared_disjoint(tmp_path):
    one, other = csv_file(tmp_path / "one.csv"), csv_file(tmp_path / "other.csv", 30)
    made = {}
    for name, words in {
        "plain": f"{one} seed=1", "other": f"{other} seed=2", "digits": "data.name=digits seed=3",
        "mine": f"{one} seed=4 data.identity=ours", "again": f"{one} seed=5 data.identity=ours",
        "theirs": f"{other} seed=6 data.identity=theirs",
    }.items():  # fmt: skip
        made[name] = run_of(tmp_path / name, f"{DOLA} {words}")
    for names, expected, words in (
        (("plain", "other"), 2, "counts with its worst"),
        (("plain", "digits"), 2, "counts with its worst"),  # the file may hold digits
        (("plain", "mine"), 2, "counts with its worst"),
        (("mine", "theirs"), 1, "no sample in common"),
        (("mine", "again", "plain"), 3, "counts with its worst"),
    ):
        (pure, _), said = together(*(made[name] for name in names))
        assert pure == pytest.approx(expected, rel=1e-3), names
        assert words in said
    assert 1 <= together(made["mine"], made["again"])[0][0] <= 2
    assert "sample by sample" in together(made["mine"], made["again"])[1]


def test_where_the_data_are_gone_the_runs_own_numbers_count(tmp_path):
    file = tmp_path / "mine.csv"
    first = run_of(tmp_path / "first", f"{DOLA} {csv_file(file)} seed=1 data.identity=a")
    second = run_of(tmp_path / "second", f"{DOLA} {csv_file(file)} seed=2 data.identity=a")
    os.utime(file, (2e9, 2e9))  # edited since
    (pure, proven), _ = together(first, second)
    assert pure == pytest.approx(2)
    assert proven <= 2
    file.unlink()
    assert together(first, second)[0] == [pure, proven]


@pytest.mark.parametrize("size", [None, 2000])
def test_where_a_record_is_gone_or_damaged_the_runs_own_numbers_count(size, tmp_path):
    runs = [run_of(tmp_path / name, f"{DIGITS} seed={name}") for name in "12"]
    before, record = together(*runs)[0], runs[0] / "record.h5"
    record.write_bytes(record.read_bytes()[:size]) if size else record.unlink()
    (pure, _), said = together(*runs)
    assert pure == pytest.approx(before[0])
    assert "counts with its worst sample" in said


def by_rename(folder, other):
    folder.rename(folder.with_name("away"))
    other.rename(folder)


def by_link(folder, other):
    folder.rename(folder.with_name("away"))
    folder.symlink_to(other)


def by_exchange_of_files(folder, other):
    (other / "data.csv").replace(folder / "data.csv")


@pytest.mark.parametrize("put", [by_rename, by_link, by_exchange_of_files])
def test_older_files_put_in_the_place_of_the_data_are_noticed(put, tmp_path):
    folder, other = tmp_path / "data", tmp_path / "other"
    for made in (folder, other):
        made.mkdir()
        statement = csv_file(made / "data.csv").replace(str(made), str(folder))
    runs = [run_of(tmp_path / "a", f"{DOLA} rounds=3 {statement} seed=1 data.identity=mine")]
    put(folder, other)
    runs.append(run_of(tmp_path / "b", f"{DOLA} rounds=3 {statement} seed=2 data.identity=mine"))
    numbers, words = together(*runs)
    assert "counts with its worst" in words
    assert numbers[0] == pytest.approx(2.0)


def test_one_unproven_run_leaves_all_unproven_and_is_named(tmp_path):
    good = run_of(tmp_path / "good", f"{DIGITS} seed=1")
    bare = run_of(tmp_path / "bare", f"{DIGITS} seed=2 privacy.clip=inf privacy.scale=1 problem.loss=least-squares")
    numbers, said = together(good, bare)
    assert numbers == [None, None]
    assert str(bare) in said.partition("Nothing is proven: ")[2]
    clear = run_of(tmp_path / "clear", f"{DIGITS} seed=2 privacy.epsilon=inf")
    assert "carry no noise" in together(good, clear)[1]


def test_a_run_done_again_counts_once(tmp_path):
    first = run_of(tmp_path / "first", f"{DIGITS} seed=1")
    again = run_of(tmp_path / "again", f"{DIGITS} seed=1 name=other")
    numbers, said = together(first, again)
    assert numbers[0] == pytest.approx(1)
    assert "counted once" in said


@pytest.mark.parametrize(("key", "expected"), [("", [2.0, 2.0]), ("noise.key=1", [None, None])])
def test_an_edited_file_under_the_same_seed_shares_the_noise_of_a_given_key_alone(key, expected, tmp_path):
    file = tmp_path / "mine.csv"
    first = run_of(tmp_path / "first", f"{DOLA} {csv_file(file)} seed=1 {key}")
    text = file.read_text().splitlines()
    file.write_text("\n".join([*text[:-1], text[-2]]) + "\n")
    edited = run_of(tmp_path / "edited", f"{DOLA} {stated(file)} seed=1 {key}")
    numbers, said = together(first, edited)
    assert numbers == expected
    assert ("with the same noise" in said) == bool(key)


def test_a_run_done_again_after_the_folder_of_its_file_moved_counts_once(tmp_path):
    """With a key of its own, noise does not follow from the file."""
    (tmp_path / "here").mkdir()
    words = f"{DOLA} {csv_file(tmp_path / 'here' / 'data.csv')} noise.key=3"
    one = run_of(tmp_path / "one", words)
    (tmp_path / "here").rename(tmp_path / "there")
    two = run_of(tmp_path / "two", words.replace("here", "there"))
    assert "counted once" in together(one, two)[1]
    assert together(one, two)[0] == together(two)[0]
    file = tmp_path / "there" / "data.csv"
    file.write_bytes(file.read_bytes())  # which may be other samples now
    three = run_of(tmp_path / "three", words.replace("here", "there"))
    assert together(one, three)[0] == [None, None]
    (tmp_path / "there").rename(tmp_path / "here")
    assert "counted once" in together(three, run_of(tmp_path / "four", words))[1]


def test_the_same_settings_on_two_files_have_noise_of_their_own(tmp_path):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    runs = [
        run_of(tmp_path / f"run-{n}", f"{DOLA} {csv_file(tmp_path / n / 'd.csv')} seed=1") for n in ("one", "other")
    ]
    assert together(*runs)[0] == [2.0, 2.0]


def test_runs_that_were_given_one_key_share_their_noise(tmp_path):
    first = run_of(tmp_path / "first", f"{DIGITS} seed=1 noise.key=a")
    other = run_of(tmp_path / "other", f"{DIGITS} seed=1 noise.key=a privacy.clip=2")
    assert together(first, other)[0] == [None, None]
    apart = run_of(tmp_path / "apart", f"{DIGITS} seed=1 privacy.clip=2")
    assert together(first, apart)[0][0] == pytest.approx(2)


@pytest.mark.parametrize("broken", ["[]", '{"version": VERSION}', "repeat"])
def test_what_is_no_finished_run_is_refused_in_a_line(broken, tmp_path):
    made = run_of(tmp_path / "made", f"{DIGITS} repeats=2")
    if broken == "repeat":
        shutil.rmtree(made / "repeat-1")
    else:
        (made / "repeat-0" / "summary.json").write_text(broken.replace("VERSION", str(VERSION)))
    with pytest.raises(BadInput, match="made"):
        spent.read([made])


def test_noise_that_nothing_names_may_be_any(tmp_path):
    first = run_of(tmp_path / "first", f"{DIGITS} seed=1")
    other = run_of(tmp_path / "other", f"{DIGITS} seed=2")
    file = other / "experiment.toml"
    file.write_text(file.read_text().partition("\n")[2])
    assert together(first, other)[0] == [None, None]


def test_runs_of_two_adjacencies_are_refused_by_the_command(tmp_path):
    a = run_of(tmp_path / "a", f"{DIGITS} seed=1")
    b = run_of(tmp_path / "b", f"{DIGITS} seed=2 privacy.adjacency=one-round")
    done = run_here(str(a), str(b), cwd=tmp_path, module="mpinodes.spent")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "privacy.adjacency" in done.err
    done = run_here(str(a), cwd=tmp_path, module="mpinodes.spent")
    assert done.code == 0
    assert ALL.search(done.out)


def test_rounds_of_runs_add_up_in_one_order_and_else_are_unproven(tmp_path):
    whole = f"{DIGITS} privacy.adjacency=one-round data.seed=4"
    made = {
        name: run_of(tmp_path / name, f"{asked} {words}")
        for name, asked, words in (
            ("first", whole, "seed=1"),
            ("longer", whole, "seed=2 rounds=20"),
            ("batch", whole, "seed=3 data.batch=3"),
            ("order", whole, "seed=4 data.seed=5"),
            ("drawn", f"{DOLA} privacy.adjacency=one-round", "seed=5"),
        )
    }
    (pure, _), said = together(made["first"], made["longer"])
    assert pure == pytest.approx(2)
    assert "round by round" in said
    for other in ("batch", "order"):
        numbers, said = together(made["first"], made[other])
        assert numbers == [None, None]
        assert "several rounds" in said
    assert together(made["first"], made["drawn"])[0][0] == pytest.approx(1)  # no sample in common


DEALT = """
from dataclasses import dataclass
from functools import cached_property
import numpy as np
from mpinodes.streams.labelled import LabelledStream, in_memory
__all__ = ["Own"]

@dataclass(frozen=True)
class Own(LabelledStream):
    name, feature_bound, drawn_from_seed = "own", 1.0, False
    defaults = {"problem": {"loss": "logistic", "set": "ball", "radius": 5.0}}

    @cached_property
    def shares(self):
        orders = np.load(__file__.replace("own.py", "orders.npy"))  # a row for each seed
        return tuple(np.array_split(orders[self.seed], self.agents))

    def open(self):
        y = np.where(np.arange(40) % 7 == 0, 1.0, -1.0)
        return in_memory(0.1 * y[:, None] * np.ones((40, 2)), y), None
"""


def test_rows_are_the_same_only_where_all_files_behind_a_streams_code_are(tmp_path):
    (tmp_path / "own.py").write_text(DEALT)
    np.save(tmp_path / "orders.npy", [np.arange(40), np.roll(np.arange(40), 10)])
    words = f"algorithm.name=dola data.path={tmp_path / 'own.py'} data.identity=me data.shuffle=false rounds=5"
    words += " topology.agents=2 topology.name=complete"
    runs = [run_of(tmp_path / f"run-{k}", f"{words} seed={k}") for k in (0, 1)]
    before = together(runs[0], runs[1])[0][0]
    np.save(tmp_path / "orders.npy", [np.arange(40), np.arange(40)])
    assert (before, together(runs[0], runs[1])[0][0]) == (pytest.approx(1), pytest.approx(2))


@pytest.mark.parametrize("identity", ["5", '""'])
def test_an_identity_is_a_name(identity):
    with pytest.raises(BadInput, match=r"data\.identity"):
        setup_of(f"{DIGITS} data.identity={identity}")


def test_what_is_no_finished_run_is_refused(tmp_path):
    with pytest.raises(BadInput, match="no finished run"):
        spent.read([tmp_path])
    run = run_of(tmp_path / "run", f"{DIGITS} repeats=2")
    (run / "repeat-1" / "summary.json").unlink()
    with pytest.raises(BadInput, match="repeat-1: there is no finished run"):
        spent.read([run])
    old = run_of(tmp_path / "old", DIGITS)
    summary = summary_of(old) | {"version": 0}
    (old / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(BadInput, match="version"):
        spent.read([old])
    shutil.rmtree(run)
    empty = run_of(tmp_path / "empty", DIGITS)
    (empty / "experiment.toml").write_text("")
    with pytest.raises(BadInput, match="finished run"):
        found([empty])


@pytest.mark.parametrize("checked", ["x", ["x"], [{"tested": 1}], 3, [3]])
def test_a_summary_changed_by_hand_is_a_line(checked, tmp_path):
    run = run_of(tmp_path / "run", DOLA)
    (run / "summary.json").write_text(json.dumps(summary_of(run) | {"checked": checked}))
    with pytest.raises(BadInput, match="not what a run writes"):
        spent.text(spent.read([run]), None)
