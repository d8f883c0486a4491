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
    """Exchange the frames (messages as arrays) of one agent over simulated links that lose or delay messages.

    A frame arrives over MPI in the round in which it is sent, unless the simulated link loses the frame. This class
    stores a late frame until the round in which the link delivers the frame.

    Attributes:
        frames: (turns, n, frame width), where turns = (largest delay of a message, in rounds) + 2. Entry [s % turns, j]
            is the frame that agent j sent to this agent in round s, if the frame is not lost.
    """

    def __init__(self, network: Network, setup: Setup, agent: int) -> None:
        assert setup.links
        self._network, self._setup, self._links, self._agent = network, setup, setup.links, agent
        self._turns = setup.links.faults.most_late + 2  # the same number as in lockstep
        self.frames = np.zeros((self._turns, setup.topology.agents, setup.frame_width))

    def exchange(self, here: Neighborhood) -> Arrivals:
        """Send the agent's message, and return the messages that the simulated links deliver in this round.

        Received messages that are late are stored until a later round.
        """
        arrived = self._network.exchange(self._links.carried(here.t, self._agent))
        for j, frame in zip(arrived.senders, arrived.frames, strict=True):
            self.frames[here.t % self._turns, j] = frame
        return Arrivals.of_round(self._setup, here, self._frame_of)

    def kept(self, arrivals: Arrivals) -> Mapping[int, Vector]:
        """Return the stored frames (messages as arrays) for a checkpoint.

        The result maps each sender to the sender's part of the array `frames`.
        """
        return {j: np.asarray(self.frames[:, j]) for j in range(self.frames.shape[1])}

    def restored(self, here: Neighborhood, frames: Mapping[int, Vector]) -> Arrivals:
        """Store the messages of a checkpoint, and return the messages that the links deliver in the round of `here`."""
        for j, held in frames.items():
            self.frames[:, j] = held
        return Arrivals.of_round(self._setup, here, self._frame_of)

    def _frame_of(self, agent: int, t: int) -> Vector:
        return np.asarray(self.frames[t % self._turns, agent])
