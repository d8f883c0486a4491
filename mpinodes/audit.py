"""Compute lower bounds on an algorithm's ε: mpirun -n N python -m mpinodes.audit [experiment.toml] [key=value ...].

The audit has three steps:

1. Run the experiment once.
2. Test this run: run each agent again on adjacent data, and compare the messages; if the run has noise, test the noise.
3. Play games. In a game, an adversary guesses from the messages of a run which data the run had. The success of the
   adversary gives a lower bound on ε.

The games are played on small experiments with the same algorithm. If audit.view names agents, one game is played, on
the experiment itself. The audit prints a table that compares the lower bounds with the paper's claim and with the
proven ε. Without arguments, the default experiment is audited. If neither a file nor `rounds` is passed, the run has at
most 60 rounds, unless the algorithm needs more. Without mpirun everything runs in one process. seed=... also sets the
seed of the audit.

Exit code 0: no proven value is refuted. 1: a proven value is refuted. 2: bad input. Other codes mean the same as for
mpinodes run.
"""

from __future__ import annotations

import contextlib
import io
import math
import sys
import tempfile
import tomllib
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mpinodes.run  # noqa: F401 (the import limits BLAS threads)
from mpinodes.core.errors import BadInput
from mpinodes.launch.arguments import Parser
from mpinodes.launch.launching import BAD_INPUT, FAILED, command, find_world, launcher, refuse, say

if TYPE_CHECKING:
    from mpi4py import MPI

    from mpinodes.auditing.games import Canary, Ready
    from mpinodes.auditing.small_experiments import Probe
    from mpinodes.auditing.verdicts import Verdict
    from mpinodes.core import Vector

PAIRS = 1000  # number of pairs of runs for each probe
SHORT = 60  # largest number of rounds of the run, unless a file or `rounds` sets the number
REFUTED = 1  # exit code


@command
def main(argv: list[str]) -> int:
    """Run the command and return its exit code."""
    parser = Parser("audit", __doc__)
    parser.add_words("experiment.toml | key=value", "a file, then overrides")
    words = parser.parse_intermixed_args(argv).words
    started = launcher()
    world = find_world(started) if started and started.size > 1 else None
    from mpinodes.core import Diverged

    with tempfile.TemporaryDirectory() as folder:
        audit = AuditedRun(world, Path(folder))
        if world:
            return audit.job.guarded(lambda: audit.run(words))
        try:
            return audit.run(words)
        except BadInput:
            raise
        except Exception as error:  # a crash must not return the exit code of a refuted value
            say(f"error: {error if isinstance(error, Diverged) else traceback.format_exc()}")
        return FAILED


class AuditedRun:
    """Do the work of one rank in an audit: take part in the audited run, and simulate a share of the games.

    In a game, an adversary guesses from the messages of a run which data the run had. Only the *logger*, the last rank,
    reads the run and prints the table of the results.

    Args:
        world: the communicator of all ranks; None if there is only this process.
        folder: an empty directory of this rank.
    """

    def __init__(self, world: MPI.Comm | None, folder: Path) -> None:
        from mpinodes.running.job import Job

        self._world, self._folder, self.job = world, folder, Job(world)
        self._rank, self._ranks = (world.rank, world.size) if world else (0, 1)
        self._logger = self._ranks - 1

    def run(self, words: list[str]) -> int:
        """Run the experiment, test the run, play the adversary's games, and print the table of all results.

        Only the logger (the last rank) tests the run and prints the table.

        Args:
            words: the command-line arguments.

        Returns:
            The exit code, which is equal on every rank.
        """
        import numpy as np
        import tomli_w
        from threadpoolctl import threadpool_limits

        from mpinodes.auditing.small_experiments import RECORDED
        from mpinodes.core.asked import merge

        asked: dict[str, Any] | None = None
        file, directory = self._folder / "own.toml", self._folder / "own"
        if self._rank == self._logger:
            try:
                asked = own_run(words, self._ranks if self._world else None)
                once = merge(asked, RECORDED, {"output": {"dir": str(directory)}})
                file.write_text(tomli_w.dumps(once), "utf-8")
            except BadInput as error:
                refuse(error)
        asked = self._shared(asked)[-1]
        if asked is None:
            return BAD_INPUT
        with threadpool_limits(1), np.errstate(all="ignore"):
            with contextlib.redirect_stdout(io.StringIO()):  # do not print the summary of the run
                if code := self.job.run([str(file)]):
                    return code
            code = self._judge(asked, directory)
        return int(self._shared(code)[-1])

    def _judge(self, asked: dict[str, Any], directory: Path) -> int:
        """Test the run, play the adversary's games, and print the table of the results.

        If the user's code fails while a game is prepared, the table says that this game was left out.

        Args:
            asked: the settings of the experiment.
            directory: the run directory.

        Returns:
            On the logger (the last rank), the exit code: `REFUTED` if a proven value is refuted, else 0. On other
            ranks, 0.
        """
        from mpinodes.auditing import verdicts
        from mpinodes.auditing.games import canary, prepare
        from mpinodes.auditing.small_experiments import of_view, probes
        from mpinodes.auditing.transcripts import Recorded
        from mpinodes.config.compose import compose
        from mpinodes.summary.summary import Summary

        seed = int(asked.get("seed", 0))
        if asked.get("audit", {}).get("view", "links") != "links":
            games = [of_view(compose(asked, None).experiment)]
        else:
            adjacency, feedback = asked.get("privacy", {}).get("adjacency", "one-sample"), asked.get("feedback")
            games = probes(asked.get("algorithm", {}), seed, self._folder, adjacency, feedback)
        if self._rank != self._logger:
            self._play(games, [], seed)
            return 0
        run = Recorded(directory)
        e, loss = run.setup.experiment, Summary.read(directory).privacy.network
        own = verdicts.of_run(run, seed)
        if e.private:
            own += verdicts.of_settings(run.setup, self._folder, seed)
        ready: dict[int, Ready] = {}
        targets: list[Canary | None] = [None for _ in games]
        rows = [verdicts.of_summary(loss), *own]
        for k, probe in enumerate(games):
            try:
                made = prepare(probe, self._folder / f"probe-{k}")
                targets[k] = None if probe.secret else canary(made, seed)
                ready[k] = made
            except Exception as error:  # raised by the user's part, which may not work with the sizes of a probe
                if isinstance(error, BadInput) and error.__cause__ is None:
                    raise
                reason = f"left out, with {probe.asked['topology']['agents']} agents: {type(error).__name__}: {error}"
                rows.append(verdicts.Verdict(probe.what, reason, "not tested", False))
        ratios = self._play(games, targets, seed)
        alpha = verdicts.FALSE_ALARM * (1 - verdicts.OF_NOISE) / max(1, len(ready))
        played: list[Verdict] = []
        for k, probe_run in ready.items():
            played += verdicts.of_probe(probe_run, targets[k], ratios.get(k), alpha, seed)
        name = e.algorithm.get("name") or e.algorithm["path"]
        title = f"audit of {name}, seed {seed}, {e.privacy.adjacency}"
        title += "" if e.reproducible else ", with noise that no seed reproduces"
        print(verdicts.table(title, rows, played, alpha, e.audit.view), flush=True)
        return REFUTED if any(row.refuted for row in [*rows, *played]) else 0

    def _play(self, games: list[Probe], targets: list[Canary | None], seed: int) -> dict[int, Vector]:
        """Simulate this rank's share of the runs of all games, and return the results of `games.pairs` for each game.

        Args:
            games: for each game, the experiment on which the game is played.
            targets: for each game, its adjacent data set; None if the game needs no pairs of runs, or was left out.
                Only the argument of the logger (the last rank) counts.
            seed: the seed of the audit.

        Returns:
            A dictionary from the index of a game to the results (pairs, 2): a pair has a run on each of two adjacent
            data sets.
        """
        import numpy as np

        from mpinodes.auditing.games import pairs
        from mpinodes.config.compose import compose

        share = np.array_split(np.arange(PAIRS), self._ranks)[self._rank].tolist()
        mine = {
            k: pairs(compose(games[k].asked, None), target, share, seed)
            for k, target in enumerate(self._shared(targets)[-1])
            if target
        }
        shares = self._shared(mine)
        return {k: np.concatenate([of_rank[k] for of_rank in shares]) for k in mine}

    def _shared(self, value: Any) -> list[Any]:
        """Return on every rank the `value` of each rank; that of the logger comes last."""
        if not self._world:
            return [value]
        from mpinodes.rounds.waiting import Waits

        return Waits(self._world, math.inf).share(value)


def own_run(words: list[str], ranks: int | None) -> dict[str, Any]:
    """Return the settings of the experiment that the audit runs.

    - If the command line names neither a file nor `rounds`, the run has at most `SHORT` rounds, unless the algorithm
      needs more, and the result has the key `rounds`.
    - If `audit.view` names agents, the result has the values of all keys.
    - If `audit.view` is links, all other keys of the result are set by the command line or by a file.

    Args:
        words: the command-line arguments.
        ranks: the number of ranks; None if there is only this process.

    Raises:
        BadInput: the experiment is malformed, or cannot be run.
    """
    from mpinodes.config.compose import compose
    from mpinodes.core.asked import asked_for, merge

    asked = asked_for(words)
    setup = compose(asked, ranks)
    e = setup.experiment
    if all("=" in word for word in words[:1]) and "rounds" not in asked:
        asked = merge(asked, {"rounds": max(setup.algorithm.fewest_rounds + 1, min(e.rounds, SHORT))})
    if e.audit.viewers:  # the viewers are agents of this graph, so the games use all settings of the run
        asked = merge(tomllib.loads(e.toml()), asked)
    return asked


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
