"""Files of the user's that a run is made of: kept with it, and whether `mpinodes.check` has passed them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
from functools import lru_cache
from pathlib import Path
from typing import Any

from mpinodes import __version__
from mpinodes.config import registry
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import Experiment
from mpinodes.results.siblings import files_of

Json = dict[str, Any]

NOT_TESTED = "conditional on this file's own statements, not tested"
TESTED = "conditional on statements tested at {}"
SHORT = 12  # digits of a hash for people
FOLDER = "sources"
PART, PARTS = 1 << 20, 16  # bytes, and how many such parts of a file are looked at


def files(e: Experiment) -> list[tuple[str, Path]]:
    """Every file of the user's that makes statements, by the key that names it; then metrics, which make none."""
    parts = [(key, path) for key, path in e.sources.items() if e.private or key != "privacy.path"]
    return [*parts, *(("record.metrics", Path(word)) for word in e.record.metrics if word.endswith(".py"))]


def keep(e: Experiment, directory: Path) -> None:
    """Copy them into a run directory."""
    for key, path in files(e):
        (directory / FOLDER).mkdir(exist_ok=True)
        shutil.copyfile(path, _copy_of(directory, key, path))


def _copy_of(directory: Path, key: str, path: Path) -> Path:
    return directory / FOLDER / f"{key.replace('.', '-')}-{path.name}"


def digests(e: Experiment) -> dict[str, str]:
    """Of every file that data and graph are read from, by its path: what tells it from another one.

    Of a large file it is made of the size and of parts, for gigabytes take seconds.
    """
    found: dict[str, str] = {}
    for section, key in (("data", "file"), ("data", "dir"), ("topology", "file")):
        named = getattr(e, section).get(key)
        found |= {str(path): _digest_of_parts(path) for path in (files_of(Path(named)) if named else [])}
    return found


def _digest_of_parts(path: Path) -> str:
    size, found = path.stat().st_size, hashlib.sha256()
    step = max(PART, size // PARTS)
    with path.open("rb") as file:
        for start in range(0, size, step):
            file.seek(start)
            found.update(file.read(PART if size > PARTS * PART else step))
    return f"{size} {found.hexdigest()}"


def changed_since(directory: Path, key: str, path: Path) -> bool:
    """Whether a file is another one than was kept with a run."""
    try:
        return path.read_bytes() != _copy_of(directory, key, path).read_bytes()
    except OSError:
        return True


def checked(e: Experiment) -> list[Json] | None:
    """Of every file that the proven numbers rest on: its hash, and whether it has passed; None: there is none."""
    found = []
    for key, path in files(e):
        if key != "record.metrics":
            digest = digest_of(path)
            tested = stamp_of(digest).is_file() and not _untried(e, key)
            found.append({"key": key, "path": str(path), "sha256": digest, "tested": tested})
    return found or None


def _untried(e: Experiment, key: str) -> list[str]:
    """The settings of a file that no check tries other values of than the default, and that have another here."""
    kinds = {kind.path_key: kind for kind in (registry.ALGORITHMS, registry.STREAMS, registry.TOPOLOGIES)}
    if key not in kinds:
        return []
    sections = {"algorithm.path": e.algorithm, "data.path": e.data, "topology.path": e.topology}
    part, section = registry.chosen(kinds[key], sections[key]), sections[key]
    defaults = {field.name: field.default for field in dataclasses.fields(part)}
    return [
        name
        for name, of in registry.settings(kinds[key], part).items()
        if name in section
        and section[name] != defaults[name]
        and not isinstance(section[name], (int, float))
        and not registry.options(of)
    ]


def condition(checked: list[Json] | None) -> str:
    """What stands beside every proven number; empty: nothing is conditional.

    Raises:
        BadInput: a summary was changed by hand.
    """
    if not checked:
        return ""
    if not isinstance(checked, list) or not all(
        isinstance(file, dict) and {"tested", "sha256"} <= file.keys() for file in checked
    ):
        raise BadInput("summary.json: what it says of files that were checked is not what a run writes")
    if any(not file["tested"] for file in checked):
        return NOT_TESTED
    return TESTED.format(", ".join(str(file["sha256"])[:SHORT] for file in checked))


def digest_of(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def stamp_of(digest: str) -> Path:
    """Where it stands that a file has passed, under this version of mpinodes and this contract."""
    key = hashlib.sha256(f"{digest} {__version__} {_contract()}".encode()).hexdigest()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "mpinodes" / "checked" / f"{key}.json"


def stamp(path: Path, digest: str, tested: Json) -> None:
    """Write down that a file has passed, as it was when the check began.

    Raises:
        OSError: the cache cannot be written.
    """
    place = stamp_of(digest)
    place.parent.mkdir(parents=True, exist_ok=True)
    said = {"path": str(path), "sha256": digest, "version": __version__, "contract": _contract(), "tested": tested}
    place.write_text(json.dumps(said, indent=2) + "\n", "utf-8")


@lru_cache
def _contract() -> str:
    """Of the files that say what a part is, and of the tests."""
    package = Path(__file__).parent.parent
    read = [*sorted((package / "core").glob("*.py")), *sorted((package / "auditing" / "checks").glob("*.py"))]
    return hashlib.sha256(b"".join(path.read_bytes() for path in read)).hexdigest()
