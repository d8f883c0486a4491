"""Draw the faults of a run: messages that are lost or late, and agents that are away (absent).

Faults are drawn from the seed, are public, and are equal on every rank. Sender and receiver both know the graph of the
round, and both know which messages are lost or late. So an agent knows which agents its message will reach. The graph
without lost messages and absent agents is a directed graph that changes from round to round. Push-sum is defined for
directed graphs that change: its weights sum to 1 over the receivers, so no mass is lost (A. Nedić, A. Olshevsky,
"Distributed Optimization Over Time-Varying Directed Graphs", 2015). A late message acts like a message that virtual
agents relay, with one relay in each round of the delay (C. Hadjicostis, T. Charalambous, "Average Consensus in the
Presence of Delays in Directed Graph Topologies", 2014). If senders did not know which messages are lost, algorithms
with running sums would be needed (C. Hadjicostis, N. Vaidya, A. Domínguez-García, "Robust Distributed Average Consensus
via Exchange of Running Sums", 2016). In the other mixings that allow faults, the weights sum to 1 over the senders. The
receiver computes these weights, and mixes the newest of the messages that arrive in a round from each sender (A. Nedić,
A. Ozdaglar, "Convergence Rate for Consensus with Delays", 2010).

An absent agent sends no messages, and no agent sends messages to an absent agent. A late message that was sent before
the receiver went away still arrives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from mpinodes.core.experiment import Faults
from mpinodes.core.messages import Neighborhood
from mpinodes.core.parts import Links, Matrix
from mpinodes.core.seeds import Draws, Purpose

SLOW, LOST, LATE, AWAY = range(4)  # the number of each kind's random stream, so that no kind changes another


@dataclass(frozen=True)
class Faulty(Links):
    """Decide which messages of a graph are lost or late, and which agents are away.

    Attributes:
        graph, most_late: the topology, and the largest delay of a message in rounds, as in `Links`.
        faults: the probabilities and durations of the faults.
        seed: the seed of the run.
        each: what an agent receives if several messages of one sender arrive in one round. True: all of these messages.
            False: the newest only.
    """

    faults: Faults
    seed: int
    each: bool

    @cached_property
    def _draws(self) -> tuple[Draws, ...]:
        return tuple(Draws(self.seed, Purpose.FAULTS, part=part) for part in (SLOW, LOST, LATE, AWAY))

    @cached_property
    def _standing(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return two arrays (n,) that stay the same for the whole run.

        The first array is about stragglers: all messages of agent i are late by entry i, a number of rounds, in
        addition to random delays. The entry is 0 if agent i is no straggler. The second array is about absence: an
        agent is present or away for whole intervals of `faults.absence` rounds, and the intervals of agent i are
        shifted by entry i, a number of rounds.
        """
        n, rng = self.graph.agents, self._draws[SLOW].at(0)
        order, phase = rng.permutation(n), rng.integers(self.faults.absence, size=n)
        slow = max(1, round(self.faults.stragglers * n)) if self.faults.stragglers else 0
        lag = np.zeros(n, np.int64)
        lag[order[:slow]] = self.faults.lag
        return lag, phase

    def away(self, t: int) -> NDArray[np.bool_]:
        """Return which agents are away in round t, as an array (n,)."""
        n, churn = self.graph.agents, self.faults.churn
        if not churn:
            return np.zeros(n, dtype=bool)
        stretch = (t + self._standing[1]) // self.faults.absence
        drawn = {k: self._draws[AWAY].at(k).random(n) < churn for k in set(stretch.tolist())}
        return np.array([drawn[k][i] for i, k in enumerate(stretch.tolist())])

    def sends(self, t: int) -> Matrix:
        """Return a matrix (n, n) whose entry [j, i] is true if j sends a message to i in round t.

        The entry is also true if the message is lost on the way.
        """
        present = ~self.away(t)
        return self.graph.sends(t) & present[:, None] & present

    def lateness(self, t: int) -> NDArray[np.int64]:
        """Return the lateness of the messages of round t, in rounds, as an (n, n) matrix.

        Entry [j, i] is for the message of agent j to agent i. The entry is −1 if this message is not sent or is lost.
        """
        return self._latest(t)

    @cached_property
    def _latest(self) -> Callable[[int], NDArray[np.int64]]:
        # Some rounds are cached, because all agents of a process ask for the same rounds one after another.
        @lru_cache(maxsize=self.most_late + 2)
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
        """Return the messages that an agent receives in round t as sorted pairs (sender, round of sending).

        The agent's own message of round t is included. If `each` is false, only the newest message of each sender is
        included.
        """
        messages = [(agent, t)]
        for s in range(max(1, t - self.most_late), t + 1):
            messages += [(j, s) for j in np.flatnonzero(self.lateness(s)[:, agent] == t - s).tolist()]
        messages.sort()
        return tuple(messages) if self.each or not self.most_late else tuple(dict(messages).items())

    def neighborhood(self, t: int, agent: int) -> Neighborhood:
        """Return the neighbors of an agent in round t, after faults.

        The in-neighbors are the senders of the messages that the agent receives in round t. If `each` is true, a sender
        of several of these messages appears several times. The out-neighbors are the agents that receive, in round t or
        later, the message that the agent sends in round t.
        """
        inn = tuple(j for j, _ in self.heard(t, agent) if j != agent)
        return Neighborhood(t, agent, inn, self._out(t, agent))

    def carried(self, t: int, agent: int) -> Neighborhood:
        """Return the neighbors of an agent for the messages that are sent in round t and arrive in round t or later.

        The in-neighbors are the senders whose message of round t reaches the agent. The out-neighbors are the agents
        that receive the agent's own message of round t.
        """
        inn = np.flatnonzero(self.lateness(t)[:, agent] >= 0)
        return Neighborhood(t, agent, tuple(inn.tolist()), self._out(t, agent))

    def _out(self, t: int, agent: int) -> tuple[int, ...]:
        return tuple(np.flatnonzero(self.lateness(t)[agent] >= 0).tolist())
