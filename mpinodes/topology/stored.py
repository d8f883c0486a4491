"""Find the topologies that come with the package as files."""

from __future__ import annotations

from pathlib import Path


def folder() -> Path:
    """Return their folder: inside the package, or beside it in a checkout."""
    package = Path(__file__).parent.parent
    inside = package / "topologies"
    return inside if inside.is_dir() else package.parent / "topologies"


def names() -> list[str]:
    """Return the names of these topologies, sorted."""
    return sorted(path.stem for path in folder().glob("*.json"))


def file_of(name: str) -> Path | None:
    """Return the file of the topology with this name; None if there is none."""
    return folder() / f"{name}.json" if name in names() else None
