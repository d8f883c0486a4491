"""Metrics: a user's own, those that may be asked for, and one name for every number."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import mpinodes
from mpinodes.config import registry
from mpinodes.config.metrics import metrics_of
from mpinodes.core.asked import flat, merge, parse
from mpinodes.core.errors import BadInput
from mpinodes.evaluation import evaluator
from mpinodes.metrics.built_in import BUILT_IN
from mpinodes.presentation import plots
from mpinodes.presentation import terminal as summary
from tests.helpers.records import typed

SPEED = '''
import numpy as np
from mpinodes.core.parts import Metric

__all__ = ["Speed"]


class Speed(Metric):
    """How far each agent moves in a round."""

    name = "speed"
    dims = ("round", "agent")
    label = "distance moved in a round"
    before = None

    def take(self, rounds):
        y = rounds.estimates
        before = np.zeros_like(y[:1]) if self.before is None else self.before
        self.before = y[-1:].copy()
        return np.linalg.norm(y - np.concatenate([before, y[:-1]]), axis=2)
'''
EXCESS = """
from mpinodes.core.parts import Metric

__all__ = ["Excess"]


class Excess(Metric):
    name = "excess"
    dims = ("horizon",)
    per_round = True
    repeats = "largest"

    def judge(self, run):
        return run.total[:, 0] - [run.losses(t).value(x) for t, x in zip(run.horizons.tolist(), run.mean)]
"""
OWN = "algorithm.name=dola data.name=olr data.dimension=3 topology.agents=3 rounds=24"


def run(words: str, where: Path, **record) -> tuple[Path, dict]:
    asked = merge(parse(None, words.split()), {"record": record, "output": {"dir": str(where / "run")}})
    directory = mpinodes.run_lockstep(asked)
    return directory, json.loads((directory / "summary.json").read_text())


@pytest.fixture
def own(tmp_path) -> list[str]:
    """Paths of a user's metrics."""
    (tmp_path / "speed.py").write_text(SPEED)
    (tmp_path / "excess.py").write_text(EXCESS)
    return [str(tmp_path / "speed.py"), str(tmp_path / "excess.py")]


@pytest.mark.parametrize("repeats", [1, 3])
def test_a_users_metric_is_told_of_everywhere(own, repeats, tmp_path, monkeypatch):
    save = plots.save
    monkeypatch.setattr(
        plots, "save", lambda figure, path: save(figure, path) if path.stem in ("speed", "excess") else path.touch()
    )
    directory, found = run(f"{OWN} repeats={repeats}", tmp_path, metrics=own, decisions=True)
    whole = mpinodes.load(directory)
    places = sorted(directory.glob("repeat-*")) or [directory]
    runs = [mpinodes.load(place) for place in places]
    for record in runs:
        y = record.decision.values
        moved = np.linalg.norm(np.diff(y, axis=0, prepend=0.0), axis=2)
        np.testing.assert_allclose(record.speed, moved, rtol=1e-12)
        assert record.speed.attrs["long_name"] == "distance moved in a round"
    of_each = np.array([record.speed.values for record in runs])
    np.testing.assert_array_equal(whole.speed, of_each if repeats > 1 else of_each[0])
    np.testing.assert_allclose(found["speed"], of_each[:, -1].mean(axis=0), rtol=1e-12)
    assert found["speed_mean"] == pytest.approx(np.mean(found["speed"]))
    last = np.array([record.excess.values[-1] for record in runs])
    assert found["excess"] == last.max()
    assert found["excess_per_round"] == last.max() / 24
    if repeats > 1:
        means = of_each[:, -1].mean(axis=1)
        assert found["spread"]["speed_mean"] == pytest.approx(
            {"std": means.std(ddof=1), "min": means.min(), "max": means.max()}
        )
        assert "excess" not in found["spread"]  # which is no mean
    page, text = (directory / "report.html").read_text(), summary.text(typed(found), directory)
    for label in ("distance moved in a round", "excess"):
        assert label in text
        assert f"<td>{label}</td>" in page
        assert f"<figcaption>{label.capitalize()}</figcaption>" in page
    for name in ("speed", "excess"):
        assert (directory / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_a_metric_may_have_nothing_to_tell_of_a_run(tmp_path):
    """Where one repeat of four has no value, those of all have none, and say so."""
    text = EXCESS.replace("return ", "return None if run.total[-1, 0] < CUT else ")
    _, plain = run(f"{OWN} repeats=4 report=false", tmp_path / "plain")
    cut = plain["spread"]["average_fitness"]["min"] * 24 + 1e-9
    (tmp_path / "excess.py").write_text(text.replace("from", f"CUT = {cut}\nfrom", 1).replace("largest", "mean"))
    directory, found = run(f"{OWN} repeats=4 report=false", tmp_path, metrics=[str(tmp_path / "excess.py")])
    assert found["excess"] is None
    assert "excess" not in mpinodes.load(directory)
    assert found["metrics"][-1]["key"] == "excess_per_round"
    assert re.search(r"excess +none", summary.text(typed(found), directory))


def test_of_coordinates_no_number_is_printed(tmp_path):
    text = EXCESS.replace('("horizon",)', '("horizon", "coordinate")').replace("run.total[:, 0] -", "run.best #")
    (tmp_path / "excess.py").write_text(text)
    directory, found = run(f"{OWN} report=false", tmp_path, metrics=[str(tmp_path / "excess.py")])
    assert found["excess"] == mpinodes.load(directory).comparator_point.values[-1].tolist()
    assert "excess" not in summary.text(typed(found), directory)


def test_values_of_another_shape_are_left_out(tmp_path, capsys):
    (tmp_path / "excess.py").write_text(EXCESS.replace("return run.total[:, 0] -", "return run.best #"))
    run(f"{OWN} report=false", tmp_path, metrics=[str(tmp_path / "excess.py")])
    assert "metric excess is left out: TypeError: metric 'excess' returned an array of shape" in capsys.readouterr().err


def test_what_may_be_asked_for(tmp_path):
    assert registry.names(registry.METRICS) == ("comparator-distance", "disagreement", "spectral-gap")
    words = "algorithm.name=dola-minibatch rounds=12 data.total=900 report=false"
    directory, found = run(words, tmp_path, metrics=registry.names(registry.METRICS), decisions=True)
    record = mpinodes.load(directory)
    y = record.decision.values
    apart = [max(np.linalg.norm(a - b) for a in at for b in at) for at in y]
    np.testing.assert_allclose(record.disagreement, apart, rtol=1e-12)
    far = np.linalg.norm(y[-1].mean(axis=0) - record.comparator_point.values[-1])
    assert found["comparator_distance"] == pytest.approx(far, rel=1e-12)


def test_the_spectral_gap_is_that_of_the_mixing_matrices(tmp_path):
    words = "rounds=5 topology.agents=5 report=false comparator=false"
    _, found = run(f"algorithm.name=dola topology.name=ring {words}", tmp_path / "ring", metrics=["spectral-gap"])
    ring = np.eye(5) / 3 + sum(np.roll(np.eye(5), k, axis=1) for k in (1, -1)) / 3  # Metropolis weights of a ring
    assert found["spectral_gap"] == pytest.approx(1 - np.sort(abs(np.linalg.eigvalsh(ring)))[-2], rel=1e-12)
    _, found = run(f"algorithm.name=dpps {words}", tmp_path / "dpps", metrics=["spectral-gap"])
    assert "spectral_gap" not in found or found["spectral_gap"] is None


def test_they_are_off_by_default(tmp_path):
    _, found = run(f"{OWN} report=false", tmp_path)
    assert not {"disagreement", "comparator_distance"} & found.keys()


TAKES = "    def take(self, rounds):\n        return rounds.losses\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("class A:\n    pass", "must name its one class"),
        ("__all__ = ['A']\nfrom dataclasses import dataclass\n@dataclass\nclass A:\n    x: int = 1", "does not extend"),
        ("__all__ = ['A']\nclass A(Metric):\n    name = 'a'", "must have dims"),
        (
            "__all__ = ['A']\nclass A(Metric):\n    name = 'a'\n    dims = ('round',)",
            r"a\.py', line 3: A must have take or judge: see mpinodes\.core\.Metric$",
        ),
        ("__all__ = ['A']\nclass A(Metric):\n    name = 'a'\n    dims = ('agent',)\n" + TAKES, "choose from"),
        (
            "__all__ = ['A']\nclass A(Metric):\n    name = 'a/b c'\n    dims = ('round',)\n" + TAKES,
            "only letters, digits and _",
        ),
        ("__all__ = ['A']\nclass A(Metric):\n    name = 'loss'\n    dims = ('round',)\n" + TAKES, "already"),
        ("__all__ = ['A']\nclass A(Metric):\n    name = 'epsilon_proven'\n    dims = ('round',)\n" + TAKES, "already"),
        ("__all__ = ['A']\nclass A(Metric):\n    name = 'event_l1'\n    dims = ('round',)\n" + TAKES, "already"),
    ],
)
def test_a_file_that_is_no_metric_is_refused(text, message, tmp_path):
    (tmp_path / "a.py").write_text(f"from mpinodes.core.parts import Metric\n{text}\n")
    with pytest.raises(BadInput, match=message):
        run(f"{OWN} report=false", tmp_path, metrics=[str(tmp_path / "a.py")])


@pytest.mark.parametrize("body", ["return 1 / 0", "return 'x'", "return [[1.0]]", "return run.nothing"])
def test_a_users_metric_that_fails_in_the_end_costs_a_run_nothing_else(body, tmp_path, capsys):
    text = "from mpinodes.core.parts import Metric\n__all__ = ['A']\nclass A(Metric):\n"
    text += "    name, dims = 'mine', ('horizon',)\n"
    (tmp_path / "a.py").write_text(f"{text}    label = 'mine'\n    def judge(self, run):\n        {body}\n")
    _, summary = run(f"{OWN} report=false", tmp_path, metrics=[str(tmp_path / "a.py")])
    assert summary["network_regret"] is not None
    assert capsys.readouterr().err.startswith("mpinodes: warning: metric mine is left out: ")


def test_an_unknown_name_is_refused():
    with pytest.raises(BadInput, match=r"record.metrics = 'disagreemnt'.*did you mean disagreement"):
        metrics_of(("disagreemnt",))


def test_no_two_numbers_have_one_name():
    assert len({metric.name for metric in BUILT_IN}) == len(BUILT_IN)
    summarized = [metric for metric in BUILT_IN if metric.summarized]
    assert len({evaluator.key(metric) for metric in summarized}) == len(summarized)


NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?%?(?![\w])")


def numbers_of(tree) -> list[float]:
    """All numbers of a summary."""
    inner = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    here = [float(tree)] if isinstance(tree, (int, float)) and not isinstance(tree, bool) else []
    return here + [x for value in inner for x in numbers_of(value)]


def stands(word: str, numbers: list[float]) -> bool:
    """Whether a printed number is one of these, to the digits that are printed."""
    share = word.endswith("%")
    value, mantissa = float(word.rstrip("%")), word.rstrip("%").partition("e")[0]
    digits = len(mantissa.partition(".")[2])
    exponent = int(word.partition("e")[2] or 0)
    scale = 100 if share else 1
    return any(abs(x * scale - value) <= 0.5000001 * 10.0 ** (exponent - digits) for x in numbers)


@pytest.mark.parametrize(
    "words",
    [
        "rounds=30",
        "rounds=30 data.name=olr record.dynamic_regret=true repeats=2",
        "algorithm.name=pp-admm rounds=12 data.total=700 problem.weight=30 repeats=2",
    ],
)
def test_every_number_that_people_read_stands_in_the_summary(words, tmp_path, undrawn):
    directory, found = run(words, tmp_path)
    names = [bound["name"] for bound in found["bounds"]]  # which have numbers of theorems
    numbers = numbers_of(found)
    rows = [*summary.measured(typed(found), None), *summary.bounds(typed(found))]
    assert len(rows) > 8
    for row in rows:
        why = [bound["why_not"] for bound in found["bounds"] if bound["name"] == row.label]
        value = row.value
        for reason in why:
            value = value.replace(reason, "")
        value = re.sub(r"\(\S+ per loss\)", "", value)
        for word in NUMBER.findall(value.replace("regret's ", "").replace("0 or less", "").replace("(0,", "(")):
            assert stands(word, numbers), (row, word)
        if row.label not in names and not row.key.startswith("solver"):
            first = NUMBER.search(value)
            assert first is not None
            assert stands(first.group(), [dict(flat(found))[row.key]]), row
    page = (directory / "report.html").read_text()
    cells = re.findall(r"<td>([^<]*)</td>", page)
    assert {row.key for row in rows} <= set(cells)
    tables = re.findall(r"<h2>What it cost in privacy</h2>\n(<table>.*?</table>)", page)
    for word in [word for table in tables for word in re.findall(r"<td>(-?[\d.e+]+)</td>", table)]:
        assert stands(word, numbers), word


def test_average_fitness_is_one_number(tmp_path):
    directory, found = run("algorithm.name=dola-minibatch rounds=20 data.total=900 report=false", tmp_path)
    text = summary.text(typed(found), directory)
    assert f"{found['average_fitness']:.4g}" in text
    line = json.loads((directory / "progress.jsonl").read_text().splitlines()[-1])
    assert line["average_fitness"] == pytest.approx(found["average_fitness"], rel=1e-12)
    assert found["network_regret_per_round"] == pytest.approx(found["network_regret"] / 20)
