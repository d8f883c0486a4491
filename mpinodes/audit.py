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
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpinodes import run  # noqa: F401 (the import limits BLAS threads)
from mpinodes.core.errors import BadInput
from mpinodes.launch.arguments import Parser
from mpinodes.launch.launching import BAD_INPUT, FAILED, command, find_world, launcher, refuse, say

if TYPE_CHECKING:
    from mpi4py import MPI

    from mpinodes.auditing.games import Canary, Ready
    from mpinodes.auditing.probes import Probe
    from mpinodes.auditing.verdicts import Verdict
    from mpinodes.core import Vector
    from mpinodes.running.job import Job

PAIRS = 1000  # pairs of runs of each probe
SHORT = 60  # rounds of the run, unless a file or `rounds` sets its length
REFUTED = 1


@command
def main(argv: list[str]) -> int:
    """Run the command and return its exit code."""
    parser = Parser("audit", __doc__)
    parser.add_words("experiment.toml | key=value", "a file, then overrides")
    started = launcher()
    try:
        words = parser.parse_intermixed_args(argv).words
        if started is None or started.size == 1:
            return _alone(words)
    except BadInput:
        raise
    except Exception as error:  # a crash is no verdict
        say(f"error: {type(error).__name__}: {error}\n{traceback.format_exc()}")
        return FAILED
    world = find_world(started)
    from mpinodes.running.job import Job

    with tempfile.TemporaryDirectory() as folder:
        audit = AuditJob(world, Job(world), Path(folder))
        return audit.job.guarded(lambda: audit.run(words))


def _alone(words: list[str]) -> int:
    """Run the audit in this process."""
    import numpy as np
    from threadpoolctl import threadpool_limits

    from mpinodes.auditing.games import pairs
    from mpinodes.config.compose import compose
    from mpinodes.core import Diverged
    from mpinodes.running import job

    asked = own_run(words, None)
    with threadpool_limits(1), np.errstate(all="ignore"), tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            directory, _ = job.run(into(asked, folder / "own"))
        except Diverged as error:
            refuse(error)
            return FAILED

        def play(probe: Probe, target: Canary) -> Vector:
            return pairs(compose(probe.asked, None), target, range(PAIRS), seed_of(asked))

        return report(asked, directory, folder, lambda games: [play(*game) for game in games])


class AuditJob:
    """One rank's part of an audit: its part of the run, and an equal share of the games."""

    def __init__(self, world: MPI.Comm, job: Job, folder: Path) -> None:
        self._world, self.job, self._folder = world, job, folder
        self._logger_rank = world.size - 1
        self._is_logger = world.rank == self._logger_rank

    def run(self, words: list[str]) -> int:
        """Run the experiment, then play the games; return the exit code, equal on every rank."""
        import tomli_w

        from mpinodes.rounds.waiting import assemble

        asked: dict[str, Any] = {}
        file, error = self._folder / "own.toml", ""
        if self._is_logger:
            try:
                asked = own_run(words, self._world.size)
                file.write_text(tomli_w.dumps(into(asked, self._folder / "own")), "utf-8")
            except BadInput as problem:
                error = str(problem)
                refuse(error)
        assemble(self._world)
        asked, error = self._world.bcast((asked, error), root=self._logger_rank)
        if error:
            return BAD_INPUT
        with contextlib.redirect_stdout(io.StringIO()):  # hide the run's own summary
            if code := self.job.run([str(file)]):
                return code
        if self._is_logger:
            directory = self._folder / "own"
            code = report(asked, directory, self._folder, lambda games: self._deal(asked, games))
        else:
            self._deal(asked, [])
            code = 0
        assemble(self._world)
        return int(self._world.bcast(code, root=self._logger_rank))

    def _deal(self, asked: dict[str, Any], games: list[tuple[Probe, Canary]]) -> list[Vector]:
        """Play this rank's share of all pairs of all games, and gather the ratios on the logger."""
        import numpy as np

        from mpinodes.auditing.games import pairs
        from mpinodes.config.compose import compose
        from mpinodes.rounds.waiting import assemble

        me, ranks = self._world.rank, self._world.size
        assemble(self._world)
        targets = dict(self._world.bcast([(probe.what, t) for probe, t in games], root=self._logger_rank))
        mine = [
            pairs(compose(probe.asked, None), targets[probe.what], range(me, PAIRS, ranks), seed_of(asked))
            for probe in games_of(asked, self._folder)
            if probe.what in targets
        ]
        assemble(self._world)
        all_of = self._world.gather(mine, root=self._logger_rank)
        whole = [np.empty((PAIRS, 2)) for _ in mine] if all_of else []
        for rank, shares in enumerate(all_of or []):
            for ratios, share in zip(whole, shares, strict=True):
                ratios[rank::ranks] = share
        return whole


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


def games_of(asked: dict[str, Any], folder: Path) -> list[Probe]:
    """Return the experiments of the games: small probes, or the run itself if the adversary is among its agents."""
    from mpinodes.auditing.probes import of_view, probes
    from mpinodes.config.compose import compose

    if asked.get("audit", {}).get("view", "links") != "links":
        return [of_view(compose(asked, None).experiment)]
    adjacency = asked.get("privacy", {}).get("adjacency", "one-sample")
    return probes(asked.get("algorithm", {}), seed_of(asked), folder, adjacency, asked.get("feedback"))


def seed_of(asked: dict[str, Any]) -> int:
    """Return the audit's seed."""
    return int(asked.get("seed", 0))


def into(asked: dict[str, Any], directory: Path) -> dict[str, Any]:
    """Return the same experiment, run once and recorded in full in a directory."""
    from mpinodes.core.asked import merge

    changes: dict[str, Any] = {"repeats": 1, "report": False, "record": {"transcript": True}}
    return merge(asked, changes, {"output": {"dir": str(directory)}})


def report(
    asked: dict[str, Any], directory: Path, folder: Path, play: Callable[[list[tuple[Probe, Canary]]], list[Vector]]
) -> int:
    """Test the run, have the games played, and print the table; return the exit code."""
    from mpinodes.auditing import verdicts
    from mpinodes.auditing.settings import tried
    from mpinodes.auditing.transcripts import Recorded, Transcript
    from mpinodes.summary.summary import Summary

    seed = seed_of(asked)
    read = Recorded(directory)
    own = verdicts.of_run(Transcript(read.setup, read.frames, read.events), seed)
    if read.setup.experiment.private:
        own += verdicts.of_settings(list(tried(read.setup, folder, seed)))
    ready, left_out = prepared(games_of(asked, folder), folder, seed)
    ratios = play([(r.probe, target) for r, target in ready if target])
    alpha = verdicts.FALSE_ALARM * (1 - verdicts.OF_NOISE) / max(1, len(ready))
    left = iter(ratios)
    rows = [
        row for r, target in ready for row in verdicts.of_probe(r, target, next(left) if target else None, alpha, seed)
    ]
    rows += verdicts.of_probes([r for r, _ in ready])
    name = read.setup.experiment.algorithm.get("name") or read.setup.experiment.algorithm["path"]
    again = "" if read.setup.experiment.reproducible else ", with noise that no seed reproduces"
    view = read.setup.experiment.audit.view
    loss = Summary.read(directory).privacy.network
    title, own_rows = f"audit of {name}, seed {seed}{again}", [verdicts.of_summary(loss), *own, *left_out]
    print(verdicts.table(title, own_rows, rows, alpha, view), flush=True)
    return REFUTED if any(row.refuted for row in [*own, *rows]) else 0


def prepared(probes: list[Probe], folder: Path, seed: int) -> tuple[list[tuple[Ready, Canary | None]], list[Verdict]]:
    """Run every probe once, and choose its adjacent data set if its game has one.

    A probe on which the user's part fails becomes a row of its own, because the part need not work for a probe's size.
    """
    from mpinodes.auditing.games import canary, prepare
    from mpinodes.auditing.verdicts import Verdict

    ready, left_out = [], []
    for k, probe in enumerate(probes):
        try:
            made = prepare(probe, folder / f"probe-{k}")
            ready.append((made, None if made.probe.secret else canary(made, seed)))
        except BadInput:
            raise
        except Exception as error:
            why = f"left out, with {probe.asked['topology']['agents']} agents: {type(error).__name__}: {error}"
            left_out.append(Verdict(probe.what, why, "not tested", False))
    return ready, left_out


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
