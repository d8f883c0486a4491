"""Ranks that take turns on the cores of a host as forks of one process: MPICH's mpirun starts each by itself.

What all need is imported once, and forks lie at the same addresses: whose turn it is has what the processor learnt of
the others' branches. And they share a session. Linux shares a core among sessions, and only then among the processes of
each (sched(7), "the autogroup feature"): a rank alone in its session, as mpirun has it, that yields does so to nobody,
and spins until it has had as much of the core as all others.

Each process that mpirun started asks for a fork and hands its place in the job over: words, environment, directory,
streams, the line to mpirun. Then it stands for its fork: it passes signals on, and ends as that one ends. Whoever of
the three dies, the other two end: nobody is left behind, and mpirun hears of it. Where anything fails before there is a
fork, the process goes on as it is.
"""

from __future__ import annotations

import gc
import marshal
import os
import resource
import select
import signal
import sys
import time
from _socket import AF_UNIX, SCM_RIGHTS, SO_PEERCRED, SOCK_SEQPACKET, SOL_SOCKET, socket
from array import array
from contextlib import suppress
from importlib import import_module
from struct import Struct
from typing import Any, NamedTuple, NoReturn
from zlib import crc32

from mpinodes.launch import launching
from mpinodes.launch.watcher import close_from, handle

LINE = "PMI_FD"  # names the descriptor of the line to mpirun
PATIENCE = 10.0  # seconds between the name of the one that forks being taken and it being there
KEPT = 3  # descriptor: of the line to mpirun in a fork, of its own socket in the process that forks
STREAMS = range(KEPT)
COMMON = (
    "config.building",
    "data.shelf",
    "losses.enforced",
    "mechanisms.backends",
    "running.job",
    "rounds.network",
    "streams.labelled",
    "topology.stored",
)
SOON = 1000  # ms in which whoever forked tells that a fork ended
LARGEST = 1 << 20  # bytes of what is handed over
PASSED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM)
FORKED, ENDED, WHO = Struct("2i"), Struct("i"), Struct("3i")  # fork and who forked it; its status; who, user and group


class _Place(NamedTuple):
    """What a process hands over."""

    origin: launching.Origin
    words: list[str]
    environment: dict[bytes, bytes]
    cores: list[int]
    ignored: list[int]  # signals


class _Fork(NamedTuple):
    process: int
    line: socket  # to whom it was made for


def fork_with_others(words: list[str]) -> list[str]:
    """Go on in a fork of the one process of this host, where mpirun started ranks that `take_turns`.

    Not where a debugger, a profiler or coverage looks on: it would see the process that stands for its fork.

    Args:
        words: of this process' command.

    Returns:
        The same; in a fork, those of the process that it is made for.
    """
    if _is_watched():
        return words
    try:
        where = _address()
    except OSError:
        return words
    founder, until = os.getpid(), time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if line := _opened(where, listens=False):
            _hand_over(line, words)
            break
        if server := _opened(where, listens=True):
            process = _forked()
            if process == 0:
                return _Forks(server, founder).words()
            server.close()
            if process is None:
                break
        time.sleep(0.001)
    return words


def _is_watched() -> bool:
    monitoring = getattr(sys, "monitoring", None)  # Python 3.12 on
    return bool(sys.gettrace() or sys.getprofile() or (monitoring and any(map(monitoring.get_tool, range(6)))))


def _address() -> bytes:
    """One for each Python, program and mpinodes that ranks run."""
    alike = crc32(repr((sys.executable, sys.flags, sys.path, sys.argv[0], __file__)).encode(errors="replace"))
    return launching.address(f"forks-{alike}")


def _forked() -> int | None:
    """As os.fork(); None: the system lets no more processes be."""
    try:
        return os.fork()
    except OSError:
        return None


def _opened(address: bytes, listens: bool) -> socket | None:
    """Return a socket that listens at an address, or is connected to it; None: it cannot."""
    line = socket(AF_UNIX, SOCK_SEQPACKET)
    try:
        if listens:
            line.bind(address)
            line.listen(4096)
        else:
            line.connect(address)
    except OSError:
        line.close()
        return None
    return line


def _peer(line: socket) -> int | None:
    """The process at the other end; None: another user's, for such a name anybody may take, or ask for."""
    process, user, _ = WHO.unpack(line.getsockopt(SOL_SOCKET, SO_PEERCRED, WHO.size))
    return process if user == os.getuid() else None


def _hand_over(line: socket, words: list[str]) -> None:
    """Ask for a fork and stand for it; comes back if there is none."""
    ignored = [int(number) for number in PASSED_ON if signal.getsignal(number) == signal.SIG_IGN]
    place = _Place(launching.origin(), words, dict(os.environb), [*os.sched_getaffinity(0)], ignored)
    text = marshal.dumps((tuple(place.origin), *place[1:]))
    try:
        if _peer(line) is None:
            return
        here = os.open(".", os.O_PATH)  # which may have been removed, or be beyond what its path leads to
        try:
            descriptors = array("i", [*STREAMS, int(os.environ[LINE]), here])
            line.sendmsg([text], [(SOL_SOCKET, SCM_RIGHTS, descriptors)])
        finally:
            os.close(here)
        answer = line.recv(FORKED.size)
        if answer:
            fork, forker = FORKED.unpack(answer)
            _stand_for(handle(fork), forker, line)
    except OSError:
        return
    finally:
        line.close()


def _stand_for(fork: int, forker: int, line: socket) -> NoReturn:
    """Pass signals on to a fork, by its pidfd, and end as it does."""

    def pass_on(number: int, frame: Any) -> None:
        with suppress(OSError):  # it is gone
            signal.pidfd_send_signal(fork, number)

    for number in PASSED_ON:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, pass_on)
    try:
        if not _is_told(line, fork):
            os.kill(forker, signal.SIGCONT)
        answer = line.recv(ENDED.size)
    except OSError:
        answer = b""
    status = ENDED.unpack(answer)[0] if answer else signal.SIGKILL  # which it dies of where who forked it is gone
    if os.WIFSIGNALED(status):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with suppress(OSError):  # of SIGKILL
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


def _is_told(line: socket, fork: int) -> bool:
    """Wait until a fork has ended; whether who forked it says so, and was not stopped."""
    poll = select.poll()
    poll.register(line, select.POLLIN)
    if fork >= 0:
        poll.register(fork, select.POLLIN)
        poll.poll()
        poll.unregister(fork)
    return bool(poll.poll(SOON))


class _Forks:
    """The process that forks, until all who asked are gone."""

    def __init__(self, server: socket, founder: int) -> None:
        self._server: Any = server
        self._founder = founder  # by its pidfd, once settled; 0: it is gone
        self._process, self._poll = os.getpid(), select.poll()
        self._asking: dict[int, socket] = {}  # by descriptor
        self._made: dict[int, _Fork] = {}  # by pidfd
        self._stood_for: dict[int, int] = {}  # pidfds by the descriptor of the line

    def words(self) -> list[str]:
        """In a fork the words of its command; elsewhere this does not come back."""
        try:
            self._settle()
            while self._founder or self._asking or self._made:
                for number, _ in self._poll.poll():
                    if (words := self._attend(number)) is not None:
                        return words
        except BaseException:
            if os.getpid() != self._process:
                raise
        os._exit(0)

    def _settle(self) -> None:
        from socket import socket as whole_socket  # `_socket`'s does not accept

        os.setpgid(0, 0)
        for number in PASSED_ON:
            signal.signal(number, signal.SIG_IGN)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in STREAMS:
            os.dup2(nowhere, stream)
        os.dup2(self._server.detach(), KEPT)
        close_from(KEPT + 1)
        self._server = whole_socket(fileno=KEPT)
        self._watch(KEPT)
        self._founder = os.pidfd_open(self._founder)  # where there is none, nobody is to be promised a fork
        self._watch(self._founder)
        _import_all()
        gc.freeze()

    def _watch(self, number: int) -> None:
        self._poll.register(number, select.POLLIN)

    def _attend(self, number: int) -> list[str] | None:
        if number == self._server.fileno():
            line, _ = self._server.accept()
            self._asking[line.fileno()] = line
            self._watch(line.fileno())
        elif number in self._asking:
            self._poll.unregister(number)
            return self._fork(self._asking.pop(number))
        elif number in self._stood_for:  # by nobody any more
            self._poll.unregister(number)
            signal.pidfd_send_signal(self._stood_for.pop(number), signal.SIGKILL)
        elif number in self._made:
            self._bury(number)
        elif number == self._founder:
            self._poll.unregister(number)
            self._founder = 0
        return None

    def _fork(self, line: socket) -> list[str] | None:
        if _peer(line) is None or not (received := _received(line)):
            line.close()
            return None
        place, descriptors = received
        process = _forked()
        if process == 0:
            for each in (self._server, line, *self._asking.values(), *(fork.line for fork in self._made.values())):
                each.close()
            _take(place, descriptors, self._process)
            return place.words
        for descriptor in descriptors:
            os.close(descriptor)
        if process is None:
            line.close()
            return None
        handle = os.pidfd_open(process)
        self._made[handle], self._stood_for[line.fileno()] = _Fork(process, line), handle
        self._watch(handle)
        self._watch(line.fileno())
        with suppress(OSError):
            line.send(FORKED.pack(process, self._process))
        return None

    def _bury(self, handle: int) -> None:
        process, line = self._made.pop(handle)
        status = os.waitpid(process, 0)[1]
        with suppress(OSError):
            line.send(ENDED.pack(status))
            if stands := _peer(line):
                os.kill(stands, signal.SIGCONT)  # it may have been stopped
        if self._stood_for.pop(line.fileno(), None):
            self._poll.unregister(line.fileno())
        line.close()
        self._poll.unregister(handle)
        os.close(handle)


def _received(line: socket) -> tuple[_Place, list[int]] | None:
    """What was handed over, and the descriptors; None: nothing, or not all of it."""
    descriptors = array("i")
    try:
        text, more, _, _ = line.recvmsg(LARGEST, 4096)
    except OSError:
        return None
    for _, _, numbers in more:
        descriptors.frombytes(numbers)
    if not text or len(descriptors) != KEPT + 2:
        for descriptor in descriptors:
            os.close(descriptor)
        return None
    return _Place(*marshal.loads(text)), descriptors.tolist()


def _take(place: _Place, descriptors: list[int], above: int) -> None:
    """Be the process whose place it is."""
    import numpy as np

    launching.end_with_parent(signal.SIGKILL)
    if os.getppid() != above:
        os._exit(launching.FAILED)
    *streams, here = descriptors
    os.fchdir(here)
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    close_from(KEPT + 1)
    os.environb.clear()
    os.environb.update(place.environment)
    os.environ[LINE] = str(KEPT)
    with suppress(OSError):  # they may be others' by now
        os.sched_setaffinity(0, place.cores)
    for number in PASSED_ON:
        kept = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, signal.SIG_IGN if number in place.ignored else kept)
    np.random.seed()  # noqa: NPY002 (of whoever uses NumPy's own generator, which all forks would have alike)
    launching.stand_in_for(launching.Origin(*place.origin))


def _import_all() -> None:
    """What every agent needs, once for all; MPI is not begun by it."""
    import mpi4py

    mpi4py.rc(initialize=False, finalize=True)
    for name in ("mpi4py.MPI", "numpy.random", *(f"mpinodes.{module}" for module in COMMON)):
        import_module(name)
