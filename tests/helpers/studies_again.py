"""Kill a study, continue it, and do some of its runs again by mpirun.

    python -m tests.helpers.studies_again OUT
    python -m tests.helpers.studies_again OUT --kills 1 --runs 5 rounds=20 study.seeds=1

The script does the study of docs/studies.md with the given settings twice, in OUT/whole and in OUT/killed. During the
second, SIGKILL goes three times to all of its processes, each time after a random part of the runs. The continued study
must have repeated no finished run, lost none, and must have the table of the first study, except for times. Then 60
random runs of both studies are done again by mpirun: every variable of the record and every number of the summary must
be equal, except for times. The random choices follow from the first 8 hexadecimal digits of the last commit. Exit code
1: something differs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pandas
import tomli_w

from mpinodes.launch.launching import mpirun

SCRIPTS = Path(__file__).parents[2] / "scripts"
sys.path += [str(SCRIPTS), str(SCRIPTS / "bench")]
from commands import descendants  # noqa: E402
from kills import differences  # noqa: E402
from study import documented  # noqa: E402

HEAD = ["git", "-C", str(SCRIPTS), "rev-parse", "HEAD"]


def sweep(place: Path, words: list[str]) -> subprocess.Popen[bytes]:
    """Start or continue a study."""
    line = [sys.executable, "-m", "mpinodes.sweep", *words, f"output.dir={place}"]
    return subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def finished(place: Path) -> dict[str, int]:
    """Return when each finished run of a study wrote its summary."""
    return {summary.parent.name: summary.stat().st_mtime_ns for summary in (place / "runs").glob("*/summary.json")}


def killed(place: Path, words: list[str], runs: int, kills: int, rng: random.Random) -> list[str]:
    """Do a study that is killed several times; return a line for each finished run that was lost or repeated."""
    kept: dict[str, int] = {}
    for after in sorted(rng.sample(range(1, runs), kills)):
        job = sweep(place, words)
        while len(finished(place)) < after and job.poll() is None:
            time.sleep(0.01)
        victims = [job.pid, *descendants(job.pid)]
        for process in victims:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        job.wait()
        kept = finished(place) | kept
        print(f"SIGKILL to {len(victims)} processes; {len(kept)} of {runs} runs are done", flush=True)
    sweep(place, words).wait()
    now = finished(place)
    return [f"{name}: lost or repeated" for name, at in kept.items() if now.get(name) != at]


def table(place: Path) -> pandas.DataFrame:
    """Return the table of a study without times."""
    return pandas.read_csv(place / "table.csv").drop(columns="seconds")


def again(run: Path) -> list[str]:
    """Do a run again by mpirun; return the variables of the record and the keys of the summary that differ."""
    agents = json.loads((run / "summary.json").read_text())["agents"]
    with tempfile.TemporaryDirectory() as folder:
        line = [*mpirun(), "-n", str(agents + 1), sys.executable, "-m", "mpinodes.run", str(run / "experiment.toml")]
        subprocess.run([*line, f"output.dir={folder}/run"], check=True, capture_output=True)
        return differences(run, Path(folder) / "run")


def main() -> int:
    """Do the studies and the runs, print what differs, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--runs", type=int, default=60, help="the number of runs that are done again")
    parser.add_argument("words", nargs="*", help="settings of the study")
    asked = parser.parse_intermixed_args()
    seed = subprocess.run(HEAD, check=True, capture_output=True, text=True).stdout[:8]
    rng, whole, cut = random.Random(int(seed, 16)), asked.out / "whole", asked.out / "killed"
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "study.toml").write_text(tomli_w.dumps(documented()))
    words = [str(asked.out / "study.toml"), *asked.words]
    if sweep(whole, words).wait():
        raise SystemExit("the study failed")
    wrong = killed(cut, words, len(finished(whole)), asked.kills, rng)
    wrong += [] if table(whole).equals(table(cut)) else ["the tables differ"]
    runs = sorted(run for place in (whole, cut) for run in (place / "runs").iterdir())
    drawn = rng.sample(runs, min(asked.runs, len(runs)))
    wrong += [f"{run}: {name} differs" for run in drawn for name in again(run)]
    print(*wrong, sep="\n", end="\n" * bool(wrong))
    print(f"{asked.kills} kills, {len(drawn)} runs again by mpirun, seed {seed}: {len(wrong)} differences")
    return min(len(wrong), 1)


if __name__ == "__main__":
    sys.exit(main())
