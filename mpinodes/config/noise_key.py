"""Compute the noise key of a run: 32 bytes from which the noise is drawn if `noise.entropy` is "seed".

The dither (random numbers added before a release is rounded) and secret batches are drawn from the noise key, too. With
`noise.backend = opendp`, neither the noise nor secret batches are drawn from the noise key.

If two runs had the same noise, the difference of their messages would contain no noise, and would reveal private data.
Therefore the noise key is a hash of the seed and of the *fingerprint*, a hash of the settings and the code that can
change a message. If `noise.key` is set, it takes the place of the fingerprint. For a user's Python file, the
fingerprint includes the contents of:

- the user's modules and packages that the file imports, directly or indirectly;
- the code files (.py, .pyc, .so) in the folder of the file and below, if the code uses a function that can load unnamed
  code (`LOADS`: importlib, exec, pickle, ...);
- the files whose paths are strings in the code; a path is relative to the folder of the file, or to one of the two
  folders above this folder;
- the files in the folder and below whose names appear in strings of the code, if the code uses a function that can read
  files (`READS`);
- the list of files of each installed package that the code imports: its version, and the names and recorded hashes of
  its files. The packages in `PLATFORM`, which mpinodes itself needs, are left out.

The fingerprint is computed from the text of the code: no code is imported or run. Files whose names are computed at run
time are not included. The fingerprint does not depend on the path of the user's folder.

Anyone who knows the settings, the code and the data can compute the fingerprint. The proven epsilon holds only for a
noise key that nobody knows: set `noise.entropy = "os"`.

The noise key is never written to a file, because it depends on a hash of private data, with which anyone can test
whether a sample is among the data. The files of a run contain `noise_name` instead, which does not depend on the
contents of data files.
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

SILENT = (  # sections and keys that change no message, or that `fingerprint` and `noise_key` handle separately
    "seed", "rounds", "repeats", "name", "noise", "record", "output", "report", "audit", "deadline", "checkpoint",
    "comparator",
)  # fmt: skip
DIGITS = 16  # hexadecimal digits of `noise_name`
PLATFORM = ("mpinodes", "mpi4py", "msgspec", "networkx", "numpy", "scipy")  # packages that are not included
OURS = ("mpinodes.", "mpinodes_user_")  # prefixes of the module names of mpinodes, and of files that a `path` names
# Words that show that code may load unnamed code (LOADS), or may read files (READS)
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
CODE = (".py", ".pyc", ".so")  # archives are included only if modules are imported from them, because they may be data
SKIPPED = ("__pycache__", "site-packages", "dist-packages", "node_modules")
OUTPUTS = ({"experiment.toml", "log.txt"}, {".lock", "runs"})  # files in each directory of a run, and of a study
MOST = 10_000  # the largest number of files in a folder and below


def noise_key(setup: Setup, with_data: bool = True) -> bytes:
    """Return the noise key of a run: a 32-byte hash of the seed and of the setting `noise.key`.

    If `noise.key` is not set, the fingerprint is hashed in its place: a hash of the settings and the code that can
    change a message. The noise key must not be written to a file.

    Args:
        setup: the set-up of the run.
        with_data: whether the fingerprint includes the contents of data files.

    Raises:
        OSError: a file that the experiment names cannot be read.
        BadInput: a folder that must be searched for the user's code has too many files.
    """
    e = setup.experiment
    source = ("key", e.noise.key) if e.noise.key is not None else ("fingerprint", fingerprint(setup, with_data))
    return blake2b(json.dumps([e.seed, *source]).encode(), digest_size=32, person=b"mpinodes noise").digest()


def noise_name(setup: Setup) -> str:
    """Return 16 hexadecimal digits for the files of a run. Runs with the same noise key have the same digits.

    The digits are the beginning of a hash of the seed and of the setting `noise.key`. If `noise.key` is not set, a hash
    of the settings and the code is taken in its place, without the contents of data files.
    """
    return noise_key(setup, with_data=False).hex()[:DIGITS]


def fingerprint(setup: Setup, with_data: bool = False) -> str:
    """Return a hash of the settings and the code that can change a message, as 64 hexadecimal digits.

    The hash is called the fingerprint of the run. The seed of the run is not included.

    Args:
        setup: the set-up of the run.
        with_data: whether the contents of data files are included. A fingerprint with contents must not be written to
            any file.

    Raises:
        OSError: a file that the experiment names cannot be read.
        BadInput: a folder that must be searched for the user's code has too many files.
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
    stream = type(setup.stream)  # a user's stream that inherits `lengthens` may use these settings in another way
    owner = next(kind for kind in stream.__mro__ if "lengthens" in vars(kind))
    lengthens = stream.lengthens if owner is stream or stream.__module__.startswith(OURS[0]) else ()
    for key in (*lengthens, "identity", "facts"):
        tree["data"].pop(key, None)
    for key in LOCATIONS:
        if (named := tree["data"].get(key)) is not None and (not named or files_of(Path(named))):
            tree["data"].pop(key)
    code, beside = _sources(setup)
    tree["sources"] = sorted(code)  # by digest, because the order of the paths may differ in another folder
    read = [path for path in setup.stream.source_files if path.is_file()]
    if with_data and (read or beside):
        tree["contents"] = [*map(_digest, read), *sorted([name, _digest(path)] for name, path in beside)]
    for key in ("tight", "tuning"):
        tree["privacy"].pop(key)
    if e.privacy.clipping == "sample":
        tree["privacy"].pop("clipping")
    if e.baseline == "none":
        tree.pop("baseline")
    if e.privacy.noise_multiplier is None:
        tree["privacy"].pop("noise_multiplier")
    stops = tree["privacy"].pop("budget") and e.privacy.budget.stops  # type: ignore[union-attr]
    tree["stops"] = stops if stops and any(stops) else None  # other effects of a budget are in `privacy.epsilon`
    if not (e.faults.takes or e.faults.most_late):
        tree.pop("faults")
    if e.feedback == Revealed():
        tree.pop("feedback")
    return blake2b(json.dumps(tree, sort_keys=True).encode(), digest_size=32).hexdigest()


def _digest(path: Path) -> str:
    """Return the SHA-256 of a data file. The result is cached for the time and the size of the file."""
    return _digest_of(path, path.stat().st_mtime_ns, path.stat().st_size)


@lru_cache(64)
def _digest_of(path: Path, time: int, size: int) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def knows_horizon(setup: Setup) -> bool:
    """Return whether the number of rounds of the run (`rounds`) may change a message."""
    period = setup.topology.period
    repeated = period is not None and period <= setup.experiment.rounds
    return not (setup.algorithm.anytime and (setup.mixing.anytime or repeated))


def _sources(setup: Setup) -> tuple[list[str], list[tuple[str, Path]]]:
    """Return hashes of all user files that may change a message, and a list of the data files that user code may read.

    Returns:
        A list of hashes: one for each file of code, and one for the graph file.
        A list with a pair (name, path) for each data file. The name is the text by which the code names the file, or
        the path of the file relative to a searched folder.
    """
    files = [(path, "") for path in setup.experiment.sources.values()]
    parts = (setup.algorithm, setup.mixing, setup.mechanism, setup.stream, setup.topology, setup.feasible)
    for part in (*map(type, parts), type(setup.run.steps), setup.loss):
        file = getattr(sys.modules.get(part.__module__), "__file__", None)  # None: defined in an interactive session
        if file and not part.__module__.startswith(OURS):
            files.append((Path(file), part.__module__.partition(".")[0]))
    counted = [_counted(path.parent.resolve() / path.name, package) for path, package in files]
    digests = [digest for code, *_ in counted for digest in code]
    if setup.topology.from_file:
        digests.append(_hashed(Path(setup.topology.source).read_bytes()))
    output = setup.experiment.output
    own = Path(output.dir).resolve() if output else None
    return digests, [entry for _, data, _ in counted for entry in data if own not in entry[1].parents]


def _hashed(data: bytes) -> str:
    return blake2b(data, digest_size=32).hexdigest()


def files_behind(file: Path) -> list[Path]:
    """Return a user's Python file, and the files that its code may run or read.

    The files are found from the text of the code. A file whose name the code computes is not found. The standard
    library and installed packages are left out.
    """
    _, data, code = _counted(file.parent.resolve() / file.name, "")
    return sorted(code | {path for _, path in data})


def _counted(file: Path, package: str) -> tuple[set[str], set[tuple[str, Path]], set[Path]]:
    """Find the code that a Python file may run, and the data files that this code may read.

    The code is not run; its text is searched. The docstring of the module lists the files that are found.

    Args:
        file: the Python file.
        package: the installed package that contains `file`; the files of this package are included like the user's
            files. Empty if no installed package contains `file`.

    Returns:
        The hashes of all code; a pair (name, path) for each data file, as `_sources` returns them; the paths of the
        code.

    Raises:
        BadInput: a folder that must be searched has more than `MOST` files.
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
        imports, words, texts = _parsed(path.read_bytes() if path.suffix == ".py" else b"")  # only .py files have text
        for module in {package, *imports} - modules:
            modules.add(module)
            places = _places(module)
            digest = _installed(module) if any(map(_is_installed, places)) else None
            digests |= {digest} if digest else set()
            if digest is None or module == package:
                below = [(other, place) for place in places for other in _below(place)]
                ahead += [pair for pair in below if pair[0].name.endswith(CODE) or pair[0] == pair[1]]
        loads = words & LOADS or words >= {"sys", "path"}
        roots = {top, folder, path.resolve().parent}  # the third folder differs from the others for a link
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
    """Return the files in a folder and below that user code may load or read. If `folder` is a file, return this file.

    The package mpinodes, the directories in `SKIPPED`, hidden directories, and the directories of runs and studies are
    left out.

    Raises:
        BadInput: there are more than `MOST` files.
    """
    files, seen = [folder] if folder.is_file() else [], {os.path.realpath(folder), str(Path(__file__).parents[1])}
    for place, names, others in os.walk(folder, followlinks=True):
        # A file that a run writes must not change the noise key: a resumed run would have different noise.
        if place != str(folder) and any(marks <= {*names, *others} for marks in OUTPUTS):
            names[:] = others = []
        files += [Path(place, name) for name in others]
        if len(files) + len(seen) > MOST:
            raise BadInput(
                f"{folder} has more than {MOST} files that code may load: move the Python file to a folder of its own, "
                "or set noise.key to any text"
            )
        real = {name: os.path.realpath(Path(place, name)) for name in sorted(names)}
        names[:] = [name for name, to in real.items() if to not in seen and name[0] != "." and name not in SKIPPED]
        seen.update(real.values())
    return [path for path in files if path.is_file() and os.access(path, os.R_OK)]


def _is_installed(path: Path) -> bool:
    """Return whether a file belongs to an installed package."""
    return bool({"site-packages", "dist-packages"} & set(path.parts))


def _installed(name: str) -> str | None:
    """Return a hash of an installed package's version and list of files; None if the package has no metadata.

    The list has the recorded hash of each file. Two kinds of files are left out, because they differ between machines:
    files outside of the package's folders, and files that the installer wrote (`.dist-info`).
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
    """Return three sets: the top-level modules that code imports, all words of the code, and all strings in the code.

    The words are the strings and all names in the code, for example of variables, functions and modules. If the code
    can load code without an import statement (`LOADS`), each string that can be the name of a module counts as an
    imported module.

    Args:
        code: the text of a file. If this version of Python cannot parse the text, the results are empty.
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
    """Return where the code of a module is: a list with one file, an archive, or the directories of a package.

    The module is not imported. The list is empty in three cases:

    - Python cannot find the module.
    - The module is part of the standard library.
    - The module belongs to an installed package that mpinodes itself needs (`PLATFORM`).
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
