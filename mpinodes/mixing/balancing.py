"""Weight balancing: a_ii = 1 − w_i d_i, a_ij = w_j, and w_i <- ½ w_i + (1/d_i) Σ_j ½ w_j; d_i = out-degree without i.

J. Zhu, C. Xu, J. Guan, D. O. Wu, "Differentially Private Distributed Online Algorithms Over Time-Varying Directed
Networks", (6) and (9). Rows sum to 1 only if w_i d_i = Σ_j w_j. On a fixed strongly connected digraph the recursion
converges to such weights. On digraphs with in-degree = out-degree in every round, equal weights satisfy this from the
start. On other time-varying digraphs w grows without bound; the paper's Lemma 2 fails there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mpinodes.core import Diverged, Mixing, Neighborhood, Vector

__all__ = ["Balancing"]

ROUNDING = 1e-12  # the largest negative own weight that rounding alone may cause


@dataclass(frozen=True)
class Balancing(Mixing):
    """Mix by weight balancing. Every agent sends w_j; the state is w_i."""

    width = 1

    def init(self, agent: int) -> float:
        """Return w_i(1): 1/n on Eulerian digraphs, else 1/Σ_j d_j, which keeps all weights nonnegative."""
        return 1 / (self.graph.agents if self.graph.is_eulerian else self.graph.most_edges)

    def outgoing(self, s: float, here: Neighborhood) -> tuple[float]:
        """Return the scalar w_i to send."""
        return (s,)

    def weights(self, s: float, here: Neighborhood, incoming: Sequence[Vector]) -> tuple[float, list[float], float]:
        """Return w_i of the next round, the weights a_ij (k,), and the scale 1.

        Raises:
            Diverged: the agent's own weight 1 − w_i d_i is below 0.
        """
        d, own = len(here.out_neighbors), here.senders.index(here.agent)
        if (rest := 1 - s * d) < -ROUNDING:
            weight = f"its own weight 1 - w d = {rest:.3g} is below 0 (w = {s:.3g}, out-degree {d})"
            balanced = "a digraph with in-degree = out-degree in every round (topology.name=eulerian)"
            remedy = f"weight balancing diverges on this graph: use a fixed strongly connected digraph, or {balanced}"
            raise Diverged(f"agent {here.agent}, round {here.t}: {weight}, so {remedy}")
        weights = [scalars.item(0) for scalars in incoming]
        weights[own] = 0.0
        received = sum(weights)
        weights[own] = rest
        w = 0.5 * s + 0.5 * received / d if d else s
        return w, weights, 1.0
