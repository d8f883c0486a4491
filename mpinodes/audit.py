"""Audit an algorithm's privacy from below: mpirun -n N python -m mpinodes.audit [experiment.toml] [key=value ...].

The experiment is run once, over MPI. Its messages are tested by replay on adjacent data, and its noise by exact tests.
Then games on small probes of the same algorithm bound its ε from below, for comparison with the paper's claim and the
accountant's proof. Without arguments, DPSDA-PS is audited. Without `rounds` or a file the run is short. Without mpirun
everything runs in one process. seed=... is the audit's seed, too.

Exit code 1: a proven value is refuted. Exit code 2: bad input.
"""

from __future__ import annotations

import contextlib
import io
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
    from mpinodes.auditing.probes import Probe
    from mpinodes.auditing.verdicts import Verdict
    from mpinodes.core import Vector

PAIRS = 1000  # pairs of runs of each probe
SHORT = 60  # rounds of the run, unless a file or `rounds` sets its length
REFUTED = 1


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
        audit = Audit(world, Path(folder))
        if world:
            return audit.job.guarded(lambda: audit.run(words))
        try:
            return audit.run(words)
        except BadInput:
            raise
        except Diverged as error:
            refuse(error)
        except Exception as error:  # a crash is no verdict
            say(f"error: {type(error).__name__}: {error}\n{traceback.format_exc()}")
        return FAILED


class Audit:
    """One rank's part of an audit: its part of the run, and an equal share of the games.

    Args:
        world: the communicator of all ranks; None if this process does everything.
        folder: an empty directory of this rank.
    """

    def __init__(self, world: MPI.Comm | None, folder: Path) -> None:
        from mpinodes.running.job import Job

        self._world, self._folder, self.job = world, folder, Job(world)
        self._rank, self._ranks = (world.rank, world.size) if world else (0, 1)
        self._logger = self._ranks - 1

    def run(self, words: list[str]) -> int:
        """Run the experiment, then play the games; return the exit code, equal on every rank."""
        import numpy as np
        import tomli_w
        from threadpoolctl import threadpool_limits

        asked: dict[str, Any] = {}
        file, directory, error = self._folder / "own.toml", self._folder / "own", ""
        if self._rank == self._logger:
            try:
                asked = own_run(words, self._ranks if self._world else None)
                file.write_text(tomli_w.dumps(recorded(asked, directory)), "utf-8")
            except BadInput as problem:
                error = str(problem)
                refuse(error)
        asked, error = self._shared((asked, error))
        if error:
            return BAD_INPUT
        with threadpool_limits(1), np.errstate(all="ignore"):
            with contextlib.redirect_stdout(io.StringIO()):  # hide the run's own summary
                if code := self.job.run([str(file)]):
                    return code
            code = self._judge(asked, directory)
        return int(self._shared(code))

    def _judge(self, asked: dict[str, Any], directory: Path) -> int:
        """Test the run, play the games, and print the table; return the exit code, which only the logger knows."""
        from mpinodes.auditing import verdicts
        from mpinodes.auditing.settings import tried
        from mpinodes.auditing.transcripts import Recorded
        from mpinodes.summary.summary import Summary

        seed, games = int(asked.get("seed", 0)), games_of(asked, self._folder)
        if self._rank != self._logger:
            self._play(games, [], seed)
            return 0
        run = Recorded(directory)
        e, loss = run.setup.experiment, Summary.read(directory).privacy.network
        own = verdicts.of_run(run, seed)
        if e.private:
            own += verdicts.of_settings(tried(run.setup, self._folder, seed))
        ready, targets, left_out = prepared(games, self._folder, seed)
        ratios = self._play(games, targets, seed)
        alpha = verdicts.FALSE_ALARM * (1 - verdicts.OF_NOISE) / max(1, len(ready))
        rows = [
            row
            for k, probe in ready.items()
            for row in verdicts.of_probe(probe, targets[k], ratios.get(k), alpha, seed)
        ]
        rows += verdicts.of_probes(list(ready.values()))
        name = e.algorithm.get("name") or e.algorithm["path"]
        title = f"audit of {name}, seed {seed}{'' if e.reproducible else ', with noise that no seed reproduces'}"
        own_rows = [verdicts.of_summary(loss), *own, *left_out]
        print(verdicts.table(title, own_rows, rows, alpha, e.audit.view), flush=True)
        return REFUTED if any(row.refuted for row in [*own, *rows]) else 0

    def _play(self, games: list[Probe], targets: list[Canary | None], seed: int) -> dict[int, Vector]:
        """Play this rank's share of all pairs of all games; return the ratios by game, on the logger.

        Args:
            games: the experiments of the games.
            targets: on the logger, the adjacent data set of each game; None if no pairs are played.
            seed: of the audit.
        """
        import numpy as np

        from mpinodes.auditing.games import pairs
        from mpinodes.config.compose import compose

        mine = {
            k: pairs(compose(games[k].asked, None), target, range(self._rank, PAIRS, self._ranks), seed)
            for k, target in enumerate(self._shared(targets))
            if target
        }
        if not self._world:
            return mine
        self._assemble()
        shares = self._world.gather(mine, root=self._logger) or []
        ratios = {k: np.empty((PAIRS, 2)) for k in mine} if shares else {}
        for rank, share in enumerate(shares):
            for k, of_rank in share.items():
                ratios[k][rank :: self._ranks] = of_rank
        return ratios

    def _assemble(self) -> None:
        """Wait for all ranks without spinning."""
        from mpinodes.rounds.waiting import assemble

        if self._world:
            assemble(self._world)

    def _shared(self, value: Any) -> Any:
        """Return the value of the logger on every rank."""
        self._assemble()
        return self._world.bcast(value, root=self._logger) if self._world else value


def own_run(words: list[str], ranks: int | None) -> dict[str, Any]:
    """Return the experiment to run once; it is shortened if neither a file nor `rounds` sets its length.

    Raises:
        BadInput: the experiment is malformed.
    """
    from mpinodes.config.compose import compose
    from mpinodes.core.asked import asked_for, merge

    asked = asked_for(words)
    setup = compose(asked, ranks)
    whole = setup.experiment
    has_file = bool(words) and "=" not in words[0]
    if not has_file and "rounds" not in asked:
        asked = merge(asked, {"rounds": max(setup.algorithm.fewest_rounds + 1, min(whole.rounds, SHORT))})
    if whole.audit.viewers:  # the viewers are agents of this graph, so the games need all of the run's settings
        asked = merge(tomllib.loads(whole.toml()), asked)
    return asked


def recorded(asked: dict[str, Any], directory: Path) -> dict[str, Any]:
    """Return the same experiment, run once and recorded in full in a directory."""
    from mpinodes.core.asked import merge

    changes: dict[str, Any] = {"repeats": 1, "report": False, "record": {"transcript": True}}
    return merge(asked, changes, {"output": {"dir": str(directory)}})


def games_of(asked: dict[str, Any], folder: Path) -> list[Probe]:
    """Return the experiments of the games: small probes, or the run itself if the adversary is among its agents."""
    from mpinodes.auditing.probes import of_view, probes
    from mpinodes.config.compose import compose

    if asked.get("audit", {}).get("view", "links") != "links":
        return [of_view(compose(asked, None).experiment)]
    adjacency = asked.get("privacy", {}).get("adjacency", "one-sample")
    return probes(asked.get("algorithm", {}), int(asked.get("seed", 0)), folder, adjacency, asked.get("feedback"))


def prepared(
    games: list[Probe], folder: Path, seed: int
) -> tuple[dict[int, Ready], list[Canary | None], list[Verdict]]:
    """Run every probe once, and choose its adjacent data set if its game has one.

    A probe on which the user's part fails becomes a row of its own, because the part need not work for a probe's size.

    Returns:
        The probes that could be run, by their numbers. The adjacent data sets of all games. The rows of failed probes.
    """
    from mpinodes.auditing.games import canary, prepare
    from mpinodes.auditing.verdicts import Verdict

    ready: dict[int, Ready] = {}
    left_out: list[Verdict] = []
    targets: list[Canary | None] = [None for _ in games]
    for k, probe in enumerate(games):
        try:
            made = prepare(probe, folder / f"probe-{k}")
            targets[k] = None if probe.secret else canary(made, seed)
            ready[k] = made
        except BadInput:
            raise
        except Exception as error:
            why = f"left out, with {probe.asked['topology']['agents']} agents: {type(error).__name__}: {error}"
            left_out.append(Verdict(probe.what, why, "not tested", False))
    return ready, targets, left_out


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
