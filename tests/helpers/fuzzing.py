"""Run commands on random invalid input: experiments, graphs, data files, and damaged run directories.

    python -m tests.helpers.fuzzing SEED CASES [FOLDER]

A command must end with a result, or with one short error message. All other cases are printed.
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mpinodes import load, report, run, spent
from mpinodes.config import registry
from mpinodes.config.explaining import documented_keys
from mpinodes.core.errors import BadInput

SECONDS = 30  # for a case
LONGEST = 500  # of a line
DONE, BAD_INPUT, FAILED = 0, 2, 3
PLAIN = ["algorithm.name=dola", "topology.name=ring", "topology.agents=3", "data.name=unit-ball", "data.total=60"]
ODD: list[Any] = [
    0, -1, 1, 2, 3, 0.5, 1e-300, 1e-9, 1e308, -1e308, 10**11, 10**30, "nan", "inf", "-inf", "", "x", "x" * 5000,
    "ε\u202e", "\x1b[31mred", "[]", "[1e308]", "[1,2,3]", "[[1],[2]]", "{}", "{a=1}", "true", "false", "none", "all",
    "..", "/", "a/b", "1e400", "'", '"', "[", "0x10", "1_0", "2026-11-22", "-0.0", "1e-5", 7, 64,
]  # fmt: skip
FOUND_HERE = ("unit-ball", "olr", "mean", "digits")  # data that needs no files


class TooSlow(BaseException):
    """A case took longer than `SECONDS`."""


def damaged(content: bytes, rng: random.Random) -> bytes:
    """Damage the content of a file: flip some bits, mostly near the start; overwrite some bytes; or cut it short."""
    found = bytearray(content)
    if not found:
        return b"\0"
    how, at = rng.randrange(4), rng.randrange(min(len(found), rng.choice([100, 5_000, 50_000, len(found)])))
    if how < 2:
        for _ in range(rng.choice([1, 1, 4, 30])):
            found[(at + rng.randrange(64)) % len(found)] ^= 1 << rng.randrange(8)
    elif how == 2:
        del found[rng.randrange(len(found)) :]
    else:
        found[at : at + rng.randrange(64)] = rng.randbytes(rng.randrange(64))
    return bytes(found)


def experiment(rng: random.Random) -> list[str]:
    """Return words of a command: a few valid ones, and often some that are not."""
    words = {"topology.name": "ring", "topology.agents": 3, "data.name": "unit-ball", "rounds": rng.choice([1, 2, 5])}
    words["algorithm.name"] = rng.choice(registry.names(registry.ALGORITHMS))
    if rng.random() < 0.5:
        words["data.name"] = rng.choice(FOUND_HERE)
    if words["data.name"] == "unit-ball":
        words["data.total"] = 60
    if rng.random() < 0.3:
        words["topology.name"] = rng.choice(registry.names(registry.TOPOLOGIES))
    keys = sorted(key for key in documented_keys() if key not in ("output.dir", "data.dir", "noise.entropy"))
    for key in rng.sample(keys, rng.choice([0, 1, 1, 2, 3])):
        words[key] = rng.choice(ODD)
    for key in rng.sample(sorted(words), rng.choice([0, 0, 1])):
        words[key] = rng.choice(ODD)
    if words["data.name"] not in FOUND_HERE:  # what is missing would be fetched
        words["data.dir"] = "nowhere"
    return [f"{key}={value}" for key, value in words.items()]


def graph(rng: random.Random, folder: Path) -> list[str]:
    """Write a graph file, valid or not, and return the words of a run with it."""
    n = rng.choice([1, 2, 3, 4])
    odd = [*range(-1, n + 1), "a", None, 1e308, 0.5, True, [], {}, "x" * 5000]
    nodes = [{"id": rng.choice(odd) if rng.random() < 0.1 else k} for k in range(n)]
    edges = [
        {"source": rng.choice(odd[: n + 2]), "target": rng.choice(odd if rng.random() < 0.2 else odd[1 : n + 1])}
        for _ in range(rng.randrange(8))
    ]
    tree: dict[str, Any] = {"directed": rng.choice([True, False, "no"]), "nodes": nodes, "edges": edges}
    if rng.random() < 0.3:
        tree["graph"] = {rng.choice(["period", "title", "name"]): rng.choice([*odd, 10**11])}
    if rng.random() < 0.3:
        tree[rng.choice(["links", "edges", "rounds", "nodes"])] = rng.choice([edges, [edges], None, 3, "x", {}])
    text = json.dumps(tree).encode()
    path = folder / f"graph.{rng.choice(['json', 'json', 'graphml', 'txt', 'csv', 'edgelist'])}"
    path.write_bytes(damaged(text, rng) if rng.random() < 0.4 else text)
    return [PLAIN[0], f"topology.file={path}", *PLAIN[3:], "rounds=2"]


def samples(rng: random.Random, folder: Path) -> list[str]:
    """Write a data file, valid or not, and return the words of a run with it."""
    kind = rng.choice(["csv", "csv", "npz", "npz", "libsvm", "svm"])
    path, rows, columns = folder / f"data.{kind}", rng.choice([0, 1, 3, 9]), rng.choice([1, 2, 3])
    cells = [
        "1",
        "0.5",
        "-1",
        "1e308",
        "-1e308",
        "1e-320",
        "nan",
        "inf",
        "",
        "x",
        " 1 ",
        "1,5",
        "ε",
        '"',
        "\0",
        "9" * 400,
    ]
    odd = rng.choice([0.0, 0.02, 0.3])

    def cell() -> str:
        return rng.choice(cells) if rng.random() < odd else f"{rng.uniform(-1, 1):.3f}"

    def label() -> str:
        return rng.choice(cells) if rng.random() < odd else rng.choice("01")

    if kind == "csv":
        text = "\n".join(",".join([*(cell() for _ in range(columns)), label()]) for _ in range(rows))
        content = (rng.choice(["", "a,b,c\n", "\ufeff"]) + text).encode()
    elif kind == "npz":
        content = _npz(rng, rows, columns)
    else:
        lines = (" ".join([label(), *(f"{k + 1}:{cell()}" for k in range(columns))]) for _ in range(rows))
        content = "\n".join(lines).encode()
    path.write_bytes(damaged(content, rng) if rng.random() < 0.3 else content)
    words = [*PLAIN[:3], f"data.file={path}", f"rounds={rng.choice([1, 3])}"]
    stated = ["columns", "labels", "bound", "norm", "header", "partition", "batch", "test"]
    for key in rng.sample(stated, rng.randrange(3)):
        words.append(f"data.{key}={rng.choice([2, 3, '[0,1]', 'true', 'even', 'by-label', 'all', *ODD])}")
    return words


def _npz(rng: random.Random, rows: int, columns: int) -> bytes:
    """Return the content of an .npz file with arrays of random types, some with an invalid header."""
    made, random_numbers = io.BytesIO(), np.random.default_rng(rng.randrange(1000))
    kinds: list[Any] = [float, float, np.float32, np.int8, bool, complex, "U3", object, "M8[s]"]
    arrays = {
        "features": random_numbers.uniform(-1, 1, (rows, columns)).astype(rng.choice(kinds)),
        "targets": random_numbers.integers(0, 2, rows).astype(rng.choice(kinds)),
    }
    if rng.random() < 0.2:
        arrays[rng.choice(list(arrays))] = np.zeros(rng.choice([(), (0,), (3, 3, 3), (rows + 1,)]))
    if rng.random() < 0.1:
        arrays.pop("targets")
    np.savez(made, **arrays)
    if rng.random() < 0.3:
        with zipfile.ZipFile(made, "a") as file:
            claims = b"{'descr': '<f8', 'fortran_order': False, 'shape': (%d, %d), }" % (10**10, rng.choice([1, 10**9]))
            head = b"\x93NUMPY\x01\x00" + (len(claims) + 1).to_bytes(2, "little") + claims + b"\n"
            with warnings.catch_warnings(action="ignore"):
                file.writestr(rng.choice(["features.npy", "targets.npy", "other"]), rng.choice([head, b"x"]))
    return made.getvalue()


def of_a_run(rng: random.Random, folder: Path, intact: Path) -> list[Callable[[], int]]:
    """Copy a run directory, damage or change one of its files, and return commands that use the directory."""
    place = folder / "run"
    shutil.copytree(intact, place)
    path = rng.choice(sorted(path for path in place.rglob("*") if path.is_file()))
    if path.suffix == ".json" and rng.random() < 0.6:
        tree = json.loads(path.read_text())
        _doctor(tree, rng)
        path.write_text(json.dumps(tree))
    else:
        path.write_bytes(damaged(path.read_bytes(), rng))
    if rng.random() < 0.3:
        (place / "summary.json").unlink(missing_ok=True)

    def loaded() -> int:
        load(place)
        return DONE

    def resumed() -> int:
        return run.main(["--lockstep", "--resume", str(place), "report=false"])

    drawn = [lambda: report.main([str(place)])] * (rng.random() < 0.1)  # which takes as long as a hundred others
    return [loaded, lambda: spent.main([str(place)]), *drawn, resumed]


def _doctor(tree: Any, rng: random.Random) -> None:
    """Delete or replace a random value in a summary."""
    while True:
        keys = list(tree) if isinstance(tree, dict) else range(len(tree))
        if not keys:
            return
        key = rng.choice(list(keys))
        if isinstance(tree[key], dict | list) and tree[key] and rng.random() < 0.7:
            tree = tree[key]
            continue
        if isinstance(tree, dict) and rng.random() < 0.3:
            del tree[key]
        else:
            tree[key] = rng.choice([None, -1, 1e308, "x" * 5000, "<script>", [], {}, True, [None], "\x1b[31m", 10**400])
        return


def cases(seed: int, count: int, folder: Path) -> Iterator[tuple[str, list[Callable[[], int]]]]:
    """Yield cases: a description, and commands that return their exit codes."""
    rng, intact = random.Random(seed), folder / "intact"
    words = ["data.dimension=3", "rounds=6", "checkpoint.every=2", "report=false", f"output.dir={intact}"]
    with contextlib.redirect_stdout(io.StringIO()):
        run.main(["--lockstep", *PLAIN, *words])
    for k in range(count):
        here = folder / f"{k}"
        here.mkdir()
        kind = rng.choice(["experiment"] * 4 + ["graph", "graph", "samples", "samples", "samples", "run"])
        if kind == "run":
            yield f"{k}: run", of_a_run(rng, here, intact)
        else:
            words = experiment(rng) if kind == "experiment" else {"graph": graph, "samples": samples}[kind](rng, here)
            yield f"{k}: {words}", [lambda words=words, here=here: _whole(words, here)]  # type: ignore[misc]
        shutil.rmtree(here, ignore_errors=True)


def _whole(words: list[str], here: Path) -> int:
    """Do a dry run and, if it succeeds, the run; return the exit code."""
    code = run.main(["--lockstep", "--dry-run", *words])
    if code != DONE:
        return code
    return run.main(["--lockstep", *words, "report=false", f"output.dir={here / 'out'}"])


def found_wrong(what: str, commands: list[Callable[[], int]]) -> Iterator[str]:
    """Yield a description of each command of a case that ended neither with a result nor with short error messages."""
    for command in commands:
        code, fault, text = _tried(command)
        diverged = code == FAILED and "diverges" in text
        is_right = code in (DONE, BAD_INPUT) or diverged
        is_long = any(len(line) > LONGEST for line in text.splitlines())
        if fault or not is_right or is_long or "Traceback" in text:
            yield f"{what[:1500]}\n   -> {code} {fault} {text[:1200]}"


def _tried(command: Callable[[], int]) -> tuple[int, str, str]:
    """Return the exit code of a command, the exception that it raised, and its error messages."""
    code, fault, said, kept = BAD_INPUT, "", io.StringIO(), os.dup(2)
    with tempfile.TemporaryFile("w+b") as below:  # what does not go through Python's stderr
        os.dup2(below.fileno(), 2)
        signal.signal(signal.SIGALRM, _too_slow)
        signal.alarm(SECONDS)
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
                code = command()
        except BadInput as error:
            said.write(f"error: {error}")
        except SystemExit as error:
            code = int(error.code or 0)
        except (Exception, TooSlow) as error:
            where = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)[-3:]]
            fault = f"{type(error).__name__}: {str(error)[:200]} {where}"
        finally:
            signal.alarm(0)
            os.dup2(kept, 2)
            os.close(kept)
        below.seek(0)
        lines = (said.getvalue() + "\n" + below.read().decode(errors="replace")).split("\n")
    return code, fault, "\n".join(line for line in lines if "error" in line or "Trace" in line)


def _too_slow(*_: object) -> None:
    raise TooSlow(f"{SECONDS} s")


def main() -> int:
    """Run all cases, print the wrong ones, and return the exit code."""
    seed, count, *rest = sys.argv[1:]
    folder = Path(rest[0]) if rest else Path(tempfile.mkdtemp(prefix="fuzzing-"))
    faulthandler.dump_traceback_later(36_000, exit=True)
    wrong = 0
    for what, commands in cases(int(seed), int(count), folder):
        (folder / "now").write_text(what)
        for fault in found_wrong(what, commands):
            wrong += 1
            print(fault, flush=True)
    print(f"{wrong} of {count} went wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
