"""Define the exceptions that the commands of mpinodes catch and print as one line."""


class BadInput(ValueError):
    """Report a mistake in the user's input: the message names the mistake, the place in the input, and the remedy.

    Commands print the message and exit with code 2.
    """


class Overdue(Exception):
    """Report that an MPI rank has waited for other ranks longer than the deadline.

    Args:
        ranks: the ranks for which the rank waited.
        seconds: how long the rank waited.
        round: the round in which the rank waited; 0 before the first round or after the last round.
    """

    def __init__(self, ranks: list[int], seconds: float, round: int) -> None:
        super().__init__(ranks, seconds, round)
