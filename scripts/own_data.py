"""Measure how good private models on one's own files are: breast cancer, wine and digits of scikit-learn as CSV files.

    python scripts/own_data.py OUT [--splits 10] [--trials 12] [--only WORD] [--small]

For each split, the rows are put into a new random order before mpinodes takes a fifth of them as test samples. Each
number is the share of the way from guessing (always the largest class) to scikit-learn's
logistic regression on standardized features (not private), mean and standard deviation over the splits. 4 agents,
δ = 1e-5. Rows of the table:

- default: `mpirun -n 5 mpinodes run data.file=FILE privacy.budget.epsilon=E` on features that were scaled to norm 1;
- init: `mpinodes init FILE`, then `mpirun -n 5 mpinodes run`, on the raw features;
- tuned: `mpinodes tune --private` on another split, then the 10 splits; tuning is not included in ε;
- accounted: `mpinodes tune --accounted` on each split; ε includes tuning;
- curator, one-shot, no-noise: the settings of "tuned" with this `baseline`.

OUT/results.json collects the numbers; rows that are there are not computed again. OUT/table.md has the table.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mpinodes.core.seeds import Draws, Purpose
from mpinodes.launch.launching import mpirun

NAMES = ("breast_cancer", "wine", "digits")
AGENTS = 4
FIXED = ["report=false", "comparator=false", f"topology.agents={AGENTS}"]
OTHER = 1000  # the split on which settings are tuned


class Case(NamedTuple):
    """Name a row of the table: what is measured, on which data, with which graph, adjacency and ε."""

    row: str
    name: str
    graph: str
    adjacency: str
    epsilon: float


def cases() -> Iterator[Case]:
    """Yield all rows."""
    for name in NAMES:
        for adjacency in ("one-sample", "zero-out"):
            for epsilon in (8.0, 2.0):
                for graph in ("complete", "ring"):
                    yield Case("tuned", name, graph, adjacency, epsilon)
            for row in ("default", "init", "accounted", "curator", "one-shot", "no-noise"):
                yield Case(row, name, "complete", adjacency, 8.0)
            yield Case("default", name, "complete", adjacency, 2.0)


def written(place: Path, name: str, split: int, scaled: bool) -> tuple[Path, float, float]:
    """Write the rows of a data set in the random order of a split; return the file, and two test accuracies.

    The accuracies are those of guessing and of logistic regression. With `scaled`, each column is mapped to [-1, 1],
    and then each row to norm 1.
    """
    raw, targets = getattr(datasets, f"load_{name}")(return_X_y=True)
    order = np.random.default_rng(split).permutation(len(targets))
    raw, targets = raw[order], targets[order]
    features = raw
    if scaled:
        low, high = raw.min(axis=0), raw.max(axis=0)
        features = 2 * (raw - low) / np.where(high > low, high - low, 1) - 1
        features = features / np.linalg.norm(features, axis=1, keepdims=True)
    frame = pd.DataFrame(features, columns=[f"x{j}" for j in range(features.shape[1])]).assign(y=targets)
    path = place / f"{name}-{split}{'' if scaled else '-raw'}.csv"
    frame.to_csv(path, index=False)
    rows = Draws(0, Purpose.SPLIT).at(0).permutation(len(targets))  # as data.train=0.8 splits them
    train, test = np.split(rows, [round(0.8 * len(rows))])
    guess = np.mean(targets[test] == np.bincount(targets[train]).argmax())
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000)).fit(raw[train], targets[train])
    return path, float(guess), float(model.score(raw[test], targets[test]))


def command(*words: str, ranks: int | None = None) -> None:
    """Run a command of mpinodes in one process, or with ranks; raise RuntimeError with its output if it failed."""
    line = [sys.executable, "-m", "mpinodes", *words]
    ended = subprocess.run([*mpirun(), "-n", str(ranks), *line] if ranks else line, capture_output=True, text=True)
    if ended.returncode:
        raise RuntimeError(f"failed: {' '.join(line)}\n{ended.stdout}{ended.stderr}")


def accuracy(place: Path, *words: str) -> float:
    """Run an experiment by `mpirun mpinodes run`, and return the test accuracy of its last decision."""
    directory = place / f"run-{len(list(place.glob('run-*')))}"
    command("run", *words, f"output.dir={directory}", ranks=2 if "baseline=curator" in words else AGENTS + 1)
    return float(json.loads((directory / "summary.json").read_text())["accuracy_last_decision"]["test"])


def initial(place: Path, file: Path, words: list[str]) -> Path:
    """Write an experiment by `mpinodes init`, and return its path."""
    out = place / f"{file.stem}.toml"
    out.unlink(missing_ok=True)
    command("init", str(file), *words, "--output", str(out))
    return out


def tuned(place: Path, case: Case, file: Path, mode: str, trials: int, words: list[str]) -> Path:
    """Tune an experiment by `mpinodes tune`, and return the path of the tuned experiment."""
    start = initial(place, file, words)
    out = place / f"tuned-{mode}-{file.stem}-{case.adjacency}-{case.epsilon:g}.toml"
    named = start.rename(place / f"{out.stem}-start.toml")
    keys = ["data.facts=stated"] * (mode == "accounted")  # as if the facts, which `init` reads, were public
    if not out.exists():
        command("tune", str(named), *keys, f"--{mode}", "--trials", str(trials), "--output", str(out))
    return out


def measured(place: Path, case: Case, splits: int, trials: int) -> dict[str, Any]:
    """Return the results of a row: the accuracies of all splits, and the seconds that they took."""
    begun, marks, shares = time.perf_counter(), [], []
    words = [*FIXED, f"topology.name={case.graph}", f"privacy.adjacency={case.adjacency}"]
    words += [f"privacy.budget.epsilon={case.epsilon:g}"]
    if case.row in ("tuned", "curator", "one-shot", "no-noise"):
        other = written(place, case.name, OTHER, scaled=False)[0]
        on_complete = [word.replace("=ring", "=complete") for word in words]
        settings = tuned(place, case._replace(graph="complete"), other, "private", trials, on_complete)
    for split in range(splits):
        path, guess, best = written(place, case.name, split, case.row == "default")
        if case.row == "default":
            value = accuracy(place, *words, f"data.file={path}", "data.train=0.8")
        elif case.row == "init":
            value = accuracy(place, str(initial(place, path, words)))
        elif case.row == "accounted":
            value = accuracy(place, str(tuned(place, case, path, "accounted", trials, words)))
        else:
            baseline = [] if case.row == "tuned" else [f"baseline={case.row}"]
            value = accuracy(place, str(settings), *words, *baseline, f"data.file={path}")
        marks.append((value, guess, best))
        shares.append((value - guess) / (best - guess))
    deviation = float(np.std(shares, ddof=1)) if splits > 1 else 0.0
    mean, guess, best = np.mean(marks, axis=0).tolist()
    return {
        "accuracy": mean, "guess": guess, "best": best, "share": float(np.mean(shares)), "deviation": deviation,
        "splits": splits, "seconds": time.perf_counter() - begun, **case._asdict(),
    }  # fmt: skip


def table(results: list[dict[str, Any]]) -> str:
    """Return the results as a Markdown table with a column for each data set."""
    lines = [f"| | graph | adjacency | ε | {' | '.join(NAMES)} |", "|---|---|---|---|" + "---|" * len(NAMES)]
    keys = sorted({(r["row"], r["graph"], r["adjacency"], -r["epsilon"]) for r in results})
    for row, graph, adjacency, minus in keys:
        cells = []
        for name in NAMES:
            key = (name, row, graph, adjacency, -minus)
            fits = [r for r in results if (r["name"], r["row"], r["graph"], r["adjacency"], r["epsilon"]) == key]
            cell = "{share:.2f} ± {deviation:.2f} ({accuracy:.1%})"
            cells.append(cell.format(**fits[0]) if fits else "")
        lines.append(f"| {row} | {graph} | {adjacency} | {-minus:g} | {' | '.join(cells)} |")
    for row, key in (("guessing", "guess"), ("logistic regression, not private", "best")):
        cells = [next((f"{r[key]:.1%}" for r in results if r["name"] == name), "") for name in NAMES]
        lines.append(f"| {row} | | | | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(argv: list[str]) -> int:
    """Measure all rows, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--only", default="", help="only rows with this name (default, init, tuned, ...)")
    parser.add_argument("--small", action="store_true", help="wine, one split, two trials: a few seconds")
    options = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    os.chdir(options.out)
    file, place = Path("results.json"), Path()
    results = json.loads(file.read_text()) if file.exists() else []
    done = {Case(r["row"], r["name"], r["graph"], r["adjacency"], r["epsilon"]) for r in results}
    for case in cases():
        small = case.name == "wine" and (case.graph, case.adjacency, case.epsilon) == ("complete", "zero-out", 8)
        if case in done or options.only not in ("", case.row) or (options.small and not small):
            continue
        splits, trials = (1, 2) if options.small else (options.splits, options.trials)
        results.append(measured(place, case, splits, trials))
        file.write_text(json.dumps(results, indent=1))
        print(
            "{row} {name} {graph} {adjacency} {epsilon:g}: {share:.3f} ± {deviation:.3f}".format(**results[-1]),
            flush=True,
        )
        Path("table.md").write_text(table(results) + "\n")
    print(table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
