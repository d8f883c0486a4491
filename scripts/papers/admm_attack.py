"""Appendix E: one sample of an ADMM agent inferred from all that was said, its penalties known, assumed and fitted.

Zhang, Khalili, Liu. Three agents of 50 samples in R^5, C = B = 50, θ = 0.5, α = 3, ρ = 0.3; a fifth of the labels is
wrong, that of the unknown sample too. Above: the cosine between what the attacker finds and y x of that sample. Below:
β of Theorem 4.1, and what mpinodes proves.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from appendix_e import Known, cosine, fit_growth, infer, known
from desk import COLOURS, REPRODUCED, Desk, Verdict, judged, panels, save

import mpinodes
from mpinodes.auditing.transcripts import Recorded
from mpinodes.core.experiment import log_spaced

NEEDS: tuple[str, ...] = ()
SETTINGS: tuple[str, ...] = ()
PAPER, ITEM = "madmm", "Appendix E"

AGENTS, SAMPLES, DIMENSION = 3, 50, 5
STEP = 0.5
GROWTH = 1.002
FIRST = 10  # iteration drawn


class Attacked(NamedTuple):
    run: Recorded
    known: Known  # of agent 0, but for its sample 0
    sample: np.ndarray  # y x of that one


def samples(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Features (agents, B, d) of a norm between 0.6 and 1, each entry at most 1/√d; labels (agents, B)."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.6, 1, (AGENTS, SAMPLES, DIMENSION)) * rng.choice([-1, 1], (AGENTS, SAMPLES, DIMENSION))
    x /= np.sqrt(DIMENSION)
    truth = np.sign(x @ rng.normal(size=DIMENSION))
    wrong = rng.random(truth.shape) < 0.2
    wrong[0, 0] = True
    return x, np.where(wrong, -truth, truth)


def attacked(desk: Desk, growth: float, rounds: int, seed: int) -> Attacked:
    """A run of so many iterations, made where its directory does not hold it yet."""
    x, y = samples(seed)
    below = desk.runs / "admm-attack"
    place = below / f"growth-{growth}-rounds-{rounds}-seed-{seed}"

    def make() -> None:
        for i in range(AGENTS):
            save(below / f"samples-{seed}-{i}.npz", features=x[i], targets=y[i])
        mpinodes.run_lockstep(experiment(below, growth, rounds, seed) | {"output": {"dir": str(place)}})

    desk.once(place, make)
    run = Recorded(place)
    return Attacked(run, known(run, 0, 0), y[0, 0] * x[0, 0])


def experiment(below: Path, growth: float, rounds: int, seed: int) -> dict[str, object]:
    return {
        "seed": seed,
        "noise": {"key": f"growth {growth}"},  # not of where the samples lie
        "rounds": rounds + 1,
        "report": False,
        "comparator": False,
        "record": {"transcript": True},
        "algorithm": {
            "name": "pp-admm", "dual_step": STEP, "penalty": STEP, "penalty_growth": growth, "noise_growth": 1.0,
        },
        "data": {
            "name": "file", "file": str(below / f"samples-{seed}-{{agent}}.npz"), "bound": 1 / DIMENSION**0.5,
            "labels": [-1, 1], "columns": DIMENSION, "batch": "all", "partition": "even",
        },
        "topology": {"name": "ring", "agents": AGENTS},
        "problem": {"weight": float(SAMPLES), "regularizer": 0.3 / AGENTS, "set": "none"},
    }  # fmt: skip


def proven(run: Recorded) -> np.ndarray:
    """(T,) the loss of agent 0 that is accounted for, after each iteration."""
    events = run.events[1:, 0]
    return np.cumsum(events.l1[:, 0] / events.scale[:, 0])


def claimed(run: Recorded, shown: np.ndarray) -> np.ndarray:
    """β after these iterations."""
    return np.array([run.setup.algorithm.claimed_epsilon(t + 1, 1)[0] for t in shown.tolist()])


def followed(runs: list[Attacked], penalty: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """(runs, shown) cosines after these iterations, by one schedule of penalties."""
    return np.array([cosine(infer(each.known, penalty), each.sample)[shown - 1] for each in runs])


def fitted(runs: list[Attacked], shown: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same by penalties that are fitted to these iterations; and the growths found."""
    cosines, growths = np.empty((len(runs), len(shown))), np.empty((len(runs), len(shown)))
    for i, each in enumerate(runs):
        for k, rounds in enumerate(shown.tolist()):
            few = each.known.until(rounds)
            growths[i, k] = fit_growth(few, STEP)
            cosines[i, k] = cosine(infer(few, STEP * growths[i, k] ** np.arange(rounds))[-1], each.sample)
    return cosines, growths


def redraw(desk: Desk) -> list[Verdict]:
    rounds, seeds, points = (600, 2, 2) if desk.quick else (5000, 24, 30)
    shown = log_spaced(rounds, points)
    shown = shown[shown >= FIRST]
    same, private = ([attacked(desk, q, rounds, seed) for seed in range(seeds)] for q in (1.0, GROWTH))
    penalty = STEP * GROWTH ** np.arange(rounds)
    by_fit, growths = fitted(private, shown)
    curves = {
        "DVP: η = θ, known": followed(same, np.full(rounds, STEP), shown),
        f"PP: η(t) = θ · {GROWTH}^(t−1), known": followed(private, penalty, shown),
        "PP, attacker assumes η = θ": followed(private, np.full(rounds, STEP), shown),
        "PP, attacker fits the growth": by_fit,
    }
    figure, (above, beneath) = panels(2, 1, width=7.0, height=2.9)
    for colour, style, (name, values) in zip(COLOURS, ("-", "-", "-", "--"), curves.items(), strict=False):
        mean, error = values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))
        above.fill_between(shown, mean - error, mean + error, color=colour, alpha=0.15, lw=0)
        above.plot(shown, mean, style, color=colour, label=name)
    above.set(xscale="log", ylim=(-0.2, 1.02), ylabel="cosine with y x", title="what the attacker finds")
    betas = [claimed(runs[0].run, shown) for runs in (same, private)]
    for colour, name, runs, beta in zip(COLOURS, ("DVP", "PP"), (same, private), betas, strict=False):
        beneath.plot(shown, beta, color=colour, label=f"{name}: β of Theorem 4.1")
        beneath.plot(shown, proven(runs[0].run)[shown - 1], ":", color=colour, label=f"{name}: proven")
    beneath.set(xscale="log", yscale="log", xlabel="iterations T", ylabel="ε", title="privacy loss at most")
    for axes in (above, beneath):
        axes.legend(fontsize=7)
    print(f"{'T':>6}" + "".join(f" {name:>8}" for name in ("DVP", "known", "assumed", "fitted", "β DVP", "β PP", "q")))
    for k, t in enumerate(shown.tolist()):
        found = "".join(f" {values[:, k].mean():8.3f}" for values in curves.values())
        print(f"{t:6}{found} {betas[0][k]:8.0f} {betas[1][k]:8.0f} {growths[:, k].mean():8.5f}")
    dvp, best, assumed, fit = (values[:, -1].mean() for values in curves.values())
    q = f"{growths[:, -1].mean():.5f} ± {growths[:, -1].std(ddof=1):.5f}"
    told = [
        Verdict(
            PAPER, ITEM, "known penalties: the unknown sample is inferred", judged(min(dvp, best) > 0.9, REPRODUCED),
            f"cosine {dvp:.3f} (DVP) and {best:.3f} (PP) at T = {rounds}, where β is {betas[0][-1]:.0f} and "
            f"{betas[1][-1]:.0f}", "inferred", seeds=seeds,
        ),
        Verdict(
            PAPER, ITEM, "with private penalties that is impossible", judged(fit < best - 0.05, REPRODUCED),
            f"cosine {fit:.3f} with the growth fitted ({q}); {assumed:.3f} if η = θ is assumed", "impossible",
            seeds=seeds,
            because="the growth of the penalties is fitted by maximum likelihood to what was said",
        ),
    ]  # fmt: skip
    title = f"ADMM, Appendix E: {seeds} runs, mean and its standard error"
    desk.save(figure, "admm-attack.png", title, told)
    return told
