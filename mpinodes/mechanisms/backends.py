"""The arithmetic of Laplace and Gaussian noise: the backends that `noise.backend` chooses from.

The low bits of a floating-point sum reveal its terms (I. Mironov, "On Significance of the Least Significant Bits for
Differential Privacy", 2012). So `plain` noise is for simulation only. `on_lattice` rounds the value and the noise to
multiples of g, and adds integers exactly:

    g·(rint(x/g) + rint(e/g)) = g·rint((g·rint(x/g) + e)/g).

Hence its release is a function of the continuous mechanism's release of the rounded value. Rounding increases the L1
and L2 sensitivities by at most d·g and √d·g, which the event states as its rounding. All this assumes that the
generator is random; numpy's generator is not cryptographic. Entries that are so large, relative to the scale, that
doubles cannot hold the sum exactly are clamped first. Clamping moves no two values apart, so it costs no privacy. An
error in its place would reveal data, and so would a log entry. `by_opendp` samples exactly, from a cryptographic
generator that cannot be seeded.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import frexp, ldexp
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from mpinodes.core import Diverged, Event, Kind, Mechanism, Query, Vector
from mpinodes.core.errors import BadInput
from mpinodes.core.seeds import Draws

FINENESS = 20
REACH = 2.0**52  # the clamp in multiples of g; with noise of at most 45 scales, sums stay below 2^53


class Law(NamedTuple):
    """The distribution of the noise: Laplace or Gaussian, and its scale or standard deviation."""

    kind: Kind
    scale: float


Backend: TypeAlias = Callable[[Query, Law, int, Draws, Vector], Event]


def plain(query: Query, law: Law, t: int, noise: Draws, out: Vector) -> Event:
    """Write `query.value` plus floating-point noise to `out` (d,), and return the event."""
    kind, scale = law
    drawn = noise.standard("laplace" if kind == Kind.LAPLACE else "standard_normal", t, len(out))
    drawn *= scale
    np.add(query.value, drawn, out)
    return Event.of(query, kind, scale)


def spacing(scale: float) -> float:
    """Return g: 2^-20 times the largest power of two that is at most the scale.

    A finer lattice costs less privacy, since a release pays g/scale for the rounding of each coordinate. A coarser
    lattice suits a generator of 53 random bits better. At 2^-20 the generator's error is about 2^-29 of a probability,
    far less than the 2^-21 or more that is paid for rounding.
    """
    return ldexp(1.0, frexp(scale)[1] - 1 - FINENESS)


def on_lattice(query: Query, law: Law, t: int, noise: Draws, out: Vector) -> Event:
    """Write `query.value` plus noise, both rounded to multiples of `spacing(scale)`, to `out` (d,); return the event.

    Raises:
        Diverged: an entry of the value is not finite.
    """
    if law.scale == 0:
        return plain(query, law, t, noise, out)
    g, draws = spacing(law.scale), noise.at(t)
    _require_finite(query, t, noise)
    point = np.rint(np.clip(query.value, -REACH * g, REACH * g) / g)
    if law.kind == Kind.LAPLACE:
        # A single draw by the inverse distribution function would miss lattice points in the tail.
        drawn = draws.standard_exponential(out.shape)
        drawn -= draws.standard_exponential(out.shape)
    else:
        drawn = draws.standard_normal(out.shape)
    drawn *= law.scale / g
    np.rint(drawn, out=drawn)
    point += 0.0  # a negative zero would reveal the sign of the value
    np.add(point, drawn, out=out)
    out *= g
    return Event.of(query, *law, lattice=g)


def _require_finite(query: Query, t: int, noise: Draws) -> None:
    if not np.isfinite(query.value).all():
        raise Diverged(f"round {t}: the message of agent {noise.agent} is not finite: the run diverges")


@lru_cache(maxsize=16)
def _measurement(law: Law) -> Any:
    import opendp.prelude as dp

    vectors = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    if law.kind == Kind.LAPLACE:
        return dp.m.make_laplace(vectors, dp.l1_distance(T=float), scale=law.scale)
    return dp.m.make_gaussian(vectors, dp.l2_distance(T=float), scale=law.scale)


def by_opendp(query: Query, law: Law, t: int, noise: Draws, out: Vector) -> Event:
    """Write `query.value` plus OpenDP's noise to `out` (d,), and return the event.

    The sum is exact before rounding to doubles.
    """
    if law.scale == 0:
        return plain(query, law, t, noise, out)
    _require_finite(query, t, noise)  # because OpenDP replaces infinite values by finite ones
    out[:] = _measurement(law)(query.value.tolist())
    return Event.of(query, *law)


BACKENDS: dict[str, Backend] = {"numpy": plain, "lattice": on_lattice, "opendp": by_opendp}


@lru_cache
def backend(name: str) -> Backend:
    """Return the backend with this name.

    Raises:
        BadInput: the name is opendp, and opendp is not installed.
    """
    if name == "opendp":
        try:
            import opendp.prelude as dp
        except ImportError as error:
            raise BadInput(
                "noise.backend = 'opendp': opendp is not installed; pip install 'mpinodes[opendp]'"
            ) from error
        dp.enable_features("contrib")
    return BACKENDS[name]


class Additive(Mechanism):
    """Define a mechanism whose noise a backend draws and adds."""

    backends = tuple(BACKENDS)

    def __post_init__(self) -> None:
        backend(self.backend)  # fail here, not in round 1, if the backend is not installed

    def draw(self, query: Query, law: Law, t: int, noise: Draws, out: Vector) -> Event:
        """Write `query.value` plus noise of a law to `out` (d,), and return the event."""
        return backend(self.backend)(query, law, t, noise, out)
