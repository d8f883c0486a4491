"""The whole benchmark: python scripts/bench/all.py OUT [--quick] [--only NAME]... [--seeds N].

Takes the rows of rows.py one after the other, prints them, and leaves in OUT the table as text and CSV, the cost model
that fits it (model.py), plots, and the machine's description. A row that is done (on this machine, with this code of
mpinodes) is not taken again: what was interrupted goes on where it was. A row that fails says why, and is tried again
the next time. Every command of mpinodes comes after a bare start of MPI and numpy on as many ranks, and every peer's
after one of mpinodes: figures are medians over such pairs, with the smallest and the largest; a row that takes long is
run less often, down to once.

Without --peers other people's packages are left out; with it they are installed below DIR, apart from everything else.
Without --data rows on Adult, MNIST and RCV1 are left out; DIR holds their files, a folder each.
"""

from __future__ import annotations

import argparse
import compileall
import csv
import fnmatch
import json
import re
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import commands
import machine
import model
import peer
import plots
import rows
from commands import Refused
from rows import Row

import mpinodes
from mpinodes.summary.timing import PARTS

HERE = Path(__file__).parent
BUDGET = 120.0  # seconds for a row, after which it is not run again
Run = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--quick", action="store_true", help="a few small rows: whether it runs, not how fast")
    parser.add_argument("--only", action="append", help="rows by name or group, or a pattern of names, as in 'n = 7,*'")
    parser.add_argument("--times", type=int, default=3, help="how often each row is run at most (3)")
    parser.add_argument("--peers", type=Path, help="where other packages are, or are to be, installed")
    parser.add_argument("--data", type=Path, help="where data sets are: its folders adult, mnist, rcv1")
    parser.add_argument("--seeds", type=int, help="of the study of one setting (1000; with --quick 4)")
    parser.add_argument("--list", action="store_true", help="print the rows, and which of them are done")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the command that runs is ended, too
    asked.out.mkdir(parents=True, exist_ok=True)
    if asked.quick:
        table = rows.quick(asked.out, asked.seeds or 4)
    else:
        table = rows.table(asked.out, asked.data and asked.data.absolute(), asked.seeds or 1000)
    book = Book(asked.out)
    if asked.list:
        for row in table:
            print(f"{row.group:10}{row.name:40}{'done' if book.done(row) else ''}")
        return 0
    wanted = [row for row in table if not asked.only or any(chosen(row, word) for word in asked.only)]
    if not wanted:
        parser.error(f"no row is called {' or '.join(map(repr, asked.only))}; see --list")
    # As after a first run, unless Python was told to write none (PYTHONDONTWRITEBYTECODE): else each rank compiles all.
    compileall.compile_dir(Path(mpinodes.__file__).parent, quiet=2)
    for row in wanted:
        if not book.done(row):
            print(f"{time.strftime('%H:%M:%S')} {row.name}", file=sys.stderr, flush=True)
            book.take(row, 1 if asked.quick else asked.times, asked.peers)
    text = report(book, table)
    (asked.out / "table.txt").write_text(text)
    print(text)
    write_csv(asked.out / "table.csv", book, table)
    taken = model.Taken.of([(row, book.runs(row)) for row in table])
    told = model.told(taken)
    (asked.out / "model.txt").write_text(told)
    print(told)
    plots.draw(asked.out, taken, [(row, book.runs(row)) for row in table])
    return 0


def chosen(row: Row, word: str) -> bool:
    """Whether a word of --only means it."""
    return word in (row.name, row.group) or fnmatch.fnmatch(row.name, word)


class Book:
    """What was taken, a file for each row below OUT/rows."""

    def __init__(self, out: Path) -> None:
        self.machine = machine.described()
        self._out = out
        (out / "rows").mkdir(exist_ok=True)
        (out / "machine.json").write_text(json.dumps(self.machine, indent=2))

    def path(self, row: Row) -> Path:
        """Of its file."""
        return self._out / "rows" / (re.sub(r"[^\w.]+", "-", f"{row.group}-{row.name}").strip("-") + ".json")

    def entry(self, row: Row) -> Run:
        """What is there of it; nothing, where another row, code or machine left it."""
        try:
            found: Run = json.loads(self.path(row).read_text())
        except (OSError, ValueError):
            return {}
        mine = (list(row.words), self.machine["code"], self.machine["cpu"], self.machine["cores"])
        return found if (found["words"], found["code"], found["cpu"], found["cores"]) == mine else {}

    def runs(self, row: Row) -> list[Run]:
        """All runs of it that ended well."""
        return list(self.entry(row).get("runs", []))

    def done(self, row: Row) -> bool:
        """Whether there are any."""
        return bool(self.runs(row))

    def take(self, row: Row, times: int, peers: Path | None) -> None:
        """Run it, and write down what came of it."""
        runs: list[Run] = []
        failed, begun = "", time.perf_counter()
        while len(runs) < times and (not runs or time.perf_counter() - begun < BUDGET):
            try:
                runs.append(KINDS[row.group](row, peers))
            except Exception as error:  # whatever it is, the other rows are taken
                failed = str(error) if isinstance(error, Refused) else f"{type(error).__name__}: {error}"
                break
        told = {name: self.machine[name] for name in ("code", "commit", "cpu", "cores")}
        text = json.dumps(
            {"name": row.name, "words": row.words, **told, "taken": time.strftime("%FT%TZ", time.gmtime()),
             "load": machine.load(), "failed": failed, "runs": runs}, indent=1
        )  # fmt: skip
        self.path(row).write_text(text)


def take_wires(row: Row, peers: Path | None) -> Run:
    """See wires.py."""
    with tempfile.TemporaryDirectory() as there:
        where = Path(there)
        command = [*commands.mpirun(row.ranks), str(HERE / "wires.py"), "wires.json", *row.words]
        commands.timed(command, where, row.limit)
        found: Run = json.loads((where / "wires.json").read_text())
        return found


def take_round(row: Row, peers: Path | None) -> Run:
    """What round.py prints: by case, rounds per second of mpinodes and of the bare loop, and their ratio."""
    with tempfile.TemporaryDirectory() as there:
        out = commands.timed(
            [*commands.mpirun(row.ranks), str(HERE / "round.py"), *row.words], Path(there), row.limit
        ).out
    pattern = r"^(.+?): mpinodes (\d+) rounds/s, bare loop (\d+) rounds/s, ratio ([\d.]+) \(([\d.]+) to ([\d.]+)\)"
    found = re.findall(pattern, out, re.MULTILINE)
    if not found:
        raise Refused("round.py printed no ratio")
    names = ("ours", "bare", "ratio", "least", "most")
    return {"cases": {case: dict(zip(names, map(float, told), strict=True)) for case, *told in found}, "out": out}


def take_peer(row: Row, peers: Path | None) -> Run:
    """A watched run of mpinodes, then the peer, then all agents of mpinodes in one process."""
    theirs = peer.prepared(row.name, peers)
    ours = commands.beside_bare(row.ranks, list(row.words), row.limit, watched=True)
    with tempfile.TemporaryDirectory() as there:
        found: Run = json.loads(commands.timed(theirs(row), Path(there), row.limit).out.splitlines()[-1])
    one = commands.alone([*row.words, f"topology.agents={row.agents}"], row.limit)
    cpu = sum(agent["rounds"] for agent in ours["spent"]["agents"]) + ours["spent"]["logger"]["follow"]
    mine = {"rate": ours["rounds_per_second"], "cpu": cpu}
    other = {"rate": row.rounds / found["seconds"], "cpu": found["cpu"] / row.rounds}
    alone = {"rate": one["rounds_per_second"], "cpu": one["spent"]["logger"]["follow"]}
    rates = {"ours": mine, "alone": alone, "theirs": other}
    return {**rates, "told": found, "timing": ours["timing"], "spent": ours["spent"]}


def take_command(row: Row, peers: Path | None) -> Run:
    """The command as it is."""
    return commands.beside_bare(row.ranks, list(row.words), row.limit)


def take_watched(row: Row, peers: Path | None) -> Run:
    """The command with clocks in it."""
    return commands.beside_bare(row.ranks, list(row.words), row.limit, watched=True)


def take_alone(row: Row, peers: Path | None) -> Run:
    """All in one process."""
    return commands.alone(list(row.words), row.limit)


def take_study(row: Row, peers: Path | None) -> Run:
    """A study, and then the script that is thrown away, doing as many runs."""
    told = []
    ours = [sys.executable, str(HERE / "study.py"), *row.words]
    for command in (lambda: ours, lambda: peer.script(row, told[0]["runs"])):
        with tempfile.TemporaryDirectory() as there:
            told.append(json.loads(commands.timed(command(), Path(there), row.limit).out.splitlines()[-1]))
    return {"ours": told[0], "theirs": told[1]}


KINDS: dict[str, Callable[[Row, Path | None], Run]] = {
    "wires": take_wires, "round": take_round, "peers": take_peer, "commands": take_command, "long": take_command,
    "grid": take_watched, "edges": take_watched, "lockstep": take_alone,
    "study": take_study,
}  # fmt: skip


def report(book: Book, table: list[Row]) -> str:
    """All that was taken, as a table for each group."""
    lines = [", ".join(f"{name} {value}" for name, value in book.machine.items()), ""]
    groups = list(dict.fromkeys(row.group for row in table))
    for group in groups:
        mine = [row for row in table if row.group == group]
        head, show = SHOWN[group]
        lines += [f"{group}: {ABOUT[group]}", f"{'':40}" + "".join(f"{name:>12}" for name in head)]
        for row in mine:
            runs, failed = book.runs(row), book.entry(row).get("failed")
            for name, cells in show(row, runs) if runs else []:
                lines.append(f"{name:40}" + "".join(f" {cell:>11}" for cell in cells))
            if failed:
                lines.append(f"{row.name:40}  failed{' the next time' if runs else ''}: {failed}")
            elif not runs:
                lines.append(f"{row.name:40}  not taken")
        lines.append("")
    scripts = [(row, book.runs(row)) for row in table if row.group == "peers" and "script" in row.name]
    lines += [line for row, runs in scripts if runs for line in account(row, runs)]
    if scripts:
        lines += [peer.LEFT_OUT, ""]
    return "\n".join(lines)


Shown = list[tuple[str, list[str]]]


def show_command(row: Row, runs: list[Run]) -> Shown:
    """The run whose ratio is the median, and the spread of ratios."""
    one = sorted(runs, key=lambda run: run["ratio"])[len(runs) // 2]
    ratios = [run["ratio"] for run in runs]
    cells = [f"{one['ratio']:.2f}", f"{min(ratios):.1f}-{max(ratios):.1f}", str(len(runs))]
    cells += [f"{seconds:.2f}" for seconds in (one["bare"], one["whole"], *(one["timing"][part] for part in PARTS))]
    cells += [f"{one[name]:.0f}" for name in ("rounds_per_second", "pss_mb", "rank_mb", "largest_mb", "gone_mb")]
    return [(row.name, cells)]


def show_watched(row: Row, runs: list[Run]) -> Shown:
    """As `show_command`, and µs of CPU in a round."""
    ((name, cells),) = show_command(row, runs)
    spent = [model.Spent.of(run["spent"]) for run in runs]
    told = [statistics.median(values) for values in zip(*spent, strict=True)]
    return [(name, [*cells, *(f"{1e6 * value:.0f}" for value in told[:3]), f"{told[3] + told[4]:.1f}"])]


def show_alone(row: Row, runs: list[Run]) -> Shown:
    """µs of CPU in a round, and seconds of it after them."""
    agent = [1e6 * run["spent"]["agents"][0]["rounds"] for run in runs]
    logger = [1e6 * run["spent"]["logger"]["take"] for run in runs]
    after = [run["spent"]["logger"]["finish"] for run in runs]
    cells = [str(len(runs)), f"{statistics.median(agent):.0f}", f"{statistics.median(logger):.0f}"]
    cells += [f"{min(logger):.0f}-{max(logger):.0f}", f"{statistics.median(after):.2f}"]
    return [(row.name, [*cells, f"{statistics.median(run['whole'] for run in runs):.2f}"])]


def show_wires(row: Row, runs: list[Run]) -> Shown:
    """µs of a message by its size."""
    return [
        (
            f"{size} bytes",
            [f"{1e6 * runs[-1][how][k]:.1f}" if how in runs[-1] else "-" for how in ("apart", "together")],
        )
        for k, size in enumerate(runs[-1]["bytes"])
    ]


def show_round(row: Row, runs: list[Run]) -> Shown:
    """By case, of the last run, which has repeats of its own."""
    return [
        (
            f"{row.name}, {case}",
            [
                f"{one['ratio']:.2f}",
                f"{one['least']:.2f}-{one['most']:.2f}",
                f"{one['ours']:.0f}",
                f"{one['bare']:.0f}",
            ],
        )
        for case, one in runs[-1]["cases"].items()
    ]


def show_peer(row: Row, runs: list[Run]) -> Shown:
    """Rounds per second and CPU of a round, ours and theirs."""
    return [(row.name, _beside(runs, "ours")), ("    in one process", _beside(runs, "alone"))]


def show_study(row: Row, runs: list[Run]) -> Shown:
    """Seconds and CPU of a study, and ms of CPU of one of its runs, ours and theirs."""
    number = runs[0]["ours"]["runs"]
    cells = [str(len(runs)), str(number)]
    cells += [f"{statistics.median(run['ours'][what] for run in runs):.1f}" for what in ("seconds", "cpu")]
    cells += [f"{1000 * statistics.median(run[whose]['cpu'] for run in runs) / number:.1f}" for whose in SIDES]
    ratios = sorted(run["theirs"]["cpu"] / run["ours"]["cpu"] for run in runs)
    return [(row.name, [*cells, f"{statistics.median(ratios):.3g}", f"{ratios[0]:.2g}-{ratios[-1]:.2g}"])]


SIDES = ("ours", "theirs")


def _beside(runs: list[Run], mine: str) -> list[str]:
    cells = [str(len(runs))]
    for what, unit in (("rate", 1.0), ("cpu", 1e6)):
        ours, theirs = ([unit * run[whose][what] for run in runs] for whose in (mine, "theirs"))
        ratios = sorted(a / b if what == "rate" else b / a for a, b in zip(ours, theirs, strict=True))
        cells += [f"{statistics.median(ours):.0f}", f"{statistics.median(theirs):.0f}"]
        cells += [f"{statistics.median(ratios):.3g}", f"{ratios[0]:.2g}-{ratios[-1]:.2g}"]
    return cells


def account(row: Row, runs: list[Run]) -> list[str]:
    """Where the difference to the single-process script goes, µs of CPU in a round."""

    def middle(value: Callable[[Run], float]) -> float:
        return 1e6 * statistics.median(map(value, runs))

    spent = [model.Spent.of(run["spent"]) for run in runs]
    n = row.agents
    steps, agents = (n * 1e6 * statistics.median(getattr(s, name) for s in spent) for name in ("step", "agent"))
    taken, logger = (middle(lambda run, name=name: run["spent"]["logger"][name]) for name in ("take", "follow"))
    theirs = [middle(lambda run, name=name: run["told"][name] / row.rounds) for name in ("cpu_rounds", "cpu_losses")]
    return [
        f"{row.name}: {agents + logger:.0f} µs of CPU in a round go to the steps of {n} agents ({steps:.0f}), their "
        f"exchange and waiting ({agents - steps:.0f}), the logger's arithmetic and record ({taken:.0f}) and its "
        f"receiving and waiting ({logger - taken:.0f});",
        f"    the script takes {theirs[0]:.0f} for all agents' rounds as one matrix and {theirs[1]:.0f} for all "
        "losses, without messages, noise that can be addressed by round, checks, a record or accounting",
    ]


COMMAND = ("ratio", "spread", "runs", "bare", "whole", *PARTS, "rounds/s", "MB", "MB rank", "MB most", "MB gone")
SHOWN: dict[str, tuple[tuple[str, ...], Callable[[Row, list[Run]], Shown]]] = {
    "commands": (COMMAND, show_command),
    "long": (COMMAND, show_command),
    "grid": ((*COMMAND, "step", "agent", "logger", "switches"), show_watched),
    "edges": ((*COMMAND, "step", "agent", "logger", "switches"), show_watched),
    "lockstep": (("runs", "agent", "logger", "spread", "after", "whole"), show_alone),
    "wires": (("apart", "together"), show_wires),
    "round": (("ratio", "spread", "rounds/s", "bare"), show_round),
    "peers": (("runs", "rounds/s", "theirs", "ratio", "spread", "cpu", "theirs", "ratio", "spread"), show_peer),
    "study": (("times", "runs", "seconds", "cpu", "ms a run", "theirs", "ratio", "spread"), show_study),
}
ABOUT = {
    "commands": "seconds of a command and of its parts, beside a bare start; MB of PSS: all ranks, the middle one, the "
    "largest; MB gone of the machine's free memory, whoever took them",
    "long": "the same of many rounds",
    "grid": "the same of DOLA on a ring; µs of CPU in a round: an agent's step, an agent in all (with exchange and "
    "waiting), the logger's arithmetic; context switches of an agent in a round",
    "edges": "the same on graphs of more and more edges",
    "lockstep": "all agents in one process: µs of CPU in a round of an agent and of the logger, and the logger's "
    "seconds of CPU after the rounds; seconds of the command",
    "wires": "µs of one message: between two cores, and between two processes that share one",
    "round": "rounds per second beside a bare loop written out by hand",
    "peers": "mpinodes, over MPI and in one process, and another, in turn: rounds per second, and µs of CPU of a round "
    "on all ranks; ratios above 1: mpinodes is faster, or takes less",
    "study": "a study with all its cores: seconds, those of CPU, and ms of CPU of a run, beside a script that one "
    "writes and throws away, doing as many runs of DOLA; ratios above 1: mpinodes takes less",
}


def write_csv(path: Path, book: Book, table: list[Row]) -> None:
    """A line for every run, with what its kind has."""
    lines = []
    for row in table:
        for number, run in enumerate(book.runs(row)):
            line = {"group": row.group, "row": row.name, "run": number, "ranks": row.ranks}
            line |= {"agents": row.agents, "dimension": row.dimension, "messages": row.messages}
            lines.append(line | flat(run))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for line in lines for name in line)))
        writer.writeheader()
        writer.writerows(lines)


def flat(run: Run) -> Run:
    """Numbers by their path; what every agent spent as a mean."""
    found: Run = {}
    for name, value in run.items():
        if name == "spent" and value:
            found |= model.Spent.of(value)._asdict()
        elif isinstance(value, (dict, list)):
            inside = value if isinstance(value, dict) else dict(enumerate(value))
            found |= {f"{name}_{inner}": number for inner, number in flat(inside).items()}
        elif isinstance(value, (int, float)):
            found[name] = value
    return found


if __name__ == "__main__":
    sys.exit(main())
