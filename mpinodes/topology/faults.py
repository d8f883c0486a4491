"""Messages that are lost or come late, agents that leave and return: drawn from the seed, public, alike on every rank.

What befalls a message is known to both ends, as the graph of a round is: an agent knows whom its message will reach.
Weights are then those of a directed graph that changes from round to round, which push-sum is for (A. Nedić,
A. Olshevsky, "Distributed Optimization Over Time-Varying Directed Graphs", 2015): its columns sum to 1, so that no mass
is lost. What comes late is mass under way, as of agents that only pass it on (C. Hadjicostis, T. Charalambous, "Average
Consensus in the Presence of Delays in Directed Graph Topologies", 2014). Losses that a sender does not learn of need
running sums (C. Hadjicostis, N. Vaidya, A. Domínguez-García, "Robust Distributed Average Consensus via Exchange of
Running Sums", 2016), which are other algorithms. Weights whose rows sum to 1 are made of what is heard, and hear of
each sender the newest (A. Nedić, A. Ozdaglar, "Convergence Rate for Consensus with Delays", 2010).

An agent that is away says nothing to anybody, and nothing is said to it; what is under way to it arrives.
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
    """A graph with faults.

    Attributes:
        faults: which.
        seed: of the run.
        each: whether all that comes of one sender in one round is heard, or the newest of it.
    """

    faults: Faults
    seed: int
    each: bool

    @cached_property
    def _draws(self) -> tuple[Draws, ...]:
        return tuple(Draws(self.seed, Purpose.FAULTS, part=part) for part in (SLOW, LOST, LATE, AWAY))

    @cached_property
    def _standing(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """By agent, for the whole run: rounds that all it says comes late, and when its absences begin: (n,) each."""
        n, rng = self.graph.agents, self._draws[SLOW].at(0)
        order, phase = rng.permutation(n), rng.integers(self.faults.absence, size=n)
        slow = max(1, round(self.faults.stragglers * n)) if self.faults.stragglers else 0
        lag = np.zeros(n, np.int64)
        lag[order[:slow]] = self.faults.lag
        return lag, phase

    def away(self, t: int) -> NDArray[np.bool_]:
        """Which agents are away in round t: (n,)."""
        n, churn = self.graph.agents, self.faults.churn
        if not churn:
            return np.zeros(n, dtype=bool)
        stretch = (t + self._standing[1]) // self.faults.absence
        drawn = {k: self._draws[AWAY].at(k).random(n) < churn for k in set(stretch.tolist())}
        return np.array([drawn[k][i] for i, k in enumerate(stretch.tolist())])

    def sends(self, t: int) -> Matrix:
        """Whether j says anything to i in round t, lost or not, at [j, i]."""
        present = ~self.away(t)
        return self.graph.sends(t) & present[:, None] & present

    def lateness(self, t: int) -> NDArray[np.int64]:
        """By how many rounds what j says to i in round t comes late, at [j, i]; −1: it is lost, or was never said."""
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
        """What an agent hears in round t: (sender, round in which it was said), ascending, its own among them."""
        messages = [(agent, t)]
        for s in range(max(1, t - self.most_late), t + 1):
            messages += [(j, s) for j in np.flatnonzero(self.lateness(s)[:, agent] == t - s).tolist()]
        messages.sort()
        return tuple(messages) if self.each or not self.most_late else tuple(dict(messages).items())

    def neighborhood(self, t: int, agent: int) -> Neighborhood:
        """An agent's place in round t: whom it hears, and who hears, then or later, what it says."""
        inn = tuple(j for j, _ in self.heard(t, agent) if j != agent)
        return Neighborhood(t, agent, inn, self._out(t, agent))

    def carried(self, t: int, agent: int) -> Neighborhood:
        """Whose messages of round t get through to an agent, then or later, and to whom its own does."""
        inn = np.flatnonzero(self.lateness(t)[:, agent] >= 0)
        return Neighborhood(t, agent, tuple(inn.tolist()), self._out(t, agent))

    def _out(self, t: int, agent: int) -> tuple[int, ...]:
        return tuple(np.flatnonzero(self.lateness(t)[agent] >= 0).tolist())
