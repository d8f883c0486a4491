"""Draw and add Laplace and Gaussian noise, by one of three backends (`noise.backend`): numpy, lattice or opendp.

- numpy (`plain`) adds floating-point numbers, and is for simulation only. The low bits of a floating-point sum reveal
  its terms (I. Mironov, "On Significance of the Least Significant Bits for Differential Privacy", 2012).
- lattice (`on_lattice`) rounds the value and the noise to multiples of a number g, and adds integers exactly.
- opendp (`by_opendp`) samples exactly, from a cryptographic generator that cannot be seeded.

With the value x and the noise e, the backend lattice releases

    g·(rint(x/g) + rint(e/g)) = g·rint((g·rint(x/g) + e)/g),

where rint rounds every coordinate to the nearest integer.

- The right side is a function of g·rint(x/g) + e, which is the rounded value plus exact continuous noise. So rounding
  the noise costs no privacy.
- Rounding the value increases its L1 sensitivity by at most d·g and its L2 sensitivity by at most √d·g. The privacy
  event of the release states this increase.
- If an entry of x is so large, relative to the noise, that the sum is not exact in double precision, the entry is first
  clamped. Clamping does not increase the distance of two values, so it costs no privacy. An error instead of clamping
  would reveal data.

The proof assumes a truly random generator, but numpy's generator is not cryptographic.
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

FINENESS = 20  # see `spacing`
REACH = 2.0**52  # entries are clamped to ±REACH·g; noise is at most 45 scales, so sums stay below 2^53·g


class Law(NamedTuple):
    """Hold the distribution of the noise: Laplace with a scale, or Gaussian with a standard deviation."""

    kind: Kind
    scale: float


Backend: TypeAlias = Callable[[Query, Law, int, Draws, Vector], Event]


def plain(query: Query, law: Law, t: int, noise: Draws, out: Vector) -> Event:
    """Write `query.value` plus floating-point noise to `out` (d,), and return the privacy event.

    The event states the noise and the sensitivity of the released value.
    """
    kind, scale = law
    drawn = noise.standard("laplace" if kind == Kind.LAPLACE else "standard_normal", t, out.shape[-1])
    drawn *= scale
    np.add(query.value, drawn, out)
    return Event.of(query, kind, scale)


def spacing(scale: float) -> float:
    """Return the spacing g of the lattice to which values and noise are rounded.

    The spacing is 2^-20 times the largest power of two that is at most the noise scale `scale`. Privacy accounting adds
    g/scale for each coordinate to the ε of a release with Laplace noise; g/scale is between 2^-21 and 2^-20.
    """
    # 2^-20 is a compromise: a coarser lattice costs more privacy, and a much finer lattice would need more than the 53
    # random bits of the generator. Rounding changes the probabilities of the noise by a relative error of about 2^-29.
    return ldexp(1.0, frexp(scale)[1] - 1 - FINENESS)


def on_lattice(query: Query, law: Law, t: int, noise: Draws, out: Vector) -> Event:
    """Write `query.value` plus noise to `out` (d,), both rounded to a lattice, and return the privacy event.

    The lattice consists of the multiples of g = `spacing(scale)`. Entries of the value are first clamped to ±`REACH`·g.
    The event has the noise, the sensitivity of `query.value`, and bounds on the increase of the sensitivity by
    rounding. If the scale is 0, the value is written as it is, and may be infinite or nan.

    Raises:
        Diverged: the scale is not 0, and an entry of the value is not finite.
    """
    if law.scale == 0:
        return plain(query, law, t, noise, out)
    g, draws = spacing(law.scale), noise.at(t)
    _require_finite(query, t, noise)
    point = np.rint(np.clip(query.value, -REACH * g, REACH * g) / g)
    if law.kind == Kind.LAPLACE:
        # The difference of two exponential draws is a Laplace draw. One draw by the inverse distribution function would
        # miss points of the lattice in the tail.
        drawn = draws.standard_exponential(out.shape)
        drawn -= draws.standard_exponential(out.shape)
    else:
        drawn = draws.standard_normal(out.shape)
    drawn *= law.scale / g
    np.rint(drawn, out=drawn)
    point += 0.0  # turns -0.0 into 0.0, because a negative zero reveals the sign of the value
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
    """Write `query.value` plus OpenDP's noise to `out` (d,), and return the privacy event (noise and sensitivity).

    OpenDP computes the sum exactly, and then rounds the sum to double precision. If the scale is 0, the value is
    written without noise.

    Raises:
        Diverged: the scale is not 0, and an entry of the value is not finite.
    """
    if law.scale == 0:
        return plain(query, law, t, noise, out)
    _require_finite(query, t, noise)  # because OpenDP replaces infinite values by finite ones
    out[:] = _measurement(law)(query.value.tolist())
    return Event.of(query, *law)


BACKENDS: dict[str, Backend] = {"numpy": plain, "lattice": on_lattice, "opendp": by_opendp}


@lru_cache
def backend(name: str) -> Backend:
    """Return the function that draws and adds noise, for a backend: "numpy", "lattice" or "opendp".

    Raises:
        BadInput: the backend is opendp, and opendp is not installed.
    """
    if name == "opendp":
        try:
            import opendp.prelude as dp
        except ImportError as error:
            raise BadInput(
                "noise.backend = 'opendp' needs the package opendp: pip install 'mpinodes[opendp]'"
            ) from error
        dp.enable_features("contrib")
    return BACKENDS[name]


class Additive(Mechanism):
    """Define the base class of mechanisms whose noise is drawn and added by a backend: numpy, lattice or opendp.

    Raises:
        BadInput: `noise.backend` is opendp, and opendp is not installed.
    """

    backends = tuple(BACKENDS)

    def __post_init__(self) -> None:
        backend(self.backend)  # fail here, not in round 1, if the backend is not installed
