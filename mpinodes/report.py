"""Draw the report of runs again: python -m mpinodes.report RUN...

If a run ended before its last round, the report covers the rounds that are recorded.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mpinodes.launch.arguments import Parser
from mpinodes.launch.launching import command, show


def drawn(run: Path) -> list[Path]:
    """Draw the page (HTML) and the figures (PNG, SVG and PDF) of a run, and return the paths of the pages.

    - If the run is an unfinished job of several repeats (runs that differ in the seed), there is a page for each repeat
      that has a record.
    - If there is a record but no summary yet, the summary of the recorded rounds is first computed and written.

    Raises:
        BadInput: the directory contains no run that this version of mpinodes can read, or no round of the run is
            recorded. The error is also raised if the directory cannot be written, or a process still works on the
            unfinished run.
    """
    from mpinodes.presentation.draw import draw
    from mpinodes.runlog.reader import is_recorded

    begun = [place for place in sorted(run.glob("repeat-*")) or [run] if is_recorded(place)]
    if (run / "summary.json").exists() or not begun:
        return [draw(run, vector=True)]
    from mpinodes.core.asked import merge
    from mpinodes.core.experiment import stored
    from mpinodes.runlog.directories import held
    from mpinodes.running import partial
    from mpinodes.running.setup import set_up

    pages = []
    with held(run):
        for place in begun:
            if not (place / "summary.json").exists():
                asked = merge(stored(place / "experiment.toml"), {"report": False})
                partial.sum_up(set_up(asked, ranks=None), place)
            pages.append(draw(place, vector=True))
    return pages


@command
def main(argv: list[str]) -> int:
    """Run the command `mpinodes report` and return its exit code."""
    parser = Parser("report", __doc__.splitlines()[0])
    parser.add_runs("RUN", "a run directory")
    parser.add_argument("--noise-free", action="store_true", help="repeat each run without noise, for comparison")
    options = parser.parse_args(argv)
    from mpinodes.running import noise_free

    for run in options.runs:
        if options.noise_free:
            noise_free.make(run)
        for page in drawn(run):
            show(str(page))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
