"""Where there is no comparator, or no accuracy: it is said why, in every output, and nothing is made up."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

from mpinodes.config import own_files as sources
from mpinodes.config.building import build
from mpinodes.config.compose import compose
from mpinodes.core import ALL, SampleLoss
from mpinodes.core.asked import parse
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import Experiment, log_spaced
from mpinodes.evaluation.comparator import best
from mpinodes.evaluation.evaluator import _expected_seconds, left_out
from mpinodes.evaluation.meter import Meter
from mpinodes.losses.logistic import Logistic
from mpinodes.losses.softmax import Softmax
from mpinodes.presentation.terminal import text
from mpinodes.sets.ball import Ball
from mpinodes.sets.box import Box
from tests.helpers.parts import run_of, setup_of
from tests.helpers.records import compared, summary_of, typed

LINEAR = """
from dataclasses import dataclass
import numpy as np
from mpinodes.losses.linear import SmoothLoss
__all__ = ["Mine"]
@dataclass(frozen=True, slots=True)
class Mine(SmoothLoss):
    {fields}
    {point}
"""
WELSCH = """point = staticmethod(lambda m, b: 1 - np.exp(-((m - b) ** 2) / 2))
    slope = staticmethod(lambda m, b: (m - b) * np.exp(-((m - b) ** 2) / 2))
    bend = staticmethod(lambda m, b: (1 - (m - b) ** 2) * np.exp(-((m - b) ** 2) / 2))
    curvature = staticmethod(lambda: 1.0)
"""
SINE = """point = staticmethod(lambda m, b: 1 + np.sin(m - b))
    slope = staticmethod(lambda m, b: np.cos(m - b))
    bend = staticmethod(lambda m, b: -np.sin(m - b))
    curvature = staticmethod(lambda: 1.0)
"""
HUBER = """
    @classmethod
    def point(cls, m, b):
        e = np.abs(m - b)
        return np.where(e <= cls.delta, e**2 / 2, cls.delta * (e - cls.delta / 2))
    @classmethod
    def slope(cls, m, b):
        return np.clip(m - b, -cls.delta, cls.delta)
    @classmethod
    def bend(cls, m, b):
        return (np.abs(m - b) <= cls.delta) * 1.0
    curvature = staticmethod(lambda: 1.0)
    @classmethod
    def slope_bound(cls):
        return cls.delta
"""
OWN = """
from dataclasses import dataclass
import numpy as np
from mpinodes.core import ALL, SampleLoss
__all__ = ["Mine"]
@dataclass(frozen=True, slots=True)
class Mine(SampleLoss):
    {said}
    def value(self, x):
        return float((self.values(self.features, self.targets[None], x[None, None])[0, 0] / self.divisor).sum()) \\
            + self.regularizer / 2 * float(x @ x)
    {body}
"""
DISTANCE = """
    def data_grad(self, x, block=ALL):
        r = x - self.features
        return ((r / np.sqrt(1 + (r**2).sum(1))[:, None]) / np.reshape(self.divisor, (-1, 1))).sum(0)[block]
    @classmethod
    def values(cls, features, targets, points):
        f = features.reshape(-1, targets.shape[1], features.shape[1])
        return np.sqrt(1 + ((points[:, :, None] - f[:, None]) ** 2).sum(3))
"""
REVERSED = """
    def data_grad(self, x, block=ALL):
        m = (self.features * self.targets[:, None]) @ x
        return ((self.targets / (1 + np.exp(-m)) / self.divisor) @ self.features)[block]
    @classmethod
    def values(cls, features, targets, points):
        f = features.reshape(-1, targets.shape[1], features.shape[1])
        return np.logaddexp(0, (points @ f.transpose(0, 2, 1)) * targets[:, None])
"""
SMALL = "algorithm.name=dola topology.agents=2 topology.name=complete rounds=30"


def loss_file(tmp_path: Path, text: str) -> Path:
    (tmp_path / "mine.py").write_text(text)
    return tmp_path / "mine.py"


def regression(tmp_path: Path) -> str:
    rng = np.random.default_rng(0)
    b = np.concatenate([rng.normal(0, 0.05, 120), rng.normal(9, 0.05, 80)])
    np.savez(tmp_path / "bi.npz", features=np.ones((200, 1)), targets=rng.permutation(b))
    return f"data.file={tmp_path / 'bi.npz'} data.targets=real data.columns=1 problem.set=ball problem.radius=20"


@pytest.mark.parametrize(
    ("point", "more"),
    [(SINE, ""), *((WELSCH, more) for more in ("record.dynamic_regret=true", "comparator=true", "problem.set=none"))],
)
def test_a_loss_that_is_not_known_to_be_convex_has_no_comparator(point, more, tmp_path, capsys, monkeypatch):
    file = loss_file(tmp_path, LINEAR.format(fields="", point=point))
    run = run_of(tmp_path / "run", f"{SMALL} {regression(tmp_path)} problem.path={file} report=true {more}")
    summary = summary_of(run)
    assert summary["comparator"] is None
    for key in ("network_regret", "network_regret_per_round", "agent_regret", "dynamic_regret", "path_length"):
        assert summary.get(key) is None
    assert summary["bounds"] == []
    said = [line for line in text(typed(summary), run).splitlines() if "convex" in line]
    assert said == ["  best fixed decision, and regret                 none: " + summary["comparator_left_out"]]
    assert "Mine is not known to be convex" in (run / "report.html").read_text()
    assert not (run / "figures" / "regret.png").exists()
    if more:
        return
    other = run_of(tmp_path / "other", f"{SMALL} {regression(tmp_path)} problem.path={file} seed=1 {more}")
    third = run_of(tmp_path / "third", f"{SMALL} data.total=200 comparator=false")
    monkeypatch.setattr("mpinodes.studies.figures.draw_all", lambda *_, **look: {})
    said = compared([run, other, third], None, tmp_path / "compared")
    assert "2 runs have no regret: Mine is not known to be convex" in said
    assert "1 runs have no regret: comparator=false." in said


def test_a_loss_that_says_it_is_convex_has_one_and_repeats_say_why_they_have_none(tmp_path):
    data = regression(tmp_path)
    file = loss_file(tmp_path, LINEAR.format(fields="convex = True\n    delta: float = 1.0", point=HUBER))
    summary = summary_of(run_of(tmp_path / "convex", f"{SMALL} {data} problem.path={file}"))
    assert summary["comparator"]["certificate"] < 1e-6
    assert summary["comparator_left_out"] is None
    file = loss_file(tmp_path, LINEAR.format(fields="", point=WELSCH))
    summary = summary_of(run_of(tmp_path / "repeats", f"{SMALL} {data} problem.path={file} repeats=2"))
    assert "convex" in summary["comparator_left_out"]


@pytest.mark.parametrize("name", ["dola", "dpsda-ps", "m-admm"])
def test_the_comparator_can_be_left_out_and_nothing_else_changes(name, tmp_path):
    words = f"algorithm.name={name} rounds=8 data.total=200"
    words = words.replace(" data.total=200", "") if name != "dola" else words
    one, other = (run_of(tmp_path / k, f"{words} {k}".strip()) for k in ("comparator=true", "comparator=false"))
    a, b = summary_of(one), summary_of(other)
    assert b["comparator_left_out"] == "comparator=false"
    assert b["comparator"] is None
    assert a["comparator"]["value"] is not None
    assert {k: a[k] for k in ("average_fitness", "accuracy", "decision_norm")} == {
        k: b[k] for k in ("average_fitness", "accuracy", "decision_norm")
    }
    assert setup_of(words).noise_key == setup_of(f"{words} comparator=false").noise_key
    assert "comparator" not in setup_of(words).experiment.toml()


def expected(tmp_path: Path, samples: int, d: int, words: str) -> tuple[str, float]:
    """Return why a run on so many samples has no comparator, and the seconds that are expected of one."""
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "x.npz", features=rng.normal(size=(samples, d)), targets=rng.choice([-1.0, 1.0], samples))
    real = "data.targets=real" if "absolute" in words else "data.labels=[-1,1]"
    setup = setup_of(f"algorithm.name=dola topology.agents=3 data.file={tmp_path / 'x.npz'} {real} {words}")
    meter = Meter(setup, log_spaced(setup.experiment.rounds))
    return left_out(setup, meter), _expected_seconds(setup, meter)


MEASURED = [  # seconds on one core, of features with norms of 1
    ("hinge", 20_000, 150, "data.batch=100 rounds=66", 14.6), ("hinge", 20_000, 50, "data.batch=100 rounds=66", 5.0),
    ("hinge", 5000, 784, "data.batch=10 rounds=160", 9.7), ("absolute", 20_000, 50, "data.batch=100 rounds=66", 8.8),
    ("absolute", 60_000, 20, "data.batch=100 rounds=200", 2.1),
    ("absolute", 5000, 100, "data.batch=10 rounds=160", 7.0),
    ("absolute", 20_000, 150, "data.batch=100 rounds=66", 53.8),
]  # fmt: skip


@pytest.mark.parametrize(("loss", "samples", "d", "words", "seconds"), MEASURED)
def test_the_seconds_of_a_comparator_are_expected_to_within_a_factor_of_three(
    loss, samples, d, words, seconds, tmp_path
):
    reason, foreseen = expected(tmp_path, samples, d, f"problem.loss={loss} {words}")
    assert seconds / 3.1 < foreseen < 3.1 * seconds
    assert reason == (
        "" if foreseen <= 10 else f"the computation may take about {foreseen:.0f} s; {reason.partition('; ')[2]}"
    )
    assert bool(reason) == (d == 150 and loss == "absolute")


@pytest.mark.parametrize(("samples", "d", "seconds"), [(20_000, 50, 0.6), (60_000, 100, 3.3), (3000, 10, 0.06)])
def test_a_smooth_loss_of_ones_own_is_quick_enough(samples, d, seconds, tmp_path):
    file = loss_file(tmp_path, OWN.format(said="convex = True", body=REVERSED))
    reason, foreseen = expected(tmp_path, samples, d, f"problem.path={file} data.batch=100 rounds={samples // 300}")
    assert reason == ""
    assert seconds / 3.1 < foreseen < 3.1 * seconds


def test_what_would_take_long_is_left_out_by_counts_alone(tmp_path):
    reason, _ = expected(tmp_path, 9000, 120, "problem.loss=absolute")
    assert reason.startswith("the computation may take about ")
    assert "comparator=true" in reason
    for words in ("problem.loss=absolute comparator=true", "problem.loss=absolute rounds=100", "problem.loss=logistic"):
        assert expected(tmp_path, 9000, 120, words)[0] == ""


def test_softmax_on_features_of_unlike_sizes_is_quick_and_close():
    rng = np.random.default_rng(1)
    a = rng.normal(size=(150, 8)) * np.logspace(-1, 3, 8) + np.logspace(-1, 3, 8)
    total = Softmax(a, rng.integers(0, 3, 150).astype(float))
    found = best(total, Ball(10.0), np.zeros(24))
    assert found.certificate <= 1e-6 * found.value


@pytest.mark.parametrize("size", [1e3, 1e5, 1e8])
@pytest.mark.parametrize("set_", ["none", "ball", "box"])
def test_the_comparator_is_never_worse_than_0_or_the_start(size, set_, tmp_path):
    rng = np.random.default_rng(2)
    y = rng.choice([-1.0, 1.0], 80)
    np.savez(tmp_path / "far.npz", features=size * rng.normal(size=(80, 3)) + size * y[:, None] / 9, targets=y)
    words = f"algorithm.name=dola topology.agents=2 data.file={tmp_path / 'far.npz'} data.labels=[-1,1]"
    words += " rounds=4 data.batch=10 problem.average=true"
    run = run_of(tmp_path / "run", f"{words} problem.set={set_} step.kind=inverse-sqrt problem.regularizer=0")
    summary, at_0 = summary_of(run), 2 * np.log(2)
    assert summary["comparator"]["value_per_round"] <= at_0
    assert summary["comparator"]["value_per_round"] <= summary["baselines"]["start"]["average_fitness"]
    if set_ == "none":
        assert "its certificate is its own value" in text(typed(summary), run)


class Linear(SampleLoss):
    """A convex loss that may be below 0: a·x b."""

    convex = True

    def value(self, x):
        return float(((self.features @ x) * self.targets / self.divisor).sum())

    def data_grad(self, x, block=ALL):
        return ((self.targets / self.divisor) @ self.features)[block]

    @classmethod
    def values(cls, features, targets, points):
        return (points @ features.T[None]) * targets[:, None]


@pytest.mark.parametrize("feasible", [Ball(2.0), Box(1.0)])
def test_certificates_hold_of_losses_below_0_and_of_unknown_smoothness(feasible):
    rng = np.random.default_rng(0)
    total = Linear(rng.normal(size=(9, 4)), rng.normal(size=9))
    least = -feasible.support(-total.data_grad(np.zeros(4)))
    found = best(total, feasible, np.zeros(4))
    assert found.value < 0
    assert found.value - found.certificate <= least + 1e-12 <= found.value + 1e-9
    assert found.certificate < 1e-6


def test_a_better_start_is_taken():
    total = Logistic(1e5 * np.eye(3), np.array([1.0, -1.0, 1.0]))
    found = best(total, Ball(9.0), np.array([-5.0, 5, -5]), others=[np.array([3.0, -3, 3])])
    assert found.value <= total.value(np.array([3.0, -3, 3]))


@pytest.mark.parametrize("said", ["", "convex = True"])
def test_a_sample_loss_needs_only_value_gradient_and_values(said, tmp_path):
    file = loss_file(tmp_path, OWN.format(said=said, body=DISTANCE))
    run = run_of(tmp_path / "run", f"{SMALL} problem.path={file} data.total=200")
    summary = summary_of(run)
    assert (summary["comparator"] is None) == (not said)
    if said:
        assert summary["comparator"]["certificate_per_round"] < 1e-6
    assert summary["accuracy_left_out"] == "Mine predicts no target of these samples"
    assert summary["accuracy"] is None
    assert sum("Mine predicts no target" in line for line in text(typed(summary), run).splitlines()) == 1


def test_accuracy_is_that_of_the_loss_s_own_prediction(tmp_path):
    file = loss_file(tmp_path, OWN.format(said="", body=REVERSED))
    words = f"{SMALL.replace('rounds=30', 'rounds=300')} data.total=1000 privacy.epsilon=inf"
    mine, plain = (run_of(tmp_path / k, f"{words} problem.{k}").absolute() for k in (f"path={file}", "loss=logistic"))
    a, b = (summary_of(run)["accuracy"] for run in (mine, plain))
    assert a == pytest.approx(b, abs=0.02)  # its decision is that of the logistic loss, with the other sign
    assert a["test"] > 0.7


def test_a_user_may_say_how_a_loss_predicts(tmp_path):
    body = REVERSED + (
        "    @classmethod\n    def predict(cls, features, points, labels):\n"
        "        return np.zeros((features.shape[0], points.shape[1]), int)\n"
    )
    file = loss_file(tmp_path, OWN.format(said="", body=body))
    summary = summary_of(run_of(tmp_path / "run", f"{SMALL} problem.path={file} data.total=1000"))
    assert 0.4 < summary["accuracy"]["test"] < 0.6


FIELDS = """convex = True
    delta: float = 1.0
    power: int = 2
    strict: bool = False
    word: str = "a"
    pair: tuple[float, ...] = (1.0, 2.0)
"""


@pytest.mark.parametrize(
    ("word", "value"),
    [("delta=2", 2.0), ("power=3", 3), ("strict=true", True), ("word=b", "b"), ("pair=[3,4]", (3.0, 4.0))],
)
def test_fields_of_a_loss_are_settings(word, value, tmp_path):
    file, name = loss_file(tmp_path, LINEAR.format(fields=FIELDS, point=HUBER)), word.partition("=")[0]
    words = f"{SMALL} data.total=200 problem.path={file}"
    setup, plain = setup_of(f"{words} problem.{word}"), setup_of(words)
    loss = setup.losses(0)(1)
    while not isinstance(loss, SampleLoss):
        loss = loss.loss
    assert getattr(setup.loss, name) == getattr(loss, name) == value
    assert getattr(plain.loss, name) != value
    assert setup.noise_key != plain.noise_key
    toml = setup.experiment.toml()
    assert tomllib.loads(toml)["problem"][name] == (list(value) if isinstance(value, tuple) else value)
    (tmp_path / "e.toml").write_text(toml)
    assert compose(parse(str(tmp_path / "e.toml"), []), None).experiment == setup.experiment
    assert Experiment.read(tmp_path / "e.toml").toml() == toml


def test_a_setting_of_a_loss_changes_what_it_says_and_what_is_bounded(tmp_path):
    file = loss_file(tmp_path, LINEAR.format(fields="convex = True\n    delta: float = 1.0", point=HUBER))
    words = f"{SMALL} data.total=200 problem.path={file} privacy.clip=9"
    one, other = (summary_of(run_of(tmp_path / k, f"{words} problem.delta={k}")) for k in ("0.5", "2"))
    assert one["average_fitness"] != other["average_fitness"]
    bounds = [setup_of(f"{words} problem.delta={k}").loss.slope_bound() for k in ("0.5", "2")]
    assert bounds == [0.5, 2.0]


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("delta=x", "problem.delta = 'x': expected float, got str"), ("power=1.5", "problem.power = 1.5: expected int"),
        ("strict=1", "problem.strict = 1: expected bool"), ("detla=2", "did you mean problem.delta?"),
        ("raduis=2", "did you mean problem.radius?"), ("pair=3,4", "'problem.pair=[3, 4]'"),
    ],
)  # fmt: skip
def test_bad_settings_of_a_loss_are_refused(word, said, tmp_path):
    file = loss_file(tmp_path, LINEAR.format(fields=FIELDS, point=HUBER))
    with pytest.raises(BadInput) as caught:
        setup_of(f"{SMALL} data.total=200 problem.path={file} problem.{word}")
    assert said in str(caught.value)
    file = loss_file(tmp_path, LINEAR.format(fields="radius: float = 1.0", point=HUBER))
    with pytest.raises(BadInput, match=r"Mine.radius has the name of the key problem.radius: rename it"):
        setup_of(f"{SMALL} problem.path={file}")


def test_a_check_of_a_loss_is_one_of_its_default_settings(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = loss_file(tmp_path, LINEAR.format(fields="convex = True\n    delta: float = 1.0", point=HUBER))
    sources.stamp(file, sources.digest_of(file))
    words = f"{SMALL} data.total=200 problem.path={file}"
    tested = [sources.checked(setup_of(f"{words} {more}").experiment)[0]["tested"] for more in ("", "problem.delta=2")]
    assert tested == [True, False]


def test_a_check_holds_for_the_files_that_the_code_reads_as_they_were(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = loss_file(tmp_path, LINEAR.format(fields="convex = True\n    delta: float = 1.0", point=HUBER))
    file.write_text(file.read_text() + f"\nK = np.load({str(tmp_path / 'k.npy')!r})\n")
    np.save(tmp_path / "k.npy", 1.0)
    sources.stamp(file, sources.digest_of(file))
    experiment = setup_of(f"{SMALL} data.total=200 problem.path={file}").experiment
    tested = sources.checked(experiment)[0]["tested"]
    np.save(tmp_path / "k.npy", 50.0)
    assert (tested, sources.checked(experiment)[0]["tested"]) == (True, False)


PREDICTIONS = ["1 / 0", "(features @ points).T > 0", "np.where(features @ points > 0, 1.0, -1.0)", "None"]


@pytest.mark.parametrize("returned", PREDICTIONS)
def test_predictions_are_tried_before_the_first_round(returned, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\nimport numpy as np\nfrom mpinodes.losses.logistic import Logistic\n"
        "__all__ = ['Mine']\n@dataclass(frozen=True, slots=True)\nclass Mine(Logistic):\n    @classmethod\n"
        f"    def predict(cls, features, points, labels):\n        return {returned}\n"
    )
    with pytest.raises(BadInput, match=r"problem\.loss: Mine\.predict "):
        run_of(tmp_path / "run", f"{SMALL} data.total=200 problem.path={tmp_path / 'mine.py'}")
    assert not (tmp_path / "run").exists()


def test_a_loss_and_a_stream_of_ones_own_go_together_as_on_other_ranks(tmp_path):
    file = loss_file(tmp_path, LINEAR.format(fields="convex = True\n    delta: float = 1.0", point=HUBER))
    (tmp_path / "data.py").write_text(
        "from dataclasses import dataclass\nfrom mpinodes.streams.unit_ball import UnitBall\n__all__ = ['Mine']\n"
        "@dataclass(frozen=True)\nclass Mine(UnitBall):\n    def of(self, agent):\n        return super().of(agent)\n"
    )
    setup = setup_of(f"{SMALL} data.path={tmp_path / 'data.py'} data.total=200 problem.path={file}")
    x = np.full(setup.dimension, 0.1)
    here, there = (made.losses(0)(1).grad(x) for made in (setup, build(setup.experiment)))
    np.testing.assert_array_equal(here, there)
