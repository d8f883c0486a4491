"""The page of a run: one self-contained HTML file."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from mpinodes.presentation import privacy_words, run_warnings
from mpinodes.presentation import terminal as words
from mpinodes.presentation.findings import findings
from mpinodes.presentation.run_figures import ValueTable
from mpinodes.runlog.directories import write_text
from mpinodes.summary.summary import NoiseFree, RanksSummary, Summary
from mpinodes.summary.timing import PARTS

HERE = Path(__file__).parent
SAME_BITS = "Saved as a file, this runs again to the same bits."
WIDE = ("Privacy loss", "What one node learns of another", "Topology")  # figures of several panels


def write(
    directory: Path,
    summary: Summary,
    silent: NoiseFree | None,
    experiment: str,
    figures: dict[str, Path],
    tables: Sequence[ValueTable],
) -> Path:
    """Write `report.html` into the run directory; return its path.

    Args:
        directory: of the run.
        summary: of the run.
        silent: the same run without noise; None: it was not made.
        experiment: the text of experiment.toml.
        figures: files by title.
        tables: the values behind the figures.
    """
    path, s = directory / "report.html", summary
    text = _template().render(
        name=s.name, what=f"{words.headline(s)}: {words.setting(s)}", partial=_partial(s),
        warnings=run_warnings.sentences(s), found=findings(s, silent.summary if silent else None),
        comparable=s.privacy.noise is not None and not silent and not s.partial, measured=words.measured(s),
        holding=words.bounds(s, applies=True), idle=words.bounds(s, applies=False), remarks=_remarks(s),
        privacy=s.privacy.noise and privacy_words.table(s.privacy, s.checked), privacy_head=privacy_words.HEAD,
        privacy_note=" ".join(privacy_words.sentences(s.privacy)),
        figures=[_figure(title, file) for title, file in figures.items()],
        tables=tables, timing=_timing(s), ranks=_ranks(s.timing.ranks if s.timing else None),
        again=SAME_BITS if s.reproducible else words.NOT_REPRODUCIBLE, experiment=experiment,
        versions=", ".join(f"{name} {version}" for name, version in (s.versions or {}).items()),
    )  # fmt: skip
    write_text(path, text)
    return path


@lru_cache
def _template() -> Template:
    """Return the template, in which whatever a summary says is escaped: the page's own words alone are markup."""
    pages = Environment(loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return pages.get_template("page.html")


def _timing(s: Summary) -> list[tuple[str, str]]:
    """Return seconds by part; of a run that was ended before its time they are not known."""
    parts = [] if s.partial else [part for part in PARTS if part != "report"]
    return [(part.replace("_", "-"), f"{getattr(s.timing, part):.2f}") for part in parts if s.timing]


def _partial(s: Summary) -> str:
    """Return what is not known of a run that was ended before its time."""
    if not s.partial:
        return ""
    return (
        f"Partial: this run was ended before its time, and of its {s.rounds_asked} rounds these "
        f"are the {s.rounds} that its record holds. Rounds that it said after them cost privacy too, and are not "
        "counted here. What is not shown is not known."
    )


def _remarks(s: Summary) -> str:
    means = f"Means over {s.repeats} seeds, ± standard deviation between them." if s.repeats else ""
    sentences = [means, *(f"{text[0].upper()}{text[1:]}." for text in words.conditions(s)), f"{words.speed(s)}."]
    return " ".join(filter(None, sentences))


def _ranks(seconds: RanksSummary | None) -> list[dict[str, Any]]:
    """Return what the rounds took of every rank, the logger last; nothing where all were done in one."""
    if seconds is None:
        return []
    pairs = list(zip(seconds.working, seconds.waiting, strict=True))
    longest = max(map(sum, pairs)) or 1.0
    names = [*(f"agent {i}" for i in range(len(pairs) - 1)), "logger"]
    return [
        {
            "name": name,
            "seconds": (f"{work:.2f}", f"{wait:.2f}"),
            "shares": (100 * work / longest, 100 * wait / longest),
        }
        for name, (work, wait) in zip(names, pairs, strict=True)
    ]


def _figure(title: str, path: Path) -> dict[str, Any]:
    return {"title": title, "wide": title in WIDE, "data": base64.b64encode(path.read_bytes()).decode()}
