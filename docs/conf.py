"""How the documentation is built: python -m sphinx -W docs build/docs."""

import gc
import re
from itertools import groupby
from pathlib import Path

import msgspec.inspect as types

from mpinodes import __version__
from mpinodes.config.defaults import BASE, LOCKSTEP_AGENTS
from mpinodes.config.explaining import settings

gc.disable()  # takes a quarter of the time of a build
project, author, release = "mpinodes", "The mpinodes developers", __version__
project_copyright = author
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = f"mpinodes {release}"
html_show_sphinx = False
default_role = "code"  # docstrings put names in single backquotes
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_use_ivar = True
suppress_warnings = ["ref.python"]  # attributes of one name in several classes


def as_text(app, what, name, obj, options, lines):
    """Docstrings are plain text: what reStructuredText would take for markup of its own is not."""
    text = "\n".join(line if "`" in line else line.replace("|", r"\|").replace("*", r"\*") for line in lines)
    lines[:] = re.sub(r":\n\n(?= {4})", "::\n\n", text).split("\n")


UNITS = {  # of the keys that have a unit
    **dict.fromkeys(("checkpoint.every", "faults.absence", "faults.delay", "faults.lag", "feedback.delay"), "rounds"),
    **dict.fromkeys(("rounds", "algorithm.gradient_rounds", "topology.period", "privacy.budget.stops"), "rounds"),
    "step.rounds": "rounds",
    **dict.fromkeys(("data.batch", "data.sizes", "data.total", "data.points"), "samples"),
    "data.train": "samples or share",
    **{"deadline.seconds": "s", "topology.agents": "agents", "data.epochs": "passes", "repeats": "runs"},
}
PARTS = ("algorithm", "step", "topology", "data", "problem.settings")  # sections, whose keys have rows of their own
ENDS = {"ge": "≥ ", "gt": "> ", "le": "≤ ", "lt": "< "}


def type_in_words(kind):
    """Return a type as words, such as "integer ≥ 1"; several types are separated by "or"."""
    if isinstance(kind, types.Metadata):
        return type_in_words(kind.type)
    if isinstance(kind, types.UnionType):
        return " or ".join(type_in_words(k) for k in kind.types if not isinstance(k, types.NoneType))
    if isinstance(kind, types.LiteralType):
        return " or ".join(f"`{value}`" for value in kind.values)
    if isinstance(kind, (types.ListType, types.VarTupleType)):
        return f"list of {type_in_words(kind.item_type)}"
    names = {"Int": "integer", "Float": "number", "Bool": "`true` or `false`", "Str": "text"}
    names |= {"Dict": "section", "Struct": "section"}
    name = names[type(kind).__name__.removesuffix("Type")]
    ends = [f"{sign}{getattr(kind, end):g}" for end, sign in ENDS.items() if getattr(kind, end, None) is not None]
    return f"{name} {' and '.join(ends)}".strip()


def by_part_in_words(by_part):
    """Return the types of a key as words; if parts have different types, each type is followed by its parts."""
    parts_of = {}
    for part, key in by_part.items():
        parts_of.setdefault(type_in_words(types.type_info(key.type)), []).append(part)
    return "; ".join(kind if len(parts_of) == 1 else f"{kind} ({', '.join(parts)})" for kind, parts in parts_of.items())


def settings_page():
    """Return the page of all settings, made from the types and descriptions of the keys in the code."""
    lines = ["# All settings", "", "Sphinx makes this page from the code. `mpinodes run --explain KEY` prints one row."]
    lines += ["The keys of a study are on the page [studies](../studies.md).", ""]
    rows = {tuple(key.rpartition(".")[::2]): row for key, row in settings().items() if key not in PARTS}
    shown = {"True": "true", "False": "false", "()": "[]"}
    base = {"seed": BASE["seed"], "repeats": BASE["repeats"], "topology.agents": LOCKSTEP_AGENTS}
    for section, keys in groupby(sorted(rows), lambda key: key[0]):
        lines += [
            f"## {section or 'Keys without a section'}",
            "",
            "| key | type | default | unit | what it does | parts |",
        ]
        lines += ["|---|---|---|---|---|---|"]
        for _, name in keys:
            key, row = f"{section}.{name}".strip("."), rows[section, name]
            parts, default = list(row.by_part), shown.get(row.default, row.default or base.get(key, ""))
            kind = by_part_in_words(row.by_part) or "text"
            cells = [f"`{key}`", kind, f"`{default}`" if default != "" else "", UNITS.get(key, "")]
            cells += [row.meaning, ", ".join(filter(None, parts)) or "all"]
            lines.append("| " + " | ".join(re.sub(r"([|<*])", r"\\\1", cell) for cell in cells) + " |")
        lines.append("")
    return "\n".join(lines)


PAGE = Path(__file__).parent / "reference" / "settings.md"
PAGE.parent.mkdir(exist_ok=True)
PAGE.write_text(settings_page(), "utf-8")


def setup(app):
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", as_text, priority=400)  # before napoleon
