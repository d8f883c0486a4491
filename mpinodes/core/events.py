"""Define the record of what agents release, from which privacy accounting computes the proven epsilon.

A release is a vector after noise was added. An `Event` describes the noise and the sensitivity of one release. The
leakage of a message says how data of earlier rounds change the message through hidden state: the part of the agent's
state that its releases do not determine (`core.messages`).

In each round an agent sends a row of floats to the logger. A row contains, in this order:

- the agent's decision,
- an `Event` for each release of the round,
- the leakage of the message, as numbers,
- if the transcript is recorded: the message as it was sent, which is called a frame.

`Layout` defines the columns of a row. `Events` gives access to the events and leakages of many rows by name.
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
    """Name the distribution of the noise in a release."""

    CLEAN = 0
    LAPLACE = 1
    GAUSSIAN = 2
    PURE = 3  # the release is (l1/scale)-DP, but it is not a value plus noise of a fixed distribution (`Solve`)
    GAMMA_NORM = 4  # density ∝ exp(−‖e‖₂/scale), added to a vector that does not depend on the noise


class Sampling(IntEnum):
    """Name how an agent draws the batch of samples from which a release (a noised vector) is computed.

    The fields `l1` and `l2` of an `Event` bound how much the release changes between adjacent data sets. The way of
    drawing determines what the field `rate` means, and for secret batches also which data sets are adjacent:

    - NONE: the batch is public, and `rate` is 0.
    - POISSON: each sample is in the batch with probability `rate`, by secret random numbers. `l1` and `l2` are for one
      sample whose gradient becomes zero.
    - POISSON_REPLACED: each sample is in the batch with probability `rate`, by secret random numbers. `l1` and `l2` are
      for one replaced sample. Privacy accounting counts a replaced sample as two samples whose gradients become zero,
      each with `l1`/2 and `l2`/2.
    - FIXED: the batch has a fixed size, the share `rate` of all samples, and is drawn by secret random numbers. `l1`
      and `l2` are for one replaced sample of the batch.
    """

    NONE = 0
    POISSON = 1
    POISSON_REPLACED = 2
    FIXED = 3


class Event(NamedTuple):
    """Describe one release: a vector after noise was added.

    Attributes:
        kind: the distribution of the noise, a `Kind`.
        scale: the size of the noise; 0 if there is no noise. For Laplace noise: the scale of each coordinate. For
            Gaussian noise: the standard deviation of each coordinate. Gamma-norm noise e has a density proportional to
            exp(−‖e‖₂/scale).
        draws: how many times the same value is released, each time with fresh noise; 1 if all receivers get the same
            release.
        l1, l2: the L1 and L2 sensitivity of the value before noise. For gamma-norm noise, and for a `Solve` (a
            minimizer that is computed with noise), `l1` equals `l2`. The pure ε of a `Solve` is l1/scale.
        uses: the round of the loss function that this release depends on, but no earlier message of the agent; 0 if
            there is no such loss function.
        tv_distance: the total variation distance between the true distribution of the release and the distribution that
            privacy accounting assumes.
        rounding_l1, rounding_l2: how much rounding to a lattice adds to the L1 and L2 sensitivity of the value. For
            gamma-norm noise `rounding_l1` equals `rounding_l2`.
        residual, solver_steps: the final gradient norm and the steps of the solver that computed the value; 0 if there
            was no solver. Privacy accounting ignores both.
        rate: the probability with which a sample is in a secret batch, or the share of the samples in a secret batch; 0
            if batches are public.
        sampling: how a secret batch is drawn, a `Sampling`.
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
    rate: float = 0.0
    sampling: float = 0.0

    @classmethod
    def of(cls, query: Query, kind: Kind, scale: float, lattice: float = 0.0) -> Event:
        """Return the event that describes one release of a vector.

        Args:
            query: the vector without noise, with its sensitivities.
            kind: the distribution of the noise.
            scale: the scale of the noise, as in the field `scale`.
            lattice: the release is rounded to multiples of this number; 0 means no rounding.
        """
        by_l2, d = kind == Kind.GAMMA_NORM, query.value.shape[-1]
        return cls(
            kind, scale, 1.0, query.l2 if by_l2 else query.l1, query.l2, query.uses,
            rounding_l1=(sqrt(d) if by_l2 else d) * lattice, rounding_l2=sqrt(d) * lattice,
            residual=query.residual, solver_steps=query.solver_steps,
        )  # fmt: skip


NOTHING_SAID = Event(Kind.CLEAN, 0.0, 1.0, 0.0, 0.0, 0.0)  # the event of a `Start` or `Relay`
AXES = {  # the names of the axes of those fields of a leakage that are arrays
    "transition": ("part", "part_before"), "gradient": ("part",), "point": ("part",), "reads": ("vector", "part"),
}  # fmt: skip
STRETCH = 8192  # how many rounds are read at a time, because a record may not fit into memory
TELEMETRY = ("residual", "solver_steps")  # fields of an event that privacy accounting ignores
OF_SAMPLING = ("rate", "sampling")  # fields of an event that only runs with secret batches record
ADDED = ("offset", "coordinates")  # fields of a leakage that older records lack; a missing field is read as 0


class Layout(msgspec.Struct, frozen=True, dict=True):
    """Define the columns of the row of floats that an agent sends to the logger in each round.

    The columns are, in this order: the decision (d floats), the events of the releases, the leakage of the message, and
    the frame (the message as it was sent).

    Attributes:
        dimension: d, the dimension of a decision and of each vector.
        vectors: the names of the releases of a round (`Algorithm.releases`): the vectors in a message, or the gradients
            to which the algorithm adds noise.
        hidden: the names of the hidden parts of the algorithm's state; see `core.messages.Hidden`.
        frame: the number of floats of a frame; 0 if rows contain no frames.
        sampled: whether the events in a row have the fields `rate` and `sampling`.
    """

    dimension: int
    vectors: tuple[str, ...] = ("x",)
    hidden: tuple[str, ...] = ()
    frame: int = 0
    sampled: bool = False

    @cached_property
    def record(self) -> np.dtype[Any]:
        """Return the NumPy dtype of the part of a row for privacy accounting.

        This part has the events of the releases, and then the leakage: how data of earlier rounds change the message.
        """
        k, m = len(self.vectors), len(self.hidden)
        leakage: list[Any] = [("kind", np.float64)]
        if m:  # in the order of `Hidden.numbers`
            shapes = {"transition": (m, m), "gradient": (m,), "sensitivity": (), "point": (m,), "lipschitz": ()}
            shapes |= {"largest": (), "reads": (k, m), "offset": (), "coordinates": ()}
            leakage += [(name, np.float64, shape) for name, shape in shapes.items()]
        fields = [(name, np.float64) for name in self.fields]
        return np.dtype([("event", fields, (k,)), ("leakage", leakage)])

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """Return the names of the fields of `Event` that a row contains."""
        return Event._fields if self.sampled else tuple(name for name in Event._fields if name not in OF_SAMPLING)

    @cached_property
    def message_end(self) -> int:
        """Return the index of the column of a row in which the frame (the message as it was sent) begins."""
        return self.dimension + self.record.itemsize // 8

    @property
    def width(self) -> int:
        """Return the number of floats in a row."""
        return self.message_end + self.frame

    def write(self, row: Vector, events: Sequence[Event], leakage: Leakage) -> None:
        """Write what privacy accounting needs of a round into one row (width,) or rows (..., width).

        Args:
            row: the row or rows.
            events: the events of the releases, as many as there are `vectors`.
            leakage: how data of earlier rounds change the message through hidden state.

        Raises:
            ValueError: a number of the leakage is invalid, or the leakage is for another number of hidden parts or of
                vectors than this layout has.
        """
        numbers = leakage.numbers(len(self.hidden), len(self.vectors))
        columns = chain.from_iterable(events if self.sampled else (event[: len(self.fields)] for event in events))
        values: list[Any] = [*columns, *numbers]
        if row.ndim == 1:
            row[self.dimension : self.message_end] = values
            return
        of_runs = [k for k, value in enumerate(values) if isinstance(value, np.ndarray)]  # a number for each run
        row[..., self.dimension : self.message_end] = [0.0 if k in of_runs else x for k, x in enumerate(values)]
        for k in of_runs:
            row[:, self.dimension + k] = values[k].ravel()

    def open(self, rows: Vector) -> tuple[Vector, Events, Vector]:
        """Split rows of floats into the three things that they contain.

        Args:
            rows: (..., width) the rows; the axes before the last are usually (rounds, agents).

        Returns:
            The decisions (..., d), the `Events` with the axes of `rows` before the last, and the frames (..., `frame`),
            which are the messages as they were sent.
        """
        decisions, messages, frames = np.split(rows, [self.dimension, self.message_end], axis=-1)
        return decisions, Events(np.ascontiguousarray(messages).view(self.record)[..., 0], self.dimension), frames


class Events(msgspec.Struct, frozen=True):
    """Hold the events and the leakages of many messages, as arrays for privacy accounting.

    An event describes the noise and the sensitivity of a release. The leakage of a message says how data of earlier
    rounds change the message.

    Each field of `Event` is an attribute: an array (rounds, agents, vectors), where `vectors` is the number of releases
    of an agent in a round. Only the attribute `uses` has the shape (rounds, agents).

    Args:
        data: an array (rounds, agents), or (rounds,) for one agent, with the dtype `Layout.record`. `data` may also be
            an object that reads rounds from a file when it is indexed. In this case, only the `Events` that an index or
            `blocks` gives have the attributes.
        dimension: d, the number of coordinates of a vector; 0 if d is unknown. If d is unknown, gamma-norm noise is
            accounted for as a pure ε-DP mechanism.
    """

    data: NDArray[Any]
    dimension: int = 0

    def __len__(self) -> int:
        return len(self.data)

    def __getattr__(self, name: str) -> Vector:
        """Return the values of one field of `Event` for all messages, as the method `event` does.

        Raises:
            AttributeError: an `Event` has no field with this name.
        """
        if name not in Event._fields:
            raise AttributeError(name)
        return self.event(name)

    def __getitem__(self, index: Any) -> Events:
        """Return the part of these events and leakages that a NumPy index or slice of the rounds and agents selects."""
        return Events(self.data[index], self.dimension)

    @classmethod
    def of_columns(cls, layout: Layout, shape: tuple[int, int], column: Callable[[str], Vector | None]) -> Events:
        """Return the events of a run, read from the run's record.

        Args:
            layout: the layout of the rows of the run.
            shape: the number of rounds and the number of agents.
            column: returns the values of a variable of the record by name, such as "event_l1"; None if the record lacks
                the variable.

        Raises:
            KeyError: the record lacks a variable of this layout. A field in `ADDED`, which older records lack, becomes
                0.
        """
        data = np.zeros(shape, layout.record)
        for group in ("event", "leakage"):
            for name in data[group].dtype.names or ():
                into, values = data[group][name], column(f"{group}_{name}")
                if values is not None:
                    into[...] = values.reshape(into.shape)
                elif name not in ADDED:
                    raise KeyError(f"{group}_{name}")
        return cls(data, layout.dimension)

    def columns(self) -> dict[str, tuple[tuple[str, ...], Vector]]:
        """Return the events, and the leakages of messages, as variables of a record.

        The leakage of a message says how data of earlier rounds change the message. `data` must have the axes (rounds,
        agents).

        Returns:
            A dictionary from the name of a variable, such as "event_l1", to a pair (names, values). `values` is an
            array (rounds, agents, ...), and `names` has the names of its axes after the first two. Of these further
            axes, those of length 1 are left out.
        """
        columns = {}
        for group in ("event", "leakage"):
            for name in self.data[group].dtype.names or ():
                column = self.data[group][name]
                axes = AXES[name] if group == "leakage" and name in AXES else ("vector",) * (group == "event")
                sizes = {axis: size for axis, size in zip(axes, column.shape[2:], strict=True) if size > 1}
                shape = (*column.shape[:2], *sizes.values())
                columns[f"{group}_{name}"] = tuple(sizes), column.reshape(shape)
        return columns

    def blocks(self) -> Iterator[tuple[int, Events]]:
        """Yield all rounds in blocks of up to `STRETCH` rounds, as pairs (index of the first round, events)."""
        for first in range(0, len(self), STRETCH):
            yield first, self[first : first + STRETCH]

    def copy(self) -> Events:
        """Return a copy that does not share memory with these events."""
        return Events(self.data.copy(), self.dimension)

    def event(self, name: str) -> Vector:
        """Return the values of one field of `Event` for all releases.

        The result has the axes of `data`, and then an axis for the releases of an agent in a round. If `data` does not
        contain the field, the result is 0.
        """
        columns = self.data["event"]
        return np.zeros(columns.shape) if name not in (columns.dtype.names or ()) else np.asarray(columns[name])

    def leakage(self, name: str) -> Vector:
        """Return one field of the leakage of each message, which says how data of earlier rounds change the message.

        The result has the axes of `data`, and then the axes of the field.

        Args:
            name: a field of the class `Hidden`, such as "transition", but not "exact". The name "kind" gives the number
                of the leakage's class; it is the only allowed name if the algorithm has no hidden parts.
        """
        return np.asarray(self.data["leakage"][name])

    @property
    def vectors(self) -> int:
        """Return the number of releases of an agent in a round; each release has one event."""
        return int(self.data.dtype["event"].shape[0])

    @property
    def hidden(self) -> int:
        """Return the number of hidden parts of the algorithm's state: parts that its releases do not determine."""
        names = self.data.dtype["leakage"].names or ()
        return int(self.data.dtype["leakage"]["gradient"].shape[0]) if "gradient" in names else 0

    @property
    def l1_per_l2(self) -> Vector:
        """Return a bound on (L1 change)/(L2 change) of each vector, where the change is between adjacent data sets.

        For gamma-norm noise the bound is 1, because only L2 changes count. For other noise the bound is the larger of
        two ratios:

        - The ratio for a sample that no earlier message of the agent depends on is l1/l2, or 1 if l2 is 0 or inf.
        - The ratio for any other sample is √k, where k coordinates may change. This ratio counts only if d is known and
          the leakage of the message is a `Feedback` or a `Hidden`.

        The result has the axes of `data`, and then an axis for the vectors of a message.
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
        """Return, for each message, the round of the loss function that no earlier message of the agent depends on.

        The result has the axes of `data`. It is 0 for a message that depends on no such loss function.
        """
        return np.asarray(self.event("uses")[..., 0]).astype(np.int64)

    @property
    def is_unknown(self) -> NDArray[np.bool_]:
        """Return, for each message, whether it is unknown how data of earlier rounds change the message (`Unknown`).

        The result has the axes of `data`.
        """
        return np.asarray(self.leakage("kind") == UNKNOWN_KIND)

    @property
    def is_hidden(self) -> NDArray[np.bool_]:
        """Return, for each message, whether a `Feedback` or a `Hidden` bounds the effect of hidden state on it.

        Hidden state is the part of an agent's state that its releases do not determine. The result is false if the
        effect is unknown. The result has the axes of `data`.
        """
        return np.asarray(np.isin(self.leakage("kind"), (HIDDEN_KIND, EXACT_KIND)))

    @property
    def is_exact(self) -> NDArray[np.bool_]:
        """Return, for each message, whether the effect of hidden state on it is stated exactly (`Hidden.exact`).

        The result has the axes of `data`.
        """
        return np.asarray(self.leakage("kind") == EXACT_KIND)

    @property
    def agents(self) -> int:
        """Return the number of agents. `data` must have the axes (rounds, agents)."""
        return int(self.data.shape[1])

    def priced(self) -> bytes:
        """Return all numbers in `data` that determine the privacy loss, as bytes.

        If two agents have equal bytes and use the same groups of samples in each round, their privacy losses are equal.
        """
        data = self.data.copy()
        for name in TELEMETRY:
            data["event"][name] = 0.0
        return data.tobytes()
