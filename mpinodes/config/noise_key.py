"""The key that a run's noise and dither are drawn from.

Two runs that share noise give their messages away: subtract one transcript from the other, and it is gone. So the key
is made of the seed and of a fingerprint of all that can change a message: any other setting, another line in a file of
the user's, and every draw is another. The fingerprint covers, of a user's file:

- the modules and packages of the user's that its text imports, directly or not, packages as a whole;
- where the text uses a way to load code that it need not name (`LOADS`: importlib, exec, pickle, ...), all code in the
  folder of the file and below;
- the files that strings in this code name, by their paths from its folder or from one of the two above;
- where the text uses a way to read files (`READS`), the files in the folder and below that a string names without their
  folder;
- the installed packages that this code imports, by their lists of files, but PLATFORM, which mpinodes needs itself.

It covers the version of mpinodes, and not the standard library, which is known by where it lies. All this is read from
the text: nothing is imported or run, so that every process makes the same key. Files whose names code makes as it runs
do not count. Files count by their contents and their names relative to that folder, and not by where the folder is.
Left out is what can change no message, and what runs and studies write. A fingerprint is no secret, so what is proven
is proven for a key that nobody knows: `noise.entropy = "os"`, or see `Experiment.secret`.

A hash of private data tells whether a sample is in them. So the key stays in memory. What a run writes is named by
`noise_name`, which leaves the contents of data files out.
"""

from __future__ import annotations

import json
import os
import sys
from functools import lru_cache
from hashlib import blake2b, file_digest
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import SOURCES, Revealed
from mpinodes.core.parts import LOCATIONS, Setup, files_of
from mpinodes.core.version import __version__

SILENT = (  # sections and keys that change no message, or are handled below
    "seed", "rounds", "repeats", "name", "noise", "record", "output", "report", "audit", "deadline", "checkpoint",
    "comparator",
)  # fmt: skip
DIGITS = 16  # hexadecimal digits of `noise_name`
PLATFORM = ("mpinodes", "mpi4py", "msgspec", "networkx", "numpy", "scipy")  # packages that do not count
OURS = ("mpinodes.", "mpinodes_user_")  # prefixes of this package's modules, and of the files that a `path` names
# Words in code that may load other code without naming it, and words in code that may read files
LOADS = {
    "importlib", "__import__", "zipimport", "runpy", "pkgutil", "exec", "eval", "FunctionType", "marshal", "pickle",
    "allow_pickle", "dill", "cloudpickle", "joblib", "shelve", "ctypes", "cffi", "subprocess", "multiprocessing",
    "popen", "system", "__loader__", "__spec__", "__path__", "__builtins__", "builtins", "modules", "meta_path",
    "path_hooks", "addsitedir",
}  # fmt: skip
READS = {
    "__file__", "open", "path", "pathlib", "glob", "inspect", "argv", "load", "loadtxt", "genfromtxt", "fromfile",
    "memmap", "read_csv", "File",
}  # fmt: skip
CODE = (".py", ".pyc", ".so")  # archives count only if modules are imported from them, because they may hold data
SKIPPED = ("__pycache__", "site-packages", "dist-packages", "node_modules")
OUTPUTS = ({"experiment.toml", "log.txt"}, {".lock", "runs"})  # files in every run's directory, and in every study's
MOST = 10_000  # the most files in a folder and below


def noise_key(setup: Setup, with_data: bool = True) -> bytes:
    """Return 32 bytes, made of the seed and of `noise.key` if it is set, else of the fingerprint.

    Raises:
        OSError: a file that the experiment names cannot be read.
    """
    e = setup.experiment
    source = ("key", e.noise.key) if e.noise.key is not None else ("fingerprint", fingerprint(setup, with_data))
    return blake2b(json.dumps([e.seed, *source]).encode(), digest_size=32, person=b"mpinodes noise").digest()


def noise_name(setup: Setup) -> str:
    """Return the name that a run's files give to its noise: all that the noise hangs on, but the contents of data."""
    return noise_key(setup, with_data=False).hex()[:DIGITS]


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
    for section, _, key in (source.partition(".") for source in SOURCES):
        tree[section].pop(key, None)
    tree["topology"].pop("file", None)
    stream = type(setup.stream)  # a user's stream that inherits `lengthens` may use these settings for something else
    owner = next(kind for kind in stream.__mro__ if "lengthens" in vars(kind))
    lengthens = stream.lengthens if owner is stream or stream.__module__.startswith(OURS[0]) else ()
    for key in (*lengthens, "identity"):
        tree["data"].pop(key, None)
    for key in LOCATIONS:
        if (named := tree["data"].get(key)) is not None and (not named or files_of(Path(named))):
            tree["data"].pop(key)
    code, beside = _sources(setup)
    tree["sources"] = sorted(code)  # by digest, because the order of the paths may differ in another folder
    read = [path for path in setup.stream.source_files if path.is_file()]
    if with_data and (read or beside):
        tree["contents"] = [*map(_digest, read), *sorted([name, _digest(path)] for name, path in beside)]
    tree["privacy"].pop("tight")
    stops = tree["privacy"].pop("budget") and e.privacy.budget.stops  # type: ignore[union-attr]
    tree["stops"] = stops if stops and any(stops) else None  # the rest of a budget is in `privacy.epsilon`
    if not (e.faults.takes or e.faults.most_late):
        tree.pop("faults")
    if e.feedback == Revealed():
        tree.pop("feedback")
    return blake2b(json.dumps(tree, sort_keys=True).encode(), digest_size=32).hexdigest()


def _digest(path: Path) -> str:
    """Return the hash of a data file, which is read again if its time or size changed."""
    return _digest_of(path, path.stat().st_mtime_ns, path.stat().st_size)


@lru_cache(64)
def _digest_of(path: Path, time: int, size: int) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def knows_horizon(setup: Setup) -> bool:
    """Whether a message may depend on how many rounds the run is to have."""
    period = setup.topology.period
    repeated = period is not None and period <= setup.experiment.rounds
    return not (setup.algorithm.anytime and (setup.mixing.anytime or repeated))


def _sources(setup: Setup) -> tuple[list[str], list[tuple[str, Path]]]:
    """Return the digests of the code and of the graph that are not ours, and the data files that this code may read."""
    files = [(path, "") for path in setup.experiment.sources.values()]
    parts = (setup.algorithm, setup.mixing, setup.mechanism, setup.stream, setup.topology, setup.feasible)
    for part in (*map(type, parts), type(setup.run.steps), setup.loss):
        file = getattr(sys.modules.get(part.__module__), "__file__", None)  # None: defined in an interactive session
        if file and not part.__module__.startswith(OURS):
            files.append((Path(file), part.__module__.partition(".")[0]))
    counted = [_counted(path.parent.resolve() / path.name, package) for path, package in files]
    digests = [digest for code, *_ in counted for digest in code]
    if setup.topology.from_file:
        digests.append(_hashed(Path(setup.topology.path).read_bytes()))  # type: ignore[attr-defined]
    output = setup.experiment.output
    own = Path(output.dir).resolve() if output else None
    return digests, [entry for _, data, _ in counted for entry in data if own not in entry[1].parents]


def _hashed(data: bytes) -> str:
    return blake2b(data, digest_size=32).hexdigest()


def files_behind(file: Path) -> list[Path]:
    """Return the files that a user's file of Python may run or read, itself among them, but installed packages."""
    _, data, code = _counted(file.parent.resolve() / file.name, "")
    return sorted(code | {path for _, path in data})


def _counted(file: Path, package: str) -> tuple[set[str], set[tuple[str, Path]], set[Path]]:
    """Return the digests of a file and of all code that it may run, by name the data files that it may read, and code.

    A package that the code imports counts as a whole. Code that loads other code in a way that its text does not show
    (LOADS) may run all code in the folder of `file` and below. Code that reads files (READS) may read all files there
    that one of its strings names. For code that lies elsewhere, the folder of its package counts too.

    Args:
        file: of Python.
        package: the installed package that `file` is in, whose files count as those of the user do; empty: none.

    Raises:
        BadInput: there are too many files in a folder that code may load or read from.
    """
    top, digests, data, strings = file.parent, set[str](), set[tuple[str, Path]](), set[str]()
    modules, code, trees = {""}, set[tuple[Path, Path]](), dict[Path, list[Path]]()
    ahead = [(file, top)]
    while ahead:
        path, place = ahead.pop()
        folder = top if path.is_relative_to(top) else place if place.is_dir() else place.parent
        if (path, folder) in code:
            continue
        code.add((path, folder))
        name = "" if path == file else path.relative_to(folder).as_posix()
        digests.add(_hashed(name.encode() + b"\0" + path.read_bytes()))
        imports, words, texts = _parsed(path.read_bytes() if path.suffix == ".py" else b"")  # compiled code has no text
        for module in {package, *imports} - modules:
            modules.add(module)
            places = _places(module)
            digest = _installed(module) if any(map(_is_installed, places)) else None
            digests |= {digest} if digest else set()
            if digest is None or module == package:
                below = [(other, place) for place in places for other in _below(place)]
                ahead += [pair for pair in below if pair[0].name.endswith(CODE) or pair[0] == pair[1]]
        loads = words & LOADS or words >= {"sys", "path"}
        roots = {top, folder, path.resolve().parent}  # the last one differs for a link
        if (loads or words & READS) and not _is_installed(path):  # an installed package has a list of its files
            trees |= {root: _below(root) for root in roots - trees.keys()}
            ahead += [(other, root) for root in roots for other in trees[root] if loads and other.name.endswith(CODE)]
        strings |= {text.rpartition("/")[2] for text in texts}
        for text, base in ((text, base) for text in texts for base in {*roots, *path.parents[:3]}):
            data |= {(text, place) for place in (base / text, base / text.lstrip("/")) if os.path.isfile(place)}
    named = [(root, path) for root, tree in trees.items() for path in tree if path.name in strings]
    data |= {(path.relative_to(root).as_posix(), path) for root, path in named}
    paths = {path for path, _ in code}
    return digests, {entry for entry in data if entry[1] not in paths}, paths


def _below(folder: Path) -> list[Path]:
    """Return the files in a folder and below that code there may load or read; of a file, the file.

    What runs and studies wrote is left out: it would change the noise of a run that is resumed or repeated.

    Raises:
        BadInput: there are over MOST.
    """
    files, seen = [folder] if folder.is_file() else [], {os.path.realpath(folder), str(Path(__file__).parents[1])}
    for place, names, others in os.walk(folder, followlinks=True):
        if place != str(folder) and any(marks <= {*names, *others} for marks in OUTPUTS):
            names[:] = others = []
        files += [Path(place, name) for name in others]
        if len(files) + len(seen) > MOST:
            raise BadInput(
                f"{folder}: more than {MOST} files that code may load: move the code elsewhere, or set noise.key"
            )
        real = {name: os.path.realpath(Path(place, name)) for name in sorted(names)}
        names[:] = [name for name, to in real.items() if to not in seen and name[0] != "." and name not in SKIPPED]
        seen.update(real.values())
    return [path for path in files if path.is_file() and os.access(path, os.R_OK)]


def _is_installed(path: Path) -> bool:
    """Return whether a file belongs to a package that was installed."""
    return bool({"site-packages", "dist-packages"} & set(path.parts))


def _installed(name: str) -> str | None:
    """Return the digest of an installed package, by its list of files, or if it has none by its version.

    What lies outside of the package's own folders, and what says how it was installed, differs between places. None: it
    is a folder that was put there.
    """
    from importlib import metadata

    try:
        package = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        known = metadata.packages_distributions().get(name)
        if not known:
            return None
        package = metadata.distribution(known[0])
    files = [
        f"{file} {file.hash.value}"
        for file in package.files or ()
        if file.hash and file.parts[0] != ".." and not file.parts[0].endswith(".dist-info")
    ]
    return _hashed("\n".join([name, package.version, *sorted(files)]).encode())


@lru_cache(256)
def _parsed(code: bytes) -> tuple[set[str], set[str], set[str]]:
    """Return the modules and packages that code imports anywhere in it, all its words, and its strings.

    Relative imports are left out: a package counts as a whole. Code that loads by a function (LOADS) may import any
    module that a string of its names.

    Args:
        code: of a file; it names nothing if it is not of this Python, which cannot import it then.
    """
    import ast

    try:
        nodes = list(ast.walk(ast.parse(code)))
    except (SyntaxError, ValueError, RecursionError):
        return set(), set(), set()
    strings = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    named = {getattr(node, key, None) for node in nodes for key in ("id", "attr", "arg", "name", "module")}
    words = {word for name in named for word in str(name).split(".")} | strings
    imports = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imports |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level}
    imports |= {text for text in strings if words & LOADS and text.replace(".", "_").isidentifier()}
    return {name.partition(".")[0] for name in imports}, words, strings


def _places(module: str) -> list[Path]:
    """Return the file of a module, or the folders of a package; none if it does not count. Nothing is imported.

    Neither the standard library counts nor PLATFORM, where they are taken from where they are installed. The place of
    what is in an archive is the archive.
    """
    try:
        spec = find_spec(module) if module.isidentifier() and module not in ("mpinodes", "__main__") else None
    except (ImportError, AttributeError, ValueError):
        return []
    origin = [spec.origin] if spec and spec.has_location and spec.origin else []
    places = [Path(place) for place in (spec and spec.submodule_search_locations) or origin]
    is_installed = any(map(_is_installed, places))
    is_standard = not origin or (Path(os.__file__).parent in places[0].parents and not is_installed)
    if (module in sys.stdlib_module_names and is_standard) or (module in PLATFORM and is_installed):
        return []
    return [next(part for part in (place, *place.parents) if part.exists()).resolve() for place in places]
