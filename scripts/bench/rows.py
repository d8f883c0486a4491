"""The rows of the benchmark: what is run, on how many ranks, for how long at most."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import networkx as nx

RING = ("algorithm.name=dola", "topology.name=ring")  # of as many agents as there are ranks for
QUIET = ("report=false",)
DIGITS = ("algorithm.name=dpsda-ps",)  # on seven agents, who share 284 samples
AGENTS = (7, 15, 31, 63, 100, 256)
DIMENSIONS = (10, 64, 784, 3072)
FITTED = 63  # agents: the cost model sees no larger runs, and is held against those


class Row(NamedTuple):
    """One line of the table.

    Attributes:
        name: what it is called, and by what `--only` finds it.
        group: commands, long, grid, edges, lockstep, wires, round, peers or study.
        ranks: of MPI; 0: one process.
        words: `key=value` of the experiment, or what a peer is told.
        agents, dimension, messages: what the cost model needs to know: messages of a round, over directed edges.
        limit: seconds of one command.
        rounds: of a row that the cost model may use; 0: it may not.
    """

    name: str
    group: str
    ranks: int
    words: tuple[str, ...] = ()
    agents: int = 0
    dimension: int = 0
    messages: int = 0
    rounds: int = 0
    limit: float = 300.0


def table(out: Path, data: Path | None, seeds: int) -> list[Row]:
    """All rows; graphs that have to be files are written below `out`, and data sets are read below `data`."""
    return [
        Row("wires", "wires", 2), *commands(), *long(), *grid(AGENTS, DIMENSIONS),
        *edges(out, 16, 300), *edges(out, 32, 150), *lockstep(AGENTS, (10, 64, 784)), *by_algorithm(data),
        *(_bare(ranks, how) for how in ((), ("--apart",)) for ranks in (8, 16, 32, 64, 101)),
        *peers((784, 10)), *studies(seeds),
    ]  # fmt: skip


def _bare(ranks: int, how: tuple[str, ...]) -> Row:
    return Row(f"bare loop, {ranks} ranks{', apart' * bool(how)}", "round", ranks, how, limit=600)


def quick(out: Path, seeds: int) -> list[Row]:
    """The same in small: whether it runs, not how fast."""
    return [
        Row("wires", "wires", 2, ("--quick",)),
        Row("default, no report", "commands", 8, ("rounds=8", *QUIET)),
        Row("a key there is not", "commands", 2, ("nothing=1",)),
        *(_grid(n, 10, 16) for n in (2, 4)),
        _edge(out, "complete", 4, 16, 12),
        _lockstep(4, 10, 16),
        Row("bare loop", "round", 4, ("--quick",)),
        *(row for row in peers((10,), 16, agents=3) if "script" in row.name),
        *studies(seeds, 16, "study.seeds=1", "topology.name=ring", "privacy.budget.epsilon=1"),
    ]


def commands() -> list[Row]:
    """What users ask for."""
    minutes = {
        "default": (8, ()),
        "default, no report": (8, QUIET),
        "dpsda-ps": (8, DIGITS),
        "dpsda-ps, no report": (8, (*DIGITS, *QUIET)),
        "T = 5,000": (8, (*DIGITS, "rounds=5000", "data.epochs=18", *QUIET)),
        "T = 20,000": (8, (*DIGITS, "rounds=20000", "data.epochs=71", *QUIET)),
        "T = 20,000, public": (8, (*DIGITS, "rounds=20000", "data.epochs=71", "algorithm.gradient_at=public", *QUIET)),
        "dola-minibatch": (8, ("algorithm.name=dola-minibatch", *QUIET)),
        "pp-admm": (8, ("algorithm.name=pp-admm", *QUIET)),
        "dola, T = 3,000": (8, (*RING, "rounds=3000", *QUIET)),
        "d = 784, 100,000 samples": (8, (*RING, "data.dimension=784", "rounds=500", *QUIET)),
        "5 repeats": (8, (*DIGITS, "repeats=5", *QUIET)),
        "65 ranks, 10 rounds": (65, (*RING, "rounds=10", *QUIET)),
        "65 ranks, 1,000 rounds": (65, (*RING, "rounds=1000", *QUIET)),
        "101 ranks, 10 rounds": (101, (*RING, "rounds=10", *QUIET)),
        "257 ranks, 50 rounds": (257, (*RING, "rounds=50", *QUIET)),
    }
    return [Row(name, "commands", ranks, words) for name, (ranks, words) in minutes.items()]


def long() -> list[Row]:
    """Up to a million rounds; hidden: gradients at points that nobody else sees, whose accounting is the longer one."""
    public, few = "algorithm.gradient_at=public", ("algorithm.name=dpsda-c", "topology.name=ring")
    million = ("data.epochs=3571", "rounds=1000000", *QUIET)
    return [
        Row("T = 100,000, hidden", "long", 8, (*DIGITS, "data.epochs=358", "rounds=100000", *QUIET)),
        Row("T = 100,000, public", "long", 8, (*DIGITS, "data.epochs=358", "rounds=100000", public, *QUIET)),
        Row("T = 10^6, 3 agents, hidden", "long", 4, (*few, *million), limit=900),
        Row("T = 10^6, 3 agents, public", "long", 4, (*few, public, *million), limit=900),
        Row("T = 10^6, 3 agents, dola", "long", 4, (*RING, "data.total=3000000", "rounds=1000000", *QUIET), limit=900),
    ]


def grid(agents: tuple[int, ...], dimensions: tuple[int, ...]) -> list[Row]:
    """DOLA on a ring: every agent with dimension d, a sample a round."""
    return [_grid(n, d, rounds_of(n, d)) for n in agents for d in dimensions]


def rounds_of(n: int, d: int) -> int:
    """Enough to be timed, and few enough to be waited for."""
    return max(50, (6000 if d < 100 else 3000 if d < 1000 else 1500) // n)


def _words(n: int, d: int, rounds: int) -> tuple[str, ...]:
    return (f"data.dimension={d}", f"data.total={n * rounds}", f"rounds={rounds}", *QUIET)


def _grid(n: int, d: int, rounds: int) -> Row:
    ring = 2 * n if n > 2 else 2
    return Row(f"n = {n}, d = {d}", "grid", n + 1, (*RING, *_words(n, d, rounds)), n, d, ring, rounds)


def edges(out: Path, n: int, rounds: int) -> list[Row]:
    """The same agents on more and more edges; the ring among them, in the same form."""
    degrees = [2, 3, 4, 8, *([16] if n > 20 else []), n - 1]
    return [_edge(out, f"degree {degree}", n, rounds, n * degree) for degree in degrees]


def _edge(out: Path, name: str, n: int, rounds: int, messages: int) -> Row:
    file = _regular(out, n, messages // n)
    words = ("algorithm.name=dola", f"topology.file={file}", *_words(n, 10, rounds))
    return Row(f"{name}, n = {n}", "edges", n + 1, words, n, 10, messages, rounds)


def _regular(out: Path, n: int, degree: int) -> Path:
    """A circulant graph, in which every agent has as many neighbours: a file."""
    steps = list(range(1, degree // 2 + 1)) + [n // 2] * (degree % 2)
    file = out.absolute() / f"regular-{n}-{degree}.json"
    graph = nx.circulant_graph(n, steps).to_directed()
    graph.graph = {"name": f"{degree} neighbours each", "period": 1}
    file.write_text(json.dumps(nx.node_link_data(graph, edges="edges")))
    return file


def lockstep(agents: tuple[int, ...], dimensions: tuple[int, ...]) -> list[Row]:
    """CPU of an agent and of the logger, where caches are warm; chunks of rounds as long as time allows."""
    return [_lockstep(n, d, min(3000, (40000 if d < 100 else 20000) // n)) for n in agents for d in dimensions]


def _lockstep(n: int, d: int, rounds: int) -> Row:
    words = (*RING, f"topology.agents={n}", *_words(n, d, rounds))
    return Row(f"lockstep, n = {n}, d = {d}", "lockstep", 0, words, n, d, 2 * n, rounds)


def by_algorithm(data: Path | None) -> list[Row]:
    """The same of other algorithms and of real data."""
    asked = {
        "dpsda-ps": DIGITS,
        "dola, d = 10": (*RING, "topology.agents=7", "rounds=3000"),
        "dola, d = 784, 25,000 samples": (*RING, "topology.agents=7", "data.dimension=784", "data.total=25000",
                                          "rounds=1000"),
        "dola-minibatch": ("algorithm.name=dola-minibatch",),
        "pp-admm": ("algorithm.name=pp-admm",),
    }  # fmt: skip
    if data:
        asked |= {
            "pp-admm, Adult": ("algorithm.name=pp-admm", "data.name=adult", f"data.dir={data / 'adult'}", "rounds=20"),
            "dpsda-ps, MNIST 6/8": (*DIGITS, "data.name=mnist-6-8", f"data.dir={data / 'mnist'}", "rounds=1000"),
            "dola, RCV1": ("algorithm.name=dola", "data.name=rcv1", f"data.dir={data / 'rcv1'}", "rounds=199"),
        }
    return [Row(f"lockstep: {name}", "lockstep", 0, (*words, *QUIET)) for name, words in asked.items()]


def peers(dimensions: tuple[int, ...], rounds: int = 1000, agents: int = 7) -> list[Row]:
    """A few agents on a ring: mpinodes beside others, in turn."""
    found = []
    for d in dimensions:
        words = (*RING, *_words(agents, d, rounds))
        found += [
            Row(f"{peer}, d = {d}", "peers", agents + 1, words, agents, d, 2 * agents, rounds)
            for peer in ("single-process script", "disropt, subgradient", "disropt, consensus alone")
        ]
    return found


def studies(seeds: int, rounds: int = 200, *fewer: str) -> list[Row]:
    """The study of docs/studies.md, and many seeds of the noise of one of its settings; beside the script."""
    one = ("algorithm.name=dola", "problem.preset=digits", "topology.agents=7", "topology.name=ring", "data.seed=0")
    shape = {"agents": 7, "dimension": 64, "rounds": rounds, "limit": 7200.0}
    return [
        Row("docs/studies.md", "study", 0, (f"rounds={rounds}", *fewer), **shape),
        Row(f"{seeds} seeds of one setting", "study", 0, (f"rounds={rounds}", *one, f"study.seeds={seeds}"), **shape),
    ]
