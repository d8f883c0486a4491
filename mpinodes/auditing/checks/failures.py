"""The report of a check, and `image`, which shows whether a value has changed."""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from mpinodes.core.seeds import Draws

SIMPLE = (type(None), bool, int, str, bytes, complex)
DEPTH = 40


class Fault(NamedTuple):
    """One failed test.

    Attributes:
        name: the fault in words.
        where: agent, round, method and values.
        right: the rule that was broken.
    """

    name: str
    where: str
    right: str

    @property
    def line(self) -> str:
        """Return one line of text."""
        return f"{self.name}: {self.where}; {self.right}"


class Report:
    """All faults found, and how much was tested.

    Attributes:
        tested: by what was tested, how often.
        notes: what could not be tested, and why.
    """

    def __init__(self) -> None:
        self._found: dict[str, list[Fault]] = {}
        self.tested: dict[str, int] = {}
        self.notes: list[str] = []

    def take(self, name: str, faults: Iterable[Fault], times: int = 1) -> None:
        """Record the outcome of a test."""
        self.tested[name] = self.tested.get(name, 0) + times
        for fault in faults:
            self._found.setdefault(fault.name, []).append(fault)

    @property
    def faults(self) -> list[Fault]:
        """Return the first fault of each name, with a note on how often it was seen."""
        return [
            first if not more else first._replace(where=f"{first.where} (and {len(more)} times more)")
            for first, *more in self._found.values()
        ]


def image(value: Any, depth: int = DEPTH) -> Any:
    """Return everything that a value consists of, to the last bit: values with equal images are equal."""
    if isinstance(value, SIMPLE):
        return (type(value).__name__, value)
    if isinstance(value, float):
        return ("float", struct.pack("d", value))
    if isinstance(value, (np.ndarray, np.generic)):
        if value.dtype.hasobject:
            return ("array", value.shape, image(value.tolist(), depth - 1))
        return ("array", value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, Draws):  # equal at every round, whatever was drawn before
        return ("Draws", value.origin)
    if depth == 0 or isinstance(value, type) or callable(value):
        return ("name", getattr(value, "__qualname__", type(value).__qualname__))
    return _inside(value, depth - 1)


def _inside(value: Any, depth: int) -> Any:
    """Return the images of a container's items or of an object's attributes."""
    name = type(value).__qualname__
    if isinstance(value, (tuple, list)):
        return (name, *(image(inner, depth) for inner in value))
    if isinstance(value, Mapping):
        return (name, *((image(k, depth), image(v, depth)) for k, v in value.items()))
    if isinstance(value, (set, frozenset)):
        return (name, *sorted((image(inner, depth) for inner in value), key=repr))
    held = attributes(value)
    if held:
        return (name, *((key, image(inner, depth)) for key, inner in held.items()))
    try:  # an object without attributes, such as an iterator, is compared by its pickled form
        return (name, image(value.__reduce_ex__(2)[1:], 6))
    except Exception:  # the object cannot be pickled
        return (name, None)


def attributes(value: Any) -> dict[str, Any]:
    """Return the attributes of an object, without the cached values of its `cached_property`s."""
    held = dict(vars(value)) if hasattr(value, "__dict__") else {}
    kinds = type(value).__mro__
    for kind in kinds:
        slots = vars(kind).get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            if slot not in ("__dict__", "__weakref__") and hasattr(value, slot):
                held[slot] = getattr(value, slot)
    cached = {k for kind in kinds for k, v in vars(kind).items() if isinstance(v, functools.cached_property)}
    return {key: inner for key, inner in held.items() if key not in cached}


def shown(value: Any) -> str:
    """Return a value as a short line of text."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 120 else f"{text[:117]}..."
