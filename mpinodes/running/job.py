"""A run from its words to its end, whether mpirun, srun or nobody started its processes.

Under MPI ranks 0 to n - 1 are the agents, and the last rank is the logger. In one process, which then is the logger's,
the rounds of all agents come from `lockstep`. Either way a `Job` sets up once, runs and finishes:

    logger                                                    agents
    reads words, makes the run directory, builds the `Setup`
      --------- the experiment, the directory -------------> build the same `Setup`, read their samples
      <-------- what went wrong, and where the rank is ------
      --------- what went wrong first, or nothing ----------> end, if something did
    for each repeat:
      <-------- ready ---------------------------------------
      --------- go -----------------------------------------> `run_agent`: rounds, whose rows go to the logger
      record, metrics; then regret, accounting, summary, page
      --------- the end ------------------------------------>
      <-------- ready ---------------------------------------

A rank that waits for one of these words goes by the deadline (see `waiting`); the rank that it waits for says meanwhile
that it is at work. Whatever a rank raises ends the job: see `Job.guarded`.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpinodes.config.building import build
from mpinodes.config.noise_key import noise_name
from mpinodes.core.errors import BadInput, Overdue
from mpinodes.core.experiment import Experiment, asked_for, single_run
from mpinodes.core.messages import Diverged
from mpinodes.data.shelf import shared
from mpinodes.launch import launching
from mpinodes.launch.launching import LONGER, in_words, say
from mpinodes.launch.stopping import Ended, Signals
from mpinodes.rounds.plan import Plan, longest_chunk
from mpinodes.rounds.step import Step
from mpinodes.runlog.checkpoints import Chunk, Keeper, Kept, Stopped, keepers_of, name_of, places
from mpinodes.runlog.directories import held, make_directory, unmake_directory

if TYPE_CHECKING:
    from mpi4py import MPI

    from mpinodes.core.experiment import Tree
    from mpinodes.core.parts import Setup
    from mpinodes.summary.summary import Summary

FAILED_FILE = "failed.txt"  # the rank that makes it in a run directory is the one that speaks
OVERDUE_LINE = "overdue: "  # begins a line of log.txt in which a rank says for whom it waits
REPORTING, ABORTING = 60.0, 5.0  # seconds that a report of a failure, and MPI_Abort, may take
SETTLING = 0.5  # seconds after which the other ranks that wait for the same one have said so

Result = tuple[Path, "Summary"]


def run(asked: Tree, begun: float | None = None, signals: Signals | None = None) -> Result:
    """Run an experiment, given as nested dictionaries, in this process; return the run directory and the summary.

    Args:
        asked: the experiment.
        begun: when the command began, by `time.perf_counter`; None: now.
        signals: that stop it; None: none does.

    Raises:
        BadInput: something in the experiment is wrong.
        Stopped: a signal came.
    """
    from mpinodes.running.setup import set_up

    return run_set_up(lambda: set_up(asked, ranks=None), begun, signals)


def run_set_up(make_setup: Callable[[], Setup], begun: float | None = None, signals: Signals | None = None) -> Result:
    """Do the same for a `Setup` that is still to be made."""
    with Job() as job:
        return job.alone(lambda: job.begin(make_setup), begun, signals)


class Job(ExitStack):
    """One process' part of a run: agent `rank`, the logger on the last rank, or, without MPI, all of them.

    It holds the lock of the run directory until it is closed.

    Args:
        world: all ranks; None: there is this process alone.
        limit: seconds that ranks wait for each other until the experiment is known; None: by default.
    """

    def __init__(self, world: MPI.Comm | None = None, limit: float | None = None) -> None:
        super().__init__()
        self._world, self._ranks = world, world.size if world else None
        self._setup: Setup  # of the run, or of its first repeat
        self._directory = Path()  # of the run, once there is one
        self._done = 0  # repeats
        self._found: list[Kept] | None = None  # what the logger has kept, the latest first; None: a new run
        self._folder = ""  # where files are that were read for all ranks; no other job has it
        self._places = ["unknown"] * (self._ranks or 0)  # of each rank: process and host
        if world:
            from mpinodes.rounds.waiting import Waits

            self._waits, self._logger, self._agents = Waits(world, limit), world.size - 1, range(world.size - 1)
            self._is_logger, self._name = world.rank == self._logger, self._called(world.rank)
            self._peers = self._agents if self._is_logger else [self._logger]
        self._signals: Signals | None = None
        self._at_work = ExitStack()  # holds, but for the rounds, what tells the agents that the logger is at work
        self._begin, self._kept = 0, list[Kept]()  # what the first repeat goes on from: round, and agents in lockstep
        self._last = Path()  # the directory of the last repeat
        self._are_over = False  # all rounds of a repeat are recorded
        self._times: list[list[float]] | None = None

    def _called(self, rank: int) -> str:
        return "the logger" if rank == self._logger else f"agent {rank}"

    # What goes wrong.

    def guarded(self, work: Callable[[], int]) -> int:
        """Return what `work` returns. Whatever it raises is said in one line, written to log.txt, and ends the job."""
        try:
            return work()
        except BaseException as error:
            code, text = _told_of(error)
            if self._world is None:
                if text:
                    say(text)
                return code
            launching.end_in(REPORTING)  # a dead file system may keep the report for ever
            try:
                self.close()
                if text:
                    self._report(error, text.removeprefix("error: "))
                sys.stdout.flush()
                # All has been said: MPICH's own line about the abort would only be noise.
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            finally:  # whatever becomes of the report, no rank is left waiting
                launching.end_in(ABORTING)  # nor here, where the launcher cannot be reached
                self._world.Abort(code)
            return code

    def _report(self, error: BaseException, text: str) -> None:
        """Say what failed, once for all ranks, and write it to the log."""
        assert self._world
        name, rank = self._name.removeprefix("the "), self._world.rank
        message = f"error: {name} (rank {rank}): {text}"
        lines = f"{name}, rank {rank}, process {os.getpid()}\n{traceback.format_exc()}"
        if isinstance(error, Overdue):
            lines = f"{OVERDUE_LINE}{json.dumps([self._folder, rank, *error.args])}\n"
        if self._directory == Path():
            say(self._blame(error) if isinstance(error, Overdue) else f"{message}\n{lines}".strip())
            return
        where = self._logged(lines, error)
        if isinstance(error, Overdue):
            time.sleep(SETTLING)
            message = self._blame(error)
        try:  # where several ranks fail at once, the first to make this file is the one that speaks
            with (self._directory / FAILED_FILE).open("x", encoding="utf-8", errors="backslashreplace") as failed:
                failed.write(message + "\n")
        except FileExistsError:
            time.sleep(1 + SETTLING)
            return
        except OSError:
            pass
        say(f"{message} {where}")

    def _logged(self, text: str, error: BaseException | None = None) -> str:
        """Write a text about an error to log.txt; return words that say where the text is, or the text itself."""
        log = f"{self._directory}/log.txt"
        try:
            os.makedirs(self._directory, exist_ok=True)  # another host may not share the file system
            with open(log, "a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
        except OSError as other:
            is_enough = isinstance(error, (OSError, Overdue))  # most often the same: the disk is full
            return f"({log}: {other.strerror})" + (f"\n{text}" if error and not is_enough else "")
        return f"({'more' if isinstance(error, Overdue) else 'traceback'} in {log})"

    def _blame(self, error: Overdue) -> str:
        """Say who is waited for and does not itself wait, as far as the ranks know that share a log."""
        assert self._world
        late = {self._world.rank: error.args}
        with suppress(OSError, ValueError):
            lines = Path(f"{self._directory}/log.txt").read_text("utf-8", "replace").splitlines()
            rows = [json.loads(line.removeprefix(OVERDUE_LINE)) for line in lines if line.startswith(OVERDUE_LINE)]
            late |= {rank: args for folder, rank, *args in rows if folder == self._folder}
        missing = sorted({rank for ranks, *_ in late.values() for rank in ranks} - late.keys())
        names = [f"{self._called(rank)} (process {self._places[rank]})" for rank in missing]
        who = f"no word from {', '.join(names)}" if names else "all wait for each other"
        _, seconds, t = max(late.values(), key=lambda args: args[1])
        when, waiting = f" in round {t}" if t else "", ", ".join(map(self._called, sorted(late)))
        return f"error: {who} for {seconds:.1f} s{when}; waiting: {waiting}; {LONGER}"

    # Set-up.

    def begin(self, make_setup: Callable[[], Setup]) -> None:
        """Set up a new run, and make its directory."""
        from mpinodes.running.setup import rehearse

        self._setup = make_setup()
        rehearse(self._setup)
        directory = make_directory(self._setup.experiment)
        self.enter_context(held(directory))
        self._directory = directory

    def reopen(self, run: Path, words: list[str]) -> None:
        """Set up a run that is to go on."""
        from mpinodes.running.resuming import reopen
        from mpinodes.running.setup import rehearse

        self.enter_context(held(run))
        self._setup, self._done, self._found = reopen(run, words, self._ranks)
        rehearse(self._setup)
        (run / FAILED_FILE).unlink(missing_ok=True)
        self._directory = run

    def run(self, words: list[str], resumed: Path | None = None) -> int:
        """Set up, run and finish; return the exit code.

        Args:
            words: of the command.
            resumed: the directory of a run that is to go on; None: a new one.
        """

        def prepare() -> None:
            from mpinodes.running.setup import set_up

            if resumed:
                self.reopen(resumed, words)
            else:
                self.begin(lambda: set_up(asked_for(words), self._ranks))

        if self._world is None:
            gc.enable()
            signals = Signals()
            return self._outcome(lambda: self.alone(prepare, launching.BEGAN, signals), signals)
        import numpy as np

        from mpinodes.rounds.waiting import LIMIT

        np.seterr(all="ignore")  # where a run diverges the logger says so, once
        step, error = self._set_up(prepare)
        if error:
            if self._is_logger:
                say(f"error: {error}")
                self._unmake()
            return launching.BAD_INPUT
        gc.freeze()  # what is there now stays to the end
        gc.enable()
        self._waits.limit = float(self._setup.experiment.deadline.seconds or LIMIT)
        return self._act(step) if step else self._log()

    def _set_up(self, prepare: Callable[[], None]) -> tuple[Step | None, str]:
        """Set up on every rank, where the logger alone reads the experiment; return an agent's step, and an error."""
        from tempfile import mkdtemp

        import msgspec

        assert self._world
        told: Any
        step, error, here = None, "", f"{os.getpid()} on {os.uname().nodename}"
        with ExitStack() as shelf:
            if self._is_logger:
                folder = mkdtemp(prefix="mpinodes-")
                shelf.enter_context(shared(Path(folder)))
                try:
                    with self._waits.at_work(self._agents):
                        prepare()
                        resolved = msgspec.msgpack.encode(self._setup.experiment)
                    found = None if self._found is None else list[Kept]()
                    told = resolved, str(self._directory.absolute()), folder, self._done, found
                except BadInput as problem:
                    told = str(problem)
                self._waits.tell(self._agents, told)
            else:
                told = self._waits.hear(self._logger)
            if isinstance(told, str):
                return None, told
            resolved, directory, self._folder, self._done, found = told
            self._directory, self._found = Path(directory), self._found or found
            with self._waits.at_work(self._peers):
                try:
                    if not self._is_logger:
                        shelf.enter_context(shared(Path(self._folder)))
                        self._setup = build(msgspec.msgpack.decode(resolved, type=Experiment))
                        step = Step(self._setup, self._world.rank)  # which reads its samples
                        self._setup.stream.forget()
                except BadInput as problem:
                    error = f"{self._name}: {problem}"
                if self._is_logger:
                    heard = [*(self._waits.hear(agent) for agent in self._agents), (error, here)]
                    verdict = next((e for e, _ in heard if e), ""), [place for _, place in heard]
            if self._is_logger:
                self._waits.tell(self._agents, verdict)
            else:
                self._waits.tell([self._logger], (error, here))
                verdict = self._waits.hear(self._logger)
            error, self._places = verdict
        hosts = [place.partition(" on ")[2] for place in self._places]
        self._waits.share_core(hosts.count(os.uname().nodename), gives_way=not self._is_logger)
        return step, error

    # Rounds.

    def _act(self, step: Step) -> int:
        """Live an agent's whole life."""
        from mpinodes.rounds.agent import run_agent
        from mpinodes.rounds.network import Channel

        assert self._world
        comm, rank, e, code = self._world, self._world.rank, self._setup.experiment, 0
        all_places = places(self._directory, e.repeats)
        with Signals():  # which the logger acts on
            for r in range(self._done, e.repeats):
                with self._waits.at_work(self._peers):
                    mine = self._setup if r == 0 else build(single_run(e, r))
                    step = step if r == 0 else Step(mine, rank)
                    mine.stream.forget()
                    keeper = Keeper(all_places[r], name_of(rank), noise_name(mine))
                t = self._waits.hear(self._logger) if r == self._done and self._found is not None else 0
                kept = keeper.load(t) if t else None
                self._waits.tell([self._logger])
                self._waits.hear(self._logger)
                channel = Channel(comm, mine.layout.width, longest_chunk(mine), self._waits, t)
                if run_agent(step, mine, comm, channel, self._waits, keeper, kept):
                    code = launching.STOPPED
                    break
            self._waits.hear(self._logger)  # that the report is written: others than MPICH would spin in MPI_Finalize
            self._waits.tell([self._logger])
        return code

    def _log(self) -> int:
        """Log the rounds of all agents."""
        assert self._world
        self._signals = Signals()
        self._at_work.enter_context(self._waits.at_work(self._agents))
        code = self._outcome(lambda: self._followed(_library(), launching.BEGAN), self._signals)
        self._at_work.close()
        self._waits.tell(self._agents)
        for agent in self._agents:
            self._waits.hear(agent)
        return code

    def alone(self, prepare: Callable[[], None], began: float | None, signals: Signals | None) -> Result:
        """Do a whole run in this process; return the run directory and the summary.

        Args:
            prepare: begins it, or reopens it.
            began: as of `run`.
            signals: as of `run`.
        """
        import numpy as np
        from threadpoolctl import threadpool_limits

        began = time.perf_counter() if began is None else began
        launching.open_standard_streams()  # or the record may get the number of one, into which C libraries write
        with threadpool_limits(1), np.errstate(all="ignore"):
            prepare()
            self._signals = signals
            try:
                return self._followed("none (lockstep)", began)
            except BadInput:  # a file is found to be wrong where its rows are read
                if not self._are_over:
                    self._unmake()
                raise
            except Stopped:
                raise
            except Exception as error:
                error.add_note(self._logged(traceback.format_exc(), error))
                raise

    def _unmake(self) -> None:
        """Take the directory of a new run away."""
        if self._directory != Path() and self._found is None:
            unmake_directory(self._directory)

    def _followed(self, mpi: str, began: float) -> Result:
        from mpinodes.running import repeats

        if self._signals:
            self._signals.run = self._directory
        with self._signals or nullcontext():
            return self._directory, repeats.log(self._setup, self._directory, mpi, self, began)

    def _outcome(self, work: Callable[[], Result], signals: Signals) -> int:
        """Print what a run comes to, or that it was stopped, and write that to the log; return the exit code."""
        from mpinodes.presentation import terminal

        try:
            directory, result = work()
        except Stopped as stop:
            code, text = launching.STOPPED, stop.in_words(signals.asked)
            say(text)
        else:
            code, text = 0, terminal.text(result, directory)
            launching.show(text)
        self._logged(text + "\n")
        return code

    # Where the rounds come from: see `repeats.Rounds`.

    def first(self, places: Sequence[Path], agents: int) -> tuple[int, Kept | None]:
        """See `repeats.Rounds`, as of the others."""
        from mpinodes.running.resuming import load_all, tell

        done, found = self._done, self._found
        self._last = places[-1]
        if found is None or done == len(places):
            return done, None
        keepers = keepers_of(places[done], agents, found[0]["of"][1] if found else "")
        kept, self._kept = load_all(keepers, found)
        self._begin = kept["round"] if kept else 0
        if self._world:  # each agent loads its own
            self._kept = []
            self._waits.tell(self._agents, self._begin)
        tell(places[done], kept)
        return done, kept

    def chunks(self, run: Setup, place: Path) -> Iterator[Chunk]:
        """Yield the rounds of the next repeat."""
        begin, self._begin = self._begin, 0
        plan = Plan(run, begin, self._signals.is_asked) if self._signals else Plan(run, begin)
        if self._world:
            from mpinodes.rounds.network import receive_chunks

            for agent in self._agents:
                self._waits.hear(agent)
            self._at_work.close()
            self._waits.tell(self._agents)
            times = yield from receive_chunks(self._world, plan, run.layout.width, self._waits, begin)
            self._at_work.enter_context(self._waits.at_work(self._agents))
            self._times = times.T.tolist()
        else:
            from mpinodes.rounds.lockstep import run_agents

            keepers, kept = keepers_of(place, run.topology.agents, noise_name(run)), self._kept
            self._kept = []
            for keeper in keepers:
                keeper.forget_after(begin)
            yield from run_agents(run, plan, keepers, kept)
            for keeper in keepers:
                keeper.keep_two()
        self._are_over = True
        if self._signals and place == self._last:
            self._signals.are_recorded = True

    def times(self) -> list[list[float]] | None:
        """Return the seconds at work and waiting."""
        return self._times


def _told_of(error: BaseException) -> tuple[int, str]:
    """Return the exit code that an error ends a job with, and what to say of it; empty: that was said."""
    if isinstance(error, Ended):
        return int(error.args[0]), ""
    if isinstance(error, (BadInput, Diverged)):
        return launching.BAD_INPUT if isinstance(error, BadInput) else launching.FAILED, f"error: {error}"
    if isinstance(error, SystemExit):
        return launching.FAILED, f"error: exit({error.code})"
    if isinstance(error, KeyboardInterrupt):
        return launching.INTERRUPTED, "interrupted; the rounds recorded so far are kept"
    if isinstance(error, Overdue):
        return launching.OVERDUE, "error: a deadline passed"
    if isinstance(error, BrokenPipeError):  # of who read the results
        return launching.NOBODY_READS, ""
    return launching.FAILED, f"error: {' '.join([in_words(error), *vars(error).get('__notes__', [])])}"


def _library() -> str:
    """Return the name of the MPI library."""
    from mpi4py import MPI

    return MPI.Get_library_version().splitlines()[0].strip().rstrip("\0")
