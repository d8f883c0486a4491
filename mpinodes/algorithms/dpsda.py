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
far only the block u_i differs, by at most 2L̂ in L2, so 2nL̂ in L2 and 2n√d_i·L̂ in L1; L̂ is enforced by
clipping, not assumed in the mean. As printed, u_i is taken at the hidden y_i: what a changed f^t did to y_i
moves every later u_i too, which the paper's proof leaves out. If the gradient is G-Lipschitz, a change δ of
z_i moves y_i by at most δ·α/w_i, and so the next release by n·G·α/w_i·δ. With gradient_at = "public", u_i is
taken at Π(𝒞_i(𝒜_i(ℬ_i)), α), which is made of releases alone, and f^t moves one release only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import ClassVar, Literal

import numpy as np

from mpinodes.core.protocol import Inbox, Loss, Query, Round, Vector
from mpinodes.core.schedules import Step
from mpinodes.core.sets import Set


@dataclass(frozen=True, slots=True)
class State:
    """What the next round needs."""

    z: Vector  # (d,) dual
    y: Vector  # (d,) primal estimate
    point: Vector  # (d,) where the next gradient is taken
    pull: float  # α/w_i: how far y_i moves at most when z_i moves by 1
    pulled: float  # the same of the y_i before, at which the gradient in z_i was taken; 0: at none


@dataclass(frozen=True)
class DPSDA(ABC):
    """Protocol 1."""

    agents: int  # n
    blocks: Sequence[slice]  # B_i
    step: Step  # α
    feasible: Set  # 𝒳
    change: Sequence[float]  # by agent, 2L̂: largest L2 change of u_i between adjacent data sets, at one point
    spread: Sequence[float]  # by agent, largest L2 change of u_i between two points, on the same data
    smoothness: Sequence[float]  # G by agent: L2 change of u_i per L2 change of y_i; inf = unknown
    regularizer: float  # λ of the loss's (λ/2)‖x‖²; no part of spread and smoothness
    gradient_at: Literal["hidden", "public"] = "hidden"

    decomposable: ClassVar[bool] = False
    theorem: ClassVar[str] = "dpsda"

    @abstractmethod
    def average(self, inbox: Inbox) -> Vector:
        """𝒜_i(ℬ_i) of (5): a new (d,) vector."""

    @abstractmethod
    def unbias(self, z: Vector, inbox: Inbox) -> Vector:
        """𝒞_i(z_i) of (6)."""

    def init(self, x: Vector) -> State:
        """z_i = 0 and y_i = Π(0, ·), the least element of ψ = ½‖·‖² in 𝒳."""
        zero = np.zeros_like(x)
        y = self.feasible.project(zero)
        return State(z=zero, y=y, point=y, pull=1.0, pulled=0.0)

    def message(self, s: State, round: Round) -> Query:
        """(4). The first message carries noise too, as printed, though it holds no data."""
        block = self.blocks[round.me]
        l2 = self.agents * self.change[round.me]
        return Query(
            s.z,
            l1=sqrt(block.stop - block.start) * l2,
            l2=l2,
            uses=round.t - 1,
            hidden_gain=self.agents * self.smoothness[round.me] * s.pulled if s.pulled else 0.0,
            hidden_cap=0.0 if self.gradient_at == "public" else self.agents * self.spread[round.me],
            hidden_keep=self.agents * self.regularizer * s.pulled,
        )

    def update(self, s: State, round: Round, inbox: Inbox, loss: Loss) -> State:
        """(5) and (6)."""
        block, alpha = self.blocks[round.me], self.step(round.t)
        u = loss.grad(s.point, block)
        z = self.average(inbox)
        if self.gradient_at == "public":
            point = self.feasible.prox_step(self.unbias(z, inbox), alpha)
        z[block] += self.agents * u
        y = self.feasible.prox_step(self.unbias(z, inbox), alpha)
        if self.gradient_at == "public":
            return State(z, y, point, pull=0.0, pulled=0.0)
        return State(z, y, point=y, pull=alpha / inbox.scale, pulled=s.pull)

    def decision(self, s: State) -> Vector:
        """y_i: the agent commits to the block B_i of it."""
        return s.y

    @staticmethod
    def claim(epsilon: float, rounds: int, passes: int) -> float:
        """The paper's ε for `rounds` rounds (Theorems 2 and 4): ε a round, per agent and for all of them."""
        return rounds * epsilon
