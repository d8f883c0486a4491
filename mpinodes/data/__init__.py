"""One module per file format of the papers' data sets: `read(path)` gives a `Source`."""

from mpinodes.data.source import Source

__all__ = ["Source"]
