"""The one exception of ours that somebody catches: the entry points print it and exit with code 2."""


class BadInput(ValueError):
    """Something the user gave is wrong; the message says what, where, and what would be right."""
