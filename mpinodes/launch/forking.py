"""Run ranks as forks of one process, if MPICH's mpirun started more ranks on a host than there are cores for them.

Ranks run faster as forks of one process than as separate processes of mpirun. There are three kinds of processes:

- The *original* is the process that mpirun started as a rank.
- The *server* is a fork of the first original on the host.
- A *fork* of the server does the work of a rank as if mpirun had started the fork. There is one fork for each original.

Each original connects to the server and sends the state that defines the rank: command-line words, environment,
directory, cores, standard streams, and the connection to mpirun. The server then creates the fork.

- The original passes the signals in `PASSED_ON` on to its fork, and ends with the same exit code or signal as the fork.
- If MPI does not start or end in time, SIGALRM ends the fork. The original then prints an error and ends with exit code
  4.
- If the original or the server dies, the fork is killed.
- If an error occurs before the fork exists, the original does the work itself.
"""

# Forks of one process are faster for two reasons. First, most modules are imported only once, and the code has the same
# addresses in all forks, which helps the core's branch predictor. Second, forks share a session. mpirun starts a new
# session for each rank, and Linux divides a core among sessions before it divides the core among processes (sched(7),
# "the autogroup feature"). So `sched_yield` in a separate rank yields to no other rank.

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
from typing import NamedTuple

from mpinodes.launch import launching

LINE = "PMI_FD"  # the environment variable that contains the file descriptor of the connection to mpirun
PATIENCE = 10.0  # seconds that a server may take from binding its address to accepting connections
STREAMS, LINE_OF_FORK = range(3), 3  # file descriptors in every fork: standard streams, connection to mpirun
COMMON = ("config.building", "data.shelf", "losses.enforced", "rounds.agent", "running.job", "streams.labelled")
LARGEST = 1 << 20  # the largest size of a message between original and server, in bytes
PASSED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM)


class _Fork(NamedTuple):
    """Hold the facts that the server knows about a fork.

    Attributes:
        process: the process id of the fork.
        handle: the pidfd of the fork, which becomes readable when the fork ends.
        original: the process id of the original (the process that mpirun started).
        line: the socket that connects the server to the original.
    """

    process: int
    handle: int
    original: int
    line: socket


def fork_with_others(words: list[str]) -> list[str]:
    """Continue the work of this rank in a new process, a fork of the server process of this host.

    The process that mpirun started waits until its fork ends, and ends in the same way. If a debugger, a profiler or
    coverage is active, or an error occurs, no fork is created. This function must be called only if
    `has_more_ranks_than_cores` returns true.

    Args:
        words: the command-line words of this process.

    Returns:
        The command-line words of the rank whose work the process does. In a process that has a fork, this function does
        not return.
    """
    # A debugger, a profiler or coverage would observe only the original.
    monitoring = getattr(sys, "monitoring", None)  # Python 3.12 on
    if sys.gettrace() or sys.getprofile() or (monitoring and any(map(monitoring.get_tool, range(6)))):
        return words
    with suppress(OSError):
        with socket(AF_UNIX, fileno=os.dup(int(os.environ[LINE]))) as line:
            proxy = _peer(line)  # MPICH's proxy, the process that started all ranks of this host
        # An abstract address of Linux is a name without a file. Containers that share a network namespace also share
        # abstract addresses, so the address contains the numbers of the mount and process namespaces.
        spaces = [os.stat(f"/proc/self/ns/{kind}").st_ino for kind in ("mnt", "pid")]
        address, server = f"\0mpinodes-{os.getuid()}-{proxy}-{spaces}".encode(), 0
        for _ in range(int(1000 * PATIENCE)):
            line = socket(AF_UNIX, SOCK_SEQPACKET)
            with suppress(ConnectionRefusedError):
                line.connect(address)
                return _hand_over(line, words)
            with suppress(OSError):  # another original was first
                line.bind(address)
                if (server := os.fork()) == 0:
                    line.listen(4096)
                    return _Server(line).words(proxy)
            line.close()
            time.sleep(0.001)
        if server:  # it was stopped before it listened, and has copies of the proxy's pipes
            os.kill(server, signal.SIGKILL)
    return words


def _peer(line: socket) -> int:
    """Return the id of the process at the other end of a socket.

    Raises:
        OSError: the process belongs to another user.
    """
    process, user, _group = struct.unpack("3i", line.getsockopt(SOL_SOCKET, SO_PEERCRED, struct.calcsize("3i")))
    if user != os.getuid():
        raise PermissionError(f"process {process} belongs to another user")
    return int(process)


def _hand_over(line: socket, words: list[str]) -> list[str]:
    """Let a fork do the work of this rank, pass signals on to the fork, and end like the fork.

    Args:
        line: a socket that is connected to the server, which creates the fork.
        words: the command-line words of this process.

    Returns:
        `words`, if no fork was created. Otherwise this function does not return.
    """
    server = _peer(line)
    line.settimeout(min(launching.start_limit(launching.deadline_of(words)), 1e6))  # a socket knows no infinite limit
    place = words, dict(os.environb), [*os.sched_getaffinity(0)], os.getcwd()
    send_fds(line, [marshal.dumps(place)], [*STREAMS, int(os.environ[LINE])])
    try:
        answer = line.recv(16)
    except TimeoutError:
        os.kill(server, signal.SIGKILL)  # otherwise the server might fork later, and this rank would exist twice
        raise
    line.settimeout(None)
    if not answer.isdigit():  # there is no fork, or the fork is dead
        return words
    fork = int(answer)

    def pass_on(number: int, frame: object = None) -> None:
        with suppress(OSError):  # the fork has ended
            os.kill(fork, number)

    for number in PASSED_ON:  # the fork inherits ignored signals, so it ignores them when they are passed on
        signal.signal(number, pass_on)
    answer = b""
    with suppress(OSError):
        answer = line.recv(16)
    if not answer:  # the server has ended
        pass_on(signal.SIGKILL)
    code = int(answer or -signal.SIGKILL)
    if code == -signal.SIGALRM:
        launching.say(f"error: {launching.NOT_STARTED}")
        code = launching.OVERDUE
    if code >= 0:
        os._exit(code)
    with suppress(OSError):  # SIGKILL has no handler to set
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
    os._exit(launching.FAILED)


class _Server:
    """Run the server of a host, which creates the forks of all ranks.

    The server also tells each original (a process that mpirun started) how its fork has ended.

    Args:
        door: the listening socket to which the originals connect.
    """

    def __init__(self, door: socket) -> None:
        self._door, self._selector = door, DefaultSelector()
        self._forks: list[_Fork] = []

    def words(self, proxy: int) -> list[str]:
        """Create a fork for each process of mpirun that connects (an original), and exit when all forks have ended.

        This method returns only in a fork: the command-line words of the original. If MPICH's proxy ends first, the
        server kills all forks.

        Args:
            proxy: the process id of MPICH's proxy, which started the ranks.
        """
        server = os.getpid()
        try:
            os.setpgid(0, 0)
            nowhere = os.open(os.devnull, os.O_RDWR)
            for stream in (*STREAMS, int(os.environ[LINE])):
                os.dup2(nowhere, stream)
            import numpy.random  # noqa: F401

            launching.load_mpi()
            for name in COMMON:
                import_module(f"mpinodes.{name}")
            gc.freeze()
            self._selector.register(self._door, EVENT_READ)
            self._selector.register(launcher := os.pidfd_open(proxy), EVENT_READ)
            while ready := self._selector.select(None if self._forks else PATIENCE):
                key = ready[0][0]  # one event at a time, because it may unregister the sockets of other events
                fork: _Fork | None = key.data
                if key.fd == launcher:
                    self._kill_forks()
                    break
                if fork is None:
                    if rank := self._fork(self._door.accept()[0]):
                        return _take(*rank)
                elif key.fd == fork.handle:
                    self._bury(fork)
                else:  # the original has ended
                    self._selector.unregister(fork.line)
                    signal.pidfd_send_signal(fork.handle, signal.SIGKILL)
        except BaseException:
            if os.getpid() != server:
                raise
        os._exit(0)

    def _fork(self, line: socket) -> tuple[list[str], dict[bytes, bytes], list[int], list[int]] | None:
        """Create a fork for the original (the process that mpirun started) that is connected to `line`.

        Returns:
            In the fork, the words, environment, cores and file descriptors of the original; in the server, None.
        """
        descriptors: list[int] = []
        with suppress(OSError, EOFError, ValueError, TypeError):  # the line then closes; the original does the work
            line.settimeout(PATIENCE)
            original = _peer(line)
            text, descriptors, _, _ = recv_fds(line, LARGEST, len(STREAMS) + 1)
            words, environment, cores, directory = marshal.loads(text)
            os.chdir(directory)
            if (process := os.fork()) == 0:
                return words, environment, cores, descriptors
            fork = _Fork(process, os.pidfd_open(process), original, line)
            self._forks.append(fork)
            self._selector.register(fork.handle, EVENT_READ, fork)
            self._selector.register(line, EVENT_READ, fork)
            line.send(str(process).encode())
        for descriptor in descriptors:
            os.close(descriptor)
        return None

    def _bury(self, fork: _Fork) -> None:
        """Tell an original (the process that mpirun started for a rank) how its fork has ended.

        If the fork has ended because MPI did not start or end in time, all other forks and the server end, too.
        """
        code = os.waitstatus_to_exitcode(os.waitpid(fork.process, 0)[1])
        self._forks.remove(fork)
        with suppress(OSError):
            fork.line.send(str(code).encode())
            os.kill(fork.original, signal.SIGCONT)  # the original may have been stopped
        if code == -signal.SIGALRM:
            self._kill_forks()
            time.sleep(1)  # the original prints its error, before other originals end and mpirun kills all
        if not self._forks:  # MPICH's proxy waits for this server to end, which has copies of the proxy's pipes
            os._exit(0)
        self._selector.unregister(fork.handle)
        with suppress(KeyError):
            self._selector.unregister(fork.line)
        os.close(fork.handle)
        fork.line.close()

    def _kill_forks(self) -> None:
        while self._forks:
            signal.pidfd_send_signal(self._forks.pop().handle, signal.SIGKILL)


def _take(words: list[str], environment: dict[bytes, bytes], cores: list[int], descriptors: list[int]) -> list[str]:
    """Give this fork the state of its original (the process that mpirun started), and return `words`.

    Args:
        words: the command-line words of the original.
        environment: the environment variables of the original.
        cores: the cores that the original may use.
        descriptors: the standard streams of the original, and its connection to mpirun.
    """
    import numpy as np

    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    os.closerange(LINE_OF_FORK + 1, max(map(int, os.listdir("/proc/self/fd"))) + 1)
    os.environb.clear()
    os.environb.update(environment | {LINE.encode(): str(LINE_OF_FORK).encode()})
    with suppress(OSError):  # the batch system may have withdrawn these cores
        os.sched_setaffinity(0, cores)
    np.random.seed()  # noqa: NPY002 (otherwise NumPy's global generator would have the same state in all forks)
    atexit.register(os.kill, os.getppid(), signal.SIGCONT)  # the server may have been stopped
    return words
