"""Figures and page of a run, drawn from its directory alone."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from mpinodes.core.errors import BadInput
from mpinodes.presentation.figure_data import Drawn
from mpinodes.presentation.live import live
from mpinodes.runlog.layout_version import read_object, require_version

NOISE_FREE = "noise_free.json"  # in a run directory
logging.getLogger("matplotlib").addHandler(logging.NullHandler())  # or each line of a bad settings file is printed


def draw(directory: Path, vector: bool = False) -> Path:
    """Draw the figures of a finished run and its page; returns the page's path.

    Args:
        directory: the run's.
        vector: whether the figures are written as SVG and PDF too.

    Raises:
        BadInput: the directory holds no finished run, or cannot be written.
    """
    from mpinodes.presentation import page
    from mpinodes.presentation import run_figures as figures  # which import matplotlib

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
    summary["noise_free"] = noise_free(directory)
    target = directory / "figures"
    try:
        target.mkdir(exist_ok=True)
        with data:
            drawn = figures.draw_all(data, summary, target, vector)
            curves = live(data, summary["noise_free"])
        return page.write(directory, summary, experiment, drawn, curves)
    except OSError as error:
        raise BadInput(f"{directory}: cannot be written: {error.strerror or error}") from error
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(
            f"{directory}: summary.json is not as a run leaves it: {type(error).__name__}: {error}"
        ) from error


def noise_free(directory: Path) -> dict[str, Any] | None:
    """The same run without noise, where it was made: a short one by the run, others by `mpinodes.report`."""
    return read_object(directory / NOISE_FREE)
