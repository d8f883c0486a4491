"""Write the user's classes to Python files, for settings whose value is a class instead of a name or a path.

A class of a notebook is written to runs/classes/<hash of the file>/<class>.py, together with everything that it uses:
imports, functions, other classes and constants. So the file is complete, and a run on a class is recorded, resumed and
repeated like a run on the user's file.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from symtable import SymbolTable, symtable
from types import FunctionType, ModuleType
from typing import Any

from mpinodes.config.registry import KINDS, METRICS, MIXINGS
from mpinodes.core.asked import Tree
from mpinodes.core.errors import BadInput, is_users
from mpinodes.core.experiment import is_file

FOLDER = Path("runs", "classes")
GENERATED = ("<string>", str(Path(ast.__file__).parent))  # the files of methods that dataclasses and named tuples get
PLAIN = (bool, int, float, str, tuple, dict, type(None))
REMEDY = "put the class into a Python file, and set the key of this file, such as algorithm.path"


def as_words(asked: Tree) -> Tree:
    """Return settings in which each class is replaced by the path of a file, or by its name if mpinodes defines it.

    Raises:
        BadInput: a class cannot be written to a file.
    """
    for kind in KINDS:
        if not isinstance(section := asked.get(kind.section), dict):
            continue
        value = section.get(kind.chooser)
        if kind is METRICS and isinstance(value, list):
            words = [_word(part) if isinstance(part, type) else part for part in value]
            asked = asked | {kind.section: section | {kind.chooser: words}}
        elif isinstance(value, type) and kind is not MIXINGS:
            word, rest = _word(value), {key: value for key, value in section.items() if key != kind.chooser}
            asked = asked | {kind.section: rest | {kind.path if is_file(word) else kind.chooser: word}}
    return asked


def _word(part: type) -> str:
    """Return the name of a class of mpinodes, or the path of a file that defines the user's class.

    Raises:
        BadInput: the source of the class, or the value of a variable that the class uses, is not known.
    """
    if not is_users(part):
        return part.__module__.rpartition(".")[2].replace("_", "-")
    texts = {"": "from __future__ import annotations"}
    _define(part.__name__, part, texts)
    text = "\n\n".join([*texts.values(), f"__all__ = [{part.__name__!r}]\n"])
    path = FOLDER / sha256(text.encode()).hexdigest()[:12] / f"{part.__name__}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return str(path)


def _define(name: str, value: Any, texts: dict[str, str]) -> None:
    """Add a text of Python that defines a name, after the texts of all names that this text uses.

    Args:
        name: the name.
        value: the value of the name: a module, a class, a function, or a constant that Python can read back.
        texts: the texts of Python by name.

    Raises:
        BadInput: the value cannot be defined by a text.
    """
    if name in texts:
        return
    texts[name] = ""  # for functions that call each other
    if isinstance(value, ModuleType):
        text = f"import {value.__name__} as {name}"
    elif source := _import_of(name, value):
        text = source
    elif isinstance(value, type | FunctionType) and value.__name__ == name:
        text, known = _source(value), vars(sys.modules[value.__module__])
        for used in _globals(symtable(text, name, "exec")):
            if used in known:
                _define(used, known[used], texts)
    else:
        try:
            text = f"{name} = {value!r}"
            ast.literal_eval(repr(value))
        except (ValueError, SyntaxError) as error:
            reason = f"a {type(value).__name__} cannot be written to a file"
            raise BadInput(f"{name}: the class uses this variable, but {reason}: {REMEDY}") from error
    del texts[name]
    texts[name] = text


def _import_of(name: str, value: Any) -> str:
    """Return a statement that imports a value from a module that has a file, or is built in; "" if there is none."""
    if isinstance(value, int | float | str):  # a module may have the same number under this name
        return ""
    own = {getattr(value, "__module__", ""): getattr(value, "__qualname__", name)}
    for place, attribute in (own | {module: name for module in sys.modules if module not in own}).items():
        module = sys.modules.get(place)
        is_loaded = isinstance(module, ModuleType) and getattr(module, "__spec__", None) and place != "__main__"
        if is_loaded and vars(module).get(attribute) is value:
            return f"from {place} import {attribute}" + f" as {name}" * (attribute != name)
    return ""


def _globals(table: SymbolTable) -> Iterator[str]:
    """Yield the names of all global variables that a text of Python uses, from the symbol table of the text."""
    is_module = table.get_type() == "module"
    yield from (s.get_name() for s in table.get_symbols() if s.is_global() or (is_module and s.is_referenced()))
    for inner in table.get_children():
        yield from _globals(inner)


def _source(value: Any) -> str:
    """Return the source of a class or function, from the cell or file that defines it.

    `inspect.getsource` finds no class of a notebook, because the module of a notebook has no file. But the code of each
    method names its cell, whose text IPython keeps in the module linecache. If a class has no methods, its source is
    the newest text of a cell that defines an equal class.

    Raises:
        BadInput: the source is not found.
    """
    members = vars(value).values() if isinstance(value, type) else [value]
    functions = [getattr(f, "fget", None) or getattr(f, "func", None) or getattr(f, "__func__", f) for f in members]
    codes = [inspect.unwrap(f).__code__ for f in functions if isinstance(f, FunctionType)]
    codes = [code for code in codes if not code.co_filename.startswith(GENERATED)]
    cells = [file for file, entry in linecache.cache.items() if entry[1:2] == (None,)]  # texts without a time
    module = sys.modules[value.__module__]
    flags = annotations.compiler_flag if vars(module).get("annotations") is annotations else 0
    for file in [code.co_filename for code in codes] or [*reversed(cells), getattr(module, "__file__", "")]:
        lines = linecache.getlines(file)
        for node in ast.parse("".join(lines)).body if any(value.__name__ in line for line in lines) else []:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == value.__name__:
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                text = "".join(lines[first - 1 : node.end_lineno])
                if codes:
                    is_source = any(first <= code.co_firstlineno <= (node.end_lineno or 0) for code in codes)
                else:
                    exec(compile(text, file, "exec", flags, dont_inherit=True), again := dict(vars(module)))
                    is_source = _facts(again[node.name]) == _facts(value)
                if is_source:
                    return text
    raise BadInput(f"{value.__qualname__}: the source of this class or function is not found: {REMEDY}")


def _facts(part: type) -> str:
    """Return a text of what a class without methods consists of: its bases, its annotations and its values."""
    return repr([part.__bases__, *(pair for pair in vars(part).items() if isinstance(pair[1], PLAIN))])
