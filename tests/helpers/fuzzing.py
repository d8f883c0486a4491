"""Things as nobody would write them."""

from __future__ import annotations

import random


def damaged(content: bytes, rng: random.Random) -> bytes:
    """A file with some bits flipped, most often near its head; with some bytes written over; or cut short."""
    found = bytearray(content)
    how, at = rng.randrange(4), rng.randrange(min(len(found), rng.choice([100, 5_000, 50_000, len(found)])))
    if how < 2:
        for _ in range(rng.choice([1, 1, 4, 30])):
            found[(at + rng.randrange(64)) % len(found)] ^= 1 << rng.randrange(8)
    elif how == 2:
        del found[rng.randrange(len(found)) :]
    else:
        found[at : at + rng.randrange(64)] = rng.randbytes(rng.randrange(64))
    return bytes(found)
