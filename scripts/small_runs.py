"""Test random small runs: python scripts/small_runs.py [--runs 600] [--seed 1] [--mpirun-every 100] [--only 17].

Each run has 1 to 4 agents, 1 to 8 rounds, and a random algorithm, loss, data set, metric, budget, topology, set, batch
and partition. The script generates the data, often degenerate: all zero, one feature, one sample, a constant column, or
duplicated rows. The seed and the number of a case determine the case, so --only repeats one case. If a case is refused,
another case is drawn, a few times. Runs use lockstep in this process. With --mpirun-every K, every K-th run uses
mpirun. 600 runs take some minutes; the default is fewer.

A run is right in two cases: it ends with exit code 0 and leaves a readable summary.json and record.h5; or it is refused
before its first round, with exit code 2, a short message, and no run directory. All other runs are printed as wrong,
and the exit code is then 1.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path

import numpy as np

import mpinodes
from mpinodes import run
from mpinodes.config import registry
from mpinodes.core.errors import BadInput
from mpinodes.launch.launching import mpirun

SECONDS = 60  # the longest time of a case
LONGEST = 700  # characters: the longest message of a refused run
FITTING = {
    "hinge": ("labels", "one-label"), "logistic": ("labels", "one-label"), "softmax": ("classes",),
    "absolute": ("real", "zero", "labels"), "least-squares": ("real", "zero", "labels"),
}  # fmt: skip
BUILT_IN = ("unit-ball", "olr", "mean", "digits")  # data that need no files
KINDS = ("plain", "zero", "one-feature", "one-sample", "constant-column", "duplicates", "empty-rows")
FORMATS = ("csv", "npz", "svm")
TARGETS = ("labels", "one-label", "classes", "real", "zero")
TOPOLOGIES = ("complete", "ring", "path", "star", "erdos-renyi", "random-digraph", "matchings", "b-connected")
WHOLE = ("admm", "m-admm", "pp-admm", "dvp-admm", "pvp-admm", "two-stage-gaussian", "gossip-averaging", "huang-dp")
ON_A_FILE = ("weight-balancing",)  # algorithms whose default topology is a file
TRIES = 8  # how often a refused case is drawn again
METRICS = ("", "comparator-distance", "disagreement", "comparator-distance,disagreement")


class TooSlow(BaseException):
    """A case took longer than `SECONDS`."""


def features(rng: random.Random, kind: str, rows: int, columns: int) -> np.ndarray:
    """Return (rows, columns) features of norm 1 at most."""
    columns = 1 if kind == "one-feature" else columns
    a = np.random.default_rng(rng.randrange(10**6)).uniform(-1, 1, (rows, columns)) / columns
    a = a.round(3)
    if kind == "zero":
        a[:] = 0
    elif kind == "constant-column":
        a[:, 0] = 0.25
    elif kind == "duplicates":
        a[:] = a[0]
    elif kind == "empty-rows":
        a[rng.randrange(2) :: 2] = 0
    return a


def targets(rng: random.Random, kind: str, rows: int) -> list[float]:
    """Return `rows` targets."""
    draw = {
        "labels": lambda: rng.choice([-1, 1]), "one-label": lambda: 1, "classes": lambda: rng.randrange(3),
        "real": lambda: round(rng.uniform(-2, 2), 3), "zero": lambda: 0,
    }[kind]  # fmt: skip
    return [draw() for _ in range(rows)]


def data_file(rng: random.Random, folder: Path, loss: str) -> list[str]:
    """Write a data file, most often one that fits the loss; return the words that name and describe it."""
    fitting = FITTING.get(loss, TARGETS) if rng.random() < 0.9 else TARGETS
    kind, form, target = rng.choice(KINDS), rng.choice(FORMATS), rng.choice(fitting)
    rows = 1 if kind == "one-sample" else rng.choice([4, 8, 24])
    a, b = features(rng, kind, rows, rng.choice([2, 3, 5])), targets(rng, target, rows)
    path = folder / f"data.{form}"
    if form == "npz":
        np.savez(path, features=a, targets=np.array(b, float))
    elif form == "csv":
        path.write_text("".join(",".join(map(str, [*row, y])) + "\n" for row, y in zip(a.tolist(), b, strict=True)))
    else:
        lines = [[y, *(f"{k}:{x}" for k, x in enumerate(row, 1) if x)] for row, y in zip(a.tolist(), b, strict=True)]
        path.write_text("".join(" ".join(map(str, line)) + "\n" for line in lines))
    words = [f"data.file={path}"]
    described = {"labels": "labels", "one-label": "labels", "classes": "classes", "real": "real", "zero": "real"}[
        target
    ]
    words += [f"data.targets={described}"] * (described != "labels" or rng.random() < 0.2)
    words += ["data.labels=[-1,1]"] * (described == "labels" and rng.random() < 0.5)
    words += ["data.header=false"] * (form == "csv")
    words += [f"data.columns={a.shape[1]}"] * (form == "svm" or rng.random() < 0.3)
    words += ["data.norm=1"] * (rng.random() < 0.5)
    words += [f"data.train={rng.choice([0.5, 0.75])}"] * (rng.random() < 0.3)
    return words


def case(rng: random.Random, folder: Path) -> tuple[int, list[str]]:
    """Return the number of agents and the words of a random run."""
    agents, maybe = rng.choice([1, 1, 2, 3, 4]), rng.random
    words = [f"topology.agents={agents}", f"rounds={rng.choice([1, 2, 3, 5, 8])}", f"seed={rng.randrange(1, 1000)}"]
    name, loss = rng.choice(registry.names(registry.ALGORITHMS)), rng.choice(registry.names(registry.LOSSES))
    words.append(f"algorithm.name={name}")
    if maybe() < 0.7:
        words += [*data_file(rng, folder, loss), f"problem.loss={loss}"]
    elif maybe() < 0.6:
        words.append(f"data.name={(name_of_data := rng.choice(BUILT_IN))}")
        words += ["data.total=64"] * (name_of_data == "unit-ball")
    if maybe() < 0.6 or name in ON_A_FILE:
        words.append(f"topology.name={rng.choice(TOPOLOGIES)}")
    small = any(word.startswith("data.file=") for word in words)  # the comparator of all default data takes long
    batch = "all" if name in WHOLE else rng.choice([1, 2, "all"] if small else [1, 2])
    words += [f"data.batch={batch}"] * (maybe() < 0.8)
    words += [f"data.partition={rng.choice(['shared', 'even', 'by-label'])}"] * (maybe() < 0.2)
    words += [f"problem.set={rng.choice(['box', 'ball', 'product-of-balls', 'none'])}"] * (maybe() < 0.2)
    words += [f"problem.regularizer={rng.choice([0, 0.1, 1])}"] * (maybe() < 0.4)
    words += [f"privacy.epsilon={rng.choice([0.5, 4, 'inf'])}"] * (maybe() < 0.4)
    words += [f"privacy.mechanism={rng.choice(['laplace', 'gaussian', 'gamma-norm'])}"] * (maybe() < 0.1)
    words += [f"privacy.scale={rng.choice([1, 0.5])}"] * (maybe() < 0.15)
    words += [f"privacy.clip={rng.choice([0.5, 'inf'])}"] * (maybe() < 0.15)
    words += [f"privacy.adjacency={rng.choice(['one-round', 'one-agent'])}"] * (maybe() < 0.1)
    if maybe() < 0.25:
        words += ["privacy.budget.epsilon=2", f"privacy.budget.kept_by={rng.choice(['noise', 'stopping'])}"]
    words += ["feedback.points=2"] * (maybe() < 0.07) + ["feedback.delay=1"] * (maybe() < 0.07)
    words += ["faults.loss=0.3"] * (maybe() < 0.07) + ["faults.delay=2"] * (maybe() < 0.07)
    words += ["record.dynamic_regret=true"] * (maybe() < 0.3)
    words += ["repeats=2"] * (maybe() < 0.1) + ["noise.backend=lattice"] * (maybe() < 0.05)
    metrics = rng.choice(METRICS)
    words += [f"record.metrics={json.dumps(metrics.split(','))}"] * bool(metrics)
    return agents, [*words, f"report={str(maybe() < 0.04).lower()}"]


def in_this_process(words: list[str]) -> tuple[int, str]:
    """Run by lockstep; return the exit code, or 1 with the traceback, and what went to stderr."""
    code, saved = 1, os.dup(2)
    with tempfile.TemporaryFile("w+b") as stderr:
        os.dup2(stderr.fileno(), 2)
        signal.signal(signal.SIGALRM, too_slow)
        signal.alarm(SECONDS)
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                code = run.main(["--lockstep", *words])
        except (BadInput, Exception, TooSlow):
            os.write(2, traceback.format_exc().encode())
        finally:
            signal.alarm(0)
            sys.stderr.flush()
            os.dup2(saved, 2)
            os.close(saved)
        stderr.seek(0)
        return code, stderr.read().decode(errors="replace")


def too_slow(*_: object) -> None:
    """Raise `TooSlow`."""
    raise TooSlow(f"{SECONDS} s")


def by_mpirun(agents: int, words: list[str]) -> tuple[int, str]:
    """Run under mpirun; return the exit code and what went to stderr."""
    line = [*mpirun(), "-n", str(agents + 1), sys.executable, "-m", "mpinodes.run", *words]
    done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stderr


def fault(code: int, stderr: str, place: Path) -> str:
    """Return what is wrong with a run that has ended; "" if nothing is."""
    if "Traceback" in stderr or "Warning" in stderr or "warning: " in stderr:
        return "a traceback or a warning"
    if code == 0:
        try:
            summary = json.loads((place / "summary.json").read_text("utf-8"))
            rounds = len(mpinodes.load(place / "repeat-1" if "repeats" in summary else place)["round"])
        except Exception as error:
            return f"not readable: {error!r}"
        return (
            "" if rounds == summary["rounds"] else f"{rounds} rounds in record.h5, {summary['rounds']} in summary.json"
        )
    if code != 2:
        return f"exit code {code}"
    if place.exists():
        return "refused, and a run directory is left"
    return "" if len(stderr) < LONGEST and "error: " in stderr else "refused without a short reason"


def main(argv: list[str]) -> int:
    """Do the runs, print the wrong ones, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--mpirun-every", type=int, default=0, metavar="K", help="use mpirun for every K-th case")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="run only this case, and print its messages")
    options = parser.parse_args(argv)
    counts, wrong = Counter[int](), 0
    with tempfile.TemporaryDirectory(prefix="small-runs-") as whole:
        for number in range(options.runs) if options.only is None else [options.only]:
            mpi = options.mpirun_every and number % options.mpirun_every == 0
            for attempt in range(TRIES):
                folder = Path(whole) / f"{number}-{attempt}"
                folder.mkdir()
                agents, words = case(random.Random(f"{options.seed} {number} {attempt}"), folder)
                place = folder / "run"
                line = [*words, f"output.dir={place}"]
                code, stderr = by_mpirun(agents, line) if mpi else in_this_process(line)
                counts[code] += 1
                problem = fault(code, stderr, place)
                wrong += bool(problem)
                if problem or options.only is not None:
                    how = "mpirun" if mpi else "lockstep"
                    print(f"{number} ({how}): {' '.join(words)}\n   {problem}\n   {stderr.strip()[-1500:]}", flush=True)
                shutil.rmtree(folder)
                if code != 2:
                    break
    ends = ", ".join(f"{count} with exit code {code}" for code, count in sorted(counts.items()))
    print(f"{sum(counts.values())} runs: {ends}; {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
