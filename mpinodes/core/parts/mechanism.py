"""Define the contract of noise mechanisms."""

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
    """Add noise to a query.

    Attributes:
        epsilon: `privacy.epsilon`, by which the noise is divided; inf means no noise.
        constant: c of `privacy.scale`: the scale is c/epsilon for every sensitivity; None: the noise is calibrated.
        backend: `noise.backend`, the arithmetic of the noise; one of `backends`.
    """

    epsilon: float = inf
    constant: float | None = None
    backend: str = "numpy"

    # The built-in mechanism that a user's mechanism replaces: it accepts the same calibrations, in the same algorithms.
    takes_the_place_of: ClassVar[str] = "laplace"
    backends: ClassVar[tuple[str, ...]] = ("numpy",)
    scale_is: ClassVar[str] = ""  # what the scale of the noise is, if that has another name
    # Whether a release has a loss ε without δ, so that the scale of the noise is a constant over epsilon.
    pure: ClassVar[bool] = True

    @abstractmethod
    def release(self, query: Query, t: int, noise: Draws, out: Vector) -> Event:
        """Write the value of the query plus noise to `out` (d,), and return the event to account for.

        All receivers get the same draw. `query.calibration` is the number to which the noise is calibrated. For Laplace
        noise this is an L1 sensitivity (None: `l1`), for Gaussian noise the standard deviation, and for gamma-norm
        noise the inverse of the rate (None: `l2`).

        Args:
            query: the value, with its sensitivities.
            t: the round.
            noise: the source of randomness: `noise.at(t)` is the generator of round t. No other randomness is allowed.
            out: the array that receives the release.
        """
