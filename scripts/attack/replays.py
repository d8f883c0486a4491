"""Measure by replay how far the messages of a run move between two data sets.

The agents of a recorded run are replayed on their own data and on other data against the same releases. Everything that
was sent is then equal, and the difference of each clean message is what its noise has to hide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from mpinodes.auditing.transcripts import Replayed, Transcript
from mpinodes.config.building import build
from mpinodes.core import Queries, Query, Setup, Solve
from mpinodes.core.events import Kind

Json = dict[str, Any]
Vector = NDArray[np.float64]

ROUNDING = 1e-12  # how far rounding may move a coordinate of a message, relative to the largest coordinate


@dataclass
class Result:
    """The outcome of the attack on one set-up.

    Attributes:
        title: of the set-up.
        status: "proven", "unproven", "refused" or "crash".
        sets: adjacent data sets that were tried.
        ratio: the largest of realised to printed.
        words: how that ratio came about, or why there is no number.
    """

    title: str
    status: str
    sets: int = 0
    ratio: float = 0.0
    words: str = ""

    def see(self, realised: float, printed: float, words: str) -> None:
        """Keep the ratio of two numbers if it is the largest; a realised number that is NaN counts as infinite."""
        realised = np.inf if np.isnan(realised) else realised
        ratio = realised / printed if printed > 0 else (np.inf if realised > 1e-9 else 0.0)
        if ratio > self.ratio:
            self.ratio, self.words = ratio, f"{words}: realised {realised:.6g}, printed {printed:.6g}"


class Realised(NamedTuple):
    """Sums over an agent's messages.

    Attributes:
        loss: Σ (L1 change)/scale for Laplace noise, Σ (L2 change)/scale for gamma-norm noise, and the absolute
            log-likelihood ratio of a minimizer with noise inside.
        ratio: the log-likelihood ratio of everything that was sent, without Gaussian noise.
        squares: Σ (L2 change / standard deviation)² for Gaussian noise.
    """

    loss: float
    ratio: float
    squares: float


EVERYTHING = (np.inf, np.inf, np.inf)  # of a message that differs and carries no noise


def vectors(message: Any) -> list[Vector]:
    """Return the clean vectors of a message: none unless the message is a query."""
    if isinstance(message, Queries):
        return [payload.value for payload in message.vectors.values()]
    return [message.value] if isinstance(message, Query) else []


def stated(message: Any) -> Any:
    """Return the public numbers that a message states, which may not differ between data sets."""
    if isinstance(message, Query):
        return message.l1, message.l2, message.uses, message.calibration, message.leaks
    if isinstance(message, Queries):
        return [(p.l1, p.l2, p.calibration) for p in message.vectors.values()], message.uses, message.leaks
    return type(message).__name__


def log_density(x: Vector, ask: Solve, loss: Any, scale: float) -> float:
    """Return the log-density of a minimizer x with gamma-norm noise inside, up to a constant."""
    noise = x + ask.step * loss.grad(x) - ask.center
    _, volume = np.linalg.slogdet(np.eye(len(x)) + ask.step * loss.hessian(x))
    return float(-np.linalg.norm(noise) / scale + volume)


def solve_differences(own: Replayed, other: Replayed, t: int) -> tuple[float, float, float]:
    """Return the log-likelihood ratio of a minimizer: the largest over several possible releases, and the real one.

    A pure epsilon bounds the ratio at every possible release, so at the samples too, where curvatures are largest.
    """
    asks, scale = (own.messages[t - 1], other.messages[t - 1]), float(own.scale[t - 1, 0])
    if not scale > 0:
        return EVERYTHING
    mine, theirs = (replay._own(ask.uses) for replay, ask in zip((own, other), asks, strict=True))
    changed = (mine.features != theirs.features).any(axis=1)
    points = [own.said(t), *mine.features[changed][:2], *theirs.features[changed][:2]]
    ratios = [log_density(x, asks[0], mine, scale) - log_density(x, asks[1], theirs, scale) for x in points]
    return max(map(abs, ratios)), ratios[0], 0.0


def differences(own: Replayed, other: Replayed, t: int) -> tuple[float, float, float]:
    """Return what the message of round t adds to the three sums of `Realised`."""
    message, moved = own.messages[t - 1], other.messages[t - 1]
    if isinstance(message, Solve) and isinstance(moved, Solve):
        return solve_differences(own, other, t)
    if stated(message) != stated(moved):
        return EVERYTHING
    loss, ratio, squares = 0.0, 0.0, 0.0
    releases = np.split(own.said(t), own.scale.shape[1])
    rows = zip(vectors(message), vectors(moved), releases, own.kind[t - 1], own.scale[t - 1], strict=False)
    for a, b, release, kind, scale in rows:
        room = ROUNDING * max(1.0, float(np.abs(a).max()))
        l1 = max(0.0, float(np.abs(a - b).sum()) - room * len(a))
        l2 = max(0.0, float(np.linalg.norm(a - b)) - room * np.sqrt(len(a)))
        if l1 > 0 and not scale > 0:
            return EVERYTHING
        if l1 > 0 and kind == Kind.GAUSSIAN:
            squares += (l2 / scale) ** 2
        elif l1 > 0 and kind == Kind.LAPLACE:
            loss += l1 / scale
            ratio += float((np.abs(release - b) - np.abs(release - a)).sum()) / scale
        elif l1 > 0:
            loss += l2 / scale
            ratio += float(np.linalg.norm(release - b) - np.linalg.norm(release - a)) / scale
    return loss, ratio, squares


def realised(own: Replayed, setup: Setup, recorded: Transcript) -> Realised:
    """Replay an agent in another set-up, which is of other data; return by how much its messages differ."""
    other = Replayed(Transcript(setup, recorded.frames, recorded.events), own.agent)
    rows = [differences(own, other, t) for t in range(1, len(own.messages) + 1)]
    return Realised(*(float(total) for total in np.sum(rows, axis=0)))


def on_other_data(setup: Setup, key: str, value: str) -> Setup:
    """Return the set-up of the same experiment with another value of a key of its data section."""
    return build(msgspec.structs.replace(setup.experiment, data={**setup.experiment.data, key: value}))
