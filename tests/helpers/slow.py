"""An algorithm of a user's whose rounds take as long as a test wants."""

from __future__ import annotations

_SOURCE = """
import os, time
from dataclasses import dataclass
from mpinodes.algorithms.dola import DOLA
__all__ = ["Slow"]

@dataclass(frozen=True)
class Slow(DOLA):
    def update(self, s, here, inbox, loss):
        time.sleep({seconds})
        return super().update(s, here, inbox, loss)
"""


def slow(seconds: str) -> str:
    """The source of DOLA that sleeps in every round, for so many seconds: a Python expression, which may ask `os`."""
    return _SOURCE.format(seconds=seconds)
