"""One module per file format of the papers' data sets: `read(path)` gives a `Source`."""

from mpinodes.formats.source import Features, Source

__all__ = ["Features", "Source"]
