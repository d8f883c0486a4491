"""`problem.preset`: one problem for all algorithms, in the place of what each brings.

A preset is a table of an experiment's keys in data, problem and step, and of privacy.clip, .scale and .adjacency. Where
there is one, an algorithm's own defaults of these are left aside, so what the preset does not say is the same for all
too: the data's defaults. What the user asks for by itself goes before. It is a file of presets/, a TOML file of the
user's, or the table itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mpinodes.config.registry import suggest, to_type
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import Tree, merge, parse
from mpinodes.core.parts import Algorithm

KEY = "problem.preset"
FOLDER = Path(__file__).parent / "presets"
SECTIONS = ("data", "problem", "step")
OF_PRIVACY = ("clip", "scale", "adjacency")


def names() -> list[str]:
    """Of those that come with mpinodes."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def taken_out(asked: Tree) -> tuple[Tree, Tree]:
    """What the user asked for without the preset, and the preset; empty: there is none.

    Raises:
        BadInput: there is no such preset, or it is malformed.
    """
    problem = asked.get("problem")
    if not isinstance(problem, dict) or "preset" not in problem:
        return asked, {}
    rest = {key: value for key, value in problem.items() if key != "preset"}
    return asked | {"problem": rest}, _checked(problem["preset"])


def _checked(value: Any) -> Tree:
    tree, where = _read(value)
    if not tree:
        raise BadInput(f"{where}: it says nothing of data, problem or step")
    for key, section in tree.items():
        if not isinstance(section, dict) or key not in (*SECTIONS, "privacy"):
            raise BadInput(f"{where}: {key} is no part of a problem; it has [data], [problem], [step] and [privacy]")
    for key in tree.get("privacy", {}):
        if key not in OF_PRIVACY:
            raise BadInput(f"{where}: of [privacy] it has {', '.join(OF_PRIVACY)}, and no {key}")
    if "preset" in tree.get("problem", {}):
        raise BadInput(f"{where}: a preset has no preset")
    return tree


def _read(value: Any) -> tuple[Tree, str]:
    """A preset, and what to call it in an error."""
    if isinstance(value, dict):
        return value, KEY
    where = f"{KEY} = {value!r}"
    if not isinstance(value, str) or not (value.endswith(".toml") or value in names()):
        near = suggest(str(value), names())
        typed = to_type(KEY, value) if str(value).startswith("{") else ""
        raise BadInput(f"{where}: there is no such preset; {near}; or a .toml file, or a table of keys{typed}")
    return parse(value if value.endswith(".toml") else str(FOLDER / f"{value}.toml"), []), where


def left_of(defaults: Mapping[str, Any]) -> Tree:
    """An algorithm's defaults, less those of the problem."""
    kept = {key: value for key, value in defaults.items() if key not in SECTIONS}
    if "privacy" in kept:
        kept["privacy"] = {key: value for key, value in kept["privacy"].items() if key not in OF_PRIVACY}
    return kept


def fitted(preset: Tree, algorithm: type[Algorithm[Any]]) -> Tree:
    """A preset, less what an algorithm does not know: batches of losses that stay, a minimizer's steps and clipping."""
    if not preset:
        return preset
    fit = {key: value for key, value in preset.items() if key != "step" or algorithm.takes_steps}
    if algorithm.whole_data:
        fit = merge(fit, {"data": {"batch": "all"}})
        for key in ("epochs", "shuffle"):
            fit["data"].pop(key, None)
    if algorithm.solves:
        fit = merge(fit, {"privacy": {"clip": "inf"}})
    return fit
