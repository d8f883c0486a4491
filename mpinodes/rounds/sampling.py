"""Draw the secret batches of an agent (`data.sampling`): the samples from which a gradient is computed.

The random numbers depend on a key, the agent, the round, and the number of the gradient in the round. The key is the
key of the agent's noise. With `noise.backend = opendp`, the key comes from the operating system.

The number of samples in a Poisson batch is secret. Therefore the sum of their gradients ∇ℓ_k is divided by a public
number:

    gradient of the batch = Σ_k ∇ℓ_k / (rate · divisor)

The rate is the probability with which a sample is in a batch. The divisor is the divisor of the loss of all samples:
for example, the number of all samples if this loss is a mean.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from mpinodes.core import Loss
from mpinodes.core.seeds import Draws, Purpose


class Batches:
    """Draw the secret batches of one agent: the samples from which its gradients are computed.

    Args:
        key: the key of the random numbers.
        agent: the agent.
        rate: the public probability with which a sample is in a batch. If batches have a fixed size, the fraction of
            the agent's samples that is in a batch.
        fixed: the fixed size: the public number of samples in a batch. 0: each sample is in a batch with the
            probability `rate`, independently of all other samples.
        parts: the number of batches in a round, which are drawn independently.

    Attributes:
        rate: as the argument.
    """

    def __init__(self, key: bytes, agent: int, rate: float, fixed: int, parts: int) -> None:
        self.rate, self._fixed = rate, fixed
        self._coins = [Draws(key, Purpose.BATCH, agent, part) for part in range(parts)]

    def drawn(self, loss: Loss, t: int, part: int = 0) -> Loss:
        """Draw a batch from the samples of a loss, and return the loss of this batch.

        If the class of `loss` does not override `Loss.batch`, `loss` itself is returned.

        Args:
            loss: the loss of all samples of the round.
            t: the round.
            part: the number of the batch in the round, from 0.
        """
        return loss.batch(lambda number: self.rows(number, t, part), self.rate)

    def rows(self, number: int, t: int, part: int) -> NDArray[np.int64]:
        """Return the indices, from 0, of the samples in one batch.

        Args:
            number: the number of samples from which the batch is drawn.
            t: the round.
            part: the number of the batch in the round, from 0.

        Raises:
            ValueError: the batch has a fixed size above `number`.
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
