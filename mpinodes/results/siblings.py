"""Runs in directories beside this one that share its noise, and have other data: together they hide nothing."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mpinodes.core import Setup
from mpinodes.core.keys import DIGITS, LOCATIONS, files_of, noise_name

HEAD = "# noise "  # begins experiment.toml, before the first digits of what names the noise


def headed(setup: Setup) -> str:
    """What is written to experiment.toml: it names the noise, if the seed gives it again."""
    e = setup.experiment
    named = e.private and not e.secret
    return (f"{HEAD}{noise_name(setup)}\n" if named else "") + e.toml()


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
    Without `noise.key` the noise follows from the contents of such files, so that other files have other noise.
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
        differ = {key for key in one.keys() | other.keys() if one.get(key) != other.get(key)} - {
            *setup.stream.lengthens
        }
        if own.noise.key is None:
            return bool(differ - {*LOCATIONS})
        return bool(differ or touched_since(began, own.data, LOCATIONS))
    except (OSError, ValueError, KeyError):
        return False


def touched_since(time: float, data: Mapping[str, Any], keys: Sequence[str]) -> Path | None:
    """A file, of those that keys of a data section name, that was written, moved or linked since; None: none was."""
    files = (path for key in keys if data.get(key) for path in files_of(Path(data[key])))
    return next((path for path in files if _touched(path) > time), None)


def _touched(path: Path) -> float:
    """When it was last written, renamed or linked, or what it links to was."""
    found = path.stat(), path.lstat()
    return max(time for of in found for time in (of.st_mtime, of.st_ctime))
