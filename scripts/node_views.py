"""What one node learns of another, proven and shown: python scripts/node_views.py FOLDER [--quick].

Gossip averaging and the two-stage method on a ring of 16 and a grid of 5 × 5: ε toward one node against distance, as
proven, and as audits from what that node receives show it from below (99.9 % confidence each). Every agent has one
point, and the victim's is put from one end of the domain to the other: it moves by all that it may.

The dotted line is no bound: it adds up what each message received tells by itself, as if its noise were its own.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from mpinodes.auditing.changes import Change
from mpinodes.auditing.games import Canary, pairs, sights, simulate
from mpinodes.auditing.statistics import told_apart
from mpinodes.config.compose import compose
from mpinodes.core import Setup
from mpinodes.presentation import plots as drawing
from mpinodes.presentation.plots import AGENT, AVERAGE, CLAIM, NETWORK, STYLE
from mpinodes.privacy.curves import gdp_epsilon
from mpinodes.privacy.views import Relayed, views

DELTA, ALPHA = 1e-3, 1e-3
GRAPHS = {"ring": (16, 0, 6), "grid": (25, 12, 8)}  # agents, the viewer, rounds
GOSSIP = {"name": "gossip-averaging"}
TWO = {"name": "two-stage-gaussian", "gradient_rounds": 2, "noise_scale": 1.0, "noise_shape": [3.0, 0.7]}
BOX = {"set": "box", "radius": 1000.0}  # which is never met; without it both stages are linear, and less is lost


def setup_of(kind: str, algorithm: dict[str, Any], folder: Path) -> Setup:
    """All points at one end."""
    agents, viewer, rounds = GRAPHS[kind]
    file = folder / f"{kind}.npz"
    np.savez(file, features=np.ones((agents, 1)), targets=np.zeros(agents))
    asked = {
        "algorithm": algorithm,
        "data": {"file": str(file), "columns": 1, "targets": "real", "batch": "all", "bound": 1.0},
        "problem": {"loss": "squared-distance", "average": True} | ({"set": "none"} if algorithm is GOSSIP else BOX),
        "privacy": {"epsilon": 8.0, "delta": DELTA},
        "topology": {"name": kind, "agents": agents}, "noise": {"key": "wherever the points lie"},
        "rounds": rounds, "record": {"transcript": True}, "audit": {"view": f"agent:{viewer}"}, "report": False,
    }  # fmt: skip
    return compose(asked, None)


def alone(relayed: Relayed, viewer: int, victim: int) -> float:
    """Σ over messages received of the square of what each tells by itself, per that of the release."""
    said, total = np.eye(len(relayed.scale)), 0.0
    others = [k for k in range(len(said)) if k != viewer]
    for t, heard in enumerate(relayed.heard):
        rows = said[[j for j in np.flatnonzero(heard[viewer]) if j != viewer]]
        total += float((rows[:, victim] ** 2 / (rows[:, others] ** 2).sum(axis=1)).sum())
        said = relayed.weights[t] @ said if t < len(relayed.weights) else said
    return total


def shown(setup: Setup, victim: int, number: int) -> float:
    """A lower bound on ε from what the viewer receives in so many pairs of runs."""
    target = Canary((victim,), Change(1, int(setup.stream.samples(victim)(1)[0]), np.array([-1.0]), 0.0), 1.0)
    (sight,) = sights(setup, [target], range(60))
    ratios = pairs(setup, target._replace(sight=sight), range(number), victim)
    return told_apart(ratios[:, 0], ratios[:, 1], DELTA, ALPHA, gaussian=True).at_delta


def draw(kind: str, folder: Path, number: int, most: int) -> None:
    """One figure for a graph, and a line for each distance."""
    figure, panels = drawing.pair()
    with tempfile.TemporaryDirectory() as data:
        for axes, algorithm in zip(panels, (GOSSIP, TWO), strict=True):
            setup, viewer = setup_of(kind, algorithm, Path(data)), GRAPHS[kind][1]
            events = simulate(setup).events
            seen, relayed = views(setup, events), Relayed.of(setup, events)
            assert seen
            assert relayed
            hops, epsilon = seen.distance[viewer], seen.epsilon(DELTA)[viewer]
            far = np.arange(1, np.nanmax(hops) + 1)
            victims = [int(np.flatnonzero(hops == at)[np.nanargmax(epsilon[hops == at])]) for at in far]
            lower = {at: shown(setup, v, number) for at, v in list(zip(far, victims, strict=True))[:most]}
            naive = [
                gdp_epsilon(
                    float(np.hypot(seen.before[v], np.sqrt(alone(relayed, viewer, v)) * seen.release[v])), DELTA
                )
                for v in victims
            ]
            axes.plot(far, [epsilon[hops == at].max() for at in far], color=NETWORK, marker="o", label="proven")
            axes.plot(far, [epsilon[hops == at].min() for at in far], color=NETWORK, lw=0.8, label="proven, the least")
            if seen.before.any():
                second = seen.epsilon_release(DELTA)[viewer]
                axes.axhline(float(seen.epsilon_before(DELTA).max()), color=AGENT, label="first stage, by all links")
                axes.plot(
                    far, [second[hops == at].max() for at in far], color=AVERAGE, marker="s", label="second stage"
                )
            axes.plot(far, naive, color="black", ls=":", label="each message alone, added up (no bound)")
            axes.plot(
                list(lower), list(lower.values()), color=CLAIM, marker="^", ls="", label="shown by its transcript"
            )
            axes.set(xlabel="distance (hops)", ylabel=f"ε toward agent {viewer} at δ = {DELTA:g}", ylim=(0, None))
            axes.set_title(str(algorithm["name"]), fontsize=10)
            axes.legend(fontsize=7)
            for at, v in zip(far.astype(int), victims, strict=True):
                end = f", its transcript shows {lower[at]:.3f}" if at in lower else ""
                added = f"each message alone adds up to {naive[at - 1]:.3f}"
                print(f"{algorithm['name']}, {kind}, distance {at}: proven {epsilon[v]:.3f}, {added}{end}")
    figure.suptitle(f"{setup.topology.title}, {setup.experiment.rounds} rounds", fontsize=10)
    path = folder / f"node-views-{kind}.png"
    figure.savefig(path)
    print(f"figure: {path}")


def main() -> None:
    """All figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quick", action="store_true", help="few runs, at two distances")
    words = parser.parse_args()
    words.folder.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(STYLE):
        for kind in GRAPHS:
            draw(kind, words.folder, *((16, 2) if words.quick else (300, 99)))


if __name__ == "__main__":
    main()
