"""The frontier: which private method to take, and what privacy costs.

`frontier.toml` is the study: the same number of trials of every method, each at the same proven ε of the network
(δ = 1e-6, one replaced sample, all links seen), its noise chosen by `privacy.budget.epsilon`. What is scored is a model
that the ledger covers: the mean over agents of what they said last, or in the second half of the rounds, and never a
hidden x_i(T). (a) A method's trial, and which of the two, are those that do best on public data; (b) oracle-tuned: on
the validation rows of the private data themselves, which is optimistic, for the tuning is not in ε.

Baselines are in the same ledger: each agent alone, and the mean of their models (one shot), by the two-stage method
with one agent, whose releases are the steps of noisy gradient descent; a trusted curator, by the same with all samples;
and without privacy: no noise, the majority's label, and the best linear model.
"""

from __future__ import annotations

import csv
import hashlib
import itertools
import json
import os
import shutil
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from desk import FOUND, HERE, NO_DATA, Desk, Verdict, not_done, panels, save
from frontier_data import Field, Json, Rows, Split, Vector, shares, together
from frontier_data import field as data_of
from frontier_models import Outcome, Reader, accuracy, best_within, loss
from matplotlib.axes import Axes
from scipy import stats

from mpinodes.core.asked import Tree, merge
from mpinodes.studies.pools import Pool
from mpinodes.studies.study import Study

NEEDS = ("adult", "mnist")
SETTINGS = ("frontier.toml", "frontier_data.py", "frontier_models.py")
PAPER, ITEM = "beyond", "The frontier"
READINGS = ("last", "second half")
ONE_AGENT = "two-stage-gaussian"  # whose trials are those of one agent, too
CURATOR, ALONE, ONE_SHOT = "curator", "alone", "one shot"
ONLINE = ("dola", "dpps", "dpsr", "weight-balancing")
COVERS = "covers convex linear models on these data alone"
TITLES = {"adult": "Adult", "mnist": "MNIST, 6 against 8", "synthetic": "synthetic"}
LOOKS = {
    "dola": ("#0072B2", "o"), "dpps": ("#56B4E9", "s"), "dpsr": ("#999999", "v"), "weight-balancing": ("#CC79A7", "^"),
    "two-stage-gaussian": ("#D55E00", "o"), "huang-dp": ("#B59F00", "s"), "gossip-averaging": ("#E69F00", "D"),
    "pp-admm": ("#009E73", "o"), "pvp-admm": ("#44AA99", "s"), ONE_SHOT: ("#882255", "P"), ALONE: ("#bbbbbb", "x"),
    CURATOR: ("#000000", "*"),
}  # fmt: skip
QUICK = {
    "data": ["synthetic"], "shares": ["skewed"], "splits": 2, "train": 2000, "validation": 400, "test": 1000,
    "seeds_tuning": 1, "seeds_oracle": 1, "seeds": 1,
}  # fmt: skip


class Place(NamedTuple):
    """Where methods are compared."""

    data: str
    share: str
    agents: int

    @property
    def title(self) -> str:
        return f"{TITLES[self.data]}, {self.agents} agents, {self.share} shares"


class Method(NamedTuple):
    """Define one method that is compared, or several that are made of the same runs.

    Attributes:
        trials: its cases in the study, by name.
        names: of what is made of its runs.
    """

    trials: dict[str, Tree]
    names: tuple[str, ...]


@dataclass
class Work:
    """What is asked for, and what is at hand.

    Attributes:
        desk: where.
        pool: of the processes that do the runs.
        design: of the study file.
        base: what all trials have in common.
        methods: all that are compared.
        budgets: ε; inf first.
        agents: how many there may be.
        cells: directory of what is done, a file for each place and ε.
    """

    desk: Desk
    pool: Pool
    design: Json
    base: Tree
    methods: list[Method]
    budgets: list[float]
    agents: list[int]
    cells: Path
    _fields: dict[str, Field] = field(default_factory=dict)

    @classmethod
    def of(cls, desk: Desk, pool: Pool) -> Work:
        base = tomllib.loads((HERE / "frontier.toml").read_text())
        design, study = base.pop("design"), base.pop("study")
        if desk.quick:
            design |= QUICK
            base["data"]["columns"] = 6
            study["grid"] = {"privacy": {"budget": {"epsilon": [2]}}, "topology": {"agents": [4]}}
            study["cases"] = study["cases"][4::8]  # of batches of 50
        design |= {"dimension": base["data"]["columns"], "radius": base["problem"]["radius"]}
        texts = [*((HERE / name).read_text() for name in SETTINGS), str(desk.quick), desk.code]
        digest = hashlib.sha256(repr(texts).encode()).hexdigest()[:8]
        cells = desk.output / "studies" / f"frontier-{digest}" / "cells"
        cells.mkdir(parents=True, exist_ok=True)
        trials: dict[str, dict[str, Tree]] = {}
        for case in study["cases"]:
            trials.setdefault(case["algorithm"]["name"], {})[case["name"]] = case
        assert len({len(each) for each in trials.values()}) == 1, "as many trials of each method"
        methods = [Method(cases, (name,)) for name, cases in trials.items()]
        for kind, names in ((ALONE, (ALONE, ONE_SHOT)), (CURATOR, (CURATOR,))):
            one = {f"{kind}-{name}": case | {"baseline": kind} for name, case in trials[ONE_AGENT].items()}
            methods.append(Method(one, names))
        budgets = [np.inf, *map(float, study["grid"]["privacy"]["budget"]["epsilon"])]
        return cls(desk, pool, design, base, methods, budgets, study["grid"]["topology"]["agents"], cells)

    @property
    def data(self) -> list[str]:
        return [name for name in self.design["data"] if name == "synthetic" or self.desk.folder(name)]

    def places(self) -> list[Place]:
        return [Place(*each) for each in itertools.product(self.data, self.design["shares"], self.agents)]

    def field_of(self, name: str) -> Field:
        if name not in self._fields:
            self._fields[name] = data_of(name, self.desk.folder(name), self.design)
        return self._fields[name]


# -------------------------------------------------------------------------------------------------------------- cells
class Cell:
    """All methods at one place and ε: a study of all trials on public and on private data, and one of those chosen."""

    def __init__(self, work: Work, place: Place, epsilon: float) -> None:
        self._work, self._place, self._epsilon = work, place, epsilon
        self._name = f"{place.data}-{place.share}-{place.agents}-{epsilon:g}"
        self.path = work.cells / f"{self._name}.json"

    def make(self) -> None:
        """Do its runs, and write down what they show."""
        begun, work = self._work.desk.spent(), self._work
        data = work.field_of(self._place.data)
        skew = work.design["skew"] if self._place.share == "skewed" else 0.0
        splits = [data.public, *data.splits]
        self._own = [shares(split.train, self._place.agents, skew) for split in splits]  # of split 0 the public samples
        runs = work.cells.parent / "runs" / self._name
        for s, own in enumerate(self._own):
            for i, rows in [*enumerate(own), ("all", together(own))]:
                save(runs / "data" / f"{s}-{i}.npz", features=rows.features, targets=rows.targets)
        trials = {name: case for method in work.methods for name, case in method.trials.items()}
        validation = [split.validation for split in splits]
        public = self._scores(self._outcomes(runs, "public", trials, range(1)), validation)
        oracle = self._scores(self._outcomes(runs, "oracle", trials, range(1, len(splits))), validation)
        chosen = {
            (name, how): best(method, name, scores)
            for method in work.methods
            for name in method.names
            for how, scores in (("public", public), ("oracle", oracle))
        }
        again = {trial: trials[trial] for trial, _, _ in chosen.values()}
        final = self._outcomes(runs, "final", again, range(1, len(splits)))
        told: Json = {"methods": {}, "majority": [_majority(split) for split in data.splits]}
        for (name, how), choice in chosen.items():
            told["methods"].setdefault(name, {})[how] = _told(name, choice, final[choice[0]], data)
        told["best"] = [_best(split, work.design["radius"]) for split in data.splits]
        told["optimum"] = data.best
        half = self.path.with_suffix(".half")
        half.write_text(json.dumps(told | {"cpu": work.desk.spent() - begun}))
        os.replace(half, self.path)
        shutil.rmtree(runs)

    def _outcomes(self, runs: Path, phase: str, trials: dict[str, Tree], splits: range) -> Outcomes:
        """Do a study of some trials, on some splits."""
        cases = {f"{name}-split{s}": (name, s) for name in trials for s in splits}
        seeds = {"public": "seeds_tuning", "oracle": "seeds_oracle", "final": "seeds"}[phase]
        privacy = {"budget": {"epsilon": self._epsilon}} if np.isfinite(self._epsilon) else {"mechanism": "none"}
        study = {
            "cases": [self._case(trials[name], case, runs, s, phase) for case, (name, s) in cases.items()],
            "seeds": self._work.design[seeds] if np.isfinite(self._epsilon) else 1,
        }
        more = {
            "topology": {"agents": self._place.agents}, "privacy": privacy, "study": study, "comparator": False,
            "record": {"transcript": True}, "output": {"dir": str(runs / phase)},
        }  # fmt: skip
        readers: dict[str, Reader] = {}
        found: Outcomes = {name: {s: [] for s in splits} for name in trials}
        for settings, place in self._work.desk.swept(Study.of([merge(self._work.base, more)]), self._work.pool):
            name, s = cases[settings["name"]]
            if name not in readers:
                readers[name] = Reader(place)
            found[name][s].append(readers[name].outcome(place, self._own[s]))
        return found

    def _case(self, trial: Tree, name: str, runs: Path, s: int, phase: str) -> Tree:
        """A trial on the samples of a split; its noise has a key, for else it would be of where the data lie."""
        batch, samples = trial["data"]["batch"], len(self._own[s][0].targets)
        part = "all" if trial.get("baseline") == CURATOR else "{agent}"
        data = {"file": str(runs / "data" / f"{s}-{part}.npz")}
        key = {"key": f"{self._name}-{phase}-{name}"}
        rounds = trial["rounds"] if batch == "all" else samples // batch + 1
        return merge(trial, {"name": name, "rounds": rounds, "data": data, "noise": key})

    @staticmethod
    def _scores(outcomes: Outcomes, rows: Sequence[Rows]) -> Scores:
        """By trial and name, the accuracies on validation rows of both readings, in the mean over splits and seeds."""

        def mean(name: str, runs: dict[int, list[Outcome]]) -> Vector:
            each = [[score(name, model, rows[s]) for model in out.models] for s, outs in runs.items() for out in outs]
            return np.asarray(np.mean(each, axis=0))

        return {trial: {name: mean(name, runs) for name in ("", ALONE)} for trial, runs in outcomes.items()}


Outcomes = dict[str, dict[int, list[Outcome]]]  # by trial and split, of each seed
Scores = dict[str, dict[str, Vector]]
Choice = tuple[str, int, float]  # a trial, a reading, and how well it does


def best(method: Method, name: str, scores: Scores) -> Choice:
    """The trial and the reading that do best on validation rows, and how well."""
    values = {trial: scores[trial][ALONE if name == ALONE else ""] for trial in method.trials}
    trial = max(values, key=lambda trial: float(values[trial].max()))
    reading = int(np.argmax(values[trial]))
    return trial, reading, float(values[trial][reading])


def score(name: str, model: Vector, rows: Rows) -> float:
    """Accuracy of (agents, d): of the mean model, or of agents alone their mean accuracy."""
    if name == ALONE:
        return float(np.mean([accuracy(each, rows) for each in model]))
    return accuracy(model.mean(axis=0), rows)


def _told(name: str, choice: Choice, by_split: dict[int, list[Outcome]], data: Field) -> Json:
    trial, reading, validated = choice
    runs = [out for outs in by_split.values() for out in outs]
    test = [
        [score(name, out.models[reading], split.test) for out in outs]
        for outs, split in zip(by_split.values(), data.splits, strict=True)
    ]
    lost = [[out.lost for out in outs] for outs in by_split.values()] if name in ONLINE else []
    samples = data.splits[0].train
    sent = {ALONE: 0, CURATOR: 8 * (samples.features.size + samples.targets.size)}.get(name, runs[0].bytes)
    return {
        "trial": trial, "reading": READINGS[reading], "validation": validated, "test": test, "lost": lost,
        "proven": max(out.proven for out in runs), "bytes": sent,
        "seconds": float(np.median([out.seconds for out in runs])),
    }  # fmt: skip


def _majority(split: Split) -> float:
    word = 1.0 if split.train.targets.mean() > 0 else -1.0
    return float(np.mean(split.test.targets == word))


def _best(split: Split, radius: float) -> Json:
    """The best linear model in the ball: what it gets right, and what it loses on the training rows."""
    x = best_within(split.train, radius)
    return {"test": accuracy(x, split.test), "lost": loss(x, split.train)}


def done(work: Work) -> tuple[dict[tuple[Place, float], Json], list[tuple[Place, float]]]:
    """All cells, made where they are not there; and those that the cap leaves out."""
    found, left = {}, []
    spent = 0.0
    for epsilon, place in itertools.product(work.budgets, work.places()):
        cell = Cell(work, place, epsilon)
        if not cell.path.exists():
            if spent > 60 * work.design["cpu_minutes"]:
                left.append((place, epsilon))
                continue
            cell.make()
            work.desk.kept -= json.loads(cell.path.read_text())["cpu"]  # it was spent just now
        found[place, epsilon] = json.loads(cell.path.read_text())
        spent += found[place, epsilon]["cpu"]
        work.desk.kept += found[place, epsilon]["cpu"]
    return found, left


# --------------------------------------------------------------------------------------------------------- statistics
def by_split(entry: Json, key: str = "test") -> Vector:
    """(splits,) means over the noise."""
    return np.array([np.mean(each) for each in entry[key]])


def interval(values: Vector) -> tuple[float, float]:
    """Mean over splits, and half of its 95 % interval, by Student's t."""
    return float(values.mean()), float(stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))


def differs(one: Vector, other: Vector) -> float:
    """P of a difference, paired by split."""
    between = one - other
    if between.std(ddof=1) == 0:
        return 1.0 if between.mean() == 0 else 0.0
    return float(stats.ttest_1samp(between, 0.0).pvalue)


def holm(p: Sequence[float], level: float = 0.05) -> list[bool]:
    """Which of some hypotheses fall, all errors together at most `level`."""
    order = np.argsort(p)
    fall = [False] * len(p)
    for rank, k in enumerate(order):
        if p[k] > level / (len(p) - rank):
            break
        fall[int(k)] = True
    return fall


def leaders(values: dict[str, Vector]) -> list[str]:
    """The one with the largest mean, and all that are not told apart from it (Holm, over all pairs)."""
    pairs = list(itertools.combinations(values, 2))
    told_apart = dict(zip(pairs, holm([differs(values[a], values[b]) for a, b in pairs]), strict=True))
    first = max(values, key=lambda name: float(values[name].mean()))
    return [
        first,
        *(n for n in values if n != first and not (told_apart.get((first, n)) or told_apart.get((n, first)))),
    ]


class Found:
    """What the cells show."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.cells, self.left = done(work)
        self.names = [name for method in work.methods for name in method.names]
        self.networks = [name for name in self.names if name not in (ALONE, CURATOR)]
        self.budgets = sorted(e for e in work.budgets if np.isfinite(e))

    def at(self, epsilon: float) -> Iterator[tuple[Place, Json]]:
        for place in self.work.places():
            if (place, epsilon) in self.cells:
                yield place, self.cells[place, epsilon]

    def accuracies(self, of: Json, names: Sequence[str], how: str = "public") -> dict[str, Vector]:
        return {name: by_split(of["methods"][name][how]) for name in names}

    def picked(self, of: Json, how: str = "public") -> Vector:
        """By split, of the network method that does best where it was tuned, and not of the best on test rows."""
        return by_split(max((of["methods"][name][how] for name in self.networks), key=lambda each: each["validation"]))

    def learns(self, of: Json, name: str) -> bool:
        """Whether it is above the majority's label, by a 95 % interval of the difference by split."""
        mean, half = interval(by_split(of["methods"][name]["public"]) - np.array(of["majority"]))
        return mean - half > 0

    def regret(self, of: Json, name: str) -> Vector:
        best = np.array([each["lost"] for each in of["best"]])
        return by_split(of["methods"][name]["public"], "lost") - best


# -------------------------------------------------------------------------------------------------------------- words
def told(found: Found) -> list[Verdict]:
    seeds = found.work.design["seeds"]

    def verdict(claim: str, ours: str, because: str = COVERS) -> Verdict:
        return Verdict(PAPER, ITEM, claim, FOUND, ours, seeds=seeds, because=because)

    rows = [
        verdict("most accurate at equal proven ε, tuned on public data; in how many settings", _winners(found)),
        verdict(
            "short of no noise, of a curator, of the best linear model; the method, too, chosen on public data",
            _costs(found),
        ),
        verdict("where no network method is above the majority's label", _nothing(found)),
        verdict("tuned on the private data instead, one would gain (optimistic: not in ε)", _oracle(found)),
        verdict("least regret among the online methods; in how many settings", _regrets(found)),
    ]
    gone = sorted({name for name in found.work.design["data"] if name not in found.work.data})
    rows += [not_done(PAPER, ITEM, f"on {TITLES[name]}", NO_DATA) for name in gone]
    if found.left:
        many = Counter(epsilon for _, epsilon in found.left)
        which = "; ".join(f"ε = {epsilon:g}: {count} settings" for epsilon, count in many.items())
        rows.append(not_done(PAPER, ITEM, which, f"the cap of {found.work.design['cpu_minutes']} CPU minutes"))
    return rows


def _each(found: Found, what: Callable[[float], str]) -> str:
    return "; ".join(f"ε = {e:g}: {what(e)}" for e in found.budgets if any(True for _ in found.at(e)))


def _counted(firsts: list[list[str]]) -> str:
    """How often each leads, and how often it is not told apart from who does."""
    leads = {name: sum(each[0] == name for each in firsts) for each in firsts for name in each}
    among = {name: sum(name in each for each in firsts) for name in leads}
    most = sorted(leads, key=lambda name: (-leads[name], -among[name]))[:4]
    return ", ".join(f"{name} {leads[name]} ({among[name]} with ties)" for name in most) + f" of {len(firsts)}"


def _winners(found: Found) -> str:
    def what(e: float) -> str:
        firsts = [
            leaders(found.accuracies(of, found.networks))
            for _, of in found.at(e)
            if any(found.learns(of, name) for name in found.networks)
        ]
        return _counted(firsts) + " where something learns" if firsts else "nothing learns"

    return _each(found, what)


def _costs(found: Found) -> str:
    def what(e: float) -> str:
        short: list[list[float]] = []
        for place, of in found.at(e):
            free, curator = found.picked(found.cells[place, np.inf]), by_split(of["methods"][CURATOR]["public"])
            above = free.mean(), curator.mean(), np.mean([each["test"] for each in of["best"]])
            short.append([float(each - found.picked(of).mean()) for each in above])
        return ", ".join(f"{100 * each:.1f}" for each in np.mean(short, axis=0)) + " points"

    return _each(found, what)


def _nothing(found: Found) -> str:
    def what(e: float) -> str:
        where = [p.title for p, of in found.at(e) if not any(found.learns(of, n) for n in found.networks)]
        return ", ".join(where) or "nowhere"

    return _each(found, what)


def _oracle(found: Found) -> str:
    def what(e: float) -> str:
        gains = [found.picked(of, "oracle").mean() - found.picked(of).mean() for _, of in found.at(e)]
        return f"{100 * np.mean(gains):+.1f} points"

    return _each(found, what)


def _regrets(found: Found) -> str:
    def what(e: float) -> str:
        online = [name for name in ONLINE if name in found.names]
        return _counted([leaders({n: -found.regret(of, n) for n in online}) for _, of in found.at(e)])

    return _each(found, what)


def tables(found: Found) -> None:
    """All of it in print; and frontier.csv, a line for each method, place, ε and way to tune it."""
    for place in found.work.places():
        print(f"\n{place.title}: accuracy in percent on test rows, tuned on public data (95 %: t over splits)")
        print(f"{'':20s}" + "".join(f"{e:>13g}" for e in [*found.budgets, np.inf]))
        for name in found.names:
            cells = [found.cells.get((place, e)) for e in [*found.budgets, np.inf]]
            shown = [interval(by_split(c["methods"][name]["public"])) if c else (np.nan, np.nan) for c in cells]
            print(f"{name:20s}" + "".join(f"{100 * mean:7.1f} ± {100 * half:3.1f}" for mean, half in shown))
        of = found.cells.get((place, np.inf))
        if of:
            print(f"majority {100 * np.mean(of['majority']):.1f}, best linear model in the ball ", end="")
            print(f"{100 * np.mean([each['test'] for each in of['best']]):.1f}", end="")
            print(f", the law itself {100 * np.mean(of['optimum']):.1f}" if of["optimum"] else "")
    for name in found.work.data:
        data = found.work.field_of(name)
        x = best_within(data.public.train, found.work.design["radius"])
        right = np.mean([accuracy(x, split.test) for split in data.splits])
        print(f"\n{TITLES[name]}: trained on the public rows alone, at no ε, {100 * right:.1f}")
    with (found.work.desk.output / "frontier.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            ["data", "shares", "agents", "epsilon", "method", "tuned_on", "trial", "reading", "accuracy", "half_of_95",
             "majority", "regret", "proven", "bytes", "cpu_seconds"]
        )  # fmt: skip
        for (place, e), of in found.cells.items():
            for name, both in of["methods"].items():
                for how, entry in both.items():
                    mean, half = interval(by_split(entry))
                    lost = [each["lost"] for each in of["best"]]
                    regret = float(np.mean(by_split(entry, "lost") - np.array(lost))) if entry["lost"] else ""
                    writer.writerow(
                        [place.data, place.share, place.agents, e, name, how, entry["trial"], entry["reading"], mean,
                         half, np.mean(of["majority"]), regret, entry["proven"], entry["bytes"], entry["seconds"]]
                    )  # fmt: skip
    for n in found.work.agents:
        print(f"\n{n} agents: kB on all links, and CPU seconds of all agents, least to most over chosen trials")
        for name in found.names:
            used = [of["methods"][name]["public"] for (p, e), of in found.cells.items() if p.agents == n]
            sent, seconds = [u["bytes"] / 1000 for u in used], [u["seconds"] for u in used]
            print(f"{name:20s}{min(sent):8.0f} to {max(sent):5.0f} kB {min(seconds):7.3f} to {max(seconds):.3f} s")


# ------------------------------------------------------------------------------------------------------------ figures
def draw(found: Found, name: str, title: str, one: Callable[[Axes, Place], None], rows: list[list[Place]]) -> None:
    """A panel for each place."""
    columns = len(rows[0])
    figure, axes = panels(len(rows), columns, width=3.6, height=2.7)
    for ax, place in zip(axes, itertools.chain(*rows), strict=True):
        ax.set_title(place.title)
        one(ax, place)
        ax.set_xscale("log", base=2)
        ax.set_xticks([*found.budgets, 2 * found.budgets[-1]], [*(f"{e:g}" for e in found.budgets), "∞"])
        ax.minorticks_off()
    for ax in axes[-columns:]:
        ax.set_xlabel("proven ε of the network, δ = 1e-6")
    handles, labels = axes[-1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=max(2, 2 * columns - 2))
    found.work.desk.save(figure, name, title)


def curve(found: Found, ax: Axes, place: Place, name: str, values: Callable[[Json], Vector], label: str) -> None:
    points = [(e, *interval(values(of))) for e in found.budgets if (of := found.cells.get((place, e)))]
    if free := found.cells.get((place, np.inf)):
        points.append((2 * found.budgets[-1], *interval(values(free))))
    colour, marker = LOOKS[name]
    x, mean, half = np.array(points).T
    style = {"ls": "--" if name in (ALONE, CURATOR, ONE_SHOT) else "-", "lw": 1.2, "ms": 4, "capsize": 2}
    ax.errorbar(x, mean, half, color=colour, marker=marker, label=label, **style)


def accuracies(found: Found, how: str) -> Callable[[Axes, Place], None]:
    """What draws those of a place; its legend has what each method sends and computes there."""

    def one(ax: Axes, place: Place) -> None:
        all_of = [of for (where, _), of in found.cells.items() if where == place]
        for name in found.names:
            used = [of["methods"][name][how] for of in all_of]
            sent, seconds = (np.median([each[key] for each in used]) for key in ("bytes", "seconds"))
            label = f"{name}: {sent / 1000:.0f} kB, {1000 * seconds:.0f} ms"
            curve(found, ax, place, name, partial(_percent, name=name, how=how), label)
        best = 100 * np.mean([each["test"] for each in all_of[0]["best"]])
        ax.axhline(best, color="#555555", lw=1, ls="-.", label="best linear model, not private")
        majority = 100 * np.mean(all_of[0]["majority"])
        ax.axhline(majority, color="#555555", lw=1, ls=":", label="majority's label")
        # From where networks begin: what lies below is told in words.
        shown = [100 * by_split(of["methods"][name][how]).mean() for of in all_of for name in found.networks]
        floor = min(shown) - 0.2 * (best - min(shown))
        alone = 100 * np.mean([by_split(of["methods"][ALONE][how]).mean() for of in all_of])
        below = [("majority", majority), (ALONE, alone)]
        ax.text(0.99, 0.02, ", ".join(f"{name} {at:.0f} %" for name, at in below if at < floor), transform=ax.transAxes,
                ha="right", fontsize=7, color="#555555")  # fmt: skip
        ax.set(ylim=(floor, best + 0.1 * (best - floor)), ylabel="accuracy, %")

    return one


def _percent(of: Json, name: str, how: str) -> Vector:
    return 100 * by_split(of["methods"][name][how])


def regrets(found: Found) -> Callable[[Axes, Place], None]:
    """What draws those of the online methods."""

    def one(ax: Axes, place: Place) -> None:
        for name in (name for name in ONLINE if name in found.names):
            curve(found, ax, place, name, partial(found.regret, name=name), name)
        ax.set_ylabel("regret a round and agent")

    return one


def redraw(desk: Desk) -> list[Verdict]:
    with desk.workers() as pool:
        found = Found(Work.of(desk, pool))
    design, places = found.work.design, found.work.places()
    many = f"{design['seeds']} seeds of the noise × {design['splits']} splits, 95 % intervals (t over splits)"
    rows = [[place for place in places if place.data == name] for name in found.work.data]
    ends = [[row[at] for row in rows] for at in (0, -1)]  # fewest agents with even shares, most with skewed ones
    models_of = (
        "Accuracy of models that the ledger covers against proven ε (all links seen, one sample replaced); steps, "
        "clip, batch and rounds chosen"
    )
    costs = "In the legend: all that is sent, and the CPU time of all agents, in the last panel"
    draw(
        found, "frontier.png", f"{models_of} on public data; {many}. {costs}", accuracies(found, "public"), ends
    )  # fmt: skip
    draw(found, "frontier-all.png", f"The same in all settings. {costs}", accuracies(found, "public"), rows)
    draw(
        found, "frontier-oracle.png", f"{models_of} on the private data: optimistic, the tuning is not in ε; {many}",
        accuracies(found, "oracle"), rows,
    )  # fmt: skip
    draw(
        found, "frontier-regret.png",
        f"Regret of playing the mix of what is heard, online methods only, tuned for accuracy on public data; {many}",
        regrets(found), rows,
    )  # fmt: skip
    tables(found)
    return told(found)
