"""Weight balancing: a_ii = 1 − w_i d_i, a_ij = w_j, and w_i <- ½ w_i + (1/d_i) Σ_j ½ w_j; d_i = out-degree without i.

J. Zhu, C. Xu, J. Guan, D. O. Wu, "Differentially Private Distributed Online Algorithms Over Time-Varying Directed
Networks", (6) and (9). Rows sum to 1 only where w_i d_i = Σ_j w_j, which the recursion tends to on a fixed strongly
connected digraph, and which holds from the start on digraphs with in-degree = out-degree in every round and equal w.
On other time-varying digraphs w grows without bound; the paper's Lemma 2 fails there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mpinodes.core import Diverged, Mixing, Neighborhood, Vector

__all__ = ["Balancing"]

ROUNDING = 1e-12


@dataclass(frozen=True)
class Balancing(Mixing):
    """Every agent says its w_j; the state is w_i."""

    width = 1

    def init(self, agent: int) -> float:
        """w_i(1): 1/n on Eulerian digraphs, else 1/Σ_j d_j, from which no weight becomes negative."""
        return 1 / (self.graph.agents if self.graph.is_eulerian else self.graph.most_edges)

    def outgoing(self, s: float, here: Neighborhood) -> tuple[float]:
        """w_i."""
        return (s,)

    def weights(self, s: float, here: Neighborhood, incoming: Sequence[Vector]) -> tuple[float, list[float], float]:
        """w_i of the next round, and the weights.

        Raises:
            Diverged: 1 − w_i d_i is below 0.
        """
        d, own = len(here.out_neighbors), here.senders.index(here.agent)
        if (rest := 1 - s * d) < -ROUNDING:
            raise Diverged(
                f"agent {here.agent}, round {here.t}: its own weight 1 - w d = {rest:.3g} is below 0 (w = {s:.3g}, "
                f"out-degree {d}): weight balancing diverges on this graph; take a fixed strongly connected digraph, "
                "or one with in-degree = out-degree in every round (topology.name=eulerian)"
            )
        weights = [scalars.item(0) for scalars in incoming]
        weights[own] = 0.0
        heard = sum(weights)
        weights[own] = rest
        w = 0.5 * s + 0.5 * heard / d if d else s
        return w, weights, 1.0
