"""The parser of the words of all commands."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any, NoReturn

from mpinodes.core.asked import as_typed
from mpinodes.core.errors import BadInput
from mpinodes.launch.launching import launcher


class Parser(argparse.ArgumentParser):
    """Parse the words of a command; the help is a text as it stands, and arguments of type `Path` may begin with ~.

    Under mpirun, rank 0 alone prints the help.

    Args:
        command: the name, as in `mpinodes <command>`.
        text: the help, as a rule the docstring of the command's module.
    """

    def __init__(self, command: str, text: str | None) -> None:
        form = argparse.RawDescriptionHelpFormatter
        super().__init__(as_typed(f"mpinodes {command}"), description=text, formatter_class=form)
        self.register("type", Path, lambda word: Path(os.path.expanduser(word)))

    def add_words(self, metavar: str, text: str) -> None:
        """Add a file, and words that override what the file says."""
        self.add_argument("words", nargs="*", metavar=metavar, help=text)

    def add_runs(self, metavar: str, text: str) -> None:
        """Add the directories of some runs."""
        self.add_argument("runs", nargs="+", metavar=metavar, type=Path, help=text)

    def print_help(self, file: Any = None) -> None:
        """Print the help, once for all ranks."""
        if (started := launcher()) is None or started.rank == 0:
            super().print_help(file)

    def error(self, message: str) -> NoReturn:
        """Refuse the words of the command.

        Raises:
            BadInput: says what is wrong with them.
        """
        raise BadInput(f"{message}; see {self.prog} --help")
