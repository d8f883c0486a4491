"""A file that HDF5 changes commit by commit, and that a kill at any moment leaves as one of these.

A commit leaves alone what the one before refers to: it writes beyond that one's end, and keeps the pages that change
within it in memory. These go to the very end of the file first, as its log; then to their places; then the log is cut
off. Where that was cut short, the file is read with the pages of its log on top. HDF5 takes no notice of what lies
beyond its own end, so that the file is plain HDF5 all the while, but within the milliseconds of the second step.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

PAGE = 4096  # bytes
NUMBER, SUM = 8, 16  # bytes of a page's number, and of a checksum
MARK = b"mpinodes' pages\n"
TAIL = len(MARK) + SUM + NUMBER  # of a log, bytes


class Pages(io.RawIOBase):
    """A file as its last commit has it, to be read.

    Args:
        fd: of the file, left open.
        pages: of it that are others, by number.
    """

    def __init__(self, fd: int, pages: dict[int, bytearray]) -> None:
        self._fd, self._pages, self._at = fd, pages, 0

    def seek(self, at: int, whence: int = os.SEEK_SET) -> int:
        """Go to a byte, or to one from the end."""
        self._at = at if whence == os.SEEK_SET else self._size() + at
        return self._at

    def tell(self) -> int:
        """The byte that comes next."""
        return self._at

    def readinto(self, into: Any) -> int:
        """Fill a buffer, with zeros beyond the end, as a file with holes would."""
        view = memoryview(into).cast("B")
        found = os.pread(self._fd, len(view), self._at)
        view[: len(found)] = found
        view[len(found) :] = bytes(len(view) - len(found))
        if self._pages:
            for number, within, part in _parts(self._at, len(view)):
                if number in self._pages:
                    view[part] = self._pages[number][within]
        return len(view)

    def _size(self) -> int:
        return os.fstat(self._fd).st_size


class AtomicFile(Pages):
    """A file to be written, commit by commit.

    Args:
        path: of the file; made anew.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        super().__init__(self.fd, {})
        self._end = self._next = 0  # bytes that the last commit has, and the next one
        self._failure: OSError | None = None
        self._given_up = False

    def write(self, data: Any) -> int:
        """Keep it, or put it where nobody looks yet; if that fails, the commit says so: HDF5 would not bear it."""
        view = memoryview(data).cast("B")
        try:
            if not (self._given_up or self._failure):
                self._take(view)
        except OSError as error:
            self._failure = error
        return len(view)

    def _take(self, view: memoryview) -> None:
        kept = min(max(0, _whole(self._end) - self._at), len(view))
        for number, within, part in _parts(self._at, kept):
            if number not in self._pages:
                page = os.pread(self._fd, PAGE, number * PAGE)
                self._pages[number] = bytearray(page.ljust(PAGE, b"\0"))
            self._pages[number][within] = view[part]
        _write(self._fd, view[kept:], self._at + kept)

    def truncate(self, size: int | None = None) -> int:
        """What HDF5 says that the next commit has."""
        self._next = self._at if size is None else size
        return self._next

    def _size(self) -> int:
        return max(super()._size(), self._next)

    def commit(self) -> None:
        """Have all that was written since the last commit at once in the file.

        Raises:
            OSError: there is no room, say; the file stays as it was, and so does it with all commits to come.
        """
        if not self._failure:
            try:
                self._put()
            except OSError as error:
                self._failure = error
        if self._failure:
            raise self._failure
        self._end = self._next
        self._pages.clear()

    def _put(self) -> None:
        if self._next > self._end:
            os.posix_fallocate(self._fd, self._end, self._next - self._end)
        if not self._pages:
            return
        size = super()._size()
        try:
            _write(self._fd, memoryview(_log(self._pages)), _whole(size))
        except OSError:
            self.cut()
            raise
        for first, run in _runs(self._pages):
            _write(self._fd, memoryview(run), first * PAGE)
        os.ftruncate(self._fd, size)

    def cut(self) -> None:
        """Leave nothing beyond what the last commit has."""
        os.ftruncate(self._fd, self._end)

    def give_up(self) -> None:
        """Write no more, whatever HDF5 has to say as it closes."""
        self._given_up = True

    def release(self) -> None:
        """Close the file."""
        self.give_up()
        os.close(self.fd)


def _whole(size: int) -> int:
    """Bytes of the pages that so many are on."""
    return -(-size // PAGE) * PAGE


def _parts(at: int, size: int) -> Iterator[tuple[int, slice, slice]]:
    """The pages of a stretch of a file: their numbers, what of each, and where that is in the stretch."""
    done = 0
    while done < size:
        number, within = divmod(at + done, PAGE)
        some = min(PAGE - within, size - done)
        yield number, slice(within, within + some), slice(done, done + some)
        done += some


def _runs(pages: dict[int, bytearray]) -> Iterator[tuple[int, bytes]]:
    """Pages that follow each other, as one; the first of the file last, for HDF5 begins there."""
    run: list[int] = []
    for number in sorted(pages, reverse=True):
        if run and run[-1] != number + 1:
            yield run[-1], b"".join(pages[each] for each in reversed(run))
            run = []
        run.append(number)
    yield run[-1], b"".join(pages[each] for each in reversed(run))


def _log(pages: dict[int, bytearray]) -> bytes:
    whole = b"".join(number.to_bytes(NUMBER) + page for number, page in pages.items())
    return b"".join((whole, MARK, blake2b(whole, digest_size=SUM).digest(), len(pages).to_bytes(NUMBER)))


def log_of(fd: int) -> dict[int, bytearray]:
    """The pages that a commit was about to put to their places."""
    size = os.fstat(fd).st_size
    tail = os.pread(fd, TAIL, max(0, size - TAIL))
    if not tail.startswith(MARK):
        return {}
    length = int.from_bytes(tail[-NUMBER:]) * (NUMBER + PAGE)
    if length > size - TAIL:
        return {}
    whole = os.pread(fd, length, size - TAIL - length)
    if blake2b(whole, digest_size=SUM).digest() != tail[len(MARK) : -NUMBER]:
        return {}
    entries = (whole[start : start + NUMBER + PAGE] for start in range(0, length, NUMBER + PAGE))
    return {int.from_bytes(entry[:NUMBER]): bytearray(entry[NUMBER:]) for entry in entries}


def _write(fd: int, view: memoryview, at: int) -> None:
    """All of it."""
    while len(view):
        done = os.pwrite(fd, view, at)
        view, at = view[done:], at + done
