"""Parts in a user's own files: they run, and what is wrong with one is said in one line."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

import mpinodes
from mpinodes.core.asked import parse
from mpinodes.core.errors import BadInput
from tests.helpers.parts import decisions, rows_of, run_of, setup_of
from tests.helpers.records import same_bits

LOSS = """
    from dataclasses import dataclass
    from mpinodes.losses.logistic import Logistic
    __all__ = ["Mine"]

    @dataclass(frozen=True, slots=True)
    class Mine(Logistic):
        "A loss of one's own."
"""
STREAM = """
    from dataclasses import dataclass
    from mpinodes.streams.unit_ball import UnitBall
    __all__ = ["Mine"]

    @dataclass(frozen=True)
    class Mine(UnitBall):
        extra: int = 3
"""
MECHANISM = """
    from dataclasses import dataclass
    from mpinodes.core import Event, Kind, Mechanism
    __all__ = ["Twice"]

    @dataclass(frozen=True)
    class Twice(Mechanism):
        def release(self, query, t, noise, out):
            scale = 2 * (query.l1 if query.calibration is None else query.calibration) / self.epsilon
            out[:] = query.value + noise.at(t).laplace(0, scale, len(out))
            return Event.of(query, Kind.LAPLACE, scale)
"""
TOPOLOGY = """
    from dataclasses import dataclass
    from mpinodes.topology.base import Periodic, both_ways
    __all__ = ["Star"]

    @dataclass(frozen=True)
    class Star(Periodic):
        title = "star"

        @property
        def phases(self):
            return (both_ways(frozenset((0, i) for i in range(1, self.agents))),)
"""
ALGORITHM = """
    from collections.abc import Sequence
    from dataclasses import dataclass
    from math import sqrt
    from mpinodes.core import UNKNOWN, Algorithm, Mixing, Query
    __all__ = ["Gossip"]

    @dataclass(frozen=True)
    class Flat(Mixing):
        undirected = True

        def weights(self, s, here, incoming):
            return None, [1 / len(incoming)] * len(incoming), 1.0

    @dataclass(frozen=True)
    class State:
        x: object

    @dataclass(frozen=True)
    class Gossip(Algorithm[State]):
        delta: float = 0.1
        epsilon: float = 1.0
        step: float = 0.3
        agents: int = 2

        decomposable = True
        mixings = (Flat, "metropolis")
        defaults = {"data": {"name": "unit-ball", "total": 70}, "problem": {"loss": "logistic"}}

        def init(self, x):
            return State(x)

        def message(self, s, here):
            l2 = self.step * 2.0
            return Query(s.x, l1=sqrt(len(s.x)) * l2, l2=l2, uses=here.t - 1, leaks=UNKNOWN)

        def update(self, s, here, inbox, loss):
            return State(inbox.mix() - self.step * self.delta * loss.grad(s.x))

        def decision(self, s):
            return s.x
"""
OWN = {"problem": LOSS, "data": STREAM, "privacy": MECHANISM, "topology": TOPOLOGY, "algorithm": ALGORITHM}
BASE = {
    "problem": "algorithm.name=dola data.total=70",
    "data": "algorithm.name=dola data.total=70 data.extra=5",
    "privacy": "algorithm.name=dola data.total=70",
    "topology": "algorithm.name=dola data.total=70 topology.agents=5",
    "algorithm": "",
}


def own(folder, section: str, text: str | None = None) -> str:
    """The words that take a part from a file, once written."""
    file = folder / f"my_{section}.py"
    file.write_text(textwrap.dedent(OWN[section] if text is None else text))
    return f"{BASE[section]} rounds=8 {section}.path={file}"


@pytest.mark.parametrize("section", OWN)
def test_a_part_of_ones_own_runs_and_reruns_from_elsewhere_to_the_same_bits(section, tmp_path, monkeypatch):
    own(tmp_path, section)
    monkeypatch.chdir(tmp_path)
    words = f"{BASE[section]} rounds=8 {section}.path=my_{section}.py record.decisions=true"
    first = run_of(tmp_path / "first", words)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    asked = parse(str(first / "experiment.toml"), [f"output.dir={tmp_path / 'again'}"])
    again = mpinodes.run_lockstep(asked)
    assert same_bits(first, again) == []
    assert (first / "experiment.toml").read_text() == (again / "experiment.toml").read_text()


def test_noise_of_ones_own_is_drawn_and_accounted_for(tmp_path):
    setup = setup_of(own(tmp_path, "privacy"))
    assert type(setup.mechanism).__name__ == "Twice"
    plain = setup_of(f"{BASE['privacy']} rounds=8")
    assert not np.array_equal(decisions(setup), decisions(plain))
    one, other = (which.layout.open(rows_of(which))[1] for which in (setup, plain))
    np.testing.assert_allclose(one.scale, 2 * other.scale, rtol=1e-14)
    np.testing.assert_array_equal(one.l1, other.l1)
    assert other.scale[1:].all()


@pytest.mark.parametrize(("key", "value"), [("delta", 0.5), ("epsilon", 2.0), ("step", 0.25), ("agents", 9)])
def test_hyper_parameters_may_have_any_name(key, value, tmp_path):
    words = f"{own(tmp_path, 'algorithm')} noise.key=1"
    setup = setup_of(f"{words} algorithm.{key}={value}")
    assert getattr(setup.algorithm, key) == value
    assert (setup.run.agents, setup.run.epsilon, setup.run.delta) == (7, 1.0, setup.experiment.privacy.delta)
    assert setup.experiment.algorithm[key] == value
    usual = setup_of(words)
    moves = key in ("delta", "step")
    assert np.array_equal(decisions(setup), decisions(usual)) != moves


def test_an_algorithms_file_may_bring_its_own_weights(tmp_path):
    words = own(tmp_path, "algorithm")
    setup = setup_of(words)
    assert (type(setup.mixing).__name__, setup.experiment.algorithm["mixing"]) == ("Flat", "Flat")
    other = setup_of(f"{words} algorithm.mixing=metropolis topology.name=ring")
    assert type(other.mixing).__name__ == "Metropolis"
    with pytest.raises(BadInput, match=r"algorithm.mixing = 'uniform': choose from: Flat, metropolis"):
        setup_of(f"{words} algorithm.mixing=uniform")


NO_CLASS = "x = 1\n"
FOREIGN = "from dataclasses import dataclass\n__all__ = ['A']\n@dataclass(frozen=True)\nclass A:\n    change: float\n"
BASES = {"problem": "SampleLoss", "data": "Stream", "privacy": "Mechanism", "topology": "Topology",
         "algorithm": "Algorithm"}  # fmt: skip


def refused(words: str) -> str:
    with pytest.raises(BadInput) as caught:
        setup_of(words)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("section", OWN)
def test_what_is_wrong_with_a_file_is_said_in_one_line(section, tmp_path):
    base = BASES[section]
    head = f"from dataclasses import dataclass\nfrom mpinodes.core import {base}\n__all__ = ['A']\n"
    for text, wanted in (
        (NO_CLASS, "the file must name its one class in __all__"),
        (FOREIGN, f"A does not extend mpinodes.core.{base}"),
        (f"{head}class A({base}):\n    pass\n", "A must be a dataclass: put @dataclass(frozen=True) before it"),
        (f"{head}@dataclass(frozen=True)\nclass A({base}):\n    pass\n", "A must have "),
        ("import nothing_of_that_name\n", "cannot be imported: ModuleNotFoundError"),
        ("def f(:\n", "cannot be imported: SyntaxError"),
    ):
        found = refused(own(tmp_path, section, text))
        assert found.startswith(f"{section}.path = '{tmp_path}/my_{section}.py'")
        assert wanted in found
    (tmp_path / f"my_{section}.py").unlink()
    assert "no such Python file" in refused(f"{BASE[section]} {section}.path={tmp_path}/my_{section}.py")


LOGISTIC = (
    "from dataclasses import dataclass\nfrom mpinodes.losses.logistic import Logistic\n__all__ = ['A']\n"
    "@dataclass(frozen=True)\nclass A(Logistic):\n"
)


@pytest.mark.parametrize("value", ["'yes'", "1", "'False'", "0", "None", "property(lambda self: True)"])
@pytest.mark.parametrize("name", ["convex", "has_prox", "needs_labels"])
def test_a_statement_of_a_loss_is_true_or_false(name, value, tmp_path):
    said = refused(own(tmp_path, "problem", f"{LOGISTIC}    {name} = {value}\n"))
    assert f"my_problem.py', line 4: A.{name} is " in said
    assert said.endswith(": expected True or False")


@pytest.mark.parametrize("stated", [True, False])
def test_a_loss_is_as_convex_as_it_says(stated, tmp_path):
    assert setup_of(own(tmp_path, "problem", f"{LOGISTIC}    convex = {stated}\n")).loss.convex is stated


@pytest.mark.parametrize(("section", "name"), [
    ("algorithm", "whole_data"), ("algorithm", "against_colluders"), ("topology", "from_file"),
    ("data", "makes_all_losses"), ("data", "has_labels"),
])  # fmt: skip
def test_a_statement_of_any_part_is_true_or_false(section, name, tmp_path):
    own(tmp_path, section)
    file = tmp_path / f"my_{section}.py"
    file.write_text(f"{file.read_text()}\n\nsetattr(globals()[__all__[0]], {name!r}, 'yes')\n")
    said = refused(f"{BASE[section]} {section}.path={file}")
    assert f".{name} is 'yes': expected True or False" in said


def test_an_algorithm_of_the_old_contract_is_told_what_to_change(tmp_path):
    old = refused(own(tmp_path, "algorithm", "from mpinodes.protocol import Query\n"))
    assert "written for an older mpinodes; import from mpinodes.core" in old
    plain = refused(own(tmp_path, "algorithm", FOREIGN))
    for word in ("derive it from Algorithm", "self.run", "leaks="):
        assert word in plain
