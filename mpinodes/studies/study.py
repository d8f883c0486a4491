"""Read a study: an experiment, and lists of values for some of its keys. Each combination of values is a run.

The section `study` of the file has these keys:

- study.grid: a table with a list of values for each key. Each value is combined with each value of the other keys.
- study.zip: a table with a list of values for each key. All lists have the same length. The first values of all keys
  are used together, then the second values, and so on.
- study.cases: a list of tables. Each table sets several keys together.
- study.seeds: a list of seeds, or the number of seeds, which are counted from `seed` on.
- study.exclude: a list of tables. A run is left out if all keys of a table have the values in this table. A list in
  such a table matches each of its values.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import tomli_w
from msgspec import Meta

from mpinodes.config.classes import as_words
from mpinodes.config.schema import checked, suggest
from mpinodes.core.asked import Tree, gathered, merge, nested, parse
from mpinodes.core.asked import flat as every_key
from mpinodes.core.errors import BadInput

FILE = "study.toml"
FOLDER = "studies"
flat = partial(every_key, whole="problem.preset")  # a table that is the value of problem.preset is not flattened
SEED, NAME = "seed", "name"
ITEM = r"""(?:[^,\[{"']|"[^"]*"|'[^']*'|\[[^\]]*\]|\{[^}]*\})*"""  # text with commas only in quotes or brackets
MOST_RUNS = 100_000  # limited, because all runs are composed before the first run starts
Seeds = Annotated[int, Meta(ge=1, le=MOST_RUNS)] | Annotated[list[int], Meta(min_length=1)]
Tables = list[Annotated[dict[str, Any], Meta(min_length=1)]]
KEYS = {"seeds": Seeds, "grid": dict[str, Any], "zip": dict[str, Any], "cases": Tables, "exclude": Tables}


class Axis(NamedTuple):
    """Hold one or several keys of a study that are varied together.

    Attributes:
        table: the table of the study that lists the values: "study.grid", "study.zip", "study.cases" or "study.seeds".
        key: a key of the axis whose values are all different, so that a value identifies an entry of `points`.
        points: the combinations of values: each entry maps dotted keys of the axis to values.
    """

    table: str
    key: str
    points: tuple[dict[str, Any], ...]


class GridPoint(NamedTuple):
    """Describe one run of a study, as the study's file defines the run.

    Attributes:
        settings: the values of all keys that the study varies, by dotted key.
        asked: the whole experiment, as nested dictionaries.
        is_first_seed: whether no earlier run differs from this run only in the seed.
    """

    settings: dict[str, Any]
    asked: Tree
    is_first_seed: bool


@dataclass(frozen=True)
class Study:
    """Describe a study: an experiment, and the keys that are varied, which give many runs.

    Attributes:
        tree: the content of the file, with the values of the command line merged in.
        name: the name of the study.
        place: the directory of the study.
        axes: the keys that are varied, with their values: each key of study.grid, then study.zip, study.cases, and the
            seeds.
    """

    tree: Tree
    name: str
    place: Path
    axes: tuple[Axis, ...]

    @classmethod
    def of(cls, asked: Sequence[str | Path | Mapping[str, Any]]) -> Study:
        """Read the study that a command line or a Python caller describes.

        Args:
            asked: the first item is a file, the directory of a study, or a dictionary; it may be left out. The other
                items are texts: "key=value" sets a value in all runs, "key=a,b,c" varies a key.

        Raises:
            BadInput: an item or the study is malformed.
        """
        words = list(asked)
        has_source = bool(words) and not (isinstance(words[0], str) and "=" in words[0])
        source = words.pop(0) if has_source else {}
        file = None if isinstance(source, Mapping) else Path(os.path.expanduser(source))
        where = file if file is not None and file.is_dir() else None
        tree = as_words(gathered(where / FILE if where else file or source))
        for word in words:
            tree = _with(tree, str(word))
        name = checked(tree.get(NAME, where.absolute().name if where else file.stem if file else "study"), str, NAME)
        output = checked(tree.get("output", {}), dict[str, Any], "output")
        directory = checked(output.get("dir"), str | None, "output.dir")
        place = Path(os.path.expanduser(directory)) if directory else where or Path(FOLDER) / name
        return cls(tree, name, place, _axes(tree))

    def points(self) -> list[GridPoint]:
        """Return a description of each run: all combinations of the varied values, without the excluded combinations.

        The values of the last axis change fastest.

        Raises:
            BadInput: study.exclude has a key that the study does not vary, a table in study.exclude matches no run, or
                all runs are excluded.
        """
        base = {"report": False} | {key: value for key, value in self.tree.items() if key not in ("study", "output")}
        exclusions = _tables(_section(self.tree), "exclude")
        varied = sorted({key for axis in self.axes for point in axis.points for key in point})
        for key in (key for exclusion in exclusions for key in exclusion):
            if key not in varied:
                raise BadInput(f"study.exclude: the study does not vary the key {key}; {suggest(key, varied)}")
        left, used, settled = [], set(), set()
        for of_axes in product(*(axis.points for axis in self.axes)):
            settings = {key: value for point in of_axes for key, value in point.items()}
            matching = []
            for k, exclusion in enumerate(exclusions):
                lists = {key: value if isinstance(value, list) else [value] for key, value in exclusion.items()}
                if all(key in settings and settings[key] in values for key, values in lists.items()):
                    matching.append(k)
            used.update(matching)
            if not matching:
                setting = repr({key: value for key, value in settings.items() if key != SEED})
                left.append(GridPoint(settings, merge(base, nested(settings)), setting not in settled))
                settled.add(setting)
        if idle := [exclusion for k, exclusion in enumerate(exclusions) if k not in used]:
            excluded = ", ".join(f"{key} = {value!r}" for key, value in idle[0].items())
            raise BadInput(f"study.exclude: no run of this study has {excluded}; correct or remove this table")
        if not left:
            raise BadInput("study.exclude: every run is excluded; remove a table of study.exclude")
        return left

    def toml(self) -> str:
        """Return the text of study.toml, from which the study can be continued. The section `output` is left out."""
        return tomli_w.dumps({key: value for key, value in self.tree.items() if key != "output"})


def _section(tree: Tree) -> Tree:
    """Return the section `study` of the file, with checked keys and types.

    Raises:
        BadInput: a key is unknown, or its value has a wrong type.
    """
    section: Tree = checked(tree.get("study", {}), dict[str, Any], "study")
    for key in section:
        if key not in KEYS:
            raise BadInput(f"unknown key study.{key}; {suggest(key, [*KEYS], 'study.')}")
    return {key: checked(value, KEYS[key], f"study.{key}") for key, value in section.items()}


# ----------------------------------------------------------------------------------------------------- the command line
def _with(tree: Tree, word: str) -> Tree:
    """Return the settings of a study, changed by one word of the command line.

    - The word key=value sets a value in all runs, and replaces a list of values of the key in study.grid.
    - The word key=a,b,c varies the key, and replaces a value of the key for all runs.
    - If study.seeds is a number, the word seed=3 keeps this number; the seeds are then counted from 3.

    Raises:
        BadInput: the word is malformed, or its key cannot be varied.
    """
    key, equals, text = (part.strip() for part in word.partition("="))
    values = _listed(text) if equals else None
    study = _section(tree)
    study["grid"] = grid = dict(flat(study.get("grid", {})))
    grid.pop(key, None)
    if values is None:
        if key == SEED and "seeds" in study and not isinstance(study["seeds"], int):
            study.pop("seeds")
        return merge(tree | {"study": study}, parse(None, [word]))
    if key == "repeats":
        raise BadInput(
            f"{word!r}: a study has seeds in place of repeats: set seed={text}, or study.seeds=5 for the seeds 0 to 4"
        )
    if key.startswith("study."):
        raise BadInput(f"{word!r}: expected study.<key>=<value>; keys of the section study cannot be varied")
    if key == SEED:
        study["seeds"] = values
    else:
        grid[key] = values
    others = {other: value for other, value in flat(tree) if other != key and not other.startswith(f"{key}.")}
    return nested(others) | {"study": study}


def _listed(text: str) -> list[Any] | None:
    """Split a text "a,b,c" into its values; return None if the text is a single value.

    Raises:
        BadInput: a value is empty, or a quote or a bracket is not closed.
    """
    with suppress(ValueError):
        tomllib.loads(f"value = {text}")
        return None
    if not re.fullmatch(f"{ITEM}(?:,{ITEM})*", text):
        raise BadInput(f"{text!r}: a quote or a bracket is not closed")
    parts = [part.strip() for part in re.findall(f"(?:^|,)({ITEM})", text)]
    if len(parts) == 1:
        return None
    if not all(parts):
        raise BadInput(f"{text!r}: the list has an empty value; put a value that contains a comma in quotes: '\"a,b\"'")
    return [parse(None, [f"value={part}"])["value"] for part in parts]


# --------------------------------------------------------------------------------------------------------------- axes
def _axes(tree: Tree) -> tuple[Axis, ...]:
    """Return the keys that a study varies, with their values.

    Raises:
        BadInput: a table is malformed; a key is varied twice, or is varied and also has one value for all runs; a key
            cannot be varied (`repeats`, `study`, `output`); or there are more than `MOST_RUNS` combinations.
    """
    study = _section(tree)
    axes = []
    for key, values in flat(study.get("grid", {})):
        _require_list(values, f"study.grid.{key}", key)
        if not _are_distinct(values):
            raise BadInput(f"study.grid.{key} = {values!r}: a value comes twice in the list; remove it once")
        axes.append(Axis("study.grid", key, tuple({key: value} for value in values)))
    axes += [*_zip(study), *_cases(study), *_seeds(study, tree)]
    table_of: dict[str, str] = {}
    for axis in axes:
        for key in sorted({key for point in axis.points for key in point}):
            if key in table_of:
                raise BadInput(f"study: {key} is varied twice, in {table_of[key]} and in {axis.table}; remove one")
            if key == "repeats" or key.partition(".")[0] in ("study", "output"):
                raise BadInput(
                    f"study: {key} cannot be varied; delete it in {axis.table}; to repeat runs, set study.seeds"
                )
            table_of[key] = axis.table
    if fixed := [key for key, _ in flat(tree) if key in table_of and key not in (SEED, NAME)]:
        conflict = f"{fixed[0]} has one value for all runs, and is also varied in {table_of[fixed[0]]}"
        raise BadInput(f"study: {conflict}; remove the one value, or the key in {table_of[fixed[0]]}")
    if (runs := prod(len(axis.points) for axis in axes)) > MOST_RUNS:
        raise BadInput(f"study: {runs} runs, but at most {MOST_RUNS} are allowed; use fewer values or seeds")
    if "repeats" in tree:
        raise BadInput("repeats: a study has seeds in place of repeats: set study.seeds = 5")
    return tuple(axes)


def _zip(study: Tree) -> Iterator[Axis]:
    columns = dict(flat(study.get("zip", {})))
    if not columns:
        return
    for key, values in columns.items():
        _require_list(values, f"study.zip.{key}", key)
    if len({len(values) for values in columns.values()}) > 1:
        lengths = ", ".join(f"{key} {len(values)}" for key, values in columns.items())
        raise BadInput(f"study.zip: the lists must have equal lengths, but the lengths are {lengths}")
    distinct = [key for key, values in columns.items() if _are_distinct(values)]
    if not distinct:
        raise BadInput(
            "study.zip: one list must have different values only, which name the runs; or use [[study.cases]]"
        )
    rows = zip(*columns.values(), strict=True)
    yield Axis("study.zip", distinct[0], tuple(dict(zip(columns, row, strict=True)) for row in rows))


def _cases(study: Tree) -> Iterator[Axis]:
    points = []
    for case in _tables(study, "cases"):
        name = "-".join(word_of(key, value) for key, value in case.items())
        points.append(case if NAME in case else {NAME: name} | case)
    names = [point[NAME] for point in points]
    if twice := [name for name in names if names.count(name) > 1]:
        raise BadInput(f"study.cases: two cases are called {twice[0]!r}; give them different names (name = ...)")
    if points:
        yield Axis("study.cases", NAME, tuple(points))


def word_of(key: str, value: Any) -> str:
    """Return a short text for a setting, to be used in the name of a directory.

    - If the value is a word, the text is this word in lower case, such as `dola`.
    - If the value is a path, the text is the file's name without its ending.
    - If the value is a table, the text is `own`.
    - In all other cases, the text is the last part of the key, followed by the value, such as `epsilon0.5`.
    """
    if isinstance(value, dict):
        return "own"
    text = Path(value).stem if isinstance(value, str) and "/" in value else str(value).lower()
    clean = re.sub(r"[^\w.+-]+", "_", text).strip("_")
    return clean if isinstance(value, str) and not re.match(r"[\d.]", clean) else key.rpartition(".")[2] + clean


def _seeds(study: Tree, tree: Tree) -> Iterator[Axis]:
    if "seeds" not in study:
        return
    seeds = study["seeds"]
    if isinstance(seeds, int):
        first = checked(tree.get(SEED, 0), int, SEED)
        seeds = list(range(first, first + seeds))
    elif SEED in tree:
        raise BadInput(f"seed = {tree[SEED]!r} and study.seeds = {seeds!r}: leave one of the two keys out")
    if not _are_distinct(seeds):
        raise BadInput(f"study.seeds = {seeds!r}: expected the number of seeds, or a list of different seeds")
    yield Axis("study.seeds", SEED, tuple({SEED: seed} for seed in seeds))


def _tables(study: Tree, key: str) -> list[dict[str, Any]]:
    """Return the list of tables under a key of the section `study`, each with dotted keys."""
    return [dict(flat(table)) for table in study.get(key, [])]


def _require_list(values: Any, where: str, key: str) -> None:
    if not isinstance(values, list) or not values:
        section = f"in [{key.rpartition('.')[0]}]" if "." in key else "at the top"
        remedy = "" if isinstance(values, list) else f"; write a value that all runs share {section} of the file"
        raise BadInput(f"{where} = {values!r}: expected a list of values{remedy}")


def _are_distinct(values: list[Any]) -> bool:
    return len({repr(value) for value in values}) == len(values)
