"""Define the contracts of topologies, and of links that lose or delay messages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from mpinodes.core.messages import Neighborhood

Edges = frozenset[tuple[int, int]]
Matrix = NDArray[np.bool_]  # (n, n): entry [j, i] says whether j sends to i
AGENTS = "number of agents; under mpirun: the number of ranks minus the logger"
Agents = Annotated[int, Meta(ge=1, le=1_000_000, description=AGENTS)]


@dataclass(frozen=True, repr=False, eq=False)
class Topology(ABC):
    """Define a graph that may vary by round: which agent sends to which, a pure function of t, equal on every rank.

    Edge (j, i) means that j sends to i. `topology.base` has the two usual cases: `Periodic`, sets of edges that repeat,
    and `EachRound`, a graph that is drawn again in every round.

    Attributes:
        agents: n.
        seed: the seed of the run, for graphs that are drawn. It is not a key of the topology.
    """

    agents: Agents
    seed: int = field(default=0, kw_only=True)

    from_file: ClassVar[bool] = False  # whether `topology.undirected` may add the reverse of every edge

    @property
    @abstractmethod
    def title(self) -> str:
        """Return the name of the graph for people, as summaries and figures print it."""

    @property
    def source(self) -> str:
        """Return the name for error messages: the file of the topology, if there is one."""
        return f"topology {self.title!r}"

    @property
    @abstractmethod
    def period(self) -> int | None:
        """Return the number of rounds after which the graph repeats; None if it never repeats."""

    @abstractmethod
    def edges(self, t: int) -> Edges:
        """Return the edges of round t = 1, 2, ..."""

    @abstractmethod
    def sends(self, t: int) -> Matrix:
        """Return the edges of round t as a read-only (n, n) matrix; entry [j, i] says whether j sends to i."""

    @abstractmethod
    def neighborhood(self, t: int, agent: int) -> Neighborhood:
        """Return the neighbors of an agent in round t."""


@dataclass(frozen=True, repr=False, eq=False)
class Links(ABC):
    """Decide which messages arrive, and when: a pure function of t, equal on every rank.

    Attributes:
        graph: the topology on whose edges messages are sent.
        most_late: the largest delay of a message, in rounds.
    """

    graph: Topology
    most_late: int

    @abstractmethod
    def neighborhood(self, t: int, agent: int) -> Neighborhood:
        """Return the neighbors of an agent in round t, after faults.

        The in-neighbors are the senders that the agent receives in round t. The out-neighbors are the agents that
        receive, then or later, the message that the agent sends in round t.
        """

    @abstractmethod
    def heard(self, t: int, agent: int) -> tuple[tuple[int, int], ...]:
        """Return the messages that an agent receives in round t as pairs (sender, round of sending).

        The pairs are in ascending order. The agent's own message of round t is among them.
        """

    @abstractmethod
    def carried(self, t: int, agent: int) -> Neighborhood:
        """Return the neighbors between whom messages of round t get through.

        The in-neighbors are the senders whose message of round t reaches the agent, then or later. The out-neighbors
        are the agents that the agent's own message of round t reaches.
        """

    @abstractmethod
    def lateness(self, t: int) -> NDArray[np.int64]:
        """Return the delays of the messages of round t, in rounds: (n, n).

        Entry [j, i] is the delay of the message of j to i. It is −1 if the message is lost, or if j sends none.
        """

    @abstractmethod
    def away(self, t: int) -> NDArray[np.bool_]:
        """Return which agents are away in round t, as an array (n,)."""

    @abstractmethod
    def sends(self, t: int) -> Matrix:
        """Return whether j sends to i in round t, at [j, i] of an (n, n) matrix; the message may still be lost."""
