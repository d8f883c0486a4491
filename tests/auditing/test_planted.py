"""Bugs that an earlier audit missed, planted in a built-in algorithm and in users' files: exit code 1 for each."""

from __future__ import annotations

import numpy as np
import pytest

from mpinodes import audit
from mpinodes.auditing import small_experiments, verdicts
from mpinodes.rounds import step
from tests.helpers.planted import BATCH, FILES, MECHANISM, NOISE, SCALAR, own_class

SMALL = ["topology.agents=3", "rounds=12", "data.total=120", "data.dimension=5"]
BUILT_IN = ["algorithm.name=dola", "topology.name=ring", *SMALL]


def users(name: str) -> list[str]:
    words = [f"algorithm.path={FILES}/{name}.py", *SMALL]
    return words if name == "push_sum_momentum" else [*words, "topology.name=ring", "data.batch=1"]


@pytest.fixture
def verdict(monkeypatch, capsys):
    """Runs the command, and gives its exit code and the names of the rows that refute."""
    monkeypatch.setattr(audit, "PAIRS", 4)

    def run(*words: str, tried: bool = False) -> tuple[int, str]:
        if not tried:  # other settings and probes, which tell nothing of noise or frames, and take most of the time
            monkeypatch.setattr(verdicts, "of_settings", lambda *_: [])
            monkeypatch.setattr(small_experiments, "probes", lambda *_: [])
        code = audit.main(list(words))
        printed = capsys.readouterr()
        assert code in (0, 1), printed.err
        return code, printed.out

    return run


@pytest.mark.parametrize("name", ["dola", "diging"])
def test_nothing_planted(tmp_path, verdict, name):
    (tmp_path / "noise.py").write_text(MECHANISM.format(fault=NOISE["none"]))
    words = BUILT_IN if name == "dola" else users(name)
    code, printed = verdict(*words, f"privacy.path={tmp_path}/noise.py", tried=True)
    assert code == 0, printed
    assert printed.count("with probability 0.999") == 2


BUGS = [bug for bug in NOISE if bug != "none"]


@pytest.mark.parametrize(("bug", "name"), [*((bug, "dola") for bug in BUGS), *((bug, "diging") for bug in BUGS[:2])])
def test_noise_that_is_not_what_it_should_be(tmp_path, verdict, bug, name):
    (tmp_path / "noise.py").write_text(MECHANISM.format(fault=NOISE[bug]))
    words = BUILT_IN if name == "dola" else users(name)
    code, printed = verdict(*words, f"privacy.path={tmp_path}/noise.py")
    assert code == 1, printed
    assert "REFUTES THE PROVEN VALUE: the noise is not what was accounted for" in printed


@pytest.mark.parametrize("name", ["dola", "extra"])
def test_a_sensitivity_divided_by_the_batch(tmp_path, verdict, name):
    imports, base = ("from mpinodes.algorithms.dola import DOLA", "DOLA") if name == "dola" else own_class(name)
    (tmp_path / "bug.py").write_text(BATCH.format(imports=imports, base=base))
    words = [f"algorithm.path={tmp_path}/bug.py", "topology.name=ring", *SMALL, "data.batch=1"]
    words += ["data.name=unit-ball", "problem.loss=hinge"] * (name == "dola")
    code, printed = verdict(*words, tried=True)
    assert code == 1, printed
    assert "other settings" in printed
    assert "REFUTES THE PROVEN VALUE: a message changes by more than its bound" in printed


@pytest.mark.parametrize(("name", "place"), [("dola", 0), ("dola", 1), ("extra", 2)])
def test_a_clean_bit_in_the_header(monkeypatch, verdict, place, name):
    do_round = step.Step.__call__

    def telling(self, s, arrivals, frame, row):
        s = do_round(self, s, arrivals, frame, row)
        clean = self._algorithm.decision(s.algorithm)[0] > 0
        frame[place] = np.nextafter(frame[place], np.inf) if clean else frame[place]
        if self._recorded:
            row[self._layout.message_end :] = frame
        frame[1] = step.RELEASE_FRAME
        frame[2] = 0
        return s

    monkeypatch.setattr(step.Step, "__call__", telling)
    code, printed = verdict(*(BUILT_IN if name == "dola" else users(name)))
    assert code == 1, printed
    assert "REFUTES THE PROVEN VALUE: a number is sent without noise" in printed


def test_a_clean_bit_in_a_scalar_of_the_mixing(tmp_path, verdict):
    imports, base = own_class("push_sum_momentum")
    (tmp_path / "bug.py").write_text(SCALAR.format(imports=imports, base=base))
    words = [f"algorithm.path={tmp_path}/bug.py", "topology.name=random-digraph-each-round", *SMALL]
    code, printed = verdict(*words)
    assert code == 1, printed
    assert "the mixing's scalars of agent" in printed


def test_a_probe_that_a_users_part_fails_on_is_left_out_and_the_run_judged(tmp_path, monkeypatch, capsys):
    """Found by a stranger: the crash of one probe lost the refutation of the run itself."""
    monkeypatch.setattr(audit, "PAIRS", 10)
    source = (FILES / "extra.py").read_text()
    path = tmp_path / "of_two.py"
    path.write_text(source.replace("loss.grad(s.x)\n", "loss.grad(s.x)\n        s.x[1]\n"))
    assert path.read_text() != source
    assert audit.main([f"algorithm.path={path}", "topology.agents=3", "rounds=4", "data.total=40"]) == 0
    assert "left out, with" in capsys.readouterr().out
