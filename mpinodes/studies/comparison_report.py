"""Write a comparison of runs: a directory with a page, tables and figures, and a text for the terminal.

A setting is one combination of values of the axes, the keys that distinguish the runs; the seed is no axis. The files
table.csv and table.parquet hold all results that are numbers. The Markdown and LaTeX tables hold mean ± standard
deviation of the main results.

    compare/
        compare.html                     the page, one self-contained file: tables that sort, and all figures
        compare.md                       the same as Markdown
        table.csv, table.parquet         a row for each setting, with the mean and the spread of every result;
                                         no .parquet without pyarrow or fastparquet
        table.md, table.tex              the same rows as text
        columns.csv                      labels and units of the columns
        differences.csv                  differences along the first axis, paired by seed
        accuracy.png, privacy.png, ...   figures, also as .pdf and .svg
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, isfinite, isnan, log10
from pathlib import Path
from typing import Any

import pandas

from mpinodes.core.errors import BadInput
from mpinodes.evaluation.accounting import proven
from mpinodes.finished import joint_cost as spent
from mpinodes.finished.runs import COLUMNS, PROVEN, PURE, TABLE, WARNINGS, columns_of, warned
from mpinodes.presentation.draw import PAGES, encoded
from mpinodes.presentation.findings import best, naive
from mpinodes.presentation.privacy_words import number
from mpinodes.runlog.directories import write_text
from mpinodes.runlog.progress import write_stderr
from mpinodes.studies import figures
from mpinodes.studies.comparing import Comparison, Difference, chosen_results, compared_results, shown
from mpinodes.studies.study import FILE

FOLDER = "compare"
NORMALIZED = "If each agent has a separate loss, losses and regrets are divided by the number of agents."
MOST_ROWS, MOST_BEYOND = 40, 8  # the most table rows, and keys that are no axes, in the text for the terminal
MOST_QUIET = 8  # progress is printed only if there are more runs


BOLD = "\x02\x03"  # the begin and the end of bold text in a table
SIGNS = str.maketrans({  # the signs of labels in LaTeX; pandas escapes the special characters of LaTeX
    "ε": r"$\varepsilon$", "δ": r"$\delta$", "λ": r"$\lambda$", "‖": r"$\|$", "²": r"$^2$", "−": "$-$", "±": r"$\pm$",
    "ℓ": r"$\ell$", "∇": r"$\nabla$", "α": r"$\alpha$", "–": "--", "—": "---", "‑": "-", "…": r"\dots{}",
    "Σ": r"$\Sigma$", "∞": r"$\infty$", "<": r"\textless{}", ">": r"\textgreater{}",
    "\x02": r"\textbf{", "\x03": "}", "\x04": r"\shortstack{", "\x05": r" \\ ", "\x07": r"$\times10^{", "\x08": "}$",
})  # fmt: skip
POWER = re.compile(r"(?<![\w.])(\d(?:\.\d+)?)e\+?(-?)0*(\d+)\b")  # a number such as 2.5e-05
MOST_TITLE = 16  # the most characters in a line of a title in LaTeX


@dataclass(frozen=True)
class ComparisonReport:
    """Hold a comparison of runs that was written to a directory; as text, it is the output of `mpinodes compare`.

    A setting is one combination of values of the keys that distinguish the runs, apart from the seed.

    Attributes:
        directory: the directory with the pages compare.html and compare.md, the tables and the figures.
        comparison: the runs, the keys that distinguish them, and the means of their results.
        means: the content of table.csv: a row for each setting.
        differences: the content of differences.csv: a row for each difference of a result between two values of the
            compared key.
        text: the text for the terminal.
    """

    directory: Path
    comparison: Comparison
    means: pandas.DataFrame
    differences: pandas.DataFrame
    text: str

    def __repr__(self) -> str:
        return self.text


def write(
    places: Sequence[Path], by: str | None, output: Path | None, along: Sequence[str] | None, table: str, **look: Any
) -> ComparisonReport:
    """Compare runs, and write tables, figures, compare.html and compare.md.

    The arguments are explained in `mpinodes.studies.compare`; `look` are `width`, `style` and `ax`.

    Raises:
        BadInput: the runs cannot be compared, or the directory cannot be written.
    """
    comparison = Comparison.of(places, by, along)
    target = output or (places[0] if len(places) == 1 and (places[0] / FILE).is_file() else Path()) / FOLDER
    pairs, words = comparison.differences(compared_results(comparison)), len(comparison.axes)
    numbers = means(comparison)
    paired, in_pairs = differences(comparison, pairs)
    in_words = means_in_words(comparison, numbers, chosen_results(comparison))
    named = {name: column.label for name, column in comparison.columns.items()}
    named |= {axis: figures.phrase(comparison, axis) for axis in comparison.axes}
    labelled = best_in_bold(comparison, numbers, in_words).rename(columns=named)
    main, kind = "", "runs" if comparison.over else "seeds"
    if table == "wide" and words > 1:
        names = [name for name in in_words.columns[words:-1] if name.startswith(figures.MARKS)]
        main, words = named[names[0] if names else in_words.columns[words]], words - 1
        labelled = wide(labelled, words + 1, main)
    try:
        target.mkdir(parents=True, exist_ok=True)
        write_text(target / TABLE, numbers.to_csv(index=False))
        write_text(target / COLUMNS, columns_of(comparison.runs))
        write_text(target / "differences.csv", paired.to_csv(index=False))
        write_text(target / "table.md", rows := markdown(labelled, words))
        comments = "".join(f"% WARNING: {line}\n" for line in warned(comparison.runs).values())
        in_latex = latex(labelled.drop(columns=WARNINGS.label, errors="ignore"), words)
        write_text(target / "table.tex", f"{comments}{in_latex}")
        left_out = [*filter(None, [write_parquet(target / "table.parquet", numbers)])]
        drawn = figures.draw_all(comparison, target, lambda line: _tell(comparison, line), **look)
        reasons = Counter(reason for run in comparison.runs if (reason := run.summary.comparator_left_out))
        adjacent = sorted({run.summary.privacy.adjacency for run in comparison.runs})
        differ = ": ε of different adjacencies cannot be compared" * (len(adjacent) > 1)
        references = []
        for who, reference in (("guessing", naive), ("the best fixed decision, which is not private", best)):
            known = [reference(run.summary.baselines, "accuracy") for run in comparison.runs]
            if shares := sorted(accuracy["test"] for accuracy in known if "test" in accuracy):
                most = f" to {shares[-1]:.1%}" * (shares[-1] > shares[0])
                references.append(f"Test accuracy of {who}: {shares[0]:.1%}{most}.")
        notes = [
            *references,
            f"Adjacency of every ε: {' or '.join(adjacent)}{differ}.",
            *comparison.remarks,
            *(f"{n} runs have no regret: {reason}." for reason, n in reasons.most_common()),
        ]
        warnings = [f"WARNING: {line}" for line in warned(comparison.runs).values()]
        beyond = [f"Beyond the axes: {key}: {values}" for key, values in comparison.beyond()]
        cost, along_axis = _cost(comparison), []
        in_pairs = in_pairs.rename(columns=named)
        if pairs:
            in_markdown = markdown(in_pairs, len(comparison.axes) + 1)
            along_axis = [f"## Differences along {named[comparison.axes[0]]}, by seed", "", in_markdown]
        caption = f"{main}{': mean' if main else 'Mean'} ± standard deviation over {kind}; best in bold. {NORMALIZED}"
        page = [
            f"# {comparison.title}: {len(comparison.runs)} runs", "", rows, caption, "",
            *(line for remark in (*warnings, *notes, *left_out) for line in (remark, "")),
            *along_axis, "## Beyond the axes", "", *(beyond or ["The runs differ in nothing else."]), "",
            "## Privacy", "", cost, "", *(f"![{title}]({path.name})" for path, (title, _) in drawn.items()), "",
        ]  # fmt: skip
        write_text(target / "compare.md", "\n".join(page))
        settings = f"{len(comparison.runs)} runs in {len(comparison.groups)} settings"
        write_text(target / "compare.html", PAGES.get_template("study.html").render(
            name=comparison.title, what=settings, warnings=warned(comparison.runs).values(), caption=caption,
            results=labelled, words=words, codes=WARNINGS.label, notes=[*notes, *left_out], cost=cost, pairs=in_pairs,
            beyond=comparison.beyond(),
            figures=[(title, encoded(path), points) for path, (title, points) in drawn.items()],
        ))  # fmt: skip
    except OSError as error:
        raise BadInput(f"{target}: cannot be written: {error.strerror or error}; set another --output") from error
    if (more := len(beyond) - MOST_BEYOND) > 0:
        beyond = [*beyond[:MOST_BEYOND], f"{more} more key{'s differ' if more > 1 else ' differs'}: see compare.html"]
    remarks = [*warnings, *notes, *beyond, NORMALIZED, *left_out]
    text = "\n".join([
        f"{comparison.title}: {settings}", "",
        in_words[:MOST_ROWS].to_string(index=False),
        *([f"... and {len(in_words) - MOST_ROWS} more: see table.md"] if len(in_words) > MOST_ROWS else []), "",
        *(line for remark in remarks for line in textwrap.wrap(remark, 118, subsequent_indent="  ")), "",
        *textwrap.wrap(cost, 118), "",
        f"{target / 'compare.html'}: the page; beside it compare.md, tables, {len(drawn)} figures",
    ])  # fmt: skip
    return ComparisonReport(target, comparison, numbers, paired, text)


def _tell(comparison: Comparison, line: str) -> None:
    """Print a line of progress, if the comparison has more than `MOST_QUIET` runs."""
    if len(comparison.runs) > MOST_QUIET:
        write_stderr(f"{comparison.title}: {line}\n")


def _cost(comparison: Comparison) -> str:
    """Return a text on the proven privacy loss if all compared runs are published, or on why this loss is unknown."""
    _tell(comparison, f"adding up the privacy loss of {len(comparison.runs)} runs, some tenths of a second each")
    try:
        runs = [*comparison.runs, *comparison.again]  # `in_all` counts runs with equal records only once
        finished = spent.read([run.place for run in runs])
        loss, notes, delta = spent.in_all(finished, None)
    except BadInput as error:
        return f"The privacy loss of publishing all {len(comparison.runs)} runs is unknown: {error}"
    total = proven(loss)
    epsilons = f"pure ε {number(total.proven_pure)}, ε {number(total.proven)} at δ = {delta:g}"
    epsilons += f" ({finished[0].experiment.privacy.adjacency})"
    by = f" by {total.rule}" if total.rule != "unproven" else ""
    return " ".join([f"Proven privacy loss of publishing all {len(comparison.runs)} runs: {epsilons}{by}.", *notes])


def means(comparison: Comparison) -> pandas.DataFrame:
    """Return a table with a row for each group of runs: the mean of every result over the runs of the group.

    A group is all runs with equal values of the keys that distinguish runs. Further columns are the standard deviation
    and the 95 % confidence interval of each mean. A number that is unknown is None.
    """
    rows: list[dict[str, Any]] = []
    columns = {name: comparison.estimates(name) for name in comparison.results}
    for values, runs in comparison.groups.items():
        row: dict[str, Any] = dict(zip(comparison.axes, values, strict=True))
        row |= {"runs" if comparison.over else "seeds": len(runs), WARNINGS.name: " ".join(warned(runs))}
        for name, column in columns.items():
            e = column[values]
            low, high = (None, None) if e is None else e.ends
            row |= {name: e and e.mean, f"{name}_std": None if e is None or isnan(e.std) else e.std}
            row |= {f"{name}_low": low, f"{name}_high": high}
        rows.append(row)
    return pandas.DataFrame(rows, dtype=object)  # with this type, integers stay integers beside missing values


def differences(comparison: Comparison, pairs: Sequence[Difference]) -> tuple[pandas.DataFrame, pandas.DataFrame]:
    """Return two tables with a row for each mean difference of a result between two values of the compared key.

    The first table has the numbers, the second table has the same as text. Each row has the 95 % confidence interval of
    the mean difference.
    """
    numbers, words = [], []
    for d in pairs:
        (low, high), mean, seeds = d.estimate.ends, d.estimate.mean, d.estimate.number
        at = dict(zip(comparison.axes[1:], d.at, strict=True))
        row = {"one": d.one, "other": d.other, "result": d.result, "difference": mean}
        numbers.append(at | row | {"difference_low": low, "difference_high": high, "seeds": seeds})
        row = {"difference": f"{shown(d.one)} − {shown(d.other)}", "result": comparison.columns[d.result].label}
        row |= {"mean": f"{mean:.4g}", "95 % interval": "" if low is None else f"[{low:.4g}, {high:.4g}]"}
        words.append({axis: shown(value) for axis, value in at.items()} | row | {"seeds": str(seeds)})
    return pandas.DataFrame(numbers, dtype=object), pandas.DataFrame(words, dtype=object)


def means_in_words(comparison: Comparison, numbers: pandas.DataFrame, names: Sequence[str]) -> pandas.DataFrame:
    """Return the table of `means` as text: mean ± standard deviation of the named results, and codes of warnings."""
    frame = numbers[comparison.axes].map(shown)
    for name in names:
        none = "unproven" if name in (PURE, PROVEN) else "none"
        pairs = zip(numbers[name], numbers[f"{name}_std"], strict=True)
        frame[name] = [none if mean is None else mean_and_deviation(mean, std) for mean, std in pairs]
    return frame.assign(**{WARNINGS.name: numbers[WARNINGS.name]})


def best_in_bold(comparison: Comparison, numbers: pandas.DataFrame, text: pandas.DataFrame) -> pandas.DataFrame:
    """Return the table `text`, in which the best mean accuracy or RMSE is between the characters `BOLD`.

    The best mean is the best among the values of the first axis. Other metrics depend on the loss of an algorithm.
    """
    text, rest = text.copy(), comparison.axes[1:]
    for name in [name for name in text if name.startswith(figures.MARKS) and len(numbers) > 1]:
        values = numbers[name].astype(float) * (-1 if comparison.columns[name].unit == "share" else 1)
        least = values.groupby([numbers[axis].map(repr) for axis in rest]).transform("min") if rest else values.min()
        text[name] = text[name].where(values != least, BOLD[0] + text[name] + BOLD[1])
    return text


def wide(labelled: pandas.DataFrame, words: int, result: str) -> pandas.DataFrame:
    """Return a table of one result, with a column for each value of the first axis.

    Args:
        labelled: the table with a row for each value, whose first `words` columns are the axes.
        words: the number of axes, at least 2.
        result: the column with the result.
    """
    first, *rest = labelled.columns[:words]
    table = labelled.pivot_table(result, rest, first, "first", sort=False).reset_index()
    return table.rename_axis(columns=None).fillna("")


def mean_and_deviation(mean: float, std: float | None) -> str:
    """Return mean ± standard deviation as text, such as "0.835 ± 0.012".

    - Both numbers are rounded to the second digit of the deviation, or to integers if the deviation is at least 10.
    - If the absolute value of the mean is at least 10^6, or the deviation is below 10^-7, the mean has four digits and
      the deviation has one digit.
    - If the deviation is 0 or unknown, the text is the mean alone.
    - If the mean is not finite, the text is "inf".
    """
    if not isfinite(mean):
        return "inf"
    if not std or not isfinite(std):
        return f"{mean:,.0f}" if mean == round(mean) and abs(mean) >= 1 else f"{mean:.4g}"
    places = 1 - floor(log10(std))
    if abs(mean) >= 1e6 or places > 8:
        return f"{mean:.4g} ± {std:.1g}"
    return f"{mean:,.{max(places, 0)}f} ± {std:,.{max(places, 0)}f}"


def markdown(frame: pandas.DataFrame, words: int) -> str:
    """Return a data frame as a Markdown table, whose first `words` columns are aligned left and all others right."""
    rule = ["---"] * words + ["---:"] * (len(frame.columns) - words)
    cells = [[str(cell).replace("|", "\\|") for cell in row] for row in (frame.columns, *frame.to_numpy())]
    text = "".join(f"| {' | '.join(row)} |\n" for row in (cells[0], rule, *cells[1:]))
    return text.translate(dict.fromkeys(map(ord, BOLD), "**"))


def latex(frame: pandas.DataFrame, words: int) -> str:
    """Return a data frame as a LaTeX tabular, which needs the package booktabs.

    The first `words` columns are aligned left, all others right. A long title of a column has several lines. A
    character that is neither ASCII nor in `SIGNS` becomes a question mark.
    """
    titles = {name: "\x05".join(textwrap.wrap(name, MOST_TITLE, break_on_hyphens=False)) for name in frame.columns}
    titles = {name: f"\x04{title}\x03" if "\x05" in title else title for name, title in titles.items()}
    columns = "l" * words + "r" * (len(frame.columns) - words)
    frame = frame.rename(columns=titles).replace("inf", "∞")
    text = POWER.sub("\\1\x07\\2\\3\x08", str(frame.to_latex(index=False, escape=True, column_format=columns)))
    return text.translate(SIGNS).encode("ascii", "replace").decode()


def write_parquet(path: Path, frame: pandas.DataFrame) -> str:
    """Write a data frame to a Parquet file; return "", or a text that says why pandas cannot write Parquet.

    In a column with both text and numbers, the numbers are written as text.
    """
    frame = frame.infer_objects()
    for name in frame:
        if frame[name].dtype == object and {type(value) for value in frame[name].dropna()} - {int, float}:
            frame[name] = frame[name].map(str, na_action="ignore")
    try:
        frame.to_parquet(path, index=False)
    except ImportError:
        return f"{path.name} is left out, because pandas needs pyarrow or fastparquet: pip install pyarrow"
    return ""
