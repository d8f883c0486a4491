"""What the papers leave to later: bandit feedback, and delays, of feedback and of links apart; by DOLA.

Regret is fitted by a + b T^p for each seed, and told are the mean of p and its standard error over the seeds; "no
faster than √T" is where p is below 1/2 by two of these. √T is the order of DOLA's Theorem 2
for convex losses, and that of two-point feedback (Agarwal, Dekel, Xiao 2010; Shamir 2017) and of delayed feedback
(Joulani, György, Szepesvári 2013), whose constants grow with d and with the delay. Private runs are held against their
claims, by `replay` and by the audit.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xarray as xr
from desk import COLOURS, HERE, NOT, ORDER, REPRODUCED, UNCONFIRMED, Desk, Verdict, apart, judged, panels
from matplotlib.axes import Axes

from mpinodes.auditing.adjacent_replay import replays
from mpinodes.auditing.games import canary, pairs, prepare
from mpinodes.auditing.small_experiments import probes
from mpinodes.auditing.transcripts import simulate
from mpinodes.auditing.verdicts import Verdict as Row
from mpinodes.auditing.verdicts import of_probe
from mpinodes.config.compose import compose
from mpinodes.core.asked import parse

NEEDS: tuple[str, ...] = ()
SETTINGS = ("feedback.toml",)

FIRST = 32  # the horizon that fits begin with
GRID = np.arange(0.02, 1.5, 0.01)  # of p
UPPER = (
    "p is the mean of single seeds' fits and its standard error; below 1/2 is by two of these; an upper order: these "
    "losses are drawn, not chosen against the method, and the first rounds lose most"
)
TOO_LATE = "up to these T; before messages come, regret grows as T"
HARDLY = 0.5  # of the regret of always deciding 0
TOLD = {
    "gradients": [],
    "two points": ["feedback.points=2"],
    "gradients, ε = 10": ["privacy.epsilon=10"],
    "two points, ε = 10": ["feedback.points=2", "privacy.epsilon=10"],
}
LATE = {"feedback": "feedback.delay", "links": "faults.delay"}
DELAYS = [4, 16, 64]
PROBED = {
    "dola": ["feedback.points=2"],
    "weight-balancing": [
        "feedback.points=2", "algorithm.gradient_at=public", "algorithm.noise_index=corrected", "feedback.delay=3",
    ],
    "dpsda-c": ["feedback.points=2", "data.name=olr", "privacy.scale=calibrated"],
}  # fmt: skip


class Order(NamedTuple):
    """Of the growth of regret.

    Attributes:
        p: mean over the seeds of the p of a + b T^p.
        error: its standard error.
        flat: whether that of all seeds is the least that is tried.
        last: mean of R(T).
    """

    p: float
    error: float
    flat: bool
    last: float

    @property
    def words(self) -> str:
        return f"no growth seen (p ≤ {GRID[0]:g})" if self.flat else f"T^{self.p:.2f} ± {self.error:.2f}"

    @property
    def verdict(self) -> str:
        return apart(0.5 - self.p, self.error)


def exponent(regret: np.ndarray, horizons: np.ndarray) -> float:
    """The p of a + b T^p, by least squares."""
    late = horizons >= FIRST
    x, y = horizons[late].astype(float), regret[late]
    left = [np.polyfit(x**p, y, 1, full=True)[1][0] for p in GRID]
    return float(GRID[int(np.argmin(left))])


def order(found: xr.Dataset) -> Order:
    regret = found.network_regret.values.reshape(-1, found.sizes["horizon"])
    each = np.array([exponent(one, found.horizon.values) for one in regret])
    error = float(each.std(ddof=1) / np.sqrt(len(each))) if len(each) > 1 else np.nan
    return Order(float(each.mean()), error, bool((each == GRID[0]).all()), float(regret[:, -1].mean()))


def worst_of(verdicts: list[str]) -> str:
    return next(word for word in (NOT, UNCONFIRMED, ORDER) if word in verdicts)


def idle(found: xr.Dataset, words: list[str]) -> float:
    """The regret of always deciding 0."""
    setup = compose(parse(str(HERE / "feedback.toml"), words), None)
    zero, rounds = np.zeros(setup.dimension), range(1, int(found.horizon[-1]) + 1)
    lost = sum(setup.stream.of(i)(t).value(zero) for i in range(setup.topology.agents) for t in rounds)
    return float(lost - found.comparator_value.values.reshape(-1, found.sizes["horizon"])[0, -1])


def draw(axes: Axes, title: str, runs: dict[str, xr.Dataset]) -> None:
    for colour, (name, found) in zip(COLOURS, runs.items(), strict=False):
        regret = found.network_regret.values.reshape(-1, found.sizes["horizon"]).mean(axis=0)
        axes.plot(found.horizon, regret, color=colour, marker="o", ms=2.5, label=name)
    t = found.horizon.values.astype(float)
    axes.plot(t, regret[-1] * np.sqrt(t / t[-1]), color="black", lw=0.7, ls=":", label="√T")
    axes.set(xscale="log", yscale="log", xlabel="T", ylabel="R(T)", title=title)
    axes.legend()


def bandit(axes: Axes, desk: Desk, words: list[str], seeds: int) -> list[Verdict]:
    runs = {
        name: desk.run(f"told-{name.replace(' ', '-')}", "feedback.toml", *keys, *words) for name, keys in TOLD.items()
    }
    draw(axes, "bandit feedback", runs)
    orders = {name: order(found) for name, found in runs.items()}
    nothing = idle(runs["gradients"], words)
    print(f"always deciding 0: R(T) = {nothing:.4g}")
    told = []
    for name, own in orders.items():
        print(f"{name}: {own.words}, R(T) = {own.last:.4g}")
        if name.startswith("two"):
            against, share = orders[name.replace("two points", "gradients")], own.last / nothing
            hardly = f", {share:.0%} of that of always deciding 0: it hardly learned" if share > HARDLY else ""
            told.append(
                Verdict(
                    "dpsda", "Future work: bandit feedback", f"{name}: regret grows no faster than √T", own.verdict,
                    f"{own.words}, {own.last / against.last:.1f} times as much as with gradients{hardly}",
                    "at most T^0.5", f"{own.p - 0.5:+.2f}", seeds, UPPER,
                )
            )  # fmt: skip
    return told


def late(axes: Axes, desk: Desk, words: list[str], seeds: int, delays: list[int]) -> list[Verdict]:
    plain = desk.run("told-gradients", "feedback.toml", *words)
    told, drawn = [], {"neither": plain}
    at_once = order(plain).last
    for of, key in LATE.items():
        runs = [desk.run(f"told-late-{of}-{k}", "feedback.toml", f"{key}={k}", *words) for k in delays]
        drawn[f"{of} {delays[-1]} rounds late"] = runs[-1]
        orders = [order(found) for found in runs]
        more = [own.last / at_once for own in orders]
        said = "; ".join(
            f"{k} rounds late {own.words}, R(T) × {times:.3g}"
            for k, own, times in zip(delays, orders, more, strict=True)
        )
        print(f"{of}: {said}")
        claim = f"{of} that come{'s' * (of == 'feedback')} late: regret still grows no faster than √T"
        verdict = worst_of([own.verdict for own in orders])
        told += [
            Verdict(
                paper, "Future work: delays", claim, verdict, said, "at most T^0.5", seeds=seeds,
                because=UPPER if verdict == ORDER else f"{TOO_LATE}; {UPPER}",
            )
            for paper in ("dpsda", "dola")
        ]  # fmt: skip
    draw(axes, "feedback, or links, late", drawn)
    return told


def held(desk: Desk) -> list[Verdict]:
    """Against their claims: by adjacent data, and by an attack."""
    worst, seen, shown_to_be, broken = 0.0, [], [], []
    rounds, number = (8, 20) if desk.quick else (30, 500)
    some = list(PROBED)[: 1 if desk.quick else None]
    for name in some:
        keys = PROBED[name]
        words = [f"algorithm.name={name}", *keys, f"rounds={rounds}", "record.transcript=true", "privacy.clip=0.1"]
        found = replays(simulate(compose(parse(None, words), None)), 0)
        ratio, changes = max(max(each.direct, each.hidden) for each in found), sum(each.changes for each in found)
        worst = max(worst, ratio)
        seen.append(f"{name} {ratio:.3f} on {changes}")
        print(f"{name}: realised/claimed at most {ratio:.4f} on {changes} adjacent data sets whose change is sent")
    refuted = False
    for name in ("dola", "dpsda-c")[: len(some)]:
        with tempfile.TemporaryDirectory() as folder:
            probe = probes({"name": name}, 0, Path(folder), feedback={"points": 2})[0]
            ready = prepare(probe, Path(folder) / "run")
            target = canary(ready, 0)
            ratios = pairs(ready.run.setup, target, range(number), 0)
            for row in of_probe(ready, target, ratios, 0.01, 0):
                refuted |= row.refuted
                print(f"{name}: {row.what}: {row.shown}; proven pure {row.pure}; {row.verdict}")
                if row.pure is not None:
                    shown_to_be.append(f"{name}: ε ≥ {row.shown} of {row.pure:g} proven")
                if row.claimed is not None and "refutes the paper's claim" in row.verdict:
                    broken.append(claim_broken(name, row, ready.run.setup.topology.agents))
    item = "Future work: bandit feedback"
    return [
        Verdict(
            "dpsda", item, "no message moves by more than is claimed", judged(worst <= 1 + 1e-9, REPRODUCED),
            f"realised over claimed at most {', '.join(seen)} adjacent data sets, by replay",
            because="" if worst <= 1 + 1e-9 else "a claim is exceeded",
        ),
        Verdict(
            "dpsda", item, "what an attack shows is below what is proven", NOT if refuted else REPRODUCED,
            "; ".join(shown_to_be), because="a proven bound is refuted" if refuted else "",
        ),
        *broken,
    ]  # fmt: skip


def claim_broken(name: str, row: Row, agents: int) -> Verdict:
    """An attack on all links shows more than the paper has for one agent."""
    return Verdict(
        "dpsda", "Future work: bandit feedback",
        f"{name}, two points: who sees all that is sent learns at most the paper's ε", NOT,
        f"an attack shows ε ≥ {row.shown} ({row.what}); proven {row.pure:g}", f"ε = {row.claimed:g}",
        because=f"the paper counts what one agent sends; all {agents} agents send of the same sample",
    )  # fmt: skip


def redraw(desk: Desk) -> list[Verdict]:
    seeds, delays = (1, [2]) if desk.quick else (3, DELAYS)
    words = [f"repeats={seeds}", *(["rounds=80"] if desk.quick else [])]
    figure, (left, right) = panels(1, 2, width=5.0, height=4.0)
    told = [*bandit(left, desk, words, seeds), *late(right, desk, words, seeds, delays)]
    lines = [verdict for verdict in told if verdict.paper == "dpsda"]
    title = f"DOLA, absolute loss, d = 5, four agents: network regret, mean of {seeds} seeds"
    desk.save(figure, "told-less.png", title, lines)
    return [*told, *held(desk)]
