"""Draw the secret batches of an agent (`data.sampling`): which of its samples a gradient uses.

The stream shows an agent all its samples in every round, and the logger evaluates all of them. The agent alone draws a
batch, by coins that have the address (key, batch, agent, part, round); the key is that of the agent's noise. Every
condition of amplification that a batch could break is kept here: the divisor of the batch's sum is the public constant
rate times that of all samples, whatever the size of the batch, and an empty batch has the gradient 0 and is released
like any other.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from mpinodes.core import Loss
from mpinodes.core.seeds import Draws, Purpose


class Batches:
    """The batches of one agent.

    Args:
        key: the key of the coins.
        agent: the agent.
        rate: the public rate, or share, of the samples in a batch.
        fixed: the public number of samples in a batch; 0: each sample is taken with probability `rate`.
        parts: how many batches a round has, each with coins of its own.

    Attributes:
        rate: the rate.
    """

    def __init__(self, key: bytes, agent: int, rate: float, fixed: int, parts: int) -> None:
        self.rate, self._fixed = rate, fixed
        self._coins = [Draws(key, Purpose.BATCH, agent, part) for part in range(parts)]

    def drawn(self, loss: Loss, t: int, part: int = 0) -> Loss:
        """Return the loss of a batch of the samples of a loss; a loss without samples is returned itself."""
        return loss.batch(lambda number: self.rows(number, t, part), self.rate)

    def rows(self, number: int, t: int, part: int) -> NDArray[np.int64]:
        """Return which of so many samples are in a batch, as numbers from 0.

        If each sample is taken with probability q, the distance from one taken sample to the next is a geometric random
        number. A batch so takes about q·number draws; a coin for each sample would take longer than a whole round.
        """
        coins = self._coins[part].at(t)
        if self._fixed:
            return coins.choice(number, self._fixed, replace=False, shuffle=False)
        expected = number * self.rate
        ahead = int(expected + 6 * sqrt(expected)) + 8
        rows = coins.geometric(self.rate, ahead).cumsum() - 1
        while rows[-1] < number:  # seldom: `ahead` exceeds the expected number by six standard deviations
            rows = np.concatenate([rows, rows[-1] + coins.geometric(self.rate, ahead).cumsum()])
        return rows[: rows.searchsorted(number)]
