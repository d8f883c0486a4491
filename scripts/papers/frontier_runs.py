"""The runs of the frontier: many seeds of the noise of one run side by side, as one run.

An agent's vectors are (d, s) here, a column for each of s seeds. Algorithms and mixings are the package's own, and so
are the noise's scale, from each message's own calibration and `privacy.epsilon` as the budget has it, and what is
proven. What is here is the loop over agents, which the package has for one seed (`rounds.step`), with losses and a
ball for columns. A test holds it against the package's, seed by seed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from frontier_data import Rows, Vector

from mpinodes.core.asked import Tree, merge
from mpinodes.core.messages import Inbox, Query, Relay, Solve, Solved, Start
from mpinodes.core.parts import ALL, Loss, Set, Setup
from mpinodes.losses.logistic import Logistic
from mpinodes.privacy.accountant import Accountant, groups
from mpinodes.running.budget import events
from mpinodes.running.setup import set_up

MOST_STEPS = 60


@dataclass(frozen=True)
class Balls(Set):
    """‖x‖₂ ≤ radius, of each column; inf: all of R^d."""

    def reach(self, d: int) -> float:
        return self.radius

    def project(self, x: Vector) -> Vector:
        return x * np.minimum(1.0, self.radius / np.maximum(np.linalg.norm(x, axis=0), 1e-300))

    def support(self, g: Vector) -> float:
        return self.radius * float(np.linalg.norm(g))

    def within(self, margin: float) -> Balls:
        return Balls(self.radius - margin)


@dataclass(frozen=True)
class Columns(Loss):
    """The mean logistic loss of some rows, their gradients clipped, plus (λ/2)‖x‖², of each column of (d, s)."""

    rows: Rows
    clip: float
    regularizer: float

    @cached_property
    def _norms(self) -> Vector:
        return np.linalg.norm(self.rows.features, axis=1)[:, None]

    @cached_property
    def _labels(self) -> Vector:
        return self.rows.targets[:, None]

    def value(self, x: Vector) -> Any:
        """(s,)."""
        mean = Logistic.point(self.rows.features @ x, self._labels).mean(axis=0)
        return mean + 0.5 * self.regularizer * np.sum(x * x, axis=0)

    def data_grad(self, x: Vector, block: slice = ALL) -> Vector:
        slopes = Logistic.slope(self.rows.features @ x, self._labels)
        if np.isfinite(self.clip):
            slopes *= self.clip / np.maximum(np.abs(slopes) * self._norms, self.clip)
        return np.asarray(self.rows.features.T @ slopes) / len(slopes)

    def grad(self, x: Vector, block: slice = ALL) -> Vector:
        found = self.data_grad(x)
        return found + self.regularizer * x if self.regularizer else found

    def prox(self, v: Vector, step: float, near: Vector, tolerance: float) -> Solved:
        """By one Hessian for all columns, at their mean; what that does not find, by the package's own solver."""
        x, features = near.copy(), self.rows.features
        norms = left = np.full(x.shape[1], np.inf)
        inverse = None
        for k in range(MOST_STEPS):
            gradient = self.grad(x) + (x - v) / step
            norms = np.linalg.norm(gradient, axis=0)
            if norms.max() <= tolerance:
                return Solved(x, float(norms.max()), k)
            if inverse is None or norms.max() > 0.2 * left.max():
                bend = Logistic.bend(features @ x, self._labels).mean(axis=1) / len(features)
                second = (features * bend[:, None]).T @ features
                second.flat[:: len(second) + 1] += self.regularizer + 1 / step
                inverse = np.linalg.inv(second)
            left = norms
            x -= inverse @ gradient
        exact = Logistic(features, self.rows.targets, np.inf, False, float(len(features)), self.regularizer)
        found = [exact.prox(v[:, k], step, near[:, k], tolerance) for k in range(x.shape[1])]
        return Solved(np.column_stack([each.x for each in found]), max(each.residual for each in found), MOST_STEPS)


class Noise:
    """What is random of s runs.

    Args:
        s: how many.
        seed: words that no other runs have.
    """

    def __init__(self, s: int, seed: Sequence[int]) -> None:
        self.s, self._draws = s, np.random.default_rng(seed)

    def start(self, agent: int, d: int) -> Vector:
        """(d, s): of an algorithm that begins at random."""
        return self._draws.standard_normal((d, self.s))

    def of(self, setup: Setup, query: Query, t: int, agent: int) -> Vector:
        """(d, s): what is added to a query."""
        scale, shape = scale_of(setup, query), (len(query.value), self.s)
        match setup.experiment.privacy.mechanism if scale else "none":
            case "laplace":
                return scale * self._draws.laplace(size=shape)
            case "gaussian":
                return scale * self._draws.standard_normal(shape)
            case "gamma-norm":
                direction = self._draws.standard_normal(shape)
                length = self._draws.gamma(shape[0], scale, shape[1])
                return np.asarray(direction * (length / np.linalg.norm(direction, axis=0)))
        return np.zeros(shape)


def scale_of(setup: Setup, query: Query) -> float:
    """Of the noise, as the mechanisms have it."""
    if not setup.experiment.private:
        return 0.0
    if setup.experiment.privacy.mechanism == "gaussian":
        return float(query.calibration or 0.0)
    sensitivity = query.l1 if setup.experiment.privacy.mechanism == "laplace" else query.l2
    return (sensitivity if query.calibration is None else query.calibration) / setup.experiment.privacy.epsilon


class Said(NamedTuple):
    """What all agents say in a round.

    Attributes:
        released: by agent, (d, s).
        heard: by agent, the mix of what it hears, divided by its scale.
    """

    released: list[Vector]
    heard: list[Vector]


def said(setup: Setup, own: Sequence[Rows], noise: Noise) -> Iterator[Said]:
    """The rounds of s runs of an experiment, on each agent's own rows."""
    e, n, d = setup.experiment, setup.topology.agents, setup.dimension
    radius = float(e.problem.radius) if e.problem.set == "ball" else np.inf
    algorithm = replace(setup.algorithm, run=replace(setup.algorithm.run, feasible=Balls(radius)))
    drawn = algorithm.random_start
    starts = [noise.start(i, d) if drawn else np.zeros((d, noise.s)) for i in range(n)]
    losses = [_losses(rows, e.data["batch"], e.clip, e.problem.regularizer) for rows in own]
    states = [algorithm.init(start) for start in starts]
    mixed: list[Any] = [setup.mixing.init(i) for i in range(n)]
    inboxes: list[Inbox] = []
    for t in range(1, e.rounds + 1):
        places = [setup.topology.neighborhood(t, i) for i in range(n)]
        released = []
        for i, here in enumerate(places):
            message = algorithm.message(states[i], here)
            if isinstance(message, Start):
                released.append(starts[i])
            elif isinstance(message, Relay):
                released.append(inboxes[i].mix())
            elif isinstance(message, Solve):
                released.append(_solved(setup, message, losses[i](message.uses), noise, t, i))
            else:
                assert isinstance(message, Query)
                released.append(message.value + noise.of(setup, message, t, i))
        scalars = [np.array(setup.mixing.outgoing(mixed[i], here), float) for i, here in enumerate(places)]
        inboxes, heard = [], []
        for i, here in enumerate(places):
            incoming = [scalars[j] for j in here.senders]
            mixed[i], weights, scale = setup.mixing.weights(mixed[i], here, incoming)
            inbox = Inbox([released[j] for j in here.senders], weights, scale, released[i])
            states[i] = algorithm.update(states[i], here, inbox, losses[i](t))
            inboxes.append(inbox)
            heard.append(inbox.mix() / (scale if setup.mixing.__class__.__name__ == "PushSum" else 1.0))
        yield Said(released, heard)


def _losses(rows: Rows, batch: int | str, clip: float, regularizer: float) -> Callable[[int], Columns]:
    """By round; after the last batch the first again."""
    if batch == "all":
        whole = Columns(rows, clip, regularizer)
        return lambda t: whole
    size = int(batch)
    batches = [slice(k * size, (k + 1) * size) for k in range(len(rows.targets) // size)]
    made = [Columns(rows.at(batch), clip, regularizer) for batch in batches]
    return lambda t: made[(t - 1) % len(made)]


def _solved(setup: Setup, ask: Solve, loss: Columns, noise: Noise, t: int, agent: int) -> Vector:
    d = len(ask.center)
    query = Query(ask.center, d**0.5 * ask.l2, ask.l2, ask.uses, ask.leaks, ask.calibration)
    found = loss.prox(ask.center + noise.of(setup, query, t, agent), ask.step, ask.near, ask.tolerance)
    if found.residual > ask.tolerance:
        raise ArithmeticError(f"{setup.experiment.name}: a local problem is solved to {found.residual:g} alone")
    return found.x


# ------------------------------------------------------------------------------------------------------------- trials
class Priced(NamedTuple):
    """A trial at a budget, set up.

    Attributes:
        setup: with its noise.
        proven: ε of the network at δ; inf: there is no noise.
        bytes: of all frames on all links, and of the log2 n rounds more in which agents average what they said.
        seconds: of CPU that all its agents take together, in lockstep.
    """

    setup: Setup
    proven: float
    bytes: int
    seconds: float


def priced(asked: Tree, epsilon: float, agents: int, samples: int, where: str) -> Priced:
    """A trial of the study, by so many agents of so many samples each.

    Args:
        asked: the trial.
        epsilon: its budget; inf: without noise.
        agents: 1 has no neighbours.
        samples: of each.
        where: files of any such samples, with {agent} in the name: nothing that is found hangs on them.
    """
    topology = {"name": asked["topology"]["name"] if agents > 1 else "complete", "agents": agents}
    privacy = {k: v for k, v in asked.get("privacy", {}).items() if k != "budget"}
    privacy |= {"budget": {"epsilon": epsilon}} if np.isfinite(epsilon) else {"mechanism": "none"}
    trial = {k: v for k, v in asked.items() if k not in ("topology", "privacy", "design")}
    batch = asked["data"]["batch"]
    rounds = asked["rounds"] if batch == "all" else samples // batch + 1
    more = {"topology": topology, "privacy": privacy, "rounds": rounds, "data": {"file": where}}
    setup = set_up(merge(trial, more), None)
    begun = time.process_time()
    happened = events(setup)
    seconds = time.process_time() - begun
    proven = np.inf
    if np.isfinite(epsilon):
        accountant = Accountant(happened, groups(setup), shared=False)
        proven = accountant.losses(np.array([rounds]), setup.experiment.privacy.delta, None).network[0].epsilon
        if not proven <= epsilon * (1 + 1e-9):
            raise ArithmeticError(f"{setup.experiment.name}: proven {proven:g}, and its budget is {epsilon:g}")
    links = sum(len(setup.topology.neighborhood(1, i).out_neighbors) for i in range(agents))
    sent = (links * rounds + agents * (agents.bit_length() - 1)) * setup.frame_width * 8
    return Priced(setup, float(proven), sent, seconds)


# ------------------------------------------------------------------------------------------------------------- models
def models(setup: Setup, own: Sequence[Rows], noise: Noise) -> tuple[list[Vector], Vector | None]:
    """What is made of the releases of s runs, and what an online method lost on the way.

    Returns:
        Two models, each by agent and then (d, s): its last release, and the mean of its releases of the second half of
        the rounds; of dual methods their negative, of which the decision is a positive multiple. And (s,) the loss by
        round and agent of playing the mix of what is heard, in the set; None: the method is not online.
    """
    e = setup.experiment
    dual, online = e.algorithm["name"] == "dpps", e.data["batch"] != "all"
    ball, half = Balls(float(e.problem.radius) if e.problem.set == "ball" else np.inf), 2 + (e.rounds - 1) // 2
    losses = [_losses(rows, e.data["batch"], np.inf, 0.0) for rows in own] if online else []
    last: list[Vector] = []
    late: list[list[Vector]] = []
    lost = np.zeros(noise.s)
    for t, (released, heard) in enumerate(said(setup, own, noise), 1):
        last = released
        if t >= half:
            late.append(released)
        if online and t < e.rounds:
            for loss, point in zip(losses, heard, strict=True):
                played = ball.prox_step(point, setup.run.step(t)) if dual else ball.project(point)
                lost += np.asarray(loss(t).value(played))
    sign = -1.0 if dual else 1.0
    means = [sign * np.mean(each, axis=0) for each in zip(*late, strict=True)]
    return [np.array([sign * each for each in last]), np.array(means)], (
        lost / (len(own) * (e.rounds - 1)) if online else None
    )


def accuracy(model: Vector, rows: Rows) -> Vector:
    """(s,) of (d, s)."""
    return np.asarray(((rows.features @ model > 0) == (rows.targets > 0)[:, None]).mean(axis=0))


def best_within(rows: Rows, radius: float) -> Vector:
    """(d,) the minimizer of the mean loss in a ball: of the penalty that brings its norm down to the radius."""
    loss = Logistic(*rows, np.inf, False, float(len(rows.targets)), 0.0)
    low, high, x = 1e-9, 1.0, np.zeros(rows.features.shape[1])
    for _ in range(25):
        penalty = (low * high) ** 0.5
        x = loss.prox(np.zeros_like(x), 1 / penalty, x, 1e-9).x
        low, high = (penalty, high) if np.linalg.norm(x) > radius else (low, penalty)
        if abs(np.linalg.norm(x) - radius) < 1e-3 * radius:
            break
    return np.asarray(x)
