"""Search for adjacent data sets on which a run reveals more than it prints.

A `Case` is an experiment with a `Spec` of its data. `attack` runs the experiment, reads the proven numbers, draws
adjacent data sets at the edges of the domain, and goes on from the worst of them in small steps.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from replays import Json, Realised, Result, Vector, on_other_data, realised
from tables import merged

import mpinodes
from mpinodes.auditing.transcripts import Recorded, Replayed
from mpinodes.finished import joint_cost as spent
from mpinodes.privacy.curves import gdp_mu
from mpinodes.running.job import run

Random = np.random.Generator
Tables = list[tuple[Vector, Vector]]  # by file: features (m, d) and targets (m,)
Row = tuple[Vector, float]
CLIMB = 3  # of the data sets of a set-up, those near the worst one so far


@dataclass
class Spec:
    """The domain of a set-up's data.

    Attributes:
        agents, rows, d: files, rows of each file, features of a row.
        labels: whether targets are -1 and +1.
        shared: whether all agents have one file.
        big: the largest real target.
        tiny: the size of all features but the first row's; 0: features of all sizes. Loss values are then large and
            their differences small, so that rounding decides.
        hot: whether rows have one feature each, the next one in the next row, as coordinate descent reads them.
    """

    agents: int
    rows: int
    d: int
    labels: bool = False
    shared: bool = False
    big: float = 1e3
    tiny: float = 0.0
    hot: bool = False

    def row(self, rng: Random) -> Row:
        """Draw a row, most often at the edge of the domain: features within 1, L2 norms within sqrt(d)."""
        d, signs = self.d, rng.choice([-1.0, 1.0], self.d)
        shapes = [signs, np.ones(d), np.zeros(d), signs * 1e-7, signs * rng.random(d), np.eye(d)[rng.integers(d)]]
        size = 1.0 if self.labels else float(rng.choice([0.0, 1.0, 10.0, self.big, self.big]))
        return shapes[rng.choice(6, p=[0.3, 0.3, 0.05, 0.1, 0.15, 0.1])], size * float(rng.choice([-1.0, 1.0]))

    def opposite(self, row: Row) -> Row:
        """Return the row whose gradient is as long as possible and points the other way."""
        return row[0].copy(), (-1.0 if row[1] > 0 else 1.0) * (1.0 if self.labels else self.big)

    def tables(self, rng: Random) -> Tables:
        """Draw the run's own data in one of four modes.

        Rows of all kinds; equal rows whose gradients are as long as possible; equal rows whose gradients follow the
        point, so that they pass on what one row changed; the same, after a first row with a long gradient.
        """
        mode, level, files = rng.integers(4), float(rng.choice([5.0, self.big])), []
        for _ in range(1 if self.shared else self.agents):
            rows = [self.row(rng) for _ in range(self.rows)]
            features, targets = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
            if mode > 0 or self.tiny:
                features[:] = np.ones(self.d) if rng.random() < 0.7 else rows[0][0]
                targets[:] = 1.0 if self.labels else level if mode == 1 else 0.0
                targets[0] = 1.0 if self.labels else self.big if mode == 3 else targets[0]
                if self.labels and mode > 1:
                    targets[1::2] *= -1
            if self.hot:
                features = np.eye(self.d)[(np.arange(self.rows) + 1) % self.d]
            if self.tiny:
                features[1:], targets[1:], features[0], targets[0] = self.tiny, self.big, 1.0, 1e3
            files.append((features, targets))
        return files

    def near(self, row: Row, rng: Random) -> Row:
        """Return a row near another one: some signs turned, and another size or sign of the target."""
        factor = float(rng.choice([-1.0, 1.0] if self.labels else [-1.0, 0.5, 1.0, 3.0]))
        return np.where(rng.random(self.d) < 0.3, -row[0], row[0]), row[1] * factor

    def write(self, tables: Tables, folder: Path, name: str) -> str:
        """Write data to a folder; return the path, with `{agent}` in it if each agent has a file."""
        names = [name] if self.shared else [f"{name}-{i}" for i in range(self.agents)]
        for file, (features, targets) in zip(names, tables, strict=True):
            np.savez(folder / f"{file}.npz", features=features, targets=targets)
        return str(folder / (f"{name}.npz" if self.shared else f"{name}-{{agent}}.npz"))


@dataclass
class Case:
    """A set-up to attack.

    Attributes:
        title: for the report.
        asked: the experiment, without its data and its directory.
        spec: the domain of the data.
        key: of the data section, that names the file: `file`, or `source` of a user's stream.
        runs: how many runs on the same data, each with a seed of its own, `mpinodes spent` is asked about.
        early: the share of changed rows that the first round uses.
    """

    title: str
    asked: Json
    spec: Spec
    key: str = "file"
    runs: int = 1
    early: float = 0.7


@dataclass
class Ran:
    """Recorded runs on the same data, and what is printed of all of them together.

    Attributes:
        recorded: the runs; none where nothing is proven.
        own: by run, the agents replayed on their own data.
        printed: by name ("network", or an agent), the proven pure epsilon and the proven epsilon at delta.
        delta: of the latter.
        is_gaussian: whether the rule of the network is exact composition of Gaussian noise.
        has_views: whether the run prints what single nodes learn.
    """

    recorded: list[Recorded] = field(default_factory=list)
    own: list[list[Replayed]] = field(default_factory=list)
    printed: dict[str, tuple[float | None, float | None]] = field(default_factory=dict)
    delta: float = 1e-5
    is_gaussian: bool = False
    has_views: bool = False


def spent_together(places: list[Path], delta: float) -> tuple[float | None, float | None]:
    """Return the pure epsilon and the epsilon at delta that `mpinodes spent` prints of several runs."""
    loss, *_ = spent.in_all(spent.read(places), delta)
    pure, epsilon = (None if np.isnan(value) else float(value) for value in (loss.pure, loss.epsilon))
    return pure, epsilon


def ran(case: Case, tables: Tables, folder: Path) -> Ran:
    """Run a case on its data and read what is printed.

    Raises:
        BadInput: the experiment is refused.
    """
    file, places, result = case.spec.write(tables, folder, "own"), [], Ran()
    kind = {"labels": [-1, 1]} if case.spec.labels else {"targets": "real"}
    data = {"source": file} if case.key == "source" else {"file": file, "bound": 1.0, "columns": case.spec.d, **kind}
    for k in range(case.runs):
        place, _ = run(merged(case.asked, {
            "data": data, "seed": case.asked["seed"] + 1000 * k, "output": {"dir": str(folder / f"run-{k}")},
            "record": {"transcript": True}, "report": False, "noise": {"key": f"run {k}"},
        }))  # fmt: skip
        places.append(place)
    privacy = json.loads((place / "summary.json").read_text())["privacy"]
    result.delta, result.has_views = privacy["delta"], "epsilon_node" in mpinodes.load(places[0])
    parts = [part for place in places for part in sorted(place.glob("repeat-*")) or [place]]
    together = privacy.get("together") if case.asked.get("repeats", 1) > 1 else None
    privacy = together or privacy
    result.is_gaussian = privacy["network"]["rule"] == "GDP"
    if case.runs > 1:
        result.printed["network"] = spent_together(places, result.delta)
    else:
        rows = {"network": privacy["network"]} | {f"agent {i}": row for i, row in enumerate(privacy["agents"])}
        result.printed = {name: (row["proven_pure"], row["proven"]) for name, row in rows.items()}
    proven = result.printed["network"][1]
    if proven is not None and np.isfinite(proven):
        result.recorded = [Recorded(part) for part in parts]
        agents = range(result.recorded[0].setup.topology.agents)
        result.own = [[Replayed(recorded, i) for i in agents] for recorded in result.recorded]
    return result


def changed_rows(rng: Random, case: Case, first: Recorded) -> list[tuple[int, int]]:
    """Draw what adjacent data change, as (file, row); the agent whose data change is drawn too.

    Under `one-round`, a round's samples are all changed, and only if they come in no other round: else the changed data
    would differ in more than one round. No rows are returned where no round has samples of its own.
    """
    setup, e = first.setup, first.setup.experiment
    agent, last = int(rng.integers(setup.topology.agents)), max(1, len(first.frames) - 1 - e.feedback.delay)
    samples, rounds = setup.stream.samples(agent), list(range(1, last + 1))
    shown = {t: list(dict.fromkeys(samples(t))) for t in range(1, max(last, e.rounds) + 1)}
    if e.privacy.adjacency == "one-round":
        often = Counter(k for numbers in shown.values() for k in numbers)
        rounds = [t for t in rounds if all(often[k] == 1 for k in shown[t])]
        if not rounds:
            return []
    numbers = shown[rounds[0] if rng.random() < case.early else int(rng.choice(rounds))]
    if e.privacy.adjacency == "one-sample":
        numbers = [numbers[int(rng.integers(len(numbers)))]]
    elif e.privacy.adjacency == "one-agent":
        share = setup.stream.shares
        numbers = list(range(len(share[agent]) if share is not None else case.spec.rows))
    if not case.spec.shared:
        return [(agent, int(k)) for k in numbers]
    rows = setup.stream.source_rows(agent)
    return [(0, int(k if rows is None else rows[k])) for k in numbers]


def judge(result: Result, ran: Ran, sums: list[Realised], words: str) -> None:
    """Compare the agents' sums with what is printed of the network and of each agent."""
    totals = {"network": Realised(*np.sum(sums, axis=0).tolist())}
    totals |= {f"agent {i}": of_agent for i, of_agent in enumerate(sums)}
    for name, (pure, proven) in ran.printed.items():
        loss, ratio, squares = totals[name]
        if pure is not None:
            result.see(loss, pure, f"{words}, {name}, sum of changes/scale")
            result.see(abs(ratio), pure, f"{words}, {name}, log-likelihood ratio")
        if proven is not None and (squares > 0 or ran.is_gaussian):
            result.see(np.sqrt(squares), gdp_mu(proven, ran.delta), f"{words}, {name}, mu")
        elif proven is not None and pure is None and np.isinf(loss):
            result.see(loss, proven, f"{words}, {name}, epsilon at delta")


def attack(case: Case, rng: Random, folder: Path, sets: int) -> Result:
    """Run a case, and judge so many adjacent data sets."""
    spec, tables = case.spec, case.spec.tables(rng)
    now = ran(case, tables, folder)
    if not now.recorded:
        return Result(case.title, "unproven")
    result, worst = Result(case.title, "proven"), (-1.0, {})
    if now.has_views and case.asked["algorithm"].get("stop"):
        # Agents send who moves still, which tells of messages that a node did not receive: no law of a view is known.
        result.see(np.inf, 1.0, "a view of single nodes is printed of a run that ends by a rule")
    for k in range(sets):
        if k < max(1, sets - CLIMB):
            how, same = rng.random(), spec.row(rng)
            places = changed_rows(rng, case, now.recorded[0])
            changed = {
                (file, at): spec.opposite((tables[file][0][at], tables[file][1][at]))
                if how < 0.5
                else (same if how < 0.75 else spec.row(rng))
                for file, at in places
            }
        else:
            changed = {place: spec.near(row, rng) for place, row in worst[1].items()}
        if not changed:
            result.words = "no round has samples of its own"
            return result
        other = [(features.copy(), targets.copy()) for features, targets in tables]
        for (file, at), (features, target) in changed.items():
            other[file][0][at], other[file][1][at] = features, target
        path = spec.write(other, folder, "other")
        owners = range(len(now.own[0])) if spec.shared else {file for file, _ in changed}
        sums = [Realised(0.0, 0.0, 0.0)] * len(now.own[0])
        for recorded, own in zip(now.recorded, now.own, strict=True):
            setup = on_other_data(recorded.setup, case.key, path)
            for i in owners:
                sums[i] = Realised(*np.add(sums[i], realised(own[i], setup, recorded)))
        result.sets += 1
        judged = Result(case.title, "proven")
        judge(judged, now, sums, f"data set {result.sets}")
        if judged.ratio > result.ratio:
            result.ratio, result.words = judged.ratio, judged.words
        if judged.ratio > worst[0]:
            worst = judged.ratio, changed
    return result
