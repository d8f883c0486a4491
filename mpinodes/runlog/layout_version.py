"""The version of the layout of a run's files, and the check that this version of mpinodes can read them."""

from __future__ import annotations

from mpinodes.core.errors import BadInput

VERSION = 3  # of record.h5 and summary.json; raise it whenever they, or the draws of noise, change


def require_version(version: int | None, where: str) -> None:
    """Reject a record with another layout than this version of mpinodes reads.

    Args:
        version: the version of the record; None: the record has none.
        where: the run directory.

    Raises:
        BadInput: the versions differ.
    """
    if version == VERSION:
        return
    if version is None:
        problem = "its record has no version: it was made before records had one"
    else:
        age = "newer" if isinstance(version, int) and version > VERSION else "older"
        problem = f"its record has version {version}, {age}"
    raise BadInput(
        f"{where}: {problem}; this mpinodes reads version {VERSION}: run its experiment.toml again, or read it with "
        "the mpinodes that its summary.json names under versions"
    )
