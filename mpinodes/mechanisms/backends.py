"""The arithmetic of Laplace and Gaussian noise: the backends that `noise.backend` chooses from.

The sum of two floating-point numbers shows in its low bits what was added (I. Mironov, "On Significance of the Least
Significant Bits for Differential Privacy", 2012): `plain` noise is good for simulation alone. `on_lattice` rounds the
value and the noise to multiples of g and adds integers, exactly:

    g·(rint(x/g) + rint(e/g)) = g·rint((g·rint(x/g) + e)/g).

So it is made of the continuous mechanism's release of the rounded value, whose L1 and L2 sensitivities are larger by at
most d·g and √d·g, the rounding of its event; as far as the generator, which is no cryptographic one, is random. Entries
so large beside the scale that doubles cannot hold the sum exactly are clamped before: that moves no two values apart,
so it costs nothing, where to refuse them would tell of the data. It is noted nowhere.
`by_opendp` samples exactly, from a cryptographic one that cannot be seeded.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from math import frexp, ldexp
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from mpinodes.core import Diverged, Event, Kind, Mechanism, Query, Vector
from mpinodes.core.errors import BadInput
from mpinodes.core.seeds import Draws

FINENESS = 20
_LAPLACE = Kind.LAPLACE
REACH = 2.0**52  # to which entries are clamped, in multiples of g: with noise, at most 45 scales, they stay below 2^53


class Law(NamedTuple):
    """Of the noise: Laplace or Gaussian, and its scale or standard deviation."""

    kind: Kind
    scale: float


Backend: TypeAlias = Callable[[Query, Law, int, Draws, Vector], Event]


def plain(query: Query, law: Law, t: int, noise: Draws, out: Vector) -> Event:
    """`query.value` plus floating-point noise, into `out`: (d,)."""
    kind, scale = law
    drawn = noise.standard("laplace" if kind == _LAPLACE else "standard_normal", t, len(out))
    drawn *= scale
    np.add(query.value, drawn, out)
    return Event.of(query, kind, scale)


def spacing(scale: float) -> float:
    """g: 2^-20 times the largest power of two that is at most the scale.

    A finer lattice is cheaper, for a release pays g/scale a coordinate for rounding; but noise of 53 random bits fills
    a coarser one better. At 2^-20 the latter is wrong by about 2^-29 of a probability, far less than the 2^-21 or more
    that is paid.
    """
    return ldexp(1.0, frexp(scale)[1] - 1 - FINENESS)


def on_lattice(query: Query, law: Law, t: int, noise: Draws, out: Vector) -> Event:
    """`query.value` plus noise, both rounded to multiples of `spacing(scale)`, into `out`: (d,).

    Raises:
        Diverged: an entry is not finite.
    """
    if law.scale == 0:
        return plain(query, law, t, noise, out)
    g, draws = spacing(law.scale), noise.at(t)
    _require_finite(query, t, noise)
    point = np.rint(np.clip(query.value, -REACH * g, REACH * g) / g)
    if law.kind == Kind.LAPLACE:
        # Not one draw by the inverse distribution function, whose tail leaves points of the lattice out.
        drawn = draws.standard_exponential(out.shape)
        drawn -= draws.standard_exponential(out.shape)
    else:
        drawn = draws.standard_normal(out.shape)
    drawn *= law.scale / g
    np.rint(drawn, out=drawn)
    point += 0.0  # a negative zero would tell a value's sign
    np.add(point, drawn, out=out)
    out *= g
    return Event.of(query, *law, lattice=g)


def _require_finite(query: Query, t: int, noise: Draws) -> None:
    if not np.isfinite(query.value).all():
        raise Diverged(f"round {t}: what agent {noise.agent} says is not finite: the run diverges")


@lru_cache(maxsize=16)
def _measurement(law: Law) -> Any:
    import opendp.prelude as dp

    vectors = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    if law.kind == Kind.LAPLACE:
        return dp.m.make_laplace(vectors, dp.l1_distance(T=float), scale=law.scale)
    return dp.m.make_gaussian(vectors, dp.l2_distance(T=float), scale=law.scale)


def by_opendp(query: Query, law: Law, t: int, noise: Draws, out: Vector) -> Event:
    """`query.value` plus OpenDP's noise, exact before it is rounded to doubles, into `out`: (d,)."""
    if law.scale == 0:
        return plain(query, law, t, noise, out)
    _require_finite(query, t, noise)  # for OpenDP would make it so
    out[:] = _measurement(law)(query.value.tolist())
    return Event.of(query, *law)


BACKENDS: dict[str, Backend] = {"numpy": plain, "lattice": on_lattice, "opendp": by_opendp}


@lru_cache
def backend(name: str) -> Backend:
    """The backend of a name.

    Raises:
        BadInput: it is opendp, which is not installed.
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
    """A mechanism whose noise a backend draws and adds."""

    backends = tuple(BACKENDS)

    def __post_init__(self) -> None:
        backend(self.backend)  # which may not be installed

    @cached_property
    def _draw(self) -> Backend:
        return backend(self.backend)
