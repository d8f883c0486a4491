"""Define the version of mpinodes, which must equal the version in pyproject.toml."""

__version__ = "0.1.0"
