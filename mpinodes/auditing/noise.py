"""The noise of a run, taken out of it again, against the law that its events name."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats

from mpinodes.auditing.statistics import signs_agree, two_sided
from mpinodes.auditing.transcripts import Replayed
from mpinodes.core import Kind, Vector

LAGS = 4  # rounds apart, for which draws are compared


class Check(NamedTuple):
    """One test of the noise.

    Attributes:
        name: of what was tested.
        p: how probable something as extreme is where all is as it should be, all comparisons of this test counted.
    """

    name: str
    p: float


class NoiseTests(NamedTuple):
    """All tests of the noise.

    Attributes:
        draws: how many numbers.
        ratio: their mean size over what it should be.
        checks: none where there is no noise.
    """

    draws: int
    ratio: float
    checks: list[Check]

    def fails(self, alpha: float) -> list[Check]:
        """Those that sound noise fails with probability alpha, all together."""
        return [check for check in self.checks if check.p * len(self.checks) < alpha]


def examine(replayed: list[Replayed]) -> NoiseTests:
    """Test the noise of all agents of a run."""
    kinds = {int(k) for agent in replayed for k in agent.kind[agent.scale > 0]}
    drawn = _standardized(replayed)
    used = np.isfinite(drawn)
    if not used.any():
        return NoiseTests(0, 1.0, [])
    if kinds <= {Kind.PURE, Kind.GAMMA_NORM}:
        ratio, checks = _radial(drawn)
    else:
        (kind,) = kinds  # an experiment has one mechanism
        ratio, checks = _by_coordinate(drawn, kind)
    independent = [Check(name, p) for name, p in _dependence(drawn).items()]
    return NoiseTests(int(used.sum()), ratio, [*checks, *independent])


def _standardized(replayed: list[Replayed]) -> Vector:
    """Noise over scale, (rounds, agents and vectors, d); nan where there is none."""
    each = []
    for agent in replayed:
        rounds, vectors = agent.scale.shape
        found = np.full((rounds, vectors, len(agent.said(1)) // vectors), np.nan)
        for t in range(1, rounds + 1):
            for vector, noise in enumerate(agent.drawn(t)):
                if noise is not None:
                    found[t - 1, vector] = noise / agent.scale[t - 1, vector]
        each.append(found)
    return np.concatenate(each, axis=1)


def _by_coordinate(drawn: Vector, kind: int) -> tuple[float, list[Check]]:
    """Of independent coordinates: the sum of their sizes, which has an exact law, and their own law."""
    columns = [c[np.isfinite(c)] for c in drawn.reshape(-1, drawn.shape[2]).T]
    flat = np.concatenate(columns)
    laplace = kind == Kind.LAPLACE
    law = stats.laplace if laplace else stats.norm
    total = float(2 * np.abs(flat).sum() if laplace else flat @ flat)
    freedom = 2 * len(flat) if laplace else len(flat)
    of_total = stats.chi2(freedom)
    each = [float(stats.kstest(c, law.cdf).pvalue) for c in columns]
    checks = [
        Check("scale", two_sided(total, of_total.cdf, of_total.sf)),
        Check("law", float(stats.kstest(flat, law.cdf).pvalue)),
        Check("law of each coordinate", min(1.0, min(each) * len(each))),
    ]
    ratio = total / freedom
    return (ratio if laplace else float(np.sqrt(ratio))), checks


def _radial(drawn: Vector) -> tuple[float, list[Check]]:
    """Of noise with a norm and a direction."""
    d = drawn.shape[2]
    vectors = drawn[np.isfinite(drawn).all(axis=2)]
    norms = np.sqrt(np.vecdot(vectors, vectors))
    total = float(norms.sum())
    of_total, of_norm = stats.gamma(d * len(norms)), stats.gamma(d)
    checks = [
        Check("scale", two_sided(total, of_total.cdf, of_total.sf)),
        Check("law of the norm", float(stats.kstest(norms, of_norm.cdf).pvalue)),
    ]
    if d > 1:
        # A coordinate of a uniform direction, moved to [0, 1].
        law = stats.beta((d - 1) / 2, (d - 1) / 2)
        each = [float(stats.kstest((c + 1) / 2, law.cdf).pvalue) for c in (vectors / norms[:, None]).T]
        checks.append(Check("law of the direction", min(1.0, min(each) * d)))
    return total / (d * len(norms)), checks


def _dependence(drawn: Vector) -> dict[str, float]:
    """Whether signs agree too often, or too seldom, between agents, rounds and coordinates.

    Signs of sound noise are fair and independent, so agreements are binomial.
    """
    signs, used = np.sign(np.nan_to_num(drawn)), np.isfinite(drawn).astype(float)
    rounds, agents, d = drawn.shape
    found = {}
    if agents > 1:
        upper = np.triu_indices(agents, 1)
        found["between agents"] = _worst(*(np.einsum("tid,tjd->ij", a, a)[upper] for a in (signs, used)))
    lags = range(1, min(LAGS, rounds - 1) + 1)
    if lags:
        pairs = [[np.einsum("tid,tjd->ij", a[:-lag], a[lag:]).ravel() for lag in lags] for a in (signs, used)]
        found["between rounds"] = _worst(*(np.concatenate(p) for p in pairs))
    if d > 1:
        found["between coordinates"] = _worst(*((a[:, :, 1:] * a[:, :, :-1]).sum(axis=(0, 1)) for a in (signs, used)))
    return found


def _worst(products: Vector, trials: Vector) -> float:
    """The least p-value, times how many there are."""
    asked = trials > 0
    p = signs_agree((products[asked] + trials[asked]) / 2, trials[asked])
    return float(min(1.0, p.min(initial=1.0) * len(p)))
