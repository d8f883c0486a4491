"""What is said: a line for each thing looked at, with a verdict."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import Literal, NamedTuple

from mpinodes.launch.launching import plain

WIDTH = 110
NOTHING, SOMETHING = 0, 1  # to mend: the exit codes


class Line(NamedTuple):
    """One thing that was looked at.

    Attributes:
        verdict: what becomes of a run: it goes well; it goes, and this is good to know; something is to be changed.
        about: what it is, in a word or two.
        text: what was found.
        advice: what to change.
    """

    verdict: Literal["ok", "note", "mend"]
    about: str
    text: str
    advice: str = ""

    def __str__(self) -> str:
        head = f"{self.verdict:<5}{self.about:<9}"
        text = plain(f"{self.text}: {self.advice}" if self.advice else self.text)
        return textwrap.fill(
            text, WIDTH, initial_indent=head, subsequent_indent=" " * len(head), break_long_words=False,
            break_on_hyphens=False,
        )  # fmt: skip


class Report:
    """Lines as they are found, so that what is known is said whatever comes after."""

    def __init__(self, speaks: bool) -> None:
        self._speaks = speaks
        self.code = NOTHING

    def title(self, text: str) -> None:
        """What this is about."""
        if self._speaks:
            print(plain(text), flush=True)

    def add(self, lines: Iterable[Line]) -> None:
        """Say them."""
        for line in lines:
            if line.verdict == "mend":
                self.code = SOMETHING
            if self._speaks:
                print(line, flush=True)


def most(names: Iterable[object], longest: int = 6) -> str:
    """The first few of many, and how many more there are."""
    all_names = [str(name) for name in names]
    rest = len(all_names) - longest
    return ", ".join(all_names[:longest]) + (f" and {rest} more" if rest > 0 else "")


def span(seconds: float) -> str:
    """A short time, readable."""
    return f"{1e6 * seconds:.3g} us" if seconds < 9.995e-4 else f"{1e3 * seconds:.3g} ms"
