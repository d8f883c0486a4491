"""The contract of constraint sets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from mpinodes.core.messages import Vector


class Set(ABC):
    """A closed convex set 𝒳, with its exact Euclidean projection."""

    bounded: ClassVar[bool] = True
    by_blocks: ClassVar[bool] = True  # whether an agent's block of the projection depends on that block alone

    @abstractmethod
    def diameter(self, d: int) -> float:
        """The largest ‖x − y‖₂ within 𝒳, over d coordinates of one agent; inf where it has none."""

    @abstractmethod
    def project(self, x: Vector) -> Vector:
        """Argmin over v in 𝒳 of ‖v − x‖₂: (d,) -> (d,)."""

    @abstractmethod
    def support(self, g: Vector) -> float:
        """Max over v in 𝒳 of ⟨g, v⟩; inf where it has none."""

    @abstractmethod
    def within(self, margin: float) -> Set:
        """Its points around which a ball of this radius, less than its own, lies in it; of R^d all."""

    def prox_step(self, z: Vector, alpha: float) -> Vector:
        """Π(z, α) = argmin over v in 𝒳 of ⟨z, v⟩ + ‖v‖²/(2α), which is P(−αz)."""
        return self.project(-alpha * z)
