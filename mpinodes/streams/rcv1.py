"""RCV1, two groups of topics: sparse text features of norm 1, dimension 47,236.

LIBSVM's rcv1_train.binary (20,242 samples), of which a fifth tests.
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
    """The RCV1 data: sparse text in two groups of topics."""

    train: Train = 0.8

    wanted: ClassVar = fetch.RCV1
    name: ClassVar[str] = "RCV1"
    feature_bound: ClassVar[float] = 1.0
    feature_norm: ClassVar[float] = 1.0
    defaults = {"problem": {"loss": "hinge", "set": "ball", "radius": 10.0}, "privacy": {"clip": 1.0}}

    def open(self) -> tuple[Source, Source | None]:
        """Return training and test set, both from one file; rows of norm above 1 are scaled to norm 1."""
        (path,) = self.source_files
        source = libsvm.read(path, DIMENSION, (-1, 1))
        return split(replace(source, features=lambda rows: shortened(source.features(rows))), self.train)


def shortened(rows: Features) -> Features:
    """Return sparse rows; those of norm above 1 are scaled to norm 1."""
    from scipy.sparse import diags_array

    return (diags_array(1 / np.maximum(row_norms(rows), 1.0)) @ rows).tocsr()
