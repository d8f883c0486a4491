"""One random generator for each purpose and agent, addressed by round.

Every draw of a run is a function of (seed, purpose, agent, t), so that a replay, a restart and the logger
rebuild any round without stored state. Philox is counter-based: its key is made from (seed, purpose, agent)
and its counter is set to t, which leaves 2^128 draws to every round.
"""

from __future__ import annotations

import os
from enum import IntEnum

import numpy as np


class Purpose(IntEnum):
    """What the draws are for. The numbers fix every bit of a run: add new ones, never change one."""

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


class Draws:
    """The generators of one (seed, purpose, agent), and of one of several vectors that an agent draws for at once.

    Attributes:
        agent: whose they are.
    """

    def __init__(self, seed: int, purpose: Purpose, agent: int = 0, part: int = 0) -> None:
        self.agent = agent
        # A sequence of up to four 32-bit words is padded with zeros, and (2^32, 1, 0) then is (0, 1, 1).
        long = () if seed < 2**32 else (1,)
        key = np.random.SeedSequence((seed, purpose, agent, *long)).generate_state(2, np.uint64)
        self._bits = np.random.Philox(key=key)
        self._state = self._bits.state
        self._counter = self._state["state"]["counter"]
        self._counter[3] = part
        self._generator = np.random.Generator(self._bits)

    def at(self, t: int) -> np.random.Generator:
        """The generator at the beginning of round t; the one object is set back at each call."""
        self._counter[2] = t
        self._bits.state = self._state
        return self._generator


class LocalEntropy(Draws):
    """Generators with a new key from the operating system at every call: nobody draws their numbers again."""

    def __init__(self, agent: int) -> None:
        super().__init__(0, Purpose.NOISE, agent)
        self._key = self._state["state"]["key"]

    def at(self, t: int) -> np.random.Generator:
        """A generator that no other call gives."""
        self._key[:] = np.frombuffer(os.urandom(self._key.nbytes), self._key.dtype)
        return super().at(t)
