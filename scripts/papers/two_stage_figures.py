"""Two-stage Gaussian consensus on its mean estimation: error by T, ε and δ, graph, and points per agent.

Showkatbakhsh, Karakus, Diggavi, section V. W keeps the mean and η(t) = 1/(N_i t), so where no projection acts
t x̄(t) = t d̄ + Σ_{s<t} s n̄(s), and with N agents and Theorem 2's M(s) the error is

    E‖x̄(T) − d̄‖² = p/(N T²) Σ_{s<T} s² M²(s),  and with s ≤ T that of the noisy release ȳ(T + 1).

Agent i has d̄_i/t beside W's mix of t x(t), so W^(T−s) instead of the mean. The predecessor's x̄ is contracted by
1 − N_i γ(t) in round t: what is left after all rounds has no noise in it, and does not vanish as ε grows.

The box of radius R is a projection, and acts where noise is large: its error is below the closed form's at small ε.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import log, sqrt
from pathlib import Path

import h5py
import numpy as np
from desk import COLOURS, Desk, Verdict, judged, panels, recorded, shown
from matplotlib.axes import Axes

NEEDS: tuple[str, ...] = ()
SETTINGS = ("two-stage.toml", "two-stage-predecessor.toml")
PAPER = "two-stage"

AGENTS, DIMENSION, RADIUS = 10, 5, 5.0
EPSILON, POINTS = 4.0, 100
DELTA = 1 / (AGENTS * POINTS)
NEAR = 0.25  # of −2, a slope over all ε
SPREAD = 2 * RADIUS * sqrt(DIMENSION)  # largest distance of two points
CONNECTED = 14  # the seed of Fig. 3, of which on 20 find a connected graph at p_c = 0.1; 13 does not
FIRST, FALLS, NOISE_FALLS = 0.005, 0.9, 0.95  # the predecessor's steps and noise


@dataclass(frozen=True)
class Size:
    """How large the experiments are."""

    steps: tuple[int, ...]  # T of Fig. 1
    many: int  # T of Fig. 2
    fewer: int  # T of Fig. 3
    some: int  # T of Fig. 4 and beside the predecessor
    repeats: int  # of Fig. 2, 3 and the predecessor
    more_repeats: int  # of Fig. 1 and 4
    epsilons: tuple[float, ...]
    deltas: tuple[float, ...]
    more_epsilons: tuple[float, ...]  # beside the predecessor
    probabilities: tuple[float, ...]
    shares: tuple[int, ...]  # points per agent


FULL = Size(
    steps=(1, 2, 5, 10, 30, 100, 300, 1000),
    many=1000,
    fewer=300,
    some=100,
    repeats=20,
    more_repeats=40,
    epsilons=(0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
    deltas=(DELTA, DELTA**2, DELTA**3),
    more_epsilons=(0.25, 1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0),
    probabilities=(0.1, 0.3, 0.6, 1.0),
    shares=(25, 50, 100, 200, 400),
)
QUICK = Size(
    steps=(1, 20),
    many=20,
    fewer=20,
    some=20,
    repeats=2,
    more_repeats=2,
    epsilons=(0.5, 8.0),
    deltas=(DELTA, DELTA**3),
    more_epsilons=(4.0, 4096.0),
    probabilities=(0.1, 1.0),
    shares=(50, 200),
)


@dataclass(frozen=True)
class Experiments:
    """Runs of two-stage.toml, by what is not as it has it."""

    desk: Desk

    def __call__(self, steps: int, repeats: int, *pairs: str) -> Path:
        """Where the runs with so many gradient rounds are."""
        what = [key.rpartition(".")[2] + value for key, _, value in (pair.partition("=") for pair in pairs)]
        given = [*pairs, f"algorithm.gradient_rounds={steps}", f"rounds={steps + 2}", f"repeats={repeats}"]
        return self.desk.made("-".join(["two-stage", f"t{steps}", *what, f"x{repeats}"]), "two-stage.toml", *given)

    def predecessor(self, rounds: int, repeats: int, epsilon: float) -> Path:
        pairs = [f"privacy.epsilon={epsilon}", f"rounds={rounds}", f"repeats={repeats}"]
        return self.desk.made(f"predecessor-t{rounds}-eps{epsilon:g}-x{repeats}", "two-stage-predecessor.toml", *pairs)


def last_errors(place: Path) -> np.ndarray:
    """(repeats,) normalized, at the end; all agents decide 0 in round 1."""
    errors = recorded(place, "decision_error")
    return np.asarray(errors[:, -1] / errors[:, 0])


def estimates(place: Path) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """(repeats, 2, agents, p) x(T) and the mix of y(T + 1) less d̄, over ‖d̄‖; x(1) likewise, d̄_i; by repeat, W."""
    decided, graphs = [], []
    for repeat in sorted(place.glob("repeat-*")):
        with h5py.File(repeat / "record.h5") as record:
            best = record["comparator_point"][-1]
            decided.append((record["decision"][:] - best) / np.linalg.norm(best))
            graphs.append(weights(json.loads(record.attrs["topology"])))
    decisions = np.array(decided)
    return decisions[:, -2:], decisions[0, 1], graphs


def weights(topology: dict[str, list[list[tuple[int, int]]]]) -> np.ndarray:
    """W = I − 2/(3 λ_max) L of the graph of round 1."""
    laplacian = np.zeros((AGENTS, AGENTS))
    laplacian[tuple(np.array(topology["rounds"][0]).T)] = -1
    laplacian -= np.diag(laplacian.sum(axis=1))
    return np.eye(AGENTS) - 2 / (3 * np.linalg.eigvalsh(laplacian)[-1]) * laplacian


def squared(x: np.ndarray) -> np.ndarray:
    return (x**2).sum(axis=-1)


def shares_of_noise(steps: int, epsilon: float, delta: float, points: int) -> np.ndarray:
    """(T,) s² M²(s)/T² by Theorem 2."""
    s = np.arange(1, steps + 1)
    kappa = epsilon**2 / (SPREAD**2 * (epsilon + 2 * log(2 / delta)))
    return 2 / kappa / points**2 * sqrt(steps) * np.sqrt(s) / steps**2


def law(steps: int, epsilon: float = EPSILON, delta: float = DELTA, points: int = POINTS, noisy: bool = True) -> float:
    """E‖ȳ(T + 1) − d̄‖², or E‖x̄(T) − d̄‖²."""
    shares = shares_of_noise(steps, epsilon, delta, points)
    return DIMENSION / AGENTS * float(shares[: None if noisy else -1].sum())


def law_of_agent(w: np.ndarray, means: np.ndarray, norm: float, steps: int) -> float:
    """E‖x_0(T) − d̄‖²/‖d̄‖² on a graph."""
    powers = [np.eye(AGENTS)[0]]  # row 0 of W^k
    for _ in range(steps):
        powers.append(powers[-1] @ w)
    noise = shares_of_noise(steps, EPSILON, DELTA, POINTS)[:-1] @ squared(np.array(powers[1:steps][::-1]))
    return DIMENSION * float(noise) / norm + float(squared(np.mean(powers[:steps], axis=0) @ means))


def law_of_predecessor(rounds: int, epsilon: float, norm: float) -> tuple[float, float]:
    """E‖x̄(T) − d̄‖²/‖d̄‖², and its part without noise."""
    t = np.arange(1, rounds)
    kept = 1 - POINTS * FIRST * FALLS ** (t - 1)
    left = np.append(np.cumprod(kept[::-1])[::-1], 1)  # of what was there before update t
    scale = sqrt(DIMENSION) * SPREAD * FIRST * NOISE_FALLS**t / (epsilon * (NOISE_FALLS - FALLS))
    noise = 2 * DIMENSION / AGENTS * float(((scale[:-1] * left[1:-1]) ** 2).sum())
    return noise / norm + float(left[0] ** 2), float(left[0] ** 2)


def slope(x: np.ndarray | tuple[float, ...], y: np.ndarray | list[float]) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def spread(axes: Axes, x: tuple[float, ...], errors: np.ndarray, colour: str, label: str) -> None:
    """Mean and, as a band, the middle 80 % of (x, repeats)."""
    axes.fill_between(x, *np.quantile(errors, [0.1, 0.9], axis=1), color=colour, alpha=0.15, lw=0)
    axes.plot(x, errors.mean(axis=1), color=colour, marker="o", ms=3, label=label)


def off(errors: np.ndarray, laws: list[float]) -> float:
    """The most that means of (x, repeats) are away from the closed form, in standard errors: p normal coordinates'."""
    standard = np.array(laws) * sqrt(2 / (DIMENSION * errors.shape[1]))
    return float(np.max(np.abs(errors.mean(axis=1) - laws) / standard))


def local_slopes(x: tuple[float, ...], y: np.ndarray | list[float]) -> np.ndarray:
    """Between neighbouring points."""
    return np.asarray(np.diff(np.log(y)) / np.diff(np.log(x)))


def norm_of(place: Path) -> float:
    """‖d̄‖²."""
    return float(recorded(place, "decision_error")[0, 0])


def figure_1(make: Experiments, size: Size) -> list[Verdict]:
    places = [make(t, size.more_repeats, "record.decisions=true") for t in size.steps]
    norm = norm_of(places[0])
    ends = [estimates(place)[0].mean(axis=2) for place in places]  # (repeats, 2, p): x̄(T), ȳ(T + 1)
    printed, noisy = np.moveaxis([squared(end) for end in ends], 2, 0)
    laws = {kind: [law(t, noisy=kind == "noisy") / norm for t in size.steps] for kind in ("noisy", "printed")}
    figure, (axes,) = panels(1, 1, width=6.4)
    spread(axes, size.steps, noisy, COLOURS[0], "noisy release, ȳ(T + 1)")
    spread(axes, size.steps[1:], printed[1:], COLOURS[2], "as printed, x̄(T); 0 at T = 1")
    axes.plot(size.steps, laws["noisy"], "k--", label="closed forms")
    axes.plot(size.steps[1:], laws["printed"][1:], "k--")
    axes.set(xscale="log", yscale="log", xlabel="T", ylabel="normalized error", title="mean, and middle 80 % of seeds")
    axes.legend()
    print(f"normalized error by T = {shown(list(size.steps))}:")
    for name, found, wanted in (("noisy release", noisy, laws["noisy"]), ("as printed", printed, laws["printed"])):
        print(f"  {name}: {shown(found.mean(axis=1))}")
        print(f"  {name}, closed form: {shown(wanted)}")
    told = [
        Verdict(
            PAPER, "Fig. 1", "the error of what is released, ȳ(T + 1), falls to a neighbourhood",
            judged(bool(noisy[0].mean() > noisy[-1].mean())),
            f"{noisy[0].mean():.3g} at T = 1 to {noisy[-1].mean():.3g} at T = {size.steps[-1]}", "falls",
            f"closed form {laws['noisy'][0]:.3g} to {laws['noisy'][-1]:.3g}, at most {off(noisy, laws['noisy']):.1f} "
            "standard errors away", size.more_repeats,
        ),
        Verdict(
            PAPER, "Fig. 1", "the error of x̄(T), as printed, falls",
            judged(bool(printed[0].mean() > printed[-1].mean())),
            f"{printed[0].mean():.1g} at T = 1, {printed[1].mean():.3g} at {size.steps[1]}, {printed[-1].mean():.3g} "
            f"at {size.steps[-1]}", "falls",
            f"closed form {laws['printed'][1]:.3g} and {laws['printed'][-1]:.3g}, at most "
            f"{off(printed[1:], laws['printed'][1:]):.1f} standard errors away", size.more_repeats,
            "x̄(1) is the exact mean: no noise was said yet; it rises to where the release falls to",
        ),
    ]  # fmt: skip
    title = f"Two-stage, Fig. 1: ε = 4, δ = 1e-3, {size.more_repeats} seeds"
    make.desk.save(figure, "two-stage-figure-1.png", title, told)
    return told


def figure_2(make: Experiments, size: Size) -> list[Verdict]:
    figure, axes = panels(1, 2, width=4.6)
    said, laid, apart, means, slopes = [], [], [], [], []
    for colour, delta in zip(COLOURS, size.deltas, strict=False):
        pairs = [(f"privacy.epsilon={e}", f"privacy.delta={delta:.0e}") for e in size.epsilons]
        places = [make(size.many, size.repeats, *pair) for pair in pairs]
        errors = np.array([last_errors(place) for place in places])
        laws = [law(size.many, e, delta) / norm_of(places[0]) for e in size.epsilons]
        spread(axes[0], size.epsilons, errors, colour, f"δ = {delta:.0e}")
        axes[0].plot(size.epsilons, laws, "k--", label="closed form" if delta == size.deltas[-1] else None)
        means.append(errors.mean(axis=1))
        print(f"δ = {delta:.0e}, by ε = {shown(list(size.epsilons))}: {shown(means[-1])}; closed form {shown(laws)}")
        here, wanted = local_slopes(size.epsilons, means[-1]), local_slopes(size.epsilons, laws)
        print(f"  local slopes {shown(here)}; closed form {shown(wanted)}")
        slopes.append(slope(size.epsilons, means[-1]))
        said.append(f"{slopes[-1]:.3f} ({shown(here)}) at δ = {delta:.0e}")
        laid.append(f"{slope(size.epsilons, laws):.3f} ({shown(wanted)})")
        apart.append(f"{slopes[-1] - slope(size.epsilons, laws):+.3f}")
    axes[0].set(title=f"T = {size.many}, {size.repeats} seeds", ylabel="normalized error")
    more = np.diff(means, axis=0) > 0
    told = [
        Verdict(
            PAPER, "Fig. 2", "the error goes as 1/ε²: slopes over all ε (and from each ε to the next)",
            judged(max(abs(s + 2) for s in slopes) < NEAR), "; ".join(said),
            "−2 (closed form: " + "; ".join(laid) + ")", ", ".join(apart) + " from the closed form's", size.repeats,
            f"it holds if all slopes are within {NEAR:g} of −2, which is reached as ε → 0 alone, for ε + 2 log(2/δ) "
            "grows; there the box bends the slopes back",
        ),
        Verdict(
            PAPER, "Fig. 2", "less δ, more error", judged(bool(more.all())),
            f"in {more.sum()} of {more.size} steps from one δ to the next at one ε", seeds=size.repeats,
        ),
        beside_predecessor(axes[1], make, size),
    ]  # fmt: skip
    for panel in axes:
        panel.set(xscale="log", yscale="log", xlabel="ε")
        panel.legend()
    axes[0].set_xticks(size.epsilons, [f"{e:g}" for e in size.epsilons])
    axes[0].minorticks_off()
    title = "Two-stage, Fig. 2: mean and middle 80 % of seeds"
    make.desk.save(figure, "two-stage-figure-2.png", title, told)
    return told


def beside_predecessor(axes: Axes, make: Experiments, size: Size) -> Verdict:
    rounds = size.some + 1
    places = [make(size.some, size.repeats, f"privacy.epsilon={e}") for e in size.more_epsilons]
    ours = np.array([last_errors(place) for place in places])
    theirs = np.array([last_errors(make.predecessor(rounds, size.repeats, e)) for e in size.more_epsilons])
    norm = norm_of(places[0])
    laws = [law_of_predecessor(rounds, e, norm) for e in size.more_epsilons]
    spread(axes, size.more_epsilons, theirs, COLOURS[3], "huang-dp, ε-DP")
    spread(axes, size.more_epsilons, ours, COLOURS[0], "two-stage, (ε, 1e-3)-DP")
    axes.plot(size.more_epsilons, [law(size.some, e) / norm for e in size.more_epsilons], "k--", label="closed forms")
    axes.plot(size.more_epsilons, [value for value, _ in laws], "k--")
    axes.axhline(laws[-1][1], color=COLOURS[3], ls=":", label="huang-dp without noise")
    axes.set(title=f"{size.some} gradient rounds, {size.repeats} seeds")
    print(f"by ε = {shown(list(size.more_epsilons))}: two-stage {shown(ours.mean(axis=1))}")
    print(f"  huang-dp {shown(theirs.mean(axis=1))}; closed form {shown([value for value, _ in laws])}")
    floor, last, four = laws[-1][1], size.more_epsilons[-1], size.more_epsilons.index(EPSILON)
    stays = bool(theirs[-1].mean() > 0.8 * floor > ours[-1].mean())
    return Verdict(
        PAPER, "The predecessor", "its error does not vanish as ε grows", judged(stays),
        f"{floor:.3g} without noise; at ε = {last:g} {theirs[-1].mean():.3g} against {ours[-1].mean():.3g}, at ε = 4 "
        f"{theirs[four].mean():.3g} against {ours[four].mean():.3g}", seeds=size.repeats,
    )  # fmt: skip


def figure_3(axes: Axes, make: Experiments, size: Size) -> Verdict:
    """By graph: agent 0."""
    found, laws = [], []
    for probability in size.probabilities:
        pairs = ["record.decisions=true", f"topology.probability={probability}", f"seed={CONNECTED}"]
        place = make(size.fewer, size.repeats, *pairs)
        decisions, means, graphs = estimates(place)
        found.append(squared(decisions[:, 0]))  # (repeats, agents), x_i(T)
        norm = norm_of(place)
        laws.append(float(np.mean([law_of_agent(w, means, norm, size.fewer) for w in graphs])))
    errors = np.array(found)
    first, pairs = errors[:, :, 0], errors[0, :, 0] - errors[-1, :, 0]
    spread(axes, size.probabilities, first, COLOURS[0], "agent 0, x_0(T)")
    axes.plot(size.probabilities, laws, "k--", label="closed form of these graphs")
    title = f"Fig. 3: T = {size.fewer}, {size.repeats} seeds"
    axes.set(xlabel="p_c", ylabel="normalized error", title=title, ylim=(0, None))
    axes.legend()
    print(
        f"Fig. 3, by p_c = {shown(list(size.probabilities))}: agent 0 {shown(first.mean(axis=1))}; closed {shown(laws)}"
    )
    print(f"  mean over agents {shown(errors.mean(axis=(1, 2)))}")
    error = pairs.std(ddof=1) / sqrt(len(pairs))
    in_order = [bool((np.diff(values) < 0).all()) for values in (first.mean(axis=1), laws)]
    return Verdict(
        PAPER, "Fig. 3", "more edges, less error of the first agent", judged(in_order[0]), shown(first.mean(axis=1)),
        f"falls (closed form of these graphs: {shown(laws)})",
        f"same noise, p_c = 0.1 less 1: {pairs.mean():.2g} ± {error:.1g}", size.repeats,
        "" if in_order[0] else "the order is as small as what is left of the noise",
    )  # fmt: skip


def figure_4(axes: Axes, make: Experiments, size: Size) -> Verdict:
    """By points per agent."""
    said, laid, falls = [], [], []
    for colour, follows in ((COLOURS[0], True), (COLOURS[2], False)):
        deltas = [1 / (AGENTS * k) if follows else DELTA for k in size.shares]
        words = [(f"data.points={k}", f"privacy.delta={d:.6g}") for k, d in zip(size.shares, deltas, strict=True)]
        places = [make(size.some, size.more_repeats, *pair) for pair in words]
        errors = np.array([last_errors(place) for place in places])
        cases = zip(size.shares, deltas, places, strict=True)
        laws = [law(size.some, delta=d, points=k) / norm_of(place) for k, d, place in cases]
        name = "δ = 1/(N N_i)" if follows else "δ = 1e-3"
        spread(axes, size.shares, errors, colour, name)
        axes.plot(size.shares, laws, "k--", label=None if follows else "closed forms")
        print(
            f"Fig. 4, {name}, by N_i = {shown(list(size.shares))}: {shown(errors.mean(axis=1))}; closed {shown(laws)}"
        )
        said.append(f"{slope(size.shares, errors.mean(axis=1)):.3f} at {name}")
        falls.append(bool((np.diff(errors.mean(axis=1)) < 0).all()))
        laid.append(f"{slope(size.shares, laws):.3f}")
    axes.set(xscale="log", yscale="log", xlabel="points per agent, N_i")
    axes.set_xticks(size.shares, map(str, size.shares))
    axes.minorticks_off()
    axes.set_title(f"Fig. 4: T = {size.some}, {size.more_repeats} seeds")
    axes.legend()
    return Verdict(
        PAPER,
        "Fig. 4",
        "more points per agent, less error, from each N_i to the next: slopes in N_i",
        judged(all(falls)),
        ", ".join(said),
        f"falls (closed form: {', '.join(laid)})",
        seeds=size.more_repeats,
    )


def redraw(desk: Desk) -> list[Verdict]:
    size = QUICK if desk.quick else FULL
    make = Experiments(desk)
    told = [*figure_1(make, size), *figure_2(make, size)]
    figure, axes = panels(1, 2, width=4.6)
    last = [figure_3(axes[0], make, size), figure_4(axes[1], make, size)]
    title = "Two-stage, Fig. 3 and 4: ε = 4, mean and middle 80 % of seeds"
    desk.save(figure, "two-stage-figures-3-4.png", title, last)
    return told + last
