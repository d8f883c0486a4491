"""Read the facts that a run must know about a user's data files: header, number of columns, targets and bounds.

`mpinodes init` writes these facts into an experiment. No epsilon is proven with facts that are read from data, until
the user has checked that the facts may be public.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite, isnan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mpinodes.core.errors import BadInput
from mpinodes.core.messages import Vector
from mpinodes.data import table
from mpinodes.data.source import listed, number_of, shown

FEW = 20  # whole numbers are classes if there are at most so many different targets; otherwise real targets
LOSSES = {"labels": "logistic", "classes": "softmax", "real": "least-squares"}  # the default loss, by data.targets
DIGITS = 2  # significant digits of the difference of two bounds, to which they are rounded outward
OUTER = 0.2  # bounds lie around the median if it is nearer than this part of the range to one of its ends


class Facts(NamedTuple):
    """Hold the facts about data files.

    Attributes:
        settings: the keys of the section `data` that state the facts; `targets` is always there.
        line: a line that describes the samples.
        names: the names of the columns in the first file, that of the target last; empty if there are none.
    """

    settings: dict[str, Any]
    line: str
    names: list[str]


def read(paths: Sequence[Path], asked: Mapping[str, Any]) -> Facts:
    """Return the facts about one data file, or about the files of all agents.

    Features with a largest norm above 1, or a median norm below 0.1, get a `scaling` by bounds of each column. Real
    targets whose largest size is above 1, or below 0.1, get a `scaling` by their bounds.

    Args:
        paths: the files.
        asked: the keys of the section `data` that the user sets. If `target` is missing, the last column is the target.
            If `header` or `targets` is missing, the entries of the files decide.

    Raises:
        BadInput: a file cannot be read, its number of columns differs from the first file, or real targets are words or
            all equal.
    """
    targets, norms, parts, widths = [], list[Vector](), list[Vector](), set[int]()
    is_dense, names = paths[0].suffix in table.DENSE, list[str]()
    header = asked["header"] if isinstance(asked.get("header"), bool) else None
    target, kind = str(asked.get("target", "")), str(asked.get("targets", ""))
    for path in paths:
        if is_dense:
            content = table.DENSE[path.suffix](path, table.FileFacts(labels=("",), header=header, target=target))
            features, some = np.asarray(content.features, float), content.targets
            are_words = (isnan(number_of(str(target))) for target in some)  # read on only if the first target is a word
            if header is None and not content.names and next(are_words) and not any(are_words):
                alone = f"the target of the first line, {shown(str(some[0]).strip())}, is no number, but all others are"
                remedy = "if this line has the names of the columns, set data.header=true, otherwise data.header=false"
                raise BadInput(f"{path}: {alone}: {remedy}")
            names = names or list(content.names)
            header = bool(content.names) if path.suffix == ".csv" else None
            parts.append(features)
        else:
            source = table.read(path)
            features, some = source.features(np.arange(len(source.targets))), source.targets
        widths.add(features.shape[1])
        targets += list(some)
        norms.append(np.sqrt(np.ravel((features * features).sum(axis=1))))
    if is_dense and len(widths) > 1:
        raise BadInput(f"{paths[0]}: the files have different numbers of features: {sorted(widths)}")
    (kind, labels), norm = read_targets(targets, kind if kind in LOSSES else ""), np.concatenate(norms)
    facts: dict[str, Any] = {"facts": "read", "columns": max(widths), "targets": kind, "target": target}
    facts |= {"labels": labels, "header": header}
    if not 0.1 <= np.median(norm) <= norm.max() <= 1 + 1e-9:
        facts["scaling"] = {"norm": 1.0}
        if is_dense:
            lower, upper = (bounds[0] if len({*bounds}) == 1 else bounds for bounds in _bounds(np.concatenate(parts)))
            facts["scaling"] = {"lower": lower, "upper": upper, "norm": 1.0}
    if kind == "real":
        numbers = np.array([number_of(str(target)) for target in targets])
        if numbers.min() == numbers.max():
            raise BadInput(f"{paths[0]}: all targets are {numbers[0]:g}: data.target names the column of the targets")
        if not 0.1 <= abs(numbers).max() <= 1:
            low, high = _rounded(numbers.min(keepdims=True), numbers.max(keepdims=True))
            facts["scaling"] = facts.get("scaling", {}) | {"targets": low + high}
    settings = {key: value for key, value in facts.items() if value not in ("", [], None)}
    scale = f"median norm {np.median(norm):.3g}, scaled to 1" if "scaling" in facts else "norms at most 1"
    count = f"{len(labels)} {kind}" if labels else "real targets"
    line = f"{len(targets)} samples, {max(widths)} features{': ' * bool(names)}{listed(names[:-1])} ({scale}), {count}"
    return Facts(settings, line, names)


def read_targets(targets: Sequence[Any], kind: str) -> tuple[str, list[Any]]:
    """Return the value of `data.targets` (`kind`, unless it is empty), and the different labels or classes, ascending.

    The list is empty for real targets. Whole numbers with at most `FEW` different values are classes.
    """
    words = {str(target).strip().strip('"') for target in targets} - {""}  # a missing target is no label
    numbers = sorted({number_of(word) for word in words})
    numbers = numbers if all(map(isfinite, numbers)) else []
    are_real = (len(numbers) > FEW or any(number % 1 for number in numbers)) and len(numbers) != 2
    if (kind or "real" * are_real) == "real":
        if not numbers:
            raise BadInput(f"data.targets=real: the targets are not all numbers: {listed(sorted(words))}")
        return "real", []
    labels: list[Any] = [int(number) if number % 1 == 0 else number for number in numbers]
    labels = labels or sorted(words)
    return kind or ("labels" if len(labels) == 2 else "classes"), labels


def _bounds(features: Vector) -> tuple[list[float], list[float]]:
    """Return the lower and the upper bounds of columns (k, d), which become -1 and 1.

    If the median of a column is near its smallest or its largest value, the bounds lie around the median, which becomes
    0. So columns that are mostly 0, or have few large values, do not hide the others. A constant other than 0 becomes 1
    or -1.
    """
    low, high, median = features.min(axis=0), features.max(axis=0), np.array([np.median(x) for x in features.T])
    with np.errstate(all="ignore"):  # an entry that is not finite is reported when the file is read again
        is_constant, near = low == high, OUTER * (high - low)
        lower = np.where(is_constant, -abs(low), np.where(median - low < near, 2 * median - high, low))
        upper = np.where(is_constant, abs(high), np.where(high - median < near, 2 * median - low, high))
        return _rounded(lower, upper)


def _rounded(lower: Vector, upper: Vector) -> tuple[list[float], list[float]]:
    """Return lower and upper bounds (d,), rounded outward to `DIGITS` significant digits of their difference."""
    with np.errstate(all="ignore"):
        unit = 10.0 ** (np.floor(np.log10(np.where(upper > lower, upper - lower, 1.0))) + 1 - DIGITS)
        low, high = (outward(np.round(x / unit, 6)) * unit for outward, x in ((np.floor, lower), (np.ceil, upper)))
    return [float(f"{x:.12g}") for x in low + 0.0], [float(f"{x:.12g}") for x in high + 0.0]  # + 0: 0 in place of -0
