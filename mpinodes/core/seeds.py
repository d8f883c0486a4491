"""Make one random generator for each purpose and agent, addressed by round.

Every draw of a run is a function of (source, purpose, agent, t), so that a replay, a restart and the logger can compute
any round without stored state. The source is the seed of the run; for noise and dither it is a key (`noise_key`).
Philox is a counter-based generator: (source, purpose, agent) determine its key, and t its counter, which leaves 2^128
draws for every round.
"""

from __future__ import annotations

from enum import IntEnum
from hashlib import blake2b
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

AHEAD, ROUNDS = 4096, 16  # numbers and rounds that are drawn at once, at most


class Purpose(IntEnum):
    """Name the purpose of draws. The numbers determine the bits of every run, so none may ever change."""

    NOISE = 1
    DATA = 2
    GRADIENT_NOISE = 3
    TOPOLOGY = 4
    SHUFFLE = 5
    SPLIT = 6
    TRUTH = 7
    PARTITION = 8
    TEST = 9
    START = 10
    DITHER = 11
    FAULTS = 12
    DIRECTION = 13


class Draws:
    """Generate the draws of one (source, purpose, agent).

    Args:
        source: a seed, or the bytes of a key.
        purpose: the purpose of the draws.
        agent: the agent that draws.
        part: the number of the vector, if an agent draws for several vectors in a round.

    Attributes:
        agent: the agent that draws.
    """

    def __init__(self, source: int | bytes, purpose: Purpose, agent: int = 0, part: int = 0) -> None:
        self.agent = agent
        if isinstance(source, bytes):
            address = int(purpose).to_bytes(4, "little") + int(agent).to_bytes(8, "little")
            key: NDArray[np.uint64] = np.frombuffer(
                blake2b(address, key=source, digest_size=16).digest(), np.dtype("<u8")
            )
        else:  # numpy pads up to four 32-bit words with zeros, so that (2^32, 1, 0) would equal (0, 1, 1)
            words = (source, purpose, agent, *(() if source < 2**32 else (1,)))
            key = np.random.SeedSequence(words).generate_state(2, np.uint64).astype(np.uint64, copy=False)
        self._bits = np.random.Philox(key=key)
        self._counter = [0, 0, 0, part]
        # lists, because NumPy reads the state entry by entry, which takes twice as long for arrays
        self._state: Any = self._bits.state | {
            "state": {"counter": self._counter, "key": key.tolist()},
            "buffer": [0] * 4,
        }
        self._generator = np.random.Generator(self._bits)
        self._ahead: list[NDArray[np.float64]] = []  # draws of the next rounds, the last round first
        self._next, self._drawn, self._many = 1, ("", 0), 0

    @property
    def origin(self) -> tuple[int, ...]:
        """Return the numbers that identify these draws: agent, key and part."""
        return (self.agent, *self._state["state"]["key"], self._counter[3])

    def at(self, t: int) -> np.random.Generator:
        """Return the generator at the beginning of round t. Each call resets the same generator."""
        self._counter[2] = t
        self._bits.state = self._state
        return self._generator

    def standard(self, law: Literal["laplace", "standard_normal"], t: int, size: int) -> NDArray[np.float64]:
        """Return the first draws of round t (size,), by a law of location 0 and scale 1, as a new array.

        If rounds are asked for in turn, several short ones are drawn at once, up to `AHEAD` numbers: agents that share
        a core find cold caches in each round, and rounds of 784 numbers are a tenth slower without this.
        """
        if t != self._next or (law, size) != self._drawn or not self._ahead:
            self._many = min(2 * self._many + 1, ROUNDS, max(1, AHEAD // size)) if t == self._next else 1
            self._drawn, draw, self._ahead = (law, size), getattr(self._generator, law), []
            for s in range(t + self._many - 1, t - 1, -1):
                self.at(s)
                self._ahead.append(draw(size=size))
        self._next = t + 1
        return self._ahead.pop()
