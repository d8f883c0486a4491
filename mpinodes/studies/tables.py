"""Tables of a comparison: CSV and Parquet with every number, Markdown and LaTeX with mean ± standard deviation."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, isfinite, isnan, log10
from pathlib import Path
from typing import Any, NamedTuple

from mpinodes.finished.runs import COLUMNS, PROVEN, PURE, TABLE, WARNINGS, columns_of, csv_of, warned
from mpinodes.runlog.directories import write_text
from mpinodes.studies.comparing import Comparison, Difference, Estimate, shown

LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "ε": r"$\varepsilon$", "δ": r"$\delta$", "λ": r"$\lambda$",
    "‖": r"$\|$", "²": r"$^2$", "−": "$-$", "±": r"$\pm$", "ℓ": r"$\ell$", "∇": r"$\nabla$", "α": r"$\alpha$",
    "–": "--", "—": "---", "‑": "-", "…": r"\dots{}", "Σ": r"$\Sigma$", "∞": r"$\infty$", "<": r"\textless{}",
    ">": r"\textgreater{}",
}  # fmt: skip


class Table(NamedTuple):
    """Words in rows.

    Attributes:
        head: of the columns.
        rows: as long as it.
        words: how many columns are words, to the left; numbers stand to the right.
    """

    head: list[str]
    rows: list[list[str]]
    words: int


def of_means(comparison: Comparison, names: Sequence[str]) -> Table:
    """Return mean ± standard deviation over runs, and the codes of their warnings."""
    columns = [comparison.estimates(name) for name in names]
    nothing = ["unproven" if name in (PURE, PROVEN) else "none" for name in names]
    rows = []
    for values, runs in comparison.groups.items():
        cells = [in_words(column[values], none) for column, none in zip(columns, nothing, strict=True)]
        rows.append([*map(shown, values), *cells, " ".join(warned(runs))])
    heads = [comparison.labels[name] for name in names]
    return Table([*comparison.axes, *heads, WARNINGS.name], rows, len(comparison.axes))


def of_differences(comparison: Comparison, differences: Sequence[Difference]) -> Table:
    """Mean difference by seed, and its 95 % interval."""
    rows = []
    for d in differences:
        low, high = d.estimate.ends
        within = "" if low is None else f"[{low:.4g}, {high:.4g}]"
        numbers = [f"{d.estimate.mean:.4g}", within, str(d.estimate.number)]
        rows.append([*map(shown, d.at), f"{shown(d.one)} − {shown(d.other)}", comparison.labels[d.result], *numbers])
    head = [*comparison.axes[1:], "difference", "result", "mean", "95 % interval", "seeds"]
    return Table(head, rows, len(comparison.axes) + 1)


def in_words(estimate: Estimate | None, none: str) -> str:
    """Both to the place of the second digit of the deviation."""
    if estimate is None:
        return none
    mean, std = estimate.mean, estimate.std
    if not isfinite(mean):
        return "inf"
    if isnan(std) or std == 0 or not isfinite(std):
        return f"{mean:,.0f}" if mean == round(mean) and abs(mean) >= 1 else f"{mean:.4g}"
    places = 1 - floor(log10(std))
    if abs(mean) >= 1e6 or places > 8:
        return f"{mean:.4g} ± {std:.1g}"
    return f"{mean:,.{max(places, 0)}f} ± {std:,.{max(places, 0)}f}"


def markdown(table: Table) -> str:
    """A table of pipes."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    rule = ["---"] * table.words + ["---:"] * (len(table.head) - table.words)
    return "\n".join([line(table.head), line(rule), *map(line, table.rows)]) + "\n"


def latex(table: Table) -> str:
    """A tabular; needs the package booktabs."""

    def line(cells: Sequence[str]) -> str:
        return "  " + " & ".join(map(escaped, cells)) + r" \\"

    columns = "l" * table.words + "r" * (len(table.head) - table.words)
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"  \toprule", line(table.head), r"  \midrule"]
    return "\n".join([*lines, *map(line, table.rows), r"  \bottomrule", r"\end{tabular}"]) + "\n"


def escaped(text: str) -> str:
    """Text as LaTeX reads it; a sign that it may not have becomes a question mark."""
    return "".join(LATEX.get(sign, sign if sign.isascii() else "?") for sign in text)


def numbers(comparison: Comparison) -> list[dict[str, Any]]:
    """Return a row for each setting: of every result its mean, standard deviation and 95 % interval."""
    rows: list[dict[str, Any]] = []
    columns = {name: comparison.estimates(name) for name in comparison.results}
    for values, runs in comparison.groups.items():
        row: dict[str, Any] = dict(zip(comparison.axes, values, strict=True))
        row |= {"runs" if comparison.over else "seeds": len(runs), WARNINGS.name: " ".join(warned(runs))}
        for name, column in columns.items():
            e = column[values]
            both = (None, None) if e is None else e.ends
            row |= {name: e and e.mean, f"{name}_std": None if e is None or isnan(e.std) else e.std}
            row |= {f"{name}_low": both[0], f"{name}_high": both[1]}
        rows.append(row)
    return rows


def of_all_differences(comparison: Comparison, differences: Sequence[Difference]) -> list[dict[str, Any]]:
    """Return a row for each difference."""
    return [
        dict(zip(comparison.axes[1:], d.at, strict=True))
        | {"one": d.one, "other": d.other, "result": d.result, "difference": d.estimate.mean}
        | {"difference_low": d.estimate.ends[0], "difference_high": d.estimate.ends[1], "seeds": d.estimate.number}
        for d in differences
    ]


def write_parquet(path: Path, rows: Sequence[dict[str, Any]]) -> str:
    """Where pandas can; returns why it cannot, or nothing. Of words and numbers in one column, all are words."""
    import pandas

    frame = pandas.DataFrame(list(rows))
    for name in frame:
        if len({type(value) for value in frame[name].dropna()} - {int, float}) and frame[name].dtype == object:
            frame[name] = frame[name].map(str, na_action="ignore")
    try:
        frame.to_parquet(path, index=False)
    except ImportError:
        return f"{path.name} is left out: pandas writes Parquet with pyarrow or fastparquet: pip install pyarrow"
    return ""


def write(comparison: Comparison, differences: Sequence[Difference], names: Sequence[str], target: Path) -> list[str]:
    """All tables; returns what could not be written, and why."""
    rows, means = numbers(comparison), of_means(comparison, names)
    write_text(target / TABLE, csv_of(rows))
    write_text(target / COLUMNS, columns_of(comparison.runs))
    write_text(target / "differences.csv", csv_of(of_all_differences(comparison, differences)))
    write_text(target / "table.md", markdown(means))
    write_text(target / "table.tex", latex(means))
    return list(filter(None, [write_parquet(target / "table.parquet", rows)]))
