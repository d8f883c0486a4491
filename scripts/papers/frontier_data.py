"""The data of the frontier: private samples in splits, public ones to choose by, and how agents share them.

All features are made by what public data say alone: their mean is taken off, what is left turned to their principal
directions, divided by a length that 95 % of them are below, and cut, sample by sample, so that a row has norm 1 at most
with the constant that stands beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mpinodes.data import adult, idx

Vector = NDArray[np.float64]
Json = dict[str, Any]
PRIVATE, PUBLIC = (6, 8), (3, 5)  # digits


class Rows(NamedTuple):
    """Samples.

    Attributes:
        features: (k, d), of norm at most 1.
        targets: (k,) −1 or +1.
    """

    features: Vector
    targets: Vector

    def at(self, rows: Any) -> Rows:
        return Rows(self.features[rows], self.targets[rows])


class Split(NamedTuple):
    """Samples of one split.

    Attributes:
        train, validation, test: apart from each other; of public data, test is empty.
    """

    train: Rows
    validation: Rows
    test: Rows


@dataclass(frozen=True)
class Field:
    """A data set.

    Attributes:
        public: samples of other digits, or people, to choose by.
        splits: of the private samples.
        best: accuracy of the best there is, by split, where that is known; empty: it is not.
    """

    public: Split
    splits: list[Split]
    best: list[float]


def field(name: str, folder: Path | None, design: Json) -> Field:
    """The data set of a name, from upstream's files in a folder, or made."""
    if name == "synthetic":
        return _synthetic(design)
    assert folder is not None
    private, public = (_adult if name == "adult" else _mnist)(folder, design)
    look = _look(public.features[: design["train"]], design)
    splits = [_split(private, look, design, 1 + s) for s in range(design["splits"])]
    return Field(_split(public, look, design, 0), splits, [])


def shares(rows: Rows, agents: int, skew: float) -> list[Rows]:
    """Equal shares in the order of the rows, but of the first part, `skew` of them, sorted by label."""
    cut = round(skew * len(rows.targets))
    of_label = np.argsort(rows.targets[:cut], kind="stable")
    size = len(rows.targets) // agents
    parts = zip(
        np.array_split(of_label, agents), np.array_split(np.arange(cut, len(rows.targets)), agents), strict=True
    )
    found = [rows.at(np.concatenate(part)[:size]) for part in parts]
    order = np.random.default_rng(5)  # batches are mixed
    return [each.at(order.permutation(len(each.targets))) for each in found]


def together(parts: Sequence[Rows]) -> Rows:
    """Return all samples of several parts."""
    return Rows(*map(np.concatenate, zip(*parts, strict=True)))


def _split(rows: Rows, look: Callable[[Vector], Vector], design: Json, seed: int) -> Split:
    order = np.random.default_rng([18, seed]).permutation(len(rows.targets)) if seed else np.arange(len(rows.targets))
    cuts = np.cumsum([design["train"], design["validation"], design["test"] if seed else 0])
    parts = [rows.at(part) for part in np.split(order, cuts)[:3]]
    return Split(*(Rows(look(part.features), part.targets) for part in parts))


def _look(public: Vector, design: Json) -> Callable[[Vector], Vector]:
    """What makes features of raw ones."""
    mean = public.mean(axis=0)
    _, directions = np.linalg.eigh((public - mean).T @ (public - mean))
    directions = directions[:, ::-1][:, : design["dimension"] - 1]
    length = float(np.quantile(np.linalg.norm((public - mean) @ directions, axis=1), 0.95))

    def look(raw: Vector) -> Vector:
        return _within((raw - mean) @ directions / length, design["constant"])

    return look


def _within(found: Vector, constant: float) -> Vector:
    """Rows of norm 1 at most: cut to that, and shrunk to leave room for the constant."""
    short = found / np.maximum(1.0, np.linalg.norm(found, axis=1, keepdims=True))
    return np.column_stack([short * sqrt(1 - constant**2), np.full(len(short), constant)]) / (1 + 1e-12)


def _adult(folder: Path, design: Json) -> tuple[Rows, Rows]:
    """All complete rows: those to choose by, drawn once and for all, and the others."""
    sources = [adult.read(folder / name) for name in ("adult.data", "adult.test")]
    features = np.concatenate([source.features(np.arange(len(source.targets))) for source in sources])
    rows = Rows(features, np.concatenate([source.targets for source in sources]))
    order = np.random.default_rng(18).permutation(len(rows.targets))
    public = design["train"] + design["validation"]
    return rows.at(order[public:]), rows.at(order[:public])


def _mnist(folder: Path, design: Json) -> tuple[Rows, Rows]:
    """Sixes against eights, and threes against fives, of both files."""
    found: list[list[Rows]] = [[], []]
    for name in ("train", "t10k"):
        source = idx.read(folder / f"{name}-images-idx3-ubyte.gz", folder / f"{name}-labels-idx1-ubyte.gz")
        for pair, parts in zip((PRIVATE, PUBLIC), found, strict=True):
            rows = np.flatnonzero(np.isin(source.targets, pair))
            parts.append(Rows(source.features(rows), np.where(source.targets[rows] == pair[1], 1.0, -1.0)))
    private, public = map(together, found)
    return private, public.at(np.random.default_rng(18).permutation(len(public.targets)))


def _synthetic(design: Json) -> Field:
    """Labels drawn by a logistic law of features whose variances fall like 1/k: the law's parameter is the optimum.

    Every split is drawn anew; the public samples follow a law of another parameter.
    """
    d = design["dimension"] - 1
    falling = np.arange(1, d + 1) ** -0.5
    falling /= sqrt(float(np.sum(falling**2)))

    def drawn(parameter: Vector, draws: np.random.Generator) -> tuple[Split, float]:
        parts = []
        for many in (design["train"], design["validation"], design["test"]):
            features = _within(0.8 * draws.standard_normal((many, d)) * falling, design["constant"])
            odds = features[:, :-1] @ parameter
            parts.append(Rows(features, np.where(draws.random(many) < 1 / (1 + np.exp(-odds)), 1.0, -1.0)))
        test = parts[2]
        return Split(*parts), float(np.mean(np.sign(test.features[:, :-1] @ parameter) == test.targets))

    def parameter(seed: int) -> Vector:
        direction = np.random.default_rng([18, seed]).standard_normal(d)
        odds = np.linalg.norm(direction * falling) * 0.8  # their standard deviation, but for what is cut
        return np.asarray(4 * direction / odds)

    truth = parameter(0)
    private = [drawn(truth, np.random.default_rng([18, 2, s])) for s in range(design["splits"])]
    public, _ = drawn(parameter(1), np.random.default_rng([18, 3]))
    return Field(public, [split for split, _ in private], [best for _, best in private])
