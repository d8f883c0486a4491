"""Print the rows, features, non-zeros and labels of the data sets in a directory: python scripts/count_data.py DIR."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from mpinodes.data import Source, adult, agaricus, cifar10, idx, libsvm


def _mnist(images: Path) -> Source:
    labels = images.with_name(images.name.replace("images-idx3", "labels-idx1"))
    return idx.read(images, labels)


def _cifar10(first: Path) -> Source:
    return cifar10.read(sorted(first.parent.glob("*_batch*.bin")))


READERS: dict[str, Callable[[Path], Source]] = {
    "adult.data": adult.read,
    "adult.test": adult.read,
    "agaricus-lepiota.data": agaricus.read,
    "mushrooms": libsvm.read,
    "mushrooms.rebuilt.libsvm": libsvm.read,
    "train-images-idx3-ubyte*": _mnist,
    "t10k-images-idx3-ubyte*": _mnist,
    "data_batch_1.bin": _cifar10,
    "test_batch.bin": lambda path: cifar10.read([path]),
    "rcv1_train.binary*": libsvm.read,
    "rcv1_vw_subset.rebuilt.libsvm": libsvm.read,
}


def _nonzeros(source: Source) -> Iterator[int]:
    rows = np.arange(len(source.targets))
    for some in np.array_split(rows, len(rows) // 1000 + 1):
        features = source.features(some)
        yield np.count_nonzero(features) if isinstance(features, np.ndarray) else features.count_nonzero()


def describe(source: Source) -> str:
    """Return a line with the size, sparsity and labels of a data set."""
    count = len(source.targets)
    classes, sizes = np.unique(source.targets, return_counts=True)
    labels = ", ".join(f"{value:g}: {size}" for value, size in zip(classes, sizes, strict=True))
    share = {None: "upstream unknown", count: "complete"}.get(source.upstream, f"subset, {count} of {source.upstream}")
    width = f"{source.dimension} features, {sum(_nonzeros(source)) / count:.2f} non-zeros a row"
    return f"{count} rows ({share}), {width}; {labels}"


if len(sys.argv) != 2:
    sys.exit("usage: python scripts/count_data.py DIR")
for pattern, read in READERS.items():
    for path in sorted(filter(Path.is_file, Path(sys.argv[1]).rglob(pattern))):
        source = read(path)
        print(f"{', '.join(file.name for file in source.files)}: {describe(source)}")
