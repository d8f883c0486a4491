"""Read data files: one module for each format, whose function `read` returns the samples as a `Source`.

Several readers share four modules. `fetch` finds and downloads files, `shelf` caches arrays, `coded` reads rows of
categories, and `source` defines the class `Source`.
"""

from mpinodes.data.source import Source

__all__ = ["Source"]
