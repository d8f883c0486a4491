"""Hold the readers of data files, one module for each format: `read(path)` returns a `Source`."""

from mpinodes.data.source import Source

__all__ = ["Source"]
