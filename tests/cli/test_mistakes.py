"""Mistakes that people make: each is answered by a line that says what to change, all of an experiment at once."""

from __future__ import annotations

import os
import sys

import pytest

from mpinodes.run import main
from tests.helpers.running import command

MINE = """
from dataclasses import dataclass
from mpinodes.algorithms.dola import DOLA
__all__ = ["Mine"]

@dataclass(frozen=True)
class Mine(DOLA):
    rate: float
    memory: int
    warm: bool
    cold: int = 3
"""
NO_METHODS = MINE.replace("import DOLA", "import DOLA\nfrom mpinodes.core import Algorithm").replace(
    "(DOLA)", "(Algorithm)"
)
NOISE = """from dataclasses import dataclass
import numpy as np
from mpinodes.core import Event, Kind, Mechanism
__all__ = ["Mine"]

@dataclass(frozen=True)
class Mine(Mechanism):
    takes_the_place_of = "laplace"

    def release(self, query, t, noise, out):
        out[:] = query.value
        out += noise.at(t).laplace(size=len(out)) * (query.calibration / np.float64(query.calibration))
        return Event.of(query, Kind.LAPLACE, query.calibration)
"""
STEPS = """from dataclasses import dataclass
from mpinodes.core import Schedule
__all__ = ["Mine"]

@dataclass(frozen=True)
class Mine(Schedule):
    def __call__(self, t):
        return 3.0 - t
"""


def stating(attribute: str) -> str:
    """Return an algorithm whose line 8 is a class attribute or a method."""
    return MINE.partition("    rate")[0] + f"    {attribute}\n"


FILES = {
    "spread.py": 'from mpinodes.core import Metric\n__all__ = ["A"]\nclass A(Metric):\n    name = "spread"\n'
    '    dims = ("round",)\n    def take(self, rounds):\n        return rounds.losses\n',
    "noise.py": NOISE,
    "place.py": NOISE.replace('"laplace"', '"laplac"'),
    "gauss.py": NOISE.replace('"laplace"', '"gaussian"'),
    "steps.py": STEPS,
    "word.py": stating('mixings = "metropolis"'),
    "mixing.py": stating('mixings = ("metropolsi",)'),
    "clip.py": stating('defaults = {"privacy": {"clp": 1.0}}'),
    "hidden.py": stating('hidden = ("z",)'),
    "decision.py": stating("def decision(self, s): return None"),
    "update.py": stating("def update(self, s, here, inbox, loss): return None"),
    "leaks.py": stating("def message(self, s, here): return replace(super().message(s, here), leaks=None)").replace(
        "import dataclass", "import dataclass, replace"
    ),
    "init.py": stating("def init(self, x): return x.nothing"),
    "typo.toml": "rounds = 20\n\n[privacy]\nepsilo = 0.5\n",
    "value.toml": 'rounds = 20\n[privacy]\nclip = "big"\n[topology]\nname = "rign"\n',
    "two.toml": "rounds = 0\nseed = -1\n[data]\nbatch = 0\n",
    "dotted.toml": 'topology.name = "ring"\ntopology.agents = "many"\n',
    "old.toml": "rounds = 5\n[record]\nchunk = 100\n",
    "broken.toml": "rounds = 20\n[privacy\nepsilon = 1\n",
    "preset.toml": "[problem]\nradus = 3.0\n",
    "mine.py": MINE,
    "empty.py": NO_METHODS,
    "syntax.py": "x = 1\ndef f(:\n    pass\n",
    "name.py": "x = 1\n\ny = undefined\n",
    "plain.py": MINE.replace("@dataclass(frozen=True)\n", ""),
    "unnamed.py": MINE.replace('__all__ = ["Mine"]', ""),
    "samples.csv": "a,b,label\n1,2,1\n3,4,0\n5,x,1\n7,8,0\n",
}
DOLA = "algorithm.name=dola"

# What is typed after `mpinodes run`, and what the answer says: a text for each line.
MISTAKES = [
    # Case, and keys of another section
    ("algorithm.name=DOLA", ["algorithm.name = 'DOLA'", "did you mean dola?"]),
    ("algorithm.name=Dola_Minibatch", ["did you mean dola-minibatch?"]),
    ("Algorithm.name=dola", ["unknown key Algorithm; did you mean algorithm?"]),
    ("data.name=Digits", ["did you mean digits?"]),
    ("topology.name=Ring", ["did you mean ring?"]),
    ("problem.loss=Logistic", ["did you mean logistic?"]),
    ("problem.set=BALL", ["did you mean ball?"]),
    ("step.kind=Constant", ["did you mean constant?"]),
    ("privacy.mechanism=Laplace", ["did you mean laplace?"]),
    ("privacy.Epsilon=1", ["unknown key privacy.Epsilon; did you mean privacy.epsilon?"]),
    ("epsilon=1", ["unknown key epsilon; did you mean privacy.epsilon?"]),
    ("clip=2", ["unknown key clip; did you mean privacy.clip?"]),
    ("agents=5", ["unknown key agents; did you mean topology.agents?"]),
    ("batch=5", ["unknown key batch; did you mean data.batch?"]),
    ("delta=1e-6", ["unknown key delta; did you mean privacy.delta?"]),
    ("loss=logistic", ["unknown key loss; did you mean"]),
    ("problem.epsilon=1", ["unknown key problem.epsilon; did you mean privacy.epsilon?"]),
    ("data.rounds=5", ["unknown key data.rounds; did you mean rounds?"]),
    ("data.agents=5", ["unknown key data.agents; did you mean topology.agents?"]),
    ("privacy.seed=4", ["unknown key privacy.seed; did you mean seed?"]),
    # One value is wanted, and many are given
    ("seed=1,2,3", ["mpinodes sweep seed=1,2,3"]),
    ("seed=[1,2,3]", ["mpinodes sweep seed=1,2,3"]),
    ("privacy.epsilon=0.1,1,10", ["mpinodes sweep privacy.epsilon=0.1,1,10"]),
    ("algorithm.name=dola,dpps", ["mpinodes sweep algorithm.name=dola,dpps"]),
    # In files: where
    ("typo.toml", ["typo.toml, line 4: unknown key privacy.epsilo; did you mean privacy.epsilon?"]),
    ("value.toml", ["value.toml, line 5: topology.name = 'rign'", "value.toml, line 3: privacy.clip = 'big'"]),
    ("two.toml", ["two.toml, line 1: rounds = 0", "two.toml, line 2: seed = -1", "two.toml, line 4: data.batch = 0"]),
    ("dotted.toml", ["dotted.toml, line 2: topology.agents = 'many'"]),
    ("broken.toml", ["broken.toml: not TOML", "line 2"]),
    ("typo.toml privacy.clip=x", ["typo.toml, line 4: unknown key", "error: privacy.clip = 'x'"]),
    ("problem.preset=preset.toml", ["preset.toml, line 2", "did you mean problem.radius?"]),
    ("algorithm.path=syntax.py", ["syntax.py', line 2: cannot be imported: SyntaxError"]),
    ("algorithm.path=name.py", ["name.py', line 3: cannot be imported: NameError"]),
    ("algorithm.path=plain.py", ["line 6: Mine must be a dataclass: put @dataclass(frozen=True) before it"]),
    ("algorithm.path=unnamed.py", ["must name its one class in __all__"]),
    (f"{DOLA} data.file=samples.csv", ["samples.csv: line 4, column 2: 'x' is not a finite number"]),
    (
        f"{DOLA} data.file=samples.csv data.target=label",
        ["pandas.read_csv('samples.csv'), columns=['b']", "data.file=new.csv"],
    ),
    # Files that are not where they belong
    ("nofile.toml", ["nofile.toml: cannot be read: No such file or directory"]),
    ("rounds=3 nofile.toml", ["nofile.toml: there is no such file"]),
    ("rounds=3 two.toml", ["two.toml: a file must precede all key=value pairs"]),
    ("mine.py", ["mine.py: a Python file is the value of a key; for an algorithm, type algorithm.path=mine.py"]),
    ("algorithm.name=mine.py", ["for a Python file type algorithm.path=mine.py"]),
    ("step.path=steps", ["steps': no such Python file; did you mean "]),
    ("algorithm.path=word.py cold=2 rounds=1", ["Mine.mixings is 'metropolis': expected a tuple", "key cold"]),
    (
        "algorithm.path=mine.py algorithm.rate=1 algorithm.memory=1 algorithm.warm=true cold=2",
        ["unknown key cold; did you mean algorithm.cold?"],
    ),
    # A part that is chosen twice
    ("problem.set=ball problem.set_path=set.py", ["problem.set and problem.set_path are both given", "no such Python"]),
    ("step.kind=constant step.path=steps.py", ["step.kind and step.path are both given; leave one out"]),
    ("privacy.mechanism=gaussian privacy.path=noise.py", ["privacy.mechanism and privacy.path are both given"]),
    ("algorithm.name=admm privacy.path=noise.py", ["admm adds no noise; leave privacy.path out"]),
    # In a user's class: file, line and attribute
    ("algorithm.path=mixing.py", ["mixing.py', line 6: Mine.mixings = 'metropolsi': there is no such name; did you"]),
    (
        f"{DOLA} privacy.path=place.py",
        ["place.py', line 6: Mine.takes_the_place_of = 'laplac'", "did you mean laplace?"],
    ),
    (f"{DOLA} privacy.path=gauss.py", ["gauss.py, line 8: Mine.takes_the_place_of = 'gaussian': the noise of dola"]),
    ("algorithm.path=clip.py", ["clip.py, line 8: Mine.defaults: unknown key privacy.clp; did you mean privacy.clip?"]),
    ("algorithm.path=hidden.py", ["hidden.py, line 8: Mine.hidden: the State of init() has no field 'z'"]),
    # In a user's method: file, line and method, before round 1
    (f'{DOLA} record.metrics=["spread.py"]', ["spread.py, line 4: A.name: summary.json already has a 'spread'"]),
    (
        f"{DOLA} privacy.path=noise.py",
        ["noise.py, line 10: Mine.release must return finite numbers, also for calibration = 0"],
    ),
    (f"{DOLA} step.path=steps.py", ["steps.py, line 7: Mine.__call__: the step size of round t = 3 is 0.0"]),
    ("algorithm.path=decision.py", ["decision() returned a vector of shape ()", "decision.py, line 8: Mine.decision"]),
    ("algorithm.path=update.py", ["update() returned None in round 1", "update.py, line 8: Mine.update"]),
    ("algorithm.path=leaks.py", ["message() stated leaks=None in round 1: expected RELEASED", "line 8: Mine.message"]),
    ("algorithm.path=init.py", ["AttributeError", "init.py, line 8, in init"]),
    # All that is missing at once
    ("algorithm.path=mine.py", ["algorithm.rate, algorithm.memory, algorithm.warm are missing"]),
    ("algorithm.path=mine.py algorithm.memory=2", ["algorithm.rate, algorithm.warm are missing"]),
    ("algorithm.path=empty.py", ["line 7: Mine must have init, message, update, decomposable, mixings"]),
    # All mistakes at once
    (
        f"{DOLA} privacy.epsilon=-1 data.batch=x topology.name=rign seed=a",
        ["privacy.epsilon = -1: expected float > 0.0", "data.batch = 'x'", "did you mean ring?", "seed = 'a'"],
    ),
    (
        "algorithm.name=admm problem.loss=hinge privacy.clip=1 faults.loss=0.1",
        ["problem.loss = 'hinge': admm minimizes by", "privacy.clip = 1.0", "faults.loss = 0.1: admm cannot handle"],
    ),
    (
        "algorithm.name=nothing rounds=0 privacy.delta=3",
        ["algorithm.name = 'nothing': there is no such name", "rounds = 0", "delta = 3"],
    ),
    # Others
    ("rounds", ["rounds: cannot be read: No such file or directory"]),
    (f"{DOLA} rounds", ["'rounds': expected key=value"]),
    ("=5", ["'=5': expected key=value"]),
    ("privacy=0.5", ["privacy = 0.5: privacy is a section of keys; write privacy.<key>=..."]),
    ("report=True", ["report = 'True': expected bool, got str; write true or false"]),
    ("rounds=1e3", ["rounds = 1000.0: expected int"]),
    ("rounds=10.5", ["rounds = 10.5: expected int"]),
    ("privacy.adjacency=one_sample", ["choose from: one-sample, zero-out, one-round, one-agent"]),
    ("record.metrics=disagreement", ["in a shell type 'record.metrics=[\"disagreement\"]', with the quotes"]),
    ("record.chunk=100", ["record.chunk = 100: this key no longer exists; leave it out"]),
    ("old.toml", ["old.toml, line 3: record.chunk = 100: this key no longer exists"]),
    (
        "record.agent_regret_every=5",
        ["record.agent_regret_every = 5: this key no longer exists; leave it out"],
    ),
    ("checkpoint.seconds=60", ["this key no longer exists; set checkpoint.every to a number of rounds"]),
    ("privacy.epsilon=1e-20", ["privacy.epsilon = 1e-20: expected a number from 1e-12 to 1e+12, or inf"]),
    (f"{DOLA} rounds=200000", ["rounds = 200000: the data last 14285 rounds"]),
    (f"{DOLA} algorithm.gradient_at=public", ["gradient_at: the chosen algorithm does not have this key"]),
    (f"{DOLA} topology.name=random-digraph", ["weights need an undirected graph: set topology.name="]),
    ("data.name=cifar10", ["did you mean cifar10-cat?"]),
    ("study.runs=3", ["start these runs with mpinodes sweep"]),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("typed", "answers"), MISTAKES, ids=lambda value: value if isinstance(value, str) else "")
def test_a_mistake_is_answered_by_what_to_change(typed, answers, folder, capsys):
    assert main(["--dry-run", *typed.split()]) == 2
    lines = capsys.readouterr().err.splitlines()
    if path := os.environ.get("MISTAKES"):
        with open(path, "a", encoding="utf-8") as file:
            file.write("\n".join([f"$ mpinodes run {typed}", *lines, "", ""]))
    assert lines
    assert all(line.startswith("mpinodes: error: ") for line in lines)
    assert all(any(answer in line for line in lines) for answer in answers), lines
    assert len(lines) <= max(1, len(answers)), lines


def test_there_are_sixty():
    assert len(MISTAKES) >= 60


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        ("-m mpinodes.run", "python -m mpinodes.sweep seed=1,2"),
        ("-m mpinodes run", "python -m mpinodes sweep seed=1,2"),
        ("-c 'import sys; sys.orig_argv[1:] = [\"/bin/mpinodes\", \"run\"]; from mpinodes.run import main; "
         "sys.exit(main(sys.argv[1:]))'", " mpinodes sweep seed=1,2"),
    ],
)  # fmt: skip
def test_messages_name_a_command_as_it_was_typed(typed, named, tmp_path):
    done = command(["sh", "-c", f"exec {sys.executable} {typed} --dry-run seed=1,2"], tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err.strip().endswith(named)
