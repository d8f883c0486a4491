"""A set-up: an experiment with every choice made, and its parts, each built once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mpinodes.core.events import Layout
from mpinodes.core.experiment import Experiment
from mpinodes.core.parts import Algorithm, Loss, Mechanism, Mixing, Run, Set, Stream, Topology

HEADER = 3  # floats of a frame before its release; see `simulation.step`


@dataclass(frozen=True)
class Setup:
    """All that one run is made of, alike on every rank.

    Attributes:
        experiment: every choice made.
        topology, stream, feasible, algorithm, mixing, mechanism: its parts.
        run: what the algorithm knows of it.
        samples: that an agent sees in a round, by agent.
        losses: by agent, the losses that it sees by round, with the stochastic error of its gradients.
    """

    experiment: Experiment
    topology: Topology
    stream: Stream
    algorithm: Algorithm[Any]
    mixing: Mixing
    mechanism: Mechanism
    run: Run
    samples: tuple[int, ...]
    losses: Callable[[int], Callable[[int], Loss]]

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
