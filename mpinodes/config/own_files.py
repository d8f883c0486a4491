"""Keep the user's files that a run is made of, and remember which of them `mpinodes check` has passed.

A run directory gets a copy of each Python file of the user. Checkpoints get a stamp of each data file, so that a
resumed run notices a change. The user's cache directory has one file for each checked file that passed.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import shutil
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from mpinodes.config import registry
from mpinodes.config.noise_key import files_behind
from mpinodes.config.schema import options
from mpinodes.core.experiment import Experiment, is_file
from mpinodes.core.parts import Setup
from mpinodes.core.version import __version__

NOT_TESTED = "conditional on this file's own statements, not tested"
TESTED = "conditional on statements tested at {}"
SHORT = 12  # digits of a hash for people
FOLDER = "sources"
SECRET = 32  # bytes of the key of stamps, half of which are the name of the key
Stamp = tuple[int, int, str, str]  # a file's size and time, the name of a key, and the file's hash with that key


def files(e: Experiment) -> list[tuple[str, Path]]:
    """Return the user's Python files by the keys that name them: first files that make statements, then metrics."""
    parts = [(key, path) for key, path in e.sources.items() if e.private or key != "privacy.path"]
    return [*parts, *(("record.metrics", Path(word)) for word in e.record.metrics if is_file(word))]


def keep(e: Experiment, directory: Path) -> None:
    """Copy the user's Python files into a run directory."""
    for key, path in files(e):
        (directory / FOLDER).mkdir(exist_ok=True)
        shutil.copyfile(path, _copy_of(directory, key, path))


def changed_since(directory: Path, key: str, path: Path) -> bool:
    """Return whether a file differs from its copy in a run directory, or either cannot be read."""
    try:
        return path.read_bytes() != _copy_of(directory, key, path).read_bytes()
    except OSError:
        return True


def _copy_of(directory: Path, key: str, path: Path) -> Path:
    return directory / FOLDER / f"{key.replace('.', '-')}-{path.name}"


def data_files(setup: Setup) -> list[Path]:
    """Return the files from which data and graph are read, in an order that does not depend on where they are."""
    graph = setup.experiment.topology.get("file")
    return [*setup.stream.source_files, *([Path(graph)] if graph else [])]


def stamps(setup: Setup) -> list[Stamp]:
    """Return a stamp of each data file, for checkpoints: only this user can tell from it whether the file has changed.

    A plain hash of private data would tell anybody whether a sample is in them. No run directory contains the key of
    these hashes.
    """
    secret = _secret()
    name, key = secret[: SECRET // 2].hex(), secret[SECRET // 2 :]

    def tag(path: Path) -> str:
        with path.open("rb") as file:
            return hashlib.file_digest(file, partial(hmac.new, key, digestmod="sha256")).hexdigest() if key else ""

    return [(path.stat().st_size, path.stat().st_mtime_ns, name, tag(path)) for path in data_files(setup)]


def is_same(before: Stamp, now: Stamp) -> bool:
    """Return whether a file is unchanged, by its keyed hash; if the key differs, by its size and time."""
    return before[0] == now[0] and (before[3] == now[3] if before[2] and before[2] == now[2] else before[1] == now[1])


def _secret() -> bytes:
    """Return the key of this user's stamps, which the first use creates; empty if it cannot be stored."""
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
    """Return the key, path and hash of each file on which proven numbers depend, and whether it has passed the check.

    Returns:
        None if there is no such file.
    """
    entries = []
    for key, path in files(e):
        if key != "record.metrics":
            digest = digest_of(path)
            tested = stamp_of(path, digest).is_file() and not _is_untried(e, key)
            entries.append({"key": key, "path": str(path), "sha256": digest, "tested": tested})
    return entries or None


def _is_untried(e: Experiment, key: str) -> bool:
    """Return whether a setting of the file's part has a value that the check does not try.

    The check tries the defaults. Except for losses, it also tries other numbers, and all values of a choice of words.
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
    """Return the path in the cache that exists if a file has passed the check.

    The path depends on all files that this file may run or read, and on the version of mpinodes.
    """
    facts = [digest, *map(digest_of, files_behind(path)), __version__]
    key = hmac.new(_secret(), " ".join(facts).encode(), "sha256").hexdigest()
    return _cache() / "checked" / key


def stamp(path: Path, digest: str) -> None:
    """Record that a file has passed the check.

    Args:
        path: the file.
        digest: the hash of the file when the check began.

    Raises:
        OSError: the cache cannot be written.
    """
    place = stamp_of(path, digest)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f"{path}\n", "utf-8")
