"""Ranks that take turns on the cores of a host as forks of one process: MPICH's mpirun starts each by itself.

Forks of one process import once, and lie at the same addresses: the rank whose turn it is has what the processor learnt
of the branches of the others. And forks share a session. Linux shares a core among sessions, and only then among the
processes of each (sched(7), "the autogroup feature"): a rank alone in its session, as mpirun has it, that yields does
so to nobody, and spins until it has had as much of the core as all others.

Three kinds of processes take part. The *original* is what mpirun started as a rank. It connects to the *server*, which
the first original has forked, and hands over all that makes it this rank: words, environment, directory, standard
streams, the line to mpirun. The server makes a *fork* of it, which does the rank's work as if mpirun had started it.
The original passes signals on to its fork, and ends as that one ends. The socket between original and server tells
each of them when the other one dies; then the fork is killed. Where anything fails before there is a fork, the original
does the work itself.
"""

from __future__ import annotations

import atexit
import gc
import marshal
import os
import resource
import select
import signal
import sys
import time
from contextlib import suppress
from importlib import import_module
from socket import AF_UNIX, SO_PEERCRED, SOCK_SEQPACKET, SOL_SOCKET, recv_fds, send_fds, socket
from struct import Struct
from typing import Any, NamedTuple, NoReturn
from zlib import crc32

from mpinodes.launch import launching

LINE = "PMI_FD"  # names the descriptor of the line to mpirun
PATIENCE = 10.0  # seconds between the address of the server being taken and it being there
STREAMS = range(3)
KEPT = 3  # descriptor: of the line to mpirun in a fork, of its own socket in the server
COMMON = (
    "mpi4py.MPI",
    "numpy.random",
    "mpinodes.config.building",
    "mpinodes.data.shelf",
    "mpinodes.losses.enforced",
    "mpinodes.mechanisms.backends",
    "mpinodes.rounds.agent",
    "mpinodes.running.job",
    "mpinodes.streams.labelled",
    "mpinodes.topology.stored",
)
LARGEST = 1 << 20  # bytes of what is handed over
PASSED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM)
CREDENTIALS = Struct("3i")  # process, user and group
LEFT = b"left"  # what a fork says that ends in order


class _Place(NamedTuple):
    """What an original hands over."""

    words: list[str]
    environment: dict[bytes, bytes]
    cores: list[int]
    ignored: list[int]  # signals


class _Fork(NamedTuple):
    process: int
    line: socket  # to its original
    rank: str
    pipe: int  # in which it says `LEFT`


def fork_with_others(words: list[str]) -> list[str]:
    """Go on in a fork of the server of this host, where mpirun started ranks that `launching.take_turns`.

    Not where a debugger, a profiler or coverage looks on: it would see the original alone.

    Args:
        words: of this process' command.

    Returns:
        The same; in a fork, those of its original.
    """
    monitoring = getattr(sys, "monitoring", None)  # Python 3.12 on
    if sys.gettrace() or sys.getprofile() or (monitoring and any(map(monitoring.get_tool, range(6)))):
        return words
    alike = crc32(repr((sys.executable, sys.flags, sys.path, sys.argv[0], __file__)).encode(errors="replace"))
    until = time.monotonic() + PATIENCE
    launching.process_began()  # so that forks know it
    with suppress(OSError):
        address = launching.address(f"forks-{alike}")
        while time.monotonic() < until:
            line = socket(AF_UNIX, SOCK_SEQPACKET)
            with suppress(ConnectionRefusedError):
                line.connect(address)
                return _hand_over(line, words)
            if _is_bound(line, address) and os.fork() == 0:
                return _Server(line).words()
            line.close()
            time.sleep(0.001)
    return words


def _is_bound(line: socket, address: bytes) -> bool:
    try:
        line.bind(address)
        line.listen(4096)
    except OSError:  # another original was first
        return False
    return True


def _peer(line: socket) -> int:
    """Return the process at the other end.

    Raises:
        OSError: it is another user's, for anybody may take such an address, or ask for it.
    """
    process, user, _ = CREDENTIALS.unpack(line.getsockopt(SOL_SOCKET, SO_PEERCRED, CREDENTIALS.size))
    if user != os.getuid():
        raise PermissionError(f"process {process} is not ours")
    return int(process)


def _hand_over(line: socket, words: list[str]) -> list[str]:
    """Ask for a fork and stand for it; return the words if there is none."""
    server, limit = _peer(line), launching.deadline_of(words) or launching.START
    line.settimeout(max(limit, PATIENCE))
    ignored = [int(number) for number in PASSED_ON if signal.getsignal(number) == signal.SIG_IGN]
    place = _Place(words, dict(os.environb), [*os.sched_getaffinity(0)], ignored)
    here = os.open(".", os.O_PATH)  # which may have been removed, or be beyond what its path leads to
    try:
        send_fds(line, [marshal.dumps(tuple(place))], [*STREAMS, int(os.environ[LINE]), here])
    finally:
        os.close(here)
    try:
        answer = line.recv(64)
    except TimeoutError:
        launching.say(f"error: no word from process {server}, which starts the ranks; {launching.LONGER}")
        os._exit(launching.OVERDUE)  # and not go on: there may be a fork of this rank later
    line.settimeout(None)
    return words if answer in (b"", b"0") else _stand_for(int(answer), line)


def _stand_for(fork: int, line: socket) -> NoReturn:
    """Pass signals on to a fork, and end as it does."""

    def pass_on(number: int, frame: Any) -> None:
        with suppress(OSError):  # it is gone
            os.kill(fork, number)

    for number in PASSED_ON:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, pass_on)
    text = b""
    with suppress(OSError):
        text = line.recv(4096)
    if not text:  # the server is gone
        pass_on(signal.SIGKILL, None)
    status, _, why = text.decode().partition(" ")
    if why:
        launching.say(f"error: {why}")
    deadly = os.WTERMSIG(int(status or signal.SIGKILL))
    if deadly == signal.SIGALRM:
        os._exit(launching.OVERDUE)
    if deadly:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with suppress(OSError):  # of SIGKILL
            signal.signal(deadly, signal.SIG_DFL)
        os.kill(os.getpid(), deadly)
    os._exit(os.WEXITSTATUS(int(status)))


class _Server:
    """The process that forks, until all originals are gone."""

    def __init__(self, line: socket) -> None:
        self._line, self._process, self._poll = line, os.getpid(), select.poll()
        self._asking: dict[int, socket] = {}  # by descriptor
        self._made: dict[int, _Fork] = {}  # by pidfd
        self._stood_for: dict[int, int] = {}  # pidfds by the descriptor of the line

    def words(self) -> list[str]:
        """In a fork the words of its command; elsewhere this does not come back."""
        try:
            os.setpgid(0, 0)
            for ignored in PASSED_ON:
                signal.signal(ignored, signal.SIG_IGN)
            nowhere, founder = os.open(os.devnull, os.O_RDWR), os.pidfd_open(os.getppid())
            for stream in STREAMS:
                os.dup2(nowhere, stream)
            os.close(nowhere)
            os.close(int(os.environ[LINE]))
            for number in (self._line.fileno(), founder):
                self._poll.register(number, select.POLLIN)
            import mpi4py

            mpi4py.rc(initialize=False, finalize=True)
            for name in COMMON:
                import_module(name)
            gc.freeze()
            there = {founder}
            while there or self._asking or self._made:
                for number, _ in self._poll.poll():
                    there.discard(number)
                    if (words := self._attend(number)) is not None:
                        return words
        except BaseException:
            if os.getpid() != self._process:
                raise
        os._exit(0)

    def _attend(self, number: int) -> list[str] | None:
        if number == self._line.fileno():
            line, _ = self._line.accept()
            self._asking[line.fileno()] = line
            self._poll.register(line, select.POLLIN)
            return None
        if number in self._made:
            self._bury(number)
            return None
        if number in self._asking:
            return self._fork(self._asking.pop(number))
        self._poll.unregister(number)
        if number in self._stood_for:  # its original is gone
            signal.pidfd_send_signal(self._stood_for.pop(number), signal.SIGKILL)
        return None

    def _fork(self, line: socket) -> list[str] | None:
        """Return the words of its command in a fork; None in the server."""
        descriptors: list[int] = []
        try:
            _peer(line)
            text, descriptors, _, _ = recv_fds(line, LARGEST, KEPT + 2)
            place = _Place(*marshal.loads(text))
            pipe, end = os.pipe()
            descriptors.append(end)
            process = os.fork()
            if process == 0:
                for each in (self._line, line, *self._asking.values(), *(fork.line for fork in self._made.values())):
                    each.close()
                _take(place, descriptors)
                return place.words
            line.send(str(process).encode())
            handle = os.pidfd_open(process)
            os.set_blocking(pipe, False)
            rank = place.environment.get(b"PMI_RANK", b"").decode()
            self._made[handle], self._stood_for[line.fileno()] = _Fork(process, line, rank, pipe), handle
            self._poll.register(handle, select.POLLIN)
        except (OSError, EOFError, ValueError, TypeError):
            self._poll.unregister(line)
            line.close()
        for descriptor in descriptors:
            os.close(descriptor)
        return None

    def _bury(self, handle: int) -> None:
        fork = self._made.pop(handle)
        status = os.waitpid(fork.process, 0)[1]
        left, why = b"", ""
        with suppress(OSError):
            left = os.read(fork.pipe, len(LEFT))
        os.close(fork.pipe)
        if os.WIFEXITED(status) and not left:
            why = f"rank {fork.rank} (process {fork.process}) ended itself with exit code {os.WEXITSTATUS(status)} and "
            status, why = launching.FAILED << 8, f"{why}without a word, as os._exit() does"
        elif os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM:
            why = self._stopped()
        with suppress(OSError):
            fork.line.send(f"{status} {why}".encode())
            os.kill(_peer(fork.line), signal.SIGCONT)  # it may have been stopped
        if self._stood_for.pop(fork.line.fileno(), None):
            self._poll.unregister(fork.line)
        fork.line.close()
        self._poll.unregister(handle)
        os.close(handle)

    def _stopped(self) -> str:
        """Name the forks that were stopped, for which MPI waits as it starts or ends; empty: there is none."""
        forks = [fork for fork in self._made.values() if os.waitid(os.P_PID, fork.process, os.WSTOPPED | os.WNOHANG)]
        names = ", ".join(f"rank {fork.rank} (process {fork.process})" for fork in forks)
        return f"no word from {names}, which was stopped, as MPI starts or ends; {launching.LONGER}" if names else ""


def _take(place: _Place, descriptors: list[int]) -> None:
    """Become the rank whose place this is."""
    import numpy as np

    *streams, here, pipe = descriptors
    os.fchdir(here)
    for number, descriptor in enumerate([*streams, pipe]):
        os.dup2(descriptor, number)
    os.closerange(KEPT + 2, max(map(int, os.listdir("/proc/self/fd"))) + 1)
    os.environb.clear()
    os.environb.update(place.environment)
    os.environ[LINE] = str(KEPT)
    with suppress(OSError):  # they may be others' by now
        os.sched_setaffinity(0, place.cores)
    for number in PASSED_ON:
        kept = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, signal.SIG_IGN if number in place.ignored else kept)
    np.random.seed()  # noqa: NPY002 (of whoever uses NumPy's own generator, which all forks would have alike)
    server = os.getppid()

    @atexit.register
    def leave() -> None:
        with suppress(OSError):
            os.write(KEPT + 1, LEFT)
            os.kill(server, signal.SIGCONT)  # it may have been stopped
