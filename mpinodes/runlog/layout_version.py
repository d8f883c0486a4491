"""The layout of what a run leaves, numbered, and who can read which."""

from __future__ import annotations

from mpinodes.core.errors import BadInput

VERSION = 3  # of record.h5 and summary.json; one more whenever something in them, or what noise is drawn from, changes


def require_version(found: int | None, where: str) -> None:
    """Refuse what has another layout than this version of mpinodes reads.

    Args:
        found: its `version`; None: it has none.
        where: the run directory.

    Raises:
        BadInput: says in a line what it is.
    """
    if found == VERSION:
        return
    if found is None:
        what = "its record has no version: it was made before records had one"
    else:
        what = f"its record has version {found}, {'newer' if isinstance(found, int) and found > VERSION else 'older'}"
    raise BadInput(
        f"{where}: {what}; this mpinodes reads version {VERSION}: run its experiment.toml again, or read it with the "
        "mpinodes that its summary.json names under versions"
    )
