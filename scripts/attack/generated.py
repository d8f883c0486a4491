"""Attack proven numbers with generated set-ups, with `python scripts/attack/generated.py`.

The script draws set-ups at random (`kinds.py`), among them files of users' parts (`templates.py`), runs each of them in
lockstep and reads the proven numbers of its summary. Then it draws adjacent data sets (`search.py`) and replays the run
on each of them (`replays.py`). A proven number bounds the sum of what every message reveals given all that was sent
before, so one transcript on which that sum is larger refutes the number:

    Laplace noise      Σ (L1 change)/scale, and the log-likelihood ratio of what was sent, against the pure epsilon
    gamma-norm noise   the same with L2 changes; of a minimizer with noise inside, the log-likelihood ratio
    Gaussian noise     Σ (L2 change / standard deviation)² against the square of the mu of the epsilon at delta

Runs whose code differs must not share noise, and a run that ends by a rule must print no view of single nodes.

    python scripts/attack/generated.py                                       the small form, some seconds
    python scripts/attack/generated.py --sets 5000 --seconds 280 --out FILE  the large form in parts: again until done
    python scripts/attack/generated.py --one KIND:NUMBER [--keep FOLDER]     one set-up again
    python scripts/attack/generated.py --check [WORD]                        `mpinodes check` of a file per template

FILE keeps a line of JSON for each set-up, so that a stopped run goes on where it was. The report has a row per kind:
set-ups, the share with a proven number, data sets, and the largest ratio of realised to printed; then each refutation
and each crash with the command that repeats it. The exit code is 1 if there is a refutation or a crash.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import kinds
import numpy as np
import templates
from replays import Result
from search import Spec, attack

from mpinodes.core.errors import BadInput

ROOM = 1e-6  # relative: what the sums themselves may be off by
LIMIT = 60  # seconds for one set-up; a longer one counts as a crash
SETS = 10  # data sets of a set-up
# By kind: how set-ups are drawn, and the share of all data sets.
KINDS: dict[str, tuple[Any, float]] = {
    "built-ins": (kinds.built_in, 0.15),
    "bandit": (kinds.bandit, 0.1),
    "stopping": (kinds.stopping, 0.07),
    "several runs": (kinds.over_runs, 0.13),
    "rewritten files": (kinds.rewritten, 0.07),
    "own algorithms": (kinds.own_algorithm, 0.15),
    "own streams": (kinds.streams, 0.12),
    "own losses": (kinds.losses, 0.13),
    "imported code": (kinds.keys, 0.08),
}
THEMSELVES = {"rewritten files": 6, "imported code": 3}  # kinds that attack by themselves, and their data sets


def too_long(*_: object) -> None:
    """End a set-up that takes too long."""
    raise TimeoutError(f"a set-up takes longer than {LIMIT} s")


def attacked(kind: str, number: int, seed: int, keep: Path | None = None) -> Result:
    """Attack the set-up that kind, number and seed determine."""
    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(LIMIT)
    rng, title = np.random.default_rng([seed, list(KINDS).index(kind), number]), kind
    with tempfile.TemporaryDirectory() as name, np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = keep or Path(name)
        try:
            if kind in THEMSELVES:
                return KINDS[kind][0](rng, folder, THEMSELVES[kind])
            case = KINDS[kind][0](rng, folder)
            title = case.title
            if keep:
                (keep / "experiment.json").write_text(json.dumps(case.asked, indent=1))
            return attack(case, rng, folder, SETS)
        except BadInput as error:
            return Result(title, "refused", words=str(error))
        except Exception as error:  # the report lists every crash, and the other set-ups go on
            place = traceback.extract_tb(error.__traceback__)[-1]
            words = f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
            return Result(title, "crash", words=words)
        finally:
            signal.alarm(0)


def attack_all(
    rows: list[dict[str, Any]], some: list[str], total: int, seed: int, seconds: float, out: Path | None
) -> None:
    """Attack set-ups of some kinds until there are so many data sets or the time is over; add a row for each set-up."""
    end = time.monotonic() + seconds
    while sum(row["sets"] for row in rows) < total and time.monotonic() < end:
        # A set-up without a proven number counts as two data sets, so that no kind takes all the time.
        done = {kind: sum(max(row["sets"], 2) for row in rows if row["kind"] == kind) for kind in some}
        kind = min(some, key=lambda kind: done[kind] / KINDS[kind][1])
        number = sum(row["kind"] == kind for row in rows)
        rows.append({"kind": kind, "number": number, "seed": seed, **vars(attacked(kind, number, seed))})
        if out:
            with out.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")


def is_bad(row: dict[str, Any]) -> bool:
    """Return whether a set-up crashed or refutes a proven number."""
    return bool(row["status"] == "crash" or row["ratio"] > 1 + ROOM)


def report(rows: list[dict[str, Any]]) -> str:
    """Return the table by kind, the most frequent refusals, and all refutations and crashes."""
    lines = [f"{'kind':16} {'set-ups':>8} {'proven':>7} {'refused':>8} {'crashes':>8} {'data sets':>10} {'share':>6} "
             f"{'refuted':>8} {'worst ratio':>12}"]  # fmt: skip
    total = max(1, sum(row["sets"] for row in rows))
    for kind in (*KINDS, "all"):
        mine = [row for row in rows if kind in (row["kind"], "all")]
        count, sets = Counter(row["status"] for row in mine), sum(row["sets"] for row in mine)
        lines.append(
            f"{kind:16} {len(mine):8} {count['proven'] / max(1, len(mine)):7.0%} {count['refused']:8} "
            f"{count['crash']:8} {sets:10} {sets / total:6.1%} {sum(row['ratio'] > 1 + ROOM for row in mine):8} "
            f"{max((row['ratio'] for row in mine), default=0.0):12.8g}"
        )
    refused = Counter((row["kind"], row["words"][:90]) for row in rows if row["status"] == "refused")
    lines += [f"refused {count} times: {kind}: {words}" for (kind, words), count in refused.most_common(5)]
    for row in filter(is_bad, rows):
        again = f"--seed {row['seed']} --one '{row['kind']}:{row['number']}'"
        lines.append(f"{row['status']}, ratio {row['ratio']:.6g}: {row['title']}: {row['words']}")
        lines.append(f"    python scripts/attack/generated.py {again}")
    return "\n".join(lines)


def checked(seed: int, word: str) -> int:
    """Print what `mpinodes check` says of one file per template whose title has a word; return how many it faults."""
    rng, faults = np.random.default_rng(seed), 0
    with tempfile.TemporaryDirectory() as name:
        folder, spec = Path(name), Spec(16, 40, 2)
        source = spec.write(spec.tables(rng), folder, "own")
        texts = [templates.algorithm(rng, law) for law in kinds.LAWS]
        texts += [templates.coordinate(rng, "laplace"), templates.coordinate(rng, "gaussian"), templates.rank_loss(rng)]
        texts += [templates.linear_loss(rng, name) for name in templates.LINEAR_LOSSES]
        texts += [templates.labelled_stream(rng, False, "least-squares", source) for _ in range(4)]
        texts += [templates.plain_stream(rng, False, "least-squares", 2, source) for _ in range(4)]
        for place, (title, text) in enumerate(texts):
            path = folder / f"part_{place}.py"
            path.write_text(text)
            if word not in title:
                continue
            words = [sys.executable, "-m", "mpinodes.check", str(path)]
            done = subprocess.run(words, capture_output=True, text=True, cwd=folder, check=False)
            faults += done.returncode != 0
            faulted = (done.stdout + done.stderr).strip() if done.returncode else ""
            print(f"{title}: exit {done.returncode} {faulted}", flush=True)
    return faults


def main() -> int:
    """Attack, and print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=100, help="adjacent data sets of all kinds together")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS), metavar="KIND")
    parser.add_argument("--seconds", type=float, default=40.0, help="begin no further set-up after so many seconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, metavar="FILE", help="keep the results in FILE and go on from them")
    parser.add_argument("--one", metavar="KIND:NUMBER", help="attack this set-up alone")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="with --one: leave its files in an empty folder")
    parser.add_argument("--check", nargs="?", const="", metavar="WORD", help="check templates whose title has WORD")
    words = parser.parse_args()
    if words.check is not None:
        return int(checked(words.seed, words.check) > 0)
    if words.one:
        kind, _, number = words.one.rpartition(":")
        rows = [{"kind": kind, "number": int(number), "seed": words.seed,
                 **vars(attacked(kind, int(number), words.seed, words.keep))}]  # fmt: skip
        print(json.dumps(rows, indent=1))
    else:
        is_begun = words.out is not None and words.out.exists()
        rows = [json.loads(line) for line in words.out.read_text().splitlines()] if is_begun else []
        attack_all(rows, words.kinds, words.sets, words.seed, words.seconds, words.out)
        print(report(rows))
    return int(any(map(is_bad, rows)))


if __name__ == "__main__":
    raise SystemExit(main())
