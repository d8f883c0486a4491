"""A cache of arrays that are read from files, or drawn from the seed, once for all ranks of a host.

While a folder is shared, the first rank that needs some arrays saves them there and all ranks map them:

    FOLDER/KEY.lock      held by the rank that makes the arrays; KEY is a hash of the host and of what they depend on
    FOLDER/KEY/0.npy     the first array, and so on

Where no folder is shared, or nothing can be written there, each process makes its own arrays. Such a process remembers
small arrays for its next run.
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

HELD = 1 << 25  # bytes of arrays that a process remembers

_folder: Path | None = None
_held: dict[str, Arrays] = {}


@contextmanager
def shared(folder: Path) -> Iterator[None]:
    """Share in `folder` what is read and drawn meanwhile, then remove the folder; mapped arrays stay mapped."""
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
    """Return what `read` returns for a file as it is now; the arrays are read-only.

    Args:
        path: The file.
        how: A word for the way in which the file is read.
        read: Called by one rank of the host.

    Raises:
        BadInput: The file cannot be found, or `read` refuses it.
    """
    try:
        stat = path.stat()
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}") from error
    return drawn_once(f"{path.absolute()} {stat.st_mtime_ns} {stat.st_size} {how}", read)


def drawn_once(words: str, draw: Callable[[], Arrays]) -> Arrays:
    """Return what `draw` returns, read-only; the arrays depend on nothing but `words`."""
    # Hosts may share the folder, and have different files under the same name.
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
                return _mapped(_folder / key)  # mapped arrays cost no memory of this rank's own
            return made
    size = sum(array.nbytes for array in made)
    if size <= HELD:
        while sum(array.nbytes for arrays in _held.values() for array in arrays) + size > HELD:
            _held.pop(next(iter(_held)))
        _held[key] = made
    return made


def _mapped(folder: Path) -> Arrays:
    return [np.asarray(np.load(folder / f"{k}.npy", mmap_mode="r")) for k in range(len(os.listdir(folder)))]
