"""Make random number generators, one for each purpose and agent, that can start at the beginning of any round.

A random number of `Draws` depends only on five values: the source, the purpose, the agent, an index (`part`) and the
round t. So the numbers of any round can be computed again without stored state, for example to replay a run. The source
is the seed of the run, the seed of its data (`data.seed`), or a secret key. For noise, dither and secret batches, the
source is the noise key (`Setup.noise_key`) or random bytes from the operating system.

The generator is Philox, which is counter-based. Source, purpose and agent determine the key of Philox, and part and
round determine where its counter starts. Each round has at least 2^128 draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from hashlib import blake2b
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Law: TypeAlias = Literal["laplace", "standard_normal"]
AHEAD, ROUNDS = 4096, 16  # `Draws.standard` draws at most so many numbers, and so many rounds, in one call


class Purpose(IntEnum):
    """Name the purpose of random numbers. No value may ever change, because the values determine the bits of a run."""

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
    BATCH = 14
    COUNT = 15


_ANY = np.random.SeedSequence(0)  # without a seed, NumPy would ask the operating system for one
_STATE = np.random.Philox(_ANY).state | {"buffer": [0] * 4}


class Draws:
    """Generate the random numbers that one agent draws for one purpose, such as noise.

    Args:
        source: a seed, or a key as bytes.
        purpose: the purpose of the draws.
        agent: the agent that draws.
        part: an index, from 0, if the agent draws for several things in a round, such as the vectors of a message.

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
        self._bits = np.random.Philox(_ANY)  # `at` sets the state
        self._counter = [0, 0, 0, part]
        # lists, because NumPy reads the state entry by entry, which takes twice as long for arrays
        self._state: Any = _STATE | {"state": {"counter": self._counter, "key": key.tolist()}}
        self._generator = np.random.Generator(self._bits)
        self._ahead: list[NDArray[np.float64]] = []  # draws of the next rounds, the last round first
        self._next, self._drawn, self._many = 1, ("", 0), 0

    @property
    def origin(self) -> tuple[int, ...]:
        """Return integers that identify these draws: the agent, the key of the generator (two integers) and `part`."""
        return (self.agent, *self._state["state"]["key"], self._counter[3])

    def at(self, t: int) -> np.random.Generator:
        """Return the random number generator, reset to the beginning of round t. All calls return the same object."""
        self._counter[2] = t
        self._bits.state = self._state
        return self._generator

    def standard(self, law: Law, t: int, size: int) -> NDArray[np.float64]:
        """Return the first `size` random numbers of round t as a new array (size,).

        If the caller asks for consecutive rounds, one call may draw the numbers of several rounds in advance, which is
        faster.

        Args:
            law: the distribution, with location 0 and scale 1.
            t: the round.
            size: how many numbers to return.
        """
        if t != self._next or (law, size) != self._drawn or not self._ahead:
            self._many = min(2 * self._many + 1, ROUNDS, max(1, AHEAD // size)) if t == self._next else 1
            self._drawn, draw, self._ahead = (law, size), getattr(self._generator, law), []
            for s in range(t + self._many - 1, t - 1, -1):
                self.at(s)
                self._ahead.append(draw(size=size))
        self._next = t + 1
        return self._ahead.pop()


class DrawsOfRuns:
    """Generate the random numbers of one agent in several independent runs, so that noise is added to all runs at once.

    A mechanism receives this object in the place of a `Draws`. The object has only the method `standard`; if a
    mechanism uses another method or attribute of `Draws`, an error is raised.
    """

    def __init__(self, runs: Sequence[Draws]) -> None:
        self._runs = runs

    def standard(self, law: Law, t: int, size: int) -> NDArray[np.float64]:
        """Return the first `size` random numbers of round t for every run, as an array (runs, size)."""
        return np.concatenate([draws.standard(law, t, size) for draws in self._runs]).reshape(-1, size)
