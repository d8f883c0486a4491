"""Describe releases for privacy accounting: events, and the rows of numbers in which they are sent and recorded.

In each round an agent sends a row of floats to the logger: its decision, an `Event` for each vector of its message, the
numbers of the message's leakage, and its frame if the transcript is recorded. `Layout` defines the columns of a row.
`Events` reads arrays of rows by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from functools import cached_property
from itertools import chain
from math import sqrt
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from mpinodes.core.messages import EXACT_KIND, HIDDEN_KIND, UNKNOWN_KIND, Leakage, Query, Vector


class Kind(IntEnum):
    """Name the distribution of a release's noise."""

    CLEAN = 0
    LAPLACE = 1
    GAUSSIAN = 2
    PURE = 3  # l1/scale-DP without being a shift of a fixed distribution (penalty perturbation)
    GAMMA_NORM = 4  # density ∝ exp(−‖e‖₂/scale), added to a vector that does not depend on the noise


class Event(NamedTuple):
    """Describe the release of one vector.

    Attributes:
        kind: the distribution of the noise, a `Kind`.
        scale: the scale of the noise of a coordinate.
        draws: the number of draws of noise on the same value; 1 if all receivers get the same release.
        l1, l2, uses: as in `Query`. For gamma-norm noise l1 equals l2; for a `Solve` each of them, divided by the
            scale, is the pure ε.
        tv_distance: the total variation distance between the release and the distribution that is accounted for.
        rounding_l1, rounding_l2: how much rounding to a lattice adds to the L1 and L2 change of a value.
        residual, solver_steps: the result of the local solve that made the release, if there was one; they have no
            privacy cost.
    """

    kind: float
    scale: float
    draws: float
    l1: float
    l2: float
    uses: float
    tv_distance: float = 0.0
    rounding_l1: float = 0.0
    rounding_l2: float = 0.0
    residual: float = 0.0
    solver_steps: float = 0.0

    @classmethod
    def of(cls, query: Query, kind: Kind, scale: float, lattice: float = 0.0) -> Event:
        """Return the event of releasing a query once, rounded to multiples of `lattice`; 0 means no rounding."""
        by_l2, d = kind == Kind.GAMMA_NORM, len(query.value)
        return cls(
            kind, scale, 1.0, query.l2 if by_l2 else query.l1, query.l2, query.uses,
            rounding_l1=(sqrt(d) if by_l2 else d) * lattice, rounding_l2=sqrt(d) * lattice,
            residual=query.residual, solver_steps=query.solver_steps,
        )  # fmt: skip


NOTHING_SAID = Event(Kind.CLEAN, 0.0, 1.0, 0.0, 0.0, 0.0)  # the event of a `Start` or `Relay`
COLUMN = "{}_{}"  # the name of a variable in a record: event_l1, leakage_kind
AXES = {  # of the columns of a leakage that are not scalars
    "transition": ("part", "part_before"), "gradient": ("part",), "point": ("part",), "reads": ("vector", "part"),
}  # fmt: skip
STRETCH = 8192  # rounds that are read at a time, because a record may not fit into memory
TELEMETRY = ("residual", "solver_steps")  # fields of an event without a privacy cost
ADDED = ("offset", "coordinates")  # fields of a leakage that older records lack; they are then 0


class Layout(msgspec.Struct, frozen=True, dict=True):
    """Define the columns of a row.

    Attributes:
        dimension: d.
        vectors, hidden: the names of the algorithm's vectors and hidden parts.
        frame: the number of floats of the frame in a row; 0 if rows have no frame.
    """

    dimension: int
    vectors: tuple[str, ...] = ("x",)
    hidden: tuple[str, ...] = ()
    frame: int = 0

    @cached_property
    def record(self) -> np.dtype[Any]:
        """Return the type of a message: the events of its vectors, and its leakage."""
        k, m = len(self.vectors), len(self.hidden)
        leakage: list[Any] = [("kind", np.float64)]
        if m:  # in the order of `Hidden.numbers`
            shapes = {"transition": (m, m), "gradient": (m,), "sensitivity": (), "point": (m,), "lipschitz": ()}
            shapes |= {"largest": (), "reads": (k, m), "offset": (), "coordinates": ()}
            leakage += [(name, np.float64, shape) for name, shape in shapes.items()]
        return np.dtype([("event", [(name, np.float64) for name in Event._fields], (k,)), ("leakage", leakage)])

    @cached_property
    def message_end(self) -> int:
        """Return the column after a row's events and leakage."""
        return self.dimension + self.record.itemsize // 8

    @property
    def width(self) -> int:
        """Return the number of floats in a row."""
        return self.message_end + self.frame

    def write(self, row: Vector, events: Sequence[Event], leakage: Leakage) -> None:
        """Write the events and the leakage of a message into a row (width,)."""
        numbers = leakage.numbers(len(self.hidden), len(self.vectors))
        row[self.dimension : self.message_end] = [*chain.from_iterable(events), *numbers]

    def open(self, rows: Vector) -> tuple[Vector, Events, Vector]:
        """Return decisions (..., d), events (...) and frames (..., frame) of rows (..., width)."""
        decisions, messages, frames = np.split(rows, [self.dimension, self.message_end], axis=-1)
        return decisions, Events(np.ascontiguousarray(messages).view(self.record)[..., 0], self.dimension), frames


class Events(msgspec.Struct, frozen=True):
    """Hold the events and leakages of many messages, with a column for each field of `Event`, as an attribute.

    Args:
        data: (...) records of a `Layout`; usually (rounds, agents), or (rounds,) for one agent. Columns of events have
            one more axis, the vectors of a message; columns of leakages have the axes that `Hidden` states. If the
            events are in a file, `data` reads rounds on request, so only the `blocks` have columns.
        dimension: d; 0 if it is unknown, and gamma-norm noise is then priced as any pure mechanism.
    """

    data: NDArray[Any]
    dimension: int = 0

    def __len__(self) -> int:
        return len(self.data)

    def __getattr__(self, name: str) -> Vector:
        """Return the column of the field of `Event` with this name, as an array (..., vectors)."""
        if name not in Event._fields:
            raise AttributeError(name)
        return self.event(name)

    def __getitem__(self, index: Any) -> Events:
        """Return the events at an index, as of an array."""
        return Events(self.data[index], self.dimension)

    @classmethod
    def of_columns(cls, layout: Layout, shape: tuple[int, int], column: Callable[[str], Vector | None]) -> Events:
        """Return the events of a record.

        Args:
            layout: the layout of a row.
            shape: the numbers of rounds and agents.
            column: maps the name of a variable, as in `columns`, to its values; None if the record lacks the variable.
        """
        data = np.zeros(shape, layout.record)
        for group in ("event", "leakage"):
            for name in data[group].dtype.names or ():
                into, values = data[group][name], column(COLUMN.format(group, name))
                if values is not None:
                    into[...] = values.reshape(into.shape)
                elif name not in ADDED:
                    raise KeyError(COLUMN.format(group, name))
        return cls(data, layout.dimension)

    def columns(self) -> dict[str, tuple[tuple[str, ...], Vector]]:
        """Return each column by its name in a record: names of its further axes, and an array (rounds, agents, ...).

        Axes with a single vector or a single part are left out.
        """
        columns = {}
        for group in ("event", "leakage"):
            for name in self.data[group].dtype.names or ():
                column = self.data[group][name]
                axes = AXES[name] if group == "leakage" and name in AXES else ("vector",) * (group == "event")
                sizes = {axis: size for axis, size in zip(axes, column.shape[2:], strict=True) if size > 1}
                shape = (*column.shape[:2], *sizes.values())
                columns[COLUMN.format(group, name)] = tuple(sizes), column.reshape(shape)
        return columns

    def blocks(self) -> Iterator[tuple[int, Events]]:
        """Yield all rounds, up to `STRETCH` at a time, with the index of the first round of each block."""
        for first in range(0, len(self), STRETCH):
            yield first, self[first : first + STRETCH]

    def copy(self) -> Events:
        """Return a copy that does not share memory with these events."""
        return Events(self.data.copy(), self.dimension)

    def event(self, name: str) -> Vector:
        """Return the column of a field of `Event`, as an array (..., vectors)."""
        return np.asarray(self.data["event"][name])

    def leakage(self, name: str) -> Vector:
        """Return the column of a field of `Hidden`, as an array (..., and the axes of the field)."""
        return np.asarray(self.data["leakage"][name])

    @property
    def vectors(self) -> int:
        """Return the number of vectors of a message."""
        return int(self.data.dtype["event"].shape[0])

    @property
    def hidden(self) -> int:
        """Return the number of hidden parts."""
        names = self.data.dtype["leakage"].names or ()
        return int(self.data.dtype["leakage"]["gradient"].shape[0]) if "gradient" in names else 0

    @property
    def l1_per_l2(self) -> Vector:
        """Return the largest L1 change of a vector per L2 change, as an array (..., vectors).

        A use moves a vector by l1 and l2. An older change can move all d coordinates, so the ratio is √d, or fewer if
        the leakage states how many. For gamma-norm noise only L2 changes count. If d is unknown, the ratio is l1/l2.
        """
        l1, l2 = self.l1, self.l2
        ratio = np.divide(l1, l2, out=np.ones_like(l1), where=np.isfinite(l2) & (l2 > 0))
        if self.hidden and self.dimension:
            moved = self.leakage("coordinates")
            root = np.sqrt(np.where(moved == 0, self.dimension, np.minimum(moved, self.dimension)))
            ratio = np.maximum(ratio, np.where(self.is_hidden, root, 0.0)[..., None])
        return np.where(self.kind == Kind.GAMMA_NORM, 1.0, ratio)

    @property
    def uses(self) -> NDArray[np.int64]:
        """Return the round whose loss a message is the first to carry, as an array (...); 0 if there is none."""
        return np.asarray(self.event("uses")[..., 0]).astype(np.int64)

    @property
    def is_unknown(self) -> NDArray[np.bool_]:
        """Return whether the leakage is unknown, as an array (...)."""
        return np.asarray(self.leakage("kind") == UNKNOWN_KIND)

    @property
    def is_hidden(self) -> NDArray[np.bool_]:
        """Return whether the message depends on hidden parts, as an array (...)."""
        return np.asarray(np.isin(self.leakage("kind"), (HIDDEN_KIND, EXACT_KIND)))

    @property
    def is_exact(self) -> NDArray[np.bool_]:
        """Return whether the message states exactly how it depends on hidden parts, as an array (...)."""
        return np.asarray(self.leakage("kind") == EXACT_KIND)

    @property
    def agents(self) -> int:
        """Return the number of agents."""
        return int(self.data.shape[1])

    def of(self, agent: int) -> Events:
        """Return the events (rounds,) of one agent."""
        return self[:, agent]

    def priced(self) -> bytes:
        """Return the events as bytes, without the fields that have no privacy cost; equal bytes have equal costs."""
        data = self.data.copy()
        for name in TELEMETRY:
            data["event"][name] = 0.0
        return data.tobytes()
