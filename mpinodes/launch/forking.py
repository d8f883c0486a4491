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
import mmap
import os
import select
import signal
import sys
import time
from contextlib import suppress
from importlib import import_module
from socket import AF_UNIX, SO_PEERCRED, SOCK_SEQPACKET, SOL_SOCKET, recv_fds, send_fds, socket
from struct import Struct
from typing import NamedTuple, NoReturn
from zlib import crc32

from mpinodes.launch import launching

LINE = "PMI_FD"  # names the descriptor of the line to mpirun
PATIENCE = 10.0  # seconds between the address of the server being taken and the server being there
STREAMS = range(3)
LINE_OF_FORK = 3  # descriptor
COMMON = ("config.building", "data.shelf", "losses.enforced", "rounds.agent", "running.job", "streams.labelled")
LARGEST = 1 << 20  # bytes of what is handed over
PASSED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM)
CREDENTIALS = Struct("3i")  # process, user and group
LOST = -1  # in the place of an exit status: the fork ended without Python's own end


class _Fork(NamedTuple):
    process: int
    original: int  # process
    line: int  # descriptor of the socket to the original
    is_over: mmap.mmap  # a byte that the fork sets when Python ends in order


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
    until = time.monotonic() + PATIENCE
    with suppress(OSError):
        address = _address()
        while time.monotonic() < until:
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
    """Return the address of a socket, in no file system, that only like ranks of this job and host know.

    Such addresses are the network's: jobs of containers that share it are told apart by their other namespaces.
    """
    with socket(AF_UNIX, fileno=os.dup(int(os.environ[LINE]))) as line:
        proxy = _peer(line)  # which has started all ranks of this host
    spaces = [os.stat(f"/proc/self/ns/{kind}").st_ino for kind in ("mnt", "pid")]
    alike = crc32(repr((sys.executable, sys.flags, sys.path, sys.argv[0], __file__)).encode(errors="replace"))
    return f"\0mpinodes-{os.getuid()}-{proxy}-{spaces}-{alike}".encode()


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
    place = words, dict(os.environb), [*os.sched_getaffinity(0)], os.getcwd()
    send_fds(line, [marshal.dumps(place)], [*STREAMS, int(os.environ[LINE])])
    try:
        answer = line.recv(16)
    except TimeoutError:
        os.kill(server, signal.SIGKILL)  # or mpirun would wait for what the server holds of a rank
        launching.say(f"error: no word from process {server}, which starts the ranks; {launching.LONGER}")
        os._exit(launching.OVERDUE)  # and not go on: there may be a fork of this rank later
    line.settimeout(None)
    return _stand_for(int(answer), line) if answer else words


def _stand_for(fork: int, line: socket) -> NoReturn:
    """Pass signals on to a fork, and end as it does."""

    def pass_on(number: int, frame: object = None) -> None:
        with suppress(OSError):  # it is gone
            os.kill(fork, number)

    for number in PASSED_ON:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, pass_on)
    answer = b""
    with suppress(OSError):
        answer = line.recv(16)
    if not answer:  # the server is gone
        pass_on(signal.SIGKILL)
    status = int(answer or signal.SIGKILL)
    if status == LOST:
        launching.say(f"error: rank {os.environ['PMI_RANK']} (process {fork}) ended itself, as os._exit() does")
        os._exit(launching.FAILED)
    if os.WIFEXITED(status):
        os._exit(os.WEXITSTATUS(status))
    deadly = os.WTERMSIG(status)
    if deadly == signal.SIGALRM:
        launching.say(f"error: {launching.NOT_STARTED}")
        os._exit(launching.OVERDUE)
    with suppress(OSError):  # of SIGKILL
        signal.signal(deadly, signal.SIG_DFL)
    os.kill(os.getpid(), deadly)
    os._exit(launching.FAILED)


class _Server:
    """The process that forks, until all originals are gone.

    Args:
        door: the socket to which originals connect.
    """

    def __init__(self, door: socket) -> None:
        self._door, self._poll = door, select.poll()
        self._forks: dict[int, _Fork] = {}  # by pidfd

    def words(self) -> list[str]:
        """Return the words of its command in a fork; elsewhere this does not come back."""
        server = os.getpid()
        try:
            os.setpgid(0, 0)
            nowhere, founder = os.open(os.devnull, os.O_RDWR), os.pidfd_open(os.getppid())
            for stream in (*STREAMS, int(os.environ[LINE])):
                os.dup2(nowhere, stream)
            import mpi4py
            import numpy.random  # noqa: F401

            mpi4py.rc(initialize=False, finalize=True)
            for name in COMMON:
                import_module(f"mpinodes.{name}")
            gc.freeze()
            for number in (self._door.fileno(), founder):
                self._poll.register(number, select.POLLIN)
            is_founded = True
            while self._forks or is_founded:
                number = self._poll.poll()[0][0]  # what ends with this one may be among the others
                if number == self._door.fileno():
                    if words := self._fork(self._door.accept()[0]):
                        return words[0]
                elif number in self._forks:
                    self._bury(number)
                else:  # the founder or an original is gone
                    self._poll.unregister(number)
                    is_founded = is_founded and number != founder
                    for handle in [handle for handle, fork in self._forks.items() if fork.line == number]:
                        signal.pidfd_send_signal(handle, signal.SIGKILL)
        except BaseException:
            if os.getpid() != server:
                raise
        os._exit(0)

    def _fork(self, line: socket) -> list[list[str]]:
        """Fork for the original at the other end; return the words of its command in the fork."""
        descriptors: list[int] = []
        process, is_over = 0, mmap.mmap(-1, 1)
        try:
            line.settimeout(PATIENCE)
            original = _peer(line)
            text, descriptors, _, _ = recv_fds(line, LARGEST, len(STREAMS) + 1)
            words, environment, cores, directory = marshal.loads(text)
            os.chdir(directory)
            process = os.fork()
            if process == 0:
                line.close()
                self._door.close()
                _take(environment, cores, descriptors, is_over)
                return [words]
            handle = os.pidfd_open(process)
            line.send(str(process).encode())
            self._forks[handle] = _Fork(process, original, line.detach(), is_over)
            self._poll.register(handle, select.POLLIN)
            self._poll.register(self._forks[handle].line, select.POLLIN)
        except (OSError, EOFError, ValueError, TypeError):  # the original goes on by itself
            if process:
                os.kill(process, signal.SIGKILL)
            line.close()
        for descriptor in descriptors:
            os.close(descriptor)
        return []

    def _bury(self, handle: int) -> None:
        """Tell the original of a fork how it ended."""
        fork = self._forks.pop(handle)
        status = os.waitpid(fork.process, 0)[1]
        with suppress(OSError):
            os.write(fork.line, str(status if fork.is_over[0] or os.WIFSIGNALED(status) else LOST).encode())
            os.kill(fork.original, signal.SIGCONT)  # it may have been stopped
        for number in (handle, fork.line):
            with suppress(KeyError):
                self._poll.unregister(number)
            os.close(number)


def _take(environment: dict[bytes, bytes], cores: list[int], descriptors: list[int], is_over: mmap.mmap) -> None:
    """Become the rank that handed this over."""
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
    server = os.getppid()

    @atexit.register
    def leave() -> None:
        is_over[0] = 1
        with suppress(OSError):
            os.kill(server, signal.SIGCONT)  # it may have been stopped
