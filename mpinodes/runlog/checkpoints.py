"""The checkpoints of a run: for each participant, a file with the state from which the run can continue after a round.

    RUN/checkpoint/<round>-agent-<i>   state of an agent; it is as private as the agent's data
    RUN/checkpoint/<round>-logger      state of the logger

A checkpoint is complete when all participants have written their files. The last complete checkpoint is kept until the
next one is complete, and two are kept at the end. Agents may be two chunks of rounds ahead of the logger, so there may
be five checkpoints while the run goes on.
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

INSTEAD = "the checkpoint before it is taken, or, where there is none, the run begins anew"
LAYOUT = 6  # number of the layout of a checkpoint; raise it whenever the layout changes

Kept: TypeAlias = Mapping[str, Any]


class Stopped(Exception):
    """A run was asked to stop and has written a checkpoint; raised with the run's directory and last round."""

    def in_words(self, signal: str) -> str:
        """Return the message for the user, given the signal that stopped the run."""
        run, t = self.args
        return f"{signal}: stopped after round {t}, and all is kept; to go on: python -m mpinodes.run --resume {run}"


class Order(NamedTuple):
    """The order of the logger for a chunk of rounds, to the agents and to itself.

    Attributes:
        end: the last round of the chunk.
        keeps: whether to write a checkpoint after the chunk.
        stops: whether the run ends with the chunk.
        forget: checkpoints of earlier rounds than this one are not needed any more.
    """

    end: int
    keeps: bool = False
    stops: bool = False
    forget: int = 0


class Chunk(NamedTuple):
    """Rounds of every agent, as the logger takes them.

    Attributes:
        rows: (agents, rounds, row), valid until the next one.
        order: the order of this chunk; None: the run ended early.
    """

    rows: Vector
    order: Order | None = None


def places(run: Path, repeats: int) -> list[Path]:
    """Return the directory of each repeat of a run."""
    if repeats == 1:
        return [run]
    width = len(str(repeats - 1))
    return [run / f"repeat-{r:0{width}}" for r in range(repeats)]


def name_of(agent: int) -> str:
    """Return the name of an agent among the participants of a run."""
    return f"agent-{agent}"


class Keeper:
    """The checkpoint files of one participant of a run.

    Args:
        run: the run directory.
        name: name of the participant.
        whose: name of the run, made of the key of its noise (`noise_name`); empty, for reading: any run.
    """

    def __init__(self, run: Path, name: str, whose: str = "") -> None:
        self._folder, self._name, self._whose = run / FOLDER, name, whose
        self._draft = f"{self._folder}/{name}.part"  # a file that is not needed any more becomes the next draft
        self._kept = self.rounds()[::-1]  # ascending

    def rounds(self) -> list[int]:
        """Return the rounds of the checkpoints, the latest first."""
        rounds = (file.name.partition("-")[0] for file in self._folder.glob(f"*-{self._name}"))
        return sorted((int(t) for t in rounds if t.isdecimal()), reverse=True)

    def save(self, t: int, content: Mapping[str, Any], lasting: bool = False) -> None:
        """Write the state after round t.

        Args:
            t: the round.
            content: the state, as plain data.
            lasting: whether to wait until a loss of power cannot destroy the file.

        Raises:
            TypeError: a value is no plain data; names the value.
            OSError: the file cannot be written.
        """
        if not self._kept:
            self._folder.mkdir(mode=0o700, exist_ok=True)
        whole = {**content, "round": t, "layout": LAYOUT, "of": (self._name, self._whose)}
        snapshot.save(self._path(t), whole, self._draft, lasting)
        self._kept.append(t)

    def load(self, t: int) -> dict[str, Any]:
        """Return the state after round t.

        Raises:
            Damaged: the file is damaged, or of another round, participant or run.
            BadInput: another version of mpinodes wrote the file.
            OSError: the file cannot be read.
        """
        path = Path(self._path(t))
        content = snapshot.load(path)
        if content.get("layout") != LAYOUT:
            instead = "go on with the mpinodes that wrote it, or run its experiment.toml anew"
            raise BadInput(f"{path}: a checkpoint of layout {content.get('layout')}, not {LAYOUT}: {instead}")
        name, whose = content.get("of", ("", ""))
        if content.get("round") != t or name != self._name or self._whose not in ("", whose):
            raise Damaged(f"{path}: damaged: it is of another round, agent or run")
        return content

    def forget_before(self, t: int) -> None:
        """Give up the checkpoints of earlier rounds."""
        while self._kept and self._kept[0] < t:
            self._forget(self._kept.pop(0))

    def keep_two(self) -> None:
        """Give up all checkpoints but the last two, when all participants have written the last one."""
        while len(self._kept) > 2:
            self._forget(self._kept.pop(0))

    def forget_after(self, t: int) -> None:
        """Give up the checkpoints of later rounds, of an earlier attempt that came further."""
        while self._kept and self._kept[-1] > t:
            self._forget(self._kept.pop())

    def _forget(self, t: int) -> None:
        with suppress(OSError):
            os.replace(self._path(t), self._draft)

    def _path(self, t: int) -> str:
        return f"{self._folder}/{t}-{self._name}"


def keepers_of(run: Path, agents: int, whose: str) -> list[Keeper]:
    """Return the checkpoint files of all agents."""
    return [Keeper(run, name_of(agent), whose) for agent in range(agents)]


def discard(run: Path) -> None:
    """Remove all checkpoints of a run, and the log that they refer to."""
    import shutil  # most agents do not need it

    shutil.rmtree(run / FOLDER, ignore_errors=True)
    (run / NAME).unlink(missing_ok=True)
