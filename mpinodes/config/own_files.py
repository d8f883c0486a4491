"""Copy the user's files to run directories, detect changed files, and record which files passed `mpinodes check`.

    <run directory>/sources/<key>-<file>    a copy of each Python file that the experiment names and uses
    ~/.cache/mpinodes/stamp-key             the user's secret key for hashes of files
    ~/.cache/mpinodes/checked/<hash>        exists if a Python file has passed `mpinodes check` (see `stamp_of`)

If the environment variable XDG_CACHE_HOME is set, its directory replaces ~/.cache. A checkpoint contains a stamp of
each data file and of the graph file, by which a resumed run notices a changed file (see `stamps`).
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import shutil
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from mpinodes.config import registry
from mpinodes.config.noise_key import files_behind
from mpinodes.config.schema import options
from mpinodes.core.experiment import Experiment, Tuning, is_file
from mpinodes.core.parts import Setup
from mpinodes.core.version import __version__

NOT_TESTED = "conditional on this file's own statements, not tested"
TESTED = "conditional on statements tested at {}"
SHORT = 12  # how many digits of a hash are printed
FOLDER = "sources"
SECRET = 32  # bytes in the file stamp-key: the first half is the public name of the key, the second half is the key
Stamp = tuple[int, int, str, str]  # a file's size and time, the name of the user's key, and the hash with this key


def files(e: Experiment) -> list[tuple[str, Path]]:
    """Return the user's Python files that the settings name, as pairs (setting, path), such as ("data.path", path).

    The files with metrics come last. If the run has no noise, the file of the mechanism is left out.
    """
    parts = [(key, path) for key, path in e.sources.items() if e.private or key != "privacy.path"]
    return [*parts, *(("record.metrics", Path(word)) for word in e.record.metrics if is_file(word))]


def keep(e: Experiment, directory: Path) -> None:
    """Copy the Python files that `files` returns into the folder `sources` of a run directory."""
    for key, path in files(e):
        (directory / FOLDER).mkdir(exist_ok=True)
        shutil.copyfile(path, _copy_of(directory, key, path))


def changed_since(directory: Path, key: str, path: Path) -> bool:
    """Return whether a file differs from its copy in a run directory; true if the file or the copy cannot be read."""
    try:
        return path.read_bytes() != _copy_of(directory, key, path).read_bytes()
    except OSError:
        return True


def _copy_of(directory: Path, key: str, path: Path) -> Path:
    return directory / FOLDER / f"{key.replace('.', '-')}-{path.name}"


def data_files(setup: Setup) -> list[Path]:
    """Return the paths of the run's data files, and the path of the graph file if `topology.file` names a file.

    The order of the paths does not depend on the folders that contain the files.
    """
    graph = setup.experiment.topology.get("file")
    return [*setup.stream.source_files, *([Path(graph)] if graph else [])]


def stamps(setup: Setup) -> list[Stamp]:
    """Return a stamp of each data file and of the graph file, by which a resumed run notices a changed file.

    A stamp has the size and the time of the file, and a hash of the file with the user's secret key. Without this key,
    nobody can use the hash to test whether a sample is in the file. If the user has no such key, the hash is empty.
    """
    secret = _secret()
    name, key = secret[: SECRET // 2].hex(), secret[SECRET // 2 :]

    def tag(path: Path) -> str:
        with path.open("rb") as file:
            return hashlib.file_digest(file, partial(hmac.new, key, digestmod="sha256")).hexdigest() if key else ""

    return [(path.stat().st_size, path.stat().st_mtime_ns, name, tag(path)) for path in data_files(setup)]


def is_same(before: Stamp, now: Stamp) -> bool:
    """Return whether two stamps belong to equal files: files with the same size and the same hash.

    If the two hashes were made with different keys, or without a key, the modification times are compared instead.
    """
    return before[0] == now[0] and (before[3] == now[3] if before[2] and before[2] == now[2] else before[1] == now[1])


def tag_of(setup: Setup, tuning: Tuning) -> str:
    """Return the value of `privacy.tuning.tag`; empty if the user has no key.

    The value begins with `SHORT` digits that identify the trials, and ends with a hash of these digits, of all keys of
    `privacy.tuning`, and of the contents of the data files, with the user's key.
    """
    trials = tuning.tag[:SHORT]
    facts = [trials, tuning.mode, tuning.trials, tuning.mu, tuning.adjacency, [stamp[3] for stamp in stamps(setup)]]
    return trials + hmac.new(secret, json.dumps(facts).encode(), "sha256").hexdigest() if (secret := _secret()) else ""


def _secret() -> bytes:
    """Return the bytes of the user's file stamp-key, which the first call creates.

    The result is empty if the file cannot be written or read, or does not have `SECRET` bytes.
    """
    place = _cache() / "stamp-key"
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(os.urandom(SECRET))
    with suppress(OSError):
        secret = place.read_bytes()
        return secret if len(secret) == SECRET else b""
    return b""


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mpinodes"


def checked(e: Experiment) -> list[dict[str, Any]] | None:
    """Return a record of each Python file of the user on which a proven epsilon would depend.

    Files with metrics are left out, because no epsilon depends on metrics.

    Returns:
        A list with a dictionary for each file; None if there is no such file. `key` is the setting that names the file,
        `path` its path, and `sha256` its hash. `tested` is true if the file has passed `mpinodes check`, and the
        experiment gives no setting of the file an untested value (`_is_untried`).
    """
    entries = []
    for key, path in files(e):
        if key != "record.metrics":
            digest = digest_of(path)
            tested = stamp_of(path, digest).is_file() and not _is_untried(e, key)
            entries.append({"key": key, "path": str(path), "sha256": digest, "tested": tested})
    return entries or None


def _is_untried(e: Experiment, key: str) -> bool:
    """Return whether the experiment gives a setting of a user's class a value that `mpinodes check` does not test.

    - If the class is a loss: all values but the defaults of the settings are untested.
    - If the class is of another kind: numbers and allowed words count as tested, because `mpinodes check` varies them.

    Args:
        e: the experiment.
        key: the setting that names the user's file, such as "data.path".
    """
    kind = next(kind for kind in registry.KINDS if kind.path_key == key)
    part, section = registry.from_path(kind, str(e.sources[key])), getattr(e, kind.section)
    values = section if isinstance(section, dict) else e.problem.settings or {}
    for name, setting in registry.keys(kind, part).items():
        is_default = name not in values or values[name] == setting.default
        is_varied = isinstance(values.get(name), int | float) or options(setting.type)
        if not is_default and (kind is registry.LOSSES or not is_varied):
            return True
    return False


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def stamp_of(path: Path, digest: str) -> Path:
    """Return the path of the file whose existence marks a Python file as tested by `mpinodes check`.

    The name of the marking file is a keyed hash of three things: the version of mpinodes, the Python file, and the
    files that the Python file may run or read (`noise_key.files_behind`).

    Args:
        path: the Python file.
        digest: the hash of the Python file.
    """
    facts = [digest, *map(digest_of, files_behind(path)), __version__]
    key = hmac.new(_secret(), " ".join(facts).encode(), "sha256").hexdigest()
    return _cache() / "checked" / key


def stamp(path: Path, digest: str) -> None:
    """Record that a Python file has passed `mpinodes check`.

    Args:
        path: the Python file.
        digest: the hash of the file when the check started.

    Raises:
        OSError: the cache directory cannot be written.
    """
    place = stamp_of(path, digest)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f"{path}\n", "utf-8")
