"""Parse the command lines of all commands in the same way."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any, NoReturn

from mpinodes.core.asked import as_typed
from mpinodes.core.errors import BadInput
from mpinodes.launch.launching import launcher


class Parser(argparse.ArgumentParser):
    """A parser of the words of one command.

    The line breaks of the help stay. In arguments of type `Path`, a leading ~ is the home directory. Under mpirun, only
    rank 0 prints the help. If the words are wrong, the parser raises `BadInput` instead of exiting.

    Args:
        command: the name of the command, as in `mpinodes <command>`.
        text: the help, in most cases the docstring of the command's module.
    """

    def __init__(self, command: str, text: str | None) -> None:
        form = argparse.RawDescriptionHelpFormatter
        super().__init__(as_typed(f"mpinodes {command}"), description=text, formatter_class=form)
        self.register("type", Path, lambda word: Path(os.path.expanduser(word)))

    def add_words(self, metavar: str, text: str) -> None:
        """Add an argument `words`: the file of an experiment, and key=value pairs that override its keys."""
        self.add_argument("words", nargs="*", metavar=metavar, help=text)

    def add_runs(self, metavar: str, text: str) -> None:
        """Add an argument `runs`: the directories of one or more runs."""
        self.add_argument("runs", nargs="+", metavar=metavar, type=Path, help=text)

    def print_help(self, file: Any = None) -> None:
        """Print the help on rank 0 only."""
        if (started := launcher()) is None or started.rank == 0:
            super().print_help(file)

    def error(self, message: str) -> NoReturn:
        """Refuse the words of the command, with a hint at --help.

        Raises:
            BadInput: always.
        """
        raise BadInput(f"{message}; see {self.prog} --help")
