"""Run an experiment from the command to the summary, under mpirun or srun, or in one process.

Under MPI, ranks 0 to n - 1 are the agents, and the last rank is the logger. Without MPI, one process is the logger, and
also computes the rounds of all agents (`lockstep`). In both cases each process has one `Job`. The ranks exchange these
messages:

    logger                                                    agents
      <-------- process and host -----------------------------
      --------- processes and hosts of all ranks ----------->
    read words, build the `Setup`, make the run directory
      --------- experiment, directory ---------------------> build the same `Setup`, read their samples
      <-------- error message ------------------------------
      --------- error messages of all ranks ----------------> end if there is an error
    for each repeat:
      <-------- ready ---------------------------------------
      --------- the round from which to continue ----------> `run_agent`: compute rounds, send rows to the logger
      log, metrics; then regret, accounting, summary of the repeat
    after all repeats:
      summary of all repeats, page
      --------- the end ----------------------------------->
      <-------- ready ---------------------------------------

Each wait for a message has a time limit (`waiting`). During a long computation, a rank repeatedly tells the waiting
ranks that the computation goes on. An exception in any rank ends the whole job (`Job.guarded`).
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mpinodes.config.building import build
from mpinodes.config.noise_key import noise_name
from mpinodes.core.asked import Tree, asked_for
from mpinodes.core.errors import BadInput, Overdue
from mpinodes.core.experiment import Experiment, single_run
from mpinodes.core.messages import Diverged
from mpinodes.data.shelf import shared
from mpinodes.launch import launching
from mpinodes.launch.stopping import Ended, Signals
from mpinodes.rounds.plan import Plan, longest_chunk
from mpinodes.rounds.step import Step
from mpinodes.runlog.checkpoints import Chunk, Keeper, Kept, Stopped, keepers_of, name_of, places
from mpinodes.runlog.directories import held, new_directory, unmake_directory

if TYPE_CHECKING:
    from mpi4py import MPI
    from threadpoolctl import ThreadpoolController

    from mpinodes.core.parts import Setup
    from mpinodes.summary.summary import Summary

FAILED_FILE = "failed.txt"  # the file in the directory of a failed run that contains the error message
FAILED_LINE = "failed: "  # starts a line of log.txt with: job, failed rank, ranks that it waited for, seconds, round
REPORTING = 20.0  # a time limit in seconds for the error report and MPI_Abort, because file system or launcher may hang
SETTLING = 0.5  # seconds in which all ranks that fail for the same reason write their lines to log.txt
TURN = 2.0  # seconds for which a failed rank that knows no log.txt lets the logger, and then agent 0, print first

Result = tuple[Path, "Summary"]


def run(asked: Tree, signals: Signals | None = None) -> Result:
    """Run an experiment in this process, and return the run directory and the summary.

    Args:
        asked: the keys and values that the user sets, as nested dictionaries.
        signals: the signals that stop the run; None: no signal stops the run.

    Raises:
        BadInput: the experiment is invalid.
        Diverged: the run diverges.
        Stopped: a signal stopped the run.
    """
    from mpinodes.running.setup import set_up

    with Job(signals=signals or Signals(())) as job:
        return job.alone(lambda: job.open_new(lambda: set_up(asked, ranks=None)))


class Job(ExitStack):
    """Do the part of a run that this process does: an agent, the logger, or, without MPI, the whole run.

    The process of the logger locks the run directory until the job is closed.

    Args:
        world: the communicator of all ranks; None without MPI.
        limit: how many seconds a wait for other ranks may last; None: the default limit. If the experiment sets
            `deadline.seconds`, this setting replaces the limit before the first round.
        signals: the signals that stop the run; None: the default signals of the class `Signals`.

    Attributes:
        times: for the last repeat, two lists with an entry for each rank: the seconds for which the rank computed, and
            the seconds for which the rank waited. None without MPI.
    """

    def __init__(self, world: MPI.Comm | None = None, limit: float | None = None, signals: Signals | None = None):
        super().__init__()
        self._world, self._signals, self._start = world, signals or Signals(), time.perf_counter()
        self._ranks = world.size if world else None
        self._setup: Setup  # the set-up of the run, or of its first repeat
        self._directory = Path()  # the run directory, as soon as it exists
        self._done = 0  # the number of complete repeats
        self._is_new = True  # whether the run is not resumed and has no complete repeat: its directory may be removed
        self._checkpoints = list[Kept]()  # the logger's checkpoints of a resumed run, the latest first
        self._resumed, self._saved = 0, list[Kept]()  # of a resumed repeat: its last round, the agents' checkpoints
        self.times: list[list[float]] | None = None
        if world:
            from mpinodes.rounds.waiting import Waits

            self._waits, self._rank, self._logger = Waits(world, limit), world.rank, world.size - 1
            self._is_logger = self._rank == self._logger
            self._peers = range(self._logger) if self._is_logger else [self._logger]  # the ranks that get our messages
            self._places = ["unknown"] * world.size  # process and host of each rank
            self._folder = ""  # the directory of the data cache that the ranks share; its name identifies the job
            self._at_work = ExitStack()  # outside the rounds, tells the agents that the logger is alive

    def _role(self, rank: int) -> str:
        return "the logger" if rank == self._logger else f"agent {rank}"

    # Errors.

    def guarded(self, work: Callable[[], int]) -> int:
        """Call `work`, and return its exit code; if `work` raises an exception, report the exception and end all ranks.

        One of the failed ranks prints the error message. Under MPI, each failed rank writes the exception to log.txt.
        Exceptions from handled signals or from a closed output pipe are not reported.
        """
        try:
            return work()
        except BaseException as error:
            code, text = _exit_of(error)
            if self._world is None:
                if text:
                    launching.say(text if code == launching.INTERRUPTED else f"error: {text}")
                return code
            launching.end_in(REPORTING)
            try:
                if text:
                    self._report(error, text)
                sys.stdout.flush()
            finally:  # abort even if the report fails, so that no rank waits forever
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # hide MPICH's own message about the abort
                self._world.Abort(code)
            return code

    def _report(self, error: BaseException, text: str) -> None:
        """Write an exception to log.txt, and print its message.

        If several ranks fail, only one of them prints a message.
        """
        has_log, is_overdue = self._directory != Path(), isinstance(error, Overdue)
        failures = [[self._folder, self._rank, *(error.args if is_overdue else ([], 0.0, 0))]]
        where = self._logged(f"{FAILED_LINE}{json.dumps(failures[0])}\n", error)
        if not has_log:
            time.sleep(TURN * min((self._rank + 1) % len(self._places), 2))
        else:
            time.sleep(SETTLING)
            with suppress(OSError, ValueError):
                lines = Path(f"{self._directory}/log.txt").read_text("utf-8", "replace").splitlines()
                rows = [json.loads(line.removeprefix(FAILED_LINE)) for line in lines if line.startswith(FAILED_LINE)]
                failures = [row for row in rows if row[0] == self._folder] or failures
            # The output of another host may be lost, so a failed rank on the host of rank 0 prints, if there is one.
            failures.sort(key=lambda failure: self._places[failure[1]].split()[-1] != self._places[0].split()[-1])
            if failures[0][1] != self._rank:
                time.sleep(1 + SETTLING)
                return
        message = f"{self._role(self._rank)} (rank {self._rank}): {text}"
        if is_overdue:  # name the ranks that did not answer: failed ranks waited for them, and they did not fail
            late = {rank: ranks for _, rank, ranks, *_ in failures}
            missing = sorted({rank for ranks in late.values() for rank in ranks} - late.keys())
            names = [f"{self._role(rank)} (process {self._places[rank]})" for rank in missing]
            silent_ranks = f"no word from {', '.join(names)}" if names else "all ranks wait for each other"
            *_, seconds, t = failures[0]
            in_round, waiting_ranks = f" in round {t}" if t else "", ", ".join(map(self._role, sorted(late)))
            message = f"{silent_ranks} for {seconds:.1f} s{in_round}; waiting: {waiting_ranks}; {launching.LONGER}"
        if has_log:
            with suppress(OSError):
                (self._directory / FAILED_FILE).write_text(f"error: {message}\n", "utf-8", "backslashreplace")
        launching.say(f"error: {message} {where}".strip())
        time.sleep(SETTLING)  # MPI_Abort may lose the line, so the launcher gets time to print it

    def _logged(self, text: str, error: BaseException | None = None) -> str:
        """Append a text and the traceback of an error to log.txt; an `Overdue` is written without traceback.

        Returns:
            A text to print, which says where log.txt is. If log.txt was not written, this text has the traceback,
            unless the error is an `Overdue`, an interrupt or an OSError.
        """
        trace = "" if error is None or isinstance(error, Overdue) else "".join(traceback.format_exception(error))
        shown = "" if isinstance(error, (OSError, KeyboardInterrupt)) else f"\n{trace}"
        if self._directory == Path():
            return shown
        log = f"{self._directory}/log.txt"
        try:
            with open(log, "a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text + trace)
        except OSError as other:
            return f"({log}: {other.strerror}){shown}"
        return f"(more in {log})"

    # Set-up.

    def open_new(self, make_setup: Callable[[], Setup]) -> None:
        """Set up a new run; create and lock its directory.

        Args:
            make_setup: makes the set-up of the run.

        Raises:
            BadInput: the experiment is invalid, or the directory cannot be used.
        """
        from mpinodes.finished.siblings import headed
        from mpinodes.running.setup import rehearse

        self._setup = make_setup()
        rehearse(self._setup)
        self._directory = self.enter_context(new_directory(self._setup.experiment, headed(self._setup)))

    def reopen(self, run: Path, words: list[str]) -> None:
        """Set up a run that is resumed, and lock its directory.

        The file with the error message of the failed run (failed.txt) is removed.

        Args:
            run: the run directory.
            words: key=value pairs of the command, which override keys of the experiment.
        """
        from mpinodes.running.resuming import reopen

        self.enter_context(held(run))
        self._setup, self._done, self._checkpoints = reopen(run, words, self._ranks)
        (run / FAILED_FILE).unlink(missing_ok=True)
        self._directory, self._is_new = run, False

    def run(self, words: list[str], resumed: Path | None = None) -> int:
        """Do the part of the run that this process does, and return the exit code.

        Args:
            words: the words of the command, without its options.
            resumed: the directory of the run to resume; None: start a new run.
        """

        def open_run() -> None:
            from mpinodes.config.defaults import unlike_first
            from mpinodes.running.setup import set_up

            if resumed:
                self.reopen(resumed, words)
            else:
                asked = asked_for(words)
                self.open_new(lambda: set_up(asked, self._ranks))
                if note := unlike_first(asked):
                    launching.say(note)

        gc.enable()
        self._start = launching.BEGAN
        if self._world is None:
            return self._outcome(lambda: self.alone(open_run))
        from mpi4py import MPI

        np.seterr(all="ignore")  # if a run diverges, the logger reports it once
        step, error = self._set_up_ranks(open_run)
        if error:
            if self._is_logger:
                launching.refuse(error)
                if self._is_new and self._directory != Path():
                    unmake_directory(self._directory)
            return launching.BAD_INPUT
        self._waits.limit = float(self._setup.experiment.deadline.seconds or self._waits.limit)
        if step:
            return self._act(step)
        self._at_work.enter_context(self._waits.at_work(self._peers))
        code = self._outcome(lambda: self._follow(MPI.Get_library_version().splitlines()[0].strip().rstrip("\0")))
        self._at_work.close()
        self._waits.send(self._peers)
        self._waits.share()
        return code

    def _set_up_ranks(self, open_run: Callable[[], None]) -> tuple[Step | None, str]:
        """Set up this rank for the first round, together with all other ranks.

        On the logger's rank, `open_run` sets up the run. The agents' ranks receive the experiment from the logger.

        Returns:
            The `Step` of the agent, and an error message. The `Step` is None on the logger's rank, and if the set-up of
            this rank fails. The message is "" if no rank has an error.
        """
        from tempfile import mkdtemp

        import msgspec

        message: Any = None
        step, error, host = None, "", f" on {os.uname().nodename}"
        self._places = self._waits.share(f"{os.getpid()}{host}")
        with ExitStack() as shelf:
            if self._is_logger:
                self._folder = mkdtemp(prefix="mpinodes-")
                shelf.enter_context(shared(Path(self._folder)))
                try:
                    with self._waits.at_work(self._peers):
                        open_run()
                        resolved = msgspec.msgpack.encode(self._setup.experiment)
                    message = resolved, str(self._directory.absolute()), self._folder, self._done
                except BadInput as problem:
                    message = str(problem)
            message = self._waits.share(message)[-1]
            if isinstance(message, str):
                return None, message
            resolved, directory, self._folder, self._done = message
            self._directory = Path(directory)
            if not self._is_logger:
                with self._waits.at_work(self._peers):
                    try:
                        shelf.enter_context(shared(Path(self._folder)))
                        self._setup = build(msgspec.msgpack.decode(resolved, type=Experiment))
                        step = Step(self._setup, self._rank)  # reads the agent's samples
                        self._setup.stream.forget()
                    except BadInput as problem:
                        error = f"{self._role(self._rank)}: {problem}"
            errors = self._waits.share(error)
        self._waits.share_core(sum(place.endswith(host) for place in self._places), gives_way=not self._is_logger)
        return step, next(filter(None, errors), "")

    # Rounds.

    def _act(self, step: Step) -> int:
        """Compute the rounds of the agent of this rank, in all repeats that are not complete.

        Args:
            step: computes the rounds of the agent in the first repeat.

        Returns:
            The exit code: 0, or `STOPPED` if a signal stopped the run.
        """
        from mpinodes.rounds.agent import run_agent
        from mpinodes.rounds.network import Channel

        assert self._world
        comm, rank, e, code = self._world, self._rank, self._setup.experiment, 0
        with self._signals:  # only the logger acts on the first signal
            for r in range(self._done, e.repeats):
                with self._waits.at_work(self._peers):
                    setup = self._setup if r == 0 else build(single_run(e, r))
                    step = step if r == 0 else Step(setup, rank)
                    setup.stream.forget()
                    keeper = Keeper(places(self._directory, e.repeats)[r], name_of(rank), noise_name(setup))
                t = self._waits.share()[-1]  # the round after which this repeat continues; 0 at the start
                channel = Channel(comm, setup.layout.width, longest_chunk(setup), self._waits, t)
                if run_agent(step, setup, comm, channel, self._waits, keeper, keeper.load(t) if t else None):
                    code = launching.STOPPED
                    break
            self._waits.hear(self._logger)  # wait, with sleep, until the report is written
            self._waits.share()
        return code

    def alone(self, open_run: Callable[[], None]) -> Result:
        """Do a whole run in this process without MPI; return the run directory and the summary.

        If the rounds raise an exception, it is raised again after one of these actions:

        - If it is a `BadInput`, and the run is new: the run directory is removed.
        - If it is a `Stopped`: nothing is done.
        - In all other cases: the exception is written to log.txt.

        Args:
            open_run: calls `open_new` or `reopen`.
        """
        with _libraries().limit(limits=1), np.errstate(all="ignore"):
            open_run()
            try:
                return self._follow("none (lockstep)")
            except Exception as error:
                if isinstance(error, BadInput) and self._is_new:  # some rows of a data file are read only in the rounds
                    unmake_directory(self._directory)
                elif not isinstance(error, Stopped):
                    error.add_note(self._logged("", error))
                raise

    def _follow(self, mpi: str) -> Result:
        """Log the rounds of all agents and finish the run; return the run directory and the summary.

        Args:
            mpi: the name of the MPI library, for the record.
        """
        from mpinodes.running import repeats

        self._signals.run = self._directory
        with self._signals:
            return self._directory, repeats.log(self._setup, self._directory, mpi, self, self._start)

    def _outcome(self, work: Callable[[], Result]) -> int:
        """Do the run, print its results, and return the exit code.

        If a signal stopped the run, the printed text says so and has no results. The text is also written to log.txt.

        Args:
            work: does the run, and returns the run directory and the summary.
        """
        from mpinodes.presentation import terminal

        try:
            directory, result = work()
        except Stopped as stop:
            code, text = launching.STOPPED, stop.in_words(self._signals.asked)
            launching.say(text)
        else:
            code, text = 0, terminal.text(result, directory)
            launching.show(text)
        self._logged(text + "\n")
        return code

    # The methods that `repeats.log` calls.

    def first(self, places: Sequence[Path], agents: int) -> tuple[int, Kept | None]:
        """Return the number of complete repeats, and the logger's checkpoint from which the next repeat continues.

        The checkpoint is from the latest round for which the logger and all agents have checkpoints. It is None if the
        next repeat starts at round 1. The agents' checkpoints of this round are stored in this object.

        Args:
            places: the directories of all repeats.
            agents: the number of agents.

        Raises:
            BadInput: the run has secret noise, and the checkpoint of an agent is damaged.
        """
        from mpinodes.running.resuming import load_all, sent_again, tell

        if self._is_new or self._done == len(places):
            return self._done, None
        place, whose = places[self._done], self._checkpoints[0]["of"][1] if self._checkpoints else ""
        checkpoint, self._saved = load_all(keepers_of(place, agents, whose), self._checkpoints)
        if self._checkpoints and not checkpoint and self._setup.experiment.secret:
            raise sent_again(self._directory)
        self._resumed = checkpoint["round"] if checkpoint else 0
        tell(place, checkpoint)
        return self._done, checkpoint

    def chunks(self, run: Setup, place: Path) -> Iterator[Chunk]:
        """Yield what all agents log in the next repeat, in chunks of consecutive rounds; the last chunk has the models.

        The format of the numbers is `core.events.Layout`. Under MPI, the agents' ranks send the numbers. Without MPI,
        this process computes all agents.

        Args:
            run: the set-up of the repeat.
            place: the directory of the repeat.
        """
        begin, saved, self._resumed, self._saved = self._resumed, self._saved, 0, []
        plan = Plan(run, begin, self._signals.is_asked)
        if self._world:
            from mpinodes.rounds.network import receive_chunks

            self._at_work.close()
            self._waits.share(begin)
            times = yield from receive_chunks(self._world, plan, run.layout.width, self._waits, begin, run.dimension)
            self._at_work.enter_context(self._waits.at_work(self._peers))
            self.times = times.T.tolist()
        else:
            from mpinodes.rounds.lockstep import run_agents

            keepers = keepers_of(place, run.topology.agents, noise_name(run))
            for keeper in keepers:
                keeper.forget_after(begin)
            yield from run_agents(run, plan, keepers, saved)
            for keeper in keepers:
                keeper.keep_two()
        self._is_new = False
        self._signals.are_recorded = place == places(self._directory, self._setup.experiment.repeats)[-1]


@cache
def _libraries() -> ThreadpoolController:
    """Return the object that limits the threads of the loaded libraries; to find the libraries takes 3 ms."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _exit_of(error: BaseException) -> tuple[int, str]:
    """Return the exit code and the error message for an exception that ends a job. The message "" is not printed."""
    if isinstance(error, Ended):
        return int(error.args[0]), ""
    if isinstance(error, launching.NobodyReads):
        return launching.NOBODY_READS, ""
    if isinstance(error, KeyboardInterrupt):
        return launching.INTERRUPTED, "interrupted; recorded rounds, if any, are kept"
    if isinstance(error, (BadInput, Diverged)):
        return launching.BAD_INPUT if isinstance(error, BadInput) else launching.FAILED, str(error)
    return launching.OVERDUE if isinstance(error, Overdue) else launching.FAILED, launching.in_words(error)
