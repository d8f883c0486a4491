"""Do a study, and print as one line of JSON what that took: python scripts/bench/study.py [key=value]...

Without algorithm.name the study is the one of docs/studies.md.
"""

from __future__ import annotations

import os

from mpinodes.launch.threads import ONE_THREAD

os.environ.update(ONE_THREAD)  # as the command does

import json
import re
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

import machine

from mpinodes.studies.pools import cores, processes
from mpinodes.studies.study import Study
from mpinodes.studies.sweeping import sweep

PAGE = Path(__file__).parents[2] / "docs" / "studies.md"


def documented() -> dict[str, Any]:
    """The study of the page, as its file has it."""
    (text,) = re.findall(r"```toml\n# study.toml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    return tomllib.loads(text)


def main(words: list[str]) -> None:
    asked = {} if any(word.startswith("algorithm.name=") for word in words) else documented()
    with tempfile.TemporaryDirectory() as folder, processes(cores()) as pool:
        begun = time.perf_counter()
        swept = sweep(Study.of([asked, *words, f"output.dir={folder}/study"]), pool, pool)
        seconds, cpu = time.perf_counter() - begun, time.process_time() + machine.working()
    if swept.failed:
        raise SystemExit(f"error: {next(iter(swept.failed.values()))}")
    print(json.dumps({"runs": len(swept.plans), "seconds": seconds, "cpu": cpu}))


if __name__ == "__main__":
    main(sys.argv[1:])
