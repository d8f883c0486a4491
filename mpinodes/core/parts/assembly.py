"""All parts of a run together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mpinodes.core.events import Layout
from mpinodes.core.experiment import Experiment
from mpinodes.core.messages import HEADER
from mpinodes.core.parts.algorithm import Algorithm, Run
from mpinodes.core.parts.feasible import Set
from mpinodes.core.parts.links import Links, Topology
from mpinodes.core.parts.loss import Loss, SampleLoss
from mpinodes.core.parts.mechanism import Mechanism
from mpinodes.core.parts.metric import Metric
from mpinodes.core.parts.mixing import Mixing
from mpinodes.core.parts.stream import Stream


@dataclass(frozen=True, repr=False, eq=False)
class Setup:
    """All that one run is made of, alike on every rank.

    Attributes:
        experiment: every choice made.
        topology, stream, feasible, algorithm, mixing, mechanism: its parts.
        run: what the algorithm knows of it.
        samples: that an agent sees in a round, by agent.
        losses: by agent, the losses that it sees by round, with the stochastic error of its gradients.
        make_key: makes `noise_key` of this set-up.
        cut: of an agent and a loss, the loss whose gradients keep the clip; None: those of `losses` surely do.
        metrics: of the run, the built-in ones first; on the rank of the logger alone.
        endless: whether agents go on when all have settled (`Algorithm.settled_below`).
        links: what gets through; None: all does, at once.
        connected_over: B: the union of the graphs of any B rounds is strongly connected; 0: not looked at.
        loss: the class of the losses' samples.
    """

    experiment: Experiment
    topology: Topology
    stream: Stream
    algorithm: Algorithm[Any]
    mixing: Mixing
    mechanism: Mechanism
    loss: type[SampleLoss]
    run: Run
    samples: tuple[int, ...]
    losses: Callable[[int], Callable[[int], Loss]]
    make_key: Callable[[Setup], bytes]
    cut: Callable[[int, Loss], Loss] | None = None
    connected_over: int = 0
    metrics: tuple[type[Metric], ...] = ()
    endless: bool = False
    links: Links | None = None

    @cached_property
    def noise_key(self) -> bytes:
        """What noise and dither are drawn from, where the seed is to give them again: 32 bytes, never written.

        Raises:
            OSError: a file that the experiment names cannot be read.
        """
        return self.make_key(self)

    @property
    def reached(self) -> Topology | Links:
        """Whom an agent's messages reach in a round, and whose reach it: by its topology, and what gets through."""
        return self.links or self.topology

    @property
    def dimension(self) -> int:
        """D."""
        return self.run.dimension

    @property
    def blocks(self) -> tuple[slice, ...]:
        """By agent, the coordinates that its gradients are taken of."""
        return self.run.blocks

    @property
    def feasible(self) -> Set:
        """𝒳."""
        return self.run.feasible

    @property
    def frame_width(self) -> int:
        """Floats of a frame: header, releases, the mixing's scalars."""
        return HEADER + len(self.algorithm.vectors) * self.dimension + self.mixing.width

    @property
    def layout(self) -> Layout:
        """Of the rows that agents hand to the logger."""
        frame = self.frame_width if self.experiment.record.transcript else 0
        return Layout(self.dimension, self.algorithm.vectors, self.algorithm.hidden, frame)
