"""Push-sum: weights a_ij = 1/out_j, and scalars w_i that correct the weighted sums.

Here out_j is the number of receivers of agent j, including j itself. The columns of the weight matrix sum to 1, but the
weights of one agent i need not. Therefore each agent updates w_i <- Σ_j a_ij w_j, and divides its weighted sum by the
new w_i (Kempe et al. 2003). After every round, the w_i of all n agents sum to n. If links delay messages, this sum
includes the shares a_ij w_j in messages that have not arrived yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mpinodes.core import Mixing, Neighborhood, Vector

__all__ = ["PushSum"]


@dataclass(frozen=True)
class PushSum(Mixing):
    """Mix messages by push-sum. Every agent j sends two scalars, 1/out_j and w_j, with each message.

    Here out_j is the number of receivers of agent j, including j itself, and w_j is the push-sum scalar of agent j,
    which is also the state of the mixing.
    """

    anytime = True
    under_faults = "the columns of the weight matrix sum to 1 if delayed messages are counted: agents agree on the mean"
    hears = "each"
    width = 2

    def init(self, agent: int) -> float:
        """Return 1, the push-sum scalar w_i of round 1."""
        return 1.0

    def outgoing(self, s: float, here: Neighborhood) -> tuple[float, float]:
        """Return the two scalars that agent j sends with its message: 1/out_j and w_j.

        Here out_j is the number of receivers, including j itself, and w_j is the push-sum scalar of the agent.
        """
        return 1 / (len(here.out_neighbors) + 1), s

    def weights(self, s: float, here: Neighborhood, incoming: Sequence[Vector]) -> tuple[float, list[float], float]:
        """Return the push-sum scalar w_i of the next round, the weights a_ij = 1/out_j of all senders j, and w_i again.

        The algorithm divides the weighted sum of messages by the last value. The senders include the agent i itself.

        Args:
            s: the scalar w_i of this round, which is also among `incoming`.
            here: the agent i, and its neighbors in this round.
            incoming: the pairs (1/out_j, w_j) of all senders.
        """
        w, shares = 0.0, []
        for scalars in incoming:
            share, w_j = scalars.tolist()
            shares.append(share)
            w += share * w_j
        return w, shares, w
