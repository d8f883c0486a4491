"""From what is asked for, in words or in sections, to parts, rows and runs: the tests' one way into the package."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import mpinodes
from mpinodes.config import setup as pt
from mpinodes.config.resolve import resolve
from mpinodes.core import experiment as ex
from mpinodes.core import Event
from mpinodes.results import regret
from mpinodes.simulation.agent import HEADER, Agent, row_width
from mpinodes.simulation.lockstep import simulate
from tests.helpers.accounting import field

Asked = str | dict  # "key=value key=value", or nested sections


def sections(asked: Asked) -> dict:
    return ex.parse(None, asked.split()) if isinstance(asked, str) else asked


def resolved(asked: Asked = "", ranks: int | None = None) -> ex.Experiment:
    return resolve(sections(asked), ranks)


def parts_of(asked: Asked, ranks: int | None = None) -> pt.Setup:
    return pt.build(resolved(asked, ranks))


def run_of(where: Path, asked: Asked) -> Path:
    """The directory `where`, with a run in lockstep in it, without a report unless it is asked for."""
    return mpinodes.run_lockstep({"report": False} | sections(asked) | {"output": {"dir": str(where)}})


def rows_of(parts: pt.Setup) -> np.ndarray:
    """All that a run in lockstep sends the logger: (rounds, n, width)."""
    return np.concatenate([chunk.copy() for chunk in simulate(parts)], axis=1).transpose(1, 0, 2)


def decisions(parts: pt.Setup) -> np.ndarray:
    """(rounds, n, d)."""
    return rows_of(parts)[:, :, : parts.dimension]


def told(parts: pt.Setup) -> dict[str, np.ndarray]:
    """What the package's agents did: the fields of a `reference.Run`. Needs record.transcript=true."""
    d, width = parts.dimension, len(Event._fields)
    x, events, frames = np.split(rows_of(parts), [d, d + width], axis=2)
    assert (frames[:, :, 0] == np.arange(1, len(frames) + 1)[:, None]).all()
    scale = events[:, :, field("scale")]
    return {"x": x, "h": frames[:, :, HEADER : HEADER + d], "scale": scale, "said": frames[:, :, HEADER + d :]}


def metered(parts: pt.Setup, horizons: np.ndarray) -> regret.Meter:
    """The meter after a whole run in lockstep."""
    meter = regret.make_meter(parts, horizons)
    for rows in simulate(parts):
        meter.take(rows.transpose(1, 0, 2)[:, :, : parts.dimension])
    return meter


class Lockstep:
    """All agents of an experiment, round by round."""

    def __init__(self, parts: pt.Setup) -> None:
        self.agents = [Agent(i, parts) for i in range(parts.topology.agents)]
        self._row = np.empty(row_width(parts))

    def speak(self, t: int) -> list[np.ndarray]:
        """Their frames of round t."""
        self._rounds = [agent.speak(t, self._row) for agent in self.agents]
        self._frames = {i: agent.frame.copy() for i, agent in enumerate(self.agents)}
        return list(self._frames.values())

    def hear(self) -> None:
        for agent, round in zip(self.agents, self._rounds, strict=True):
            agent.hear(round, self._frames)
