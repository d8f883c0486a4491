"""Write the user's classes to Python files, for settings whose value is a class instead of a name or a path.

A class of a notebook is written to runs/classes/<hash of the file>/<class>.py, together with everything that it uses:
imports, functions, other classes and variables. So the file is complete, and a run on a class is recorded, resumed and
repeated like a run on the user's file.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from symtable import SymbolTable, symtable
from typing import Any

from mpinodes.config.registry import KINDS, METRICS, MIXINGS
from mpinodes.core.asked import Tree, gathered
from mpinodes.core.errors import BadInput, is_users
from mpinodes.core.experiment import is_file

FOLDER = Path("runs", "classes")
STATEMENTS = (ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef, ast.Assign)
PLAIN = (bool, int, float, str, tuple, dict, type(None))
REMEDY = "put the class into a Python file, and set the key of this file, such as algorithm.path"


def as_words(asked: Tree) -> Tree:
    """Return settings in which each class is replaced by the path of a file, or by its name if mpinodes defines it.

    In the settings of a study, the classes in `study.cases` are replaced, too.

    Raises:
        BadInput: a class cannot be written to a file.
    """
    for kind in KINDS:
        section: Any = asked.get(kind.section)
        value = section.get(kind.chooser) if isinstance(section, dict) else None
        if kind is METRICS and isinstance(value, list):
            words = [_word(part) if isinstance(part, type) else part for part in value]
            asked = asked | {kind.section: section | {kind.chooser: words}}
        elif isinstance(value, type) and kind is not MIXINGS:
            word, rest = _word(value), {key: section[key] for key in section if key != kind.chooser}
            asked = asked | {kind.section: rest | {kind.path if is_file(word) else kind.chooser: word}}
    study: Any = asked.get("study")
    if isinstance(study, dict) and isinstance(cases := study.get("cases"), list):
        cases = [as_words(gathered(case)) if isinstance(case, dict) else case for case in cases]
        asked = asked | {"study": study | {"cases": cases}}
    return asked


def _word(part: type) -> str:
    """Return the name of a class of mpinodes, or the path of a file that defines the user's class."""
    name = part.__name__
    if not is_users(part):
        return part.__module__.rpartition(".")[2].replace("_", "-")
    module = sys.modules[part.__module__]
    if module.__spec__ and part.__module__ != "__main__":
        sources = [f"from {part.__module__} import {name}"]
    else:
        sources = [*_sources(name, vars(module) | {name: part}, set())]
    distinct = dict.fromkeys(["from __future__ import annotations", *sources])  # a statement may define several names
    text = "\n\n".join([*distinct, f"__all__ = [{name!r}]\n"])
    path = FOLDER / sha256(text.encode()).hexdigest()[:12] / f"{name}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return str(path)


def _sources(name: str, scope: Mapping[str, Any], known: set[str]) -> Iterator[str]:
    """Yield the source of the statement that defines a global name, after the sources of all names that this one uses.

    `inspect.getsource` finds no class of a notebook, because the module of a notebook has no file. IPython keeps the
    texts of cells in the module linecache, without a time. A cell that was run again keeps its place there, so the
    newest statement counts whose value equals the value of the name.

    Args:
        name: the name.
        scope: the values of all global names.
        known: the names whose sources are already yielded, or will be. The name, and all names that it uses, are added.

    Raises:
        BadInput: no cell has such a statement.
    """
    known.add(name)
    cells = [file for file, entry in linecache.cache.items() if entry[1:2] == (None,)]
    flags = annotations.compiler_flag if scope.get("annotations") is annotations else 0
    for file in (*reversed(cells), scope.get("__file__", "")):
        lines = linecache.getlines(file)
        body = ast.parse("".join(lines)).body
        imports = [other for other in body if isinstance(other, ast.Import)]
        for node in body:
            first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
            text = "".join(lines[first - 1 : node.end_lineno])
            table = symtable(text, file, "exec")
            bound = {s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported()}
            if name not in bound or not isinstance(node, STATEMENTS):
                continue
            # Python 3.11 compiles np.f() in another way if the text imports np. The import is not executed again.
            unit = ast.Module([ast.If(ast.Constant(False), [*imports, ast.Pass()], []), node], [])
            exec(compile(ast.fix_missing_locations(unit), file, "exec", flags, dont_inherit=True), again := {**scope})
            if _facts(again[name]) == _facts(scope[name]):
                for used in _globals(table):
                    if used in scope and used not in known:
                        yield from _sources(used, scope, known)
                yield text
                return
    raise BadInput(f"{name}: no single statement of a cell defines the present value of this name: {REMEDY}")


def _globals(table: SymbolTable) -> Iterator[str]:
    """Yield the names of all global variables that a text of Python uses, from the symbol table of the text."""
    yield from (symbol.get_name() for symbol in table.get_symbols() if symbol.is_global() and symbol.is_referenced())
    for inner in table.get_children():
        yield from _globals(inner)


def _facts(value: Any, is_member: bool = False) -> Any:
    """Return what is compared of two values: the code of a function; of a class its bases, code and plain values."""
    if isinstance(value, type):
        return repr(value.__bases__), not is_member and [(name, _facts(x, True)) for name, x in vars(value).items()]
    value = getattr(value, "fget", None) or getattr(value, "func", None) or getattr(value, "__func__", value)
    return getattr(value, "__code__", None) or (repr(value) if isinstance(value, PLAIN) or not is_member else None)
