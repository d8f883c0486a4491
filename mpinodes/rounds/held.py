"""Frames that are under way: where links have faults, what is heard in a round may have come in an earlier one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from mpinodes.core import Neighborhood, Setup, Vector
from mpinodes.rounds.step import Arrivals

if TYPE_CHECKING:
    from mpinodes.rounds.network import Network


class Held:
    """An agent's links, with faults: frames come in the round that they are sent in, and are held until heard.

    Attributes:
        frames: (turns, n, words) at [s % turns, j] what j said in round s, if it gets through to this agent.
    """

    def __init__(self, network: Network, setup: Setup, agent: int) -> None:
        assert setup.links
        self._network, self._setup, self._links, self._agent = network, setup, setup.links, agent
        self._turns = setup.links.most_late + 2  # as many as in lockstep
        self.frames = np.zeros((self._turns, setup.topology.agents, setup.frame_width))

    def exchange(self, here: Neighborhood) -> Arrivals:
        """Send the own frame to whom it reaches, take in what comes, and hear what is due."""
        came = self._network.exchange(self._links.carried(here.t, self._agent))
        for j, frame in zip(came.senders, came.frames, strict=True):
            self.frames[here.t % self._turns, j] = frame
        return Arrivals.of_round(self._setup, here, self._said)

    def kept(self, arrivals: Arrivals) -> Mapping[int, Vector]:
        """What an agent goes on from: by sender, (turns, words)."""
        return {j: np.asarray(self.frames[:, j]) for j in range(self.frames.shape[1])}

    def restored(self, here: Neighborhood, frames: Mapping[int, Vector]) -> Arrivals:
        """What was heard in a round, and was under way, before this process was there."""
        for j, said in frames.items():
            self.frames[:, j] = said
        return Arrivals.of_round(self._setup, here, self._said)

    def _said(self, agent: int, t: int) -> Vector:
        return np.asarray(self.frames[t % self._turns, agent])
