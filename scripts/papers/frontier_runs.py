"""The runs of the frontier: many seeds of the noise of one run side by side, as one run.

An agent's vectors are (s, d) here, a row for each of s seeds. Algorithms, mixings, sets and mechanisms are the
package's own; they accept such a leading axis of independent runs. Three parts are defined here. The first is the loop
over agents, which the package has for one seed (`rounds.step`). The second is a loss that computes all seeds by one
matrix product, because the package's losses take one run after the other, which takes four times as long. The third is
gamma-norm noise, which the package draws for one run. A test compares the messages with the package's, seed by seed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from frontier_data import Rows, Vector

from mpinodes.core.asked import Tree, merge
from mpinodes.core.messages import Inbox, Query, Relay, Solve, Solved, Start
from mpinodes.core.parts import ALL, Loss, Setup
from mpinodes.losses.logistic import Logistic
from mpinodes.mechanisms.gamma_norm import GammaNorm
from mpinodes.privacy.accountant import Accountant, groups
from mpinodes.running.budget import events
from mpinodes.running.setup import set_up

MOST_STEPS = 60


@dataclass(frozen=True)
class SeedsLoss(Loss):
    """Define the mean logistic loss of some samples plus (λ/2)‖x‖², at the points (s, d) of s seeds.

    Attributes:
        rows: the samples.
        clip: the largest norm of a sample's gradient.
        regularizer: λ.
    """

    rows: Rows
    clip: float
    regularizer: float

    @cached_property
    def _norms(self) -> Vector:
        return np.linalg.norm(self.rows.features, axis=1)

    def value(self, x: Vector) -> Any:
        """Return the losses (s,) of the points."""
        mean = Logistic.point(x @ self.rows.features.T, self.rows.targets).mean(axis=-1)
        return mean + 0.5 * self.regularizer * np.sum(x * x, axis=-1)

    def data_grad(self, x: Vector, block: slice = ALL) -> Vector:
        """Return the clipped mean gradients (s, d) of the samples."""
        slopes = Logistic.slope(x @ self.rows.features.T, self.rows.targets)
        if np.isfinite(self.clip):
            slopes *= self.clip / np.maximum(np.abs(slopes) * self._norms, self.clip)
        return np.asarray(slopes @ self.rows.features) / len(self.rows.targets)

    def grad(self, x: Vector, block: slice = ALL) -> Vector:
        """Return the gradients (s, d) of the loss with the regularizer."""
        gradient = self.data_grad(x)
        return gradient + self.regularizer * x if self.regularizer else gradient

    def prox(self, v: Vector, step: float, near: Vector, tolerance: float) -> Solved:
        """Minimize f(x) + ‖x − v‖²/(2·step) for each seed, by steps with one Hessian, the mean of the seeds' Hessians.

        If that does not reach `tolerance` in `MOST_STEPS` steps, the package's solver minimizes seed by seed.
        """
        x, features = near.copy(), self.rows.features
        norms = left = np.full(len(x), np.inf)
        inverse = None
        for k in range(MOST_STEPS):
            gradient = self.grad(x) + (x - v) / step
            norms = np.linalg.norm(gradient, axis=-1)
            if norms.max() <= tolerance:
                return Solved(x, float(norms.max()), k)
            if inverse is None or norms.max() > 0.2 * left.max():
                bend = Logistic.bend(x @ features.T, self.rows.targets).mean(axis=0) / len(features)
                second = (features * bend[:, None]).T @ features
                second.flat[:: len(second) + 1] += self.regularizer + 1 / step
                inverse = np.linalg.inv(second)
            left = norms
            x -= gradient @ inverse
        exact = Logistic(features, self.rows.targets, np.inf, False, float(len(features)), self.regularizer)
        solved = [exact.prox(center, step, start, tolerance) for center, start in zip(v, near, strict=True)]
        return Solved(np.array([run.x for run in solved]), max(run.residual for run in solved), MOST_STEPS)


class Noise:
    """Draw the random numbers of s seeds from one generator; mechanisms use this object like their `Draws`.

    Args:
        s: the number of seeds.
        seed: integers that no other set of runs has.
    """

    def __init__(self, s: int, seed: Sequence[int]) -> None:
        self.s, self._draws = s, np.random.default_rng(seed)

    def start(self, agent: int, d: int) -> Vector:
        """Return the starting points (s, d) of an algorithm that starts at random."""
        return self._draws.standard_normal((d, self.s)).T

    def standard(self, law: Literal["laplace", "standard_normal"], t: int, size: int) -> Vector:
        """Return random numbers (s, size) with location 0 and scale 1."""
        return np.ascontiguousarray(getattr(self._draws, law)(size=(size, self.s)).T)

    def release(self, setup: Setup, query: Query, t: int, agent: int) -> Vector:
        """Return the value of a query plus noise, (s, d)."""
        out = query.value.copy()
        if query.calibration == 0:  # no numbers are drawn
            return out
        if isinstance(setup.mechanism, GammaNorm):
            d, scale = out.shape[-1], (query.calibration or query.l2) / setup.mechanism.epsilon
            direction = self.standard("standard_normal", t, d)
            norms = self._draws.gamma(d, scale, self.s) / np.linalg.norm(direction, axis=-1)
            return np.asarray(out + direction * norms[:, None])
        setup.mechanism.release(query, t, self, out)  # type: ignore[arg-type]  # stands for the draws of one run
        return out


class Said(NamedTuple):
    """Hold what all agents send and receive in a round.

    Attributes:
        released: the release (s, d) of each agent.
        heard: the weighted sum (s, d) of the releases that each agent receives, divided by its scale.
    """

    released: list[Vector]
    heard: list[Vector]


def said(setup: Setup, own: Sequence[Rows], noise: Noise) -> Iterator[Said]:
    """Yield the rounds of s runs of an experiment, on the samples of each agent."""
    e, algorithm, n, d = setup.experiment, setup.algorithm, setup.topology.agents, setup.dimension
    starts = [noise.start(i, d) if algorithm.random_start else np.zeros((noise.s, d)) for i in range(n)]
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
                released.append(noise.release(setup, message, t, i))
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


def _losses(rows: Rows, batch: int | str, clip: float, regularizer: float) -> Callable[[int], SeedsLoss]:
    """By round; after the last batch the first again."""
    if batch == "all":
        whole = SeedsLoss(rows, clip, regularizer)
        return lambda t: whole
    size = int(batch)
    batches = [slice(k * size, (k + 1) * size) for k in range(len(rows.targets) // size)]
    made = [SeedsLoss(rows.at(batch), clip, regularizer) for batch in batches]
    return lambda t: made[(t - 1) % len(made)]


def _solved(setup: Setup, ask: Solve, loss: SeedsLoss, noise: Noise, t: int, agent: int) -> Vector:
    query = Query(ask.center, ask.center.shape[-1] ** 0.5 * ask.l2, ask.l2, ask.uses, ask.leaks, ask.calibration)
    solved = loss.prox(noise.release(setup, query, t, agent), ask.step, ask.near, ask.tolerance)
    if solved.residual > ask.tolerance:
        raise ArithmeticError(f"{setup.experiment.name}: a local problem is solved to {solved.residual:g} alone")
    return solved.x


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
        Two models, each by agent and then (s, d): its last release, and the mean of its releases of the second half of
        the rounds; of dual methods their negative, of which the decision is a positive multiple. And (s,) the loss by
        round and agent of playing the mix of what is heard, in the set; None: the method is not online.
    """
    e = setup.experiment
    dual, online = e.algorithm["name"] == "dpps", e.data["batch"] != "all"
    feasible, half = setup.run.feasible, 2 + (e.rounds - 1) // 2
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
                played = feasible.prox_step(point, setup.run.step(t)) if dual else feasible.project(point)
                lost += np.asarray(loss(t).value(played))
    sign = -1.0 if dual else 1.0
    means = [sign * np.mean(each, axis=0) for each in zip(*late, strict=True)]
    return [np.array([sign * each for each in last]), np.array(means)], (
        lost / (len(own) * (e.rounds - 1)) if online else None
    )


def accuracy(model: Vector, rows: Rows) -> Vector:
    """Return the accuracies (s,) of models (s, d)."""
    return np.asarray(((model @ rows.features.T > 0) == (rows.targets > 0)).mean(axis=-1))


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
