"""Figures and page of a run, drawn from its directory alone."""

from __future__ import annotations

import json
from pathlib import Path

from mpinodes.core.errors import BadInput
from mpinodes.results.report import figures, page
from mpinodes.results.report.reading import Drawn
from mpinodes.results.versions import require_version


def draw(directory: Path, vector: bool = False) -> Path:
    """Draw the figures of a finished run and its page; returns the page's path.

    Args:
        directory: the run's.
        vector: whether the figures are written as SVG and PDF too.

    Raises:
        BadInput: the directory holds no finished run, or cannot be written.
    """
    try:
        data = Drawn(directory)
        summary = json.loads((directory / "summary.json").read_text("utf-8"))
        experiment = (directory / "experiment.toml").read_text("utf-8")
    except BadInput:
        raise
    except (OSError, ValueError) as error:
        raise BadInput(
            f"{directory}: not a finished run ({error}); a run directory holds record.h5 and summary.json"
        ) from error
    require_version(summary.get("version"), str(directory))
    target = directory / "figures"
    try:
        target.mkdir(exist_ok=True)
        with data:
            drawn = figures.draw_all(data, summary, target, vector)
        return page.write(directory, summary, experiment, drawn)
    except OSError as error:
        raise BadInput(f"{directory}: cannot be written: {error.strerror}") from error
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(
            f"{directory}: summary.json is not as a run leaves it: {type(error).__name__}: {error}"
        ) from error
