"""Define `Setup`, which holds the experiment and all parts of a run."""

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
    """Hold the experiment and all parts of one run.

    All ranks of a run have the same set-up, except for `metrics`, `connected_over` and `asked`.

    Attributes:
        experiment: all settings of the run, with defaults filled in.
        topology, stream, feasible, algorithm, mixing, mechanism: the parts of the run.
        run: the public constants of the run; see `Run`.
        samples: for each agent, the number of samples in the loss function of a round. If batches are secret, these are
            all training samples of the agent, from which the agent draws the batch.
        losses: maps an agent to a function that maps a round to the agent's loss function. The gradients of these loss
            functions are clipped, and include the random error of `problem.gradient_noise`. Under bandit feedback, they
            are estimates of gradients.
        make_key: computes `noise_key` from this set-up.
        cut: for a user-defined stream, a function that maps an agent and a loss to the same loss with clipped
            gradients. None for a built-in stream, for bandit feedback, and for random errors of gradients
            (`problem.gradient_noise`).
        metrics: the metrics of the run, built-in metrics first; empty on all ranks except the logger's rank.
        endless: whether the run never ends early, also if the relayed vectors no longer change
            (`Algorithm.settled_below`).
        links: decides which messages are lost or delayed; None if every message arrives in the round in which it is
            sent.
        connected_over: the least number B such that the graphs of any B consecutive rounds together are strongly
            connected; 0 if B was not computed, or if the baseline of the run is alone or one-shot.
        loss: the class of the losses of samples.
        asked: the dotted keys that the user sets; empty on all ranks except the logger's rank.
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
    asked: tuple[str, ...] = ()

    @cached_property
    def noise_key(self) -> bytes:
        """Return the 32-byte key from which the noise is drawn if `noise.entropy` is "seed".

        Dither (random numbers for rounding) and secret batches are drawn from this key too. If `noise.backend` is
        "opendp", neither the noise nor secret batches are drawn from the key. The key is never written to a file.

        Raises:
            OSError: a file that the experiment names cannot be read.
            BadInput: a folder that must be searched for the user's code has too many files.
        """
        return self.make_key(self)

    @property
    def reached(self) -> Topology | Links:
        """Return the graph on which messages arrive: the links if there are faults, else the topology."""
        return self.links or self.topology

    @property
    def dimension(self) -> int:
        """Return d, the dimension of a decision."""
        return self.run.dimension

    @property
    def blocks(self) -> tuple[slice, ...]:
        """Return, for each agent, the coordinates of the gradient that the agent uses."""
        return self.run.blocks

    @property
    def feasible(self) -> Set:
        """Return the constraint set 𝒳."""
        return self.run.feasible

    @property
    def frame_width(self) -> int:
        """Return the number of floats in a frame: the message as an agent sends it on a link.

        A frame consists of a header, the agent's release, and the public numbers from which receivers compute mixing
        weights.
        """
        return HEADER + len(self.algorithm.vectors) * self.dimension + self.mixing.width

    @property
    def layout(self) -> Layout:
        """Return which numbers are in the rows that agents send to the logger in each round."""
        frame = self.frame_width if self.experiment.record.transcript else 0
        algorithm, sampled = self.algorithm, self.experiment.sampling != "none"
        return Layout(self.dimension, algorithm.releases, algorithm.hidden, frame, sampled)
