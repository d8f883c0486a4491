"""Write and read the checkpoints of a run. A run can continue after the round of a checkpoint.

A participant is an agent or the logger. For a checkpoint, each participant writes one file:

    RUN/checkpoint/<round>-agent-<i>   the state of an agent, which is as private as the agent's data
    RUN/checkpoint/<round>-logger      the state of the logger

A checkpoint is complete when all participants have written their files. The last complete checkpoint is kept until the
next checkpoint is complete. The number of checkpoints depends on how the run ended:

- During a run, or after a kill: up to five, because agents may have computed more rounds than the logger has logged.
- After a signal has stopped the run: up to two.
- After the last round: up to two if `checkpoint.every` is set, otherwise none.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from mpinodes.core.errors import BadInput
from mpinodes.core.messages import Vector
from mpinodes.runlog import snapshot
from mpinodes.runlog.log import NAME
from mpinodes.runlog.snapshot import Damaged

FOLDER = "checkpoint"
LOGGER = "logger"

INSTEAD = "the run continues from the checkpoint before, or, if there is none, starts again"
LAYOUT = 7  # the version of the content of a checkpoint file; raise it whenever the content changes

Kept: TypeAlias = Mapping[str, Any]


class Stopped(Exception):
    """Report that a signal of the operating system stopped the run, which has written a checkpoint.

    The arguments of the exception are the run directory and the last round.
    """

    def in_words(self, signal: str) -> str:
        """Return the message for the user, which names the last round and the command that continues the run.

        Args:
            signal: the name of the signal that stopped the run.
        """
        run, t = self.args
        return f"{signal}: stopped after round {t}; no round is lost; to go on: python -m mpinodes.run --resume {run}"


class Order(NamedTuple):
    """Hold an order of the logger for the next chunk: where the chunk ends, and what agents and logger then do.

    A chunk is a number of consecutive rounds whose logged numbers are sent to the logger together.

    Attributes:
        end: the last round of the chunk.
        keeps: whether to write a checkpoint after the chunk.
        stops: whether the run ends after the chunk.
        forget: a round; checkpoints of earlier rounds are no longer needed.
    """

    end: int
    keeps: bool = False
    stops: bool = False
    forget: int = 0


class Chunk(NamedTuple):
    """Hold the numbers that all agents logged in some consecutive rounds, as the logger receives them.

    Attributes:
        rows: (agents, rounds, numbers) the numbers of each agent and round; the next chunks may overwrite this array.
        order: what to do after these rounds (`Order`); None for the chunk of models, if the run ended early, or if the
            rows of all rounds were computed before.
        seconds: how long it took to compute the rows, if they were computed before the logger asked for them; else 0.
        models: None, or in the last chunk, which has no rows, (agents, d): the models that the agents' releases state.
    """

    rows: Vector
    order: Order | None = None
    seconds: float = 0.0
    models: Vector | None = None


def places(run: Path, repeats: int) -> list[Path]:
    """Return the directories of all repeats of a run; with one repeat, only the run directory."""
    if repeats == 1:
        return [run]
    width = len(str(repeats - 1))
    return [run / f"repeat-{r:0{width}}" for r in range(repeats)]


def name_of(agent: int) -> str:
    """Return the name of an agent in file names of checkpoints, such as "agent-3"."""
    return f"agent-{agent}"


class Keeper:
    """Write, read and remove the checkpoint files of one participant of a run: an agent or the logger.

    Args:
        run: the run directory.
        name: the name of the participant.
        whose: a text that identifies the run: the hash that `noise_name` returns. A checkpoint of a run with another
            hash is rejected as damaged. If `whose` is empty, checkpoints of all runs are accepted.
    """

    def __init__(self, run: Path, name: str, whose: str = "") -> None:
        self._folder, self._name, self._whose = run / FOLDER, name, whose
        self._draft = f"{self._folder}/{name}.part"  # a checkpoint that is given up is renamed to this, to be reused
        self._kept = self.rounds()[::-1]  # ascending

    def rounds(self) -> list[int]:
        """Return the rounds for which this participant has a checkpoint file, the latest round first."""
        rounds = (file.name.partition("-")[0] for file in self._folder.glob(f"*-{self._name}"))
        return sorted((int(t) for t in rounds if t.isdecimal()), reverse=True)

    def save(self, t: int, content: Mapping[str, Any], lasting: bool = False) -> None:
        """Write the state of this agent, or of the logger, after round t to a checkpoint file.

        Args:
            t: the round.
            content: the state, as plain data.
            lasting: whether to flush the file to disk, so that it survives a loss of power.

        Raises:
            TypeError: a value is not plain data; the message names the value.
            OSError: the file cannot be written.
        """
        if not self._kept:
            self._folder.mkdir(mode=0o700, exist_ok=True)
        whole = {**content, "round": t, "layout": LAYOUT, "of": (self._name, self._whose)}
        snapshot.save(self._path(t), whole, self._draft, lasting)
        self._kept.append(t)

    def load(self, t: int) -> dict[str, Any]:
        """Return the state of this agent, or of the logger, after round t, from the checkpoint file.

        Raises:
            Damaged: the file is damaged, or belongs to another round, participant or run.
            BadInput: another version of mpinodes wrote the file in another layout.
            OSError: the file cannot be read.
        """
        path = Path(self._path(t))
        content = snapshot.load(path)
        if content.get("layout") != LAYOUT:
            instead = "resume with the version of mpinodes that wrote the file, or run experiment.toml again"
            raise BadInput(f"{path}: the checkpoint has layout {content.get('layout')}, expected {LAYOUT}: {instead}")
        name, whose = content.get("of", ("", ""))
        if content.get("round") != t or name != self._name or self._whose not in ("", whose):
            raise Damaged(f"{path}: damaged: the file belongs to another round, agent or run")
        return content

    def forget_before(self, t: int) -> None:
        """Remove this participant's checkpoints of rounds before t."""
        self._forget([kept for kept in self._kept if kept < t])

    def keep_two(self) -> None:
        """Remove all checkpoints of this participant except the last two.

        Call this method only after all participants have written the files of the last checkpoint.
        """
        self._forget(self._kept[:-2])
        Path(self._draft).unlink(missing_ok=True)

    def forget_after(self, t: int) -> None:
        """Remove this participant's checkpoints of rounds after t, which an earlier attempt of the run has written."""
        self._forget([kept for kept in self._kept if kept > t])

    def _forget(self, rounds: list[int]) -> None:
        for t in rounds:
            self._kept.remove(t)
            with suppress(OSError):
                os.replace(self._path(t), self._draft)

    def _path(self, t: int) -> str:
        return f"{self._folder}/{t}-{self._name}"


def keepers_of(run: Path, agents: int, whose: str) -> list[Keeper]:
    """Return for each agent the object that writes and reads the checkpoint files of the agent.

    Args:
        run: the run directory.
        agents: the number of agents.
        whose: a text that identifies the run, as in `Keeper`.
    """
    return [Keeper(run, name_of(agent), whose) for agent in range(agents)]


def discard(run: Path) -> None:
    """Remove the files from which a run could be continued: all checkpoints, and rounds.log."""
    import shutil  # imported here, because most agents do not need this module

    shutil.rmtree(run / FOLDER, ignore_errors=True)
    (run / NAME).unlink(missing_ok=True)
