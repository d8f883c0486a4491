"""Define the exponential graph."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from mpinodes.core.parts import Edges
from mpinodes.topology.base import Periodic

__all__ = ["Exponential"]


@dataclass(frozen=True)
class Exponential(Periodic):
    """Let agent j send to the agents j + 1, j + 2, j + 4, ..., modulo n (Ying et al., NeurIPS 2021).

    If `one_peer` is true, agent j sends to only one of these agents in each round: first to j + 1, then to j + 2, and
    so on.

    Attributes:
        one_peer: send to one agent per round: in turn j + 1, j + 2, j + 4, ...
    """

    one_peer: bool = False

    @property
    def title(self) -> str:
        """Return the name of the graph: "exponential graph", or "one-peer exponential graph"."""
        return "one-peer exponential graph" if self.one_peer else "exponential graph"

    @cached_property
    def phases(self) -> tuple[Edges, ...]:
        """Return the edges of each round of the period.

        If `one_peer` is true, the period has ⌈log₂ n⌉ rounds, but at least one. If `one_peer` is false, the period has
        one round.
        """
        n = self.agents
        hops = [frozenset((j, (j + (1 << k)) % n) for j in range(n)) for k in range((n - 1).bit_length())]
        return tuple(hops or [frozenset()]) if self.one_peer else (frozenset().union(*hops),)
