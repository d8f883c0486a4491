"""Measure how message faults change the results of algorithms: python scripts/simulated_faults.py FOLDER [--quick].

Draw the regret per round and the accuracy without faults, with 20 % of the messages lost, with messages up to 3 rounds
late, with agents away 10 % of the time, and with all three. The curves are means over seeds. The five runs of a seed
share data, graph and noise, so differences are due to the faults. Runs that share their noise are not private.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import mpinodes
from mpinodes.core.asked import merge
from mpinodes.presentation.plots import AVERAGE, CLAIM, NETWORK, STYLE, log

DIGRAPH = {"name": "random-digraph", "probability": 0.3}
GRAPH = {"name": "erdos-renyi", "probability": 0.5}
# The nominal ε is so large that the algorithms learn something in so few rounds.
ALGORITHMS: dict[str, Any] = {
    "dpsda-ps": {"topology": DIGRAPH, "privacy": {"epsilon": 40.0}},
    "dpsda-c": {"topology": GRAPH, "privacy": {"epsilon": 40.0}, "algorithm": {"mixing": "metropolis"}},
    "dpps": {"topology": DIGRAPH, "privacy": {"epsilon": 40.0}},
    "dola": {"topology": GRAPH, "privacy": {"epsilon": 40.0}},
    "dola-minibatch": {"topology": GRAPH, "privacy": {"epsilon": 40.0}, "data": {"batch": 5}},
}
FAULTS: dict[str, tuple[dict[str, float], str]] = {
    "no faults": ({}, "black"),
    "20 % of messages lost": ({"loss": 0.2}, NETWORK),
    "up to 3 rounds late": ({"delay": 3}, AVERAGE),
    "away 10 % of the time": ({"churn": 0.1}, CLAIM),
    "all three": ({"loss": 0.2, "delay": 3, "churn": 0.1}, "tab:purple"),
}


def ran(algorithm: str, faults: dict[str, float], place: Path, rounds: int, seeds: int) -> dict[str, Any]:
    """Return curves by horizon, each (seeds, horizons), from the runs of an algorithm with faults.

    Args:
        algorithm: the name of the algorithm.
        faults: the keys of `faults`.
        place: the directory of the runs; if they are there already, they are not run again.
        rounds: the number of rounds.
        seeds: the number of repeats.
    """
    asked: dict[str, Any] = {
        "algorithm": {"name": algorithm}, "problem": {"preset": "unit-ball"}, "topology": {"agents": 8},
        "data": {"total": 40 * rounds}, "noise": {"key": "faults"}, "faults": faults,
        "rounds": rounds, "repeats": seeds, "report": False, "output": {"dir": str(place)},
    }  # fmt: skip
    if not (place / "summary.json").exists():
        mpinodes.run_lockstep(merge(asked, ALGORITHMS[algorithm]))
    record = mpinodes.load(place)
    repeats = record if "repeat" in record.dims else record.expand_dims("repeat")
    return {
        "rounds": record.horizon.values,
        "regret per round": repeats.network_regret.transpose("repeat", "horizon").values / record.horizon.values,
        "accuracy": repeats.accuracy.transpose("repeat", "horizon").values,
    }


def main() -> None:
    """Draw the figure, and print one line for each algorithm and fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quick", action="store_true", help="one of the algorithms, one seed, 12 rounds")
    words = parser.parse_args()
    rounds, seeds = (12, 1) if words.quick else (600, 5)
    algorithms = ["dpps"] if words.quick else list(ALGORITHMS)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(15, 6), layout="constrained")
        panels = figure.subplots(2, len(algorithms), sharex=True, squeeze=False)
        for column, algorithm in zip(panels.T, algorithms, strict=True):
            for k, (case, (faults, colour)) in enumerate(FAULTS.items()):
                place = words.folder / "runs" / f"{algorithm}-{k}"
                curves = ran(algorithm, faults, place, rounds, seeds)
                for axes, quantity in zip(column, ("regret per round", "accuracy"), strict=True):
                    t, values = curves["rounds"], curves[quantity]
                    axes.fill_between(t, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.12, lw=0)
                    style = {"ls": "--", "zorder": 3} if not faults else {}
                    axes.plot(t, values.mean(axis=0), color=colour, label=case, **style)
                last = {name: np.mean(curves[name][:, -1]) for name in ("regret per round", "accuracy")}
                print(f"{algorithm:15} {case:22} " + ", ".join(f"{name} {value:.4g}" for name, value in last.items()))
            column[0].set_title(algorithm)
            column[1].set_xlabel("round")
        panels[0, 0].set(ylabel="network regret per round")
        panels[1, 0].set(ylabel="accuracy, test data")
        for axes in panels.flat:
            log(axes, "x")
        panels[0, -1].legend(fontsize=8)
        figure.suptitle(f"8 agents, points of the unit ball, means and ranges of {seeds} seeds", fontsize=10)
        figure.savefig(words.folder / "faults.png")
    print(f"figure: {words.folder / 'faults.png'}")


if __name__ == "__main__":
    main()
