"""Cache arrays that are read from files or drawn from the seed, so that the ranks of a host make the arrays only once.

While a folder is shared (`with shared(FOLDER)`), the first rank that needs certain arrays saves them in this folder.
All ranks of the host then memory-map the saved files:

    FOLDER/KEY.lock      locked by the rank that makes the arrays
    FOLDER/KEY/0.npy     the first array; further arrays are 1.npy, 2.npy, ...

KEY is a hash of the host's name and of everything that the arrays depend on. If the folder is not writable, each
process makes its own arrays. If no folder is shared, each process makes its own arrays too, and keeps small arrays in
memory for a further run with the same data.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mpinodes.core.errors import BadInput

Arrays: TypeAlias = Sequence[NDArray[Any]]

HELD = 1 << 25  # the largest number of bytes of arrays that a process keeps in memory for its next run

_folder: Path | None = None
_held: dict[str, Arrays] = {}


@contextmanager
def shared(folder: Path) -> Iterator[None]:
    """Share arrays among the ranks of a host by files in a folder, until the `with` block ends.

    The folder is removed at the end of the block. Arrays that were memory-mapped from the folder stay valid. If the
    folder cannot be made, nothing is shared.
    """
    global _folder
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        _folder = folder
    try:
        yield
    finally:
        if _folder is not None:
            shutil.rmtree(folder, ignore_errors=True)  # another rank may remove the same files
        _folder = None


def once(path: Path, how: str, read: Callable[[], Arrays]) -> Arrays:
    """Return the arrays that `read` makes from a file. The arrays are read-only, and cached by `drawn_once`.

    If the size or the modification time of the file has changed, the file is read again.

    Args:
        path: the file.
        how: a text that names how the file is read; two ways of reading the same file need different texts.
        read: reads the file and returns the arrays.

    Raises:
        BadInput: the file cannot be found or accessed, or `read` rejects its content.
    """
    try:
        stat = path.stat()
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}") from error
    return drawn_once(f"{path.absolute()} {stat.st_mtime_ns} {stat.st_size} {how}", read)


def drawn_once(words: str, draw: Callable[[], Arrays]) -> Arrays:
    """Return the arrays that `draw` makes. The arrays are read-only, and cached under the text `words`.

    - If a folder is shared: one rank of the host calls `draw`, and all ranks use the arrays. If the folder cannot be
      written, every rank calls `draw`.
    - If no folder is shared: this process keeps arrays in memory, up to `HELD` bytes together. The oldest arrays are
      dropped first, and larger arrays are not kept.

    Args:
        words: a text that names everything that the arrays depend on.
        draw: makes the arrays.
    """
    # The key contains the host's name, because hosts may share the folder but have different files of the same name.
    key = blake2b(f"{os.uname().nodename} {words}".encode(errors="surrogateescape"), digest_size=16).hexdigest()
    if key in _held:
        return _held[key]
    with ExitStack() as stack:
        if _folder is not None:
            with suppress(OSError):
                lock = stack.enter_context(open(_folder / f"{key}.lock", "w"))
                fcntl.flock(lock, fcntl.LOCK_EX)
            with suppress(OSError, ValueError):
                return _mapped(_folder / key)
        made = [np.asarray(array) for array in draw()]
        for array in made:
            array.setflags(write=False)
        if _folder is not None:
            with suppress(OSError, ValueError):
                part = _folder / f"{key}.part"
                part.mkdir()
                for place, array in enumerate(made):
                    np.save(part / f"{place}.npy", array, allow_pickle=False)
                part.rename(_folder / key)
                return _mapped(_folder / key)  # because mapped arrays take no memory of this rank alone
            return made
    size = sum(array.nbytes for array in made)
    if size <= HELD:
        while sum(array.nbytes for arrays in _held.values() for array in arrays) + size > HELD:
            _held.pop(next(iter(_held)))
        _held[key] = made
    return made


def _mapped(folder: Path) -> Arrays:
    return [np.asarray(np.load(folder / f"{k}.npy", mmap_mode="r")) for k in range(len(os.listdir(folder)))]
