"""What files are read into, once for all ranks of a host: arrays that they map, in a folder that is there for set-up.

Ranks of several hosts know the folder by one name, and each host makes its own. Where there is none, or it cannot be
written, every rank reads for itself.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Arrays: TypeAlias = Sequence[NDArray[Any]]
Bytes: TypeAlias = bytearray | mmap

_folder: Path | None = None


def put_up(folder: Path) -> None:
    """Share what is read from now on."""
    global _folder
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        _folder = folder


def take_down() -> None:
    """Share no more, and leave nothing behind; what is mapped stays so."""
    global _folder
    if _folder is None:
        return
    for name in _names(_folder):
        with suppress(OSError):  # another rank was first
            (_folder / name).unlink()
    with suppress(OSError):
        _folder.rmdir()
    _folder = None


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def once(path: Path, how: str, read: Callable[[], Arrays]) -> Arrays:
    """What `read` gives: arrays, which are read only where they are shared.

    Args:
        path: of the file that is read.
        how: it is read, where there is more than one way.
        read: raises `BadInput` alone.
    """
    if _folder is None:
        return read()
    key = _key(path, how)
    with _alone(key):
        if (found := _arrays(_folder, key)) is not None:
            return found
        made = read()
        with suppress(OSError):
            for place, array in enumerate(made):
                np.save(_folder / f"{key}-{place}.npy", array, allow_pickle=False)
            (_folder / f"{key}.made").write_text(str(len(made)))
        return _arrays(_folder, key) or made  # mapped, they cost no memory of this rank's own


def unpacked_once(path: Path, read: Callable[[], bytearray]) -> Bytes:
    """The same of a file's bytes, unpacked."""
    if _folder is None:
        return read()
    key = _key(path, "unpacked")
    with _alone(key):
        if (found := _bytes(_folder / key)) is not None:
            return found
        made = read()
        with suppress(OSError):
            (_folder / f"{key}.part").write_bytes(made)
            (_folder / f"{key}.part").rename(_folder / key)
        return _bytes(_folder / key) or made


def _key(path: Path, how: str) -> str:
    return blake2b(f"{path.absolute()} {how}".encode(), digest_size=16).hexdigest()


@contextmanager
def _alone(key: str) -> Iterator[None]:
    """One rank at a time, as far as the file system can tell them apart."""
    try:
        file = os.open(f"{_folder}/{key}.lock", os.O_CREAT | os.O_WRONLY, 0o600)
    except OSError:
        yield
        return
    try:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def _arrays(folder: Path, key: str) -> Arrays | None:
    try:
        count = int((folder / f"{key}.made").read_text())
        return [np.asarray(np.load(folder / f"{key}-{place}.npy", mmap_mode="r")) for place in range(count)]
    except (OSError, ValueError):
        return None


def _bytes(file: Path) -> Bytes | None:
    try:
        with file.open("rb") as opened:
            return mmap(opened.fileno(), 0, access=ACCESS_READ)
    except (OSError, ValueError):
        return None
