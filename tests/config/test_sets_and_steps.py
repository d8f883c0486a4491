"""Constraint sets and step schedules as parts: each is one file, by name or by path, and nothing else names it."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import numpy as np
import pytest

import mpinodes
from mpinodes.auditing import user_file
from mpinodes.config import explaining, registry
from mpinodes.config.defaults import STEPS
from mpinodes.core import experiment as ex
from mpinodes.core.asked import parse
from mpinodes.core.errors import BadInput
from tests.helpers.parts import decisions, run_of, setup_of
from tests.helpers.records import same_bits, summary_of

PACKAGE = Path(mpinodes.__file__).parent
KINDS = (registry.SETS, registry.SCHEDULES)
WORDS = "algorithm.name=dola data.total=70 rounds=8"
HALVES = """
    from dataclasses import dataclass
    import numpy as np
    from mpinodes.core import Cone, Set
    __all__ = ["Halves"]

    @dataclass(frozen=True)
    class Halves(Set):
        share: float = 0.5  # of the radius, above 0
        by_blocks = True
        solid = True

        def project(self, x):
            return np.clip(x, -self.radius, self.share * self.radius)

        def support(self, g):
            return self.radius * float(np.maximum(-g, self.share * g).sum())

        def reach(self, d):
            return self.radius * d**0.5

        @property
        def inradius(self):
            return self.share * self.radius

        def within(self, margin):
            radius = self.radius - margin
            return Halves(radius, self.blocks, (self.share * self.radius - margin) / radius)

        def cones(self, used):
            one, d = np.eye(len(used)), len(used)
            return [Cone(np.vstack([-one, one]), np.repeat([self.radius, self.share * self.radius], d))]
"""
ROOTS = """
    from dataclasses import dataclass
    from mpinodes.core import Schedule
    __all__ = ["Roots"]

    @dataclass(frozen=True)
    class Roots(Schedule):
        first: float = 1.0

        def __call__(self, t):
            return self.first / t**0.5
"""
OWN = {"problem.set_path": HALVES, "step.path": ROOTS}


def write(folder: Path, text: str) -> Path:
    file = folder / "mine.py"
    file.write_text(textwrap.dedent(text))
    return file


@pytest.mark.parametrize(("key", "setting"), [("problem.set_path", "problem.share=0.1"), ("step.path", "step.first=2")])
def test_a_part_of_ones_own_runs_with_its_settings_and_reruns_to_the_same_bits(key, setting, tmp_path, monkeypatch):
    file = write(tmp_path, OWN[key])
    words = f"{WORDS} noise.key=1 record.decisions=true"
    monkeypatch.chdir(tmp_path)
    first = run_of(tmp_path / "first", f"{words} {key}=mine.py {setting}")
    assert (first / "sources" / f"{key.replace('.', '-')}-mine.py").read_text() == file.read_text()
    assert ex.Experiment.read(first / "experiment.toml").sources == {key: file}
    monkeypatch.chdir("/")
    again = mpinodes.run_lockstep(parse(str(first / "experiment.toml"), [f"output.dir={tmp_path / 'again'}"]))
    assert same_bits(first, again) == []
    assert not np.array_equal(decisions(setup_of(f"{words} {key}={file}")), decisions(setup_of(words)))


@pytest.mark.parametrize("key", OWN)
def test_the_contents_of_the_file_change_the_noise_and_its_place_does_not(key, tmp_path):
    files = []
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        files.append(write(tmp_path / name, OWN[key] + "    CHANGED = 1\n" * (name == "c")))
    keys = [setup_of(f"{WORDS} {key}={file}").noise_key for file in files]
    assert keys[0] == keys[1] != keys[2]


def test_every_online_method_runs_on_a_set_and_with_steps_of_ones_own(tmp_path):
    files = {}
    for key, text in OWN.items():
        (tmp_path / key).mkdir()
        files[key] = write(tmp_path / key, text)
    words = " ".join(f"{key}={file}" for key, file in files.items())
    for name in ("dola", "dpps", "dpsda-c", "dpsda-ps", "dpsr"):
        setup = setup_of(f"algorithm.name={name} rounds=6 problem.radius=0.1 {words}")
        seen = decisions(setup)
        assert np.abs(seen).max() <= 0.1 + 1e-12
        assert seen.max() <= 0.05 + 1e-12 < 0.1 - 1e-12 <= -seen.min() + 0.05


def test_bandit_feedback_stays_in_a_set_of_ones_own(tmp_path):
    file = write(tmp_path, HALVES)
    words = f"{WORDS} problem.set_path={file} problem.radius=1 feedback.points=2"
    assert setup_of(f"{words} feedback.radius=0.4").feasible.inradius == 0.5
    with pytest.raises(BadInput, match=r"^feedback\.radius = 0\.6: .*problem\.radius"):
        setup_of(f"{words} feedback.radius=0.6")


@pytest.mark.parametrize(("loss", "apart"), [("logistic", 1e-8), ("hinge", 0.05)])
def test_the_best_decision_is_found_in_a_set_of_ones_own_with_and_without_its_cones(loss, apart, tmp_path):
    summaries = []
    for name, text in (("with", HALVES), ("without", HALVES.partition("        def cones")[0])):
        (tmp_path / name).mkdir()
        words = f"{WORDS} problem.set_path={write(tmp_path / name, text)} problem.radius=0.5 problem.loss={loss}"
        summary = summary_of(run_of(tmp_path / name / "run", f"{words} comparator=true"))
        summaries.append(summary["comparator"])
        assert summary["comparator"]["certificate"] <= apart * summary["comparator"]["value"]
    assert summaries[0]["certificate"] <= 1e-7 * summaries[0]["value"]
    assert summaries[0]["value"] == pytest.approx(summaries[1]["value"], rel=apart)


def test_a_theorem_takes_the_steps_that_it_asks_for_from_any_file(tmp_path):
    file = write(tmp_path, ROOTS)
    words = "algorithm.name=dpsda-ps algorithm.mixing=push-sum rounds=9"
    horizons, minimizer = np.array([9]), np.zeros((1, 10))
    for more in (f"step.path={file}", f"step.path={file} step.first=2", "step.kind=inverse-sqrt", "step.kind=doubling"):
        setup = setup_of(f"{words} {more}")
        bounds = setup.algorithm.bounds(setup, horizons, minimizer)
        wrong = "first=2" in more or "doubling" in more
        assert any("steps are not 1/sqrt(t)" in bound.why for bound in bounds) == wrong, more


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("problem.set=bal", "problem.set = 'bal': there is no such name; did you mean ball?"),
        (
            "step.kind=inverse-squared",
            "step.kind = 'inverse-squared': there is no such name; did you mean inverse-sqrt?",
        ),
        ("problem.set_path={set} problem.shar=1", "unknown key problem.shar; did you mean problem.share?"),
        (
            "step.path={steps} step.initial=1",
            "unknown key step.initial: the chosen step does not have this key",
        ),
        ("step.path={set}", "Halves does not extend mpinodes.core.Schedule"),
        ("problem.set_path={set} problem.path={loss}", "problem.share is a setting of the loss and of the set"),
        ("problem.set_path={set} algorithm.name=weight-balancing", "never projects; set problem.set=none"),
    ],
)
def test_mistakes_are_named(words, message, tmp_path):
    loss = """
        from dataclasses import dataclass
        from mpinodes.losses.logistic import Logistic
        __all__ = ["Mine"]
        @dataclass(frozen=True, slots=True)
        class Mine(Logistic):
            share: float = 1.0
    """
    files = {}
    for name, text in (("set", HALVES), ("steps", ROOTS), ("loss", loss)):
        (tmp_path / name).mkdir()
        files[name] = write(tmp_path / name, text)
    with pytest.raises(BadInput) as caught:
        setup_of(f"{WORDS} {words.format(**files)}")
    assert message in str(caught.value)


def test_a_preset_leaves_steps_and_set_to_the_user(tmp_path):
    words = f"rounds=5 problem.preset=unit-ball step.path={write(tmp_path, ROOTS)}"
    assert setup_of(words).experiment.step == {"path": str(tmp_path / "mine.py"), "first": 1.0}


def test_explain_lists_the_names_with_their_settings():
    keys = explaining.documented_keys()
    for kind in KINDS:
        for name in registry.names(kind):
            assert name in keys[kind.key]
            assert explaining.explained_part(name)
            assert all(f"{kind.section}.{key}" in keys for key in registry.keys(kind, registry.find(kind, name)))
    assert "strongly-convex (modulus, offset)" in keys["step.kind"]
    assert {"problem.set_path", "step.path"} <= keys.keys()


def test_explain_knows_the_settings_of_a_users_file(tmp_path):
    file = str(write(tmp_path, ROOTS))
    assert "step.first" in explaining.explained_part(file)
    assert "1.0" in explaining.documented_keys({"step": {"path": file}})["step.first"]
    assert "step.first" not in explaining.documented_keys()


PAIR = """
from dataclasses import dataclass
from mpinodes.topology.base import Fixed
__all__ = ["Pair"]
@dataclass(frozen=True)
class Pair(Fixed):
    '''Define a pair.

    Attributes:
        skip, jump: numbers of
            agents.
    '''
    skip: int = 0
    jump: int = 0
    title = "pair"
    def graph(self):
        return frozenset()
"""


def test_explain_reads_two_settings_from_one_line_of_a_docstring(tmp_path):
    file = tmp_path / "pair.py"
    file.write_text(PAIR)
    keys = explaining.documented_keys({"topology": {"path": str(file)}})
    assert keys["topology.skip"] == keys["topology.jump"] == "numbers of agents. (default: 0)"


PLANTED = {  # text, and what is put in its place
    "a projection that is not exact": ("np.clip(x, -self.radius, self.share * self.radius)",
                                       "x * min(1.0, self.share * self.radius / np.abs(x).max())"),
    "a projection that moves its own result": ("return np.clip(x", "return 0.9 * np.clip(x"),
    "a projection that expands": ("return np.clip(x", "return np.clip(3 * x"),
    "a set that is not convex": ("return np.clip(x, -self.radius, self.share * self.radius)",
                                 "return x / np.linalg.norm(x)"),
    "a projection that is not pure": ("return np.clip(x", "x *= 1.5; return np.clip(x"),
    "an invalid projection": ("self.share * self.radius)", "self.share * self.radius)[1:]"),
    "a support that is too small": ("np.maximum(-g, self.share * g)", "0.5 * np.maximum(-g, self.share * g)"),
    "a support that is too large": ("np.maximum(-g, self.share * g)", "2 * np.maximum(-g, self.share * g)"),
    "a reach that is too small": ("self.radius * d**0.5", "self.radius"),
    "a bound that contradicts another": ("solid = True", "solid = True; bounded = False"),
    "a set that is not solid": ("np.clip(x, -self.radius, self.share", "np.clip(x, -self.radius, -self.share"),
    "a margin that is too small": ("radius = self.radius - margin", "radius = self.radius"),
    "constraints that do not fit": ("np.repeat([self.radius, ", "np.repeat([2 * self.radius, "),
    "an invalid step size": ("self.first / t**0.5", "self.first / t**0.5 - 0.1"),
    "a schedule that is not pure": ("return self.first", "CALLS.append(t); return len(CALLS) * self.first"),
}  # fmt: skip


@pytest.mark.parametrize("fault", PLANTED)
def test_check_names_a_planted_fault(fault, tmp_path):
    old, new = PLANTED[fault]
    (text,) = (text for text in OWN.values() if old in text)
    file = write(tmp_path, text.replace(old, new, 1).replace("    @dataclass", "    CALLS = []\n    @dataclass"))
    ((kind, part),) = registry.parts_called(str(file))
    assert fault in {found.name for found in user_file.check(kind, part, 0).faults}


@pytest.mark.parametrize(
    "part", [*OWN, *((kind, name) for kind in KINDS for name in registry.names(kind))], ids=lambda part: part[1]
)
def test_check_passes_sound_parts(part, tmp_path):
    if isinstance(part, str):
        ((kind, made),) = registry.parts_called(str(write(tmp_path, OWN[part])))
    else:
        kind, made = part[0], registry.find(*part)
    outcome = user_file.check(kind, made, 0)
    assert [fault.line for fault in outcome.faults] == []
    assert sum(outcome.tested.values()) > 1


# Rooms whose files hold whole experiments, which name parts: the defaults of algorithms and data, and those of audits.
WITH_EXPERIMENTS = {"algorithms", "streams", "auditing"}
# Words that mean another thing elsewhere.
AMBIGUOUS = {"none", "constant", "Constant"}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.package)
def test_nothing_outside_of_its_file_names_a_set_or_a_schedule(kind):
    """Neither an import, nor its class, nor its name as a word of an experiment."""
    parts = {name: registry.find(kind, name) for name in registry.names(kind)}
    classes, words = {part.__name__ for part in parts.values()} - AMBIGUOUS, parts.keys() - AMBIGUOUS
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).parts[0]
        if room == kind.package:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [getattr(node, key, None) for key in ("id", "attr", "module")]
            names += [alias.name for alias in getattr(node, "names", ()) if isinstance(alias, ast.alias)]
            named = {name for name in names if name in classes or str(name).startswith(f"mpinodes.{kind.package}")}
            if isinstance(node, ast.Constant) and node.value in words and room not in WITH_EXPERIMENTS:
                named |= {node.value} - ({STEPS} if path.name == "defaults.py" else set())
            assert not named, f"{path}, line {node.lineno}"
