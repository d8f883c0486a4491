"""The summary of a run that was ended before its time: of the rounds that its record holds, as far as these tell.

Of decisions that were not recorded nothing is known but what the network lost by them: regret of the network, then,
and what the run cost in privacy, which follows from its messages; no accuracy, nor what an agent's regret was.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from mpinodes.core import Setup
from mpinodes.core.errors import BadInput
from mpinodes.evaluation.accounting import Accounting
from mpinodes.evaluation.evaluator import Evaluator
from mpinodes.finished.siblings import sharing
from mpinodes.runlog.reader import Reader
from mpinodes.running import closing
from mpinodes.summary.summary import Summary
from mpinodes.summary.timing import Stopwatch

ROUNDS_AT_ONCE = 1000


def sum_up(setup: Setup, run: Path) -> Summary:
    """Write summary and report of the rounds that the record of a run holds; return the summary.

    Raises:
        BadInput: it holds none, or cannot be read.
    """
    watch = Stopwatch()
    try:
        with Reader(run) as record:
            if not (rounds := record.rounds):
                raise BadInput(
                    f"{run}: not a finished run, and no round of it is recorded; to go on with it: "
                    f"python -m mpinodes.run --resume {run}"
                )
            evaluator, made_with = _recalled(setup, record, rounds), json.loads(record.attrs["versions"])
        return closing.finish(
            setup,
            run,
            evaluator,
            Accounting(setup),
            watch=watch,
            shares=sharing(setup, run),
            seconds=_seconds(run, rounds),
            versions=made_with,
            is_partial=True,
        )
    except OSError as error:
        raise BadInput(f"{run}: its record cannot be read, or record.h5 not be written: {error}") from error


def _recalled(setup: Setup, record: Reader, rounds: int) -> Evaluator:
    """What is known of the rounds."""
    evaluator = Evaluator(setup)
    for first in range(0, rounds, ROUNDS_AT_ONCE):
        some = slice(first, first + ROUNDS_AT_ONCE)
        if "decision" in record:
            evaluator.take(record.read("decision", some).values)
        else:
            evaluator.recall({name: record.read(name, some).values for name in record.by_round})
    return evaluator


def _seconds(run: Path, rounds: int) -> float:
    """That they took, by what was shown of them; nan where nothing was."""
    try:
        last = (run / "progress.jsonl").read_text("utf-8").splitlines()[-1]
        return rounds / float(json.loads(last)["rounds_per_second"])
    except (OSError, ValueError, LookupError, TypeError, ZeroDivisionError):
        return float(np.nan)
