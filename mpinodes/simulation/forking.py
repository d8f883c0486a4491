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

from mpinodes.simulation import launching
from mpinodes.simulation.watcher import handle

LINE = "PMI_FD"  # names the descriptor of the line to mpirun
PATIENCE = 10.0  # seconds between the name of the one that forks being taken and it being there
STREAMS = 3
COMMON = (
    "config.building",
    "formats.shelf",
    "losses.enforced",
    "mechanisms.backends",
    "simulation.job",
    "simulation.network",
    "streams.labelled",
    "topology.stored",
)
LARGEST = 1 << 20  # bytes of what is handed over
PASSED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM)
NUMBER, WHO = Struct("i"), Struct("3i")  # a process or what became of it; process, user and group


class _Place(NamedTuple):
    """What a process hands over."""

    origin: launching.Origin
    words: list[str]
    environment: dict[bytes, bytes]
    directory: bytes
    cores: list[int]


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
    address = _address()
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if line := _connected(address):
            _hand_over(line, words)
            break
        if server := _bound(address):
            if os.fork() == 0:
                return _Forks(server).words()
            server.close()
        time.sleep(0.001)
    return words


def _is_watched() -> bool:
    monitoring = getattr(sys, "monitoring", None)  # Python 3.12 on
    return bool(sys.gettrace() or sys.getprofile() or (monitoring and any(map(monitoring.get_tool, range(6)))))


def _address() -> bytes:
    """In no file system; one for each parent of ranks and each Python, program and mpinodes that these run."""
    alike = crc32(repr((sys.executable, sys.flags, sys.path, sys.argv[0], __file__)).encode(errors="replace"))
    return f"\0mpinodes-forks-{os.getuid()}-{os.getppid()}-{alike}".encode()


def _bound(address: bytes) -> socket | None:
    server = socket(AF_UNIX, SOCK_SEQPACKET)
    try:
        server.bind(address)
        server.listen(4096)
    except OSError:
        server.close()
        return None
    return server


def _connected(address: bytes) -> socket | None:
    line = socket(AF_UNIX, SOCK_SEQPACKET)
    try:
        line.connect(address)
    except OSError:
        line.close()
        return None
    return line


def _is_ours(line: socket) -> bool:
    """Whether the other end is a process of the same user: such a name anybody may take, or ask for."""
    user: int = WHO.unpack(line.getsockopt(SOL_SOCKET, SO_PEERCRED, WHO.size))[1]
    return user == os.getuid()


def _hand_over(line: socket, words: list[str]) -> None:
    """Ask for a fork and stand for it; comes back if there is none."""
    place = _Place(launching.origin(), words, dict(os.environb), os.getcwdb(), [*os.sched_getaffinity(0)])
    descriptors = array("i", [0, 1, 2, int(os.environ[LINE])])
    try:
        if not _is_ours(line):
            return
        line.sendmsg([marshal.dumps((tuple(place.origin), *place[1:]))], [(SOL_SOCKET, SCM_RIGHTS, descriptors)])
        answer = line.recv(NUMBER.size)
        if answer:
            _stand_for(handle(NUMBER.unpack(answer)[0]), line)
    except OSError:
        return
    finally:
        line.close()


def _stand_for(fork: int, line: socket) -> NoReturn:
    """Pass signals on to a fork, by its pidfd, and end as it does."""

    def pass_on(number: int, frame: Any) -> None:
        with suppress(OSError):  # it is gone
            signal.pidfd_send_signal(fork, number)

    for number in PASSED_ON:
        signal.signal(number, pass_on)
    try:
        answer = line.recv(NUMBER.size)
    except OSError:
        answer = b""
    status = NUMBER.unpack(answer)[0] if answer else signal.SIGKILL  # which it dies of where who forked it is gone
    if os.WIFSIGNALED(status):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with suppress(OSError):  # of SIGKILL
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


class _Forks:
    """The process that forks, until all who asked are gone."""

    def __init__(self, server: socket) -> None:
        self._server: Any = server
        self._founder, self._process, self._poll = os.getppid(), os.getpid(), select.poll()
        self._asking: dict[int, socket] = {}  # by descriptor
        self._made: dict[int, _Fork] = {}  # by pidfd
        self._stood_for: dict[int, int] = {}  # pidfds by the descriptor of the line

    def words(self) -> list[str]:
        """In a fork the words of its command; elsewhere this does not come back."""
        try:
            self._settle()
            while True:
                ready = [number for number, _ in self._poll.poll(1000)]
                if not ready and not self._asking and not self._made and os.getppid() != self._founder:
                    break
                for number in ready:
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
        for stream in range(STREAMS):
            os.dup2(nowhere, stream)
        kept = os.dup2(self._server.detach(), STREAMS)
        os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))
        self._server = whole_socket(fileno=kept)
        self._watch(kept)
        os.close(os.pidfd_open(self._process))  # where there is none, nobody is to be promised a fork
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
        return None

    def _fork(self, line: socket) -> list[str] | None:
        if not _is_ours(line) or not (received := _received(line)):
            line.close()
            return None
        place, descriptors = received
        process = os.fork()
        if process == 0:
            for each in (self._server, line, *self._asking.values(), *(fork.line for fork in self._made.values())):
                each.close()
            _take(place, descriptors, self._process)
            return place.words
        for descriptor in descriptors:
            os.close(descriptor)
        handle = os.pidfd_open(process)
        self._made[handle], self._stood_for[line.fileno()] = _Fork(process, line), handle
        self._watch(handle)
        self._watch(line.fileno())
        with suppress(OSError):
            line.send(NUMBER.pack(process))
        return None

    def _bury(self, handle: int) -> None:
        process, line = self._made.pop(handle)
        status = os.waitpid(process, 0)[1]
        with suppress(OSError):
            line.send(NUMBER.pack(status))
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
    if not text or len(descriptors) != STREAMS + 1:
        for descriptor in descriptors:
            os.close(descriptor)
        return None
    return _Place(*marshal.loads(text)), descriptors.tolist()


def _take(place: _Place, descriptors: list[int], above: int) -> None:
    """Be the process whose place it is."""
    launching.end_with_parent(signal.SIGKILL)
    if os.getppid() != above:
        os._exit(launching.FAILED)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    os.closerange(len(descriptors), os.sysconf("SC_OPEN_MAX"))
    os.environb.clear()
    os.environb.update(place.environment)
    os.environ[LINE] = str(STREAMS)
    os.chdir(place.directory)
    os.sched_setaffinity(0, place.cores)
    for number in PASSED_ON:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    launching.stand_in_for(launching.Origin(*place.origin))


def _import_all() -> None:
    """What every agent needs, once for all; MPI is not begun by it."""
    import mpi4py

    mpi4py.rc(initialize=False, finalize=True)
    for name in ("mpi4py.MPI", "numpy.random", *(f"mpinodes.{module}" for module in COMMON)):
        import_module(name)
