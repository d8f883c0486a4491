"""The contract of mechanisms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf
from typing import ClassVar

from mpinodes.core.events import Event
from mpinodes.core.messages import Query, Vector
from mpinodes.core.seeds import Draws


@dataclass(frozen=True, repr=False, eq=False)
class Mechanism(ABC):
    """Adds noise to a query.

    Attributes:
        epsilon: `privacy.epsilon`, by which the noise is divided; inf: no noise.
        constant: c of `privacy.scale`: the scale is c/epsilon whatever the sensitivity; None: calibrated.
        backend: `noise.backend`, the arithmetic of its noise, one of `backends`.
    """

    epsilon: float = inf
    constant: float | None = None
    backend: str = "numpy"

    takes_the_place_of: ClassVar[str] = "laplace"  # for a user's own: which one's calibrations it takes
    backends: ClassVar[tuple[str, ...]] = ("numpy",)

    @abstractmethod
    def release(self, query: Query, t: int, noise: Draws, out: Vector) -> Event:
        """Write the noised value to `out`: (d,), and say what was released; one draw serves every receiver.

        `query.calibration` says what the noise is calibrated to: for Laplace noise an L1 sensitivity (None: `l1`), for
        Gaussian noise its standard deviation, for gamma-norm noise the inverse of its rate (None: `l2`).

        Args:
            query: what is to be said.
            t: the round.
            noise: whose generator of round t is `noise.at(t)`; the only randomness there is.
            out: where the release is written.
        """
