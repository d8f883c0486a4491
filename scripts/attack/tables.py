"""Tabulate what is proven of every built-in algorithm, with `python scripts/attack/tables.py OUT.json`.

Each row is a short run in lockstep of one algorithm with one mechanism, one adjacency and one condition. A row has the
proven pure epsilon, the proven epsilon at delta and the rule of the network, or the reason why nothing is proven or why
the run is refused.

    python scripts/attack/tables.py OUT.json --only dola dpps        the small form: these algorithms alone
    python scripts/attack/tables.py NEW.json --compare OLD.json      also list rows that differ, the worse ones first

With `--compare` the exit code is 1 if a row that is proven in OLD.json is unproven now or has a larger number. The
script uses `mpinodes.simulate` and keys of summary.json alone, so that it runs with older checkouts too:
`PYTHONPATH=CHECKOUT python scripts/attack/tables.py OLD.json` tabulates another checkout. All rows take two minutes.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import mpinodes
from mpinodes.core.errors import BadInput

Json = dict[str, Any]

BALL = {"name": "unit-ball", "dimension": 4, "total": 160}
POINTS = {"name": "mean", "dimension": 3, "points": 6}
# By algorithm: what makes its default experiment short.
ONLINE: Json = {"topology": {"agents": 4}, "data": BALL, "rounds": 10}
BLOCKS: Json = {"topology": {"name": "complete", "agents": 3}, "data": {"name": "digits"}, "rounds": 10}
LOCAL: Json = {"topology": {"agents": 4}, "data": {**BALL, "total": 40}, "problem": {"weight": 4.0}, "rounds": 6}
MEAN: Json = {"topology": {"agents": 4}, "data": POINTS, "rounds": 6}
ALGORITHMS: dict[str, Json] = {
    "admm": LOCAL,
    "dola": ONLINE,
    "dola-minibatch": {**ONLINE, "data": {**BALL, "total": 240, "batch": 5}},
    "dpcda": {**BLOCKS, "topology": {"name": "complete", "agents": 1}},
    "dpps": ONLINE,
    "dpsda-c": BLOCKS,
    "dpsda-ps": BLOCKS,
    "dpsr": ONLINE,
    "dvp-admm": LOCAL,
    "gossip-averaging": MEAN,
    "huang-dp": MEAN,
    "m-admm": LOCAL,
    "pp-admm": LOCAL,
    "pvp-admm": LOCAL,
    "two-stage-gaussian": {**MEAN, "algorithm": {"gradient_rounds": 3}},
    "weight-balancing": ONLINE,
}
MECHANISMS = ("laplace", "gaussian", "gamma-norm", "none")
ADJACENCIES = ("one-sample", "one-round", "one-agent")
PUBLIC = {
    **{name: {"gradient_at": "public"} for name in ("dpcda", "dpsda-c", "dpsda-ps", "weight-balancing")},
    "dola-minibatch": {"regularizer_at": "public"},
}
BANDIT: Json = {"feedback": {"points": 2, "radius": 0.1}, "problem": {"gradient_noise": 0.0}}
CONDITIONS: dict[str, Json] = {
    "default": {},
    "bandit feedback": BANDIT,
    "bandit feedback, hinge loss": {**BANDIT, "problem": {"gradient_noise": 0.0, "loss": "hinge"}},
    "late feedback": {"feedback": {"delay": 2}},
    "two repeats": {"repeats": 2, "data": {"seed": 7}},
    "uneven shares": {"data": {"partition": "uneven", "concentration": 5.0, "epochs": 5}},
    "clip 0.5": {"privacy": {"clip": 0.5}},
}


def merged(*trees: Json) -> Json:
    """Return nested dictionaries as one; later ones override earlier ones."""
    result: Json = {}
    for tree in trees:
        for key, value in tree.items():
            both = isinstance(value, dict) and isinstance(result.get(key), dict)
            result[key] = merged(result[key], value) if both else value
    return result


def cases(name: str, mechanism: str) -> Iterator[tuple[str, Json]]:
    """Yield the name and the experiment of every row of an algorithm with a mechanism, the default one first."""
    variants = {"": {}} | ({"public, ": {"algorithm": PUBLIC[name]}} if name in PUBLIC else {})
    for adjacency, variant, condition in product(ADJACENCIES, variants, CONDITIONS):
        asked = {"algorithm": {"name": name}, "privacy": {"mechanism": mechanism, "adjacency": adjacency}}
        tree = merged(ALGORITHMS[name], asked, variants[variant], CONDITIONS[condition])
        yield f"{name} | {mechanism} | {adjacency} | {variant}{condition}", tree


def row(asked: Json, place: Path) -> Json:
    """Run an experiment in a directory; return what its summary proves of the network, or why it proves nothing."""
    try:
        summary = mpinodes.simulate(merged(asked, {"output": {"dir": str(place)}})).summary
    except BadInput as error:
        return {"status": "refused", "reason": str(error)}
    except Exception as error:  # the table shows crashes too
        return {"status": "crash", "reason": f"{type(error).__name__}: {error}"}
    privacy = summary["privacy"]
    if asked.get("repeats", 1) > 1 and privacy.get("together"):
        privacy = privacy["together"]
    network = privacy["network"]
    if network["proven"] is None:
        return {"status": "unproven", "reason": privacy.get("unproven_because") or "no reason given"}
    return {"status": "proven", **{key: network[key] for key in ("proven_pure", "proven", "rule")}}


def text(result: Json) -> str:
    """Return a row's result in words."""
    if result["status"] != "proven":
        return f"{result['status']}: {result['reason']}"
    pure = result["proven_pure"]
    return f"pure {'none' if pure is None else f'{pure:.6g}'}, at delta {result['proven']:.6g} by {result['rule']}"


def numbers(result: Json) -> list[float]:
    """Return the proven pure epsilon and the proven epsilon at delta; inf where there is none."""
    return [math.inf if result.get(key) is None else result[key] for key in ("proven_pure", "proven")]


def compared(old: Json, new: Json) -> int:
    """Print the rows that differ between two tables, the worse ones first; return how many are worse."""
    both = [name for name in new if name in old]
    pairs = {name: list(zip(numbers(old[name]), numbers(new[name]), strict=True)) for name in both}
    worse = [name for name in both if any(b > a * (1 + 1e-9) for a, b in pairs[name])]
    differ = [
        name
        for name in both
        if old[name]["status"] != new[name]["status"] or any(b < a * (1 - 1e-9) for a, b in pairs[name])
    ]
    for word, names in {"WORSE": worse, "differs": [name for name in differ if name not in worse]}.items():
        for name in names:
            print(f"{word}: {name}\n    old: {text(old[name])}\n    new: {text(new[name])}")
    print(f"{len(worse)} of {len(both)} rows are worse, {len(set(differ) - set(worse))} differ otherwise")
    return len(worse)


def main() -> int:
    """Make the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--compare", type=Path, metavar="OLD.json")
    parser.add_argument("--only", nargs="+", choices=list(ALGORITHMS), default=list(ALGORITHMS), metavar="ALGORITHM")
    words = parser.parse_args()
    table: Json = {}
    with tempfile.TemporaryDirectory() as folder:
        for algorithm, mechanism in product(words.only, MECHANISMS):
            for name, asked in cases(algorithm, mechanism):
                table[name] = row(asked, Path(folder) / str(len(table)))
                if not words.compare:
                    print(f"{name}: {text(table[name])}", flush=True)
                if mechanism == "none" or table[name].get("reason", "").startswith("privacy.mechanism"):
                    break  # the same whatever the condition
    words.out.write_text(json.dumps(table, indent=1) + "\n")
    return int(bool(words.compare and compared(json.loads(words.compare.read_text()), table)))


if __name__ == "__main__":
    raise SystemExit(main())
