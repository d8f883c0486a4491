"""Draw how much one node learns about another against their distance: python scripts/node_views.py FOLDER [--quick].

The algorithms are gossip averaging and the two-stage method, on a ring of 16 agents and a grid of 5 × 5. The figures
show the proven ε toward one node, and lower bounds from audits of the messages that this node receives, each with a
confidence of 99.9 %. Every agent has one sample, a point. The audited change moves the victim's point from one end of
the domain to the other, the largest change possible.

The dotted line is not a bound. It adds up the privacy losses of the received messages as if their noise were
independent.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from mpinodes.auditing.changes import Change
from mpinodes.auditing.games import Canary, pairs, sights
from mpinodes.auditing.statistics import told_apart
from mpinodes.auditing.transcripts import simulate
from mpinodes.config.compose import compose
from mpinodes.core import Setup
from mpinodes.presentation.plots import AGENT, AVERAGE, CLAIM, NETWORK, STYLE
from mpinodes.privacy.curves import gdp_epsilon
from mpinodes.privacy.views import Relayed, epsilons, views

DELTA, ALPHA = 1e-3, 1e-3
GRAPHS = {"ring": (16, 0, 6), "grid": (25, 12, 8)}  # agents, the viewer, rounds
GOSSIP = {"name": "gossip-averaging"}
TWO = {"name": "two-stage-gaussian", "gradient_rounds": 2, "noise_scale": 1.0, "noise_shape": [3.0, 0.7]}
BOX = {"set": "box", "radius": 1000.0}  # never active; but without a set both stages are linear, with a smaller loss


def setup_of(kind: str, algorithm: dict[str, Any], folder: Path) -> Setup:
    """Return the set-up of an algorithm on a graph, with the points of all agents at one end of the domain."""
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
    """Return Σ of the squared signal-to-noise ratios of the messages that the viewer receives.

    Each ratio compares the victim's share in a message with the noise of all agents but the viewer in that message. A
    direct release of the victim has ratio 1.
    """
    shares, total = np.eye(len(relayed.scale)), 0.0
    others = [k for k in range(len(shares)) if k != viewer]
    for t, heard in enumerate(relayed.heard):
        rows = shares[[j for j in np.flatnonzero(heard[viewer]) if j != viewer]]
        total += float((rows[:, victim] ** 2 / (rows[:, others] ** 2).sum(axis=1)).sum())
        shares = relayed.weights[t] @ shares if t < len(relayed.weights) else shares
    return total


def shown(setup: Setup, victim: int, number: int) -> float:
    """Return a lower bound on ε from the messages that the viewer receives in `number` pairs of runs."""
    target = Canary((victim,), Change(1, int(setup.stream.samples(victim)(1)[0]), np.array([-1.0]), 0.0), 1.0)
    (sight,) = sights(setup, [target], range(min(60, number)))
    ratios = pairs(setup, target._replace(sight=sight), range(number), victim)
    return told_apart(ratios[:, 0], ratios[:, 1], DELTA, ALPHA, gaussian=True).at_delta


def draw(kind: str, folder: Path, number: int, most: int) -> None:
    """Draw the figure of a graph, and print one line for each distance.

    Args:
        kind: a key of `GRAPHS`.
        folder: the directory of the figure.
        number: the number of pairs of runs in an audit.
        most: the number of distances that are audited.
    """
    figure = Figure(figsize=(9.6, 4.0), layout="constrained")
    panels = figure.subplots(1, 2)
    with tempfile.TemporaryDirectory() as data:
        for axes, algorithm in zip(panels, (GOSSIP, TWO), strict=True):
            setup, viewer = setup_of(kind, algorithm, Path(data)), GRAPHS[kind][1]
            events = simulate(setup).events
            seen, relayed = views(setup, events), Relayed.of(setup, events)
            assert seen
            assert relayed
            hops, epsilon = seen.distance[viewer], epsilons(seen.mu, DELTA)[viewer]
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
                second = epsilons(seen.relayed, DELTA)[viewer]
                axes.axhline(float(epsilons(seen.before, DELTA).max()), color=AGENT, label="first stage, by all links")
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
    """Draw all figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quick", action="store_true", help="audit only two distances, with few runs")
    words = parser.parse_args()
    words.folder.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(STYLE):
        for kind in GRAPHS:
            draw(kind, words.folder, *((16, 2) if words.quick else (300, 99)))


if __name__ == "__main__":
    main()
