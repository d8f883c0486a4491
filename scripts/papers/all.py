"""The five papers redrawn: python scripts/papers/all.py [--data DIR] [--quick] [--only ITEM]... [--list] [--keep] OUT.

Every theorem, figure, table and experiment of the papers is in index.toml, with the script beside this one that answers
for it (an item), or the reason why none does. Items are done one after the other, each with its settings in the TOML
files here. An item that is done is not done again, and runs that were made are kept, unless the item's script,
settings or data sets, or the code of mpinodes (but for comments and docstrings) have changed since. Every verdict names
the commit and a hash of the settings that it was made with. --list says for each item what has changed since, and does
nothing. With --keep an item is not done again because of the code of mpinodes alone. OUT gets index.html, verdicts.json
and the figures, anew after every item. DIR has a folder for each data set: adult, mnist, mushrooms, rcv1, cifar10; what
is missing is said to be. --quick takes small forms on made data, in a minute: whether it all works, not what holds. The
exit code is 1 where an item failed.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import importlib
import json
import sys
import time
import tomllib
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import page
from desk import HERE, NOT, NOT_DONE, Desk, Verdict, machine

Json = dict[str, Any]
SMALL, NOT_RUN = "left out of the small form", "it was not run"
TOO_SMALL = "not so in the small form, which is too small to tell"
UNEXPLAINED = "not so in these runs, for a reason that is not known"
DATA = ("adult", "mnist", "mushrooms", "rcv1", "cifar10")


@dataclass(frozen=True)
class Item:
    """A script of this folder.

    Attributes:
        name: of it, as a word of --only.
        module: with NEEDS (folders of data that it can use), SETTINGS (files that it reads) and redraw(desk).
    """

    name: str
    module: ModuleType

    @classmethod
    def of(cls, name: str) -> Item:
        return cls(name, importlib.import_module(name.replace("-", "_")))

    def settings(self, desk: Desk) -> str:
        """A hash of what its results depend on besides the code of mpinodes: its script, its settings, its data."""
        sources = [str(self.module.__file__), *(str(HERE / name) for name in ("desk.py", *self.module.SETTINGS))]
        texts = [Path(source).read_text() for source in sources]
        data = [name for name in self.module.NEEDS if desk.folder(name)]
        return hashlib.sha256(repr((texts, data, desk.quick)).encode()).hexdigest()[:12]


class Book:
    """What was done: a file for each item below OUT/items."""

    def __init__(self, out: Path) -> None:
        self._below = out / "items"
        self._below.mkdir(parents=True, exist_ok=True)

    def entry(self, name: str) -> Json:
        """Of an item; empty: it was never done, or by an all.py that wrote down less."""
        try:
            entry = dict(json.loads((self._below / f"{name}.json").read_text()))
        except (OSError, ValueError):
            return {}
        return entry if entry.keys() >= {"cost", "code", "settings"} else {}

    def text(self, name: str) -> str:
        """What it printed."""
        path = self._below / f"{name}.txt"
        return path.read_text() if path.exists() else ""

    def change(self, item: Item, desk: Desk, is_any_code: bool = False) -> str:
        """Why it has to be done; empty: it need not.

        Args:
            item: the item.
            desk: where it is worked on.
            is_any_code: whether verdicts by other code of mpinodes count, too.
        """
        entry = self.entry(item.name)
        if not entry:
            return "not done"
        if entry["failed"]:
            return f"failed: {entry['failed']}"
        of = {"its script, settings or data": entry["settings"] != item.settings(desk)}
        of |= {"the code of mpinodes": entry["code"] != desk.code and not is_any_code}
        parts = [name for name, is_other in of.items() if is_other]
        return f"changed since commit {entry['commit'] or 'unknown'}: {' and '.join(parts)}" if parts else ""

    def do(self, item: Item, desk: Desk, command: str) -> None:
        """Do it, and write down what came of it."""
        begun, failed = (time.perf_counter(), desk.spent()), ""
        desk.begin()
        verdicts: list[Verdict] = []
        with (self._below / f"{item.name}.txt").open("w") as file, contextlib.redirect_stdout(file):
            try:
                verdicts = list(item.module.redraw(desk))
            except Exception as error:  # whatever it is, the other items are done
                failed = f"{type(error).__name__}: {error}"
                traceback.print_exc()
        cpu = desk.spent() - begun[1]
        told = {
            "commit": machine.commit(), "code": desk.code, "settings": item.settings(desk), "command": command,
            "quick": desk.quick, "failed": failed,
            "seconds": round(time.perf_counter() - begun[0], 1), "cpu": round(cpu, 1),
            "cost": round(cpu + desk.kept, 1), "kept": round(desk.kept, 1), "untold": desk.untold,
            "figures": desk.figures, "verdicts": [verdict._asdict() for verdict in verdicts],
        }  # fmt: skip
        (self._below / f"{item.name}.json").write_text(json.dumps(told, indent=1, ensure_ascii=False))


def verdicts(index: Json, book: Book) -> list[Json]:
    """One for each claim, in the order of the index; what has none says why."""
    told: list[Json] = []
    for row in index["items"]:
        entry = book.entry(row["by"]) if "by" in row else {}
        own = [v for v in entry.get("verdicts", []) if (v["paper"], v["item"]) == (row["paper"], row["item"])]
        if not own:
            because = row.get("not_done") or entry.get("failed") or (SMALL if entry.get("quick") else NOT_RUN)
            own = [Verdict(row["paper"], row["item"], row["says"], NOT_DONE, because=because)._asdict()]
        own = [
            v | {"because": v["because"] or (TOO_SMALL if entry.get("quick") else UNEXPLAINED)}
            if v["verdict"] == NOT
            else v
            for v in own
        ]
        kept = {key: entry.get(key) for key in ("seconds", "cpu", "cost", "untold", "quick", "commit", "settings")}
        told += [verdict | {"command": entry.get("command", "")} | kept for verdict in own]
    return told


def strays(index: Json, book: Book, names: list[str]) -> list[str]:
    """Verdicts of something that the index does not have."""
    rows = {(row["paper"], row["item"], row.get("by")) for row in index["items"]}
    told = ((v["paper"], v["item"], name) for name in names for v in book.entry(name).get("verdicts", []))
    return [f"{paper}, {item}, of {name}" for paper, item, name in told if (paper, item, name) not in rows]


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--data", type=Path, metavar="DIR", help=f"where data sets are: {', '.join(DATA)}")
    parser.add_argument("--quick", action="store_true", help="small forms, on made data")
    parser.add_argument("--only", action="append", metavar="ITEM", help="this script, by name")
    parser.add_argument("--list", action="store_true", help="say of each item what changed since it was done")
    parser.add_argument("--keep", action="store_true", help="do nothing again because of the code of mpinodes alone")
    asked = parser.parse_args(argv)
    if asked.data is not None and not asked.data.is_dir():
        parser.error(f"--data {asked.data}: no such directory")
    index = tomllib.loads((HERE / "index.toml").read_text())
    names = list(dict.fromkeys(row["by"] for row in index["items"] if "by" in row))
    if unknown := [word for word in asked.only or () if word not in names]:
        parser.error(f"no item is called {unknown[0]!r}; there are {', '.join(names)}")
    desk = Desk(asked.out.absolute(), asked.data and asked.data.absolute(), asked.quick, machine.code())
    try:
        desk.output.mkdir(parents=True, exist_ok=True)
        lock = (desk.output / ".lock").open("w")
    except OSError as error:
        parser.error(f"{asked.out}: no directory to write to ({error.strerror})")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            parser.error(f"{asked.out}: another all.py is at work there; wait for it, or give another directory")
        return work(asked, desk, index, names)


def work(asked: argparse.Namespace, desk: Desk, index: Json, names: list[str]) -> int:
    """Do the items that have to be done, or list them; return the exit code."""
    book = Book(desk.output)
    where = ["--quick"] if asked.quick else [f"--data {asked.data}"] if asked.data else []
    for name in asked.only or names:
        item = Item.of(name)
        change = book.change(item, desk, asked.keep)
        if asked.list:
            print(f"{name}: {change or 'done, commit ' + book.entry(name)['commit']}")
        elif change:
            print(f"{time.strftime('%H:%M:%S')} {name}: {change}", file=sys.stderr, flush=True)
            words = ["python scripts/papers/all.py", *where, f"--only {name} OUT"]
            book.do(item, desk, " ".join(words))
            publish(desk.output, index, book, names)
    if asked.list:
        return 0
    publish(desk.output, index, book, names)
    wrong = [f"{name}: {book.entry(name)['failed']}" for name in names if book.entry(name).get("failed")]
    wrong += [f"not in index.toml: {stray}" for stray in strays(index, book, names)]
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{desk.output / 'index.html'}")
    return 1 if wrong else 0


def publish(out: Path, index: Json, book: Book, names: list[str]) -> None:
    told = verdicts(index, book)
    (out / "verdicts.json").write_text(json.dumps(told, indent=1, ensure_ascii=False))
    items = {name: book.entry(name) | {"text": book.text(name)} for name in names if book.entry(name)}
    (out / "index.html").write_text(page.html(index, told, items), "utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
