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
import signal
import struct
import sys
import time
from contextlib import suppress
from importlib import import_module
from selectors import EVENT_READ, DefaultSelector
from socket import AF_UNIX, SO_PEERCRED, SOCK_SEQPACKET, SOL_SOCKET, recv_fds, send_fds, socket
from typing import NamedTuple, NoReturn

from mpinodes.launch import launching

LINE = "PMI_FD"  # names the descriptor of the line to mpirun
PATIENCE = 10.0  # seconds between the address of the server being taken and the server being there
STREAMS = range(3)
LINE_OF_FORK = 3  # descriptor
COMMON = ("config.building", "data.shelf", "losses.enforced", "rounds.agent", "running.job", "streams.labelled")
LARGEST = 1 << 20  # bytes of what is handed over
PASSED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM)


class _Fork(NamedTuple):
    process: int
    rank: str
    handle: int  # pidfd
    original: int  # process
    line: socket  # to the original


def fork_with_others(words: list[str]) -> list[str]:
    """Go on in a fork of the server of this host, where mpirun started ranks that `launching.take_turns`.

    A debugger, a profiler or coverage would see the original alone; where one looks on, there are no forks.

    Args:
        words: of this process' command.

    Returns:
        The same; in a fork, those of its original.
    """
    monitoring = getattr(sys, "monitoring", None)  # Python 3.12 on
    if sys.gettrace() or sys.getprofile() or (monitoring and any(map(monitoring.get_tool, range(6)))):
        return words
    with suppress(OSError):
        address = _address()
        for _ in range(int(1000 * PATIENCE)):
            line = socket(AF_UNIX, SOCK_SEQPACKET)
            with suppress(ConnectionRefusedError):
                line.connect(address)
                return _hand_over(line, words)
            with suppress(OSError):  # another original was first
                line.bind(address)
                if os.fork() == 0:
                    line.listen(4096)
                    return _Server(line).words()
            line.close()
            time.sleep(0.001)
    return words


def _address() -> bytes:
    """Return the address of a socket, in no file system, that only ranks of this job and host know.

    Such addresses are the network's: jobs of containers that share it are told apart by their other namespaces.
    """
    with socket(AF_UNIX, fileno=os.dup(int(os.environ[LINE]))) as line:
        proxy = _peer(line)  # which has started all ranks of this host
    spaces = [os.stat(f"/proc/self/ns/{kind}").st_ino for kind in ("mnt", "pid")]
    return f"\0mpinodes-{os.getuid()}-{proxy}-{spaces}".encode()


def _peer(line: socket) -> int:
    """Return the process at the other end.

    Raises:
        OSError: it is another user's, for anybody may take such an address, or ask for it.
    """
    process, user, _group = struct.unpack("3i", line.getsockopt(SOL_SOCKET, SO_PEERCRED, struct.calcsize("3i")))
    if user != os.getuid():
        raise PermissionError(f"process {process} is not ours")
    return int(process)


def _hand_over(line: socket, words: list[str]) -> list[str]:
    """Ask for a fork and stand for it; return the words if there is none."""
    server, limit = _peer(line), launching.deadline_of(words) or launching.START
    line.settimeout(max(limit, PATIENCE))
    place = words, dict(os.environb), [*os.sched_getaffinity(0)], os.getcwd()
    send_fds(line, [marshal.dumps(place)], [*STREAMS, int(os.environ[LINE])])
    try:
        answer = line.recv(16)
    except TimeoutError:
        os.kill(server, signal.SIGKILL)  # or there may be a fork of this rank later, beside this process
        raise
    line.settimeout(None)
    return _stand_for(int(answer), line) if answer else words


def _stand_for(fork: int, line: socket) -> NoReturn:
    """Pass signals on to a fork, and end as it does."""

    def pass_on(number: int, frame: object = None) -> None:
        with suppress(OSError):  # it is gone
            os.kill(fork, number)

    for number in PASSED_ON:  # a signal that is ignored here is ignored there
        signal.signal(number, pass_on)
    answer = b""
    with suppress(OSError):
        answer = line.recv(LARGEST)
    if not answer:  # the server is gone
        pass_on(signal.SIGKILL)
    code, stopped = marshal.loads(answer) if answer else (-signal.SIGKILL, [])
    if code >= 0:
        os._exit(code)
    if -code == signal.SIGALRM:
        launching.say(f"error: {launching.NOT_STARTED}; stopped here: {', '.join(stopped) or 'no rank'}")
        os._exit(launching.OVERDUE)
    with suppress(OSError):  # of SIGKILL
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
    os._exit(launching.FAILED)


class _Server:
    """The process that forks, until all forks are gone.

    Args:
        door: the socket to which originals connect.
    """

    def __init__(self, door: socket) -> None:
        self._door, self._selector = door, DefaultSelector()
        self._forks: list[_Fork] = []

    def words(self) -> list[str]:
        """Return the words of its command in a fork; elsewhere this does not come back."""
        server = os.getpid()
        try:
            os.setpgid(0, 0)
            nowhere = os.open(os.devnull, os.O_RDWR)
            for stream in (*STREAMS, int(os.environ[LINE])):
                os.dup2(nowhere, stream)
            import mpi4py
            import numpy.random  # noqa: F401

            mpi4py.rc(initialize=False, finalize=True)
            for name in COMMON:
                import_module(f"mpinodes.{name}")
            gc.freeze()
            self._selector.register(self._door, EVENT_READ)
            while ready := self._selector.select(None if self._forks else PATIENCE):
                key = ready[0][0]  # what ends with this one may be among the others
                fork: _Fork | None = key.data
                if fork is None:
                    if rank := self._fork(self._door.accept()[0]):
                        return _take(*rank)
                elif key.fd == fork.handle:
                    self._bury(fork)
                else:  # the original is gone
                    self._selector.unregister(fork.line)
                    signal.pidfd_send_signal(fork.handle, signal.SIGKILL)
        except BaseException:
            if os.getpid() != server:
                raise
        os._exit(0)

    def _fork(self, line: socket) -> tuple[list[str], dict[bytes, bytes], list[int], list[int]] | None:
        """Fork for the original at the other end; return, in the fork, what the original has handed over."""
        descriptors: list[int] = []
        with suppress(OSError, EOFError, ValueError, TypeError):  # the line is closed: the original goes on by itself
            line.settimeout(PATIENCE)
            original = _peer(line)
            text, descriptors, _, _ = recv_fds(line, LARGEST, len(STREAMS) + 1)
            words, environment, cores, directory = marshal.loads(text)
            os.chdir(directory)
            if (process := os.fork()) == 0:
                return words, environment, cores, descriptors
            fork = _Fork(process, environment[b"PMI_RANK"].decode(), os.pidfd_open(process), original, line)
            self._forks.append(fork)
            self._selector.register(fork.handle, EVENT_READ, fork)
            self._selector.register(line, EVENT_READ, fork)
            line.send(str(process).encode())
        for descriptor in descriptors:
            os.close(descriptor)
        return None

    def _bury(self, fork: _Fork) -> None:
        """Tell the original of a fork how it ended, and which other forks are stopped, for whom it may have waited."""
        status, look = os.waitpid(fork.process, 0)[1], os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT
        self._forks.remove(fork)
        states = [(other, os.waitid(os.P_PID, other.process, look)) for other in self._forks]
        stopped = [other for other, state in states if state and state.si_code == os.CLD_STOPPED]
        names = [f"rank {other.rank} (process {other.process})" for other in stopped]
        with suppress(OSError):
            fork.line.send(marshal.dumps((os.waitstatus_to_exitcode(status), names)))
            os.kill(fork.original, signal.SIGCONT)  # it may have been stopped
        self._selector.unregister(fork.handle)
        with suppress(KeyError):
            self._selector.unregister(fork.line)
        os.close(fork.handle)
        fork.line.close()
        if not self._forks:
            os._exit(0)


def _take(words: list[str], environment: dict[bytes, bytes], cores: list[int], descriptors: list[int]) -> list[str]:
    """Become the rank that handed this over; return the words of its command."""
    import numpy as np

    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    os.closerange(LINE_OF_FORK + 1, max(map(int, os.listdir("/proc/self/fd"))) + 1)
    os.environb.clear()
    os.environb.update(environment)
    os.environ[LINE] = str(LINE_OF_FORK)
    with suppress(OSError):  # they may be others' by now
        os.sched_setaffinity(0, cores)
    np.random.seed()  # noqa: NPY002 (of whoever uses NumPy's own generator, which all forks would have alike)
    atexit.register(os.kill, os.getppid(), signal.SIGCONT)  # the server may have been stopped
    return words
