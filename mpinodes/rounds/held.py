"""Hold frames that arrive late: if links have faults, an agent may use a frame of an earlier round."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from mpinodes.core import Neighborhood, Setup, Vector
from mpinodes.rounds.step import Arrivals

if TYPE_CHECKING:
    from mpinodes.rounds.network import Network


class Held:
    """Exchange an agent's frames over links with faults.

    Every frame travels in the round of sending, and is held here until the round in which it counts as received.

    Attributes:
        frames: (turns, n, words) at [s % turns, j] the frame that j sent in round s, if it reaches this agent.
    """

    def __init__(self, network: Network, setup: Setup, agent: int) -> None:
        assert setup.links
        self._network, self._setup, self._links, self._agent = network, setup, setup.links, agent
        self._turns = setup.links.most_late + 2  # the same number as in lockstep
        self.frames = np.zeros((self._turns, setup.topology.agents, setup.frame_width))

    def exchange(self, here: Neighborhood) -> Arrivals:
        """Send the agent's frame to the agents that it reaches, store incoming frames, and return the due arrivals."""
        arrived = self._network.exchange(self._links.carried(here.t, self._agent))
        for j, frame in zip(arrived.senders, arrived.frames, strict=True):
            self.frames[here.t % self._turns, j] = frame
        return Arrivals.of_round(self._setup, here, self._frame_of)

    def kept(self, arrivals: Arrivals) -> Mapping[int, Vector]:
        """Return the frames for a checkpoint: for each sender an array (turns, words)."""
        return {j: np.asarray(self.frames[:, j]) for j in range(self.frames.shape[1])}

    def restored(self, here: Neighborhood, frames: Mapping[int, Vector]) -> Arrivals:
        """Return the arrivals of a round from the frames of a checkpoint, and store all these frames."""
        for j, held in frames.items():
            self.frames[:, j] = held
        return Arrivals.of_round(self._setup, here, self._frame_of)

    def _frame_of(self, agent: int, t: int) -> Vector:
        return np.asarray(self.frames[t % self._turns, agent])
