"""The scripts of scripts/papers, run in their small versions."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.helpers.running import CHECKOUT, command

PAPERS = CHECKOUT / "scripts" / "papers"
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def drawn(script: str, folder: Path, *pictures: str, words: Sequence[str] = ()) -> str:
    done = command([sys.executable, str(PAPERS / script), str(folder), "--quick", *words], folder)
    assert done.code == 0, done.err
    for picture in pictures:
        assert (folder / picture).read_bytes().startswith(SIGNATURE)
        assert f"figure: {folder / picture}" in done.out
    return done.out


def numbers(text: str, line: str) -> list[float]:
    """All numbers on the first line that begins so."""
    found = re.search(rf"^\s*{re.escape(line)}(.*)$", text, re.MULTILINE)
    assert found, f"no line {line!r} in:\n{text}"
    return [float(number) for number in re.findall(r"(?<![\w.])-?\d+\.?\d*(?:e[+-]?\d+)?", found[1])]
