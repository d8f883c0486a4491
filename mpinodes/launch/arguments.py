"""Parse the command line of a command of mpinodes."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any, NoReturn

from mpinodes.core.asked import as_typed
from mpinodes.core.errors import BadInput
from mpinodes.launch.launching import launcher


class Parser(argparse.ArgumentParser):
    """Parse the command line of one command.

    If the command line is wrong, the parser raises `BadInput` and does not exit. Under mpirun, only rank 0 prints the
    help text. In arguments of type `Path`, a leading ~ is replaced by the home directory.

    Args:
        command: the name of the command, as in `mpinodes <command>`.
        text: the help text, usually the docstring of the module of the command.
    """

    def __init__(self, command: str, text: str | None) -> None:
        form = argparse.RawDescriptionHelpFormatter
        super().__init__(as_typed(f"mpinodes {command}"), description=text, formatter_class=form)
        self.register("type", Path, lambda word: Path(os.path.expanduser(word)))

    def add_words(self, metavar: str, text: str) -> None:
        """Add the argument `words`: any number of words, such as a file name, or key=value to override the file."""
        self.add_argument("words", nargs="*", metavar=metavar, help=text)

    def add_runs(self, metavar: str, text: str) -> None:
        """Add the argument `runs`: the directories of one or more runs."""
        self.add_argument("runs", nargs="+", metavar=metavar, type=Path, help=text)

    def print_help(self, file: Any = None) -> None:
        """Print the help text; under mpirun, only rank 0 prints the text."""
        if (started := launcher()) is None or started.rank == 0:
            super().print_help(file)

    def error(self, message: str) -> NoReturn:
        """Report a wrong command line.

        Raises:
            BadInput: always; the error tells the user to see --help.
        """
        raise BadInput(f"{message}; see {self.prog} --help")
