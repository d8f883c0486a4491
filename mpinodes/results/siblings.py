"""Runs in directories beside this one that share its noise, and have other data: together they hide nothing."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from mpinodes.core import Setup
from mpinodes.core.checkpoints import DIGITS, noise_name
from mpinodes.core.errors import BadInput

HEAD = "# noise "  # begins experiment.toml, before the first digits of what names the noise
FILES = "# files "  # the line below it, before `files_mark`


def headed(setup: Setup) -> str:
    """What is written to experiment.toml: it names the noise, if the seed gives it again, and the data's files."""
    e = setup.experiment
    mark, named = files_mark(setup), e.private and not e.secret
    return (f"{HEAD}{noise_name(setup)}\n" if named else "") + (f"{FILES}{mark}\n" if mark else "") + e.toml()


def noise_of(file: Path) -> str:
    """What an experiment.toml names the noise of its run; empty: nothing."""
    try:
        with file.open(encoding="utf-8") as opened:
            line = opened.readline(len(HEAD) + DIGITS + 1)
    except (OSError, UnicodeDecodeError):
        return ""
    return line.strip().removeprefix(HEAD) if line.startswith(HEAD) else ""


def sharing(setup: Setup, directory: Path) -> list[str]:
    """The run directories beside this one's with the same noise on other data, by name.

    Data are other where their settings differ, and may be where a file of theirs was written, moved or linked since.
    """
    e = setup.experiment
    if not e.private or e.secret:
        return []
    job = directory.parent if directory.name.startswith("repeat-") else directory
    found = set()
    for pattern in ("*/experiment.toml", "*/repeat-*/experiment.toml"):
        for file in job.parent.glob(pattern):
            if job not in file.parents and noise_of(file) == noise_name(setup) and _is_on_other_data(file, setup):
                found.add(file.parent.relative_to(job.parent).as_posix())
    return sorted(found)


def _is_on_other_data(file: Path, setup: Setup) -> bool:
    own = setup.experiment
    try:
        one, other = (tomllib.loads(text)["data"] for text in (own.toml(), file.read_text("utf-8")))
        began = file.stat().st_mtime
        differ = {key for key in one.keys() | other.keys() if one.get(key) != other.get(key)}
        return bool(differ - {*setup.stream.lengthens} or touched_since(began, own.data, ("file", "dir")))
    except (OSError, ValueError, KeyError):
        return False


def files_mark(setup: Setup) -> str:
    """Return a mark that is another one once a file of the data was written, moved, linked anew or put in its place.

    The mark is a digest of inodes, sizes and times, and tells nothing of what is in the files. It is empty where no
    file is read.
    """
    data, located = setup.experiment.data, getattr(setup.stream, "located", list)
    named = [path for key in ("file", "path", "dir") if data.get(key) for path in sorted(files_of(Path(data[key])))]
    try:
        stats = [stat for path in (*named, *located()) for stat in (path.stat(), path.lstat())]
    except (BadInput, OSError):  # a file was taken away just now: equal to no other mark
        return os.urandom(8).hex()
    facts = [(stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns) for stat in stats]
    return blake2b(repr(facts).encode(), digest_size=8).hexdigest() if facts else ""


def files_mark_of(file: Path) -> str:
    """Return the `files_mark` in an experiment.toml; empty: none is in it."""
    with file.open(encoding="utf-8") as opened:
        lines = [opened.readline(), opened.readline()]
    return next((line.removeprefix(FILES).strip() for line in lines if line.startswith(FILES)), "")


def touched_since(time: float, data: Mapping[str, Any], keys: Sequence[str]) -> Path | None:
    """A file, of those that keys of a data section name, that was written, moved or linked since; None: none was."""
    files = (path for key in keys if data.get(key) for path in files_of(Path(data[key])))
    return next((path for path in files if _touched(path) > time), None)


def _touched(path: Path) -> float:
    """When it was last written, renamed or linked, or what it links to was."""
    found = path.stat(), path.lstat()
    return max(time for of in found for time in (of.st_mtime, of.st_ctime))


def files_of(path: Path) -> list[Path]:
    """The file itself, those of a pattern with {agent} in its name, or those of a directory."""
    if path.is_dir():
        return [inner for inner in path.iterdir() if inner.is_file()]
    return list(path.parent.glob(path.name.replace("{agent}", "*")))
