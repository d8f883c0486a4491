"""Compare noise of every agent with noise of one curator: python scripts/local_and_central.py [FILE] [--small].

A fixed number of samples is divided among n agents, who run `dp-dsgd` on the complete graph. The curator runs the same
code on all samples (`baseline=curator`). All runs use all samples in every round, and the same noise multiplier σ, so
all runs have the same ε. The noise on the mean gradient of the network has the standard deviation

    n agents:  (1/n) √n · σC/(N/n) = √n · σC/N,        curator:  σC/N.

The script measures the root mean square distance between the mean decision and the decision without noise, over rounds
and seeds, prints a table, and draws the distances against n.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from mpinodes import simulate

AGENTS, SEEDS, ROUNDS, SAMPLES = (1, 2, 4, 8, 16, 32, 64), 10, 100, 19_200
SIGMA = 20.0


def decisions(agents: int, seed: int, rounds: int, **more: Any) -> tuple[np.ndarray, str]:
    """Return the mean decisions of a run, (rounds, d), and the proven ε as text."""
    with tempfile.TemporaryDirectory() as folder:
        run = simulate(
            {"algorithm.name": "dp-dsgd", "topology.name": "complete", "topology.agents": agents, "rounds": rounds},
            {"data": {"name": "unit-ball", "total": SAMPLES, "batch": "all", "seed": 0}, "seed": seed},
            {"problem.regularizer": 0.1, "record.decisions": True, "comparator": False, "output.dir": f"{folder}/run"},
            {"privacy.adjacency": "zero-out"},
            more,
        )
        proven = run.summary["privacy"]["network"]["proven"]
        text = f"ε = {proven:.2f} (zero-out, δ = 1e-05)" if proven else ""
        return run.record.decision.values.mean(axis=1), text


def main() -> None:
    """Run, print the table, and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, default=Path("docs/local-and-central.png"))
    parser.add_argument("--small", action="store_true", help="few rounds, seeds and agents")
    asked = parser.parse_args()
    agents, seeds, rounds = (AGENTS[:3], 2, 10) if asked.small else (AGENTS, SEEDS, ROUNDS)
    quiet, _ = decisions(1, 0, rounds, baseline="no-noise")

    def distance(n: int, **more: Any) -> tuple[float, str]:
        made = [decisions(n, seed, rounds, **{"privacy.noise_multiplier": SIGMA}, **more) for seed in range(seeds)]
        apart = [((x - quiet)[rounds // 2 :] ** 2).sum(axis=1).mean() for x, _ in made]
        return float(np.sqrt(np.mean(apart))), made[0][1]

    curator, epsilon = distance(agents[-1], baseline="curator")
    local = []
    print(f"{epsilon}; curator: distance {curator:.4g}\n{'agents':>6} {'distance':>10} {'of curator':>10} {'√n':>6}")
    for n in agents:
        local.append(distance(n)[0])
        print(f"{n:6} {local[-1]:10.4g} {local[-1] / curator:10.2f} {n**0.5:6.2f}")
    with mpl.rc_context({"font.size": 9}):
        figure = Figure(figsize=(5.2, 3.2), layout="constrained")
        axes = figure.add_subplot()
        axes.loglog(agents, local, color="#0072b2", marker="o", label="every agent adds noise")
        axes.axhline(curator, color="#009e73", label="one curator adds noise")
        axes.loglog(agents, curator * np.sqrt(agents), color="#6b7280", ls=":", label=r"curator times $\sqrt{n}$")
        axes.set_xticks(agents, [str(n) for n in agents])
        axes.minorticks_off()
        axes.set(xlabel="number of agents n", ylabel="distance from the run without noise", title=epsilon)
        axes.legend()
        figure.savefig(asked.file, dpi=110)


if __name__ == "__main__":
    main()
