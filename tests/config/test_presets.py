"""One problem for all algorithms."""

from __future__ import annotations

import pytest

from mpinodes.config import presets
from mpinodes.core.errors import BadInput
from tests.helpers.parts import resolved

GRADIENT_METHODS = ("dola", "dola-minibatch", "dpps", "dpsr", "dpsda-ps", "dpsda-c")


def told(words: str) -> dict:
    """What two algorithms have in common where they are on one problem."""
    e = resolved(words)
    data = {key: value for key, value in e.data.items() if key not in ("partition", "seed")}
    return {"problem": e.problem, "step": e.step, "data": data, "clip": e.privacy.clip, "scale": e.privacy.scale}


@pytest.mark.parametrize("preset", ["digits", "unit-ball"])
def test_a_preset_is_one_problem_for_all_algorithms_that_take_it(preset):
    words = f"rounds=5 problem.preset={preset} topology.name=ring"
    found = [told(f"{words} algorithm.name={name}") for name in GRADIENT_METHODS]
    assert all(one == found[0] for one in found)
    # without it they are on others
    bare = f"rounds=5 data.name={preset} data.epochs=9"
    without = [told(f"{bare} algorithm.name={name}") for name in ("dola", "dpps", "dpsda-c")]
    assert without[0] != without[1] != without[2]


def test_methods_that_never_project_share_a_problem_without_a_set():
    words = "rounds=5 problem.preset=unconstrained topology.name=ring"
    balancing = resolved(f"{words} algorithm.name=weight-balancing")
    admm = resolved(f"{words} algorithm.name=pp-admm")
    assert balancing.problem == admm.problem
    assert (admm.data["batch"], admm.privacy.clip, admm.step) == ("all", "inf", {})
    assert (balancing.data["batch"], balancing.step["modulus"]) == (1, 0.1)


def test_what_is_asked_for_by_itself_goes_before():
    e = resolved("rounds=5 problem.preset=digits problem.radius=2 data.batch=3 privacy.clip=0.5 algorithm.name=dola")
    assert (e.problem.radius, e.data["batch"], e.privacy.clip, e.problem.loss) == (2.0, 3, 0.5, "logistic")


def test_a_preset_may_be_a_file_or_a_table(tmp_path):
    (tmp_path / "mine.toml").write_text('[data]\nname = "unit-ball"\ndimension = 4\n[problem]\nradius = 3.0\n')
    of_file = resolved(f"rounds=5 algorithm.name=dola problem.preset={tmp_path}/mine.toml")
    table = {"data": {"name": "unit-ball", "dimension": 4}, "problem": {"radius": 3.0}}
    of_table = resolved({"rounds": 5, "algorithm": {"name": "dola"}, "problem": {"preset": table}})
    assert of_file == of_table
    # what it does not say is the data's, and not the algorithm's, default
    assert (of_file.problem.radius, of_file.problem.regularizer, of_file.step["kind"]) == (3.0, 0.0, "inverse-sqrt")


def test_the_resolved_experiment_needs_no_preset():
    e = resolved("rounds=5 problem.preset=digits algorithm.name=dola")
    assert "preset" not in e.toml()


@pytest.mark.parametrize("name", presets.names())
def test_every_preset_can_be_run(name):
    assert resolved(
        f"rounds=5 problem.preset={name} algorithm.name=weight-balancing problem.set=none topology.name=ring"
    )


@pytest.mark.parametrize(
    ("preset", "says"),
    [
        ("digit", "did you mean digits"),
        ("nowhere.toml", "cannot be read"),
        (3, "no such preset"),
        ({"rounds": 5}, "a preset cannot set rounds"),
        ({"algorithm": {"name": "dola"}}, "a preset cannot set algorithm.name"),
        ({"privacy": {"epsilon": 1}}, "a preset cannot set privacy.epsilon"),
        ({"privacy": {"clipping": "agent"}}, "a preset cannot set privacy.clipping"),
        ({"problem": {"radus": 1}}, "did you mean problem.radius"),
        ({"problem": {"preset": "digits"}}, "a preset cannot set problem.preset"),
        ({}, "no key of data"),
    ],
)
def test_a_preset_that_is_none_is_refused(preset, says):
    with pytest.raises(BadInput, match=says):
        resolved({"rounds": 5, "problem": {"preset": preset}})
