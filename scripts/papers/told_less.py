"""What the papers leave to later: bandit feedback, and delays, of feedback and of links apart; by DOLA.

Regret is fitted by a + b T^p, the p and the seeds' spread of it being what is told: √T is the order of DOLA's Theorem 2
for convex losses, and that of two-point feedback (Agarwal, Dekel, Xiao 2010; Shamir 2017) and of delayed feedback
(Joulani, György, Szepesvári 2013), whose constants grow with d and with the delay. Private runs are held against their
claims, by `replay` and by the audit.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import xarray as xr
from desk import COLOURS, NOT, REPRODUCED, Desk, Verdict, judged, panels, shown
from matplotlib.axes import Axes

from mpinodes.auditing.games import canary, pairs, prepare, replays, simulate
from mpinodes.auditing.probes import probes
from mpinodes.auditing.verdicts import of_probe
from mpinodes.config.compose import compose
from mpinodes.core.experiment import parse

NEEDS: tuple[str, ...] = ()
SETTINGS = ("feedback.toml",)

FIRST, NEAR = 32, 0.15  # the horizon that fits begin with; how far above 1/2 an exponent may be
UPPER = "an upper order: these losses are drawn, not chosen against the method, and the first rounds lose most"
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


def order(regret: np.ndarray, horizons: np.ndarray) -> float:
    """The p of a + b T^p, by least squares."""
    late = horizons >= FIRST
    x, y = horizons[late].astype(float), regret[late]
    grid = np.arange(0.02, 1.5, 0.01)
    left = [np.polyfit(x**p, y, 1, full=True)[1][0] for p in grid]
    return float(grid[int(np.argmin(left))])


def orders(found: xr.Dataset) -> tuple[float, float]:
    """Of the seeds' mean, and how far those of single seeds are from each other."""
    regret = found.network_regret.values.reshape(-1, found.sizes["horizon"])
    each = [order(one, found.horizon.values) for one in regret]
    return order(regret.mean(axis=0), found.horizon.values), float(np.std(each))


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
    last = {name: float(found.network_regret.values.reshape(seeds, -1)[:, -1].mean()) for name, found in runs.items()}
    told = []
    for name, found in runs.items():
        p, spread = orders(found)
        print(f"{name}: p = {p:.2f} ± {spread:.2f}, R(T) = {last[name]:.4g}")
        if name.startswith("two"):
            against = last[name.replace("two points", "gradients")]
            told.append(
                Verdict(
                    "dpsda", "Future work: bandit feedback", f"{name}: regret grows no faster than √T",
                    judged(p < 0.5 + NEAR),
                    f"T^{p:.2f}, {last[name] / against:.1f} times as much as with gradients",
                    "at most T^0.5", f"{p - 0.5:+.2f}", seeds, f"± {spread:.2f} between seeds; {UPPER}",
                )
            )  # fmt: skip
    return told


def late(axes: Axes, desk: Desk, words: list[str], seeds: int, delays: list[int]) -> list[Verdict]:
    plain = desk.run("told-gradients", "feedback.toml", *words)
    told, drawn = [], {"neither": plain}
    at_once = float(plain.network_regret.values.reshape(seeds, -1)[:, -1].mean())
    for of, key in LATE.items():
        runs = [desk.run(f"told-late-{of}-{k}", "feedback.toml", f"{key}={k}", *words) for k in delays]
        drawn[f"{of} {delays[-1]} rounds late"] = runs[-1]
        ps = [orders(found)[0] for found in runs]
        more = [float(found.network_regret.values.reshape(seeds, -1)[:, -1].mean()) / at_once for found in runs]
        print(f"{of} late by {delays}: p {shown(ps, 2)}; R(T) times {shown(more)}")
        fits = max(ps) < 0.5 + NEAR
        claim = f"{of} that come{'s' * (of == 'feedback')} late: regret still grows no faster than √T"
        said = f"T^{shown(ps, 2)} at delays {', '.join(map(str, delays))}; R(T) × {shown(more, 3)}"
        told += [
            Verdict(
                paper, "Future work: delays", claim, judged(fits), said, "at most T^0.5", seeds=seeds,
                because=UPPER,
            )
            for paper in ("dpsda", "dola")
        ]  # fmt: skip
    draw(axes, "feedback, or links, late", drawn)
    return told


def held(desk: Desk) -> list[Verdict]:
    """Against their claims: by adjacent data, and by an attack."""
    worst, shown_to_be = 0.0, []
    rounds, number = (8, 20) if desk.quick else (30, 500)
    some = list(PROBED)[: 1 if desk.quick else None]
    for name in some:
        keys = PROBED[name]
        words = [f"algorithm.name={name}", *keys, f"rounds={rounds}", "record.transcript=true", "privacy.clip=0.1"]
        found = replays(simulate(compose(parse(None, words), None)), 0)
        ratio = max(max(each.direct, each.hidden) for each in found)
        worst = max(worst, ratio)
        print(
            f"{name}: realised/claimed at most {ratio:.4f} on {sum(each.changes for each in found)} adjacent data sets"
        )
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
    item = "Future work: bandit feedback"
    return [
        Verdict(
            "dpsda", item, "no message moves by more than is claimed", judged(worst <= 1 + 1e-9, REPRODUCED),
            f"at most {worst:.3f} of it, by replay", because="" if worst <= 1 + 1e-9 else "a claim is exceeded",
        ),
        Verdict(
            "dpsda", item, "what an attack shows is below what is proven", NOT if refuted else REPRODUCED,
            "; ".join(shown_to_be), because="a proven bound is refuted" if refuted else "",
        ),
    ]  # fmt: skip


def redraw(desk: Desk) -> list[Verdict]:
    seeds, delays = (1, [2]) if desk.quick else (3, DELAYS)
    words = [f"repeats={seeds}", *(["rounds=160"] if desk.quick else [])]
    figure, (left, right) = panels(1, 2, width=5.0, height=4.0)
    told = [*bandit(left, desk, words, seeds), *late(right, desk, words, seeds, delays)]
    lines = [verdict for verdict in told if verdict.paper == "dpsda"]
    title = f"DOLA, absolute loss, d = 5, four agents: network regret, mean of {seeds} seeds"
    desk.save(figure, "told-less.png", title, lines)
    return [*told, *held(desk)]
