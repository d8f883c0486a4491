"""DPSDA: differentially private distributed online dual averaging, the framework.

H. Cheng, X. Liao, H. Li, "Distributed Online Private Learning of Convex Nondecomposable Objectives",
Protocol 1. Every agent sees the loss f^t but owns only the block B_i of the d coordinates; S_i puts a
block into R^d. The state of round t, z_i(t) and y_i(t), is the paper's of index t − 1:

    (4)  m_i    = z_i + η_i,  η_i ~ Lap(σ)                            the release
    (14) u_i    = [∇f^t(y_i)]_{B_i} + ξ_i                             clipped to L̂, at the old y_i
    (5)  z_i   <- 𝒜_i(ℬ_i) + (1/r_i) S_i u_i,  r_i = 1/n (Remark 3)   ℬ_i: what arrived, own release included
    (6)  y_i   <- Π(𝒞_i(z_i), α(t))
         x_i    = (y_i)_{B_i}                                         the decision

An instance chooses the mixing, 𝒜 and 𝒞. Sensitivity of (4), Lemma 1 and Remark 5: given all releases so
far only the block u_i differs, by at most 2L̂ in L2, so 2nL̂ in L2 and 2n√d_i·L̂ in L1. Two differences
from the paper: L̂ is enforced by clipping, not assumed in the mean, and y_i stays hidden, so that a changed
f^t moves every later release too; the accountant charges them all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from mpinodes.protocol import Inbox, Loss, Query, Round, Vector
from mpinodes.schedules import Step
from mpinodes.sets import Set


@dataclass(frozen=True, slots=True)
class State:
    """What the next round needs."""

    z: Vector  # (d,) dual
    y: Vector  # (d,) primal estimate


@dataclass(frozen=True)
class DPSDA(ABC):
    """Protocol 1."""

    agents: int  # n
    blocks: Sequence[slice]  # B_i
    step: Step  # α
    feasible: Set  # 𝒳
    change: float  # 2L̂: largest L2 change of u_i between adjacent data sets

    @abstractmethod
    def average(self, inbox: Inbox) -> Vector:
        """𝒜_i(ℬ_i) of (5): a new (d,) vector."""

    @abstractmethod
    def unbias(self, z: Vector, inbox: Inbox) -> Vector:
        """𝒞_i(z_i) of (6)."""

    def init(self, x: Vector) -> State:
        """z_i = 0 and y_i = Π(0, ·), the least element of ψ = ½‖·‖² in 𝒳."""
        zero = np.zeros_like(x)
        return State(z=zero, y=self.feasible.project(zero))

    def message(self, s: State, round: Round) -> Query:
        """(4). The first message carries noise too, as printed, though it holds no data."""
        block = self.blocks[round.me]
        l2 = self.agents * self.change
        uses = () if round.t == 1 else (round.t - 1,)
        return Query(s.z, l1=sqrt(block.stop - block.start) * l2, l2=l2, uses=uses)

    def update(self, s: State, round: Round, inbox: Inbox, loss: Loss) -> State:
        """(5) and (6)."""
        block = self.blocks[round.me]
        u = loss.grad(s.y, block)
        z = self.average(inbox)
        z[block] += self.agents * u
        y = self.feasible.prox_step(self.unbias(z, inbox), self.step(round.t))
        return State(z, y)

    def decision(self, s: State) -> Vector:
        """y_i: the agent commits to the block B_i of it."""
        return s.y

    @staticmethod
    def claim(epsilon: float, rounds: int) -> float:
        """The paper's ε for `rounds` rounds (Theorems 2 and 4): ε a round, per agent and for all of them."""
        return rounds * epsilon
