"""Record the results of short runs of all built-in algorithms, and compare them: `python scripts/net.py OUT.json`.

Each of 57 configurations is a short run in lockstep with `noise.key` set: every algorithm by its shortened defaults,
its variants with public points, and 36 others (faults, late and bandit feedback, sparse data, uneven shares, ...).
OUT.json has hashes of decisions, frames, events and metrics, and the numbers of summary.json, ε, bounds and regrets.

    python scripts/net.py OUT.json --only dola                 run only the configurations with a word in their name
    python scripts/net.py NEW.json --compare OLD.json          list differences; exit code 1 if there are any

Hashes must be equal, and numbers to 1e-9 of their size. Values of the best decision in hindsight and regrets may differ
by the sum of both certificates and 1e-9 of the losses. A certificate may grow to 1e-8 of the losses or to 20 times the
old one. Errors of decisions and bounds may differ by what the distance of both best decisions explains. All runs take
half a minute on an idle machine. The script reads runs only by `mpinodes.load` and summary.json, so it also works with
an older checkout: `PYTHONPATH=CHECKOUT`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import tempfile
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

import numpy as np
from attack.tables import ALGORITHMS, POINTS, PUBLIC, Json, merged

import mpinodes

CHANGING = ("version", "versions", "timing", "seconds", "rounds_per_second")  # keys of summary.json
# Words in names of variables: those that depend on the comparator's certificate, and all that are compared as numbers.
HINDSIGHT = ("regret", "comparator", "optimality_gap", "measured")
NUMBERS = ("epsilon", "bound_", "path_length", "decision_error", *HINDSIGHT)
SPARSE: Json = {"file": "sparse.libsvm", "labels": [-1, 1], "columns": 9}
EMPTY: Json = {"hashes": {}, "numbers": {}, "slack": {}, "best": []}
# Configurations beside the defaults: the algorithm, and the changes of its short experiment.
ODD: dict[str, tuple[str, Json]] = {
    "messages lost": ("dola", {"faults": {"loss": 0.3}}),
    "messages late": ("dpps", {"faults": {"delay": 3}}),
    "messages lost, push-sum": ("dpps", {"faults": {"loss": 0.3, "delay": 1}}),
    "agents away": ("dola", {"faults": {"churn": 0.3, "absence": 2}}),
    "stragglers": ("dpps", {"faults": {"stragglers": 0.5, "lag": 2}}),
    "late feedback": ("dola", {"feedback": {"delay": 3}}),
    "bandit feedback": ("dola", {"feedback": {"points": 2}}),
    "bandit feedback by blocks": ("dpsda-ps", {"feedback": {"points": 2}, "problem": {"gradient_noise": 0.0}}),
    "late bandit feedback": ("dola", {"feedback": {"points": 2, "delay": 2, "decay": 0.0}}),
    "sparse": ("dola", {"data": {**SPARSE, "bound": 1.0}}),
    "sparse batches": ("dpps", {"data": {**SPARSE, "batch": 2, "epochs": 2}}),
    "one file for each agent": ("dola", {"data": {"file": "part-{agent}.csv", "labels": [0, 1], "header": False}}),
    "lattice Laplace": ("dola", {"noise": {"backend": "lattice"}}),
    "lattice Gaussian": ("gossip-averaging", {"noise": {"backend": "lattice"}}),
    "softmax": ("dola", {"data": {"file": "classes.npz", "targets": "classes"}, "problem": {"loss": "softmax"}}),
    "least squares": ("dola", {"data": {"file": "real.npz", "targets": "real"}, "problem": {"loss": "least-squares"}}),
    "absolute loss": ("dpsr", {"data": {"file": "real.npz", "targets": "real"}, "problem": {"loss": "absolute"}}),
    "uneven": ("dola", {"data": {"partition": "uneven", "sizes": [20, 30, 40, 50]}}),
    "uneven, drawn": ("huang-dp", {"data": {"partition": "uneven", "concentration": 3.0}}),
    "by label": ("dpps", {"data": {"partition": "by-label"}}),
    "one-round, batches": ("dola", {"privacy": {"adjacency": "one-round"}, "data": {"batch": 3}}),
    "one-agent": ("dpps", {"privacy": {"adjacency": "one-agent"}}),
    "noisy gradients": ("weight-balancing", {"problem": {"gradient_noise": 0.2}}),
    "epochs in order": ("dpsr", {"data": {"total": 24, "epochs": 3, "shuffle": False}}),
    "epochs, shuffled": ("dola-minibatch", {"data": {"total": 40, "batch": 2, "epochs": 4}}),
    "repeats": ("dola", {"repeats": 2}),
    "budget kept by noise": ("dola", {"privacy": {"budget": {"epsilon": 0.7}}}),
    "budget kept by stopping": (
        "dola", {"data": {"total": 16, "epochs": 3}, "privacy": {"budget": {"epsilon": 2.0, "kept_by": "stopping"}}},
    ),
    "two stages that settle": ("two-stage-gaussian", {"algorithm": {"stop": 0.5, "calibration": "exact"}}),
    "squared distance": ("dola", {"data": {**POINTS, "batch": 1}, "rounds": 6, "record": {"dynamic_regret": True}}),
    "box": ("dola", {"problem": {"set": "box"}, "step": {"kind": "doubling"}}),
    "product of balls": ("dpsda-c", {"problem": {"set": "product-of-balls"}}),
    "clipped": ("dpps", {"privacy": {"clip": 0.1}, "problem": {"weight": 2.0}}),
    "grid": ("pp-admm", {"algorithm": {"grid": 1e-3}}),
    "ring, another seed": ("dpsr", {"seed": 5, "topology": {"name": "ring"}}),
    "fixed scale": ("dpps", {"privacy": {"scale": 2.0, "epsilon": 0.5}}),
}  # fmt: skip


def configurations() -> dict[str, Json]:
    """Write the data files to the working directory; return the experiments by name."""
    rng = np.random.default_rng(0)
    features = rng.uniform(-1, 1, (60, 9)) * (rng.random((60, 9)) < 0.3)
    labels = np.where(rng.random(60) < 0.5, -1, 1)
    rows = [" ".join(f"{k + 1}:{float(row[k])!r}" for k in np.flatnonzero(row)) for row in features]
    lines = [f"{label} {row}\n" for label, row in zip(labels, rows, strict=True)]
    Path("sparse.libsvm").write_text("".join(lines))
    np.savez("classes.npz", features=features, targets=rng.integers(0, 3, 60))
    np.savez("real.npz", features=features, targets=rng.normal(0, 100, 60))
    for agent, rows_of_agent in enumerate(np.split(np.column_stack([features, labels > 0]), 4)):
        np.savetxt(f"part-{agent}.csv", rows_of_agent, delimiter=",")
    trees = {name: merged(short, {"algorithm": {"name": name}}) for name, short in ALGORITHMS.items()}
    trees |= {f"{name}, public": merged(trees[name], {"algorithm": more}) for name, more in PUBLIC.items()}
    for name, (algorithm, more) in ODD.items():
        tree = merged(trees[algorithm], more)
        if more.get("data", {}).keys() & {"file", "name"}:  # keys of the data that these replace do not apply to them
            tree["data"] = more["data"]
        trees[f"{name}: {algorithm}"] = tree
    return trees


def flat(value: object, name: str) -> Iterator[tuple[str, float | str]]:
    """Yield numbers and rules in nested values with dotted names; a list item is named by its variable or its index."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from flat(item, f"{name}.{key}")
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from flat(item, f"{name}.{item.get('variable', place) if isinstance(item, dict) else place}")
    elif (isinstance(value, int | float) and not name.endswith(".times")) or (value and name.endswith(".rule")):
        yield name, value  # a bound's times are its value through what it bounds


def outputs(asked: Json, place: Path) -> Json:
    """Run an experiment in a directory; return its hashes, numbers, their slack, and the best decisions."""
    record = {"transcript": True, "decisions": True}
    mpinodes.simulate(merged(asked, {"noise": {"key": "bits"}, "record": record, "output": {"dir": str(place)}}))
    hashes, numbers, slack, best = {}, {}, {}, []
    summary = json.loads((place / "summary.json").read_text("utf-8"))
    summary["warnings"] = dict.fromkeys(summary.get("warnings", ()), True)
    for name, value in flat({key: value for key, value in summary.items() if key not in CHANGING}, "summary"):
        numbers[name] = value
        if any(word in name for word in HINDSIGHT):
            rate = "_per_round" if "per_round" in name or "optimality_gap" in name else ""
            size = summary["comparator"]["value" + rate] + abs(summary["network_regret" + rate])
            slack[name] = summary["comparator"]["certificate" + rate] + 5e-10 * size
    for part in [place, *sorted(place.glob("repeat-*"))]:
        data = mpinodes.load(part)
        for key, variable in data.variables.items():
            name, values = f"{part.relative_to(place)}/{key}", np.ascontiguousarray(variable.values, dtype=float)
            if key == "comparator_point":
                best += values.tolist()
            elif any(word in key for word in NUMBERS):
                numbers |= flat(values.tolist(), name)
                if any(word in key for word in HINDSIGHT) and not key.startswith("bound_"):
                    within = data["comparator_gap"] + 5e-10 * (data["comparator_value"] + abs(data["network_regret"]))
                    slack |= flat(within.broadcast_like(data[key]).transpose(*variable.dims).values.tolist(), name)
            else:
                text = f"{variable.dims} {values.shape}".encode()
                hashes[name] = blake2b(text + values.tobytes(), digest_size=16).hexdigest()
    return {"hashes": hashes, "numbers": numbers, "slack": slack, "best": best}


def differences(old: Json, new: Json) -> Iterator[str]:
    """Yield a line for each hash and number that differs between two outputs or that one of them lacks."""
    best, best_now = np.array(old["best"]), np.array(new["best"])
    distance = np.linalg.norm(best - best_now, axis=-1).max(initial=0.0) if best.shape == best_now.shape else 0.0
    before, after = ({**side["hashes"], **side["numbers"]} for side in (old, new))
    names = before.keys() | after.keys()
    for name in sorted(names & {"error"} or names):
        x, y = before.get(name, "missing"), after.get(name, "missing")
        same = x == y or (x != x and y != y)  # nan is a number here
        if not same and not isinstance(x, str) and not isinstance(y, str):
            within = old["slack"].get(name, 0.0) + new["slack"].get(name, 0.0) + 1e-9 * max(abs(x), abs(y))
            if "decision_error" in name:
                within += distance * (abs(x) ** 0.5 + abs(y) ** 0.5)
            if "bound_" in name:
                within += 10 * distance * abs(x)
            is_certificate = "certificate" in name or "comparator_gap" in name
            same = y <= 20 * old["slack"][name] if is_certificate else abs(x - y) <= within
        if not same:
            yield f"    {name}: {x} -> {y}"


def main() -> int:
    """Run all configurations, write their results, print the differences, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--compare", type=Path, metavar="OLD.json")
    parser.add_argument("--only", metavar="WORD", default="", help="configurations whose name has this word")
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        trees = {name: tree for name, tree in configurations().items() if words.only in name}
        new = {}
        for place, name in enumerate(trees):
            try:
                new[name] = outputs(trees[name], Path(folder, str(place), "run"))
            except Exception as error:  # the run is refused, fails, or cannot be read
                new[name] = {**EMPTY, "hashes": {"error": f"{type(error).__name__}: {error}"}}
    words.out.write_text(json.dumps(new) + "\n")
    old = json.loads(words.compare.read_text()) if words.compare else new
    lines = {name: [*differences(old.get(name, EMPTY), new[name])] for name in new}
    differing = [name for name in new if lines[name]]
    for name in differing:
        print(name, *lines[name], sep="\n")
    print(f"{len(differing)} of {len(new)} configurations differ")
    return int(bool(differing))


if __name__ == "__main__":
    raise SystemExit(main())
