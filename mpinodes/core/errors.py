"""The exceptions of mpinodes that the entry points catch and print in one line."""


class BadInput(ValueError):
    """Something the user gave is wrong; the message says what, where, and what would be right."""


class Overdue(Exception):
    """A rank has waited longer than the deadline.

    Args:
        ranks: the ranks that it waited for.
        seconds: for which it waited.
        round: the round that it was in; 0: before the rounds or after them.
    """

    def __init__(self, ranks: list[int], seconds: float, round: int) -> None:
        super().__init__(ranks, seconds, round)
