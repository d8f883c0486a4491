"""The key that a run's noise and dither are drawn from.

Two runs that share noise give their messages away: subtract one transcript from the other, and it is gone. So the key
is made of the seed and of a fingerprint of all that can change a message: any other setting, another line in a file of
the user's, and every draw is another. The key covers what such a file imports, relatively, through packages and by a
function of a constant name too, the installed packages among it (but for PLATFORM, which mpinodes needs itself), and
the files beside it that its strings name, and the version of mpinodes. Files count with what they contain and not
with where they are, data files too. Left out is what can change no message. A fingerprint is no secret, so what is
proven is proven for a key that nobody knows: `noise.entropy = "os"`, or see `Experiment.secret`.

A hash of private data tells whether a sample is in them. So the key stays in memory. What a run writes is named by
`noise_name`, which leaves the contents of data files out.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b, file_digest
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mpinodes.core.experiment import SOURCES, Revealed
from mpinodes.core.version import __version__

if TYPE_CHECKING:
    from mpinodes.core.parts import Setup

SILENT = (  # or below, by itself
    "seed", "rounds", "repeats", "name", "noise", "record", "output", "report", "audit", "deadline", "checkpoint",
    "comparator",
)  # fmt: skip
DIGITS = 16  # hexadecimal, of the name of a noise
LOCATIONS = ("file", "dir")  # keys of `data` that name files
PLATFORM = ("mpinodes", "mpi4py", "msgspec", "networkx", "numpy", "scipy")  # does not count where it is imported
OURS = ("mpinodes.", "mpinodes_user_")  # modules of parts of ours, and of files that a `path` names


def noise_key(setup: Setup) -> bytes:
    """32 bytes: of the seed, and of `noise.key` if it is set, else of the fingerprint.

    Raises:
        OSError: a file that the experiment names cannot be read.
    """
    return _key(setup, with_data=True)


def noise_name(setup: Setup) -> str:
    """Return the name that a run's files give to its noise: all that the noise hangs on, but the contents of data."""
    return _key(setup, with_data=False).hex()[:DIGITS]


def _key(setup: Setup, with_data: bool) -> bytes:
    e = setup.experiment
    told = ("key", e.noise.key) if e.noise.key is not None else ("fingerprint", fingerprint(setup, with_data))
    return blake2b(json.dumps([e.seed, *told]).encode(), digest_size=32, person=b"mpinodes noise").digest()


def fingerprint(setup: Setup, with_data: bool = False) -> str:
    """Of all that can change a message, but for the seed: 64 hexadecimal digits.

    Args:
        setup: of the run.
        with_data: whether the contents of data files count; the result must then not be written anywhere.

    Raises:
        OSError: a file that the experiment names cannot be read.
    """
    e = setup.experiment
    tree: dict[str, Any] = {k: v for k, v in msgspec.to_builtins(e).items() if k not in SILENT}
    tree["rounds"] = e.rounds if knows_horizon(setup) else None
    tree["noise"], tree["version"] = e.noise.backend, __version__
    if e.problem.settings is None:
        tree["problem"].pop("settings")
    for section in SOURCES:
        tree[section].pop("path", None)
    tree["topology"].pop("file", None)
    for key in (*setup.stream.lengthens, "identity"):
        tree["data"].pop(key, None)
    for key in LOCATIONS:
        if (named := tree["data"].get(key)) is not None and (not named or files_of(Path(named))):
            tree["data"].pop(key)
    if with_data and (read := _read_by(setup)):
        tree["contents"] = [_digest(path, path.stat().st_mtime_ns, path.stat().st_size) for path in read]
    tree["privacy"].pop("tight")
    stops = tree["privacy"].pop("budget") and e.privacy.budget.stops  # type: ignore[union-attr]
    tree["stops"] = stops if stops and any(stops) else None  # all else of a budget is in `privacy.epsilon`
    if not (e.faults.takes or e.faults.most_late):
        tree.pop("faults")
    if e.feedback == Revealed():
        tree.pop("feedback")
    # In the order of the digests: that of the paths may be another one in another folder.
    tree["sources"] = sorted(_sources(setup))
    return blake2b(json.dumps(tree, sort_keys=True).encode(), digest_size=32).hexdigest()


@lru_cache(64)
def _digest(path: Path, time: int, size: int) -> str:
    """Return the hash of a data file; time and size tell a file that was written again."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _read_by(setup: Setup) -> list[Path]:
    """Return the files that samples are read from, and those that a user's code may read beside it."""
    beside = [path for file in setup.experiment.sources.values() for path in _named_in(file)]
    return [*(path for path in setup.stream.source_files if path.is_file()), *beside]


def _named_in(file: Path) -> list[Path]:
    """Return the files that strings in a user's file name, by their places in its folder: it may read them."""
    import ast

    strings = (getattr(node, "value", None) for node in ast.walk(ast.parse(file.read_bytes())))
    names = sorted({name for name in strings if isinstance(name, str) and 0 < len(name) < 256})
    names += [name.lstrip("/") for name in names if name.startswith("/")]  # of an f-string, after the folder
    return [path for name in names if (path := file.parent / name).is_file()]


def files_of(path: Path) -> list[Path]:
    """Return the file itself, those of a pattern with {agent} in its name, or those of a directory, by name."""
    files = path.iterdir() if path.is_dir() else path.parent.glob(path.name.replace("{agent}", "*"))
    return sorted(file for file in files if file.is_file())


def knows_horizon(setup: Setup) -> bool:
    """Whether a message may depend on how many rounds the run is to have."""
    period = setup.topology.period
    repeated = period is not None and period <= setup.experiment.rounds
    return not (setup.algorithm.anytime and (setup.mixing.anytime or repeated))


def _sources(setup: Setup) -> Iterator[str]:
    """Yield the digest of every file, and of every installed package, that parts are made of and that is not ours."""
    files = [(path, "") for path in setup.experiment.sources.values()]
    parts = (setup.algorithm, setup.mixing, setup.mechanism, setup.stream, setup.topology)
    for part in (*map(type, parts), setup.loss):
        file = getattr(sys.modules.get(part.__module__), "__file__", None)  # None: made in a session of Python
        if file and not part.__module__.startswith(OURS):
            files.append((Path(file), part.__module__.partition(".")[0]))
    if setup.topology.from_file:
        yield _hashed(Path(setup.topology.path).read_bytes())  # type: ignore[attr-defined]
    for path, package in files:
        yield from _with_imports(path, package)


def _hashed(data: bytes) -> str:
    return blake2b(data, digest_size=32).hexdigest()


def _with_imports(file: Path, package: str) -> list[str]:
    """Return the digests of a file and of all that it imports, directly or not, but the standard library and us.

    Args:
        file: of Python.
        package: an installed one whose modules count one by one, as those of the user's folders do.
    """
    files, installed, ahead = {file.resolve()}, set[str](), [(file, package)]
    while ahead:
        for imported in _imported(*ahead.pop()):
            words = imported.split(".")
            for name in (".".join(words[:end]) for end in range(1, len(words) + 1)):
                origin = _origin(name)
                if origin is None or (path := origin.resolve()) in files:
                    continue
                if words[0] != package and {"site-packages", "dist-packages"} & set(origin.parts):
                    installed.add(words[0])
                    break
                files.add(path)
                if path.suffix == ".py":  # else it is compiled
                    ahead.append((origin, name if origin.name == "__init__.py" else name.rpartition(".")[0]))
    return [*(_hashed(path.read_bytes()) for path in files), *map(_installed, installed)]


def _installed(name: str) -> str:
    """Return the digest of an installed package, by its list of files, or if it has none by its version.

    What lies outside of the package's own folders, and what says how it was installed, differs between places.
    """
    from importlib import metadata

    try:
        package = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        known = metadata.packages_distributions().get(name)
        if not known:  # a folder that was put there
            path = _origin(name)
            return _hashed(path.read_bytes() if path else b"")
        package = metadata.distribution(known[0])
    files = [
        f"{file} {file.hash.value}"
        for file in package.files or ()
        if file.hash and file.parts[0] != ".." and not file.parts[0].endswith(".dist-info")
    ]
    return _hashed("\n".join([name, package.version, *sorted(files)]).encode())


def _imported(file: Path, package: str) -> Iterator[str]:
    """Yield the names of modules, or of what is in them, that a file imports anywhere in it.

    A file that imports by a function (importlib, `__import__`) may import any module that one of its strings names.

    Args:
        file: the file.
        package: the package that it is in, which relative imports start from.
    """
    import ast

    nodes = list(ast.walk(ast.parse(file.read_bytes())))
    names = {getattr(node, "id", getattr(node, "attr", "")) for node in nodes}
    by_function = bool(names & {"import_module", "__import__", "importlib", "runpy", "pkgutil", "exec", "eval"})
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            parent = ".".join([*above, *([node.module] if node.module else [])])
            yield parent
            yield from (f"{parent}.{alias.name}" for alias in node.names)
        elif by_function and isinstance(node, ast.Constant) and isinstance(node.value, str):
            name = node.value.lstrip(".")
            if all(word.isidentifier() for word in name.split(".")):
                yield f"{package}.{name}" if node.value.startswith(".") else name


def _origin(name: str) -> Path | None:
    """Return where a module's code is; None: nowhere, or the module does not count."""
    if name.partition(".")[0] in {*sys.stdlib_module_names, *PLATFORM, ""}:
        return None
    try:
        spec = find_spec(name)
    except (ImportError, AttributeError, ValueError):
        return None
    return Path(spec.origin) if spec and spec.has_location and spec.origin else None
