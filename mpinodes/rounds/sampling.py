"""Draw the secret batches of an agent (`data.sampling`): which of the agent's samples a gradient uses.

The stream shows an agent all training samples of the agent in every round, and the logger evaluates all of them. The
agent draws a batch by random numbers that depend on a key, the agent, the round and the number of the gradient in the
round. The key is the key of the agent's noise, except that it comes from the operating system if the noise is secret
but not drawn from a key (`noise.backend = opendp`).

The size of a Poisson batch is secret. The proof of the privacy loss assumes that a release depends on the size by the
noised sum over the batch alone. Therefore the sum over a batch is divided by a public number, the rate times the
divisor of all samples, and an empty batch is released like any other batch; the gradient of its samples is 0.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from mpinodes.core import Loss
from mpinodes.core.seeds import Draws, Purpose


class Batches:
    """Draw the secret batches of one agent.

    Args:
        key: the key from which batches are drawn.
        agent: the agent.
        rate: the probability with which a sample is in a batch, or the share of the samples in a batch. It is public.
        fixed: the public number of samples in a batch; 0: each sample is in the batch with probability `rate`.
        parts: the number of batches in a round; they are drawn independently.

    Attributes:
        rate: as the argument.
    """

    def __init__(self, key: bytes, agent: int, rate: float, fixed: int, parts: int) -> None:
        self.rate, self._fixed = rate, fixed
        self._coins = [Draws(key, Purpose.BATCH, agent, part) for part in range(parts)]

    def drawn(self, loss: Loss, t: int, part: int = 0) -> Loss:
        """Return the loss of the batch number `part` of round t, which is drawn from the samples of `loss`.

        If the class of `loss` does not override `Loss.batch`, return `loss` itself.
        """
        return loss.batch(lambda number: self.rows(number, t, part), self.rate)

    def rows(self, number: int, t: int, part: int) -> NDArray[np.int64]:
        """Return the indices, from 0, of the samples that are in the batch number `part` of round t.

        If each sample is taken with probability q, the distance from one taken sample to the next is a geometric random
        number. A batch so takes about q·number draws, which is faster than one draw for each sample.

        Args:
            number: the number of samples from which the batch is drawn.
            t: the round.
            part: the number of the batch in the round, from 0.

        Raises:
            ValueError: a batch has a fixed size, and this size is above `number`.
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
