"""One rank's part of a run under MPI: an agent, or the logger."""

from __future__ import annotations

import gc
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from mpinodes.config.noise_key import noise_name
from mpinodes.core.errors import BadInput
from mpinodes.core.messages import Diverged
from mpinodes.core.parts import Setup
from mpinodes.launch import pulse
from mpinodes.launch.launching import BAD_INPUT, FAILED, INTERRUPTED, OVERDUE, STOPPED, in_words, origin, say, show
from mpinodes.launch.pulse import Overdue, Place, Pulse, Report
from mpinodes.launch.stopping import Signals
from mpinodes.launch.watcher import FAILED_FILE, Lost, Watched
from mpinodes.rounds.plan import Plan, longest_chunk
from mpinodes.rounds.step import Step
from mpinodes.runlog.checkpoints import Chunk, Keeper, Kept, Stopped, name_of, places

if TYPE_CHECKING:
    from mpi4py import MPI


REPORTING, ABORTING = 60.0, 5.0  # seconds for it, at most


class Job:
    """One rank's part of a run: agent `rank`, or the logger on the last rank."""

    def __init__(self, world: MPI.Comm) -> None:
        self._world = world
        self._logger_rank = world.size - 1
        self._is_logger = world.rank == self._logger_rank
        self._name = "logger" if self._is_logger else f"agent {world.rank}"
        self._directory: Path | None = None
        self._step: Step | None = None  # of the first run
        self._places = [Place("", 0)] * world.size
        self._watched = Watched(self._name)
        self._pulse = Pulse(world, self._watched)
        self._done, self._goes_on = 0, False
        self._found: list[Kept] | None = None
        self._held = ExitStack()

    def guarded(self, work: Callable[[], int]) -> int:
        """Run `work`; whatever it raises ends the whole job, with one line and the traceback in the log."""
        _catch_exits()
        try:
            code = work()
            self._watched.leave()
            return code
        except BaseException as error:
            self._pulse.stop()
            _die_in(REPORTING + 4 * self._pulse.settling)  # a dead file system may keep it for ever
            code = FAILED
            what = in_words(error)
            if isinstance(error, Diverged):
                what = str(error)
            elif isinstance(error, BadInput):
                code, what = BAD_INPUT, str(error)
            elif isinstance(error, Overdue):
                code = OVERDUE
            elif isinstance(error, Lost):
                what = str(error)
            elif isinstance(error, SystemExit):
                what = f"exit({error.code})"
            elif isinstance(error, KeyboardInterrupt):
                code, what = INTERRUPTED, "interrupted; the rounds recorded so far are kept"
            from mpinodes.data import shelf

            try:
                shelf.take_down()
                self._report_failure(what, error)
                self._watched.leave(told=True)
                sys.stdout.flush()
                # Everything has been said: MPICH's own line about the abort would only be noise.
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            finally:  # whatever becomes of the report, no rank is left waiting
                _die_in(ABORTING)  # nor here, where the launcher cannot be reached
                self._world.Abort(code)
        return code

    def _report_failure(self, what: str, error: BaseException) -> None:
        late = error.report if isinstance(error, Overdue) else None
        trace = f"{self._name}, rank {self._world.rank}, process {os.getpid()}\n{traceback.format_exc()}"
        message = f"error: {self._name} (rank {self._world.rank}): {what}"
        if self._directory is None:
            if late:
                time.sleep(self._pulse.settling * self._world.rank / self._world.size)  # the first one speaks for all
                message, trace = self._of_deadline([late]), ""
            say(f"{message}\n{trace}".strip())
            return
        try:
            self._directory.mkdir(parents=True, exist_ok=True)  # another host may not share the file system
            log = self._directory / "log.txt"
            with log.open("a", encoding="utf-8", errors="backslashreplace") as file:
                if not isinstance(error, Lost):  # which the watcher wrote there
                    file.write(pulse.line(late) if late and late.waits_for else trace)
            if late and late.waits_for and not self._is_first_here(log):
                time.sleep(2 + 4 * self._pulse.settling)
                return
            # Where several ranks fail at once, the first to make this file is the one that speaks.
            with (self._directory / FAILED_FILE).open("x", encoding="utf-8", errors="backslashreplace") as failed:
                if late:
                    time.sleep(self._pulse.settling)
                    message = self._of_deadline([late, *pulse.reports_in(log, self._places)])
                failed.write(message + "\n")
        except FileExistsError:
            time.sleep(1 + (2 * self._pulse.settling if late else 0))
            if not late:
                return
            # Whoever spoke has not ended this rank: no link leads from there to here, nor, perhaps, to the launcher.
            message = self._of_deadline([late, *pulse.reports_in(log, self._places)])
        except OSError as other:
            if late:
                message = self._of_deadline([late])
            elif not isinstance(error, OSError):  # most often the same: the disk is full
                message = f"{message}\n{trace}"
            say(f"{message} ({self._directory / 'log.txt'}: {other.strerror})")
            return
        say(f"{message} ({'more' if late and late.waits_for else 'traceback'} in {self._directory / 'log.txt'})")

    def _is_first_here(self, log: Path) -> bool:
        """Whether no other rank of this host has said before this one, in log.txt, for whom it waits."""
        here = [report for report in pulse.reports_in(log, self._places) if self._is_here(report.rank)]
        return not here or here[0].rank == self._world.rank

    def _is_here(self, rank: int) -> bool:
        return self._places[rank].host == os.uname().nodename

    def _of_deadline(self, reports: list[Report]) -> str:
        return f"error: {pulse.in_words(reports, self._places)}; longer waits: deadline.seconds=<seconds> or inf"

    def run(self, words: list[str], resumed: Path | None = None) -> int:
        """Set up together, then act as agent or logger.

        Args:
            words: of the command.
            resumed: the directory of a run that is to go on; None: a new one.
        """
        import numpy as np

        from mpinodes.rounds.network import make_wait, share_core

        np.seterr(all="ignore")  # where a run diverges the logger says so, once
        self._pulse.start()
        setup, error = self._set_up(words, resumed)
        if setup is None:
            self._pulse.end()
            if self._is_logger:
                say(f"error: {error}")
            return BAD_INPUT
        gc.freeze()  # what is there now stays to the end
        gc.enable()
        self._pulse.start(setup.experiment.deadline)
        ranks_here = sum(map(self._is_here, range(self._world.size)))
        share_core(ranks_here, gives_way=not self._is_logger)
        with Signals(acts=self._is_logger) as signals:
            if self._is_logger:
                code = self._log(setup, signals)
            else:
                code = self._act(setup, make_wait(self._world, ranks_here))
        self._pulse.end()
        return code

    def _set_up(self, words: list[str], resumed: Path | None) -> tuple[Setup | None, str]:
        """The set-up on every rank, or the one error that some rank met.

        The logger alone reads the experiment and makes the run directory; every rank reads its own data.
        """
        import msgspec

        from mpinodes.config.building import build
        from mpinodes.core.experiment import Experiment
        from mpinodes.data import shelf
        from mpinodes.rounds.network import hear, make_requests, tell

        setup, told = None, Told()
        if self._is_logger:
            try:
                setup, told = self._prepare(words, resumed)
            except BadInput as problem:
                told = Told(str(problem))
            tell(self._world, told)
        else:
            told = hear(self._world, self._logger_rank)
        error = told.error
        if error:
            shelf.take_down()
            return None, error
        self._directory, self._done, self._goes_on = Path(told.directory), told.done, told.goes_on
        self._watched.log_is(self._directory)
        try:
            if setup:
                self._prepare_to_log(setup)
            else:
                shelf.put_up(Path(told.place))
                setup = build(msgspec.msgpack.decode(told.resolved, type=Experiment))
                self._step = Step(setup, self._world.rank)  # which reads its samples
                setup.stream.forget()
                make_requests()
        except BadInput as problem:
            error = str(problem) if self._is_logger else f"{self._name}: {problem}"
        error = self._agreed(error)
        shelf.take_down()
        if error and self._is_logger and not resumed:
            from mpinodes.runlog.directories import unmake_directory

            unmake_directory(self._directory)
        return (None, error) if error else (setup, "")

    def _agreed(self, error: str) -> str:
        """What some rank met, once all have come as far; empty: nothing. All hear where each of them is, too.

        Args:
            error: what this rank met.
        """
        from mpinodes.rounds.network import WORDS, hear, tell

        mine = error, Place(os.uname().nodename, os.getpid())
        if self._is_logger:
            heard = [*(hear(self._world, agent) for agent in range(self._logger_rank)), mine]
            said = next((what for what, _ in heard if what), ""), [place for _, place in heard]
            tell(self._world, said)
        else:
            self._world.send(mine, dest=self._logger_rank, tag=WORDS)
            said = hear(self._world, self._logger_rank)
        self._places = said[1]
        return said[0]

    def _prepare_to_log(self, setup: Setup) -> None:
        """What the logger needs, while the agents read their samples."""
        from mpinodes.runlog.versions import versions
        from mpinodes.running import repeats  # noqa: F401
        from mpinodes.running.setup import rehearse

        versions(_library())
        rehearse(setup)

    def _prepare(self, words: list[str], resumed: Path | None) -> tuple[Setup, Told]:
        import tempfile

        import msgspec

        from mpinodes.core.experiment import asked_for
        from mpinodes.data import shelf
        from mpinodes.runlog.directories import held, make_directory
        from mpinodes.running.resuming import reopen
        from mpinodes.running.setup import set_up

        place = tempfile.mkdtemp(prefix="mpinodes-")
        shelf.put_up(Path(place))
        if resumed:
            self._held.enter_context(held(resumed))
            setup, done, self._found = reopen(resumed, words, self._world.size)
            directory = resumed.absolute()
            (directory / FAILED_FILE).unlink(missing_ok=True)
        else:
            setup, done = set_up(asked_for(words), self._world.size), 0
            directory = make_directory(setup.experiment).absolute()
            self._held.enter_context(held(directory))
        resolved = msgspec.msgpack.encode(setup.experiment)
        return setup, Told("", resolved, str(directory), place, done, self._found is not None)

    def _act(self, setup: Setup, wait: Any) -> int:
        """The agent's whole life."""
        from mpinodes.config.building import build
        from mpinodes.core.experiment import single_run
        from mpinodes.rounds.network import Channel, agreed, hear, run_agent

        assert self._directory is not None
        comm, rank, repeats, code = self._world, self._world.rank, setup.experiment.repeats, 0
        all_places = places(self._directory, repeats)
        for r in range(self._done, repeats):
            mine = setup if r == 0 else build(single_run(setup.experiment, r))
            step = self._step if r == 0 and self._step else Step(mine, rank)
            mine.stream.forget()
            keeper = Keeper(all_places[r], name_of(rank), noise_name(mine))
            kept = agreed(comm, keeper) if r == self._done and self._goes_on else None
            channel = Channel(comm, mine.layout.width, longest_chunk(mine), kept["round"] if kept else 0)
            if run_agent(step, mine, comm, channel, wait, keeper, kept):
                code = STOPPED
                break
        hear(comm, self._logger_rank)  # that the report is written: others than MPICH would spin in MPI_Finalize
        return code

    def _log(self, setup: Setup, signals: Signals) -> int:
        """The logger's."""
        from mpinodes.presentation import terminal as summary
        from mpinodes.rounds.network import tell
        from mpinodes.running import repeats
        from mpinodes.summary.timing import process_began

        assert self._directory is not None
        rounds, code = _Rounds(self._world, signals, self._done, self._found), 0
        try:
            found = repeats.log(setup, self._directory, _library(), rounds, process_began(origin().process))
        except Stopped as stop:
            code, text = STOPPED, stop.in_words(signals.asked)
            say(text)
        else:
            text = summary.text(found, self._directory)
            show(text)
        with suppress(OSError), open(self._directory / "log.txt", "a", encoding="utf-8", errors="replace") as log:
            log.write(text + "\n")
        tell(self._world, None)
        return code


class Told(NamedTuple):
    """What the logger tells all agents in the beginning.

    Attributes:
        error: why there is no run.
        resolved: the experiment, every choice made.
        directory: of the run.
        place: where files are that were read for all.
        done: of its repeats, so many.
        goes_on: whether it has been begun before.
    """

    error: str = ""
    resolved: bytes = b""
    directory: str = ""
    place: str = ""
    done: int = 0
    goes_on: bool = False


class _Rounds:
    """Those of all agents, over MPI.

    Args:
        comm: of the agents and the logger.
        signals: that stop them.
        done: of its repeats, so many.
        found: what the logger has kept; None: the run was not begun before.
    """

    def __init__(self, comm: MPI.Comm, signals: Signals, done: int, found: list[Kept] | None) -> None:
        self._comm, self._signals, self._done = comm, signals, done
        self._found, self._goes_on = found or [], found is not None
        self._begin = 0
        self._times: list[list[float]] | None = None

    def first(self, places: Sequence[Path], agents: int) -> tuple[int, Kept | None]:
        """See `repeats.Rounds`."""
        from mpinodes.rounds.network import agree
        from mpinodes.running.resuming import tell

        if not self._goes_on or self._done == len(places):
            return self._done, None
        kept = agree(self._comm, self._found)
        self._begin = kept["round"] if kept else 0
        tell(places[self._done], kept)
        return self._done, kept

    def chunks(self, run: Setup, place: Path) -> Iterator[Chunk]:
        """See `repeats.Rounds`."""
        from mpinodes.rounds.network import receive_chunks

        begin, self._begin = self._begin, 0
        plan = Plan(run, begin, self._signals.is_asked)
        times = yield from receive_chunks(self._comm, plan, run.layout.width, begin)
        self._times = times.T.tolist()

    def times(self) -> list[list[float]] | None:
        """See `repeats.Rounds`."""
        return self._times

    def without_noise(self, run: Setup, place: Path) -> None:
        """See `repeats.Rounds`."""
        from mpinodes.running import noise_free

        noise_free.make_if_short(run, place)


def _die_in(seconds: float) -> None:
    """End this process if it is still there: from a thread of C's, for MPI_Abort keeps Python's lock."""
    import faulthandler

    faulthandler.dump_traceback_later(seconds, exit=True, file=os.open(os.devnull, os.O_WRONLY))


def _catch_exits() -> None:
    """Make of os._exit(), which tells nobody, an exit that is told: launchers may end with the code 0 of such ranks."""
    leave, me = os._exit, os.getpid()

    def exit(status: int) -> NoReturn:
        if os.getpid() != me:  # a child of this rank
            leave(status)
        raise SystemExit(status)

    os._exit = exit


def _library() -> str:
    """The MPI library and its version."""
    from mpi4py import MPI

    return MPI.Get_library_version().splitlines()[0].strip().rstrip("\0")
