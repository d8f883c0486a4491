"""Noise, extracted from messages and transformed to one law: fair signs, and sizes that are exponential with mean 1.

A coordinate of Laplace noise divided by its scale already has this law. For Gaussian noise the size is −ln P(|N| ≥
|z|). For noise that has a norm and a direction, the norm, Gamma(d), is first mapped to the norm of d independent normal
numbers. All these maps are exact, so tests of signs and sizes are exact for every law.

Messages are known to rounding only: `slack` bounds how far rounding may have moved a size.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from mpinodes.auditing.transcripts import Replayed, Transcript, clean_vectors, fresh_seed, reseeded
from mpinodes.core import Kind, Queries, Query, Solve, Vector
from mpinodes.rounds.step import Releaser

RELEASES, DRAWS = 30_000, 150_000  # drawn again, at most
ROUNDS = 256  # noise is drawn again for at least so many rounds
LEAST_SHARE = 0.2  # more rounds make up for a share of messages with noise down to this
EPSILON = 2.0**-52
COARSE = 2.0**-48  # relative error of sizes: a few bits more than generators and logarithms lose
RADIAL = (Kind.PURE, Kind.GAMMA_NORM)  # laws of noise that draw a norm and a direction


class NoiseDraws(NamedTuple):
    """The noise of one or several runs: R runs of T rounds, n agents, k vectors of d coordinates.

    Attributes:
        signs: (R, T, n, k, d) −1 or 1; 0 if there is no noise or its sign is lost to rounding.
        sizes: (R, T, n, k, d) exponential with mean 1; nan if there is no noise.
        slack: (R, T, n, k, d) how far rounding may have moved a size.
        totals: (R, T, n, k) by vector, a sum whose law depends on the scale; nan if there is no noise.
        freedom: (R, T, n, k) the degrees of freedom of the sum's chi-squared law.
        linear: whether totals grow in proportion to the scale, not to its square.
        clean: (1 or R, T, n, k, d) the signs of the values to which the noise was added.
        broken: how many numbers sent are not finite.
    """

    signs: Vector
    sizes: Vector
    slack: Vector
    totals: Vector
    freedom: Vector
    linear: bool
    clean: Vector
    broken: int

    @property
    def number(self) -> int:
        """Return the number of draws."""
        return int(np.isfinite(self.sizes).sum())

    @property
    def ratio(self) -> float:
        """Return the noise's measured scale divided by its stated scale."""
        ratio = float(np.nansum(self.totals) / self.freedom[np.isfinite(self.totals)].sum())
        return ratio if self.linear else float(np.sqrt(ratio))


class Raw(NamedTuple):
    """Extracted noise, its rounding error and the values noised (R, T, n, k, d), with scale and kind (R, T, n, k).

    The kind is `CLEAN` if there is no noise or it cannot be extracted.
    """

    noise: Vector
    rounding: Vector
    value: Vector
    scale: Vector
    kind: Vector


def drawn_in(run: Transcript, agents: list[Replayed]) -> NoiseDraws:
    """Extract the noise of a run."""
    rounds, n, k, d = len(run.frames), len(agents), run.events.vectors, run.setup.dimension
    noise, rounding, value = (np.zeros((1, rounds, n, k, d)) for _ in range(3))
    places = [agent.agent for agent in agents]
    scale, kind = run.events.scale[None, :, places].copy(), run.events.kind[None, :, places].copy()
    lattice = run.events.event("rounding_l1") / d
    for i, agent in enumerate(agents):
        for t, message in enumerate(agent.messages, 1):
            releases = np.split(agent.said(t), k)
            for part, (drawn, release) in enumerate(zip(agent.drawn(t), releases, strict=True)):
                place = 0, t - 1, i, part
                if drawn is None:
                    kind[place] = Kind.CLEAN
                    continue
                noise[place], value[place] = drawn, release - drawn
                rounding[place] = lattice[t - 1, agent.agent, part] + EPSILON * (np.abs(release) + np.abs(value[place]))
                if isinstance(message, Solve):  # a minimizer depends on its center's noise: the center is noised
                    value[place] = message.center
                    rounding[place] += message.step * message.tolerance
    return standardized(Raw(noise, rounding, value, scale, kind))


def drawn_again(run: Transcript, agents: list[Replayed], seed: int) -> NoiseDraws:
    """Draw the noise of the run's messages many times more, with other keys, by the run's own mechanism and settings.

    At least `ROUNDS` rounds are drawn. If the run was shorter, its messages are released again in later rounds.
    """
    recorded, n, k, d = len(run.frames), len(agents), run.events.vectors, run.setup.dimension
    noised = np.asarray((run.events.scale > 0).any(axis=2))
    most = max(2 * n, int(min(RELEASES, DRAWS // (k * d)) / max(LEAST_SHARE, noised.mean())))
    last = max(recorded, ROUNDS)
    chosen = np.unique(np.linspace(1, last, min(last, max(2, most // n))).round().astype(np.int64))
    runs = max(1, most // (n * len(chosen)))
    shape = (runs, len(chosen), n, k, d)
    noise, rounding, scale, kind = np.full(shape, np.nan), np.zeros(shape), np.zeros(shape[:4]), np.zeros(shape[:4])
    value = np.zeros((1, *shape[1:]))
    out = np.empty(k * d)
    for r in range(runs):
        setup = reseeded(run.setup, fresh_seed(seed, r, 3))
        for i, agent in enumerate(agents):
            releaser = Releaser(setup, agent.agent, run.setup.losses(agent.agent))
            for place, t in enumerate(chosen.tolist()):
                source = (t - 1) % recorded
                message = agent.messages[source]
                if isinstance(message, Solve):  # the mechanism noises the center
                    l1, leaks = np.sqrt(d) * message.l2, message.leaks
                    message = Query(message.center, l1, message.l2, message.uses, leaks, message.calibration)
                if not noised[source, agent.agent] or not isinstance(message, (Query, Queries)):
                    continue
                events, _ = releaser.release(message, t, None, out)
                noise[r, place, i], value[0, place, i] = out.reshape(k, d), clean_vectors(message)
                for part, event in enumerate(events):
                    scale[r, place, i, part], kind[r, place, i, part] = event.scale, event.kind
                    rounding[r, place, i, part] = event.rounding_l1 / d
    rounding += EPSILON * (np.abs(noise) + np.abs(value))
    noise -= value
    return standardized(Raw(noise, rounding, value, scale, kind))


def standardized(raw: Raw) -> NoiseDraws:
    """Transform extracted noise to signs and sizes."""
    there = (raw.scale > 0) & (raw.kind != Kind.CLEAN)
    d = raw.noise.shape[-1]
    with np.errstate(all="ignore"):
        scale = np.where(there, raw.scale, np.nan)
        scaled, lost = raw.noise / scale[..., None], raw.rounding / scale[..., None]
        broken = there[..., None] & ~np.isfinite(scaled)
        scaled[broken.any(axis=-1)] = np.nan
        totals, freedom = np.full(raw.scale.shape, np.nan), np.full(raw.scale.shape, float(d))
        normal = scaled.copy()
        for law in np.unique(raw.kind[there]):
            mine = there & (raw.kind == law)
            if law == Kind.GAUSSIAN:
                totals[mine] = np.vecdot(scaled[mine], scaled[mine])
                continue
            norms = np.abs(scaled[mine]).sum(axis=-1) if law == Kind.LAPLACE else np.linalg.norm(scaled[mine], axis=-1)
            totals[mine], freedom[mine] = 2 * norms, 2 * d
            if law in RADIAL:  # map norms of law Gamma(d) to norms of d normal numbers, by equal probabilities
                low, high = special.gammainc(d, norms), special.gammaincc(d, norms)
                squares = np.where(low < 0.5, special.gammaincinv(d / 2, low), special.gammainccinv(d / 2, high))
                normal[mine] *= np.where(norms > 0, np.sqrt(2 * squares) / norms, 0.0)[:, None]
        laplace = (raw.kind == Kind.LAPLACE)[..., None]
        sizes = np.where(laplace, np.abs(scaled), -np.log(2) - special.log_ndtr(-np.abs(normal)))
        # The derivative of a size in |z| is the hazard rate, at most |z| + 1.
        slack = (1 + np.abs(normal)) * np.where(np.isin(raw.kind, RADIAL)[..., None], 4 * np.sqrt(d), 1.0) * lost
        slack = np.where(np.isfinite(sizes), slack + COARSE * (1 + sizes), 0.0)
        signs = np.where(sizes > slack, np.sign(scaled), 0.0)
    linear = not (raw.kind[there] == Kind.GAUSSIAN).any()
    clean = np.nan_to_num(np.sign(raw.value))
    return NoiseDraws(signs, np.maximum(sizes, 0.0), slack, totals, freedom, linear, clean, int(broken.sum()))
