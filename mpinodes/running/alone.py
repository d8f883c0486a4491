"""A whole run in this process: set up, simulated in lockstep, logged."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from mpinodes.config.noise_key import noise_name
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import Tree
from mpinodes.core.parts import Setup
from mpinodes.launch.launching import open_standard_streams
from mpinodes.launch.stopping import Signals
from mpinodes.rounds.lockstep import run_agents
from mpinodes.rounds.plan import Plan
from mpinodes.runlog.checkpoints import Chunk, Kept, Stopped, keepers_of
from mpinodes.runlog.directories import held, make_directory, unmake_directory
from mpinodes.running import repeats
from mpinodes.running.resuming import load_all, reopen, tell
from mpinodes.running.setup import rehearse, set_up
from mpinodes.summary.summary import Summary


def run(asked: Tree, begun: float | None = None, signals: Signals | None = None) -> tuple[Path, Summary]:
    """Run an experiment given as nested dictionaries; returns the run directory and the summary.

    Args:
        asked: the experiment.
        begun: when the command did, by `time.perf_counter`; None: now.
        signals: that stop it; None: none does.

    Raises:
        BadInput: something in the experiment is wrong.
        Stopped: a signal came.
    """
    return run_set_up(lambda: set_up(asked, ranks=None), begun, signals)


def run_set_up(
    make_setup: Callable[[], Setup], begun: float | None = None, signals: Signals | None = None
) -> tuple[Path, Summary]:
    """Run what is to be set up; returns the run directory and the summary.

    Args:
        make_setup: sets it up.
        begun: when the command did, by `time.perf_counter`; None: now.
        signals: as of `run`.

    Raises:
        BadInput: something in the experiment is wrong.
        Stopped: a signal came.
    """
    begun = time.perf_counter() if begun is None else begun
    open_standard_streams()  # or the record may get the number of one, and C libraries write their warnings into it
    with threadpool_limits(1), np.errstate(all="ignore"):
        setup = make_setup()
        rehearse(setup)
        directory, rounds = make_directory(setup.experiment), _Rounds(signals)
        try:
            with held(directory):
                return directory, _logged(setup, directory, rounds, begun)
        except BadInput:  # a file is found to be wrong where its rows are read
            if not rounds.ended:
                unmake_directory(directory)
            raise


def go_on(directory: Path, words: list[str], begun: float, signals: Signals) -> tuple[Path, Summary]:
    """The same for a run that was ended before its time.

    Args:
        directory: where it is.
        words: key=value, on top of its experiment.
        begun: when the command did.
        signals: as of `run`.

    Raises:
        BadInput: it cannot go on.
        Stopped: a signal came.
    """
    with threadpool_limits(1), np.errstate(all="ignore"), held(directory):
        setup, done, found = reopen(directory, words, None)
        rehearse(setup)
        return directory, _logged(setup, directory, _Rounds(signals, done, found, goes_on=True), begun)


def _logged(setup: Setup, directory: Path, rounds: _Rounds, begun: float) -> Summary:
    """Run what is set up; what goes wrong stands in the log."""
    try:
        return repeats.log(setup, directory, "none (lockstep)", rounds, begun)
    except (BadInput, Stopped):
        raise
    except Exception as error:
        log = directory / "log.txt"
        try:
            with log.open("a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(traceback.format_exc())
            error.add_note(f"(traceback in {log})")
        except OSError as other:
            if isinstance(error, OSError):  # most often the same: the disk is full
                error.add_note(f"(no traceback in {log}: {other.strerror})")
        raise


class _Rounds:
    """Those of all agents, in this process.

    Args:
        signals: that stop them.
        done: of its repeats, so many.
        found: what the logger has kept.
        goes_on: whether it was begun before.
    """

    def __init__(
        self, signals: Signals | None, done: int = 0, found: Sequence[Kept] = (), goes_on: bool = False
    ) -> None:
        self._signals, self._done, self._found, self._goes_on = signals, done, found, goes_on
        self._kept: Sequence[Kept] = ()  # of the agents
        self.ended = False  # whether all rounds of a run are recorded

    def first(self, places: Sequence[Path], agents: int) -> tuple[int, Kept | None]:
        """See `repeats.Rounds`."""
        if not self._goes_on or self._done == len(places):
            return self._done, None
        place = places[self._done]
        whose = self._found[0]["of"][1] if self._found else ""
        kept, self._kept = load_all(keepers_of(place, agents, whose), self._found)
        tell(place, kept)
        return self._done, kept

    def chunks(self, run: Setup, place: Path) -> Iterator[Chunk]:
        """See `repeats.Rounds`."""
        keepers, kept = keepers_of(place, run.topology.agents, noise_name(run)), self._kept
        self._kept = ()
        begin = kept[0]["round"] if kept else 0
        for keeper in keepers:
            keeper.forget_after(begin)
        with self._signals or nullcontext():
            plan = Plan(run, begin, self._signals.is_asked) if self._signals else Plan(run, begin)
            yield from run_agents(run, plan, keepers, kept)
        self.ended = True

    def times(self) -> None:
        """See `repeats.Rounds`: there is one rank."""

    def without_noise(self, run: Setup, place: Path) -> None:
        """See `repeats.Rounds`."""
        from mpinodes.running import noise_free  # it draws, and what draws takes long to import

        noise_free.make_if_short(run, place)
