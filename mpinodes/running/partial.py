"""Summarize a run that ended before its last round, from the rounds in its log.

- If decisions are recorded (`record.decisions`), the summary has all quantities of a finished run, except the model of
  releases.
- If decisions are not recorded, the summary has the privacy loss and the metrics that are logged in each round, such as
  the loss of the network. Accuracy and the regret of single agents are missing.
"""

from __future__ import annotations

from math import nan
from pathlib import Path

from mpinodes.core import Setup
from mpinodes.core.errors import BadInput
from mpinodes.evaluation.accounting import Accounting
from mpinodes.evaluation.evaluator import Evaluator
from mpinodes.finished.siblings import sharing
from mpinodes.runlog.progress import progress_of
from mpinodes.runlog.reader import Reader
from mpinodes.running import closing
from mpinodes.summary.summary import Summary
from mpinodes.summary.timing import Stopwatch

ROUNDS_AT_ONCE = 1000


def sum_up(setup: Setup, run: Path) -> Summary:
    """Evaluate the logged rounds of a run that ended early, write its summary and report, and return the summary.

    Args:
        setup: the set-up of the run.
        run: the run directory.

    Raises:
        BadInput: there is no record or no recorded round, or the record cannot be read or written.
    """
    watch = Stopwatch()
    try:
        with Reader(run) as record:
            if not (rounds := record.rounds):
                raise BadInput(
                    f"{run}: the run is not finished, and no round of the run is recorded; to resume the run: "
                    f"python -m mpinodes.run --resume {run}"
                )
            evaluator = Evaluator(setup)
            for first in range(0, rounds, ROUNDS_AT_ONCE):
                some = slice(first, first + ROUNDS_AT_ONCE)
                if "decision" in record:
                    evaluator.take(record.read("decision", some).values)
                else:
                    evaluator.recall({name: record.read(name, some).values for name in record.by_round})
        rate = progress_of(run).get("rounds_per_second")
        seconds = rounds / rate if rate else nan
        shares = sharing(setup, run)
        return closing.finish(
            setup, run, evaluator, Accounting(setup), watch=watch, shares=shares, seconds=seconds, is_partial=True
        )
    except OSError as error:
        raise BadInput(f"{run}: the record cannot be read, or record.h5 cannot be written: {error}") from error
