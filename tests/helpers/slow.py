"""Make a user's algorithm whose rounds take as long as a test needs."""

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
    """Return the source of a DOLA that sleeps in every round; `seconds` is a Python expression that may use `os`."""
    return _SOURCE.format(seconds=seconds)
