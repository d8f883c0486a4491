"""A user's file: facts that are read from it, scaling by stated bounds, and the experiment that init writes."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pandas
import pytest
from sklearn.datasets import dump_svmlight_file

from mpinodes import load_model, run_lockstep
from mpinodes.algorithms import dp_dsgd
from mpinodes.config.compose import compose
from mpinodes.core.asked import gathered, parse
from mpinodes.core.errors import BadInput
from mpinodes.core.messages import doubles
from mpinodes.core.seeds import Draws, Purpose
from mpinodes.init import main as init
from tests.helpers.parts import run_of, setup_of
from tests.helpers.records import summary_of

RNG = np.random.default_rng(3)
CLASSES = RNG.integers(0, 3, 240)
FEATURES = np.eye(3)[CLASSES] * 800 + RNG.normal(300, 100, (240, 3)) * [1, 1, 0.5]


def write(path, targets=CLASSES, top="a,b,c,y\n", rows=slice(None)):
    lines = (",".join(map(str, [*x, y])) for x, y in zip(FEATURES[rows], np.asarray(targets)[rows], strict=True))
    path.write_text(top + "\n".join(lines) + "\n")
    return path


def test_three_labels_are_answered_with_classes(tmp_path):
    file = write(tmp_path / "three.csv")
    with pytest.raises(BadInput, match=r"two different labels expected.*; for more labels, set data.targets=classes"):
        setup_of(f"algorithm.name=dola data.file={file} data.labels=[0,1,2]")


def test_a_file_and_a_budget_suffice_but_prove_nothing(tmp_path):
    """The noise is that of the budget; what is read from the file, and the features' size, are named."""
    file = write(tmp_path / "three.csv")
    run = run_of(tmp_path / "run", f"data.file={file} privacy.budget.epsilon=8 topology.agents=3")
    summary = summary_of(run)
    assert summary["algorithm"] == "dp-dsgd"
    assert summary["privacy"]["network"]["proven"] is None
    because = summary["privacy"]["unproven_because"]
    assert "facts about the file were read from the data" in because
    assert "set data.columns=3" in because
    assert f"mpinodes init {file}" in summary["warnings"]["features-not-scaled"]


@pytest.mark.parametrize(
    ("scaling", "warning"),
    [
        ("{norm=1}", "nearly equal: 100.0%"),
        ("{lower=[0,3],upper=[1000,4],norm=1}", "nearly equal: 9"),
        ("{lower=[986,3.8],upper=[994,4],norm=1}", ""),
    ],
)
def test_samples_that_are_nearly_equal_after_scaling_are_named(tmp_path, scaling, warning):
    """With norm 1 alone, a large column hides the other; with bounds far from the samples, all are near one end."""
    rows = zip(990 + RNG.normal(0, 1, 300), 3.9 + RNG.normal(0, 0.02, 300), RNG.integers(0, 2, 300), strict=True)
    (tmp_path / "some.csv").write_text("a,b,y\n" + "\n".join(f"{a},{b},{y}" for a, b, y in rows) + "\n")
    stream = setup_of(f"data.file={tmp_path}/some.csv data.scaling={scaling} topology.agents=2").stream
    assert warning in stream.warning
    assert bool(stream.warning) == bool(warning)


def test_a_first_line_that_seems_to_hold_names_is_asked_for(tmp_path, capfd):
    file, out = tmp_path / "some.csv", tmp_path / "e.toml"
    file.write_text("1,2,y\n5,6,0\n7,9,1\n")
    assert init([str(file), "--output", str(out)]) == 2
    assert "the target of the first line, 'y', is no number, but all others are: if" in capfd.readouterr().err
    assert init([str(file), "data.header=true", "topology.agents=1", "--output", str(out)]) == 0
    assert tomllib.loads(out.read_text())["data"]["labels"] == [0, 1]


def test_init_names_the_kinds_of_files_that_it_reads(tmp_path, capfd):
    (tmp_path / "some.tsv").write_text("a\ty\n1\t0\n")
    assert init([str(tmp_path / "some.tsv"), "--output", str(tmp_path / "e.toml")]) == 2
    assert "some.tsv: the name of a data file must end in .npz, .csv, .parquet or" in capfd.readouterr().err


def test_init_rounds_bounds_to_digits_of_their_difference(tmp_path):
    (tmp_path / "some.csv").write_text("year,a,b,y\n1991,0.31,-7.04e5,no\n2004,0.5,1,yes\n2019,0.7,8.06e5,no\n")
    assert init([str(tmp_path / "some.csv"), "topology.agents=1", "--output", str(tmp_path / "e.toml")]) == 0
    scaling = tomllib.loads((tmp_path / "e.toml").read_text())["data"]["scaling"]
    assert scaling == {"lower": [1991, 0.31, -8e5], "upper": [2019, 0.7, 9e5], "norm": 1, "intercept": 0.5}


def test_stated_facts_prove_without_further_words(tmp_path):
    file = write(tmp_path / "three.csv")
    words = "data.header=true data.columns=3 data.targets=classes data.labels=[0,1,2] topology.agents=3 rounds=5"
    run = run_of(tmp_path / "run", f"data.file={file} privacy.budget.epsilon=8 {words}")
    assert 7.9 < summary_of(run)["privacy"]["network"]["proven"] <= 8


def test_other_reasons_still_refuse_a_budget(tmp_path):
    file = write(tmp_path / "three.csv")
    with pytest.raises(BadInput, match=r"no budget can be kept.*depends on its label"):
        run_of(tmp_path / "run", f"data.file={file} privacy.budget.epsilon=8 data.partition=by-label topology.agents=3")
    with pytest.raises(BadInput, match=r"no budget can be kept.*number of columns is read"):
        run_of(
            tmp_path / "run",
            f"data.file={file} privacy.budget.epsilon=8 data.facts=stated data.targets=classes topology.agents=3",
        )


def test_init_writes_an_experiment_that_learns_and_is_proven_once_its_facts_are_stated(tmp_path, capsys):
    file, out = write(tmp_path / "three.csv"), tmp_path / "experiment.toml"
    assert init([str(file), "topology.agents=3", "--output", str(out)]) == 0
    assert "240 samples, 3 features: a, b, c (" in capsys.readouterr().out
    assert "240 samples, 3 features: a, b, c (" in out.read_text().replace("\n# ", " ")
    read = summary_of(run_lockstep(parse(str(out), [f"output.dir={tmp_path}/read"])))
    assert read["privacy"]["network"]["proven"] is None
    assert "features-not-scaled" not in read["warnings"]
    model = load_model(tmp_path / "read")
    assert model.score(FEATURES, CLASSES) > 0.9  # of features as they are in the file
    stated = summary_of(run_lockstep(parse(str(out), ["data.facts=stated", f"output.dir={tmp_path}/stated"])))
    assert 7.9 < stated["privacy"]["network"]["proven"] <= 8
    assert stated["privacy"]["unproven_because"] == ""
    assert "shared-noise" not in stated["warnings"]  # the same noise on the same data
    assert stated["accuracy_last_decision"] == read["accuracy_last_decision"]  # the same bits
    assert read["accuracy_last_decision"]["test"] > 0.9
    assert init([str(file), "--output", str(out)]) == 2  # the file exists


@pytest.mark.parametrize(
    ("targets", "settings"),
    [
        (np.where(CLASSES > 0, "yes", "no"), ("labels", ["no", "yes"], "logistic")),
        (np.where(CLASSES > 0, 2, -7), ("labels", [-7, 2], "logistic")),
        (np.array(["x", "y", "z"])[CLASSES], ("classes", ["x", "y", "z"], "softmax")),
        (FEATURES[:, 0], ("real", None, "least-squares")),
    ],
)
@pytest.mark.parametrize("top", ["a,b,c,y\n", "0,1,2,3\n", "0,1,2,y\n", ""])
def test_init_reads_how_targets_are_read(tmp_path, targets, settings, top):
    out = tmp_path / "e.toml"
    assert init([str(write(tmp_path / "some.csv", targets, top)), "--output", str(out)]) == 0
    tree = tomllib.loads(out.read_text())
    data = tree["data"]
    assert (data["targets"], data.get("labels"), tree["problem"]["loss"]) == settings
    assert (data["facts"], data["header"], data["columns"]) == ("read", bool(top), 3)


@pytest.mark.parametrize("top", ["a,b,c,y\n", ""])
def test_a_file_of_words_is_prepared_by_the_printed_call(tmp_path, monkeypatch, capfd, top):
    """Without a line of names, pandas numbers the columns, and the target has a number as its name."""
    monkeypatch.chdir(tmp_path)
    Path("some.csv").write_text(top + "red,3,k,1\nred,4,m,1\nblue,3,m,0\nblue,1,k,0\n")
    assert init(["some.csv", "topology.agents=1"]) == 2
    error = capfd.readouterr().err
    exec("import pandas; " + error[error.index("pandas.get_dummies") : error.index(", and use")])
    target = error.rpartition("data.target=")[2].strip().replace("<column>", "y")
    assert init(["new.csv", f"data.target={target}", "topology.agents=1"]) == 0
    run = run_lockstep(parse("experiment.toml", ["rounds=2", "data.train=1", "output.dir=run"]))
    names = ("b", "a_blue", "a_red", "c_k", "c_m") if top else ("1", "0_blue", "0_red", "2_k", "2_m")
    assert load_model(run).features == names


def test_columns_scaled_by_themselves_are_a_read_fact(tmp_path):
    """As with other facts that are read from the data, a budget sets the noise, and nothing is proven."""
    scaled = (FEATURES - FEATURES.mean(axis=0)) / FEATURES.std(axis=0)
    pandas.DataFrame(scaled).assign(y=CLASSES).to_csv(tmp_path / "some.csv", index=False)
    words = ["topology.agents=2", "rounds=3", "--output", str(tmp_path / "e.toml")]
    assert init([str(tmp_path / "some.csv"), *words]) == 0
    run = run_lockstep(parse(str(tmp_path / "e.toml"), [f"output.dir={tmp_path}/run", "report=false"]))
    privacy = summary_of(run)["privacy"]
    assert privacy["network"]["proven"] is None
    assert "by the data's own mean" in (run / "summary.json").read_text()
    with pytest.raises(BadInput, match=r"no budget can be kept.*by the data's own mean"):
        run_lockstep(parse(str(tmp_path / "e.toml"), [f"output.dir={tmp_path}/stated", "data.facts=stated"]))


def test_init_names_the_column_of_each_bound_and_writes_equal_bounds_once(tmp_path):
    (tmp_path / "some.csv").write_text('age,"b\tc",y\n30,0,no\n50,12,yes\n90,4,yes\n')
    (tmp_path / "same.csv").write_text("a,b,y\n3,3,no\n0,0,yes\n2,1,yes\n")
    for name in ("some", "same"):
        assert init([f"{tmp_path}/{name}.csv", "topology.agents=1", "--output", f"{tmp_path}/{name}.toml"]) == 0
    text = (tmp_path / "some.toml").read_text()
    assert "lower = [\n    30.0,  # 'age'\n    0.0,  # 'b\\tc'\n]\nupper = [\n    90.0,  # 'age'\n    12.0,  #" in text
    assert tomllib.loads(text)["data"]["scaling"] == {"lower": [30, 0], "upper": [90, 12], "norm": 1, "intercept": 0.5}
    assert "lower = 0.0\nupper = 3.0\n" in (tmp_path / "same.toml").read_text()


def test_init_names_no_column_behind_the_bounds_of_targets(tmp_path):
    """There are as many bounds of targets as columns here. Bounds of the user get names, too."""
    (tmp_path / "some.csv").write_text("a,b,y\n30,0.5,100.5\n50,12,200\n90,4,300\n20,3,400\n")
    words = ["topology.agents=1", "data.scaling.upper=[100,20]", "--output", str(tmp_path / "e.toml")]
    assert init([str(tmp_path / "some.csv"), *words]) == 0
    text = (tmp_path / "e.toml").read_text()
    assert "upper = [\n    100,  # 'a'\n    20,  # 'b'\n]" in text
    assert "targets = [\n    100.0,\n    400.0,\n]" in text


def test_init_puts_a_median_near_an_end_in_the_middle(tmp_path):
    """The files of both agents count."""
    for agent, rows in enumerate(["0,5,1,2,no\n0,5,1,3,no\n1,5,9,4,no\n", "0,5,2,1,no\n0,3,2,3,yes\n1,5,2,5,no\n"]):
        (tmp_path / f"p-{agent}.csv").write_text(f"few,many,large,even,y\n{rows}")
    assert init([*(f"{tmp_path}/p-{agent}.csv" for agent in (0, 1)), "--output", str(tmp_path / "e.toml")]) == 0
    scaling = tomllib.loads((tmp_path / "e.toml").read_text())["data"]["scaling"]
    assert scaling == {"lower": [-1, 3, -5, 1], "upper": [1, 7, 9, 5], "norm": 1, "intercept": 0.5}


def test_init_keeps_a_column_of_ones(tmp_path):
    (tmp_path / "some.csv").write_text("a,one,minus,zero,y\n30,1,-2,0,no\n30,1,-2,0,yes\n90,1,-2,0,yes\n90,1,-2,0,no\n")
    assert init([str(tmp_path / "some.csv"), "topology.agents=1", "--output", str(tmp_path / "e.toml")]) == 0
    rows = compose(parse(str(tmp_path / "e.toml"), []), None).stream._sources[0].features(np.arange(2))
    assert np.allclose(rows[:, 1:] * np.sqrt(3), [1, -1, 0, np.sqrt(0.75)])


def test_init_scales_real_targets_and_errors_stay_in_the_units_of_the_file(tmp_path):
    targets = FEATURES @ [3.0, -2.0, 1.0] + RNG.normal(0, 30, 240)
    file, out = write(tmp_path / "some.csv", targets), tmp_path / "e.toml"
    words = f"data.file={file} privacy.budget.epsilon=8 topology.agents=3 data.scaling={{norm=1}}"
    raw = summary_of(run_of(tmp_path / "raw", words))
    assert "A target is as large as" in raw["warnings"]["features-not-scaled"]
    assert "targets=[..., ...]" in raw["warnings"]["features-not-scaled"]
    assert init([str(file), "topology.agents=3", "--output", str(out)]) == 0
    low, high = tomllib.loads(out.read_text())["data"]["scaling"]["targets"]
    assert low <= targets.min() < targets.max() <= high
    done = summary_of(run_lockstep(parse(str(out), [f"output.dir={tmp_path}/run"])))
    assert "features-not-scaled" not in done["warnings"]
    error, guessed = done["rmse_last_decision"]["test"], done["baselines"]["mean_target"]["test"]
    assert 0.8 < guessed / targets.std() < 1.2
    assert error < 0.6 * guessed < 0.6 * raw["rmse_last_decision"]["train"]
    model = load_model(tmp_path / "run" / "model.npz")  # or the directory
    marks, predicted = done["model"], model.predict(FEATURES)
    squares = 0.8 * marks["rmse.train"] ** 2 + 0.2 * marks["rmse.test"] ** 2
    assert ((predicted - targets) ** 2).mean() == pytest.approx(squares)
    with pytest.raises(BadInput, match=r"data.scaling.targets: two bounds, the smaller first"):
        setup_of(f"data.file={file} data.targets=real data.scaling={{targets=[3,2]}}")


def test_ratings_are_real_targets_if_the_user_says_so_and_a_small_epsilon_is_better_than_guessing(tmp_path):
    """By default, eleven whole numbers are classes. The steps for classes are too large for real targets."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(300, 4))
    ratings = np.clip(np.round(5 + features @ [1, 2, 0, 1]), 0, 10).astype(int)
    pandas.DataFrame(features).assign(y=ratings).to_csv(tmp_path / "some.csv", index=False)
    words = ["topology.agents=3", "data.targets=real", "privacy.budget.epsilon=1", "--output", str(tmp_path / "e.toml")]
    assert init([str(tmp_path / "some.csv"), *words]) == 0
    data = tomllib.loads((tmp_path / "e.toml").read_text())["data"]
    assert ("labels" in data, data["scaling"]["targets"]) == (False, [0, 10])
    errors = []
    for words in ([], ["step.initial=30", "problem.radius=20"]):
        words = [*words, f"output.dir={tmp_path}/run-{len(words)}", "report=false"]
        run = run_lockstep(parse(str(tmp_path / "e.toml"), words))
        errors.append(summary_of(run)["rmse_last_decision"]["test"])
    guessed = summary_of(run)["baselines"]["mean_target"]["test"]
    assert errors[0] < 0.8 * guessed < guessed < errors[1]


def test_classes_are_classes_if_the_user_says_so(tmp_path):
    file, out = write(tmp_path / "some.csv", np.arange(240) % 30), tmp_path / "e.toml"
    assert init([str(file), "topology.agents=1", "data.targets=classes", "--output", str(out)]) == 0
    data = tomllib.loads(out.read_text())["data"]
    assert (data["targets"], data["labels"]) == ("classes", [*range(30)])


def test_init_takes_an_algorithm_of_ones_own_in_place_of_the_default(tmp_path, capsys):
    source = Path(dp_dsgd.__file__).read_text().replace("class DPDSGD", "class Own").replace('"DPDSGD"', '"Own"')
    (tmp_path / "own.py").write_text(source)
    file, out = write(tmp_path / "some.csv", np.where(CLASSES > 0, "yes", "no")), tmp_path / "e.toml"
    assert init([str(file), f"algorithm.path={tmp_path}/own.py", "--output", str(out)]) == 0
    assert "own.py, loss logistic" in capsys.readouterr().out
    assert "name" not in tomllib.loads(out.read_text())["algorithm"]


@pytest.mark.parametrize(
    ("name", "needed"),
    [
        ("two-stage-gaussian", ["problem.regularizer=0.1"]), ("pp-admm", ["problem.weight=10"]),
        ("huang-dp", []), ("gossip-averaging", []), ("dp-dsgd", []), ("dpps", []),
    ],
)  # fmt: skip
def test_init_writes_an_experiment_for_any_method(tmp_path, name, needed):
    """Some methods have no step schedule, and others do not clip."""
    file, out = write(tmp_path / "some.csv", np.where(CLASSES > 0, 1, 0)), tmp_path / "e.toml"
    assert init([str(file), f"algorithm.name={name}", *needed, "topology.agents=3", "--output", str(out)]) == 0
    rounds = [] if name == "two-stage-gaussian" else ["rounds=4"]
    run = run_lockstep(parse(str(out), [*rounds, f"output.dir={tmp_path}/run", "report=false"]))
    assert summary_of(run)["privacy"]["network"]["proven"] is None
    assert tomllib.loads(out.read_text()).get("step", {}).get("initial") == {"dp-dsgd": 30, "dpps": 30}.get(name)


def test_a_run_takes_columns_of_the_same_name(tmp_path):
    file = write(tmp_path / "some.csv", top="a,a,c,y\n")
    run = run_of(tmp_path / "run", f"data.file={file} privacy.budget.epsilon=8 topology.agents=3 rounds=3")
    assert tomllib.loads((run / "experiment.toml").read_text())["data"]["labels"] == [0, 1, 2]


def test_stated_classes_that_are_words_need_no_further_key(tmp_path):
    file = write(tmp_path / "some.csv", np.array(["x", "y", "z"])[CLASSES])
    for words in ("", "data.targets=classes"):
        words = f"data.file={file} {words} privacy.budget.epsilon=8 topology.agents=3 rounds=3"
        assert summary_of(run_of(tmp_path / f"run{len(words)}", words))["accuracy"]["train"] > 0.3


def test_init_takes_the_files_of_agents(tmp_path, capsys):
    files = [str(write(tmp_path / f"part-{i}.csv", rows=slice(80 * i, 80 * i + 60 + i))) for i in range(3)]
    out = tmp_path / "e.toml"
    assert init([*files, "--output", str(out)]) == 0
    stream = compose(parse(str(out), ["data.validation=0.25"]), None).stream
    train, test = stream._sources
    assert (len(train.targets), len(test.targets)) == (110, 36)  # of 183 samples, 37 test samples are never read
    owner = np.repeat(range(3), [60, 61, 62])
    everything = np.concatenate([FEATURES[80 * i : 80 * i + 60 + i] for i in range(3)])
    scaling = stream.scaling.scaled(everything)
    for agent in range(3):  # each sample is of its owner's file
        for source, rows in ((train, stream.shares[agent]), (test, stream.held_by(agent))):
            for x in source.features(rows):
                assert owner[np.abs(scaling - x).sum(axis=1).argmin()] == agent
    assert sum(len(stream.held_by(agent)) for agent in range(3)) == 36
    assert init([files[0], files[2], "--output", str(tmp_path / "f.toml")]) == 2
    (tmp_path / "part-other.csv").write_text("a,y\n1e6,1\n2e6,2\n")  # a file without a number is no file of an agent
    assert init([str(tmp_path / "part-{agent}.csv"), "--output", str(tmp_path / "g.toml")]) == 0
    assert (tmp_path / "g.toml").read_text() == out.read_text()
    capsys.readouterr()
    assert init([*files[:2], "--output", str(tmp_path / "h.toml")]) == 0  # and a file that is not named is not read
    assert ": 121 samples" in capsys.readouterr().out
    assert tomllib.loads((tmp_path / "h.toml").read_text())["topology"]["agents"] == 2
    assert init([*files, str(tmp_path / "part-3.csv"), "--output", str(tmp_path / "i.toml")]) == 2
    assert "part-3.csv: there is no such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        ("a,b,y\n1,2,no\n2,3,no\n", [], "some.csv: all targets are 'no': two different labels or more expected"),
        ("a,b,y\n1,,no\n2,3,yes\n", [], "line 2, column 2: '' is not a finite number; fill in missing values by"),
        ("a,b,y\n1,NA,no\n2,3,yes\n", [], "line 2, column 2: 'NA' is not a finite number; fill in missing values by"),
        ("a,b,y\n1,inf,no\n2,3,yes\n", [], "line 2, column 2: 'inf' is not a finite number"),
        ("a,b,y\n1,2,no\n2,3,\n3,4,yes\n", [], "line 3, column 3: label '' is neither 'no' nor 'yes'"),
        ("a,a,y\n1,2,no\n2,3,yes\n", [], "some.csv: several columns have the name 'a': give each a name of its own"),
        ("a,b,y\n1,2,no\n2,3,yes\n", ["data.facts=stated"], "data.facts: leave this key out, because init reads"),
        ("a,b,y\n1,2,no\n2,3,yes\n", ["data.file=other.csv"], "data.file: leave this key out, because init reads"),
        ("a,b,y\n1,2,3.5\n2,3,3.5\n", [], "some.csv: all targets are 3.5: data.target names the column of the targets"),
        (
            "a,b,y\n1,2,3.5\n2,3,\n3,3,1\n4,1,2\n",
            [],
            "line 3, column 3: '' is not a finite number; fill in missing values by",
        ),
        ("a,b,y\n1,2,no\n2,3,yes\n", ["data.targets=real"], "the targets are not all numbers: no, yes"),
        ("a,b,y\n1,2,no\n2,3,yes\n", ["data.targets=words"], "choose from: labels, classes, real"),
        ("a,b,y\n1,2,no\n2,3,yes\n", ["--output", "none/x"], "--output none/x: the folder does not exist"),
    ],
)
def test_init_refuses_a_file_in_one_line(tmp_path, monkeypatch, capfd, text, words, message):
    monkeypatch.chdir(tmp_path)
    Path("some.csv").write_text(text)
    assert init(["some.csv", "topology.agents=1", *words]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert message in line


def test_the_command_line_replaces_the_part_that_a_file_chooses(tmp_path):
    file, mine = tmp_path / "e.toml", Path(dp_dsgd.__file__)
    file.write_text('[algorithm]\nname = "dola"\nmixing = "metropolis"\n')
    assert parse(str(file), [f"algorithm.path={mine}"])["algorithm"] == {"path": str(mine), "mixing": "metropolis"}
    both = parse(str(file), [f"algorithm.path={mine}", "algorithm.name=dpps"])
    assert {"path", "name"} < both["algorithm"].keys()  # refused later
    assert gathered(file, {"algorithm.path": mine})["algorithm"] == {"path": str(mine), "mixing": "metropolis"}


def test_scaling_maps_bounds_to_one_and_then_the_norm(tmp_path):
    file = write(tmp_path / "three.csv")
    base = f"algorithm.name=dp-dsgd data.file={file} data.targets=classes topology.agents=3"
    scaled = setup_of(f"{base} data.scaling={{lower=0,upper=[1000,1000,500]}}").stream
    expected = np.clip(FEATURES / [500, 500, 250] - 1, -1, 1)
    assert np.allclose(scaled._sources[0].features(np.arange(240)), expected)
    assert scaled.feature_bound == 1
    normed = setup_of(f"{base} data.scaling={{lower=0,upper=[1000,1000,500],norm=2}}").stream
    rows = normed._sources[0].features(np.arange(240))
    assert np.allclose(rows, 2 * expected / np.linalg.norm(expected, axis=1, keepdims=True))
    assert (normed.feature_norm, normed.feature_bound) == (2, 2)  # and not the bounds before the norm
    for wrong, message in (
        ("{lower=0}", "both lower and upper"), ("{lower=[0,1],upper=2}", "one number or 3 numbers"),
        ("{lower=[0],upper=2}", "one number or 3 numbers"), ("{lower=[0,5,0],upper=[9,4,9]}", "no bound in lower"),
        ("{lower=[0,nan,0],upper=9}", "finite bounds expected"), ("{lower=0,upper=inf}", "finite bounds expected"),
    ):  # fmt: skip
        with pytest.raises(BadInput, match=message):
            setup_of(f"{base} data.scaling={wrong}")


@pytest.mark.parametrize("kind", ["csv", "libsvm"])
def test_an_intercept_is_a_last_feature_beside_the_norm(tmp_path, kind):
    file = write(tmp_path / "three.csv")
    if kind == "libsvm":
        file = tmp_path / "three.libsvm"
        dump_svmlight_file(FEATURES, CLASSES, str(file), zero_based=False)
    words = f"algorithm.name=dp-dsgd data.file={file} topology.agents=3 data.targets=classes data.norm=1000"
    stream = setup_of(f"{words} data.scaling={{norm=2,intercept=0.5}}").stream
    rows = doubles(stream._sources[0].features(np.arange(240)))
    rows = rows.toarray() if kind == "libsvm" else rows
    assert np.allclose(rows[:, :3], 2 * FEATURES / np.linalg.norm(FEATURES, axis=1, keepdims=True))
    assert rows.shape[1] == stream.dimension == 4
    assert (rows[:, 3] == 0.5).all()
    assert stream.feature_norm == pytest.approx(np.sqrt(4.25))
    assert stream.feature_bound == 2
    assert "set data.columns=3)" in stream.unproven_because  # those of the file
    without_norm = setup_of(f"{words} data.scaling={{intercept=3}}").stream
    assert without_norm.feature_norm == pytest.approx(np.hypot(1000, 3))


@pytest.mark.parametrize("stated", ["bound=1.5", "norm=1.5"])
def test_an_intercept_hides_no_feature_above_a_stated_bound(tmp_path, stated):
    words = f"algorithm.name=dp-dsgd data.file={write(tmp_path / 'three.csv')} data.targets=classes data.{stated}"
    with pytest.raises(BadInput, match=r"which is above 1.5, the stated bound"):
        run_of(tmp_path / "run", f"{words} topology.agents=3 data.scaling={{norm=2,intercept=10}}")


def test_with_an_intercept_a_rare_label_is_not_worse_than_guessing(tmp_path):
    """Without an intercept, a hyperplane through the middle of the features calls half of the samples positive."""
    rng = np.random.default_rng(3)
    features = rng.normal(size=(800, 3))
    labels = features[:, 0] + 0.2 * rng.normal(size=800) > 0.8  # a fifth of the samples
    pandas.DataFrame(features).assign(y=labels.astype(int)).to_csv(tmp_path / "some.csv", index=False)
    words = ["topology.agents=2", "data.scaling.lower=-4", "data.scaling.upper=4"]
    assert init([str(tmp_path / "some.csv"), *words, "--output", str(tmp_path / "e.toml")]) == 0
    accuracy = {}
    for intercept in (0, 0.5):
        words = [f"data.scaling.intercept={intercept}", f"output.dir={tmp_path}/{intercept}", "report=false"]
        run = run_lockstep(parse(str(tmp_path / "e.toml"), words))
        summary = summary_of(run)
        accuracy[intercept] = summary["accuracy_last_decision"]["test"]
    assert accuracy[0] < summary["baselines"]["majority"]["test"] + 0.03 < accuracy[0.5] - 0.05


def test_columns_that_are_scaled_by_their_training_rows_are_named_beside_an_intercept(tmp_path):
    file = write(tmp_path / "three.csv")
    words = f"data.file={file} data.targets=classes topology.agents=3 data.train=0.8"
    assert "columns c are scaled" not in setup_of(words).stream.unproven_because
    frame = pandas.read_csv(file)
    train = Draws(0, Purpose.SPLIT).at(0).permutation(len(frame))[: round(0.8 * len(frame))]
    frame["c"] = (frame["c"] - frame["c"][train].mean()) / frame["c"][train].std()
    frame.to_csv(file, index=False)
    assert "columns c are scaled by the data's own mean" in setup_of(words).stream.unproven_because


def test_a_linear_decay_lasts_as_long_as_the_run():
    setup = setup_of("algorithm.name=dp-dsgd step.kind=linear-decay step.initial=2 rounds=8 topology.agents=3")
    assert [setup.run.step(t) for t in (1, 5, 8, 9)] == [2, 1, 0.25, 0.25]
