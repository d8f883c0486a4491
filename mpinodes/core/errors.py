"""Define exceptions that the commands of mpinodes report without a traceback, and find lines of user's files."""

from __future__ import annotations

import inspect
import re
from contextlib import suppress

users_parts = list[type]()  # the classes of the user's files that this process has loaded, the newest first


def is_users(part: type) -> bool:
    """Return whether a class is defined outside of mpinodes, so that its attributes are not trusted without a check."""
    return not part.__module__.startswith("mpinodes.")


def place_of(part: type, member: str) -> str:
    """Return the place of a class attribute or method, such as "mine.py, line 12: Mine.hidden".

    File and line are left out if the line is not found.
    """
    owner = next((kind for kind in part.__mro__ if member in vars(kind)), part)
    with suppress(OSError, TypeError):
        for number, line in enumerate(*inspect.getsourcelines(owner)):
            if re.match(rf"\s+(def )?{member}\b", line):
                return f"{inspect.getsourcefile(owner)}, line {number}: {part.__name__}.{member}"
    return f"{part.__name__}.{member}"


def place_in_users_files(text: str) -> str:
    """Return the file and line of a user's method that an error message names, as in "message()".

    If the message names several methods of the user, the result is the place of the first of them. If the message names
    no method of the user, the result is empty.
    """
    methods = re.findall(r"(\w+)\(", text)
    places = (place_of(part, method) for method in methods for part in users_parts if method in vars(part))
    return next(places, "")


def one_line(error: BaseException) -> list[str]:
    """Return the lines that IPython shows in place of the traceback, as the method `_render_traceback_` of an error."""
    return [f"mpinodes: error: {line}" for line in str(error).split("\n")]


class BadInput(ValueError):
    """Signal one or more mistakes in the user's input. The error message has a line for each mistake.

    The commands of mpinodes print the message and exit with code 2. A notebook shows the message without a traceback.
    """

    _render_traceback_ = one_line


class Overdue(Exception):
    """Signal that an MPI rank has waited for other ranks longer than the deadline.

    Args:
        ranks: the ranks for which the rank waited.
        seconds: how long the rank waited.
        round: the round in which the rank waited; 0 before the first round or after the last round.
    """

    def __init__(self, ranks: list[int], seconds: float, round: int) -> None:
        super().__init__(ranks, seconds, round)
