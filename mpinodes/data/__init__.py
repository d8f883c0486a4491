"""Hold the readers of data files, one module for each format, whose function `read` returns a `Source`.

The modules `fetch`, `shelf`, `coded` and `source` have what several readers or streams share: finding and downloading
files, caching arrays, reading rows of categories, and the class `Source`.
"""

from mpinodes.data.source import Source

__all__ = ["Source"]
