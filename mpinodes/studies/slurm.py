"""Do a study as a Slurm job array: each task of the array does a part of the runs.

A last job does the runs that the array has left undone, and writes the table.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from mpinodes.core.errors import BadInput
from mpinodes.runlog.directories import write_text
from mpinodes.studies import pools, sweeping
from mpinodes.studies.study import Study

MOST_TASKS = 1000  # the default of MaxArraySize in Slurm
SCRIPT, LOGS = "slurm.sh", "slurm"


def submit(words: list[str]) -> str:
    """Check all runs of a study, and submit a Slurm job array that does the runs; return a text on what was done.

    A last job, which is submitted too, does the runs that the array has left undone, and writes the table. If Slurm is
    not installed, only the script of the array is written.

    Args:
        words: the words after `mpinodes sweep` that name the study.

    Raises:
        BadInput: the study is malformed, a run cannot be done, or Slurm rejects a job.
    """
    study = Study.of(words)
    with pools.processes(pools.cores()) as pool, sweeping.ready(study, pool) as plans:
        runs = len(plans)
    place = study.place.absolute()
    (place / LOGS).mkdir(exist_ok=True)
    script = place / SCRIPT
    write_text(script, text(study, runs))
    line = f"{study.name}: {runs} runs as a job array: {script}"
    if shutil.which("sbatch") is None:
        return f"{line}\n  sbatch is not installed, so nothing was submitted; on the cluster: sbatch {script}"
    array = _sbatch([str(script)])
    after = [f"--dependency=afterany:{array}", f"--job-name={study.name}-rest", f"--output={place}/{LOGS}/rest.txt"]
    rest = _sbatch([*after, f"--wrap={_command(place)}"])
    return f"{line}\n  submitted as job {array}; job {rest} then does the runs that are left, and writes the table"


def text(study: Study, runs: int) -> str:
    """Return the shell script of the job array.

    The user sets the partition and the time limit by environment variables of Slurm, such as SBATCH_PARTITION.

    Args:
        study: the study.
        runs: the number of runs. The array has a task for each run, but at most `MOST_TASKS` tasks.
    """
    place, tasks = study.place.absolute(), min(runs, MOST_TASKS)
    return f"""#!/bin/sh
#SBATCH --job-name={study.name}
#SBATCH --array=0-{tasks - 1}
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --output={place}/{LOGS}/%a.txt
exec {_command(place)} --part "$SLURM_ARRAY_TASK_ID/{tasks}"
"""


def _command(place: Path) -> str:
    return shlex.join([sys.executable, "-m", "mpinodes.sweep", str(place)])


def _sbatch(words: list[str]) -> str:
    """Submit a job by sbatch with these command-line words, and return the number of the job."""
    done = subprocess.run(["sbatch", "--parsable", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise BadInput(f"Slurm rejects the job: sbatch: {done.stderr.strip()}")
    return done.stdout.strip().partition(";")[0]
