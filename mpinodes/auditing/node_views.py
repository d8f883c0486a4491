"""Define an adversary that consists of some agents, and sees only what these agents send and receive.

The agents of the adversary are the *viewers*. The adversary decides which data a run had by a linear statistic: a
weighted sum of all numbers that the viewers receive or send.

- If the most powerful linear statistic is known (see `best_test`): this statistic is used.
- Otherwise: the weights are learnt from separate runs, which are not used for the bound on ε.

Every statistic of what the viewers receive gives a valid lower bound on ε. The likelihood itself rarely has a closed
form, because it is an integral over all messages that the viewers do not receive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpinodes.auditing.transcripts import Replayed, Transcript
from mpinodes.core import Setup, Vector
from mpinodes.core.messages import HEADER
from mpinodes.privacy.curves import gdp_epsilon
from mpinodes.privacy.views import Relayed, coalition

LEARNT = 200  # number of runs on the run's data that estimate the noise
MOVED = 4  # number of runs on adjacent data that estimate how far received numbers move
RIDGE = 1e-3  # share of the mean variance added to every variance, because few runs leave some directions without any


@dataclass(frozen=True)
class Sight:
    """Compute the statistic of an adversary who sees only some links: a weighted sum of its numbers, minus `middle`.

    The adversary consists of agents, the viewers. A statistic below 0 suggests that the run had the adjacent data.

    Attributes:
        received: (rounds, agents) whether the viewers know the agent's message of the round, because a viewer receives
            or sends the message.
        weights: (m,) the weights of the m received numbers.
        middle: the mean of the two expected weighted sums, on the run's data and on adjacent data.
    """

    received: NDArray[np.bool_]
    weights: Vector
    middle: float

    def __call__(self, frames: Vector) -> float:
        """Return the weighted sum minus `middle` for the messages of a run.

        Args:
            frames: (rounds, agents, numbers of a message) the messages.
        """
        return float(_numbers(self.received, frames, len(self.weights)) @ self.weights) - self.middle


def received(setup: Setup, rounds: int) -> NDArray[np.bool_]:
    """Return, for each round and each sending agent, whether the adversary knows the message: (rounds, agents).

    The adversary consists of agents, the viewers. The viewers know all messages that they send. They also know all
    messages that are sent to them, even if a message is lost or arrives after the last round.
    """
    viewers, graph = list(setup.experiment.audit.viewers), setup.reached
    mask = np.array([graph.sends(t)[:, viewers].any(axis=1) for t in range(1, rounds + 1)])
    mask[:, viewers] = True
    return mask


def _numbers(received: NDArray[np.bool_], frames: Vector, count: int) -> Vector:
    """Return all numbers of the vectors that the adversary knows, one after the other: (count,).

    If the run ended early, the numbers of the missing rounds are 0, because the adversary sees when the run ends.

    Args:
        received: (rounds, agents) whether the adversary knows the message that the agent sent in the round.
        frames: (rounds, agents, numbers of a message) the messages of a run, perhaps of fewer rounds than `received`.
        count: how many numbers the adversary knows.
    """
    width = count // int(received.sum())
    if missing := len(received) - len(frames):
        frames = np.concatenate([frames, np.zeros((missing, *frames.shape[1:]))])
    return np.asarray(frames[received][:, HEADER : HEADER + width].ravel())


Simulated = Callable[[int], Transcript]  # seed -> the transcript of a simulated run


def learn(setup: Setup, own: Simulated, others: Sequence[Simulated], seeds: Sequence[int]) -> list[Sight]:
    """Return, for each adjacent data set, the linear statistic that best detects this data set.

    The weights of the statistics are estimated from simulated runs.

    Args:
        setup: the setup of the run.
        own: simulates the run on its data, from a seed.
        others: simulate the run on each adjacent data set, from a seed.
        seeds: the seeds of the runs on the run's data. The first `MOVED` seeds are also the seeds of the runs on each
            adjacent data set.
    """
    runs = [own(seed).frames for seed in seeds]
    mask = received(setup, setup.experiment.rounds)
    count = int(mask.sum()) * len(setup.algorithm.vectors) * setup.dimension
    numbers = np.array([_numbers(mask, frames, count) for frames in runs])
    mean = numbers.mean(axis=0)
    spread = (numbers - mean) / np.sqrt(len(numbers) - 1)
    ridge = max(RIDGE * float((spread**2).sum()) / count, 1e-300)
    inner = np.linalg.inv(np.eye(len(numbers)) + spread @ spread.T / ridge)
    sights = []
    for other in others:
        there = np.array([_numbers(mask, other(seed).frames, count) for seed in seeds[:MOVED]])
        moved = (numbers[:MOVED] - there).mean(axis=0)
        weights = moved / ridge - spread.T @ (inner @ (spread @ moved)) / ridge**2
        sights.append(Sight(mask, weights, float(weights @ (mean - moved / 2))))
    return sights


def best_test(own: Transcript, other: Transcript, victim: int) -> Sight | None:
    """Return a linear statistic of what the adversary receives, as powerful as the likelihood ratio; None if unknown.

    Such a statistic is known only if there is a round with three properties:

    - Before this round, no message depends on data.
    - In this round, every agent sends data with Gaussian noise.
    - After this round, every message is a mix of the messages of this round.

    Args:
        own: a run on the run's data.
        other: a run on adjacent data with the same noise.
        victim: the agent whose data differ.
    """
    setup, viewers = own.setup, own.setup.experiment.audit.viewers
    relayed = Relayed.of(setup, own.events)
    if relayed is None or own.events.uses[: relayed.start - 1].any() or not (own.events.uses > 0).any(axis=0).all():
        return None
    mask, n, first = received(setup, len(own.frames)), setup.topology.agents, relayed.start - 1
    mixes, rows = np.eye(n), []
    for t in range(first, len(own.frames)):
        rows.append(mixes[mask[t]])
        mixes = relayed.weights[t - first] @ mixes if t - first < len(relayed.weights) else mixes
    a = np.concatenate(rows)
    others = np.setdiff1d(np.arange(n), viewers)
    scaled = a[:, others] * relayed.scale[others]
    # Project the unit vector of the victim onto the span of the received mixes, without the viewers' coordinates.
    _, sizes, basis = np.linalg.svd(scaled, full_matrices=False)
    basis = basis[sizes > 1e-10 * sizes[0]]
    target = np.zeros(n)
    target[others] = basis.T @ basis[:, others.tolist().index(victim)] / relayed.scale[others]
    of_rows = np.linalg.lstsq(a.T, target, rcond=1e-13)[0]
    words = slice(HEADER, HEADER + setup.dimension)
    shift = (own.frames - other.frames)[first, victim, words]
    # The statistic is Σ_k target_k ⟨shift, y_k⟩, where y_k is agent k's value plus its noise.
    messages: list[Any] = [Replayed(own, k).messages[first] for k in others]
    mean = float(target[others] @ (np.array([message.value for message in messages]) @ shift))
    before = np.zeros(int(mask[:first].sum()) * setup.dimension)
    weights = np.concatenate([before, np.outer(of_rows, shift).ravel()])
    return Sight(mask, weights, mean - float(target[victim] * (shift @ shift)) / 2)


def proven_toward(setup: Setup, run: Transcript, victim: int) -> float | None:
    """Return the proven ε of an agent's data against an adversary that consists of other agents (the viewers).

    The ε is for the δ of the run. The result is None if no ε is proven for these viewers alone. An ε against an
    adversary who sees all links may still be proven.

    Args:
        setup: the setup of the run. `audit.viewers` names the viewers.
        run: the messages of the run.
        victim: the agent whose data are attacked.
    """
    losses = coalition(setup, run.events, setup.experiment.audit.viewers)
    if losses is None or not np.isfinite(losses[victim]):
        return None
    return gdp_epsilon(float(losses[victim]), setup.experiment.privacy.delta)
