"""Where Lemma 2 of the weight-balancing paper fails: its weights on four kinds of digraphs.

Zhu, Xu, Guan, Wu: on digraphs strongly connected in every round, W(t) ... W(1) tends to 11ᵀ/n (Lemma 2). Drawn by
round: the largest w_i, the least 1 − w_i d_i and the largest |entry| of W(t) ... W(1) − 11ᵀ/n, median and range over
draws. w and W are those of mpinodes.mixing.balancing as long as it goes on; where it stops (1 − w_i d_i < 0), the
recursion is followed here, for a look at what it would have done.
"""

from __future__ import annotations

import numpy as np
from desk import COLOURS, NOT, REPRODUCED, Desk, Verdict, judged, panels

from mpinodes.config.public_constants import graph_facts
from mpinodes.core import Diverged, Topology
from mpinodes.mixing.balancing import Balancing
from mpinodes.topology.eulerian import Eulerian
from mpinodes.topology.random_digraph import RandomDigraph
from mpinodes.topology.random_digraph_each_round import RandomDigraphEachRound

NEEDS: tuple[str, ...] = ()
SETTINGS: tuple[str, ...] = ()
PAPER, ITEM = "weight-balancing", "Lemma 2"

AGENTS = 8
OUT_DEGREE = 3
SHOWN = 1e30  # beyond is not drawn


class ConstantOut(RandomDigraphEachRound):
    """In every round a ring in random order, and OUT_DEGREE − 1 other receivers for each agent."""

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        order = rng.permutation(self.agents)
        sends = np.zeros((self.agents, self.agents), dtype=bool)
        for j, next_ in zip(order, np.roll(order, -1), strict=True):
            others = np.setdiff1d(np.arange(self.agents), [j, next_])
            sends[j, [next_, *rng.choice(others, OUT_DEGREE - 1, replace=False)]] = True
        return sends


KINDS = {
    "(a) one random digraph": lambda seed: RandomDigraph(AGENTS, seed=seed),
    "(b) Eulerian in every round": lambda seed: Eulerian(AGENTS, seed=seed),
    "(c) random strongly connected, new in every round": lambda seed: RandomDigraphEachRound(AGENTS, seed=seed),
    "(d) out-degree 3, in-degrees vary": lambda seed: ConstantOut(AGENTS, seed=seed),
}


def step(mixing: Balancing, graph: Topology, t: int, w: list[float]) -> tuple[list[float], np.ndarray]:
    """W(t) and w(t + 1) by the package's own agents."""
    matrix, after = np.zeros((AGENTS, AGENTS)), []
    for i in range(AGENTS):
        here = graph.neighborhood(t, i)
        following, weights, _ = mixing.weights(w[i], here, [np.array([w[j]]) for j in here.senders])
        matrix[i, list(here.senders)] = weights
        after.append(following)
    return after, matrix


def by_hand(sends: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same by (7) and (9), whatever the sign of 1 − w_i d_i."""
    out = sends.sum(axis=1)
    return 0.5 * w + 0.5 * (w @ sends) / out, np.diag(1 - w * out) + sends.T * w


def follow(graph: Topology, rounds: int) -> tuple[np.ndarray, int]:
    """By round: max w, min 1 − w d, max |Φ − 1/n|; and the round in which mpinodes stops, or 0."""
    mixing = Balancing(graph_facts(graph, rounds))
    w = [mixing.init(i) for i in range(AGENTS)]
    phi, rows, stopped = np.eye(AGENTS), [], 0
    for t in range(1, rounds + 1):
        sends = graph.sends(t)
        facts = [max(w), np.min(1 - np.array(w) * sends.sum(axis=1))]
        if not stopped:
            try:
                after, matrix = step(mixing, graph, t, w)
            except Diverged:
                stopped = t
        if stopped:
            hand, matrix = by_hand(sends, np.array(w))
            after = hand.tolist()
        phi, w = matrix @ phi, after
        rows.append([*facts, np.abs(phi - 1 / AGENTS).max()])
    return np.array(rows), stopped


def growths(probability: float, draws: int, rounds: int) -> np.ndarray:
    """By draw: the factor by which max w grows in a round of (c), over the second half of the rounds."""
    found = []
    for seed in range(draws):
        graph = RandomDigraphEachRound(AGENTS, probability, seed=seed)
        half = w = np.full(AGENTS, Balancing(graph_facts(graph, rounds)).init(0))
        for t in range(1, rounds + 1):
            if t == rounds // 2:
                half = w
            w, _ = by_hand(graph.sends(t), w)
        found.append((w.max() / half.max()) ** (1 / (rounds - rounds // 2)))
    return np.array(found)


def redraw(desk: Desk) -> list[Verdict]:
    draws, rounds = (4, 120) if desk.quick else (20, 400)
    figure, axes = panels(1, 3, width=3.9)
    found, stops = {}, {}
    with np.errstate(over="ignore", invalid="ignore"):
        for colour, (name, make) in zip(COLOURS, KINDS.items(), strict=False):
            followed = [follow(make(seed), rounds) for seed in range(draws)]
            found[name] = np.array([rows for rows, _ in followed])  # (draws, rounds, 3)
            stops[name] = np.array([stop for _, stop in followed])
            for k, panel in enumerate(axes):
                values = np.nan_to_num(found[name][:, :, k], nan=SHOWN).clip(-SHOWN, SHOWN)
                t = np.arange(1, rounds + 1)
                panel.fill_between(t, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.2, lw=0)
                panel.plot(t, np.median(values, axis=0), color=colour, label=name)
    axes[0].set(yscale="log", xlabel="round t", title="max w_i(t)")
    axes[1].set(xlabel="round t", title="min 1 − w_i d_i: a weight, so 0 to 1")
    axes[1].set_yscale("symlog", linthresh=1.0)
    axes[1].set_yticks([1, 0, -1, -1e4, -1e8, -1e12])
    axes[2].set(yscale="log", ylim=(1e-17, 1e6), xlabel="round t", title="largest |W(t) … W(1) − 11ᵀ/n|")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    print(f"{'':52} {'max w':>9} {'min 1-wd':>10} {'|Phi-1/n|':>10} {'stopped':>8} {'in round':>9}")
    for name, values in found.items():
        last = values[:, -1]
        stop = stops[name][stops[name] > 0]
        print(
            f"{name:52} {np.median(last[:, 0]):9.3g} {values[:, :, 1].min():10.3g} {np.median(last[:, 2]):10.3g} "
            f"{len(stop):5}/{draws:<2} {f'{stop.min()}-{stop.max()}' if len(stop) else '':>9}"
        )
    print("growth of max w on (c) in a round, by the probability of each edge beside the ring:")
    growth = {p: growths(p, draws, rounds) for p in (0.1, 0.2, 0.3, 0.5, 0.8)}
    for probability, g in growth.items():
        print(f"  p = {probability}: median {np.median(g):.4f}, {g.min():.4f} to {g.max():.4f}")
    told = verdicts(found, stops[list(KINDS)[2]] > 0, growth, rounds // 2)
    title = f"Weight balancing, Lemma 2, n = {AGENTS}: median and range of {draws} draws, {rounds} rounds"
    desk.save(figure, "weight-balancing-divergence.png", title, told)
    return told


def verdicts(
    found: dict[str, np.ndarray], stopped: np.ndarray, growth: dict[float, np.ndarray], half: int
) -> list[Verdict]:
    a, _, _, d = found.values()
    error = {name: values[:, -1, 2] for name, values in zip("abcd", found.values(), strict=True)}
    shrinks = bool((error["a"] < 0.5 * a[:, half, 2]).all() and (error["b"] < 1e-10).all())
    stalls = np.median(error["d"]) >= 0.5 * np.median(d[:, half, 2])
    return [
        Verdict(
            PAPER, ITEM, "W(t) … W(1) tends to 11ᵀ/n: on one fixed digraph, and where in-degree = out-degree",
            judged(shrinks, REPRODUCED),
            f"|Φ − 1/n| ends at {np.median(error['a']):.0e} (at most {error['a'].max():.0e}) and at "
            f"{error['b'].max():.0e}",
            "→ 0", seeds=len(a),
        ),
        Verdict(
            PAPER, ITEM, "on strongly connected digraphs that are new in every round",
            judged(not stopped.any(), REPRODUCED),
            f"w grows {np.median(growth[0.5]) - 1:.1%} a round (p = 0.5; {np.median(growth[0.2]) - 1:.1%} at p = 0.2); "
            f"mpinodes stops {stopped.sum()} of {len(a)} draws",
            "→ 0", seeds=len(a),
            because="(9) conserves Σ d_i w_i only while out-degrees are constant in time",
        ),
        Verdict(
            PAPER, ITEM, "with constant out-degrees, in-degrees that vary", NOT if stalls else REPRODUCED,
            f"w stays below {d[:, :, 0].max():.2g}, but |Φ − 1/n| stalls at {error['d'].min():.0e} to "
            f"{error['d'].max():.0e}: no consensus",
            "→ 0", seeds=len(a), because="the weights settle for no one digraph",
        ),
    ]  # fmt: skip
