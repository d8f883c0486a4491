"""Define the base classes of topologies (graphs), and of links, which lose or delay messages."""

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
    """Define the directed graph of each round t, as a pure function of t, so that all ranks have the same graph.

    Edge (j, i) means that agent j sends to agent i. `topology.base` implements the two usual cases: `Periodic` for sets
    of edges that repeat, and `EachRound` for a graph that is drawn again in every round.

    Attributes:
        agents: n, the number of agents.
        seed: the seed of the run, for graphs that are drawn at random. This field is not a key of the section topology.
    """

    agents: Agents
    seed: int = field(default=0, kw_only=True)

    from_file: ClassVar[bool] = False  # whether `topology.undirected` may add the reverse of every edge

    @property
    @abstractmethod
    def title(self) -> str:
        """Return the name of the graph that summaries and figures print."""

    @property
    def source(self) -> str:
        """Return the name of the graph in error messages; for a graph from a file, the name of the file."""
        return f"topology {self.title!r}"

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the agents in figures and tables; an empty tuple if the names are 0, 1, ..."""
        return ()

    @property
    @abstractmethod
    def period(self) -> int | None:
        """Return the number of rounds after which the graph repeats; None if the graph does not repeat."""

    @abstractmethod
    def edges(self, t: int) -> Edges:
        """Return the edges of round t = 1, 2, ..."""

    @abstractmethod
    def sends(self, t: int) -> Matrix:
        """Return the edges of round t as an (n, n) matrix: entry [j, i] is true if agent j sends to agent i.

        Callers must not change the matrix.
        """

    @abstractmethod
    def neighborhood(self, t: int, agent: int) -> Neighborhood:
        """Return the neighbors of an agent in round t."""


@dataclass(frozen=True, repr=False, eq=False)
class Links(ABC):
    """Decide which messages arrive, and in which round, in a run with faults.

    All methods are pure functions of t, so all ranks compute the same results.

    Attributes:
        graph: the topology on whose edges messages are sent.
        most_late: the largest delay of a message, in rounds.
    """

    graph: Topology
    most_late: int

    @abstractmethod
    def neighborhood(self, t: int, agent: int) -> Neighborhood:
        """Return the neighbors of an agent for the messages that arrive in round t, and for its own message of round t.

        The in-neighbors are the senders whose messages arrive at the agent in round t; the messages may have been sent
        earlier. The out-neighbors are the agents at which the agent's message of round t arrives, in round t or later.
        """

    @abstractmethod
    def heard(self, t: int, agent: int) -> tuple[tuple[int, int], ...]:
        """Return which messages an agent receives in round t, as pairs (sender, round of sending) in ascending order.

        The agent's own message of round t is among the messages. If the mixing uses only the newest message of each
        sender (`Mixing.hears`), older messages are left out.
        """

    @abstractmethod
    def carried(self, t: int, agent: int) -> Neighborhood:
        """Return the neighbors of an agent for the messages that are sent in round t, and arrive then or later.

        The in-neighbors are the senders whose message of round t arrives at the agent. The out-neighbors are the agents
        at which the agent's message of round t arrives. A lost message arrives nowhere.
        """

    @abstractmethod
    def lateness(self, t: int) -> NDArray[np.int64]:
        """Return the delay of each message of round t, in rounds, as an (n, n) matrix.

        Entry [j, i] is the delay of the message from agent j to agent i. The entry is −1 if this message is lost, or if
        agent j sends no message to agent i.
        """

    @abstractmethod
    def away(self, t: int) -> NDArray[np.bool_]:
        """Return, for each agent, whether the agent is away in round t, as an array (n,)."""

    @abstractmethod
    def sends(self, t: int) -> Matrix:
        """Return which agents send to which agents in round t, even if the message is lost.

        The result is an (n, n) matrix: entry [j, i] is true if agent j sends to agent i.
        """
