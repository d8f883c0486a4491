"""Define the base class of noise mechanisms."""

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
    """Add noise to a vector that an algorithm wants to send, or to a gradient.

    Attributes:
        epsilon: `privacy.epsilon`, to which the scale of Laplace and gamma-norm noise is inversely proportional;
            inf means no noise.
        constant: c if `privacy.scale` is a number c; the scale of the noise is then c/epsilon for every sensitivity.
            None: the noise is calibrated to the sensitivity or calibration of the vector.
        backend: `noise.backend`, the arithmetic of the noise; one of `backends`.
    """

    epsilon: float = inf
    constant: float | None = None
    backend: str = "numpy"

    # The built-in mechanism that this mechanism replaces, if a user wrote it: both accept the same calibrations, and
    # the same algorithms can use both.
    takes_the_place_of: ClassVar[str] = "laplace"
    backends: ClassVar[tuple[str, ...]] = ("numpy",)
    scale_is: ClassVar[str] = ""  # the usual name of the scale of the noise, if it is not "scale"
    # Whether a release is ε-DP with δ = 0, so that the scale of the noise is a constant divided by epsilon.
    pure: ClassVar[bool] = True

    @abstractmethod
    def release(self, query: Query, t: int, noise: Draws, out: Vector) -> Event:
        """Write a vector plus noise to `out`, and return an `Event` that describes this release for privacy accounting.

        All receivers get the same release. If `constant` is None, the noise is calibrated to `query.calibration`:

        - For Laplace noise the scale is the calibration divided by epsilon; None means the sensitivity `query.l1`.
        - For gamma-norm noise the scale is the calibration divided by epsilon; None means the sensitivity `query.l2`.
        - For Gaussian noise the standard deviation is the calibration; None is an error.

        Args:
            query: the vector, with its sensitivities.
            t: the round.
            noise: the only allowed source of randomness; `noise.at(t)` is the generator of round t.
            out: (d,) the array to which the release is written.
        """
