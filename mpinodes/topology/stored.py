"""Find the stored topologies, which are the graph files that come with the package."""

from __future__ import annotations

from functools import cache
from pathlib import Path


def folder() -> Path:
    """Return the folder with the graph files of the stored topologies.

    The folder is in the package or, in a git checkout, beside the package.
    """
    package = Path(__file__).parent.parent
    inside = package / "topologies"
    return inside if inside.is_dir() else package.parent / "topologies"


@cache
def names() -> tuple[str, ...]:
    """Return the names of the stored topologies, sorted."""
    return tuple(sorted(path.stem for path in folder().glob("*.json")))


def file_of(name: str) -> Path | None:
    """Return the file of the stored topology `name`, or None if there is no stored topology of this name."""
    return folder() / f"{name}.json" if name in names() else None
