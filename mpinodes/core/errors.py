"""Define the exceptions that the entry points catch and print in one line."""


class BadInput(ValueError):
    """Report a mistake in what the user gave: the message says what is wrong, where, and the remedy.

    Commands print the message and exit with code 2.
    """


class Overdue(Exception):
    """Report that a rank has waited longer than the deadline.

    Args:
        ranks: the ranks for which it waited.
        seconds: how long it waited.
        round: the round in which it waited; 0 before or after the rounds.
    """

    def __init__(self, ranks: list[int], seconds: float, round: int) -> None:
        super().__init__(ranks, seconds, round)
