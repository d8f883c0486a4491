"""Hold the transcript of a run (all messages sent), and run one agent again on the recorded messages.

An agent's next message is a function of its data and of all messages sent before. So two replays of an agent on the
same transcript, one on its data and one on adjacent data, show how far every message moves. All other inputs, such as
the random errors of gradients and the coins of secret batches, are equal in both replays.

If the noise is inside a local minimization, the sent vector is the same in both replays. Then the log density of the
sent vector is computed on both data sets. The movement is the absolute difference of the two log densities, times the
noise scale.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import lru_cache
from itertools import zip_longest
from math import log, log1p
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from mpinodes.auditing.changes import Change, changed
from mpinodes.auditing.checks.failures import image
from mpinodes.config.building import build, rebuilt
from mpinodes.config.compose import compose
from mpinodes.core import RELEASED, Inbox, Kind, Loss, Message, Payload, Queries, Query, Setup, Solve, Vector
from mpinodes.core.errors import BadInput
from mpinodes.core.events import TELEMETRY, Event, Events
from mpinodes.core.experiment import stored
from mpinodes.core.messages import HEADER
from mpinodes.core.norms import norm
from mpinodes.privacy.gamma_norm import log_density
from mpinodes.rounds import lockstep
from mpinodes.rounds.step import Arrivals, State, Step
from mpinodes.runlog.reader import Reader, load

ROUNDING = 1e-12  # changes of a number below this share of the message's largest number, or of 1, count as rounding
PRICED = tuple(name for name in Event._fields if name not in TELEMETRY)  # fields of an event that have a privacy cost


class NotThatRun(BadInput):
    """Signal that the recorded messages of a run do not follow from its experiment, its data and the code."""


class Transcript:
    """Hold all messages that a run has sent, with the setup of the run.

    Attributes:
        setup: the setup of the run.
        frames: (rounds, agents, numbers of a message) the messages as they were sent.
        events: (rounds, agents) the noise and the sensitivity of each message.
        decisions: (rounds, agents, d); None if the decisions are not available.
        label: the name of the experiment in the report of a check.
        losses: maps an agent to a function that maps a round to the loss of the agent.
    """

    def __init__(
        self, setup: Setup, frames: Vector, events: Events, decisions: Vector | None = None, label: str = ""
    ) -> None:
        self.setup, self.frames, self.events, self.label = setup, frames, events, label
        self.decisions: Any = decisions
        self.losses = lru_cache(setup.stream.of)

    @property
    def agents(self) -> range:
        """Return the numbers of all agents."""
        return range(self.setup.topology.agents)

    def fresh(self) -> Transcript:
        """Return the same transcript with a new, equal setup, for which the user's files are imported again."""
        return Transcript(build(self.setup.experiment), self.frames, self.events, self.decisions, self.label)

    def replayed(self) -> list[Replayed]:
        """Run every agent again on the transcript and return the replays."""
        return [Replayed(self, agent) for agent in self.agents]


def simulate(setup: Setup, label: str = "") -> Transcript:
    """Simulate a run in one process, and return all messages and decisions of the agents.

    The setting `record.transcript` must be true; otherwise the returned messages are empty.
    """
    rows = np.concatenate([chunk.copy() for chunk in lockstep.simulate(setup)], axis=1).transpose(1, 0, 2)
    decisions, events, frames = setup.layout.open(rows)
    return Transcript(setup, frames, events, decisions, label)


class Recorded(Transcript):
    """Read all messages of a run from the run directory.

    Raises:
        BadInput: the directory holds no run with a transcript, or experiment.toml does not fit the record.
    """

    def __init__(self, directory: Path) -> None:
        try:
            data = load(directory)
            asked = stored(directory / "experiment.toml")
        except BadInput:
            raise
        except (OSError, ValueError) as error:
            raise BadInput(f"{directory}: not a run directory ({error})") from error
        if "transcript" not in data:
            raise BadInput(f"{directory}: the run has no transcript; run it again with record.transcript=true")
        setup = compose(asked, ranks=None)
        events = Reader(directory).events(setup.layout)[:]
        super().__init__(setup, data.transcript.values, events)
        rounds = setup.experiment.rounds
        if setup.algorithm.settled_below:  # the run may have ended early
            rounds = min(rounds, len(self.frames))
        wanted = (rounds, setup.topology.agents, setup.frame_width)
        if self.frames.shape != wanted:
            raise BadInput(
                f"{directory}: experiment.toml does not fit the record: (rounds, agents, numbers of a message) are "
                f"{wanted} in experiment.toml, but {self.frames.shape} in the record"
            )
        for t, receiver in enumerate(data.receiver.values, 1):
            fits = setup.links is None or np.array_equal(data.lateness.values[t - 1], setup.links.lateness(t))
            if not fits or not np.array_equal(receiver, setup.reached.sends(t)):
                raise BadInput(f"{directory}: the topology or faults do not fit the record: round {t} differs")


class Replayed:
    """Run one agent again on the recorded messages of a run, from any round on.

    If the agent noises gradients, gradients take the place of messages. Their noise is drawn again from the noise key,
    because the record does not hold noised gradients.

    Attributes:
        agent: the number of the agent.
        kind, scale: (rounds, vectors of a message) the distribution and the scale of the agent's noise.
        messages: the agent's message of each round, on its recorded data, before noise; if the agent noises gradients,
            the gradients of each round before noise.
        claim: a cache of `adjacent_replay.compared`.

    Args:
        recorded: the messages of the run.
        agent: the agent.
        released: for each round, the noised gradients that the agent released; None: the replay computes them from the
            agent's data and the noise key.

    Raises:
        BadInput: the run noises gradients or has secret batches, but its noise cannot be drawn again.
        NotThatRun: the messages were read from a run directory, and a replayed message differs from the record.
    """

    def __init__(self, recorded: Transcript, agent: int, released: list[list[Vector]] | None = None) -> None:
        self._setup, self._frames, self.agent = recorded.setup, recorded.frames, agent
        self._step = Step(recorded.setup, agent)
        self._own = self._step.losses
        e, self._noises = recorded.setup.experiment, recorded.setup.algorithm.noises_gradients
        if e.secret and (self._noises or e.sampling != "none"):
            raise BadInput(
                "noise.entropy = 'os' or noise.backend = 'opendp': replay and audit of noised gradients and of secret "
                "batches need the noise key of the run, and nobody has it; set noise.entropy=seed noise.backend=numpy"
            )
        self._vectors = len(recorded.setup.algorithm.releases)
        self._end = HEADER + len(recorded.setup.algorithm.vectors) * recorded.setup.dimension
        self._gradients: list[tuple[list[Vector], list[Event]]] = []  # by round, as released
        self.kind, self.scale = recorded.events.kind[:, agent], recorded.events.scale[:, agent]
        self._states: list[State] = []
        self._arrivals: list[Arrivals] = []  # what the agent receives in each round, whatever its data are
        self.messages: list[Message] = []
        self.claim: tuple[Any, Vector] = (), np.empty(0)
        state = self._step.start()
        for k in range(len(self._frames)):
            self._states.append(state)
            message = self._step.message(state)
            arrivals = Arrivals.of_round(recorded.setup, state.here, lambda j, s: np.asarray(self._frames[s - 1, j]))
            self._arrivals.append(arrivals)
            noised_before = released[k] if released else None
            state = self._step.receive(state, arrivals, self._own(state.here.t), noised_before)
            if noised := self._step.noised:
                self._gradients.append((noised.released, noised.events))
                message = self._queries()
            self.messages.append(message)
        if isinstance(recorded, Recorded):
            self.require_same_run(recorded)

    @property
    def noised(self) -> list[list[Vector]]:
        """Return, for each round, the agent's noised gradients; empty if the agent noises its messages."""
        return [released for released, _ in self._gradients]

    def said(self, t: int) -> Vector:
        """Return what the agent released in round t, as one vector.

        - If the agent noises messages: the vectors of its recorded message.
        - If the agent noises gradients: its noised gradients of the round, as the replay computes them.
        """
        return np.concatenate(self._gradients[t - 1][0]) if self._noises else self.sent(t)

    def sent(self, t: int) -> Vector:
        """Return the vectors of the agent's recorded message of round t, as one vector."""
        return np.asarray(self._frames[t - 1, self.agent, HEADER : self._end])

    def heard(self, t: int) -> Inbox | None:
        """Return what the agent received in round t, which must be before the last recorded round; None if t = 0."""
        return self._states[t].heard

    def released(self, t: int) -> tuple[Vector, tuple[Event, ...]]:
        """Compute the agent's message of round t again, as it was sent.

        Returns:
            The vectors of the message, one after the other, and the event (noise and sensitivity) of each vector. If
            the agent noises gradients, there is an event for each gradient instead.
        """
        out, state = np.empty(self._end - HEADER), self._states[t - 1]
        message = self._step.message(state) if self._noises else self.messages[t - 1]
        events, _ = self._step.releaser.release(message, t, state.heard, out)
        return out, tuple(self._gradients[t - 1][1]) if self._noises else events

    def wanted(self, t: int) -> Message:
        """Return the message that the algorithm would send in round t if the privacy budget allowed every message."""
        state = self._states[t - 1]
        return self._setup.algorithm.message(state.algorithm, state.here)

    def require_same_run(self, recorded: Transcript) -> None:
        """Require that the replayed messages equal the recorded messages up to rounding, and have equal events.

        The noise of the replayed messages is drawn again. If this is impossible, only messages without noise are
        compared, and those fields of the events that determine the privacy loss.

        Raises:
            NotThatRun: a message differs.
        """
        reproducible = self._setup.experiment.reproducible
        names = Event._fields if reproducible else PRICED
        for t in range(1, len(self.messages) + 1):
            (out, events), sent, stated = self.released(t), self.sent(t), recorded.events[t - 1, self.agent]
            slack = 1e-9 * (1 + np.abs(sent).max()) + max(e.rounding_l1 for e in events) / self._setup.dimension
            is_noised = any(event.scale > 0 for event in events)
            is_same = (is_noised and not reproducible) or np.allclose(out, sent, rtol=1e-9, atol=slack)
            now = [[getattr(event, name) for event in events] for name in names]
            if not is_same or not np.allclose(now, [stated.event(name) for name in names], 1e-9, equal_nan=True):
                raise NotThatRun(
                    f"this is not the run that was recorded: message {t} of agent {self.agent} differs from the "
                    "message that experiment, data and code give now"
                )

    def _adjacent(self, change: Change, last: int) -> Iterator[tuple[int, Message, Message, Callable[[int], Loss]]]:
        """Run the agent on adjacent data, from the changed round to round `last`.

        If the agent noises gradients, each round begins with the recorded state.

        Yields:
            For each round: the round, the message on the recorded data, the message on adjacent data, and a function
            that maps a round to the loss on adjacent data.
        """
        losses = changed(self._own, self._setup.stream.samples(self.agent), change)
        state = self._states[change.round - 1]
        for t in range(change.round, last + 1):
            if self._noises:  # states follow from releases, which are the same on adjacent data
                yield t, self.messages[t - 1], self._again(t, losses(t)), losses
                continue
            yield t, self.messages[t - 1], self._step.message(state), losses
            if t < last:
                state = self._step.receive(state, self._arrivals[t - 1], losses(t))

    def moved(self, change: Change, last: int) -> tuple[Vector, list[tuple[int, Any, Any]]]:
        """Measure how far adjacent data move the agent's messages, from the changed round to round `last`.

        Returns:
            An array (r, vectors of a message, 2) for r rounds: the L1 and the L2 norm of the change of each vector.
            Both norms are inf if only one of the two messages carries data. If both are local minimizations (`Solve`),
            see `_diverged`.
            A list of the facts that depend on data, although they must not: triples (round, fact on the recorded data,
            fact on adjacent data). A fact is what a message states about itself, such as its sensitivity. If the agent
            noises gradients, the state and the next message are such facts, too.
        """
        moved, differing = [], []
        for t, own, other, losses in self._adjacent(change, last):
            facts = self._public(own), self._public(other)
            if facts[0] != facts[1]:
                differing += [(t, a, b) for a, b in zip_longest(*facts) if a != b]
            if self._noises and t < len(self._states):
                states = [image((s.algorithm, self._step.message(s))) for s in (self._states[t], self._following)]
                if states[0] != states[1]:  # data have passed the noised gradients by
                    differing.append((t, "a state or message that follows from noised gradients", "another one"))
            if isinstance(own, Solve) and isinstance(other, Solve):
                moved.append([self._diverged(t, other, losses(other.uses))])
                continue
            own_vectors, other_vectors = clean_vectors(own), clean_vectors(other)
            if len(own_vectors) != len(other_vectors):
                moved.append([[np.inf, np.inf]] * self._vectors)
            else:
                apart = [sizes(b - a, a) for a, b in zip(own_vectors, other_vectors, strict=True)]
                moved.append(apart or [[0.0, 0.0]] * self._vectors)
        return np.array(moved), differing

    def _again(self, t: int, loss: Loss) -> Queries:
        """Update the agent in round t with another loss and the recorded noised gradients.

        The result is the gradients of this update, before noise. The new state is stored in `self._following`.
        """
        released, _ = self._gradients[t - 1]
        self._following = self._step.receive(self._states[t - 1], self._arrivals[t - 1], loss, released)
        return self._queries()

    def _inside(self, t: int, sample: Any) -> Queries:
        """Return the gradients of round t before noise, as if sample number `sample` were in every batch of the round.

        The coins of the run decide which other samples are in the batches.
        """
        releaser: Any = self._step.releaser
        row, coins = list(self._setup.stream.samples(self.agent)(t)).index(sample), releaser.batches
        releaser.batches = WithSample(coins, row)
        try:
            return self._again(t, self._own(t))
        finally:
            releaser.batches = coins

    def _queries(self) -> Queries:
        """Return the gradients of the latest update, before noise, as the vectors of one message."""
        assert self._step.noised
        named = zip(self._setup.algorithm.releases, self._step.noised.queries, strict=True)
        vectors = {name: Payload(query.value, query.l1, query.l2, query.calibration) for name, query in named}
        return Queries(vectors, self._step.noised.queries[0].uses, RELEASED)

    def _public(self, message: Message) -> tuple[Any, ...]:
        """Return everything that a message states about itself. These statements must not depend on data."""
        if isinstance(message, Solve):
            values = [getattr(message, field.name) for field in fields(message)]
            return tuple(value.tobytes() if isinstance(value, np.ndarray) else value for value in values)
        if not isinstance(message, (Query, Queries)):
            return (type(message),)
        named = {"": message} if isinstance(message, Query) else message.vectors
        payloads = [(name, p.l1, p.l2, p.calibration, p.value.shape) for name, p in named.items()]
        return (*payloads, message.uses, message.leaks.numbers(len(self._setup.algorithm.hidden), self._vectors))

    def _diverged(self, t: int, ask: Solve, adjacent: Any) -> list[float]:
        """Return how far adjacent data move a local minimization, as two numbers.

        - With noise, both numbers are the absolute difference of the release's log densities, times the noise scale.
        - Without noise, the numbers are the L1 and the L2 norm of the difference of the two centers. A center is the
          point whose proximal step is the released vector.

        Args:
            t: the round.
            ask: the message on adjacent data, which is a local minimization (`Solve`).
            adjacent: the loss function on adjacent data.
        """
        x, scale, own = self.said(t), float(self.scale[t - 1, 0]), self._own(ask.uses)
        if scale == 0:
            return sizes(ask.step * (adjacent.grad(x) - own.grad(x)), x)
        own_density, other_density = (log_density(x, ask, loss, scale) for loss in (own, adjacent))  # type: ignore[arg-type]
        return [scale * abs(own_density - other_density)] * 2

    def log_ratio(self, change: Change, last: int) -> float:
        """Return the log-likelihood ratio of the messages up to round `last`: recorded data over adjacent data.

        The ratio is ±inf if the messages are impossible on one of the two data sets. In a run with secret batches, the
        density on the recorded data averages over whether the changed sample is in a batch.
        """
        total, rate = 0.0, self._setup.run.rates[self.agent]
        for t, message, adjacent_message, losses in self._adjacent(change, last):
            other = self._log_densities(t, adjacent_message, losses)
            if rate:
                inside = self._log_densities(t, self._inside(t, change.sample), self._own)
                own = [float(np.logaddexp(log1p(-rate) + b, log(rate) + a)) for a, b in zip(inside, other, strict=True)]
            else:
                own = self._log_densities(t, message, self._own)
            total += sum(0.0 if a == b else a - b for a, b in zip(own, other, strict=True))  # both may be −inf
        return total

    def drawn(self, t: int) -> list[Vector | None]:
        """Return the noise in each vector (d,) that the agent released in round t; None for a vector without noise.

        The noise of a rounded minimizer is None too, because it cannot be extracted.
        """
        message = self.messages[t - 1]
        if isinstance(message, Solve):
            hidden = self.scale[t - 1, 0] == 0 or message.grid
            return [None if hidden else self._off(t, message, self._own)]
        pairs = zip(clean_vectors(message), np.split(self.said(t), self._vectors), self.scale[t - 1], strict=False)
        return [None if scale == 0 else release - value for value, release, scale in pairs] or [None] * self._vectors

    def _off(self, t: int, ask: Solve, losses: Callable[[int], Loss]) -> Vector:
        """Return the noise vector with which the agent's local minimization in round t gives the recorded message.

        The noise is added to the center of the minimization `ask`.
        """
        x = self.said(t)
        return np.asarray(x + ask.step * losses(ask.uses).grad(x) - ask.center)

    def _log_densities(self, t: int, message: Message, losses: Callable[[int], Loss]) -> list[float]:
        """Return the log density of each released vector of round t, up to a constant independent of the data."""
        if isinstance(message, Solve):
            scale = float(self.scale[t - 1, 0])
            if scale == 0:
                slack = 10 * message.step * message.tolerance
                return [0.0 if sizes(self._off(t, message, losses), self.said(t))[1] <= slack else -np.inf]
            return [log_density(self.said(t), message, losses(message.uses), scale)]  # type: ignore[arg-type]
        densities, releases = [], np.split(self.said(t), self._vectors)
        for value, release, kind, scale in zip(
            clean_vectors(message), releases, self.kind[t - 1], self.scale[t - 1], strict=False
        ):
            off = release - value
            if scale == 0:
                densities.append(0.0 if sizes(off, release)[1] == 0 else -np.inf)
            elif kind == Kind.GAUSSIAN:
                densities.append(-float(off @ off) / (2 * scale**2))
            else:
                densities.append(-float(np.abs(off).sum() if kind == Kind.LAPLACE else np.linalg.norm(off)) / scale)
        return densities


class WithSample(NamedTuple):
    """Draw the batches of an agent as `batches` (a `Batches`) does, and add the sample number `row` to every batch."""

    batches: Any
    row: int

    def drawn(self, loss: Loss, t: int, part: int = 0) -> Loss:
        """Return the loss of a batch of round t to which the sample number `row` is added.

        A round has a batch for each gradient; `part` is the number of the gradient.
        """
        return loss.batch(lambda number: np.union1d(self.batches.rows(number, t, part), [self.row]), self.batches.rate)


def fresh_seed(*words: int) -> int:
    """Return a seed that is computed from the numbers `words`. Other numbers give an independent seed."""
    return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0] >> 2)


def reseeded(setup: Setup, seed: int) -> Setup:
    """Return the setup of the same run with another seed, but with the same graph and the same data.

    The new seed gives other noise and other random starting points.
    """
    return rebuilt(setup, msgspec.structs.replace(setup.experiment, seed=seed))


def clean_vectors(message: Message) -> list[Vector]:
    """Return the vectors of a `Query` or `Queries` before noise; an empty list for other messages."""
    if isinstance(message, Query):
        return [message.value]
    return [payload.value for payload in message.vectors.values()] if isinstance(message, Queries) else []


def sizes(moved: Vector, message: Vector) -> list[float]:
    """Return the L1 and the L2 norm of the difference of two messages, reduced by a bound on the rounding error.

    No norm is below 0. If the difference contains nan or inf, because a message is not finite, both norms are inf.

    Args:
        moved: (d,) the difference.
        message: (d,) one of the messages.
    """
    floor = ROUNDING * max(1.0, float(np.abs(message).max()))
    less = float(np.abs(moved).sum()) - floor * len(moved), norm(moved) - floor
    return [np.inf if np.isnan(size) else max(size, 0.0) for size in less]
