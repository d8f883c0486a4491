"""Attack dp-dsgd on data for which its privacy loss is largest: python scripts/worst_case.py FOLDER [--quick].

One of two agents has a sample whose gradient is clipped in every round, and that does not depend on the point. All
other gradients are 0. The adversary reads nothing but the frames of a run, and knows everything except this sample (its
coins too are unknown). From two messages and the public mixing follows the noised gradient between them. The adversary
compares the likelihoods of all noised gradients on the two data sets. If secret coins draw the batch, one of the two
likelihoods is that of a mixture.

Every run has a new key of the operating system. Half of the runs choose the threshold of the test, the other half
evaluate it. Some runs are also made by mpirun, and their scores are compared with those of the runs in one process.

A run of T rounds is charged T gradients, but its frames hold only the first T − 1.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from scipy.optimize import brentq
from scipy.stats import ks_2samp, norm

import mpinodes
from mpinodes.auditing.statistics import largest_share, least_share, told_apart
from mpinodes.auditing.transcripts import simulate
from mpinodes.config.compose import compose
from mpinodes.core.asked import Tree, merge
from mpinodes.core.messages import HEADER
from mpinodes.launch.launching import mpirun
from mpinodes.privacy.curves import gdp_epsilon
from mpinodes.summary.summary import Summary

ALPHA = 1e-3  # probability that a lower bound is wrong
SAMPLES, DIMENSION, CLIP, STEP, FAR = 4, 2, 1.0, 0.5, 1e4


@dataclass(frozen=True)
class Case:
    """Two adjacent data sets, and the run on either.

    Attributes:
        adjacency: of the two data sets.
        rounds, multiplier, delta: settings of the run.
        rate: the rate of Poisson sampling; 0: every gradient uses all samples.
        signs: the sign of the sample's clipped gradient on the two data sets; 0: the sample is zeroed.
    """

    adjacency: str
    rounds: int
    multiplier: float
    delta: float
    rate: float
    signs: tuple[int, int]

    def asked(self, folder: Path, world: int) -> Tree:
        """Return the experiment on one of the two data sets, whose files are written to the folder."""
        sign = self.signs[world]
        features, targets = np.zeros((SAMPLES, DIMENSION)), np.zeros(SAMPLES)
        features[0, 0], targets[0] = abs(sign), -sign * FAR
        for agent, rows in enumerate((features, np.zeros_like(features))):
            np.savez(folder / f"{sign:+d}-{agent}.npz", features=rows, targets=targets * (agent == 0))
        sampled = {"sampling": "poisson", "rate": self.rate} if self.rate else {"batch": "all"}
        return {
            "algorithm": {"name": "dp-dsgd"}, "rounds": self.rounds, "topology": {"name": "complete", "agents": 2},
            "data": {
                "file": str(folder / f"{sign:+d}-{{agent}}.npz"), "targets": "real", "bound": 1.0, "columns": DIMENSION,
                "shuffle": False, **sampled,
            },
            "problem": {"loss": "least-squares", "average": True, "regularizer": 0.0, "set": "none"},
            "step": {"kind": "constant", "value": STEP}, "comparator": False, "report": False,
            "privacy": {
                "adjacency": self.adjacency, "clip": CLIP, "noise_multiplier": self.multiplier, "delta": self.delta,
                "tight": bool(self.rate),
            },
            "noise": {"entropy": "os"}, "record": {"transcript": True},
        }  # fmt: skip

    def score(self, frames: np.ndarray) -> float:
        """Return the log-likelihood ratio of the two data sets, from the frames of a run: (rounds, agents, words)."""
        sent = frames[:, :, HEADER : HEADER + DIMENSION]
        gradients = (sent[:-1].mean(axis=1) - sent[1:, 0]) / STEP  # of agent 0, noised
        sums = gradients[:, 0] * SAMPLES * (self.rate or 1.0) / CLIP  # clipped, as multiples of the clip
        return float(np.sum(self._log(sums, self.signs[0]) - self._log(sums, self.signs[1])))

    def _log(self, sums: np.ndarray, sign: int) -> np.ndarray:
        """Return the log density of noised sums, less that of noise alone, if the sample's gradient has this sign."""
        inside = (2 * sign * sums - sign**2) / (2 * self.multiplier**2)
        if not self.rate:
            return np.asarray(inside)
        return np.logaddexp(np.log1p(-self.rate), np.log(self.rate) + inside)


MU = 2.0
CASES = {
    "+C against 0": Case("zero-out", 50, sqrt(50) / MU, 1e-5, 0.0, (1, 0)),
    "−C against 0": Case("zero-out", 50, sqrt(50) / MU, 1e-5, 0.0, (-1, 0)),
    "+C against −C": Case("one-sample", 50, 2 * sqrt(50) / MU, 1e-5, 0.0, (1, -1)),
    "q = 0.25, +C against 0": Case("zero-out", 10, 1.0, 0.1, 0.25, (1, 0)),
    "q = 0.5, +C against 0": Case("zero-out", 10, 1.0, 0.1, 0.5, (1, 0)),
    "q = 0.5, −C against 0": Case("zero-out", 10, 1.0, 0.1, 0.5, (-1, 0)),
}


def proven(case: Case, folder: Path) -> float:
    """Return ε at δ as a run's summary proves it for the network."""
    place = mpinodes.run_lockstep(case.asked(folder, 0) | {"output": {"dir": str(folder / "proven")}})
    epsilon = Summary.read(place).privacy.network.proven
    assert epsilon is not None
    return epsilon


def scores(case: Case, folder: Path, world: int, runs: int) -> np.ndarray:
    """Return the scores of runs in this process, each with a key of its own."""
    setup = compose(case.asked(folder, world), None)
    return np.array([case.score(simulate(setup).frames) for _ in range(runs)])


def scores_by_mpi(case: Case, folder: Path, world: int, runs: int) -> np.ndarray:
    """Return the scores of runs by mpirun, each with a key of its own."""
    asked, values = case.asked(folder, world), []
    for k in range(runs):
        place, file = folder / f"mpi-{world}-{k}", folder / "mpi.toml"
        file.write_text(tomli_w.dumps(merge(asked, {"output": {"dir": str(place)}})))
        command = [*mpirun(), "-n", "3", sys.executable, "-m", "mpinodes.run", str(file)]
        subprocess.run(command, check=True, capture_output=True)
        values.append(case.score(mpinodes.load(place).transcript.values))
    return np.array(values)


def least_mu(own: np.ndarray, other: np.ndarray) -> float:
    """Return a lower bound on μ of Gaussian DP; the threshold is chosen on the first half of the runs."""
    half = len(own) // 2

    def bound(tau: float, runs: slice) -> float:
        hits, alarms = (int((values[runs] >= tau).sum()) for values in (own, other))
        number = len(own[runs])
        low, high = least_share(hits, number, ALPHA / 2), largest_share(alarms, number, ALPHA / 2)
        return float(norm.ppf(low) - norm.ppf(high))

    taus = np.quantile(np.concatenate([own[:half], other[:half]]), np.linspace(0.2, 0.8, 61))
    best = max(taus.tolist(), key=lambda tau: bound(tau, slice(half)))
    return bound(best, slice(half, None))


def of_case(name: str, case: Case, folder: Path, runs: int, by_mpi: int) -> dict[str, Any]:
    """Play one game, print its line, and return its numbers."""
    folder.mkdir(parents=True)
    epsilon, (own, other) = proven(case, folder), (scores(case, folder, world, runs) for world in (0, 1))
    if case.rate:
        what, limit = "ε", epsilon
        shown = told_apart(own, other, case.delta, ALPHA, gaussian=False, sampled=True).at_delta
    else:
        what, limit = "μ", float(brentq(lambda mu: gdp_epsilon(mu, case.delta) - epsilon, 1e-3, 1e3))
        shown = least_mu(own, other)
    line = f"{name}: {what} ≥ {shown:.3f}, proven {limit:.3f} ({shown / limit:.2f} of it; {case.adjacency}, "
    line += f"δ = {case.delta:g}; {runs - runs // 2} runs of each data set after {runs // 2} for the threshold)"
    p = 1.0
    if by_mpi:
        worlds = [scores_by_mpi(case, folder, world, by_mpi) for world in (0, 1)]
        p = float(min(ks_2samp(few, many).pvalue for few, many in zip(worlds, (own, other), strict=True)))
        line += f"; {2 * by_mpi} runs by mpirun have the same scores (Kolmogorov-Smirnov: p ≥ {p:.2g})"
    print(line, flush=True)
    return {"case": name, "shown": shown, "proven": limit, "p": p}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where data files and runs by mpirun are stored; made here")
    parser.add_argument("--quick", action="store_true", help="few runs, to see that the script works")
    args = parser.parse_args()
    runs, by_mpi = (24, 1) if args.quick else (20_000, 25)
    refuted = False
    for k, (name, case) in enumerate(CASES.items()):
        of_mpi = by_mpi if k == 0 or (name == "q = 0.5, +C against 0" and not args.quick) else 0
        row = of_case(name, case, args.folder / str(k), runs, of_mpi)
        refuted |= row["shown"] > row["proven"] or row["p"] < ALPHA
    return int(refuted)


if __name__ == "__main__":
    sys.exit(main())
