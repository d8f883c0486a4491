"""The parsers of the commands' words."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import NoReturn

from mpinodes.core.errors import BadInput


class Parser(argparse.ArgumentParser):
    """Parse the words of a command, whose help is a text as it stands; arguments of type `Path` may begin with ~.

    Args:
        command: the name, as in `python -m mpinodes.<command>`.
        text: the help, as a rule the docstring of the command's module.
        add_help: whether --help is printed by argparse itself.
    """

    def __init__(self, command: str, text: str | None, add_help: bool = True) -> None:
        form = argparse.RawDescriptionHelpFormatter
        super().__init__(f"python -m mpinodes.{command}", description=text, formatter_class=form, add_help=add_help)
        self.register("type", Path, lambda word: Path(os.path.expanduser(word)))


class QuietParser(Parser):
    """Raise `BadInput` for wrong words, for one rank of many to print in a line."""

    def error(self, message: str) -> NoReturn:
        """Refuse the words of the command.

        Raises:
            BadInput: says what is wrong with them.
        """
        raise BadInput(f"{message}; see {self.prog} --help")
