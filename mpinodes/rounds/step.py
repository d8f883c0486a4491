"""The step of one agent: from its state and what arrived to its next state and what it says.

The place where algorithm, mechanism, mixing and data meet. A step is a pure function: all that an agent remembers is in
its `State`, all that reaches it in its `Arrivals`, all randomness is addressed by round. Who carries the frames is not
its business: `network` does over MPI, `lockstep` in one process, and a replay takes them from a transcript.

A frame is [round, kind, who moves still | releases (vectors x d) | the mixing's scalars].
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from math import inf, isfinite, sqrt
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
from numpy.linalg import norm

from mpinodes.core.events import NOTHING_SAID, Event, Kind
from mpinodes.core.messages import (
    HEADER,
    RELEASED,
    Diverged,
    Inbox,
    Leakage,
    Message,
    Neighborhood,
    Queries,
    Query,
    Relay,
    Solve,
    Start,
    Vector,
    offset_by,
)
from mpinodes.core.parts import Loss, Setup
from mpinodes.core.seeds import Draws, Purpose
from mpinodes.runlog.checkpoints import Keeper

RELEASE_FRAME = 1.0  # the kind of a frame: releases and the mixing's scalars


class Arrivals(NamedTuple):
    """What an agent hears in a round: frames in ascending order of sender, its own among them.

    Attributes:
        senders: whose they are; of a sender of several, as often.
        frames: as sent; `frame[0]` is the round that it was sent in.
        releases, scalars: views of them.
        own: its own release.
    """

    senders: tuple[int, ...]
    frames: tuple[Vector, ...]
    releases: tuple[Vector, ...]
    scalars: tuple[Vector, ...]
    own: Vector

    @property
    def by_sender(self) -> dict[int, Vector]:
        """Frames by sender, where each is heard once."""
        return dict(zip(self.senders, self.frames, strict=True))

    @classmethod
    def of(cls, setup: Setup, agent: int, senders: tuple[int, ...], frames: Mapping[int, Vector]) -> Arrivals:
        """The frames of all that an agent hears, by sender."""
        return cls._made(setup, senders, [frames[j] for j in senders], frames[agent])

    @classmethod
    def of_round(cls, setup: Setup, here: Neighborhood, said: Callable[[int, int], Vector]) -> Arrivals:
        """What an agent hears in a round, where links may have faults; `said(j, s)`: the frame of agent j, round s."""
        if setup.links is None:
            return cls.of(setup, here.agent, here.senders, {j: said(j, here.t) for j in here.senders})
        heard = setup.links.heard(here.t, here.agent)
        frames = [said(*each) for each in heard]
        return cls._made(setup, here.senders, frames, said(here.agent, here.t))

    @classmethod
    def _made(cls, setup: Setup, senders: tuple[int, ...], frames: Sequence[Vector], own: Vector) -> Arrivals:
        end = HEADER + len(setup.algorithm.vectors) * setup.dimension
        arrived = tuple(map(_read_only, frames))
        releases, scalars = tuple(f[HEADER:end] for f in arrived), tuple(f[end:] for f in arrived)
        return cls(senders, arrived, releases, scalars, _read_only(own)[HEADER:end])


def _read_only(frame: Vector) -> Vector:
    """A view: what an agent has heard it must not change, for a `Relay` would send the change un-noised."""
    view = frame.view()
    view.setflags(write=False)
    return view


class State(NamedTuple):
    """All that an agent remembers.

    Attributes:
        here: its place in the round that it is in.
        algorithm, mixing: their own states.
        heard: in the round before; None: nothing yet.
        moving: by round, the last one the lowest bit: whether some agent moved still, as far as this one knows.
        left: all agents had settled in some round, and leave together.
        pending: where feedback is late, gradients that are not told yet, the oldest first.
    """

    here: Neighborhood
    algorithm: Any
    mixing: Any
    heard: Inbox | None = None
    moving: int = 0
    left: bool = False
    pending: tuple[Vector, ...] = ()


def keep(keeper: Keeper, t: int, state: State, frames: Mapping[int, Vector], lasting: bool) -> None:
    """Write down what an agent goes on from after round t, in which this has arrived.

    Args:
        keeper: the agent's.
        t: the round.
        state: after it; what it heard before is not needed any more.
        frames: that were heard in the round, by sender; where links have faults, all that may be under way.
        lasting: as of `Keeper.save`.
    """
    keeper.save(t, {"state": state._replace(heard=None), "frames": dict(frames)}, lasting)


def _hops(setup: Setup) -> int:
    """From one agent to any other, at least one."""
    from mpinodes.topology.facts import diameter  # which most agents do without

    return max(1, diameter(setup.topology))


def _rounding_share(setup: Setup, agent: int) -> float:
    """Return the rounding of a two-point estimate as a share of `grad_range`: the least offset of uncut gradients."""
    rounding, most = setup.run.grad_rounding[agent], setup.run.grad_range[agent]
    return rounding / most if rounding < most else 1.0


class Step:
    """The step of agent `agent`, with what it needs at hand.

    Attributes:
        losses: the agent's own, by round.
        plays: whether losses are shown at points played alone.
        releaser: the one place that adds noise.
    """

    def __init__(self, setup: Setup, agent: int) -> None:
        self._setup, self._agent = setup, agent
        self._algorithm, self._mixing, self._topology = setup.algorithm, setup.mixing, setup.reached
        self._layout, self._width = setup.layout, setup.mixing.width
        self._pack: Callable[..., None] = Struct(f"{self._width}d").pack_into
        vectors = setup.algorithm.vectors
        self._vectors = vectors if len(vectors) > 1 else ()
        self._dimension, self._end = setup.dimension, HEADER + len(vectors) * setup.dimension
        self._scalars_at = 8 * self._end  # bytes
        self._settled_below = 0.0 if setup.endless else setup.algorithm.settled_below
        self._hops = _hops(setup) if self._settled_below else 0
        budget = setup.experiment.privacy.budget
        self._last_telling = budget.stops[agent] if budget and budget.stops else 0
        self._recorded = setup.experiment.record.transcript
        self._frames: dict[int, tuple[Vector, Vector, Vector]] = {}
        self._late, self._regularizer = setup.experiment.feedback.delay, setup.experiment.problem.regularizer
        self.plays = bool(setup.experiment.feedback.points)
        self._rounding = _rounding_share(setup, agent) if self.plays else 0.0
        self._taken: tuple[State, State] | None = None  # in by `play`: the state before, and after
        self.losses, self._cut = setup.losses(agent), setup.cut
        self.releaser = Releaser(setup, agent, self.losses)

    def start(self) -> State:
        """The state before round 1."""
        here = self._topology.neighborhood(1, self._agent)
        algorithm, mixing = self._algorithm.init(self.releaser.start), self._mixing.init(self._agent)
        return State(here, algorithm, mixing, None, (1 << self._hops) - 1)

    def __call__(self, s: State, arrivals: Arrivals | None, frame: Vector, row: Vector) -> State:
        """One round: hear what arrived in the round before (None: there was none), and say what is to be said.

        Args:
            s: the state.
            arrivals: of the round before.
            frame: (frame width,) filled with what is said.
            row: (row width,) filled with decision, events and leakage, and the frame if it is recorded.

        Returns:
            The new state; where it has `left`, nothing was said.
        """
        if self._taken is not None and self._taken[0] is s:
            s, self._taken = self._taken[1], None
        elif arrivals is not None:
            s = self.receive(s, arrivals, self.losses(s.here.t))
        return s if s.left else self._say(s, frame, row)

    def play(self, s: State, arrivals: Arrivals, row: Vector) -> None:
        """Where agents play (`plays`): take it in at once, and write down where that was.

        An algorithm may ask for it at a point made of what is heard in this round. The next call goes on from there.

        Args:
            s: the state of the round.
            arrivals: of the round.
            row: (row width,) of the round, as its call filled it.
        """
        loss = self.losses(s.here.t)
        self._taken = s, self.receive(s, arrivals, loss)
        if loss.played is not None:
            row[: self._dimension] = loss.played

    def message(self, s: State) -> Message:
        """What the agent says: what its algorithm would, for as long as its privacy budget lasts."""
        return self._allowed(self._wanted(s), s.here.t)

    def _wanted(self, s: State) -> Message:
        wanted = self._algorithm.message(s.algorithm, s.here)
        if self._rounding:
            wanted = offset_by(wanted, self._rounding)
        if self._late:
            from mpinodes.rounds.late import delayed  # which most agents do without

            wanted = delayed(wanted, self._late)
        return wanted

    def _allowed(self, wanted: Message, t: int) -> Message:
        if isinstance(wanted, Relay) and self._algorithm.hidden:
            raise ValueError(
                f"message() gave a Relay in round {t}, which says nothing of what the hidden parts "
                f"{self._algorithm.hidden} hold: say it with a Query, and state what leaks"
            )
        overspent = 0 < self._last_telling < t and not isinstance(wanted, (Start, Relay))
        return Relay() if overspent else wanted

    def receive(self, s: State, arrivals: Arrivals, loss: Loss) -> State:
        """Mix what arrived, take the loss in, and move on to the next round."""
        if self._cut:  # so that no loss reaches an algorithm uncut, wherever it was made
            loss = self._cut(self._agent, loss)
        here, moving, left, pending = s.here, s.moving, False, s.pending
        mixing, weights, scale = self._mixing.weights(s.mixing, here, arrivals.scalars)
        inbox = Inbox(arrivals.releases, weights, scale, arrivals.own, self._vectors)
        if self._late:
            algorithm, pending = self._update_late(s, inbox, loss)
        else:
            algorithm = self._algorithm.update(s.algorithm, here, inbox, loss)
        following = self._topology.neighborhood(here.t + 1, self._agent)
        if self._settled_below:
            for frame in arrivals.frames:
                moving |= int(frame[2])
            # Of the oldest round there, every agent now knows what every other one knew then: all see the same bit.
            left = not moving >> (self._hops - 1)
        # As State(...), which is one more call.
        return tuple.__new__(State, (following, algorithm, mixing, inbox, moving, left, pending))

    def _update_late(self, s: State, inbox: Inbox, loss: Loss) -> tuple[Any, tuple[Vector, ...]]:
        """The algorithm's state of the next round, and what is pending then."""
        from mpinodes.rounds.late import Late

        due, rest = (s.pending[0], s.pending[1:]) if len(s.pending) == self._late else (None, s.pending)
        shown = Late(loss, due, self._regularizer)
        algorithm = self._algorithm.update(s.algorithm, s.here, inbox, shown)
        if shown.asked is None:
            raise ValueError(
                f"feedback.delay: no gradient was asked for in round {s.here.t}, and one has to be in each"
            )
        return algorithm, (*rest, shown.asked)

    def _say(self, s: State, frame: Vector, row: Vector) -> State:
        t, (_, release, scalars) = s.here.t, self._frames.get(id(frame)) or self._parts_of(frame)
        changed = self._late or self._rounding
        wanted = self._wanted(s) if changed else self._algorithm.message(s.algorithm, s.here)
        allowed = wanted if isinstance(wanted, Query) and not self._last_telling else self._allowed(wanted, t)
        relayed = s.heard.own.copy() if self._settled_below and s.heard and isinstance(wanted, Relay) else None
        events, leakage = self.releaser.release(allowed, t, s.heard, release)
        frame[0] = t
        if self._settled_below:
            settled = relayed is not None and norm(release - relayed) <= self._settled_below * norm(relayed)
            s = s._replace(moving=(s.moving << 1 | (not settled)) & ((1 << self._hops) - 1))
            frame[2] = s.moving
        if self._width:
            said = self._mixing.outgoing(s.mixing, s.here)
            if isinstance(said, tuple) and len(said) == self._width:
                self._pack(frame, self._scalars_at, *said)  # a third of the time that NumPy takes over a tuple
            else:
                scalars[:] = said
        d = self._dimension
        decision = release[:d] if self._algorithm.decides_release else self._algorithm.decision(s.algorithm)
        if decision.shape != (d,):
            raise ValueError(f"decision() gave a vector of shape {decision.shape}, not {(d,)}")
        row[:d] = decision
        self._layout.write(row, events, leakage)
        if self._recorded:
            row[self._layout.message_end :] = frame
        return s

    def _parts_of(self, frame: Vector) -> tuple[Vector, Vector, Vector]:
        """A frame, its releases and its scalars: made once for each of the few frames that an agent speaks into."""
        frame[1] = RELEASE_FRAME
        parts = self._frames[id(frame)] = frame, frame[HEADER : self._end], frame[self._end :]
        return parts


class Releaser:
    """The one place that adds noise: makes the release of what an agent's algorithm wants to say.

    What is not finite is never sent: the run ends before. Neighbours see that it ended, and when, so this must not tell
    of data: gradients are clipped for any data (`losses.clipping`), so that given what was released before, data move a
    message by its stated sensitivity at most, and only public numbers and released points can take it beyond the
    doubles; within a sensitivity of their end, where the noise alone is as large, it is not hidden. Who says it, and in
    which round, is all that is told.

    Attributes:
        start: (d,) what its algorithm's `init` is given, and what a `Start` says.
    """

    def __init__(self, setup: Setup, agent: int, losses: Callable[[int], Loss]) -> None:
        e, d = setup.experiment, setup.dimension
        self._mechanism, self._vectors, self._losses = setup.mechanism, setup.algorithm.vectors, losses
        self._agent = agent
        key = os.urandom(32) if e.private and e.noise.entropy == "os" else setup.noise_key
        self._noise = [Draws(key, Purpose.NOISE, agent, part) for part in range(len(self._vectors))]
        self._dither = Draws(key, Purpose.DITHER, agent)
        drawn = setup.algorithm.random_start
        self.start = Draws(e.seed, Purpose.START, agent).at(0).standard_normal(d) if drawn else np.zeros(d)

    def release(self, message: Message, t: int, heard: Inbox | None, out: Vector) -> tuple[tuple[Event, ...], Leakage]:
        """Write the release of round t to `out`: (vectors x d,); `heard` in the round before.

        Raises:
            ValueError: the message is not what the algorithm says of its messages; says what is wrong.
            Diverged: the release is not finite.
        """
        said: tuple[tuple[Event, ...], Leakage]
        if isinstance(message, Query):
            said = (self._noised(message, t, 0, out),), message.leaks
        else:
            said = self._released(message, t, heard, out)
        # One product, which overflows before the entries do, is a third of the time of looking at each.
        if not isfinite(out.dot(out)) and not np.isfinite(out).all():
            raise Diverged(
                f"what agent {self._agent} would say in round {t} is not finite, and was not sent: the run diverges; "
                "smaller steps or noise, or a bounded problem.set"
            )
        return said

    def _released(
        self, message: Queries | Solve | Start | Relay, t: int, heard: Inbox | None, out: Vector
    ) -> tuple[tuple[Event, ...], Leakage]:
        if isinstance(message, Solve):
            return (self._solved(message, t, out),), message.leaks
        if isinstance(message, Queries):
            return self._several(message, t, out), message.leaks
        if not isinstance(message, (Start, Relay)):
            raise ValueError(
                f"message() gave a {type(message).__name__} in round {t}, not a Query, Queries, Solve, Start or Relay"
            )
        if not isinstance(message, Start if heard is None else Relay):
            raise ValueError(
                f"message() gave a {type(message).__name__} in round {t}: a Start is for round 1, a Relay for later"
            )
        out[:] = np.tile(self.start, len(self._vectors)) if heard is None else heard.mix()
        return (NOTHING_SAID,) * len(self._vectors), RELEASED

    def _noised(self, query: Query, t: int, part: int, out: Vector) -> Event:
        if not 0 <= query.uses < t:
            raise ValueError(
                f"message() of round {t} says uses={query.uses}: the round of a loss that was revealed before, or 0"
            )
        if query.value.shape != out.shape:
            raise ValueError(f"message() gave a vector of shape {query.value.shape}, not {out.shape}")
        return self._mechanism.release(query, t, self._noise[part], out)

    def _several(self, message: Queries, t: int, out: Vector) -> tuple[Event, ...]:
        if tuple(message.vectors) != self._vectors:
            raise ValueError(f"message() gave vectors {tuple(message.vectors)}, and `vectors` lists {self._vectors}")
        events = []
        for part, (payload, place) in enumerate(
            zip(message.vectors.values(), np.split(out, len(self._vectors)), strict=True)
        ):
            value, l1, l2, calibration = payload
            query = Query(value, l1, l2, message.uses, message.leaks, calibration)
            events.append(self._noised(query, t, part, place))
        return tuple(events)

    def _solved(self, ask: Solve, t: int, out: Vector) -> Event:
        l1 = sqrt(len(out)) * ask.l2
        event = self._noised(Query(ask.center, l1, ask.l2, ask.uses, ask.leaks, ask.calibration), t, 0, out)
        x, residual, steps = self._losses(ask.uses).prox(out, ask.step, ask.near, ask.tolerance)
        out[:] = x
        tv_distance = 0.0
        if ask.grid:
            out += self._dither.at(t).uniform(-ask.grid / 2, ask.grid / 2, len(out))
            np.rint(out / ask.grid, out=out)
            out *= ask.grid
            tv_distance = sqrt(len(out)) * ask.tolerance * ask.stretch / ask.grid
        if event.kind != Kind.CLEAN:
            # What is proven is proven of the minimizer itself.
            cost = event.l1 + event.scale * ask.log_volume if residual <= ask.tolerance else inf
            event = event._replace(kind=Kind.PURE, l1=cost, l2=cost)
        return event._replace(tv_distance=tv_distance, residual=residual, solver_steps=steps)
