"""Write the tables of a comparison: all numbers as CSV and Parquet, mean ± standard deviation as Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, isfinite, isnan, log10
from pathlib import Path
from typing import Any

import pandas

from mpinodes.finished.runs import COLUMNS, PROVEN, PURE, TABLE, WARNINGS, columns_of, warned
from mpinodes.runlog.directories import write_text
from mpinodes.studies.comparing import Comparison, Difference, Estimate, shown

SIGNS = str.maketrans({  # the signs of labels in LaTeX; pandas escapes the special characters of LaTeX
    "ε": r"$\varepsilon$", "δ": r"$\delta$", "λ": r"$\lambda$", "‖": r"$\|$", "²": r"$^2$", "−": "$-$", "±": r"$\pm$",
    "ℓ": r"$\ell$", "∇": r"$\nabla$", "α": r"$\alpha$", "–": "--", "—": "---", "‑": "-", "…": r"\dots{}",
    "Σ": r"$\Sigma$", "∞": r"$\infty$", "<": r"\textless{}", ">": r"\textgreater{}",
})  # fmt: skip


def frame_of(rows: Sequence[dict[str, Any]]) -> pandas.DataFrame:
    """Return rows as a data frame in which whole numbers stay whole beside missing values."""
    return pandas.DataFrame(list(rows), dtype=object)


def means(comparison: Comparison) -> pandas.DataFrame:
    """Return a row for each setting, with the mean, the standard deviation and the 95 % interval of every result."""
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
    return frame_of(rows)


def differences(comparison: Comparison, pairs: Sequence[Difference]) -> pandas.DataFrame:
    """Return a row for each difference between two values of the first axis, with its 95 % interval."""
    rows = []
    for d in pairs:
        (low, high), at = d.estimate.ends, dict(zip(comparison.axes[1:], d.at, strict=True))
        row = {"one": d.one, "other": d.other, "result": d.result, "difference": d.estimate.mean}
        rows.append(at | row | {"difference_low": low, "difference_high": high, "seeds": d.estimate.number})
    return frame_of(rows)


def means_in_words(comparison: Comparison, names: Sequence[str]) -> pandas.DataFrame:
    """Return a row of text for each setting: mean ± standard deviation of the results, and the codes of warnings."""
    estimates = {name: comparison.estimates(name) for name in names}
    rows = []
    for values, runs in comparison.groups.items():
        row = {axis: shown(value) for axis, value in zip(comparison.axes, values, strict=True)}
        for name, column in estimates.items():
            row[name] = in_words(column[values], "unproven" if name in (PURE, PROVEN) else "none")
        rows.append(row | {WARNINGS.name: " ".join(warned(runs))})
    return frame_of(rows)


def differences_in_words(comparison: Comparison, pairs: Sequence[Difference]) -> pandas.DataFrame:
    """Return a row of text for each difference: the mean over seeds and its 95 % interval."""
    rows = []
    for d in pairs:
        low, high = d.estimate.ends
        row = {axis: shown(value) for axis, value in zip(comparison.axes[1:], d.at, strict=True)}
        row |= {"difference": f"{shown(d.one)} − {shown(d.other)}", "result": comparison.columns[d.result].label}
        row |= {"mean": f"{d.estimate.mean:.4g}", "95 % interval": "" if low is None else f"[{low:.4g}, {high:.4g}]"}
        rows.append(row | {"seeds": str(d.estimate.number)})
    return frame_of(rows)


def in_words(estimate: Estimate | None, none: str) -> str:
    """Return mean and standard deviation, both rounded to the second digit of the standard deviation."""
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


def markdown(frame: pandas.DataFrame, words: int) -> str:
    """Return a data frame as a Markdown table, whose first `words` columns are aligned left."""
    rule = ["---"] * words + ["---:"] * (len(frame.columns) - words)
    cells = [[str(cell).replace("|", "\\|") for cell in row] for row in (frame.columns, *frame.to_numpy())]
    return "".join(f"| {' | '.join(row)} |\n" for row in (cells[0], rule, *cells[1:]))


def latex(frame: pandas.DataFrame, words: int) -> str:
    """Return a data frame as a LaTeX tabular for the package booktabs; signs unknown to LaTeX become question marks."""
    columns = "l" * words + "r" * (len(frame.columns) - words)
    text = str(frame.to_latex(index=False, escape=True, column_format=columns))
    return text.translate(SIGNS).encode("ascii", "replace").decode()


def write_parquet(path: Path, frame: pandas.DataFrame) -> str:
    """Write a data frame as Parquet; return the reason if pandas cannot, or an empty text.

    In a column of words and numbers, the numbers are written as words.
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


def write(target: Path, comparison: Comparison, pairs: Sequence[Difference], in_short: pandas.DataFrame) -> list[str]:
    """Write all tables, and return which tables could not be written, and why.

    Args:
        target: the directory.
        comparison: the runs.
        pairs: the differences.
        in_short: the means as text.
    """
    numbers, words = means(comparison), len(comparison.axes)
    write_text(target / TABLE, numbers.to_csv(index=False))
    write_text(target / COLUMNS, columns_of(comparison.runs))
    write_text(target / "differences.csv", differences(comparison, pairs).to_csv(index=False))
    write_text(target / "table.md", markdown(in_short, words))
    write_text(target / "table.tex", latex(in_short, words))
    left_out = write_parquet(target / "table.parquet", numbers)
    return [left_out] if left_out else []
