"""Every algorithm with few agents and few rounds: a run ends with its numbers and its words, or is refused at once."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mpinodes import run
from mpinodes.config import registry
from tests.helpers.running import run_mpi


@pytest.fixture
def words(tmp_path) -> list[str]:
    """Return the words of a small data file."""
    rng = np.random.default_rng(1)
    features = rng.uniform(-0.5, 0.5, (24, 4))
    np.savez(tmp_path / "data.npz", features=features, targets=np.where(np.arange(24) % 2, 1, -1))
    return [f"data.file={tmp_path / 'data.npz'}", "data.labels=[-1,1]", "data.columns=4", "data.norm=1", "report=false"]


BUDGET = ["privacy.budget.epsilon=5", "privacy.budget.kept_by=stopping"]


@pytest.mark.parametrize("agents", [1, 2])
@pytest.mark.parametrize("name", registry.names(registry.ALGORITHMS))
def test_every_algorithm_ends_in_words_or_is_refused(tmp_path, capfd, words, name, agents):
    done = 0
    algorithm = registry.find(registry.ALGORITHMS, name)
    small = [*words, f"algorithm.name={name}", f"topology.agents={agents}"]
    small += ["problem.weight=1"] if algorithm.solves else ["privacy.clip=1"]
    small += [f"data.batch={'all' if algorithm.whole_data else 1}"]
    small += ["algorithm.gradient_rounds=2", "problem.regularizer=0.1"] * (name == "two-stage-gaussian")
    if name not in ("weight-balancing", "gossip-averaging"):
        small.append("topology.name=complete")
    for number, more in enumerate((["rounds=1"], ["rounds=8"], ["rounds=4", "comparator=false", *BUDGET])):
        place = tmp_path / str(number)
        code = run.main(["--lockstep", *small, *more, f"output.dir={place}"])
        out, err = capfd.readouterr()
        assert code in (0, 2), err
        assert "Traceback" not in err
        assert "warning: " not in err
        assert place.exists() == (code == 0)
        if code == 0:
            done += 1
            assert "privacy" in out
            assert json.loads((place / "summary.json").read_text())["rounds"] > 0
    assert done or agents == 1 or name in ("dpcda", "weight-balancing")  # which are for one agent, and for six


@pytest.mark.parametrize(
    "words_of_run",
    [["gossip-averaging"], ["gossip-averaging", "rounds=3"], ["two-stage-gaussian"]],
)
def test_a_single_agent_that_relays_has_words_and_a_page(tmp_path, monkeypatch, capfd, words_of_run, request):
    name, *more = words_of_run
    if more:  # whose figures are drawn below
        request.getfixturevalue("undrawn")
    monkeypatch.chdir(tmp_path)
    given = ["topology.agents=1", f"algorithm.name={name}", *more, "output.dir=run"]
    assert run.main(["--lockstep", *given]) == 0
    out, err = capfd.readouterr()
    assert err == ""
    assert "proven" in out
    assert "Toward one node" not in out
    assert (tmp_path / "run" / "report.html").exists()


def test_so_has_one_under_mpirun(tmp_path):
    done = run_mpi(2, "algorithm.name=gossip-averaging", "rounds=3", "output.dir=run", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert "proven" in done.out
    assert (tmp_path / "run" / "report.html").exists()


def test_a_run_in_which_no_message_carries_noise_says_so(tmp_path, capfd):
    words = ["algorithm.name=huang-dp", "rounds=1", "privacy.scale=1", "topology.agents=3", "report=false"]
    assert run.main(["--lockstep", *words, f"output.dir={tmp_path / 'run'}"]) == 0
    assert "No message carried noise." in " ".join(capfd.readouterr().out.split())
