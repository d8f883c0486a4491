"""Fig. 6 and Table V of DPSDA for what they are: output differences under paired noise, beside independent noise.

Cheng, Liao, Li compare [x(t)]_1 on F and on F', which differ in f_400 only. Here f_400 is one sample, and F' has its
label flipped. "1st entry": pixel 1 of MNIST is always 0 and so is its gradient; taken is the pixel of agent 0's block
with most ink, and f_400 is the first of the samples with most ink there. Paired: F and F' see the same Laplace and
gradient noise; independent: another seed for F' (at ε = ∞, of the gradient noise alone). The decision of round t is
made before f_t is seen, so the first touched is 401.

Flipped, the label moves u_i by the sample's [a]_B, for σ(m) + σ(−m) = 1, whatever the noise; so x_1 before projection
moves by α n a_1 (/ w_i, which push-sum divides by). The ball of radius 5 scales it by 5/‖αz‖; the box does not.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from desk import COLOURS, HERE, REPRODUCED, Desk, Verdict, judged, not_done, panels, save
from matplotlib.axes import Axes
from threadpoolctl import threadpool_limits

import mpinodes
from mpinodes.config.building import build
from mpinodes.config.compose import compose
from mpinodes.core import Setup
from mpinodes.core.asked import parse
from mpinodes.core.experiment import Experiment, single_run
from mpinodes.rounds.lockstep import simulate

TOML = "dpsda-table-5.toml"
NEEDS, SETTINGS, PAPER = ("mnist",), (TOML,), "dpsda"
EPSILONS = ["inf", "1.0", "0.5", "0.2"]
SCALES = ["3.0", "1.0"]  # c; the box, a control, has the first
RADIUS = 5.0
GRAPHS = {
    "dpsda-c": ["algorithm.name=dpsda-c", "topology.undirected=true"],
    "dpsda-ps": ["algorithm.name=dpsda-ps"],
}
PRINTED = {"dpsda-c": [0.0374, 0.0074, 0.0035, 0.0013], "dpsda-ps": [0.0357, 0.0082, 0.0042, 0.0016]}
DRAWN = 8  # rounds drawn before f_400 is seen, and as many after


class Size(NamedTuple):
    rounds: int
    changed: int  # the round whose loss differs
    seeds: int
    algorithms: list[str]
    scales: list[str]
    accounted: list[str]  # labels ε of which what is proven is shown
    data: list[str]


class Data(NamedTuple):
    """F and F', one sample a round."""

    original: Path
    changed: Path
    coordinate: int  # of agent 0's block
    ink: float  # of the changed sample there
    as_drawn: float  # of the sample that stood in its place
    columns: int

    def stated(self, file: Path) -> list[str]:
        return [f"data.file={file}", f"data.columns={self.columns}"]


class Setting(NamedTuple):
    algorithm: str
    set: str
    scale: str
    epsilon: str

    def pairs(self) -> list[str]:
        return [
            *GRAPHS[self.algorithm],
            f"problem.set={self.set}",
            f"privacy.scale={self.scale}",
            f"privacy.epsilon={self.epsilon}",
        ]

    def key(self) -> str:
        return f"{self.algorithm}-{self.set}-c{self.scale}-eps{self.epsilon}"


class Outputs(NamedTuple):
    """[x(t)]_1 by seed, in DRAWN rounds up to the changed one and as many after: (seeds, 2 DRAWN)."""

    original: np.ndarray
    changed: np.ndarray
    same_before: np.ndarray  # (seeds,) whether no bit of any agent's decisions up to the changed round differs

    def paired(self) -> np.ndarray:
        """(seeds,) in the first touched decision."""
        return np.abs(self.original - self.changed)[:, DRAWN]

    def independent(self) -> np.ndarray:
        return np.abs(self.original - np.roll(self.changed, 1, axis=0))[:, DRAWN]

    def inside(self) -> np.ndarray:
        """Whether the box clips neither."""
        return np.maximum(np.abs(self.original), np.abs(self.changed))[:, DRAWN] < RADIUS

    def spread(self) -> float:
        return float(self.original[:, DRAWN].std(ddof=1))


def make_data(below: Path, size: Size) -> Data:
    setup = compose(parse(None, ["algorithm.name=dpsda-ps", *size.data]), ranks=None)
    source = setup.stream.labelled()["train"]
    features, targets = source.features(np.arange(size.rounds)), source.targets[: size.rounds].copy()
    block = features[:, setup.blocks[0]]
    k, place = int(block.sum(axis=0).argmax()), size.changed - 1
    as_drawn = float(block[place, k])
    rows = np.arange(size.rounds)
    most = int(block[:, k].argmax())
    rows[[place, most]] = most, place
    features, targets = features[rows], targets[rows]
    flipped = targets.copy()
    flipped[place] *= -1
    for name, labels in (("F", targets), ("F-changed", flipped)):
        save(below / f"{name}.npz", features=features, targets=labels)
    return Data(below / "F.npz", below / "F-changed.npz", k, float(features[place, k]), as_drawn, setup.dimension)


def decisions(setup: Setup) -> np.ndarray:
    """(agents, rounds, d), the bits that a run records."""
    return np.concatenate([rows[:, :, : setup.dimension].copy() for rows in simulate(setup)], axis=1)


class Experiments:
    """The runs. What needs one decision of many seeds is made by `simulate`, which is a run without its logger."""

    def __init__(self, desk: Desk, size: Size) -> None:
        self._desk, self._size = desk, size
        self._here = f"dpsda-paired-{size.rounds}"
        self._below = desk.runs / self._here
        self.accounted = size.accounted
        self.data = make_data(self._below, size)

    def outputs(self, setting: Setting) -> Outputs:
        def make() -> dict[str, Any]:
            with threadpool_limits(1):
                return self._outputs(setting)._asdict()

        return Outputs(**self._desk.arrays(self._below / f"outputs-{setting.key()}.npz", make))

    def _outputs(self, setting: Setting) -> Outputs:
        k, t, found = self.data.coordinate, self._size.changed, []
        drawn = slice(t - DRAWN, t + DRAWN)
        original, changed = (self._experiment(setting, file) for file in (self.data.original, self.data.changed))
        for seed in range(self._size.seeds):
            f, g = (decisions(build(single_run(e, seed))) for e in (original, changed))
            found.append((f[0, drawn, k], g[0, drawn, k], np.array_equal(f[:, :t], g[:, :t])))
        return Outputs(*map(np.array, zip(*found, strict=True)))

    def _experiment(self, setting: Setting, file: Path) -> Experiment:
        pairs = [*setting.pairs(), *self.data.stated(file), f"rounds={self._size.changed + DRAWN}"]
        return compose(parse(str(HERE / TOML), pairs), ranks=None).experiment

    def proven(self, setting: Setting) -> tuple[float, float]:
        """ε of agent 0 and of the network over the whole run, by its summary."""
        key = f"{self._here}/{setting.key()}"
        pairs = [*setting.pairs(), *self.data.stated(self.data.original), "record.decisions=true"]
        place = self._desk.made(key, TOML, *pairs)
        t, recorded = self._size.changed, mpinodes.load(place).decision[:, 0, self.data.coordinate].values
        if not np.array_equal(recorded[t - DRAWN : t + DRAWN], self.outputs(setting).original[0]):
            raise AssertionError("the record has other decisions")
        privacy = json.loads((place / "summary.json").read_text())["privacy"]
        return privacy["agents"][0]["proven"], privacy["network"]["proven"]


def name(epsilon: str) -> str:
    return "∞" if epsilon == "inf" else f"{float(epsilon):g}"


def table(experiments: Experiments, settings: list[Setting]) -> dict[Setting, Outputs]:
    """Printed: mean (std) of both differences, the first over the std of x_1, and at c = 3 what is proven."""
    found = {}
    heads = ("paired", "(std)", "indep.", "(std)", "std x_1", "/ std", "at wall", "paper", "agent 0", "network")
    print(f"{'algorithm, set, c, label ε':34}" + "".join(f"{head:>10}" for head in heads))
    for setting in settings:
        o = found[setting] = experiments.outputs(setting)
        paired, independent = o.paired(), o.independent()
        values = [paired.mean(), paired.std(ddof=1), independent.mean(), independent.std(ddof=1), o.spread()]
        values += [paired.mean() / o.spread()]
        walls = str((~o.inside()).sum()) if setting.set == "box" else ""
        paper = PRINTED[setting.algorithm][EPSILONS.index(setting.epsilon)]
        title = f"{setting.algorithm}, {setting.set}, c = {name(setting.scale)}, {name(setting.epsilon)}"
        shown = setting[1:3] == ("ball", SCALES[0]) and setting.epsilon in experiments.accounted
        print(
            f"{title:34}"
            + "".join(f"{value:10.4f}" for value in values)
            + f"{walls:>10}{paper:10.4f}"
            + ("".join(f"{loss:10.2g}" for loss in experiments.proven(setting)) if shown else "")
        )
    return found


def draw_outputs(axes: Axes, setting: Setting, o: Outputs, changed: int) -> None:
    """Fig. 6: one panel of it."""
    t = np.arange(changed - DRAWN + 1, changed + DRAWN + 1)
    axes.plot(t, o.original[1], color="#999999", label="F, another seed of the noise")
    axes.plot(t, o.original[0], color=COLOURS[0], marker=".", label="F")
    axes.plot(t, o.changed[0], "--", color=COLOURS[1], marker=".", label="F′, noise as with F")
    axes.axvline(changed + 1, color="black", lw=0.8, ls=":", label=f"t = {changed + 1}: first touched")
    axes.set(xlabel="round t", ylabel="[x(t)]_1", title=f"(a) {setting.algorithm}, c = 3, ε = {name(setting.epsilon)}")


def columns(algorithm: str, scales: list[str], found: dict[Setting, Outputs]) -> dict[str, list[np.ndarray]]:
    """The curves of Table V, by label: the differences by seed, one array for each ε."""

    def column(set_: str, scale: str) -> list[Outputs]:
        own = [found.get(Setting(algorithm, set_, scale, epsilon)) for epsilon in EPSILONS]
        return [o or found[Setting(algorithm, set_, scales[0], "inf")] for o in own]  # without noise c is nothing

    curves = {"independent noise, ball, c = 3": [o.independent() for o in column("ball", scales[0])]}
    for scale in scales:
        curves[f"paired, ball, c = {name(scale)}"] = [o.paired() for o in column("ball", scale)]
    box = [o.paired()[o.inside()] for o in column("box", scales[0])]
    return {"paired, box, c = 3, off its walls": box} | curves


def draw_table(axes: Axes, algorithm: str, curves: dict[str, list[np.ndarray]]) -> None:
    """Table V: one algorithm."""
    x = np.arange(len(EPSILONS))
    colours = (COLOURS[2], COLOURS[1], COLOURS[0], COLOURS[3])
    for colour, (label, values) in zip(colours, curves.items(), strict=False):
        means = [v.mean() for v in values]
        stds = None if "box" in label else [v.std(ddof=1) for v in values]  # the box: all seeds alike
        axes.errorbar(x, means, stds, marker="o", color=colour, ms=4, capsize=3, label=label)
        if label == "paired, ball, c = 3":
            scaled = np.array(PRINTED[algorithm]) * means[0] / PRINTED[algorithm][0]
            axes.plot(x, scaled, "kx", ms=8, label="paper, scaled to this at ε = ∞")
            axes.set_ylim(bottom=scaled[-1] / 2)
    axes.set_xticks(x, map(name, EPSILONS))
    axes.set(yscale="log", xlabel="label ε", ylabel="|[x]_1 − [x′]_1|", title=f"(b) {algorithm}")


def verdicts(experiments: Experiments, found: dict[Setting, Outputs], size: Size) -> list[Verdict]:
    t = size.changed
    ball = [found[Setting("dpsda-c", "ball", SCALES[0], epsilon)] for epsilon in EPSILONS]
    paired = np.array([o.paired().mean() for o in ball])
    independent = np.array([o.independent().mean() for o in ball])
    box = np.concatenate([o.paired()[o.inside()] for s, o in found.items() if s[:2] == ("dpsda-c", "box")])
    before = np.concatenate([o.same_before for o in found.values()])
    _, loss = experiments.proven(Setting("dpsda-c", "ball", SCALES[0], "1.0"))
    hidden = listed([d / o.spread() for d, o in zip(paired, ball, strict=True)])
    relative, theirs = paired / paired[0], np.array(PRINTED["dpsda-c"]) / PRINTED["dpsda-c"][0]
    is_no_measure = (
        f"the ball rescales by {RADIUS:g}/‖αz‖, and noise makes z grow: no measure of privacy; in the box, off its "
        f"walls, it is {box.mean():.4f} at every ε, within {np.ptp(box):.0e}"
    )
    return [
        Verdict(
            PAPER, "Table V", "less ε, less difference of the outputs on F and F′ (dpsda-c, relative to ε = ∞)",
            judged(bool((np.diff(paired) < 0).all()), REPRODUCED), listed(relative), listed(theirs),
            listed(relative - theirs), size.seeds,
            f"with one and the same noise for F and F′, on the ball; {is_no_measure}",
        ),
        Verdict(
            PAPER, "Table V", "the same with independent noise, as an adversary has it",
            judged(bool(independent[-1] < independent[1] / 2)), listed(independent), listed(PRINTED["dpsda-c"]), "",
            size.seeds, "what noise adds to a difference does not fall with ε",
        ),
        Verdict(
            PAPER, "Fig. 6", "at ε = 1 the outputs on F and F′ cannot be told apart", judged(loss < 10),
            f"difference over the std of x_1: {hidden}; proven of all that is sent at label 1: ε = {loss:.2g}", "",
            "", size.seeds, "that is one entry, once; of the whole transcript nothing of use is proven",
        ),
        Verdict(
            PAPER, "Fig. 6", f"they differ from t = {t} on", judged(False),
            f"decisions 1 to {t} have the same bits in {before.sum()} of {len(before)} pairs; first touched: {t + 1}",
            f"t = {t}", "+1", size.seeds,
            f"x({t}) is decided before f_{t} is seen: the paper's must mean after its use",
        ),
    ]  # fmt: skip


def listed(values: Iterable[float]) -> str:
    return ", ".join(f"{value:.2g}" for value in values)


def redraw(desk: Desk) -> list[Verdict]:
    mnist = desk.folder("mnist")
    if mnist is None and not desk.quick:
        return [not_done(PAPER, "Table V", "output difference"), not_done(PAPER, "Fig. 6", "outputs on F and F′")]
    size = (
        Size(40, 30, 3, ["dpsda-c"], SCALES[:1], ["1.0"], ["data.name=digits"])
        if desk.quick
        else Size(
            500, 400, 10, list(GRAPHS), SCALES, EPSILONS[1:],
            ["data.name=mnist-6-8", "data.train=500", "problem.set=ball", f"data.dir={mnist}"],
        )
    )  # fmt: skip
    experiments = Experiments(desk, size)
    settings = [
        Setting(algorithm, set_, scale, epsilon)
        for algorithm, (set_, scales), epsilon in itertools.product(
            size.algorithms, (("ball", size.scales), ("box", size.scales[:1])), EPSILONS
        )
        for scale in (scales if epsilon != "inf" else scales[:1])
    ]
    data = experiments.data
    print(
        f"x_1: pixel {data.coordinate + 1}; ink there in f_{size.changed}: {data.ink:g} (as drawn: {data.as_drawn:g})"
    )
    found = table(experiments, settings)
    figure, axes = panels(2, 2, width=5.5, height=2.9)
    for panel, epsilon in zip(axes, EPSILONS[:2], strict=False):
        setting = Setting("dpsda-c", "ball", SCALES[0], epsilon)
        draw_outputs(panel, setting, found[setting], size.changed)
    axes[1].sharey(axes[0])
    for panel, algorithm in zip(axes[2:], size.algorithms, strict=False):
        draw_table(panel, algorithm, columns(algorithm, size.scales, found))
    a, b = axes[0].get_legend_handles_labels(), axes[2].get_legend_handles_labels()
    figure.legend(a[0] + b[0], a[1] + b[1], loc="outside lower center", ncols=3)
    told = verdicts(experiments, found, size)
    title = (
        f"DPSDA, Fig. 6 and Table V: paired-noise output difference, {size.seeds} seeds, mean and std; x_1: pixel "
        f"{data.coordinate + 1}, ink {data.ink:g} in f_{size.changed}, whose label is flipped"
    )
    desk.save(figure, "dpsda-paired.png", title, told)
    return told
