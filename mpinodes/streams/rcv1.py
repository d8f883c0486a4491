"""Provide RCV1: news texts in two groups of topics (−1 and +1), as sparse features with L2 norm at most 1, d = 47,236.

The file is LIBSVM's rcv1_train.binary with 20,242 samples. By default, a fifth of the samples are test samples
(`data.train`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from mpinodes.core import Features
from mpinodes.data import Source, fetch, libsvm
from mpinodes.losses.clipping import row_norms
from mpinodes.streams.labelled import FileStream, Train, split

__all__ = ["Rcv1"]

DIMENSION = 47_236


@dataclass(frozen=True)
class Rcv1(FileStream):
    """Provide the RCV1 data: sparse features of news texts, with labels ±1 for two groups of topics."""

    train: Train = 0.8

    wanted: ClassVar = fetch.RCV1
    name: ClassVar[str] = "RCV1"
    feature_bound: ClassVar[float] = 1.0
    feature_norm: ClassVar[float] = 1.0
    defaults = {"problem": {"loss": "hinge", "set": "ball", "radius": 10.0}, "privacy": {"clip": 1.0}}

    def open(self) -> tuple[Source, Source | None]:
        """Return a training set and a test set (None if no samples are left), both from one file.

        Rows with an L2 norm above 1 are scaled to norm 1.
        """
        (path,) = self.source_files
        source = libsvm.read(path, DIMENSION, (-1, 1))
        return split(replace(source, features=lambda rows: shortened(source.features(rows))), self.train)


def shortened(rows: Features) -> Features:
    """Return sparse rows in which each row with an L2 norm above 1 is scaled to norm 1."""
    from scipy.sparse import diags_array

    return (diags_array(1 / np.maximum(row_norms(rows), 1.0)) @ rows).tocsr()
