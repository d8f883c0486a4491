"""Weight balancing: agents learn scalars w_i on a directed graph, with the weights a_ij = w_j and a_ii = 1 − w_i d_i.

Agent i updates its scalar by w_i <- ½ w_i + (1/d_i) Σ_j ½ w_j. The sum is over the in-neighbors j of agent i, and d_i
is the number of out-neighbors of i. If d_i = 0, w_i stays the same. Source: J. Zhu, C. Xu, J. Guan, D. O. Wu,
"Differentially Private Distributed Online Algorithms Over Time-Varying Directed Networks", (6) and (9).

The weights of agent i sum to 1 only if w_i is balanced, that is, w_i d_i = Σ_j w_j:

- On a fixed strongly connected digraph the w_i converge to balanced numbers.
- On digraphs with in-degree = out-degree in every round, equal w_i are balanced from the start.
- On other time-varying digraphs the w_i can grow without bound; the paper's Lemma 2 fails there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mpinodes.core import Diverged, Mixing, Neighborhood, Vector

__all__ = ["Balancing"]

ROUNDING = 1e-12  # an own weight between −ROUNDING and 0 is accepted: rounding may cause it


@dataclass(frozen=True)
class Balancing(Mixing):
    """Mix messages by weight balancing. Every agent i sends its balancing scalar w_i with each message.

    The state of the mixing of agent i is w_i.
    """

    width = 1

    def init(self, agent: int) -> float:
        """Return the balancing scalar w_i of round 1, which keeps all weights of round 1 nonnegative.

        If each agent's in-degree equals its out-degree in every round, w_i is 1/n for n agents. Otherwise w_i is 1/m,
        where m is the largest number of edges in a round.
        """
        return 1 / (self.graph.agents if self.graph.is_eulerian else self.graph.most_edges)

    def outgoing(self, s: float, here: Neighborhood) -> tuple[float]:
        """Return the scalar that agent i sends with its message: its balancing scalar w_i."""
        return (s,)

    def weights(self, s: float, here: Neighborhood, incoming: Sequence[Vector]) -> tuple[float, list[float], float]:
        """Return the balancing scalar w_i of the next round, the weights a_ij of all senders j, and the divisor 1.

        The senders include the agent i itself, with the weight a_ii = 1 − w_i d_i for d_i out-neighbors. The algorithm
        divides the weighted sum of messages by the divisor.

        Args:
            s: the scalar w_i of this round.
            here: the agent i, and its neighbors in this round.
            incoming: the scalars w_j of all senders.

        Raises:
            Diverged: the weight a_ii is below 0 by more than `ROUNDING`.
        """
        d, own = len(here.out_neighbors), here.senders.index(here.agent)
        if (rest := 1 - s * d) < -ROUNDING:
            negative_weight = f"its own weight 1 - w d = {rest:.3g} is below 0 (w = {s:.3g}, out-degree {d})"
            balanced = "a digraph with in-degree = out-degree in every round (topology.name=eulerian)"
            remedy = f"weight balancing diverges on this graph: use a fixed strongly connected digraph, or {balanced}"
            raise Diverged(f"agent {here.agent}, round {here.t}: {negative_weight}, so {remedy}")
        weights = [scalars.item(0) for scalars in incoming]
        weights[own] = 0.0
        received = sum(weights)
        weights[own] = rest
        w = 0.5 * s + 0.5 * received / d if d else s
        return w, weights, 1.0
