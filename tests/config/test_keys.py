"""Whose noise is whose: what the key of a run's noise is made of, and what it is not."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from mpinodes.config import registry
from mpinodes.config.compose import compose
from mpinodes.config.noise_key import knows_horizon, noise_name
from mpinodes.core.asked import parse
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import Experiment
from mpinodes.core.messages import HEADER
from mpinodes.core.parts import Setup
from mpinodes.core.seeds import Draws, Purpose
from mpinodes.rounds.lockstep import simulate
from mpinodes.running import job
from tests.helpers.records import privacy_of

USER_FILES = Path(__file__).parents[1] / "helpers" / "user_files"
# Every key that may change while the noise stays: none can change a message, or the noise is not drawn by it.
CHANGES_NO_MESSAGE = {
    "privacy.budget", *(f"privacy.budget.{key}" for key in ("epsilon", "delta", "kept_by")),
    "rounds", "repeats", "name", "report", "output", "audit.view", "noise.entropy", "privacy.tight", "data.epochs",
    "privacy.tuning",
    "record.decisions", "record.transcript", "record.dynamic_regret", "record.metrics",
    "deadline.seconds", "checkpoint.every",
    "faults.absence", "faults.lag", "comparator",
}  # fmt: skip


def setup_of(*words: str) -> Setup:
    return compose(parse(None, list(words)), None)


def said(*words: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Decisions, releases, and noise scales of a run: (rounds, agents, ...)."""
    setup = setup_of("record.transcript=true", *words)
    parts = [[a.copy() for a in (d, e.scale[..., 0], f)] for d, e, f in map(setup.layout.open, simulate(setup))]
    decisions, scales, frames = (np.concatenate(part, axis=1).swapaxes(0, 1) for part in zip(*parts, strict=True))
    return decisions, frames[..., HEADER : HEADER + setup.dimension], scales


def test_two_settings_of_one_seed_do_not_give_each_other_away():
    """DOLA with clip 1 and with clip 2, each "proven 0.1": the second's noise was twice the first's."""
    words = ["algorithm.name=dola", "topology.name=complete", "privacy.epsilon=0.1", "rounds=30"]
    (one, heard, scale), (two, heard_too, scale_too) = said(*words, "privacy.clip=1"), said(*words, "privacy.clip=2")
    np.testing.assert_allclose(scale_too, 2 * scale)
    assert scale[1:].min() > 100
    without_noise = 2 * heard - heard_too
    told = np.abs(without_noise - (2 * one - two))[1:]
    assert np.median(told) > scale[1:].min()  # on the old code at most 1e-9: two unknowns fewer, all of it data
    noise = [((h - d)[1:] / s[1:, :, None]).ravel() for h, d, s in ((heard, one, scale), (heard_too, two, scale_too))]
    assert abs(np.corrcoef(*noise)[0, 1]) < 0.1


def test_runs_that_mean_to_share_their_noise_do():
    words = ["algorithm.name=dola", "rounds=5", "noise.key=paired"]
    (one, heard, scale), (two, heard_too, scale_too) = said(*words, "privacy.clip=1"), said(*words, "privacy.clip=2")
    scale, scale_too = scale[..., None], scale_too[..., None]
    np.testing.assert_allclose((heard - one)[1:] / scale[1:], (heard_too - two)[1:] / scale_too[1:], atol=1e-9)
    third = said(*words, "seed=1")[1]
    assert not (third[1:] == heard[1:]).any()
    keys = {setup_of(*words[:-1], *key).noise_key for key in ([], ["noise.key=paired"], ["noise.key=1"])}
    assert len(keys) == 3


def leaves(tree: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for key, value in tree.items():
        found += leaves(value, (*path, key)) if isinstance(value, dict) else [(*path, key)]
    return found


def other(value: Any, path: tuple[str, ...]) -> Any:
    """A value that the key could have instead, whether or not the run then makes sense."""
    words = {
        "mechanism": ("laplace", "gaussian"), "set": ("ball", "box"), "adjacency": ("one-sample", "one-round"),
        "backend": ("numpy", "lattice"), "entropy": ("seed", "os"), "scale": ("calibrated", 1.0),
        "kept_by": ("noise", "stopping"), "view": ("links", "agent:0"),
        "seconds": ("inf", 9.0), "clipping": ("sample", "agent"), "baseline": ("none", "alone"),
        "noise_multiplier": (None, 2.0),
    }  # fmt: skip
    if path[0] == "checkpoint":
        return 9
    if path == ("comparator",):
        return False
    if path == ("problem", "settings"):
        return {"delta": 1.0}
    if path[-1] in words:
        return next(word for word in words[path[-1]] if word != value)
    if path == ("feedback", "points"):
        return 2
    if path[0] == "faults":
        return 0.5 if isinstance(value, float) else value + 1
    if path == ("output",):
        return {"dir": "elsewhere"}
    if path == ("noise", "key"):
        return "other"
    if path == ("privacy", "tuning"):
        return {"mode": "public", "trials": 2}
    if path == ("privacy", "budget"):
        return {"epsilon": 1.0}
    if path[-1] == "delta" and value is None:
        return 0.5
    if value in ("inf", float("inf")):
        return 1.0
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value / 2 if path[-1] in ("delta", "decay") else value * 2 + 1
    if isinstance(value, (list, tuple)):
        return [*value, 7 if path[-1] != "metrics" else "other"]
    return f"{value}-other" if isinstance(value, str) else "other"


RUNS = [
    *([f"algorithm.name={name}"] for name in registry.names(registry.ALGORITHMS)),
    ["algorithm.name=dola", "privacy.budget.epsilon=1", "privacy.budget.kept_by=stopping", "rounds=20"],
]


@pytest.mark.parametrize("words", RUNS, ids=lambda words: words[0].partition("=")[2])
def test_every_setting_that_can_change_a_message_changes_the_noise(words):
    setup = setup_of(*words)
    tree = msgspec.to_builtins(setup.experiment)
    kept = set()
    for path in leaves(tree):
        if path[-1] in ("path", "set_path"):  # what stands in a file counts, not where it is: below
            continue
        changed = json.loads(json.dumps(tree))
        place = changed
        for part in path[:-1]:
            place = place[part]
        place[path[-1]] = other(place[path[-1]], path)
        again = dataclasses.replace(setup, experiment=msgspec.convert(changed, Experiment))
        assert again.experiment != setup.experiment, path
        if again.noise_key == setup.noise_key:
            kept.add(".".join(path))
    assert kept <= CHANGES_NO_MESSAGE
    assert kept >= {"repeats", "name", "report"}


def test_the_contents_of_the_users_files_count_and_not_where_they_are(tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        shutil.copy(USER_FILES / "extra.py", tmp_path / name)
    with (tmp_path / "c" / "extra.py").open("a") as file:
        file.write("\nCHANGED = 1\n")
    graph = '{"agents": 3, "name": "g", "rounds": [[[0, 1], [1, 2], [2, 0], [1, 0], [2, 1], [0, 2]]]}'
    keys = [setup_of(f"algorithm.path={tmp_path / name / 'extra.py'}", "rounds=5").noise_key for name in "abc"]
    assert keys[0] == keys[1] != keys[2]
    graph = json.loads((Path(__file__).parents[2] / "topologies" / "seven-agent-digraph.json").read_text())
    for name in "abc":
        (tmp_path / name / "g.json").write_text(json.dumps(graph, indent=2 if name == "c" else None))
    words = ["algorithm.name=dpsda-ps"]
    keys = [setup_of(*words, f"topology.file={tmp_path / name / 'g.json'}").noise_key for name in "abc"]
    assert keys[0] == keys[1] != keys[2]


def test_what_a_users_file_imports_counts_too(tmp_path, monkeypatch):
    """Found by a stranger: a constant in a helper module changed the messages, and not the noise."""
    monkeypatch.syspath_prepend(tmp_path)
    source = (
        (USER_FILES / "extra.py").read_text().replace("from mpinodes.core", "import key_helper\nfrom mpinodes.core", 1)
    )
    (tmp_path / "mine.py").write_text(source)
    (tmp_path / "key_helper.py").write_text("def late():\n    from key_constants import GAIN\n    return GAIN\n")
    keys = []
    for gain in (1, 2):
        (tmp_path / "key_constants.py").write_text(f"GAIN = {gain}\n")
        keys.append(setup_of(f"algorithm.path={tmp_path / 'mine.py'}", "rounds=5").noise_key)
    assert keys[0] != keys[1]


# Ways for a user's file to run other code or to read other files: what lies in its folder, text that it has, what is
# edited, and with what.
HERE = "from pathlib import Path\nHERE = Path(__file__).parent\n"
HELPER, EDITED = {"helper.py": "STEP = 0.5\n"}, {"helper.py": "STEP = 0.25\n"}
CORE, CORE_EDITED = {"lib/core.py": "STEP = 0.5\n"}, {"lib/core.py": "STEP = 0.25\n"}
JSON, JSON_EDITED = {"conf.json": "0.5"}, {"conf.json": "0.25"}
IN_PACKAGE, IN_PACKAGE_EDITED = {"lib/__init__.py": "", "lib/b.py": "STEP = 0.5\n"}, {"lib/b.py": "STEP = 0.25\n"}
WAYS = {
    "import": (HELPER, "import helper", EDITED),
    "import_module by an alias": (
        HELPER, "from importlib import import_module as load\nhelper = load('helper')", EDITED,
    ),
    "name in two strings": (HELPER, "import importlib\nhelper = importlib.import_module('hel' + 'per')", EDITED),
    "spec of a path in parts": (
        CORE,
        f"{HERE}from importlib.util import spec_from_file_location, module_from_spec\n"
        "_s = spec_from_file_location('core', HERE / 'lib' / 'core.py')\n"
        "_s.loader.exec_module(module_from_spec(_s))",
        CORE_EDITED,
    ),
    "SourceFileLoader": (
        HELPER,
        "from importlib.machinery import SourceFileLoader as Loader\n"
        "import types\nLoader('h', __file__.replace('mine', 'helper')).exec_module(types.ModuleType('h'))",
        EDITED,
    ),
    "run_path in a helper": (
        {
            "helper.py": "import runpy, os\nS = runpy.run_path(os.path.join(os.path.dirname(__file__), 'consts.py'))\n",
            "consts.py": "STEP = 0.5\n",
        },
        "import helper", {"consts.py": "STEP = 0.25\n"},
    ),
    "JSON in a helper": (
        {
            "helper.py": "import json, os\nwith open(os.path.join(os.path.dirname(__file__), 'conf.json')) as f:\n"
            "    S = json.load(f)\n",
            **JSON,
        },
        "import helper", JSON_EDITED,
    ),
    "JSON by an f-string": (
        JSON, "import os\nwith open(f'{os.path.dirname(__file__)}/conf.json') as f:\n    S = f.read()", JSON_EDITED,
    ),
    "JSON in a folder": (
        {"w/conf.json": "0.5"}, f"{HERE}S = (HERE / 'w' / 'conf.json').read_text()", {"w/conf.json": "0.25"},
    ),
    "namespace package": ({"ns/core.py": "STEP = 0.5\n"}, "import ns.core", {"ns/core.py": "STEP = 0.25\n"}),
    "star of a package": (
        {"lib/__init__.py": "from .a import *\n", "lib/a.py": "from .b import STEP\n", "lib/b.py": "STEP = 0.5\n"},
        "from lib import STEP", {"lib/b.py": "STEP = 0.25\n"},
    ),
    "relative import from above": (
        {"lib/__init__.py": "", "lib/c.py": "STEP = 0.5\n", "lib/sub/__init__.py": "from ..c import STEP\n"},
        "import lib.sub", {"lib/c.py": "STEP = 0.25\n"},
    ),
    "lazy package": (
        {**IN_PACKAGE, "lib/__init__.py": "def __getattr__(n):\n    from . import b\n    return b.STEP\n"},
        "import lib", IN_PACKAGE_EDITED,
    ),
    "plug-in folder": (
        {
            **IN_PACKAGE,
            "lib/__init__.py": "import pkgutil, importlib\n"
            "P = {m.name: importlib.import_module('lib.' + m.name) for m in pkgutil.iter_modules(__path__)}\n",
        },
        "import lib", IN_PACKAGE_EDITED,
    ),
    "exec of a text": (
        {"consts.txt": "STEP = 0.5"},
        "with open(__file__.replace('mine.py', 'consts.txt')) as f:\n    exec(f.read())",
        {"consts.txt": "STEP = 0.25"},
    ),
    "folder on the path for a while": (
        {"sub/hh.py": "STEP = 0.5\n"},
        "import sys, os\nsys.path.insert(0, os.path.join(os.path.dirname(__file__), 'sub'))\nimport hh\n"
        "sys.path.pop(0)",
        {"sub/hh.py": "STEP = 0.25\n"},
    ),
    "named as the standard library in a package": (
        {"lib/__init__.py": "", "lib/statistics.py": "STEP = 0.5\n"}, "from lib import statistics",
        {"lib/statistics.py": "STEP = 0.25\n"},
    ),
    "named as the standard library": ({"this.py": "STEP = 0.5\n"}, "import this", {"this.py": "STEP = 0.25\n"}),
    "second try": (HELPER, "try:\n    import nothere as helper\nexcept ImportError:\n    import helper", EDITED),
    "in a function": (HELPER, "def late():\n    import helper\n    return helper.STEP", EDITED),
    "by another name": (HELPER, "from helper import STEP as Q", EDITED),
    "eval": (HELPER, "helper = eval('__imp' + 'ort__(\"hel\" \"per\")')", EDITED),
    "named nearly as a platform": (
        {"networkx_ext.py": "STEP = 0.5\n"}, "import networkx_ext", {"networkx_ext.py": "STEP = 0.25\n"},
    ),
    # Siblings of these.
    "contents exchanged": (
        {"one.py": "STEP = 0.5\n", "two.py": "STEP = 0.25\n"}, "import one, two",
        {"one.py": "STEP = 0.25\n", "two.py": "STEP = 0.5\n"},
    ),
    "package named as the standard library": (
        {"wave/__init__.py": "from .core import S\n", "wave/core.py": "S = 1\n"}, "import wave",
        {"wave/core.py": "S = 2\n"},
    ),
    "builtins by name": (HELPER, "import builtins\nh = getattr(builtins, '__im' + 'port__')('hel' + 'per')", EDITED),
    "sys by an alias": (
        {"sub/hh.py": "S = 1\n"},
        "import sys as s, os\ns.path.append(os.path.dirname(__file__) + '/sub')\ndef late():\n    import hh",
        {"sub/hh.py": "S = 2\n"},
    ),
    "no ending": ({"w/weights": "1"}, f"{HERE}S = (HERE / 'w' / 'weights').read_text()", {"w/weights": "2"}),
    "name from a helper": (
        {"names.py": "FILE = 'conf.json'\n", "w/conf.json": "1"},
        f"{HERE}import names\nS = (HERE / 'w' / names.FILE).read_text()", {"w/conf.json": "2"},
    ),
    "submodule by star": (
        {**IN_PACKAGE, "lib/__init__.py": "__all__ = ['b']\n"}, "from lib import *", IN_PACKAGE_EDITED,
    ),
    "up": ({"../conf.json": "1"}, f"{HERE}S = (HERE.parent / 'conf.json').read_text()", {"../conf.json": "2"}),
    "code above": (
        {"../core.py": "S = 1\n"},
        f"{HERE}import runpy\nS = runpy.run_path(str(HERE.parent / 'core.py'))", {"../core.py": "S = 2\n"},
    ),
    "linked folder": (
        {"../shared/w.json": "1"},
        f"{HERE}import os\n(HERE / 'l').exists() or os.symlink(HERE.parent / 'shared', HERE / 'l')\n"
        "S = (HERE / 'l' / 'w.json').read_text()", {"../shared/w.json": "2"},
    ),
    "subprocess": (
        {"gen.py": "print(1)\n"},
        f"{HERE}import subprocess, sys\nS = subprocess.check_output([sys.executable, '-SI', HERE / 'gen.py'])",
        {"gen.py": "print(2)\n"},
    ),
    "library": (
        {"w/rule.so": "1"}, f"{HERE}import ctypes\ndef late(name='ru' + 'le'):\n    ctypes.CDLL(HERE / 'w' / name)",
        {"w/rule.so": "2"},
    ),
    "archive of data": (
        {"all.zip": "1"}, f"{HERE}import importlib\nS = (HERE / 'all.zip').read_text()", {"all.zip": "2"},
    ),
    "nested namespace": ({"ns/in_/c.py": "S = 1\n"}, "def late():\n    import ns.in_.c", {"ns/in_/c.py": "S = 2\n"}),
}  # fmt: skip


def keys_of(folder: Path, text: str, files: dict[str, str], *words: str) -> tuple[bytes, str]:
    """Return the key and the name of the noise of a run of a user's file with this text and these files beside it."""
    for name, content in {"mine.py": "", **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    source = (USER_FILES / "extra.py").read_text()
    (folder / "mine.py").write_text(source.replace("from mpinodes.core", f"{text}\nfrom mpinodes.core", 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "dont_write_bytecode", True)
        patch.syspath_prepend(folder)
        loaded = set(sys.modules)
        try:
            setup = setup_of(f"algorithm.path={folder / 'mine.py'}", "rounds=5", *words)
            return setup.noise_key, noise_name(setup)
        finally:
            for name in set(sys.modules) - loaded:
                if not name.startswith(("mpinodes.", "numpy", "scipy")):
                    del sys.modules[name]


MOVED = (
    "spec of a path in parts",
    "JSON in a folder",
    "up",
    "linked folder",
    "library",
    "folder on the path for a while",
)


@pytest.mark.parametrize("way", WAYS)
def test_the_noise_depends_on_all_that_code_may_run_or_read_but_not_on_where_it_lies(way, tmp_path):
    files, text, edited = WAYS[way]
    here, there = tmp_path / "a" / "b" / "c", tmp_path / "d" / "e" / "f"
    first = keys_of(here, text, files)
    if way in MOVED:
        assert keys_of(there, text, files) == first
    changed = keys_of(here, text, {**files, **edited})
    assert changed[0] != first[0]
    if not any(name.endswith((".py", ".so")) for name in edited):
        assert changed[1] == first[1]  # of what may be data no hash is written


def test_the_noise_depends_on_code_and_data_that_lie_elsewhere(tmp_path, monkeypatch):
    """A module, what it loads from its own folder, and an archive, each on the path and not below the user's file."""
    other = tmp_path / "other"
    monkeypatch.syspath_prepend(other)
    monkeypatch.syspath_prepend(tmp_path / "packed.zip")
    text = f"{HERE}def late():\n    import elsewhere, packed\nS = HERE / '../up.json'"
    loader = "import runpy, os\nS = runpy.run_path(os.path.dirname(__file__) + '/next.py')\n"
    files = {"other/elsewhere.py": loader, "other/next.py": "S = 1\n", "up.json": "1", "packed.zip": "1"}
    keys = set()
    for changed in (*files, ""):
        for name, content in files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).unlink(missing_ok=True)
            if name == "packed.zip":
                with zipfile.ZipFile(tmp_path / name, "w") as archive:
                    archive.writestr("packed.py", f"S = {name == changed}\n")
            else:
                (tmp_path / name).write_text(content.replace("1", "2") + "\n" * (name == changed))
        keys.add(keys_of(tmp_path / "mine", text, {})[0])
    assert len(keys) == len(files) + 1


def test_the_noise_depends_on_what_lies_beside_a_link_to_code(tmp_path):
    keys_of(tmp_path / "real", f"{HERE}S = (HERE / 'conf.json').read_text()", JSON)
    keys = set()
    for place, content in (("a", "1"), ("b", "1"), ("c", "2")):
        (tmp_path / place).mkdir()
        (tmp_path / place / "mine.py").symlink_to(tmp_path / "real" / "mine.py")
        (tmp_path / place / "conf.json").write_text(content)
        keys.add((content, setup_of(f"algorithm.path={tmp_path / place / 'mine.py'}", "rounds=5").noise_key))
    assert len(keys) == len({key for _, key in keys}) == 2


LOADING = f"{HERE}import importlib\nS = ['summary.json', 'log.txt', '.h5', '*.toml', 'table.csv', 'experiment']"
RUN = {
    "log.txt": "",
    "experiment.toml": "rounds = 1\n",
    "summary.json": "{}",
    "sources/algorithm-path-mine.py": "S = 1\n",
}


def test_what_runs_and_studies_write_beside_code_leaves_its_noise(tmp_path):
    before = keys_of(tmp_path, LOADING, {})
    study = {".lock": "", "study.toml": "", "table.csv": "1"} | {f"runs/seed1/{name}": RUN[name] for name in RUN}
    for place, files in (("runs/mine-001", RUN), ("here/st", study), (".git", HELPER)):
        assert keys_of(tmp_path, LOADING, {f"{place}/{name}": content for name, content in files.items()}) == before
    assert (
        keys_of(tmp_path, LOADING, {f"own/{name}": content for name, content in RUN.items() if name != "log.txt"})
        != before
    )
    named = f"{HERE}S = HERE / 'out/summary.json'"
    keys = [
        keys_of(tmp_path, named, files, f"output.dir={tmp_path / 'out'}") for files in ({}, {"out/summary.json": "{}"})
    ]
    assert keys[0] == keys[1]


def test_code_whose_text_names_all_is_not_changed_by_what_lies_beside_it(tmp_path):
    before = keys_of(tmp_path, "import helper", HELPER)
    assert keys_of(tmp_path, "import helper", {"other.py": "S = 1\n", "w/conf.json": "1"}) == before


def test_code_that_may_load_anything_is_refused_where_there_is_too_much(tmp_path, monkeypatch):
    monkeypatch.setattr("mpinodes.config.noise_key.MOST", 20)
    files = {f"data/{number}": "" for number in range(30)}
    keys_of(tmp_path, "import helper", {**HELPER, **files})
    for text in ("import importlib", HERE):
        with pytest.raises(BadInput, match=r"more than 20 files that code may load.*noise\.key"):
            keys_of(tmp_path, text, files)
        assert keys_of(tmp_path, text, files, "noise.key=1")[0]


def test_the_noise_is_the_same_whatever_program_runs_the_code(tmp_path, monkeypatch):
    text = "import importlib\nif __name__ == '__main__':\n    pass"
    before = keys_of(tmp_path, text, {})
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", sys.modules["mpinodes"].__spec__)
    monkeypatch.setattr(sys.modules["mpinodes"].__spec__, "origin", str(USER_FILES / "extra.py"))
    assert keys_of(tmp_path, text, {}) == before


def test_a_file_beside_code_that_is_of_no_python_counts_and_is_not_run(tmp_path):
    broken = {"old.py": "print 'a'\n", "null.py": "\0", "lib/__init__.py": "raise SystemExit(3)\n", "lib/a.py": ""}
    text = "import importlib\ndef late():\n    import lib.a"
    before = keys_of(tmp_path, text, broken)
    assert keys_of(tmp_path, text, {"old.py": "print 'b'\n"}) != before


@pytest.mark.parametrize("name", ["mine.csv", "part-{agent}.csv"])
def test_the_contents_of_data_files_count_and_not_where_they_are(tmp_path, name, monkeypatch):
    names, keys = set(), []
    for place, last in (("a", "1"), ("b/c", "1"), ("d", "-1")):
        (tmp_path / place).mkdir(parents=True)
        for file in (name.replace("{agent}", str(i)) for i in range(2)):
            (tmp_path / place / file).write_text("x,y\n" + "1,1\n1,-1\n" * 14 + f"1,{last}\n")
        monkeypatch.chdir(tmp_path / place)
        words = (
            "algorithm.name=dola",
            f"data.file={name}",
            "topology.agents=2",
            "data.columns=1",
            "topology.name=complete",
            "rounds=2",
        )
        keys.append(setup_of(*words).noise_key)
        names.add(noise_name(setup_of(*words)))
        assert keys[-1] == setup_of(*words, "data.identity=mine").noise_key
    assert keys[0] == keys[1] != keys[2]
    assert len(names) == 1  # what is written tells nothing of the data


def test_a_data_set_has_the_same_noise_in_any_directory(tmp_path):
    keys = []
    for place, head in (("a", b"p"), ("b", b"p"), ("c", b"e")):
        (tmp_path / place).mkdir()
        (tmp_path / place / "mushrooms").write_bytes(b"")
        rows = [f"{k % 2 + 1} {k % 112 + 1}:1" for k in range(8124)]
        (tmp_path / place / "mushrooms").write_text("\n".join(rows[:: 1 if head == b"p" else -1]) + "\n")
        words = "algorithm.name=dola", "topology.name=complete", "data.name=mushrooms", f"data.dir={tmp_path / place}"
        keys.append(setup_of(*words, "rounds=2").noise_key)
    assert keys[0] == keys[1] != keys[2]


def test_nothing_that_a_run_writes_has_a_hash_of_its_data(tmp_path):
    """Whoever knows all rows but one could try all that the last may be."""
    file = tmp_path / "mine.csv"
    rows = [f"{k % 7 / 7:.3f},{k % 2}" for k in range(60)]
    file.write_text("x,y\n" + "\n".join(rows) + "\n")
    words = f"data.file={file}", "data.labels=[0,1]", "checkpoint.every=2", "record.transcript=true", "rounds=6"
    asked = parse(None, ["algorithm.name=dola", "topology.agents=2", *words, f"output.dir={tmp_path / 'r'}"])
    job.run(asked)
    content = file.read_bytes()
    whole = b"".join(path.read_bytes() for path in (tmp_path / "r").rglob("*") if path.is_file())
    key = compose(asked, None).noise_key
    hashes = [hashlib.new(name, content).digest() for name in ("sha256", "sha1", "md5", "blake2b")]
    hashes += [hashlib.blake2b(content, digest_size=size).digest() for size in (8, 16, 32)]
    for digest in (*hashes, key):
        assert digest[:8] not in whole
        assert digest.hex()[:12].encode() not in whole


@pytest.mark.parametrize("name", registry.names(registry.ALGORITHMS))
def test_a_longer_run_begins_with_a_shorter_one(name):
    short, long = (12, 14) if name != "two-stage-gaussian" else (110, 115)
    if name == "weight-balancing":  # on a fixed graph
        assert not knows_horizon(setup_of(f"algorithm.name={name}", "rounds=12"))
    (_, heard, _), (_, heard_longer, _) = (said(f"algorithm.name={name}", f"rounds={t}") for t in (short, long))
    np.testing.assert_array_equal(heard, heard_longer[:short])


def test_the_horizon_counts_where_a_message_may_depend_on_it():
    balancing = ["algorithm.name=weight-balancing", "topology.name=eulerian"]
    drawn = ["algorithm.name=dola", "algorithm.mixing=laplacian", "topology.name=erdos-renyi-each-round"]
    users = [f"algorithm.path={USER_FILES / 'extra.py'}"]
    for words in (drawn, users, balancing):
        assert knows_horizon(setup_of(*words, "rounds=9"))
        assert setup_of(*words, "rounds=9").noise_key != setup_of(*words, "rounds=8").noise_key


def test_an_anytime_algorithm_is_told_no_horizon():
    setup = setup_of("algorithm.name=dola", "rounds=9")
    assert setup.run.rounds == 9
    assert setup.algorithm.run.rounds > 10**9
    with pytest.raises(ValueError, match="anytime"):
        _ = setup.mixing.graph.most_edges


def test_the_seed_alone_does_not_give_the_noise():
    """Of DPSDA the first message is pure noise: on the old code it told every small seed, and all noise after it."""
    words = "algorithm.name=dpsda-ps", "rounds=4", "seed=1234"
    _, heard, scale = said(*words)

    def left(source: int | bytes) -> float:
        return float(np.abs(heard[0, 0] - Draws(source, Purpose.NOISE, 0).at(1).laplace(0.0, scale[0, 0], 64)).max())

    assert left(1234) > 1
    assert left(setup_of(*words).noise_key) < 1e-12  # a rehearsal: who guesses the seed and the settings has it


EPOCHS = """
from dataclasses import dataclass
import numpy as np
from mpinodes.streams.labelled import LabelledStream, in_memory
__all__ = ["Own"]

@dataclass(frozen=True)
class Own(LabelledStream):
    name, feature_bound, drawn_from_seed = "own", 1.0, True
    defaults = {"problem": {"loss": "logistic", "set": "ball", "radius": 5.0}}

    def open(self):
        return in_memory(np.full((40, 2), 0.5 / self.epochs), np.ones(40)), None
"""


@pytest.mark.parametrize("states", [False, True])
def test_settings_that_only_lengthen_data_are_those_that_a_users_stream_states_itself(states, tmp_path):
    (tmp_path / "own.py").write_text(EPOCHS + '    lengthens = ("epochs",)\n' * states)
    words = ["algorithm.name=dola", f"data.path={tmp_path / 'own.py'}", "rounds=5"]
    assert len({setup_of(*words, f"data.epochs={k}").noise_key for k in (1, 2)}) == (1 if states else 2)


def test_no_setting_of_a_stream_has_the_name_of_a_key_that_changes_no_noise(tmp_path):
    (tmp_path / "own.py").write_text(EPOCHS.replace("    name,", '    identity: str = "a"\n    name,'))
    with pytest.raises(BadInput, match=r"Own\.identity has the name of the key data\.identity: rename it"):
        setup_of("algorithm.name=dola", f"data.path={tmp_path / 'own.py'}", "rounds=5")


def test_two_versions_of_mpinodes_share_no_noise(monkeypatch):
    setup = setup_of("rounds=3")
    names, keys = [noise_name(setup)], [setup.noise_key]
    monkeypatch.setattr("mpinodes.config.noise_key.__version__", "0.0.9", raising=False)
    names.append(noise_name(setup_of("rounds=3")))
    keys.append(setup_of("rounds=3").noise_key)
    assert len(set(names)) == len(set(keys)) == 2


def test_a_key_is_for_noise_that_is_drawn_by_one():
    with pytest.raises(BadInput, match=r"noise\.key = 'a': .* set noise.entropy=seed"):
        setup_of("noise.key=a", "noise.entropy=os")


def test_a_secret_key_is_another_in_every_run_and_of_every_agent():
    heard = [said("algorithm.name=dpsda-ps", "rounds=4", "noise.entropy=os")[1] for _ in range(2)]
    assert not (heard[0] == heard[1]).any()
    assert len(np.unique(heard[0][0])) == heard[0][0].size


def run(directory: Path, *words: str) -> dict[str, Any]:
    asked = parse(None, [*words, "rounds=4", "report=false", f"output.dir={directory}"])
    return json.loads((job.run(asked)[0] / "summary.json").read_text())["privacy"]


def test_a_run_beside_it_with_the_same_noise_on_other_data_is_named(tmp_path):
    file = tmp_path / "mine.npz"
    np.savez(file, features=np.eye(8, 2), targets=np.array([1.0, -1.0] * 4))
    words = ["algorithm.name=dola", f"data.file={file}", "topology.agents=2"]
    runs = tmp_path / "runs"
    assert run(runs / "one", *words)["shares_noise_with"] == []
    assert run(runs / "again", *words)["shares_noise_with"] == []  # the same data
    assert run(runs / "other-clip", *words, "privacy.clip=2")["shares_noise_with"] == []
    time.sleep(0.05)
    np.savez(file, features=2 * np.eye(8, 2), targets=np.array([1.0, -1.0] * 4))
    assert run(runs / "edited", *words)["shares_noise_with"] == []  # other contents have other noise
    np.savez(tmp_path / "older.npz", features=3 * np.eye(8, 2), targets=np.array([1.0, -1.0] * 4))
    os.utime(tmp_path / "older.npz", (1e9, 1e9))
    time.sleep(0.05)
    (tmp_path / "older.npz").rename(file)  # which leaves the time of its last writing
    assert run(runs / "moved", *words)["shares_noise_with"] == []
    assert run(runs / "secret", *words, "noise.entropy=os")["shares_noise_with"] == []
    assert run(runs / "paired", *words, "noise.key=1")["shares_noise_with"] == []
    time.sleep(0.05)
    np.savez(file, features=2 * np.eye(8, 2), targets=np.array([1.0, -1.0] * 4))
    assert run(runs / "paired-edited", *words, "noise.key=1")["shares_noise_with"] == ["paired"]
    (runs / "paired-edited").rename(tmp_path / "away")
    assert run(runs / "pair", *words, "noise.key=1", "data.shuffle=false")["shares_noise_with"] == ["paired"]


@pytest.mark.parametrize(("entropy", "key"), [("seed", "rehearsal"), ("os", "secret")])
def test_the_summary_says_what_the_proof_assumes(tmp_path, entropy, key):
    from mpinodes.presentation.privacy_words import lines

    privacy = run(tmp_path / "run", f"noise.entropy={entropy}")
    assert privacy["key"] == key
    text = "\n".join(lines(privacy_of(privacy), None))
    assert ("anyone with the seed can regenerate the noise" in text) == (entropy == "seed")
    assert run(tmp_path / "silent", "privacy.epsilon=inf")["key"] is None
