"""State experiments with the ADMM family twice: as keys of mpinodes, and in the terms of the paper."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np

from tests.helpers import reference
from tests.helpers.parts import run_of, setup_of

NOISY = ["dvp-admm", "pp-admm", "pvp-admm"]
ITERATIONS = 16
TOLERANCE = 1e-12
C1 = 0.25  # of the logistic loss

Each = float | tuple[float, ...]  # for all agents, or for each


@dataclass(frozen=True)
class Setting:
    """An experiment, as keys of mpinodes (`asked`) and in the terms of the paper (all other members)."""

    name: str
    iterations: int = ITERATIONS
    topology: str = "ring"
    sizes: tuple[int, ...] = (20, 20, 20, 20, 20)
    dimension: int = 4
    weight: float = 10.0
    regularizer: float = 0.1
    dual_step: Each = 0.5
    dual_growth: float = 1.0
    penalty: Each = 0.5
    penalty_growth: Each = 1.02
    cap: float = inf
    rate: Each = 3.0
    rate_growth: Each = 1.01
    epsilon: float = inf
    seed: int = 0
    grid: float = 0.0
    tolerance: float = TOLERANCE
    delta: float = 1e-5

    @property
    def asked(self):
        """Return the experiment as nested dictionaries, without an output directory."""
        algorithm = {"name": self.name, "tolerance": self.tolerance}
        algorithm |= {"dual_step": self.dual_step, "dual_growth": self.dual_growth}
        if self.name in ("m-admm", "pp-admm"):
            algorithm |= {"penalty": self.penalty, "penalty_growth": self.penalty_growth, "penalty_cap": self.cap}
        if self.name in NOISY:
            algorithm |= {"noise_rate": self.rate, "noise_growth": self.rate_growth}
        if self.name in ("dvp-admm", "pp-admm"):
            algorithm |= {"grid": self.grid}
        return {
            "rounds": self.iterations + 1, "seed": self.seed, "report": False, "algorithm": algorithm,
            "noise": {"key": "whatever the algorithm"},
            "record": {"decisions": True, "transcript": True},
            "topology": {"name": self.topology, "agents": self.n},
            "data": {
                "name": "unit-ball", "dimension": self.dimension, "total": sum(self.sizes),
                "partition": "uneven", "sizes": self.sizes,
            },
            "problem": {"weight": self.weight, "regularizer": self.regularizer},
            "privacy": {
                "epsilon": "inf" if self.epsilon == inf else self.epsilon,
                "mechanism": "gamma-norm" if self.name in NOISY else "none", "delta": self.delta,
            },
        }  # fmt: skip

    @property
    def n(self):
        return len(self.sizes)

    @cached_property
    def parts(self):
        return setup_of(self.asked)

    @cached_property
    def adjacency(self):
        return reference.adjacency(self.n, self.parts.topology.edges(1))

    @property
    def neighbours(self):
        return self.adjacency.sum(axis=1)

    @property
    def share(self):
        return self.weight / np.array(self.sizes)

    @cached_property
    def data(self):
        return samples(self.parts)

    def theta(self, t):
        return np.ones(self.n) * self.dual_step * self.dual_growth ** (t - 1)

    def eta(self, t):
        if self.name not in ("m-admm", "pp-admm"):
            return self.theta(t)
        return np.minimum(np.ones(self.n) * self.penalty * np.array(self.penalty_growth) ** (t - 1), self.cap)

    def alpha(self, t):
        """Return the rates α(t) of the noise e, (n,), multiplied by privacy.epsilon."""
        return self.epsilon * np.ones(self.n) * self.rate * np.array(self.rate_growth) ** (t - 1)

    def scale(self, t):
        return np.zeros(self.n) if self.name not in NOISY or self.epsilon == inf else 1 / self.alpha(t)

    def run(self, where):
        return run_of(where / "run", self.asked)

    def expected(self):
        return reference.admm(
            self.iterations, self.data, self.adjacency, self.weight, self.regularizer, self.theta, self.eta,
            self.scale, seed=self.seed, key=self.parts.noise_key, primal=self.name == "pvp-admm", grid=self.grid,
        )  # fmt: skip

    def proven(self, t):
        """Return the proven loss of iteration t, (n,)."""
        modulus = self.regularizer + 2 * self.eta(t) * self.neighbours
        if self.name == "pvp-admm":
            return self.alpha(t) * (2 * self.share + 2 * self.tolerance) / modulus
        noise = self.alpha(t) * self.share / (self.eta(t) * self.neighbours)
        return noise + np.log1p(self.share * C1 / modulus)

    def claimed(self, t):
        """Return the claimed loss of iteration t, (n,): the summand of P_i(T) in the paper."""
        if self.name == "pvp-admm":
            return self.alpha(t) * 2 * self.share / (self.regularizer + 2 * self.eta(t) * self.neighbours)
        return self.share * (1.4 * C1 + self.alpha(t)) / (self.eta(t) * self.neighbours)


def samples(parts):
    """Return the features (B, d), dense, and the labels (B,) of every agent."""
    losses = [parts.stream.of(i)(1) for i in range(parts.topology.agents)]
    dense = [a if isinstance(a := loss.features, np.ndarray) else a.toarray() for loss in losses]
    return [(x, loss.targets) for x, loss in zip(dense, losses, strict=True)]


UNLIKE = Setting(
    "admm", topology="erdos-renyi", sizes=(15, 40, 25, 18, 60, 13), weight=12.0, seed=5,
    dual_step=(0.5, 0.6, 0.45, 0.5, 0.55, 0.4), dual_growth=1.01, penalty=(0.55, 0.65, 0.6, 0.55, 0.6, 0.8),
    penalty_growth=(1.01, 1.03, 1.1, 1.2, 1.02, 1.05), cap=2.0, rate=(3.0, 2.0, 5.0, 1.0, 3.0, 4.0),
    rate_growth=(1.01, 1.0, 1.02, 1.05, 1.1, 1.01),
)  # fmt: skip
