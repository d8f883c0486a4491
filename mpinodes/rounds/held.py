"""Store received frames of late messages until the round in which the simulated links deliver them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from mpinodes.core import Neighborhood, Setup, Vector
from mpinodes.rounds.step import Arrivals

if TYPE_CHECKING:
    from mpinodes.rounds.network import Network


class Held:
    """Exchange the frames (messages as sent) of one agent over links that lose or delay messages.

    MPI transfers a frame in the round in which the frame is sent, unless the frame is lost. A late frame is stored here
    until the round in which the simulated link delivers the frame.

    Attributes:
        frames: (turns, n, frame width), where turns = (largest delay of a message, in rounds) + 2. Entry [s % turns, j]
            is the frame that agent j sent to this agent in round s, if the frame is not lost.
    """

    def __init__(self, network: Network, setup: Setup, agent: int) -> None:
        assert setup.links
        self._network, self._setup, self._links, self._agent = network, setup, setup.links, agent
        self._turns = setup.links.most_late + 2  # the same number as in lockstep
        self.frames = np.zeros((self._turns, setup.topology.agents, setup.frame_width))

    def exchange(self, here: Neighborhood) -> Arrivals:
        """Send the agent's frame (message), store received frames, and return the frames that arrive in this round.

        A frame arrives in the round in which the simulated link delivers the frame.
        """
        arrived = self._network.exchange(self._links.carried(here.t, self._agent))
        for j, frame in zip(arrived.senders, arrived.frames, strict=True):
            self.frames[here.t % self._turns, j] = frame
        return Arrivals.of_round(self._setup, here, self._frame_of)

    def kept(self, arrivals: Arrivals) -> Mapping[int, Vector]:
        """Return the stored frames for a checkpoint: each sender's part of the array `frames`, by sender."""
        return {j: np.asarray(self.frames[:, j]) for j in range(self.frames.shape[1])}

    def restored(self, here: Neighborhood, frames: Mapping[int, Vector]) -> Arrivals:
        """Store the frames of a checkpoint, and return the frames that the links deliver in the round of `here`."""
        for j, held in frames.items():
            self.frames[:, j] = held
        return Arrivals.of_round(self._setup, here, self._frame_of)

    def _frame_of(self, agent: int, t: int) -> Vector:
        return np.asarray(self.frames[t % self._turns, agent])
