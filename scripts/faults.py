"""Break runs in many ways, and report how they end: python scripts/faults.py OUT [--python PYTHON] [--only WORD].

Each fault is planted into a run of three agents and the logger, or into its environment. OUT/faults.md and
OUT/faults.csv list for each fault: the message, the exit code of mpirun, the seconds until all processes had ended, the
number of recorded rounds, and whether the run could be resumed. PYTHON is the interpreter whose MPI and mpirun are
used. Root also tests a full disk. Exit code 1: some run hung, ended without a message, lost its record, could not be
resumed, or succeeded although it cannot have.
"""

from __future__ import annotations

import argparse
import csv
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from mpinodes.core.errors import BadInput
from mpinodes.launch.launching import mpirun
from mpinodes.runlog.reader import Reader, is_recorded

RUNS = ("moved", "run", "small/run", "r\udcffn")  # possible run directories
DONE = "was complete"
LIMIT = 40.0  # seconds after which a run counts as hung
RANKS, LOGGER = 4, 3
ROUNDS = 280
PART = """
import os, signal, sys, time
from dataclasses import dataclass
from pathlib import Path
import numpy as np
from mpinodes.algorithms.dpsda_ps import DPSDAPS
from mpinodes.core.parts import Metric
RANK = int(os.environ.get("PMI_RANK", os.environ.get("OMPI_COMM_WORLD_RANK", "0")))
Path(f"draft-{RANK}").write_text(str(os.getpid()))
Path(f"draft-{RANK}").rename(f"process-{RANK}")  # the file appears when it is complete

def note(name):
    if not os.path.exists(name):
        Path(f"{name}.{RANK}").write_text(repr(time.time()))
        os.replace(f"{name}.{RANK}", name)

def here_if(place, **known):
    if os.environ.get("FAULT_PLACE") == place and "FAULT" in os.environ:
        note("planted")
        exec(os.environ["FAULT"], globals(), known)

class Wordless(Exception):
    def __str__(self):
        raise RuntimeError
"""
ALGORITHM = (
    PART
    + """
__all__ = ["Planted"]

@dataclass(frozen=True)
class Planted(DPSDAPS):
    def init(self, x):
        here_if(f"start of {RANK}")
        return super().init(x)

    def update(self, s, here, inbox, loss):
        time.sleep(0.01 if "FAULT_PAUSE" in os.environ else 0)  # not where the run is resumed
        following = super().update(s, here, inbox, loss)
        if here.t == 200:
            note("in rounds")
            here_if(f"agent {here.agent}", s=following)
            here_if("agents", s=following)
        return following
"""
)
METRIC = (
    PART
    + """
__all__ = ["Told"]

class Told(Metric):
    name, dims, label = "told", ("horizon",), "told"
    chunks = 0

    def take(self, rounds):
        self.chunks += 1
        if self.chunks == 6:
            here_if("logger")

    def judge(self, run):
        note("after the rounds")
        here_if("logger after the rounds")
        time.sleep(float(os.environ.get("FAULT_PAUSE", 0)))
        return np.zeros(len(run.horizons))
"""
)


@dataclass(frozen=True)
class Fault:
    """A fault that breaks a run.

    Attributes:
        name: the name of the fault.
        place: where the fault is planted; for a signal from outside, the rank, or "mpirun".
        code: the Python code that runs there; "" for a signal from outside.
        signal: the number of the signal from outside; 0 if there is none.
        when: the file whose existence triggers the signal: as the run begins, in its rounds, or after them.
        words: additional words of the command.
        env: additional environment variables.
        shell: a shell command with {command} in it; "" if the command runs without a shell.
        codes: the exit codes that are right; empty if any but 0 is right.
        quiet: whether no message can be expected, because no process is left that could print it.
    """

    name: str
    place: str = ""
    code: str = ""
    signal: int = 0
    when: str = "in rounds"
    words: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    shell: str = ""
    codes: tuple[int, ...] = ()
    quiet: bool = False


ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
STOPS = (0, 1, 5)  # after a signal that stops runs: the run had ended; as Open MPI's mpirun reports it; the run stopped
LAUNCHERS = (0, 255)  # without stdout: 0 by Open MPI's mpirun, 255 by MPICH's
KILL_SELF = "os.kill(os.getpid(), signal.SIGKILL)"
STOP_SELF = "os.kill(os.getpid(), signal.SIGSTOP)"
LOOP = "while True: pass"
FAULTS = [
    Fault("raise", "agent 1", "raise ZeroDivisionError('planted')", codes=(3,)),
    Fault("raise, as it begins", "start of 1", "raise ZeroDivisionError('planted')", codes=(3,)),
    Fault("raise in all agents", "agents", "raise ZeroDivisionError('planted')", codes=(3,)),
    Fault("sys.exit(0)", "agent 1", "sys.exit(0)", codes=(3,)),
    Fault("sys.exit(7)", "agent 1", "sys.exit(7)", codes=(3,)),
    Fault("os._exit(0)", "agent 1", "os._exit(0)"),
    Fault("os._exit(0) in all agents", "agents", "os._exit(0)"),
    Fault("C's _exit(0)", "agent 1", "import ctypes\nctypes.CDLL(None)._exit(0)"),
    Fault("recursion without an end", "agent 1", "f = lambda f: f(f)\nf(f)", codes=(3,)),
    Fault("more memory than there is", "agent 1", "np.ones(1 << 50)", codes=(3,)),
    Fault("an estimate that is no number", "agent 1", "s.z.fill(np.nan)", codes=(3,)),
    Fault("an exception whose str() fails", "agent 1", "raise Wordless", codes=(3,)),
    Fault("an exception with a lone surrogate", "agent 1", "raise ValueError('\\udcff \\x1b[31m')", codes=(3,)),
    Fault("an exception of a megabyte", "agent 1", "raise ValueError('x' * 1_000_000)", codes=(3,)),
    Fault("a Greek letter, with an ASCII locale", "agent 1", "raise ValueError(chr(0x3b5))", env=ASCII, codes=(3,)),
    Fault("raise, with stderr closed", "agent 1", "os.close(2)\nraise ValueError", codes=(3,), quiet=True),
    Fault("endless loop", "agent 1", LOOP, codes=(4,)),
    Fault(
        "endless loop that handles exceptions", "agent 1",
        "while True:\n try:\n  while True: pass\n except Exception: pass", codes=(4,),
    ),
    Fault("endless loop, as it begins", "start of 1", LOOP, codes=(4,)),
    Fault("sleep without an end", "agent 1", "time.sleep(1e6)", codes=(4,)),
    Fault("segmentation fault", "agent 1", "import ctypes\nctypes.string_at(0)"),
    Fault("abort()", "agent 1", "os.abort()"),
    Fault("SIGKILL", "agent 1", KILL_SELF),
    Fault("SIGKILL, as it begins", "start of 1", KILL_SELF),
    Fault("SIGKILL of all agents", "agents", KILL_SELF),
    Fault("SIGSTOP", "agent 1", STOP_SELF, codes=(4,)),
    Fault("SIGSTOP of all agents", "agents", STOP_SELF, codes=(4,)),
    Fault("SIGTERM", "1", signal=signal.SIGTERM, codes=STOPS),
    Fault("SIGINT", "1", signal=signal.SIGINT, codes=STOPS),
    Fault("raise in a metric", "logger", "raise ZeroDivisionError('planted')", codes=(3,)),
    Fault("endless loop in a metric", "logger", LOOP, codes=(4,)),
    Fault("os._exit(0)", "logger", "os._exit(0)"),
    Fault("SIGKILL", "logger", KILL_SELF),
    Fault("SIGSTOP", "logger", STOP_SELF, codes=(4,)),
    Fault("raise, after the rounds", "logger after the rounds", "raise ZeroDivisionError('planted')", codes=(0,)),
    Fault("SIGKILL, after the rounds", "logger after the rounds", KILL_SELF),
    Fault("SIGSTOP, after the rounds", "logger after the rounds", STOP_SELF, codes=(4,)),
    Fault("SIGKILL", "1", signal=signal.SIGKILL, when="after the rounds"),
    Fault("SIGSTOP", "1", signal=signal.SIGSTOP, when="after the rounds"),
    Fault("SIGKILL", str(LOGGER), signal=signal.SIGKILL, when=f"process-{LOGGER}"),
    *(
        Fault(
            number.name, "mpirun", signal=number, when=when, quiet=number in (signal.SIGKILL, signal.SIGHUP),
            codes=STOPS if number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT) else (),
        )
        for number, when in (
            (signal.SIGKILL, f"process-{LOGGER}"), (signal.SIGKILL, "in rounds"), (signal.SIGKILL, "after the rounds"),
            (signal.SIGTERM, "in rounds"), (signal.SIGINT, "in rounds"), (signal.SIGHUP, "in rounds"),
            (signal.SIGUSR1, "in rounds"), (signal.SIGTERM, "after the rounds"),
        )
    ),
    Fault("the run directory is removed", "agent 1", "import shutil\nshutil.rmtree('run')", codes=(3,)),
    Fault("the run directory is renamed", "agent 1", "os.rename('run', 'moved')", codes=(3,)),
    Fault("the run directory is no UTF-8", words=("output.dir=r\udcffn",), codes=(2,)),
    Fault("a run directory below a file", words=("output.dir=planted.py/run",), codes=(2,)),
    Fault("data that are not there", words=("data.file=none.csv",), codes=(2,)),
    Fault("data that break off", words=("data.file=half.npz",), codes=(2,)),
    Fault("stdout closed", shell="{command} >&-", codes=LAUNCHERS),
    Fault("stdout is full", shell="{command} > /dev/full", codes=LAUNCHERS),
    Fault("a disk of 300 kB", words=("output.dir=small/run",)),
]  # fmt: skip


class Seen(NamedTuple):
    """The end of a run with a fault.

    Attributes:
        code: the exit code of mpirun; None if the run hung.
        seconds: the seconds from the fault until all processes had ended.
        line: the first message of mpinodes on the terminal, or else the last line there.
        logged: the last line of log.txt.
        rounds: the number of recorded rounds; None if the record cannot be read; -1 if there is none.
        resumed: whether the run could be resumed, in words.
    """

    code: int | None
    seconds: float
    line: str
    logged: str
    rounds: int | None
    resumed: str


def break_run(fault: Fault, place: Path, python: str) -> Seen:
    """Run with a fault in the new directory `place`, under the mpirun of `python`, and return how the run ended."""
    place.mkdir(parents=True)
    (place / "planted.py").write_text(ALGORITHM)
    (place / "told.py").write_text(METRIC)
    (place / "half.npz").write_bytes(b"PK\x03\x04")
    env = os.environ | {"FAULT_PAUSE": "2" if fault.when == "after the rounds" else "0"} | fault.env
    if fault.code:
        env |= {"FAULT": fault.code, "FAULT_PLACE": fault.place}
    words = ["algorithm.path=planted.py", "topology.name=complete", f"rounds={ROUNDS}", "data.batch=1",
             'record.metrics=["told.py"]', "deadline.seconds=3", "report=false",
             "checkpoint.every=20",
             *(() if any(word.startswith("output.dir") for word in fault.words) else ("output.dir=run",)),
             *fault.words]  # fmt: skip
    command = [*mpirun(python), "-n", str(RANKS), python, "-m", "mpinodes.run", *words]
    if fault.shell:
        quoted = " ".join(f"'{word}'" for word in command)
        command = ["sh", "-c", fault.shell.replace("{command}", quoted)]
    with small_disk(place / "small", "small/run" in " ".join(fault.words)):
        code, seconds, line = _watched(fault, command, place, env)
        run = next((place / name for name in RUNS if is_recorded(place / name)), place / "run")
        logged, rounds = _last_line(run / "log.txt"), _rounds(run)
        return Seen(code, seconds, line, logged, rounds, _resumed(run, place, python))


def _watched(fault: Fault, command: list[str], place: Path, env: dict[str, str]) -> tuple[int | None, float, str]:
    """Run the command until it ends or hangs; return `code`, `seconds` and `line` of a `Seen`."""
    began = time.time()
    with (place / "output").open("w+b") as output:
        process = subprocess.Popen(
            command, cwd=place, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
        if fault.signal:
            planted = _send(fault, place, process)
        end = time.monotonic() + LIMIT
        while (process.poll() is None or _processes(place)) and time.monotonic() < end:
            time.sleep(0.05)
        gone = time.time()
        code = process.poll()
        if left := _processes(place):
            code = None
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        process.wait()
        output.seek(0)
        text = output.read().decode(errors="replace")
    if not fault.signal:
        planted = float((place / "planted").read_text()) if (place / "planted").exists() else began
    ours = [line for line in text.splitlines() if line.startswith("mpinodes: ")]
    others = [line for line in text.splitlines() if line.strip(" =")]
    return code, gone - planted, (ours or others or [""])[0 if ours else -1]


def _send(fault: Fault, place: Path, process: subprocess.Popen[bytes]) -> float:
    """Wait until it is time, send the fault's signal, and return the time of sending."""
    end = time.monotonic() + LIMIT
    while not (place / fault.when).exists() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    target = process.pid if fault.place == "mpirun" else int((place / f"process-{fault.place}").read_text())
    with suppress(ProcessLookupError):
        os.kill(target, fault.signal)
    return time.time()


def _processes(place: Path) -> list[int]:
    """Return the ids of all processes whose working directory is in `place`, except zombies."""
    ids = []
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            if process.name.isdigit() and os.readlink(process / "cwd").startswith(str(place)):
                ids.append(int(process.name))
    return ids


@contextmanager
def small_disk(place: Path, wanted: bool) -> Iterator[None]:
    """Mount a file system of 300 kB at `place` in the context, if it is wanted."""
    if not wanted:
        yield
        return
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", place], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def _rounds(run: Path) -> int | None:
    if not is_recorded(run):
        return -1
    try:
        with Reader(run) as record:
            return record.rounds
    except (OSError, BadInput):
        return None


def _resumed(run: Path, place: Path, python: str) -> str:
    """Resume a run without the fault in one process; return in words whether that worked."""
    if (run / "summary.json").exists():
        return DONE
    if not (run / "checkpoint").exists():
        return "nothing to resume"
    if run.parent.is_mount():  # the small disk grows, as if the user had made room
        subprocess.run(["mount", "-o", "remount,size=30m", run.parent], check=True)
    command = [python, "-m", "mpinodes.run", "--lockstep", "--resume", str(run)]
    done = subprocess.run(command, cwd=place, capture_output=True, check=False)
    if done.returncode == 0:
        return "yes"
    return f"no: {done.stderr.decode(errors='replace').strip()[:100]}"


def _last_line(log: Path) -> str:
    try:
        lines = log.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line for line in reversed(lines) if line.strip()), "")


def wrong(fault: Fault, seen: Seen) -> str:
    """Return what is wrong with the end of a run; "" if nothing is."""
    if seen.code is None:
        return "hung"
    if seen.code not in fault.codes if fault.codes else seen.code == 0:
        return f"exit code {seen.code}"
    if seen.code == 0 and seen.resumed != DONE:
        return "exit code 0, but the run is not complete"
    if not (seen.line or seen.logged or fault.quiet):
        return "no message"
    if seen.rounds is None:
        return "the record cannot be read"
    return "cannot be resumed" if seen.resumed.startswith("no:") else ""


def _columns(fault: Fault, seen: Seen) -> dict[str, str]:
    who = {"1": "agent 1", str(LOGGER): "logger"}.get(fault.place, fault.place)
    when = "" if not fault.signal else "as it begins" if fault.when.startswith("process") else fault.when
    rounds = {None: "cannot be read", -1: "none"}.get(seen.rounds, str(seen.rounds))
    return {
        "fault": ", ".join(word for word in (fault.name, when) if word),
        "where": who,
        "message": seen.line[:160].replace("|", "/"),
        "in log.txt": seen.logged[:100].replace("|", "/"),
        "exit code": "hung" if seen.code is None else str(seen.code),
        "seconds": f"{seen.seconds:.1f}",
        "rounds recorded": rounds,
        "resumed": seen.resumed,
        "wrong": wrong(fault, seen),
    }


def write(rows: list[dict[str, str]], out: Path) -> None:
    """Write the table to faults.csv and faults.md in the directory `out`."""
    with (out / "faults.csv").open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)
    lines = [" | ".join(rows[0]), " | ".join("---" for _ in rows[0]), *(" | ".join(row.values()) for row in rows)]
    text = "".join(f"| {line} |\n" for line in lines)
    (out / "faults.md").write_text(text, "utf-8", errors="backslashreplace")


def main() -> int:
    """Break a run with each fault, print and write the table, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--python", default=sys.executable, help="the interpreter whose MPI is used")
    parser.add_argument("--only", default="", metavar="WORD", help="only faults with this word in their name or place")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under `nohup` the runs would inherit that SIGHUP is ignored
    rows = []
    for fault in FAULTS:
        if options.only not in f"{fault.name} {fault.place}" or ("small/run" in str(fault.words) and os.geteuid() != 0):
            continue
        with tempfile.TemporaryDirectory() as folder:
            rows.append(_columns(fault, break_run(fault, Path(folder) / "work", options.python)))
        print(" | ".join(rows[-1].values()), flush=True)
        write(rows, options.out)
    return int(any(row["wrong"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
