"""Report the outcome of a check, and compute images of values.

The image of a value has all bits of the value, in a form that can be compared by ==. If the images before and after a
call are equal, the call has not changed the value.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from mpinodes.core.errors import BadInput, place_in_users_files
from mpinodes.core.seeds import Draws
from mpinodes.launch.launching import in_words
from mpinodes.rounds.noised import NoisedLoss

SIMPLE = (type(None), bool, int, str, bytes, complex)  # types whose values `image` keeps as they are
DEPTH = 40  # largest depth of nested objects that `image` looks into


class Fault(NamedTuple):
    """Hold one failed test of a part (an algorithm, a loss, a stream, ...).

    Attributes:
        name: the fault in words.
        where: the place of the fault: agent, round, method and values.
        right: the rule that the part must obey, or the right value.
    """

    name: str
    where: str
    right: str

    @property
    def line(self) -> str:
        """Return the fault as one line of text.

        If the text names a method of a user's class, the file and the line of this method are added.
        """
        text = f"{self.name}: {self.where}; {self.right}"
        place = "" if ", line " in text else place_in_users_files(text)
        return f"{text} ({place})" if place else text


class Report:
    """Collect the outcome of the check of one part (an algorithm, a loss, a stream, ...).

    Attributes:
        part: kind and name of the part.
        tested: maps the name of what was tested to the number of tests.
        notes: what could not be tested, and why.
    """

    def __init__(self, part: str = "") -> None:
        self.part = part
        self._faults: dict[str, list[Fault]] = {}
        self.tested: dict[str, int] = {}
        self.notes: list[str] = []

    def take(self, name: str, faults: Iterable[Fault], times: int = 1, where: str = "") -> None:
        """Record the faults of a test.

        If the test raises an exception other than `BadInput`, the exception is recorded as a fault.

        Args:
            name: what was tested, in the plural; "" if the test is not counted.
            faults: the faults. A generator runs the test inside this call.
            times: the number of tests that are counted under `name`.
            where: the name of the experiment. A fault that records an exception contains this name.

        Raises:
            BadInput: the test raised this error, which means that the part cannot be checked.
        """
        if name:
            self.tested[name] = self.tested.get(name, 0) + times
        with self.exceptions(where):
            for fault in faults:
                self.add(fault)

    def add(self, fault: Fault) -> None:
        """Record a fault of the checked part. Of faults with one name, `faults` lists the first and counts the rest."""
        self._faults.setdefault(fault.name, []).append(fault)

    @contextmanager
    def exceptions(self, where: str) -> Iterator[None]:
        """Record an exception in the `with` block as a fault of the checked part.

        Args:
            where: the place that the fault names.

        Raises:
            BadInput: the block raised this error, which means that the part cannot be checked.
        """
        try:
            yield
        except BadInput:
            raise
        except Exception as error:
            name, right = "a method that raises an exception", "a method must work on every valid argument"
            if "read-only" in str(error):
                name = "inbox mutated"
                right = "the inbox is read-only in every run: make new arrays, as inbox.mix() does"
            self.add(Fault(name, f"{where}: {in_words(error)}".removeprefix(": "), right))

    @property
    def faults(self) -> list[Fault]:
        """Return one fault of each name: the first, with a note on the number of further faults of this name."""
        return [
            first if not more else first._replace(where=f"{first.where} (and {len(more)} times more)")
            for first, *more in self._faults.values()
        ]

    def lines(self, seconds: float) -> list[str]:
        """Return the outcome of a check as lines for the terminal. `seconds` is the duration of the check."""
        faults = self.faults
        counts = ", ".join(f"{count} {tests}" for tests, count in self.tested.items() if count)
        head = f"{self.part}: {len(faults) or 'no'} fault{'s' * (len(faults) != 1)} found"
        return [
            *(f"FAULT  {fault.line}" for fault in faults),
            f"{head}; tested: {counts or 'nothing'}; {seconds:.1f} s",
            *(f"  left out: {note}" for note in self.notes),
            *([] if faults else ["a check can refute a statement, but cannot prove a statement"]),
        ]


def image(value: Any, depth: int = DEPTH) -> Any:
    """Return all bits of a value, in a form that can be compared by ==.

    Objects are split into their parts as for pickling. Some objects are represented by less:

    - A function or class: by its name.
    - A callable object, a `NoisedLoss` or an object that cannot be pickled: by the name of its type.
    - A `Draws` (a source of random numbers): by its origin, because equal origins give equal random numbers.
    - An object with a `cached_property`: without the cached value.

    Args:
        value: the value.
        depth: how many levels of nested objects are split. A deeper object is represented by the name of its type.
    """
    name = type(value).__qualname__
    if isinstance(value, SIMPLE):
        return (name, value)
    if isinstance(value, float):
        return ("float", struct.pack("d", value))
    if isinstance(value, (np.ndarray, np.generic)) and not value.dtype.hasobject:
        return ("array", value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, NoisedLoss):  # equal before and after its calls
        return (name,)
    if isinstance(value, Draws):  # two `Draws` of equal origin give equal numbers, whatever was drawn before
        return ("Draws", value.origin)
    if depth == 0 or isinstance(value, type) or callable(value):
        return ("name", getattr(value, "__qualname__", name))
    parts: Any = value
    if isinstance(value, Mapping):
        parts = value.items()
    elif isinstance(value, (set, frozenset)):
        parts = sorted(value, key=repr)
    elif not isinstance(value, (tuple, list)):
        try:
            _, *parts = value.__reduce_ex__(2)
        except Exception:  # the object cannot be taken apart
            return (name, None)
        kind: Any = type(value)
        cached = _cached_properties(kind)
        parts = [
            {key: inner for key, inner in part.items() if key not in cached} if isinstance(part, dict) else part
            for part in parts
        ]
    return (name, *(image(part, depth - 1) for part in parts))


@lru_cache
def _cached_properties(kind: type) -> frozenset[str]:
    """Return the names of all cached properties of a class."""
    members = [member for base in kind.__mro__ for member in vars(base).items()]
    return frozenset(name for name, member in members if isinstance(member, cached_property))


def shown(value: Any) -> str:
    """Return a value as one line of text, at most 120 characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 120 else f"{text[:117]}..."
