"""A cost model of start-up, rounds and memory, fitted to what was measured and held against what it was not fitted on.

On a machine whose cores all ranks share, a round takes what everyone does in it, divided by the cores: every agent its
step, which costs more the more ranks take turns on a core (caches are cold after a switch), every message its sending
and receiving, and the logger its arithmetic. With a core for every rank it takes as long as whoever takes longest.
Coefficients are found by non-negative least squares of relative residuals, so that a small run counts as a large one.
"""

from __future__ import annotations

import os
import resource
import statistics
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from rows import FITTED, Row
from scipy.optimize import nnls

AFTER = ("rounds", "comparator", "accounting", "bounds", "report")
NODES, PER_NODE = 16, 64
LINKS = {"InfiniBand": (2e-6, 10e9), "TCP on 10 Gb/s Ethernet": (30e-6, 1.2e9)}  # s, bytes/s: assumed, not measured
FRAME = 16  # words of a frame beside its vector, at most
LOGGER = "the logger in lockstep"
BUFFERS = 2 * 65536  # bytes that the logger keeps for an agent: two chunks of `rounds.plan.CHUNK`


class Spent(NamedTuple):
    """What a round takes.

    Attributes:
        step, agent, logger: CPU seconds: of an agent's step and of an agent in all (means), of the logger's arithmetic.
        waited, displaced: context switches of an agent (the mean).
        chunks: that come to the logger.
        wall: seconds by the clock, of the agent that began last: its rounds hold no waiting for the others' start.
    """

    step: float
    agent: float
    logger: float
    waited: float
    displaced: float
    chunks: float
    wall: float

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Spent:
        """From what `watched` wrote."""
        agents = found["agents"]
        step, agent, waited, displaced = (
            statistics.fmean(one.get(name, 0.0) for one in agents) for name in ("step", "rounds", "waited", "displaced")
        )
        wall = min(one.get("wall", 0.0) for one in agents)
        return cls(step, agent, found["logger"]["take"], waited, displaced, found["logger"]["chunks"], wall)


class Point(NamedTuple):
    """The median run of a row."""

    group: str
    agents: int
    dimension: int
    messages: int
    round: float  # s
    bare: float  # s
    own: float  # s of start-up and end
    spent: Spent
    after: float  # CPU s of the logger after the rounds
    whole_mb: float
    rank_mb: float
    most_mb: float
    record: float  # bytes of an agent and round

    @property
    def ranks(self) -> int:
        return self.agents + 1

    def busy(self, cores: int) -> float:
        """The part of the cores' time that is spent on rounds."""
        return (self.agents * self.spent.agent + self.spent.logger) / (cores * self.round)

    @classmethod
    def of(cls, row: Row, runs: list[dict[str, Any]]) -> Point:
        """Medians of everything."""

        def middle(value: Callable[[dict[str, Any]], float]) -> float:
            return statistics.median(map(value, runs))

        spent = [Spent.of(run["spent"]) for run in runs]
        return cls(
            row.group, row.agents, row.dimension, row.messages,
            middle(lambda run: Spent.of(run["spent"]).wall or 1 / run["rounds_per_second"]),
            middle(lambda run: run.get("bare", 0.0)),
            middle(lambda run: run["whole"] - sum(map(run["timing"].get, AFTER))),
            Spent(*map(statistics.median, zip(*spent, strict=True))),
            middle(lambda run: run["spent"]["logger"]["finish"]),
            *(middle(lambda run, name=name: run[name]) for name in ("pss_mb", "rank_mb", "largest_mb")),
            middle(lambda run: run["record"] / (row.agents * row.rounds)),
        )  # fmt: skip


class Taken(NamedTuple):
    """What the model is made of."""

    cores: int
    shared: list[Point]  # under MPI, all ranks on these cores
    alone: list[Point]  # in one process
    wires: dict[str, list[float]]

    @classmethod
    def of(cls, taken: Iterable[tuple[Row, list[dict[str, Any]]]]) -> Taken:
        """From all rows that have runs."""
        shared, alone, wires = [], [], {}
        for row, runs in taken:
            if runs and row.group == "wires":
                wires = runs[-1]
            elif runs and row.rounds and row.group in ("grid", "edges", "lockstep"):
                (alone if row.group == "lockstep" else shared).append(Point.of(row, runs))
        return cls(len(os.sched_getaffinity(0)), shared, alone, wires)


class Fit(NamedTuple):
    """Non-negative coefficients of named features."""

    what: str
    features: Callable[[Point], dict[str, float]]
    coefficients: dict[str, float]
    residuals: np.ndarray  # relative
    points: int

    @classmethod
    def to(cls, what: str, features: Callable, points: list[Point], value: Callable[[Point], float]) -> Fit:
        """By the value of some points."""
        wanted = np.array([value(p) for p in points])
        columns = np.array([list(features(p).values()) for p in points])
        scaled = columns / wanted[:, None]
        sizes = np.linalg.norm(scaled, axis=0)
        sizes[sizes == 0] = 1.0
        found = nnls(scaled / sizes, np.ones(len(points)))[0] / sizes
        names = list(features(points[0]))
        return cls(what, features, dict(zip(names, found.tolist(), strict=True)), scaled @ found - 1, len(points))

    def __call__(self, p: Point) -> float:
        """Predicted."""
        return sum(self.coefficients[name] * value for name, value in self.features(p).items())

    def told(self, scale: float, unit: str) -> list[str]:
        """In words."""
        parts = [
            f"{c:.2g} × {name}" if name == LOGGER else f"{scale * c:.3g} {unit}{'' if name == '1' else ' × ' + name}"
            for name, c in self.coefficients.items()
            if c
        ]
        off = np.abs(self.residuals)
        return [
            f"{self.what} = " + " + ".join(parts),
            f"    residuals of {self.points} points: {np.median(off):.0%} in the middle, {off.max():.0%} at most",
        ]


class Model(NamedTuple):
    """All that is fitted."""

    bare: Fit
    own: Fit
    logger: Fit | None
    round: Fit
    memory: Fit | None

    @classmethod
    def of(cls, taken: Taken, points: list[Point], alone: list[Point]) -> Model:
        """To these points."""
        logger = Fit.to("logger", logger_features, alone, lambda p: p.spent.logger) if alone else None
        seen = [p for p in points if p.whole_mb]
        return cls(
            Fit.to(
                "bare start", lambda p: {"1": 1.0, "ranks": p.ranks, "ranks²": p.ranks**2}, points, lambda p: p.bare
            ),
            Fit.to("start-up and end", own_features, points, lambda p: p.own),
            logger,
            round_fit(taken.cores, logger, points),
            Fit.to("PSS of all ranks", memory_features, seen, lambda p: p.whole_mb) if seen else None,
        )


def logger_features(p: Point) -> dict[str, float]:
    """Every agent's point is judged on every agent's loss; a chunk of rounds costs something by itself."""
    n, chunks = p.agents, p.spent.chunks
    return {
        "chunks": chunks,
        "agents × chunks": n * chunks,
        "agents": n,
        "agents²": n**2,
        "agents² × d": n**2 * p.dimension,
    }


def own_features(p: Point) -> dict[str, float]:
    """What every rank imports and builds, whom it knows, and what it reads."""
    return {"1": 1.0, "ranks": p.ranks, "ranks²": p.ranks**2, "ranks × d": p.ranks * p.dimension}


def memory_features(p: Point) -> dict[str, float]:
    """What every rank has, and what it reads."""
    return {"1": 1.0, "ranks": p.ranks, "ranks²": p.ranks**2, "ranks × d": p.ranks * p.dimension}


def round_features(cores: int, logger: Fit | None, warm: float) -> Callable[[Point], dict[str, float]]:
    """CPU of all: `warm` ranks a core are so few that half of a step's data are still in the caches at the next one."""

    def features(p: Point) -> dict[str, float]:
        n, d, m = p.agents, p.dimension, p.messages
        crowd = p.ranks / cores
        found = {"agents": n, "agents × d": n * d, "agents × cold": n * crowd / (crowd + warm)}
        found |= {"agents × ranks per core": n * crowd, "messages": m, "messages × d": m * d}
        return found | ({LOGGER: logger(p)} if logger else {})

    return features


def round_fit(cores: int, logger: Fit | None, points: list[Point]) -> Fit:
    """With the `warm` that fits best."""
    fits = [
        Fit.to(
            f"cores × round, cold = r / (r + {warm:g}) with r ranks per core", round_features(cores, logger, warm),
            points, lambda p: cores * p.round,
        )
        for warm in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
    ]  # fmt: skip
    return min(fits, key=lambda fit: float(np.linalg.norm(fit.residuals)))


def split(points: list[Point]) -> tuple[list[Point], list[Point]]:
    """Those that are fitted, and the larger ones that are predicted."""
    numbers = sorted({p.agents for p in points})
    largest = FITTED if numbers[-1] > FITTED else numbers[-2] if len(numbers) > 1 else numbers[-1]
    return [p for p in points if p.agents <= largest], [p for p in points if p.agents > largest]


def told(taken: Taken) -> str:
    """The model, its errors, and what it says of what was not run."""
    if not taken.shared:
        return "cost model: no row of the groups grid and edges was taken\n"
    few, many = split(taken.shared)
    alone = [p for p in taken.alone if p.agents <= max(q.agents for q in few)]
    model = Model.of(taken, few, alone)
    lines = [
        f"cost model, fitted to {len(few)} runs of up to {max(p.agents for p in few)} agents on {taken.cores} cores"
    ]
    lines += [*model.bare.told(1e3, "ms"), *model.own.told(1e3, "ms")]
    lines += model.logger.told(1e6, "µs") if model.logger else []
    lines += [*model.round.told(1e6, "µs"), *(model.memory.told(1.0, "MB") if model.memory else [])]
    lines += ["", *checked(model, many, taken.cores)]
    whole = Model.of(taken, taken.shared, taken.alone)
    lines += ["", *step_told(taken), "", *a_core_each(taken), "", *by_edges(taken.shared)]
    lines += ["", *beyond(whole, taken)]
    return "\n".join(lines) + "\n"


def checked(model: Model, many: list[Point], cores: int) -> list[str]:
    """Prediction against measurement for numbers of agents that were not fitted."""
    if not many:
        return ["held against larger runs: none was taken"]
    lines = ["held against larger runs, which were not fitted: predicted, measured, error"]
    for p in sorted(many, key=lambda p: (p.agents, p.dimension)):
        pairs = {
            "bare start s": (model.bare(p), p.bare),
            "start-up and end s": (model.own(p), p.own),
            "round ms": (1e3 * model.round(p) / cores, 1e3 * p.round),
        }
        if model.memory and p.whole_mb:
            pairs["PSS MB"] = (model.memory(p), p.whole_mb)
        cells = [f"{name} {a:.3g}, {b:.3g}, {a / b - 1:+.0%}" for name, (a, b) in pairs.items()]
        lines.append(f"    n = {p.agents}, d = {p.dimension}, {p.messages} messages: " + "; ".join(cells))
    return lines


def step_told(taken: Taken) -> list[str]:
    """An agent's CPU, warm and cold."""
    warm = {(p.agents, p.dimension): p.spent.step for p in taken.alone}
    lines = [
        "an agent's step, µs of CPU: warm (one process), cold (under MPI), and with exchange and waiting; how busy "
        "rounds keep the cores (measured)"
    ]
    for p in sorted(taken.shared, key=lambda p: (p.dimension, p.agents)):
        if (p.agents, p.dimension) in warm and p.group == "grid":
            cells = (warm[p.agents, p.dimension], p.spent.step, p.spent.agent)
            numbers = ", ".join(f"{1e6 * x:.0f}" for x in cells)
            lines.append(
                f"    n = {p.agents}, d = {p.dimension}, {p.ranks / taken.cores:.1f} ranks a core: {numbers}; "
                f"{p.busy(taken.cores):.0%}"
            )
    return lines


def wire(taken: Taken, d: int) -> float:
    """Seconds of a message of a vector between two cores of one machine."""
    if "apart" not in taken.wires:
        return 0.0
    return float(np.interp(8 * (d + FRAME), taken.wires["bytes"], taken.wires["apart"]))


def a_core_each(taken: Taken) -> list[str]:
    """Who would be the bottleneck, were there a core for every rank: modelled from figures of one process."""
    lines = [
        "a core for every rank, ring: agent = its round in lockstep and two messages, logger = its arithmetic in "
        "lockstep (measured); rounds/s = 1 / the larger (modelled)"
    ]
    for p in sorted(taken.alone, key=lambda p: (p.dimension, p.agents)):
        agent, logger = p.spent.agent + 2 * wire(taken, p.dimension), p.spent.logger
        who = "the logger" if logger > agent else "the agents"
        lines.append(
            f"    n = {p.agents}, d = {p.dimension}: agent {1e6 * agent:.0f} µs, logger {1e6 * logger:.0f} µs: "
            f"{1 / max(agent, logger):.0f} rounds/s, {who} by {max(agent, logger) / min(agent, logger):.1f}"
        )
    return lines


def by_edges(points: list[Point]) -> list[str]:
    """Cost of a round against messages, the number of agents being fixed."""
    lines = ["cost of a round against messages (directed edges), n fixed:"]
    for n in sorted({p.agents for p in points if p.group == "edges"}):
        mine = [p for p in points if p.group == "edges" and p.agents == n]
        if len(mine) < 2:
            continue
        m = np.array([p.messages for p in mine], dtype=float)
        found = []
        for name, values in (
            ("seconds", [p.round for p in mine]),
            ("CPU of an agent", [p.spent.agent for p in mine]),
            ("of its step", [p.spent.step for p in mine]),
        ):
            y = np.array(values)
            exponent = np.polyfit(np.log(m), np.log(y), 1)[0]
            slope, constant = np.polyfit(m, 1e6 * y, 1)
            found.append(f"{name} ~ messages^{exponent:.2f}, or {constant:.0f} µs + {slope:.2g} µs × messages")
        lines.append(f"    n = {n}, {m.min():.0f} to {m.max():.0f} messages: " + "; ".join(found))
    return lines if len(lines) > 1 else [lines[0] + " too few rows of the group edges were taken"]


def beyond(model: Model, taken: Taken) -> list[str]:
    """1,024 agents on 16 machines: extrapolated, with links assumed."""
    n, ranks = NODES * PER_NODE, PER_NODE + 1
    lines = [f"{n:,} agents on {NODES} nodes, {PER_NODE} on each, a ring: extrapolated from one machine, links assumed"]
    limits: list[tuple[float, str]] = []
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    for d in sorted({p.dimension for p in taken.alone}):
        p = next(p for p in taken.alone if p.dimension == d)._replace(agents=n, messages=2 * n)
        warm = statistics.median(q.spent.agent for q in taken.alone if q.dimension == d)
        logger = model.logger(p) if model.logger else 0.0
        for name, (latency, bandwidth) in LINKS.items():
            agent = warm + 2 * (latency + 8 * (d + FRAME) / bandwidth)
            lines.append(
                f"    d = {d}, {name}, a core each: agent {1e6 * agent:.0f} µs, logger {1e3 * logger:.2f} ms: "
                f"{1 / max(agent, logger):.0f} rounds/s, {1 / agent:.0f} if the logger kept up"
            )
        into = 8 * n * (d + 16)
        limits.append((logger / agent, f"logger's arithmetic at d = {d}: {logger / agent:.0f} times an agent's round"))
        rate = into / max(agent, logger)
        lines.append(
            f"    d = {d}: {into / 1e3:.0f} kB a round come in at the logger, {rate / 1e9:.2f} GB/s at that rate"
        )
        buffers = n * max(BUFFERS, 16 * (d + 16))
        lines.append(f"    d = {d}: the logger's receive buffers take {buffers / 1e6:.0f} MB (two chunks an agent)")
        limits.append((buffers / 64e9, f"the logger's receive buffers at d = {d}, of 64 GB"))
    here = max(taken.shared, key=lambda p: p.agents)
    bare = model.bare.coefficients
    each = min(p.record for p in taken.shared if p.dimension == here.dimension) * n
    lines += [
        f"    start of {ranks} ranks on a node of {taken.cores} cores: {model.bare(_node(here)):.1f} s bare and "
        f"{model.own(_node(here)):.1f} s ours; with a core each, {bare['1'] + bare['ranks'] * taken.cores:.2f} s bare "
        "at the least; what it takes the nodes to find each other cannot be measured here",
        f"    record at d = {here.dimension}: {each / 1e3:.0f} kB a round, {each / 1e4:.1f} GB in 10^5 rounds",
        f"    connections: {PER_NODE} local ones and {n - PER_NODE} to other nodes at the logger, 3 at an agent; over "
        f"TCP each is a file, of which a process may have {files if files > 0 else 'any number'} here, and often 1,024",
    ]
    limits.append(((n - PER_NODE) / 1024, "connections of the logger over TCP: nearly 1,024 files, a common limit"))
    if model.memory:
        node = model.memory(_node(here))
        limits.append((node / 64e3, f"memory of a node at d = {here.dimension}: {node / 1e3:.1f} GB, of 64"))
        lines.append(f"    memory of a node at d = {here.dimension}: {node / 1e3:.1f} GB of PSS")
    lines.append("  what breaks first, as a multiple of what is there: " + "; ".join(
        f"{what} ({ratio:.2g})" for ratio, what in sorted(limits, reverse=True)
    ))  # fmt: skip
    return lines


def _node(p: Point) -> Point:
    return p._replace(agents=PER_NODE, messages=2 * PER_NODE)
