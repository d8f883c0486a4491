"""Make set-ups, rows and runs from words or sections: the tests' common way into the package."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import mpinodes
from mpinodes.config.compose import compose
from mpinodes.core import Setup
from mpinodes.core import experiment as ex
from mpinodes.core.asked import parse
from mpinodes.core.messages import HEADER
from mpinodes.evaluation.meter import Meter
from mpinodes.rounds.lockstep import simulate
from mpinodes.rounds.step import Arrivals, Step

Asked = str | dict  # "key=value key=value", or nested sections


def sections(asked: Asked) -> dict:
    return parse(None, asked.split()) if isinstance(asked, str) else asked


def resolved(asked: Asked = "", ranks: int | None = None) -> ex.Experiment:
    return setup_of(asked, ranks).experiment


def setup_of(asked: Asked, ranks: int | None = None) -> Setup:
    return compose(sections(asked), ranks)


def run_of(where: Path, asked: Asked) -> Path:
    """Run in lockstep in the directory `where`, by default without a report; return the directory."""
    return mpinodes.run_lockstep({"report": False} | sections(asked) | {"output": {"dir": str(where)}})


def rows_of(setup: Setup) -> np.ndarray:
    """Return the rows that a run in lockstep sends to the logger, (rounds, n, row width)."""
    return np.concatenate([chunk.copy() for chunk in simulate(setup)], axis=1).transpose(1, 0, 2)


def decisions(setup: Setup) -> np.ndarray:
    """Return the decisions of a run in lockstep, (rounds, n, d)."""
    return rows_of(setup)[:, :, : setup.dimension]


def told(setup: Setup) -> dict[str, np.ndarray]:
    """Return the fields of a `reference.Run` from a run in lockstep; needs record.transcript=true."""
    d = setup.dimension
    x, events, frames = setup.layout.open(rows_of(setup))
    assert (frames[:, :, 0] == np.arange(1, len(frames) + 1)[:, None]).all()
    return {
        "x": x,
        "h": frames[:, :, HEADER : HEADER + d],
        "scale": events.scale[:, :, 0],
        "said": frames[:, :, HEADER + d :],
    }


def metered(setup: Setup, horizons: np.ndarray) -> Meter:
    """Return a meter that has taken all rounds of a run in lockstep."""
    meter = Meter(setup, horizons)
    for rows in simulate(setup):
        meter.take(rows.transpose(1, 0, 2)[:, :, : setup.dimension])
    return meter


class Lockstep:
    """The agents of an experiment, run round by round with their own steps.

    Attributes:
        steps: the steps of the agents.
        states: the states of the agents, after the newest call of `speak` or `hear`.
    """

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.steps = [Step(setup, i) for i in range(setup.topology.agents)]
        self.states = [step.start() for step in self.steps]
        self._row = np.empty(setup.layout.width)
        self._arrivals = [None] * len(self.steps)

    def speak(self) -> list[np.ndarray]:
        """Let all agents process the arrivals of the round before and send; return the frames that they send."""
        frames = {i: np.zeros(self.setup.frame_width) for i in range(len(self.steps))}
        self.states = [
            step(state, arrived, frames[i], self._row)
            for i, (step, state, arrived) in enumerate(zip(self.steps, self.states, self._arrivals, strict=True))
        ]
        self._arrivals = [Arrivals.of(self.setup, i, state.here.senders, frames) for i, state in enumerate(self.states)]
        return list(frames.values())

    def hear(self) -> None:
        """Let all agents process the newest frames without sending; the states are then those of the next round."""
        self.states = [
            step.receive(state, arrived, step.losses(state.here.t))
            for step, state, arrived in zip(self.steps, self.states, self._arrivals, strict=True)
        ]
        self._arrivals = [None] * len(self.steps)
