"""Weight balancing: a_ii = 1 − w_i d_i, a_ij = w_j, and w_i <- ½ w_i + (1/d_i) Σ_j ½ w_j; d_i = out-degree without i.

J. Zhu, C. Xu, J. Guan, D. O. Wu, "Differentially Private Distributed Online Algorithms Over Time-Varying Directed
Networks", (6) and (9). Rows sum to 1 only where w_i d_i = Σ_j w_j, which the recursion tends to on a fixed strongly
connected digraph, and which holds from the start on digraphs with in-degree = out-degree in every round and equal w.
On other time-varying digraphs w grows without bound; the paper's Lemma 2 fails there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from mpinodes.core.protocol import Diverged, Round, Vector

__all__ = ["Balancing"]

ROUNDING = 1e-12


@dataclass(frozen=True)
class Balancing:
    """Every agent says its w_j; the state is w_i."""

    start: float  # w_i(1): 1/n on Eulerian digraphs, else 1/Σ_j d_j, from which no weight becomes negative

    width: ClassVar[int] = 1
    undirected: ClassVar[bool] = False

    def init(self, me: int) -> float:
        """w_i(1)."""
        return self.start

    def say(self, s: float, round: Round) -> tuple[float]:
        """w_i."""
        return (s,)

    def hear(self, s: float, round: Round, said: Sequence[Vector]) -> tuple[float, list[float], float]:
        """w_i of the next round, and the row.

        Raises:
            Diverged: 1 − w_i d_i is below 0.
        """
        d, own = len(round.out), round.senders.index(round.me)
        if (rest := 1 - s * d) < -ROUNDING:
            raise Diverged(
                f"agent {round.me}, round {round.t}: its own weight 1 - w d = {rest:.3g} is below 0 (w = {s:.3g}, "
                f"out-degree {d}): weight balancing diverges on this graph; take a fixed strongly connected digraph, "
                "or one with in-degree = out-degree in every round (topology.name=eulerian)"
            )
        row = [float(scalars[0]) for scalars in said]
        row[own] = 0.0
        heard = sum(row)
        row[own] = rest
        w = 0.5 * s + 0.5 * heard / d if d else s
        return w, row, 1.0
