"""The checkpoints of a run: what each of its participants needs to go on after a round, a file each.

`checkpoint/<round>-agent-<i>` and `checkpoint/<round>-logger`: to make and remove a directory for each takes
milliseconds. A checkpoint is one of them all; the one before is kept until the next is whole, and two at the end: as
agents are up to two chunks of rounds ahead of the logger, there may be five while the run goes on. An agent's holds
what its messages hide: it is as private as the agent's data.
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
LAYOUT = 5  # of what a checkpoint holds; one more whenever that changes

Kept: TypeAlias = Mapping[str, Any]


class Stopped(Exception):
    """A run was asked to stop, and all is kept that it needs to go on; raised with its directory and last round."""

    def in_words(self, signal: str) -> str:
        """What to say, given the signal that asked for it."""
        run, t = self.args
        return f"{signal}: stopped after round {t}, and all is kept; to go on: python -m mpinodes.run --resume {run}"


class Order(NamedTuple):
    """What the logger wants of the agents, and of itself, with a chunk of rounds.

    Attributes:
        end: its last round.
        keeps: whether all write down after it what they need to go on.
        stops: whether the run ends with it.
        forget: what was kept after rounds before this one is needed no more.
    """

    end: int
    keeps: bool = False
    stops: bool = False
    forget: int = 0


class Chunk(NamedTuple):
    """Rounds of every agent, as the logger takes them.

    Attributes:
        rows: (agents, rounds, row), valid until the next one.
        order: what was wanted with them; None: the run has ended before their time.
    """

    rows: Vector
    order: Order | None = None


def places(run: Path, repeats: int) -> list[Path]:
    """The directory of each repeat of a run."""
    if repeats == 1:
        return [run]
    width = len(str(repeats - 1))
    return [run / f"repeat-{r:0{width}}" for r in range(repeats)]


def name_of(agent: int) -> str:
    """What an agent is called among the participants of a run."""
    return f"agent-{agent}"


class Keeper:
    """Keeps what one participant of a run has to keep.

    Args:
        run: the directory.
        name: of the participant.
        whose: names the run, by what its noise is drawn from (`noise_name`); empty, to read: any.
    """

    def __init__(self, run: Path, name: str, whose: str = "") -> None:
        self._folder, self._name, self._whose = run / FOLDER, name, whose
        self._place = str(self._folder)  # a Path is made in more time than a file is renamed in
        self._draft = f"{self._place}/{name}.part"  # which what is needed no more becomes
        self._kept = self.rounds()[::-1]  # ascending

    def rounds(self) -> list[int]:
        """After which this one has kept something, the latest first."""
        found = (file.name.partition("-")[0] for file in self._folder.glob(f"*-{self._name}"))
        return sorted((int(t) for t in found if t.isdecimal()), reverse=True)

    def save(self, t: int, content: Mapping[str, Any], lasting: bool = False) -> None:
        """Keep what there is after round t.

        Args:
            t: the round.
            content: plain data.
            lasting: whether it is to stand a loss of power at once.

        Raises:
            TypeError: something is no plain data; names it.
            OSError: it cannot be written.
        """
        if not self._kept:
            self._folder.mkdir(mode=0o700, exist_ok=True)
        whole = {**content, "round": t, "layout": LAYOUT, "of": (self._name, self._whose)}
        snapshot.save(self._path(t), whole, self._draft, lasting)
        self._kept.append(t)

    def load(self, t: int) -> dict[str, Any]:
        """What was kept after round t.

        Raises:
            Damaged: it is not as it was written.
            BadInput: another version of mpinodes wrote it.
            OSError: it cannot be read.
        """
        path = Path(self._path(t))
        content = snapshot.load(path)
        if content.get("layout") != LAYOUT:
            raise BadInput(
                f"{path}: a checkpoint of layout {content.get('layout')}, and this mpinodes goes on from layout "
                f"{LAYOUT}: go on with the mpinodes that wrote it, or run its experiment.toml anew"
            )
        name, whose = content.get("of", ("", ""))
        if content.get("round") != t or name != self._name or self._whose not in ("", whose):
            raise Damaged(f"{path}: damaged: it is of another round, agent or run")
        return content

    def forget_before(self, t: int) -> None:
        """Give up what was kept after earlier rounds."""
        while self._kept and self._kept[0] < t:
            self._forget(self._kept.pop(0))

    def keep_two(self) -> None:
        """Give up all but the last two, once all participants have written the last one."""
        while len(self._kept) > 2:
            self._forget(self._kept.pop(0))

    def forget_after(self, t: int) -> None:
        """Give up what was kept after later rounds, by an attempt that has come further."""
        while self._kept and self._kept[-1] > t:
            self._forget(self._kept.pop())

    def _forget(self, t: int) -> None:
        with suppress(OSError):
            os.replace(self._path(t), self._draft)

    def _path(self, t: int) -> str:
        return f"{self._place}/{t}-{self._name}"


def keepers_of(run: Path, agents: int, whose: str) -> list[Keeper]:
    """Those of all agents."""
    return [Keeper(run, name_of(agent), whose) for agent in range(agents)]


def discard(run: Path) -> None:
    """Take away all checkpoints of a run, and the log that they stand on."""
    import shutil  # which brings more with it than the rest of this

    shutil.rmtree(run / FOLDER, ignore_errors=True)
    (run / NAME).unlink(missing_ok=True)
