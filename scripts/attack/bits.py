"""Hash what all built-in algorithms send and decide, with `python scripts/attack/bits.py OUT.json`.

Each of 57 configurations is a short run in lockstep with `noise.key` set: every algorithm by its shortened defaults,
its variants with public points, and 36 others (faults, late and bandit feedback, sparse data, softmax, uneven shares,
budgets, repeats, ...). OUT.json has a hash of the decisions and the transcript by configuration.

    python scripts/attack/bits.py OUT.json --only dola               the small form: configurations with a word
    python scripts/attack/bits.py NEW.json --compare OLD.json        also list the configurations whose hash differs

With `--compare` the exit code is 1 if a hash differs. The script draws or writes all data and runs with older checkouts
too: `PYTHONPATH=CHECKOUT python scripts/attack/bits.py OLD.json` hashes another checkout. All take half a minute.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from hashlib import blake2b
from pathlib import Path

import numpy as np
from tables import ALGORITHMS, MEAN, PUBLIC, Json, merged

import mpinodes
from mpinodes.core.errors import BadInput
from mpinodes.running.alone import run

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
    "sparse": ("dola", {"data": {"file": "sparse.libsvm", "labels": [-1, 1], "columns": 9, "bound": 1.0}}),
    "sparse batches": (
        "dpps", {"data": {"file": "sparse.libsvm", "labels": [-1, 1], "columns": 9, "batch": 2, "epochs": 2}},
    ),
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
    "squared distance": ("dola", {**MEAN, "data": {**MEAN["data"], "batch": 1}}),
    "box": ("dola", {"problem": {"set": "box"}, "step": {"kind": "doubling"}}),
    "product of balls": ("dpsda-c", {"problem": {"set": "product-of-balls"}}),
    "clipped": ("dpps", {"privacy": {"clip": 0.1}, "problem": {"weight": 2.0}}),
    "grid": ("pp-admm", {"algorithm": {"grid": 1e-3}}),
    "ring, another seed": ("dpsr", {"seed": 5, "topology": {"name": "ring"}}),
    "fixed scale": ("dpps", {"privacy": {"scale": 2.0, "epsilon": 0.5}}),
}  # fmt: skip


def write_data(folder: Path) -> None:
    """Write the data files of the configurations to a folder."""
    rng = np.random.default_rng(0)
    features = rng.uniform(-1, 1, (60, 9)) * (rng.random((60, 9)) < 0.3)
    labels = np.where(rng.random(60) < 0.5, -1, 1)
    rows = [" ".join(f"{k + 1}:{float(row[k])!r}" for k in np.flatnonzero(row)) for row in features]
    lines = [f"{label} {row}\n" for label, row in zip(labels, rows, strict=True)]
    (folder / "sparse.libsvm").write_text("".join(lines))
    np.savez(folder / "classes.npz", features=features, targets=rng.integers(0, 3, 60))
    np.savez(folder / "real.npz", features=features, targets=rng.normal(0, 100, 60))
    for agent in range(4):
        some = slice(15 * agent, 15 * agent + 15)
        table = np.column_stack([features[some], labels[some] > 0])
        np.savetxt(folder / f"part-{agent}.csv", table, delimiter=",")


def configurations(folder: Path) -> dict[str, Json]:
    """Return the experiments by name."""
    trees = {name: merged(short, {"algorithm": {"name": name}}) for name, short in ALGORITHMS.items()}
    trees |= {f"{name}, public": merged(trees[name], {"algorithm": more}) for name, more in PUBLIC.items()}
    for name, (algorithm, more) in ODD.items():
        tree = merged(trees[algorithm], more)
        if "file" in tree["data"]:  # the keys of the data that the file replaces do not apply to a file
            tree["data"] = {**more["data"], "file": str(folder / more["data"]["file"])}
        if name == "squared distance":
            tree["data"] = more["data"]
        trees[f"{name}: {algorithm}"] = tree
    return trees


def hashed(asked: Json, place: Path) -> str:
    """Run an experiment in a directory; return the hash of its decisions and its transcript, or the error."""
    asked = merged(
        asked, {"noise": {"key": "bits"}, "record": {"transcript": True, "decisions": True}, "report": False},
        {"output": {"dir": str(place)}},
    )  # fmt: skip
    try:
        directory, _ = run(asked)
    except BadInput as error:
        return f"refused: {error}"
    except Exception as error:  # the hash of a crash is its message
        return f"crash: {type(error).__name__}: {error}"
    digest = blake2b(digest_size=16)
    for part in sorted(directory.glob("repeat-*")) or [directory]:
        record = mpinodes.load(part)
        for name in ("decision", "transcript"):
            digest.update(np.ascontiguousarray(record[name].values).tobytes())
    return digest.hexdigest()


def main() -> int:
    """Hash all configurations."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--compare", type=Path, metavar="OLD.json")
    parser.add_argument("--only", metavar="WORD", default="", help="configurations whose name has this word")
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder)
        asked = {key: tree for key, tree in configurations(folder).items() if words.only in key}
        hashes = {key: hashed(tree, folder / str(place)) for place, (key, tree) in enumerate(asked.items())}
    words.out.write_text(json.dumps(hashes, indent=1) + "\n")
    if not words.compare:
        print("\n".join(f"{key}: {value}" for key, value in hashes.items()))
        return 0
    old = json.loads(words.compare.read_text())
    differing = [key for key in hashes if key in old and hashes[key] != old[key]]
    for key in differing:
        print(f"{key}\n    old: {old[key]}\n    new: {hashes[key]}")
    print(f"{len(differing)} of {len(old.keys() & hashes.keys())} configurations differ")
    return int(bool(differing))


if __name__ == "__main__":
    raise SystemExit(main())
