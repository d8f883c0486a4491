"""A process beside the ranks of a host, which says how one of them died that could not say it itself.

The first rank of a host forks it before MPI begins, for a process that MPI knows must not be forked. It hears from each
rank of its host over a local socket, which the system closes for whoever dies, tells log.txt, people and the ranks that
are left, and ends with the last of them. Where anything about it fails, a run goes on without.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from mpinodes.launch.launching import address, first_of_host, origin, say

if TYPE_CHECKING:
    from _socket import socket

FAILED_FILE = "failed.txt"  # who makes it in a run directory is the one that speaks
WATCHER = "watcher"
GOODBYE, TOLD, LOG = b"goodbye", b"told", b"log "
LINGER = 60_000  # ms after a death
PIDFD_GET_INFO, PIDFD_INFO_EXIT = 0xC040FF0B, 1 << 3  # Linux 6.15 on


class Lost(BaseException):
    """A rank of this host died. Nothing that a part of a run may handle."""


def watch_host() -> None:
    """Fork the watcher of this host, if this is its first rank."""
    above = origin().parent
    if sys.platform != "linux" or above <= 1 or not first_of_host(unknown=False):
        return
    first = os.getpid()
    with suppress(OSError):
        if os.fork() == 0:
            _child(first, above)


class Watched:
    """A rank's line to the watcher of its host."""

    def __init__(self, name: str) -> None:
        self._socket: socket | None = None
        if sys.platform != "linux":
            return
        from _socket import AF_UNIX, SOCK_SEQPACKET, socket  # the module around it takes 2 ms of every rank

        line = socket(AF_UNIX, SOCK_SEQPACKET)
        try:
            line.connect(address(WATCHER))
            line.send(f"{os.getpid()} {name}".encode())
        except OSError:
            line.close()
            return
        self._socket = line

    def log_is(self, directory: Path) -> None:
        """Where it is to be told what happened."""
        self._send(LOG + os.fsencode(directory))

    def leave(self, told: bool = False) -> None:
        """This rank dies no more that it needs to be told: it ends well, or has `told` what failed."""
        self._send(TOLD if told else GOODBYE)
        if self._socket:
            self._socket.close()
            self._socket = None

    def raise_lost(self) -> None:
        """Look whether a rank of this host died.

        Raises:
            Lost: one did; says which, and how.
        """
        from _socket import MSG_DONTWAIT

        if self._socket is None:
            return
        try:
            text = self._socket.recv(4096, MSG_DONTWAIT)
        except OSError:
            return
        if text:
            raise Lost(text.decode(errors="replace"))

    def _send(self, word: bytes) -> None:
        if self._socket:
            with suppress(OSError):
                self._socket.send(word)


class _Rank(NamedTuple):
    name: str
    process: int
    handle: int  # a pidfd


def _child(first: int, above: int) -> NoReturn:
    """The watcher's life; whatever happens, it ends."""
    try:
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 0)
        os.dup2(nowhere, 1)
        close_from(3)
        _Watcher(first, above).watch()
    finally:
        os._exit(0)


class _Watcher:
    """The life of it.

    Args:
        first: the rank that it was forked by; where this dies before any rank was met, there is nothing to watch.
        above: the process that started the ranks.
    """

    def __init__(self, first: int, above: int) -> None:
        import signal
        import socket

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
            signal.signal(number, signal.SIG_IGN)
        self._first, self._launcher = first, handle(_parent(above))
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._server.bind(address(WATCHER))
        self._server.listen(4096)
        self._lines: dict[int, socket.socket] = {}
        self._ranks: dict[int, _Rank] = {}
        self._directory: Path | None = None
        self._told = False

    def watch(self) -> None:
        """Until all ranks that were there are gone."""
        import select

        poll = select.poll()
        poll.register(self._server, select.POLLIN)
        met = False
        while self._lines or not met:
            ready = [number for number, _ in poll.poll(LINGER if self._told else 1000)]
            if not ready and (self._told or (not met and os.getppid() != self._first)):
                return
            dead = []
            for number in ready:
                if number == self._server.fileno():
                    line, _ = self._server.accept()
                    self._lines[line.fileno()] = line
                    poll.register(line, select.POLLIN)
                    met = True
                elif not self._hear(number):
                    poll.unregister(number)
                    self._lines.pop(number).close()
                    if rank := self._ranks.pop(number, None):
                        dead.append(rank)
            if dead and not self._told:
                self._tell(dead)

    def _hear(self, number: int) -> bool:
        """What a rank says; False: that it is gone."""
        try:
            word = self._lines[number].recv(65536)
        except OSError:
            return False
        if word in (GOODBYE, TOLD):
            self._told |= word == TOLD
            self._ranks.pop(number, None)
        elif word.startswith(LOG):
            self._directory = Path(os.fsdecode(word.removeprefix(LOG)))
        elif word:
            process, name = word.decode().split(" ", 1)
            self._ranks[number] = _Rank(name, int(process), handle(int(process)))
        return bool(word)

    def _tell(self, dead: list[_Rank]) -> None:
        self._told = True
        host = os.uname().nodename
        text = "; ".join(f"{rank.name} (process {rank.process} on {host}) {_how(rank)}" for rank in dead[:3])
        if len(dead) > 3:
            text += f"; so did {len(dead) - 3} more"
        if _gone(self._launcher):
            text = f"the launcher of the ranks on {host} is gone, and with it they are: {text}"
        if self._directory and self._write(f"error: {text}\n"):
            say(f"error: {text}; the rounds recorded so far are kept in {self._directory}")
        for line in self._lines.values():
            with suppress(OSError):
                line.send(text.encode())

    def _write(self, text: str) -> bool:
        """Whether nobody else has said what happened; where nothing can be written, that is not known."""
        assert self._directory is not None
        try:
            with (self._directory / FAILED_FILE).open("x", encoding="utf-8") as failed:
                failed.write(text)
            with (self._directory / "log.txt").open("a", encoding="utf-8") as log:
                log.write(text)
        except FileExistsError:
            return False
        except OSError:
            return True
        return True


def _parent(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/stat").read_text("utf-8", errors="replace").rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def close_from(first: int) -> None:
    """Close all descriptors from one on: those beyond a limit that was lowered, too."""
    for number in map(int, os.listdir("/proc/self/fd")):
        if number >= first:
            with suppress(OSError):  # that of the list itself
                os.close(number)


def handle(process: int) -> int:
    """A pidfd; -1: there is none."""
    try:
        return os.pidfd_open(process)
    except (OSError, AttributeError):
        return -1


def _gone(handle: int, within: int = 0) -> bool:
    """Whether a process has ended, within so many ms; of none, not."""
    import select

    if handle < 0:
        return False
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(within))


def _how(rank: _Rank) -> str:
    """How it ended."""
    import signal

    # Asked twice: its parent may have waited for it in the middle of the first time.
    asked = map(_status, [rank, rank]) if _gone(rank.handle, 2000) else ()
    status = next((status for status in asked if status is not None), None)
    if status is None:
        return "ended without a word: it was killed, or ended itself"
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal.Signals(number).name if number in signal.valid_signals() else "no known one"
        hint = ", as the system does where memory runs out, and some launchers do" if number == signal.SIGKILL else ""
        return f"was killed by signal {number} ({name}){hint}"
    return f"ended itself with exit code {os.WEXITSTATUS(status)} and without a word, as os._exit() does"


def _status(rank: _Rank) -> int | None:
    """As of os.waitpid; None: the system does not tell."""
    import fcntl

    info = bytearray(64)
    info[:8] = PIDFD_INFO_EXIT.to_bytes(8, sys.byteorder)
    with suppress(OSError):
        fcntl.ioctl(rank.handle, PIDFD_GET_INFO, info)
        if int.from_bytes(info[:8], sys.byteorder) & PIDFD_INFO_EXIT:
            return int.from_bytes(info[60:64], sys.byteorder)
    with suppress(OSError, ValueError, IndexError):  # older ones tell while its parent has not asked
        fields = Path(f"/proc/{rank.process}/stat").read_text("utf-8", errors="replace").rpartition(")")[2].split()
        if fields[0] == "Z":
            return int(fields[49])
    return None
