"""What is read from files, or drawn from the seed, once for all ranks of a host: they map it, while they are set up.

Arrays are kept in a folder that is there for set-up. Ranks of several hosts know the folder by one name, and each host
makes its own. Where there is none, or it cannot be written, every rank reads for itself; and a process that reads for
itself remembers what is small, for the next run.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Arrays: TypeAlias = Sequence[NDArray[Any]]
Bytes: TypeAlias = bytearray | mmap

T = TypeVar("T")
HELD = 1 << 25  # bytes of files that a process keeps for the next run of its own

_folder: Path | None = None
_held: dict[str, tuple[Any, int]] = {}


@contextmanager
def shared(folder: Path) -> Iterator[None]:
    """Share what is read meanwhile, and leave nothing behind; what is mapped stays so."""
    global _folder
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        _folder = folder
    try:
        yield
    finally:
        _folder = None
        for name in _names(folder):
            with suppress(OSError):  # another rank was first
                (folder / name).unlink()
        with suppress(OSError):
            folder.rmdir()


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def once(path: Path, how: str, read: Callable[[], Arrays]) -> Arrays:
    """What `read` gives: arrays, read only.

    Args:
        path: of the file that is read.
        how: it is read, where there is more than one way.
        read: raises `BadInput` alone.
    """
    return _arrays_once(_key(path, how), read)


def drawn_once(what: str, draw: Callable[[], Arrays]) -> Arrays:
    """The same of what is drawn from the seed: all that it depends on is in the words for it."""
    return _arrays_once(_hashed(f"drawn {os.uname().nodename} {what}"), draw)


def _arrays_once(key: str, read: Callable[[], Arrays]) -> Arrays:
    def put(key: str, made: Arrays) -> None:
        for place, array in enumerate(made):
            np.save(f"{key}-{place}.npy", array, allow_pickle=False)
        Path(f"{key}.made").write_text(str(len(made)))

    def take(key: str) -> Arrays:
        count = int(Path(f"{key}.made").read_text())
        return [np.asarray(np.load(f"{key}-{place}.npy", mmap_mode="r")) for place in range(count)]

    def read_only() -> Arrays:
        made = [np.asarray(array) for array in read()]
        for array in made:
            array.setflags(write=False)
        return made

    return _got(key, read_only, put, take, lambda made: sum(array.nbytes for array in made))


def unpacked_once(path: Path, read: Callable[[], bytearray]) -> Bytes:
    """The same of a file's bytes, unpacked."""

    def put(key: str, made: Bytes) -> None:
        Path(f"{key}.part").write_bytes(made)
        Path(f"{key}.part").rename(key)

    def take(key: str) -> Bytes:
        with open(key, "rb") as file:
            return mmap(file.fileno(), 0, access=ACCESS_READ)

    return _got(_key(path, "unpacked"), read, put, take, len)


def _got(
    key: str, read: Callable[[], T], put: Callable[[str, T], None], take: Callable[[str], T], size: Callable[[T], int]
) -> T:
    """What this process holds still, or what a rank of this host has put up, or what is read now."""
    if key in _held:
        found: T = _held[key][0]
        return found
    if _folder is None:
        made = read()
        _hold(key, made, size(made))
        return made
    place = f"{_folder}/{key}"
    with _alone(place):
        with suppress(OSError, ValueError):
            return take(place)
        made = read()
        with suppress(OSError, ValueError):
            put(place, made)
            return take(place)  # mapped, it costs no memory of this rank's own
        return made


def _hold(key: str, made: Any, size: int) -> None:
    """For the next run in this process; the oldest goes where there is too much."""
    if size > HELD:
        return
    while sum(held for _, held in _held.values()) + size > HELD:
        _held.pop(next(iter(_held)))
    _held[key] = made, size


def _key(path: Path, how: str) -> str:
    """Of a file as it is now, on this host: hosts may share a folder, and have other files under one name."""
    try:
        stat = path.stat()
    except OSError:  # as whoever reads it will say
        return os.urandom(16).hex()
    return _hashed(f"{os.uname().nodename} {path.absolute()} {stat.st_mtime_ns} {stat.st_size} {how}")


def _hashed(words: str) -> str:
    return blake2b(words.encode(errors="surrogateescape"), digest_size=16).hexdigest()


@contextmanager
def _alone(place: str) -> Iterator[None]:
    """One rank at a time, as far as the file system can tell them apart."""
    try:
        file = os.open(f"{place}.lock", os.O_CREAT | os.O_WRONLY, 0o600)
    except OSError:
        yield
        return
    try:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)
