"""Define the base class of topologies (graphs), and the links of a run with faults, which lose or delay messages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from mpinodes.core.experiment import Faults
from mpinodes.core.messages import Neighborhood
from mpinodes.core.seeds import Draws, Purpose

Edges = frozenset[tuple[int, int]]
Matrix = NDArray[np.bool_]  # (n, n): entry [j, i] says whether j sends to i
AGENTS = "number of agents; under mpirun: the number of ranks minus the logger"
Agents = Annotated[int, Meta(ge=1, le=1_000_000, description=AGENTS)]
SLOW, LOST, LATE, AWAY = range(4)  # the number of each kind of fault's random stream, so that no kind changes another


def as_matrix(agents: int, edges: Edges) -> Matrix:
    """Return the adjacency matrix (n, n) of a graph: entry [j, i] says whether agent j sends to agent i."""
    sends = np.zeros((agents, agents), dtype=bool)
    if edges:
        sends[tuple(np.array(list(edges)).T)] = True
    return sends


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

    @cached_property
    def random_numbers(self) -> Draws:
        """Return the random numbers of a graph that is drawn at random. They depend on `seed` alone."""
        return Draws(self.seed, Purpose.TOPOLOGY)

    @abstractmethod
    def edges(self, t: int) -> Edges:
        """Return the edges of round t = 1, 2, ..."""

    def sends(self, t: int) -> Matrix:
        """Return the edges of round t as an (n, n) matrix: entry [j, i] is true if agent j sends to agent i.

        Callers must not change the matrix.
        """
        return as_matrix(self.agents, self.edges(t))

    @abstractmethod
    def neighborhood(self, t: int, agent: int) -> Neighborhood:
        """Return the neighbors of an agent in round t."""


@dataclass(frozen=True, repr=False, eq=False)
class Links:
    """Decide which messages are lost or late, and which agents are absent, in a run with faults.

    All methods are pure functions of t, so all ranks compute the same results.

    Faults are drawn from the seed, and are public. So a sender knows which agents its message will reach. An absent
    agent sends no messages, and no agent sends messages to an absent agent. A late message that was sent before the
    receiver became absent still arrives.

    The mixing methods handle faults as follows:

    - Push-sum, lost messages: the graph of a round has an edge for each message that arrives. The weights of a message
      sum to 1 over its receivers (A. Nedić, A. Olshevsky, "Distributed Optimization Over Time-Varying Directed Graphs",
      2015).
    - Push-sum, late messages: a late message passes through virtual agents, one agent for each round of the delay (C.
      Hadjicostis, T. Charalambous, "Average Consensus in the Presence of Delays in Directed Graph Topologies", 2014).
    - Other mixings that allow faults: the weights that a receiver computes sum to 1 over the senders. If several
      messages of one sender arrive in a round, the receiver mixes only the newest message (A. Nedić, A. Ozdaglar,
      "Convergence Rate for Consensus with Delays", 2010).

    Attributes:
        graph: the topology on whose edges messages are sent.
        faults: the probabilities and durations of the faults.
        seed: the seed of the run.
        each: whether an agent receives all messages of one sender that arrive in one round. If False, the agent
            receives only the newest of these messages.
    """

    graph: Topology
    faults: Faults
    seed: int
    each: bool

    @cached_property
    def _draws(self) -> tuple[Draws, ...]:
        return tuple(Draws(self.seed, Purpose.FAULTS, part=part) for part in (SLOW, LOST, LATE, AWAY))

    @cached_property
    def _standing(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return for each agent the delay that is added to all its messages, and the shift of its intervals of absence.

        Both are arrays (n,) of numbers of rounds, which stay the same for the whole run. The delay is 0 unless the
        agent is a straggler. An agent is either present or absent during a whole interval of `faults.absence` rounds.
        """
        n, rng = self.graph.agents, self._draws[SLOW].at(0)
        order, phase = rng.permutation(n), rng.integers(self.faults.absence, size=n)
        slow = max(1, round(self.faults.stragglers * n)) if self.faults.stragglers else 0
        lag = np.zeros(n, np.int64)
        lag[order[:slow]] = self.faults.lag
        return lag, phase

    def away(self, t: int) -> NDArray[np.bool_]:
        """Return an array (n,) that says which agents are absent in round t."""
        n, churn = self.graph.agents, self.faults.churn
        if not churn:
            return np.zeros(n, dtype=bool)
        stretch = (t + self._standing[1]) // self.faults.absence
        drawn = {k: self._draws[AWAY].at(k).random(n) < churn for k in set(stretch.tolist())}
        return np.array([drawn[k][i] for i, k in enumerate(stretch.tolist())])

    def sends(self, t: int) -> Matrix:
        """Return a matrix (n, n) whose entry [j, i] says whether agent j sends a message to agent i in round t.

        Messages that are lost on the way count as sent.
        """
        present = ~self.away(t)
        return self.graph.sends(t) & present[:, None] & present

    @cached_property
    def lateness(self) -> Callable[[int], NDArray[np.int64]]:
        """Return a function that maps a round t to the matrix (n, n) of the delays, in rounds, of its messages.

        Entry [j, i] is for the message of agent j to agent i. The entry is −1 if this message is lost or not sent.
        """

        # Some rounds are cached, because all agents of a process ask for the same rounds one after another.
        @lru_cache(maxsize=self.faults.most_late + 2)
        def drawn(t: int) -> NDArray[np.int64]:
            faults, n = self.faults, self.graph.agents
            arrives = self.sends(t)
            if faults.loss:
                arrives &= self._draws[LOST].at(t).random((n, n)) >= faults.loss
            late = np.zeros((n, n), np.int64) + self._standing[0][:, None]
            if faults.delay:
                late += self._draws[LATE].at(t).integers(faults.delay, size=(n, n), endpoint=True)
            late[~arrives] = -1
            late.setflags(write=False)
            return late

        return drawn

    def heard(self, t: int, agent: int) -> tuple[tuple[int, int], ...]:
        """Return the messages that an agent receives in round t, as sorted pairs (sender, round of sending).

        The agent's own message of round t is included. If the attribute `each` is false, only the newest message of
        each sender is returned.
        """
        messages = [(agent, t)]
        for s in range(max(1, t - self.faults.most_late), t + 1):
            messages += [(j, s) for j in np.flatnonzero(self.lateness(s)[:, agent] == t - s).tolist()]
        messages.sort()
        return tuple(messages) if self.each or not self.faults.most_late else tuple(dict(messages).items())

    def neighborhood(self, t: int, agent: int) -> Neighborhood:
        """Return the in-neighbors and out-neighbors of an agent in round t, with faults.

        - The in-neighbors are the senders of the messages that arrive in round t. If `each` is true, a sender appears
          once for each of its messages.
        - The out-neighbors are the agents that the agent's message of round t will reach, in round t or later.
        """
        inn = tuple(j for j, _ in self.heard(t, agent) if j != agent)
        return Neighborhood(t, agent, inn, self._out(t, agent))

    def carried(self, t: int, agent: int) -> Neighborhood:
        """Return the neighbors of an agent for the messages that are sent in round t, whenever these messages arrive.

        - The in-neighbors are the senders whose message of round t reaches the agent.
        - The out-neighbors are the agents that the agent's own message of round t reaches.
        """
        inn = np.flatnonzero(self.lateness(t)[:, agent] >= 0)
        return Neighborhood(t, agent, tuple(inn.tolist()), self._out(t, agent))

    def _out(self, t: int, agent: int) -> tuple[int, ...]:
        return tuple(np.flatnonzero(self.lateness(t)[agent] >= 0).tolist())
