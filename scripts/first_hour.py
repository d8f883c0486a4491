"""Run every command of the documentation in a fresh clone and a fresh environment, as a newcomer would.

python scripts/first_hour.py DIRECTORY [PAGE...] > transcript.txt

By default the pages are README.md, docs/tutorial.md and docs/own/algorithm.md. The script makes DIRECTORY and puts the
clone there. It does not run the test suite. Exit code 1: a command failed.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/tutorial.md", "docs/own/algorithm.md")
FENCE = re.compile(r"^```(\w+)\n(?:# ([\w.-]+\.(?:py|toml|csv))\n)?(.*?)^```$", re.DOTALL | re.MULTILINE)
LEFT_OUT = ".venv/bin/pip"  # begins the commands that install and run the tests, which take a quarter of an hour
FIRST = "python3 -m venv"
OURS = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV")  # variables that a newcomer has not set


class Shell:
    """A shell with the environment activated; it prints and runs one command after the other.

    Args:
        clone: the working directory.

    Attributes:
        failed: the number of commands that failed.
    """

    def __init__(self, clone: Path) -> None:
        self._clone = clone
        self._env = {name: value for name, value in os.environ.items() if name not in OURS}
        self._done: set[str] = set()
        self.failed = 0

    def __call__(self, line: str, wait: bool = True) -> None:
        if line in self._done:  # an earlier page has shown it
            return
        self._done.add(line)
        print(f"\n$ {line}", flush=True)
        active = "" if line.startswith(FIRST) else ". .venv/bin/activate && "
        began = time.perf_counter()
        process = subprocess.Popen(
            ["bash", "-c", active + line], cwd=self._clone, env=self._env, stdin=subprocess.DEVNULL,
            stdout=None if wait else subprocess.DEVNULL, stderr=subprocess.STDOUT if wait else subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        if not wait:
            print("[runs on in another shell]", flush=True)
            time.sleep(5)
            return
        try:
            code = process.wait(600)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
        self.failed += code != 0
        print(f"[exit {code}, {time.perf_counter() - began:.1f} s]", flush=True)


def page_of(text: str, clone: Path, shell: Shell) -> None:
    """Write the files and run the commands and Python blocks that one page shows."""
    fences = [match.groups() for match in FENCE.finditer(text)]
    blocks: list[str] = []
    for _, file, content in fences:
        if file:
            (clone / file).write_text(content)
            print(f"\n[{file} as shown]", flush=True)
    for kind, file, content in fences:
        if kind == "sh":
            lines = [line for line in content.splitlines() if line and not line.startswith(LEFT_OUT)]
            for line, following in zip(lines, [*lines, ""][1:], strict=True):
                shell(line, wait=not following.startswith("mpinodes watch"))
        elif kind == "python" and not file:
            blocks.append(content)
            (clone / "block.py").write_text("\n".join(blocks))
            print(f"\n[block.py, as shown so far]\n{content}", flush=True)
            shell(f"python block.py  # {len(blocks)}")


def main(directory: Path, pages: list[str]) -> int:
    """Clone the checkout, run all pages, and return the exit code."""
    directory.mkdir(parents=True)
    clone = directory / "mpinodes"
    subprocess.run(["git", "clone", "-q", str(CHECKOUT), str(clone)], check=True)
    shell = Shell(clone)
    for page in pages or PAGES:
        print(f"\n==== {page}", flush=True)
        page_of((clone / page).read_text("utf-8"), clone, shell)
    return int(shell.failed > 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
