"""Draw the figures and the page of a run, from the run directory alone."""

from __future__ import annotations

import logging
from pathlib import Path

from mpinodes.core.errors import BadInput
from mpinodes.presentation.figure_data import Drawn
from mpinodes.summary.summary import Summary

# Without a handler, matplotlib prints every line of a bad settings file.
logging.getLogger("matplotlib").addHandler(logging.NullHandler())


def draw(directory: Path, vector: bool = False) -> Path:
    """Draw the figures and the page of a finished run; return the path of the page.

    Args:
        directory: the run directory.
        vector: whether the figures are also written as SVG and PDF.

    Raises:
        BadInput: the directory holds no finished run, or cannot be written.
    """
    from mpinodes.presentation import page  # import matplotlib only here

    summary = Summary.read(directory)
    try:
        data = Drawn(directory)
        experiment = (directory / "experiment.toml").read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{directory}: not a finished run ({error}); a run directory holds record.h5") from error
    try:
        (directory / "figures").mkdir(exist_ok=True)
        with data:
            return page.write(directory, summary, data, experiment, vector)
    except OSError as error:
        raise BadInput(f"{directory}: cannot be written: {error.strerror or error}") from error
