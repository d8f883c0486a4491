"""A newcomer's first hour: a fresh clone, a fresh environment, and every command of the documentation as it is printed.

python scripts/first_hour.py DIRECTORY [PAGE...] > transcript.txt

PAGE: README.md, docs/tutorial.md and docs/own/algorithm.md, unless others are named. The directory is made, and holds
the clone. Tests are left out. Exit code 1: some command failed.
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
LEFT_OUT = ".venv/bin/pip"  # the tests: a quarter of an hour
FIRST = "python3 -m venv"
OURS = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV")  # a newcomer has none


class Shell:
    """Says and runs one command after the other, as whoever has activated the environment."""

    def __init__(self, clone: Path) -> None:
        self._clone = clone
        self._env = {name: value for name, value in os.environ.items() if name not in OURS}
        self._done: set[str] = set()
        self.failed = 0

    def __call__(self, line: str, wait: bool = True) -> None:
        if line in self._done:  # on an earlier page
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
            print("[goes on in another shell]", flush=True)
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
    """All that one page shows."""
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
    """Returns the exit code."""
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
