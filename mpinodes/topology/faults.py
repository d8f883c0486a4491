"""Draw the faults of a run: messages that are lost or late, and agents that are away.

Faults are drawn from the seed. They are public, and every rank computes the same ones. Both ends know what happens to a
message, as they know the graph of a round, so an agent knows whom its message will reach. Lost messages and absent
agents thus make a directed graph that changes from round to round, for which push-sum is defined: its weights sum to 1
over the receivers, so no mass is lost (A. Nedić, A. Olshevsky, "Distributed Optimization Over Time-Varying Directed
Graphs", 2015). A late message is mass under way, as if virtual agents passed it on (C. Hadjicostis, T. Charalambous,
"Average Consensus in the Presence of Delays in Directed Graph Topologies", 2014). If senders did not know which
messages are lost, algorithms with running sums would be needed (C. Hadjicostis, N. Vaidya, A. Domínguez-García, "Robust
Distributed Average Consensus via Exchange of Running Sums", 2016). Weights that sum to 1 over the senders are computed
by the receiver, which mixes the newest message of each sender (A. Nedić, A. Ozdaglar, "Convergence Rate for Consensus
with Delays", 2010).

An absent agent sends nothing and is sent nothing. Messages that are under way to it arrive.
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

SLOW, LOST, LATE, AWAY = range(4)  # each kind of fault has draws of its own, so that it does not change the others


@dataclass(frozen=True)
class Faulty(Links):
    """Add faults to a graph.

    Attributes:
        faults: the probabilities and durations of the faults.
        seed: the seed of the run.
        each: whether an agent receives all messages of a sender that arrive in one round, or the newest only.
    """

    faults: Faults
    seed: int
    each: bool

    @cached_property
    def _draws(self) -> tuple[Draws, ...]:
        return tuple(Draws(self.seed, Purpose.FAULTS, part=part) for part in (SLOW, LOST, LATE, AWAY))

    @cached_property
    def _standing(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return, for each agent, the lateness of all its messages and the phase of its absences, as arrays (n,)."""
        n, rng = self.graph.agents, self._draws[SLOW].at(0)
        order, phase = rng.permutation(n), rng.integers(self.faults.absence, size=n)
        slow = max(1, round(self.faults.stragglers * n)) if self.faults.stragglers else 0
        lag = np.zeros(n, np.int64)
        lag[order[:slow]] = self.faults.lag
        return lag, phase

    def away(self, t: int) -> NDArray[np.bool_]:
        """Return whether each agent is away in round t, as an array (n,)."""
        n, churn = self.graph.agents, self.faults.churn
        if not churn:
            return np.zeros(n, dtype=bool)
        stretch = (t + self._standing[1]) // self.faults.absence
        drawn = {k: self._draws[AWAY].at(k).random(n) < churn for k in set(stretch.tolist())}
        return np.array([drawn[k][i] for i, k in enumerate(stretch.tolist())])

    def sends(self, t: int) -> Matrix:
        """Return whether j sends a message to i in round t, lost or not, at [j, i]."""
        present = ~self.away(t)
        return self.graph.sends(t) & present[:, None] & present

    def lateness(self, t: int) -> NDArray[np.int64]:
        """Return by how many rounds j's message of round t to i is late, at [j, i]; −1 if it is lost or not sent."""
        return self._latest(t)

    @cached_property
    def _latest(self) -> Callable[[int], NDArray[np.int64]]:
        # in lockstep all agents ask for the same rounds in turn
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
        """Return the messages that an agent receives in round t, and its own: (sender, round of sending), sorted."""
        messages = [(agent, t)]
        for s in range(max(1, t - self.most_late), t + 1):
            messages += [(j, s) for j in np.flatnonzero(self.lateness(s)[:, agent] == t - s).tolist()]
        messages.sort()
        return tuple(messages) if self.each or not self.most_late else tuple(dict(messages).items())

    def neighborhood(self, t: int, agent: int) -> Neighborhood:
        """Return whose messages an agent receives in round t, and who ever receives its message of round t."""
        inn = tuple(j for j, _ in self.heard(t, agent) if j != agent)
        return Neighborhood(t, agent, inn, self._out(t, agent))

    def carried(self, t: int, agent: int) -> Neighborhood:
        """Return whose messages of round t ever reach an agent, and whom its own message of round t ever reaches."""
        inn = np.flatnonzero(self.lateness(t)[:, agent] >= 0)
        return Neighborhood(t, agent, tuple(inn.tolist()), self._out(t, agent))

    def _out(self, t: int, agent: int) -> tuple[int, ...]:
        return tuple(np.flatnonzero(self.lateness(t)[agent] >= 0).tolist())
