"""Write a comparison as a directory of tables, figures and a page of Markdown, and as a text for the terminal."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas

from mpinodes.core.errors import BadInput
from mpinodes.evaluation.accounting import proven
from mpinodes.finished import joint_cost as spent
from mpinodes.finished.runs import warned
from mpinodes.presentation.privacy_words import number
from mpinodes.runlog.directories import write_text
from mpinodes.runlog.progress import write_stderr
from mpinodes.studies import figures, tables
from mpinodes.studies.comparing import Comparison, chosen_results, compared_results
from mpinodes.studies.study import FILE

FOLDER = "compare"
NORMALIZED = "If each agent has losses of its own, losses and regrets are divided by the number of agents."
MOST_ROWS, MOST_BEYOND, MOST_QUIET = 40, 8, 8  # rows of a table, keys beyond the axes, runs without progress


@dataclass(frozen=True)
class ComparisonReport:
    """A comparison of runs, written to a directory; as text, it is the output of `mpinodes compare`.

    Attributes:
        directory: the directory with the tables, the figures and compare.md.
        comparison: the runs, their axes and their estimates.
        text: the text for the terminal.
    """

    directory: Path
    comparison: Comparison
    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def means(self) -> pandas.DataFrame:
        """Return a row for each setting, as in table.csv."""
        return tables.means(self.comparison)

    @property
    def differences(self) -> pandas.DataFrame:
        """Return a row for each difference along the first axis, paired by seed, as in differences.csv."""
        differences = self.comparison.differences(compared_results(self.comparison))
        return tables.differences(self.comparison, differences)


def write(places: Sequence[Path], by: str | None, output: Path | None, along: Sequence[str] | None) -> ComparisonReport:
    """Compare runs, and write tables, figures and compare.md; the arguments are those of `mpinodes.studies.compare`.

    Raises:
        BadInput: there is nothing to compare, or the directory cannot be written.
    """
    comparison = Comparison.of(places, by, along)
    target = output or (places[0] if len(places) == 1 and (places[0] / FILE).is_file() else Path()) / FOLDER
    differences = comparison.differences(compared_results(comparison))
    means = tables.means_in_words(comparison, chosen_results(comparison))
    labelled = means.rename(columns={name: column.label for name, column in comparison.columns.items()})
    try:
        target.mkdir(parents=True, exist_ok=True)
        left_out = tables.write(target, comparison, differences, labelled)
        drawn = figures.draw_all(comparison, target, lambda line: _tell(comparison, line))
        reasons = Counter(why for run in comparison.runs if (why := run.summary.comparator_left_out))
        notes = [*comparison.remarks, *(f"{n} runs have no regret: {why}." for why, n in reasons.most_common())]
        warnings = [f"WARNING: {line}" for line in warned(comparison.runs).values()]
        beyond = [f"Beyond the axes: {key}: {how}" for key, how in comparison.beyond()]
        cost, words = _cost(comparison), len(comparison.axes)
        paired = tables.markdown(tables.differences_in_words(comparison, differences), words + 1) if differences else ""
        along_axis = [f"## Differences along {comparison.axes[0]}, by seed", "", paired] if differences else []
        page = [
            f"# {comparison.title}: {len(comparison.runs)} runs", "",
            tables.markdown(labelled, words),
            f"Mean ± standard deviation over {'runs' if comparison.over else 'seeds'}. {NORMALIZED}", "",
            *(line for remark in (*warnings, *notes, *left_out) for line in (remark, "")),
            *along_axis, "## Beyond the axes", "", *(beyond or ["The runs differ in nothing else."]), "",
            "## Privacy", "", cost, "", *(f"![{path.stem}]({path.name})" for path in drawn), "",
        ]  # fmt: skip
        write_text(target / "compare.md", "\n".join(page))
    except OSError as error:
        reason = f"{target}: cannot be written: {error.strerror or error}; set another --output"
        raise BadInput(reason) from error
    if (more := len(beyond) - MOST_BEYOND) > 0:
        beyond = [*beyond[:MOST_BEYOND], f"{more} more keys differ: see compare.md"]
    remarks = [*warnings, *notes, *beyond, NORMALIZED, *left_out]
    text = "\n".join([
        f"{comparison.title}: {len(comparison.runs)} runs in {len(comparison.groups)} settings", "",
        means[:MOST_ROWS].to_string(index=False),
        *([f"... and {len(means) - MOST_ROWS} more: see table.md"] if len(means) > MOST_ROWS else []), "",
        *(line for remark in remarks for line in textwrap.wrap(remark, 118, subsequent_indent="  ")), "",
        *textwrap.wrap(cost, 118), "",
        f"{target}: compare.md, tables, {len(drawn)} figures",
    ])  # fmt: skip
    return ComparisonReport(target, comparison, text)


def _tell(comparison: Comparison, line: str) -> None:
    """Print the progress of a comparison of many runs."""
    if len(comparison.runs) > MOST_QUIET:
        write_stderr(f"{comparison.title}: {line}\n")


def _cost(comparison: Comparison) -> str:
    """Return the privacy loss of publishing all runs, as text."""
    _tell(comparison, f"adding up the privacy loss of {len(comparison.runs)} runs, some tenths of a second each")
    try:
        runs = [*comparison.runs, *comparison.again]  # `in_all` finds repetitions by all bits of the records
        loss, notes, delta = spent.in_all(spent.read([run.place for run in runs]), None)
    except BadInput as error:
        return f"The privacy loss of publishing all {len(comparison.runs)} runs is unknown: {error}"
    total = proven(loss)
    epsilons = f"pure ε {number(total.proven_pure)}, ε {number(total.proven)} at δ = {delta:g}"
    by = f" by {total.rule}" if total.rule != "unproven" else ""
    return " ".join([f"Publishing all {len(comparison.runs)} runs loses, as proven: {epsilons}{by}.", *notes])
