"""Compute one round of one agent: its next state and its message, from its state and the messages that it received.

A frame is the array of floats that an agent sends to its out-neighbors in a round. The array has three parts:

    header     the round, the number `RELEASE_FRAME`, and an integer by which agents end a run early (`State.moving`)
    releases   the vectors of the message as they are sent, one after another; each vector has d coordinates
    scalars    the numbers that the mixing sends, such as the weight of push-sum

The result of a round depends on nothing but the set-up of the run, the round, the agent's `State`, the received frames
(`Arrivals`) and, with secret noise, secret random numbers. The module `network` sends the frames over MPI, `lockstep`
copies frames within one process, and a replay reads frames from a transcript.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf, isfinite, sqrt
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.linalg import norm

from mpinodes.core.errors import BadInput, is_users, place_of
from mpinodes.core.events import NOTHING_SAID, Event, Kind, Sampling
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
    Say,
    Solve,
    Start,
    Vector,
    offset_by,
)
from mpinodes.core.parts import ALL, Loss, Setup
from mpinodes.core.seeds import Draws, DrawsOfRuns, Purpose
from mpinodes.rounds.noised import Gradients, NoisedLoss
from mpinodes.runlog.checkpoints import Keeper

RELEASE_FRAME = 1.0  # the kind of a frame that contains releases and scalars of the mixing


class Arrivals(NamedTuple):
    """Hold the frames (messages as arrays) that an agent receives in a round, in ascending order of the senders.

    The agent's own frame is one of the frames.

    Attributes:
        senders: the sender of each frame; a sender of several frames appears several times.
        frames: the frames as sent. The first number of a frame is the round in which the frame was sent.
        releases: for each frame, a view of the vectors of the message, as they were sent.
        scalars: for each frame, a view of the numbers that the mixing sends, such as the weight of push-sum.
        own: the vectors that the agent itself sent in this round.
    """

    senders: tuple[int, ...]
    frames: tuple[Vector, ...]
    releases: tuple[Vector, ...]
    scalars: tuple[Vector, ...]
    own: Vector

    @property
    def by_sender(self) -> dict[int, Vector]:
        """Return a mapping from each sender to its message as an array; each sender must have exactly one message."""
        return dict(zip(self.senders, self.frames, strict=True))

    @classmethod
    def of(cls, setup: Setup, agent: int, senders: tuple[int, ...], frames: Mapping[int, Vector]) -> Arrivals:
        """Return the messages that an agent receives in a round without lost or late messages.

        Args:
            setup: the set-up of the run.
            agent: the agent that receives.
            senders: the in-neighbors and the agent itself, ascending.
            frames: maps each sender to its frame (message as an array) of the round.
        """
        return cls._made(setup, senders, [frames[j] for j in senders], frames[agent])

    @classmethod
    def of_round(cls, setup: Setup, here: Neighborhood, frame_of: Callable[[int, int], Vector]) -> Arrivals:
        """Return the messages that an agent receives in a round in which messages may be lost or late.

        If `setup.links` is None, no message is lost or late.

        Args:
            setup: the set-up of the run.
            here: the agent's neighbors in the round.
            frame_of: returns the frame (message as an array) that agent j sent in round s, for the arguments j and s.
        """
        heard = setup.links.heard(here.t, here.agent) if setup.links else [(j, here.t) for j in here.senders]
        frames = [frame_of(j, s) for j, s in heard]
        return cls._made(setup, here.senders, frames, frame_of(here.agent, here.t))

    @classmethod
    def _made(cls, setup: Setup, senders: tuple[int, ...], frames: Sequence[Vector], own: Vector) -> Arrivals:
        end = HEADER + len(setup.algorithm.vectors) * setup.dimension
        arrived = tuple(map(_read_only, frames))
        releases = tuple(f[..., HEADER:end] for f in arrived)
        scalars = tuple((f if f.ndim == 1 else f[0])[end:] for f in arrived)  # all runs have the same scalars
        return cls(senders, arrived, releases, scalars, _read_only(own)[..., HEADER:end])


def _read_only(frame: Vector) -> Vector:
    """Return a view of a received message that cannot be written to."""
    # An algorithm must not write private data into a message, because a `Relay` of the message is sent without noise.
    view = frame.view()
    view.setflags(write=False)
    return view


class State(NamedTuple):
    """Hold all values that an agent remembers between rounds.

    The fields `moving` and `left` are for algorithms that end early (`Algorithm.settled_below` > 0). An agent settles
    in a round if it sends a weighted sum of received messages (a `Relay`) which is nearly equal to its previous message
    v: the L2 distance is at most `settled_below`·‖v‖₂.

    Attributes:
        here: the agent's neighbors in the current round.
        algorithm, mixing: the states of the algorithm and of the mixing.
        heard: the received vectors of the round before, with their weights; None in round 1.
        moving: an integer whose lowest bit is for the latest round, the next bit for the round before, and so on. A bit
            is 1 if this agent knows that some agent did not settle in that round.
        left: whether the run ends early, because all agents settled in some round. In each round, all agents have the
            same value.
        pending: the gradients that the algorithm has not received yet because of delayed feedback, the oldest first.
        total: the weighted sum of the models that the agent's releases state (`Algorithm.released`); 0 if only the last
            release counts.
    """

    here: Neighborhood
    algorithm: Any
    mixing: Any
    heard: Inbox | None = None
    moving: int = 0
    left: bool = False
    pending: tuple[Vector, ...] = ()
    total: Any = 0.0


def keep(keeper: Keeper, t: int, state: State, frames: Mapping[int, Vector], lasting: bool) -> None:
    """Save a checkpoint of an agent, from which the agent can continue after round t.

    Args:
        keeper: writes the agent's checkpoints.
        t: the round.
        state: the state after round t.
        frames: the frames (messages as arrays) that the agent holds after round t, by sender.
        lasting: whether to flush the checkpoint to disk, as in `Keeper.save`.
    """
    # The frames determine the field `heard`.
    keeper.save(t, {"state": state._replace(heard=None), "frames": dict(frames)}, lasting)


def _hops(setup: Setup) -> int:
    """Return the diameter of the graph, in hops, but at least 1."""
    from mpinodes.topology.facts import diameter  # imported here because most runs do not need it

    return max(1, diameter(setup.topology))


class LossOfRuns(NamedTuple):
    """Hold the losses of several runs in a round; a point has the shape (runs, d), one row for each loss.

    Attributes:
        losses: the loss of each run.
    """

    losses: list[Loss]

    def grad(self, x: Vector, block: slice = ALL) -> Vector:
        """Return the gradient of each run's loss at the run's row of x: (runs, number of coordinates in `block`)."""
        return np.stack([loss.grad(row, block) for loss, row in zip(self.losses, x, strict=True)])

    def data_grad(self, x: Vector, block: slice = ALL) -> Vector:
        """Return the gradient of each run's loss without its regularizer: (runs, number of coordinates in `block`)."""
        return np.stack([loss.data_grad(row, block) for loss, row in zip(self.losses, x, strict=True)])


def _losses_of_runs(runs: Sequence[Setup], agent: int) -> Callable[[int], Any]:
    """Return a function that maps a round to the losses of an agent in several runs, as one loss with an axis of runs.

    If the losses have one sample, the samples of all rounds are read at once.
    """
    e, stream = runs[0].experiment, runs[0].stream
    has_one = "seed" in e.data and not e.problem.gradient_noise  # whether all runs have the same losses
    some = runs[:1] if has_one else runs
    of = [run.losses(agent) for run in some]
    first: Any = of[0](1)
    if not (first.takes_runs and stream.batch == 1) or is_users(type(stream)):
        times = len(runs) // len(some)
        return lambda t: LossOfRuns(times * [losses(t) for losses in of])
    read = [run.stream.merged(agent)(1, e.rounds) for run in some]
    features = np.stack([cast(Vector, loss.features) for loss in read], axis=1)  # (rounds, runs, d)
    targets = np.stack([loss.targets for loss in read], axis=1)
    return lambda t: replace(first, features=features[t - 1], targets=targets[t - 1])


class Step:
    """Compute the rounds of one agent, in one run or in several independent runs at once.

    With several runs, all vectors (points, frames, rows) have a leading axis of runs.

    Args:
        setup: the set-up of the run.
        agent: the agent.
        runs: the set-ups of several runs with equal `lockstep.kind_of`, beginning with `setup`; empty: one run.

    Attributes:
        losses: maps a round to the agent's loss.
        plays: whether the logged numbers of a round are complete only after a call of `play`. True under bandit
            feedback (loss values at two points), and if the algorithm states `noises_gradients`.
        releaser: adds noise to the agent's messages or gradients.
        noised: the gradients of the latest update, if the algorithm noises gradients; else None.
    """

    def __init__(self, setup: Setup, agent: int, runs: Sequence[Setup] = ()) -> None:
        self._setup, self._agent, self._cut = setup, agent, setup.cut
        self._algorithm, self._mixing, self._topology = setup.algorithm, setup.mixing, setup.reached
        self._layout, self._width = setup.layout, setup.mixing.width
        vectors = setup.algorithm.vectors
        self._vectors = vectors if len(vectors) > 1 else ()
        self._dimension, self._end = setup.dimension, HEADER + len(vectors) * setup.dimension
        self._settled_below = 0.0 if setup.endless else setup.algorithm.settled_below
        self._hops = _hops(setup) if self._settled_below else 0
        budget = setup.experiment.privacy.budget
        self._last_release = budget.stops[agent] if budget and budget.stops else 0
        self._recorded = setup.experiment.record.transcript
        self._late, self._regularizer = setup.experiment.feedback.delay, setup.experiment.problem.regularizer
        self._noises = setup.algorithm.noises_gradients
        self._averages = setup.algorithm.judged_by != "last"
        self.plays = bool(setup.experiment.feedback.points) or self._noises
        self.noised: Gradients | None = None
        # The least `offset` of a leakage, divided by `grad_range`, which accounts for rounding in two-point estimates.
        rounding, most = setup.run.grad_rounding[agent], setup.run.grad_range[agent]
        self._rounding = (rounding / most if rounding < most else 1.0) if setup.experiment.feedback.points else 0.0
        self._taken: tuple[State, State] | None = None  # the states before and after the update that `play` made
        self.losses = _losses_of_runs(runs, agent) if runs else setup.losses(agent)
        self.releaser = Releaser(setup, agent, self.losses, runs)

    def start(self) -> State:
        """Return the state before round 1."""
        here = self._topology.neighborhood(1, self._agent)
        algorithm, mixing = self._algorithm.init(self.releaser.start), self._mixing.init(self._agent)
        return State(here, algorithm, mixing, None, (1 << self._hops) - 1)

    def __call__(self, s: State, arrivals: Arrivals | None, frame: Vector, row: Vector) -> State:
        """Compute one round: update the agent's state with the messages of the round before, and write the new message.

        Args:
            s: the state after the round before.
            arrivals: the messages that the agent received in the round before; None in round 1.
            frame: (frame width,) the array to which the message of this round is written.
            row: (row width,) the array for the logger. The call writes the decision, the data for privacy accounting,
                and, if transcripts are recorded, the frame. If `plays` is true, the method `play` completes the array.

        Returns:
            The new state. If its field `left` is true, the run has ended, and no message was written.

        Raises:
            ValueError: the algorithm returned a decision of a wrong shape or a message that is not allowed.
            BadInput: batches are secret, and the message depends on hidden variables of the agent.
            Diverged: the message is not finite.
        """
        if self._taken is not None and self._taken[0] is s:
            s, self._taken = self._taken[1], None
        elif arrivals is not None:
            s = self.receive(s, arrivals, self.losses(s.here.t))
        if s.left:
            return s
        t, release = s.here.t, frame[..., HEADER : self._end]
        changed = self._late or self._rounding
        wanted = self._wanted(s) if changed else self._algorithm.message(s.algorithm, s.here)
        is_plain = isinstance(wanted, Query) and not self._last_release and not self._noises
        allowed = wanted if is_plain else self._allowed(wanted, t)
        relayed = s.heard.own.copy() if self._settled_below and s.heard and isinstance(wanted, Relay) else None
        events, leakage = self.releaser.release(allowed, t, s.heard, release)
        frame[..., :2] = t, RELEASE_FRAME
        if self._settled_below:
            settled = relayed is not None and norm(release - relayed) <= self._settled_below * norm(relayed)
            s = s._replace(moving=(s.moving << 1 | (not settled)) & ((1 << self._hops) - 1))
            frame[2] = s.moving
        if self._width:
            frame[..., self._end :] = self._mixing.outgoing(s.mixing, s.here)
        d = self._dimension
        decision = release[..., :d] if self._algorithm.decides_release else self._algorithm.decision(s.algorithm)
        if (shape := getattr(decision, "shape", ())) != (*row.shape[:-1], d):
            raise ValueError(f"decision() returned a vector of shape {shape}: expected {(*row.shape[:-1], d)}")
        row[..., :d] = decision
        if not self._noises:
            self._layout.write(row, events, leakage)
        if self._recorded:
            row[..., self._layout.message_end :] = frame
        return s

    def play(self, s: State, arrivals: Arrivals, row: Vector) -> None:
        """Compute the agent's next state, and complete the numbers that the agent logs in this round.

        Call this method only if `plays` is true. The next call of this `Step` uses the computed state.

        - Under bandit feedback (loss values at two points), the midpoint of the two points becomes the logged decision.
        - If the algorithm states `noises_gradients`, the point of the first gradient becomes the logged decision. The
          records of the gradients for privacy accounting are logged, too.

        Args:
            s: the state that the step returned in this round.
            arrivals: the messages that the agent received in this round.
            row: (row width,) the numbers that the step has logged in this round.

        Raises:
            ValueError: for the reasons in `receive`.
            Diverged: a noised gradient is not finite.
        """
        loss = self.losses(s.here.t)
        self._taken = s, self.receive(s, arrivals, loss)
        played = loss.played if self.noised is None else self.noised.played
        if played is not None:
            row[: self._dimension] = played
        if self.noised is not None:
            self._layout.write(row, self.noised.events, RELEASED)

    def message(self, s: State) -> Message:
        """Return the message that the agent sends in this round, before noise is added.

        After the last round in which the agent may release data (`privacy.budget.stops`), the message is a `Relay`: a
        weighted sum of received messages. In other rounds, the algorithm makes the message.

        Raises:
            ValueError: the algorithm may not return a message of this class.
        """
        return self._allowed(self._wanted(s), s.here.t)

    def _wanted(self, s: State) -> Message:
        wanted = self._algorithm.message(s.algorithm, s.here)
        if self._rounding:
            wanted = offset_by(wanted, self._rounding)
        if self._late:
            from mpinodes.rounds.late import delayed  # imported here because most runs do not need it

            wanted = delayed(wanted, self._late)
        return wanted

    def _allowed(self, wanted: Message, t: int) -> Message:
        if isinstance(wanted, Relay) and self._algorithm.hidden:
            raise ValueError(
                f"message() returned a Relay in round {t}, but a Relay cannot state the leakage of the hidden parts "
                f"{self._algorithm.hidden}: return a Query with the argument `leaks`"
            )
        if self._noises != isinstance(wanted, Say) and not isinstance(wanted, (Start, Relay)):
            raise ValueError(
                f"message() returned a {type(wanted).__name__} in round {t}: an algorithm with "
                "noises_gradients = True may only return a Say, a Start or a Relay; no other algorithm may return a Say"
            )
        overspent = 0 < self._last_release < t and not isinstance(wanted, (Start, Relay))
        return Relay() if overspent else wanted

    def receive(self, s: State, arrivals: Arrivals, loss: Loss, recorded: Sequence[Vector] | None = None) -> State:
        """Return the agent's next state, computed from the messages and the loss of this round.

        Args:
            s: the state of this round.
            arrivals: the messages that the agent received in this round.
            loss: the loss function of this round. If batches are secret, this is the loss of all samples, and this
                method draws the batch.
            recorded: for an algorithm that noises gradients: the noised gradients of a recorded run, which the
                algorithm receives. None: noise is drawn.

        Raises:
            ValueError: the method `update` of the algorithm returned None, or took a wrong number of gradients. With
                delayed feedback, also: `update` took gradients at two points.
        """
        if self._cut:  # a user's stream may return losses without clipping
            loss = self._cut(self._agent, loss)
        here, moving, left, pending = s.here, s.moving, False, s.pending
        mixing, weights, scale = self._mixing.weights(s.mixing, here, arrivals.scalars)
        inbox = Inbox(arrivals.releases, weights, scale, arrivals.own, self._vectors)
        shown: Any = loss
        batches = self.releaser.batches
        if self._noises:
            self.noised = Gradients(
                lambda x, part: self.releaser.gradient(loss, x, here.t, part, recorded), self._algorithm.gradients
            )
            shown = NoisedLoss(self.noised)
        elif batches:
            shown = loss = batches.drawn(loss, here.t)
        if self._late:
            from mpinodes.rounds.late import Late

            due, pending = (pending[0], pending[1:]) if len(pending) == self._late else (None, pending)
            shown = Late(loss, due, self._regularizer)
        algorithm = self._algorithm.update(s.algorithm, here, inbox, shown)
        if algorithm is None:
            raise ValueError(f"update() returned None in round {here.t}: expected the algorithm's new state")
        if self.noised is not None:
            self.noised.require_all()
        if self._late:
            if shown.asked is None:
                raise ValueError(
                    f"feedback.delay: update() took no gradient in round {here.t}: expected a gradient in each round"
                )
            pending = (*pending, shown.asked)
        total = s.total + self._weighted(s, arrivals.own) if self._averages else 0.0
        following = self._topology.neighborhood(here.t + 1, self._agent)
        if self._settled_below:
            for frame in arrivals.frames:
                moving |= int(frame[2])
            # The oldest bit has reached every agent by now, so all agents see the same value and end in the same round.
            left = not moving >> (self._hops - 1)
        return State(following, algorithm, mixing, inbox, moving, left, pending, total)

    def _weighted(self, s: State, own: Vector) -> Vector:
        """Return the model that the agent's release of a round states, times the weight of the round in the average."""
        model = self._algorithm.released(own, s.heard.scale if s.heard else 1.0, s.here.t)
        return s.here.t * model if self._averages and self._algorithm.averaging == "linear" else model

    def model(self, s: State, arrivals: Arrivals) -> Vector:
        """Return the model that all releases of the agent state (`Algorithm.released`), after the last round.

        The numbers are nan if the releases state no model: without noise, the model of the last message differs from
        the agent's decision.

        Args:
            s: the state that the step returned last.
            arrivals: the messages that the agent received in the last round.
        """
        algorithm, rounds = self._algorithm, s.here.t - s.left
        message = algorithm.message(s.algorithm, s.here)
        if isinstance(message, (Query, Queries, Say)) and not algorithm.decides_release:
            vectors = message.vectors.values() if isinstance(message, Queries) else [message]
            clean = np.concatenate([vector.value for vector in vectors], axis=-1)
            decision = algorithm.decision(s.algorithm)
            if not np.allclose(algorithm.released(clean, s.heard.scale if s.heard else 1.0, s.here.t), decision):
                return np.full_like(decision, np.nan)
        if not self._averages:
            return self._weighted(s, arrivals.own)
        total: Vector = s.total if s.left else s.total + self._weighted(s, arrivals.own)
        return total / (rounds * (rounds + 1) / 2 if algorithm.averaging == "linear" else rounds)


class Releaser:
    """Add the noise of the mechanism to the messages, or to the gradients, of one agent.

    In a run, no other class calls the mechanism. If a vector is not finite, the run ends with an error, and the vector
    is not sent.

    Attributes:
        start: (d,) the starting point of the algorithm: zeros, or random numbers from the seed if the algorithm has
            `random_start`. If the message of round 1 is a `Start`, the agent sends this point without noise.
        batches: draws the secret batches of the agent; None if batches are public.
    """

    def __init__(self, setup: Setup, agent: int, losses: Callable[[int], Loss], runs: Sequence[Setup] = ()) -> None:
        e, d = setup.experiment, setup.dimension
        self._mechanism, self._vectors, self._losses = setup.mechanism, setup.algorithm.releases, losses
        self._agent, self._noises = agent, setup.algorithm.noises_gradients
        key = os.urandom(32) if e.private and e.noise.entropy == "os" else setup.noise_key
        parts = range(len(self._vectors))
        self._noise: list[Any] = [Draws(key, Purpose.NOISE, agent, part) for part in parts]
        if runs:
            self._noise = [
                DrawsOfRuns([Draws(r.noise_key, Purpose.NOISE, agent, part) for r in runs]) for part in parts
            ]
        self._dither = Draws(key, Purpose.DITHER, agent)
        self._rate = setup.run.rates[agent]
        self.batches, self._sampling = None, Sampling.NONE
        if self._rate:
            from mpinodes.rounds.sampling import Batches  # imported here because most runs do not need it

            coins = os.urandom(32) if e.secret and e.noise.entropy != "os" else key
            fixed = e.data["batch"] if e.sampling == "fixed" else 0
            self.batches = Batches(coins, agent, self._rate, fixed, len(self._vectors))
            zeroed = Sampling.POISSON if e.privacy.adjacency == "zero-out" else Sampling.POISSON_REPLACED
            self._sampling = Sampling.FIXED if fixed else zeroed
        self._sensitivity = setup.run.grad_sensitivity[agent]
        self._deviation: float | None = 0.0  # None: the mechanism scales the noise by the sensitivity and epsilon
        if self._noises and e.private:
            if (multiplier := e.privacy.noise_multiplier) is None and setup.mechanism.pure:
                self._deviation = None
            elif multiplier is None:
                self._deviation = self._sensitivity / setup.run.gdp(e.privacy.epsilon, e.privacy.delta)
            else:
                weight = 1.0 if e.clips_rounds else setup.run.sample_weight[agent] / (self._rate or 1.0)
                self._deviation = multiplier * e.clip * weight
        drawn, none = setup.algorithm.random_start, np.zeros((*(len(runs),) * bool(runs), d))
        self.start = Draws(e.seed, Purpose.START, agent).at(0).standard_normal(d) if drawn else none

    def release(self, message: Message, t: int, heard: Inbox | None, out: Vector) -> tuple[tuple[Event, ...], Leakage]:
        """Write the release of round t to `out`: the message with noise, or a `Start`, `Relay` or `Say` without noise.

        Args:
            message: the message of the agent's algorithm.
            t: the round.
            heard: the received vectors of the round before, with their weights; None in round 1.
            out: the array to which the release is written, with d numbers for each vector of the message.

        Returns:
            The records of the vectors for privacy accounting (events; none for a `Say`), and the leakage, which says
            how the message depends on hidden variables of the agent.

        Raises:
            ValueError: the message contradicts the class attributes of the algorithm, its kind is not allowed in round
                t, or the mechanism returned no event.
            BadInput: batches are secret, and the leakage is not `RELEASED` (no dependence on hidden variables).
            Diverged: the release is not finite.
        """
        events: tuple[Event, ...]
        if isinstance(message, Query):
            events, leaks = (self._noised(message, t, 0, out),), message.leaks
        elif isinstance(message, Solve):
            events, leaks = (self._solved(message, t, out),), message.leaks
        elif isinstance(message, Queries):
            if tuple(message.vectors) != self._vectors:
                raise ValueError(
                    f"message() returned vectors with the names {tuple(message.vectors)}, but the class of the "
                    f"algorithm states vectors = {self._vectors}"
                )
            places = np.split(out, len(self._vectors), axis=-1)
            events, leaks = (), message.leaks
            for part, (value, l1, l2, calibration) in enumerate(message.vectors.values()):
                query = Query(value, l1, l2, message.uses, leaks, calibration)
                events += (self._noised(query, t, part, places[part]),)
        elif isinstance(message, Say):
            events, leaks = (), RELEASED
            if message.value.shape != out.shape:
                raise ValueError(f"message() returned a vector of shape {message.value.shape}: expected {out.shape}")
            out[:] = message.value
        elif isinstance(message, Start if heard is None else Relay):
            times = out.shape[-1] // self.start.shape[-1]
            out[:] = np.tile(self.start, times) if heard is None else heard.mix()
            events, leaks = (NOTHING_SAID,) * len(self._vectors), RELEASED
        else:
            raise ValueError(
                f"message() returned a {type(message).__name__} in round {t}: expected a Query, Queries or Solve, "
                "a Start in round 1, or a Relay in a later round"
            )
        if leaks is not RELEASED and not isinstance(leaks, Leakage):
            raise ValueError(
                f"message() stated leaks={leaks!r} in round {t}: expected RELEASED, UNKNOWN, Feedback(...) or "
                "Hidden(...)"
            )
        if self._rate and leaks is not RELEASED:
            raise BadInput(
                f"data.sampling: the message of round {t} depends on hidden state, and no theorem proves that secret "
                "batches lower the privacy loss of such messages; set data.sampling=none"
            )
        self._require_finite(out, t, message)
        return events, leaks

    def _require_finite(self, out: Vector, t: int, message: Message) -> None:
        # Everybody can see this error. With a finite `privacy.clip`, adjacent data change a message by a bounded amount
        # (if all earlier releases are equal), so data decide about the error only near the largest float64.
        # The scalar product is a fast test. It may overflow although all entries are finite, so test each entry then.
        if not isfinite(np.vdot(out, out)) and not np.isfinite(out).all():
            cause = "the run diverges; use smaller steps, less noise, or a bounded problem.set"
            mechanism = type(self._mechanism)
            if is_users(mechanism) and np.isfinite(getattr(message, "value", inf)).all():
                cause = f"{place_of(mechanism, 'release')} must return finite numbers, also for calibration = 0"
            raise Diverged(f"the message of agent {self._agent} in round {t} is not finite and was not sent: {cause}")

    def gradient(
        self, loss: Loss, x: Vector, t: int, part: int, recorded: Sequence[Vector] | None = None
    ) -> tuple[Query, Event, Vector]:
        """Compute a gradient of the loss of round t, and add noise.

        Args:
            loss: the loss of the round, of all samples that the stream shows.
            x: (d,) the point.
            t: the round.
            part: the number of the gradient in the round, from 0. The noise and the secret batch depend on this number.
            recorded: the noised gradients of a recorded run, of which number `part` is returned. None: noise is drawn.

        Returns:
            The gradient without noise as a `Query`, its record for privacy accounting (event), and the noised gradient
            (d,).

        Raises:
            ValueError: the mechanism returned no event.
            Diverged: the noised gradient is not finite.
        """
        clean = (self.batches.drawn(loss, t, part) if self.batches else loss).grad(x)
        l2 = self._sensitivity
        query = Query(clean, sqrt(len(clean)) * l2, l2, t, RELEASED, self._deviation)
        out = np.empty(len(clean))
        event = self._noised(query, t, part, out)
        if recorded is not None:
            out[:] = recorded[part]
        self._require_finite(out, t, query)
        return query, event, out

    def _noised(self, query: Query, t: int, part: int, out: Vector) -> Event:
        if not 0 <= query.uses < t + self._noises:
            raise ValueError(
                f"message() of round {t} states uses={query.uses}: `uses` must be an earlier round, whose loss no "
                "message before this one used, or 0 if this message uses no new loss"
            )
        if self._rate and 0 < query.uses < t - 1 + self._noises:
            raise ValueError(
                f"message() of round {t} states uses={query.uses}: with data.sampling, only the message of the next "
                f"round may use the batch of a round, so expected {t - 1 + self._noises} or 0"
            )
        if query.value.shape != out.shape:
            raise ValueError(f"message() returned a vector of shape {query.value.shape}: expected {out.shape}")
        event = self._mechanism.release(query, t, self._noise[part], out)
        if not isinstance(event, Event):
            raise ValueError(f"release() returned a {type(event).__name__}: expected an Event")
        return event._replace(rate=self._rate, sampling=self._sampling) if self._rate and query.uses else event

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
            # The privacy proof needs the minimizer up to `tolerance`, so without convergence the cost is infinite.
            cost = event.l1 + event.scale * ask.log_volume if residual <= ask.tolerance else inf
            event = event._replace(kind=Kind.PURE, l1=cost, l2=cost)
        return event._replace(tv_distance=tv_distance, residual=residual, solver_steps=steps)
