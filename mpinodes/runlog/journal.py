"""The rounds that a record does not hold yet, on disk all the same, for a checkpoint to go on from.

HDF5 takes some milliseconds for any number of rounds, so the record is written now and then. What waits for it is added
to a plain file, which begins anew with every time that the record is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mpinodes.runlog import snapshot
from mpinodes.runlog.checkpoints import FOLDER
from mpinodes.runlog.record import Record, Variables, joined

NAME = "rounds"
LENGTH = 8  # bytes in front of an entry, that say how long it is


class Journal:
    """What a record has been given and does not hold.

    Args:
        run: the directory.
    """

    def __init__(self, run: Path) -> None:
        self._path = run / FOLDER / NAME
        self._rounds, self._written = -1, 0

    def write(self, record: Record) -> None:
        """Add what is not there yet.

        Raises:
            OSError: it cannot be written.
        """
        mode = "ab"
        if record.rounds != self._rounds:
            self._rounds, self._written, mode = record.rounds, 0, "wb"
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
        new = record.waiting[self._written :]
        self._written += len(new)
        first = record.rounds + sum(map(rounds_in, record.waiting[: -len(new) or None]))
        with self._path.open(mode) as file:
            if new:
                entry = snapshot.dumps({"first": first, "variables": joined(new)})
                file.write(len(entry).to_bytes(LENGTH) + entry)


def rounds_in(variables: Variables) -> int:
    """How many there are."""
    return len(next(iter(variables.values())).values)


def entries(run: Path, after: int, last: int) -> Iterator[Variables]:
    """What stands there of the rounds after one up to another.

    Raises:
        Damaged: an entry is not as it was written.
    """
    path = run / FOLDER / NAME
    if after >= last or not path.exists():
        return
    with path.open("rb") as file:
        while length := int.from_bytes(file.read(LENGTH)):
            found = snapshot.loads(file.read(length), path)
            first, variables = found["first"], found["variables"]
            some = slice(max(after - first, 0), last - first)
            if 0 <= after - first < rounds_in(variables) and first < last:
                after = min(first + rounds_in(variables), last)
                yield {name: of._replace(values=of.values[some]) for name, of in variables.items()}
