"""Read the setting `problem.preset`. A preset is a set of settings that pose the same problem to several algorithms.

A preset is a file in the folder presets, a TOML file of the user, or a table of keys in the experiment. A preset may
set the keys of the sections data, problem and step, and privacy.clip, privacy.scale and privacy.adjacency. If there is
a preset, the algorithm's own defaults for these keys are ignored.

If the user sets a key, the value of the user counts. If neither the user nor the preset sets a key, the key has the
default of the data set, or its general default.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mpinodes.config.schema import Problems, suggest, to_type
from mpinodes.core.asked import Request, Tree, flat, merge, nested, parse
from mpinodes.core.errors import BadInput
from mpinodes.core.parts import Algorithm

KEY = "problem.preset"
FOLDER = Path(__file__).parent / "presets"
KEYS = ("data.", "problem.", "step.", "privacy.clip.", "privacy.scale.", "privacy.adjacency.")  # allowed, with a dot


def names() -> list[str]:
    """Return the names of the presets that come with mpinodes, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def taken_out(asked: Tree, problems: Problems) -> tuple[Tree, Tree, str]:
    """Separate the preset from the user's settings.

    Args:
        asked: the settings that the user asks for.
        problems: the list to which a line for each mistake in the preset is added.

    Returns:
        Three values: the user's settings without `problem.preset`; the settings of the preset, without keys that a
        preset may not set; and a name of the preset for error messages. If there is no preset, or if the preset cannot
        be read, the second value is empty.
    """
    problem, preset = asked.get("problem"), Tree()
    if not isinstance(problem, dict) or "preset" not in problem:
        return asked, preset, "the preset"
    value = problem["preset"]
    where = KEY if isinstance(value, dict) else f"{KEY} = {value!r}"
    with problems.caught():
        preset = _read(value, where)
        wrong = [key for key, _ in flat(preset) if not _is_of_preset(key)]
        allowed = "allowed are keys of data, problem and step, privacy.clip, privacy.scale and privacy.adjacency"
        problems += [f"{where}: a preset cannot set {key}; {allowed}" for key in wrong]
        if not preset:
            problems.append(f"{where}: the preset has no key of data, problem or step")
        own = nested({key: value for key, value in flat(preset) if _is_of_preset(key)})
        preset = Request(own, getattr(preset, "places", {}))
    return asked | {"problem": {k: v for k, v in problem.items() if k != "preset"}}, preset, f"the preset {value}"


def _read(value: Any, where: str) -> Tree:
    if isinstance(value, dict):
        return value
    if not isinstance(value, str) or not (value.endswith(".toml") or value in names()):
        typed = to_type(KEY, value) if str(value).startswith("{") else ""
        suggestion = suggest(str(value), names())
        raise BadInput(f"{where}: there is no such preset; {suggestion}, or use a .toml file or a table of keys{typed}")
    return parse(value if value.endswith(".toml") else str(FOLDER / f"{value}.toml"), [])


def _is_of_preset(key: str) -> bool:
    """Return whether a preset may set a key, such as "data.batch"."""
    return f"{key}.".startswith(KEYS) and key != KEY


def left_of(defaults: Mapping[str, Any]) -> Tree:
    """Return the defaults of an algorithm without the keys that a preset may set."""
    return nested({key: value for key, value in flat(defaults) if not _is_of_preset(key)})


def fitted(preset: Tree, algorithm: type[Algorithm[Any]]) -> Tree:
    """Return the settings of a preset, changed as an algorithm needs them. An empty preset stays empty.

    - If the algorithm uses all samples in every round: `data.batch` becomes "all", and data.epochs and data.shuffle are
      removed.
    - If the agents solve minimization problems (`Algorithm.solves`): `privacy.clip` becomes "inf", so no gradient is
      clipped.
    """
    if preset and algorithm.whole_data:
        data = {key: value for key, value in preset.get("data", {}).items() if key not in ("epochs", "shuffle")}
        preset = preset | {"data": data | {"batch": "all"}}
    return merge(preset, {"privacy": {"clip": "inf"}}) if preset and algorithm.solves else preset
