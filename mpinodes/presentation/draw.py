"""Draw the figures and the page of a run from the files in its directory; the page is one self-contained HTML file."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from mpinodes.core.errors import BadInput
from mpinodes.presentation import privacy_words, run_figures, run_warnings
from mpinodes.presentation import terminal as words
from mpinodes.presentation.findings import findings
from mpinodes.presentation.plots import Drawn, Point
from mpinodes.runlog.directories import write_text
from mpinodes.summary.summary import Summary
from mpinodes.summary.timing import PARTS

# The template engine escapes all values, so that only the template itself contains HTML tags. It compiles a template
# once in a process.
LOADER = FileSystemLoader(Path(__file__).parent)
PAGES = Environment(loader=LOADER, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
SAME_BITS = "Saved as a file, this experiment runs again with equal bits."


def draw(directory: Path, vector: bool = False) -> Path:
    """Draw the figures and the page of a run that has a summary.json, and return the path of the page, `report.html`.

    Args:
        directory: the run directory.
        vector: whether the figures are also written as SVG and PDF.

    Raises:
        BadInput: the directory contains no summary, record or settings that can be read, or cannot be written.
    """
    s = Summary.read(directory)
    try:
        data = Drawn(directory)
        experiment = (directory / "experiment.toml").read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{directory} is not the directory of a run with results: {error}") from error
    path = directory / "report.html"
    try:
        (directory / "figures").mkdir(exist_ok=True)
        with data:
            figures = run_figures.draw_all(data, s, directory / "figures", vector)
            write_text(path, _page(s, data, experiment, figures))
    except OSError as error:
        raise BadInput(f"{directory}: cannot be written: {error.strerror or error}") from error
    return path


def encoded(file: Path) -> str:
    """Return the content of a file in base64, as a page contains it."""
    return b64encode(file.read_bytes()).decode()


def _page(s: Summary, data: Drawn, experiment: str, figures: dict[str, tuple[Path, list[Point]]]) -> str:
    """Return the page of a run as HTML.

    Args:
        s: the summary of the run.
        data: the record of the run.
        experiment: the text of experiment.toml.
        figures: the file of each figure, and its points whose values the page shows under the pointer, by title.
    """
    partial = (
        f"Partial: this run ended early, and this page covers the {s.rounds} of its {s.rounds_asked} rounds that are "
        "recorded. Messages of later rounds lose privacy too, and are not counted here. Values that are not shown are "
        "unknown."
    )
    means = [f"Means over {s.repeats} seeds, ± standard deviation between them."] if s.repeats else []
    conditions = [f"{text[0].upper()}{text[1:]}." for text in words.conditions(s)]
    parts = [part for part in PARTS if part != "report"] if s.timing and not s.partial else []
    silent, seconds, ranks = data.noise_free, s.timing and s.timing.ranks, list[tuple[str, float, float]]()
    worth = silent.summary if silent else None
    if seconds:
        names = [*(f"agent {name}" for name in data.agents), "logger"]
        ranks = list(zip(names, seconds.working, seconds.waiting, strict=True))
    bounds = list(zip(words.bounds(s), s.bounds, strict=True))
    return PAGES.get_template("page.html").render(
        name=s.name, what=f"{words.headline(s)}: {words.setting(s)}", partial=partial if s.partial else "",
        warnings=run_warnings.sentences(s), found=findings(s, worth),
        comparable=s.privacy.noise is not None and not silent and not s.partial, measured=words.measured(s, worth),
        holding=[row for row, bound in bounds if bound.applies],
        idle=[row for row, bound in bounds if not bound.applies],
        remarks=" ".join([*means, *conditions, f"{words.speed(s)}."]),
        privacy=s.privacy.noise and privacy_words.table(s.privacy, s.checked),
        privacy_head=privacy_words.head(s.privacy),
        privacy_note=" ".join(privacy_words.sentences(s.privacy)),
        figures=[(title, encoded(file), points) for title, (file, points) in figures.items()],
        tables=run_figures.tables(data, s), ranks=ranks,
        timing=[(part.replace("_", "-"), f"{getattr(s.timing, part):.2f}") for part in parts],
        longest=max((work + wait for _, work, wait in ranks), default=0) or 1,
        again=SAME_BITS if s.reproducible else words.NOT_REPRODUCIBLE, experiment=_marked(experiment, s.asked),
        versions=", ".join(f"{name} {version}" for name, version in (s.versions or {}).items()),
    )  # fmt: skip


def _marked(experiment: str, asked: list[str]) -> list[tuple[str, bool]]:
    """Return the lines of experiment.toml, each with whether the user set its key.

    The lines of a list belong to the key of the list. If the user set all keys, as in a copy of another run's
    experiment.toml, no line is marked.
    """
    lines, section, key = list[tuple[str, str]](), "", ""
    for line in experiment.splitlines():
        section = f"{line.strip('[]')}." if line.startswith("[") else section
        if not line.startswith((" ", "]")):  # else the line continues a list
            key = f"{section}{line.partition(' = ')[0]}" if " = " in line else ""
        lines.append((line, key))
    is_copy = {key for _, key in lines if key} <= {*asked}
    return [(line, key in asked and not is_copy) for line, key in lines]
