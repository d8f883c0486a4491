"""Read MNIST's IDX files: a big-endian header, then one byte for each pixel or label."""

from __future__ import annotations

from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mpinodes.core.errors import BadInput
from mpinodes.data.source import Source, content

IMAGES, LABELS = 0x803, 0x801  # magic numbers: bytes in three dimensions and in one dimension
KINDS = {IMAGES: "images", LABELS: "labels"}
PIXELS = 28 * 28  # of an image of MNIST
UPSTREAM = {"train-images-idx3-ubyte": 60_000, "t10k-images-idx3-ubyte": 10_000}


def _records(path: Path, expected: int) -> NDArray[np.uint8]:
    """Return the N records (images or labels) of a file as an array (N, bytes of a record).

    Raises:
        BadInput: the header does not have the expected magic number, or another error of `read`.
    """
    data = content(path)
    dimensions = expected & 0xFF
    if len(data) < 4 + 4 * dimensions:
        raise BadInput(f"{path}: truncated: ends at byte {len(data)}, within the header of IDX {KINDS[expected]}")
    magic, *shape = data[: 4 + 4 * dimensions].view(">u4").tolist()
    if magic != expected:
        kind = f"IDX {KINDS[magic]}" if magic in KINDS else "no IDX file"
        raise BadInput(f"{path}: bytes 0 to 3 are 0x{magic:08x} ({kind}); IDX {KINDS[expected]} have 0x{expected:08x}")
    start, count, size = 4 + 4 * dimensions, shape[0], prod(shape[1:])
    if 0 in shape:
        raise BadInput(f"{path}: empty: its header says {' x '.join(map(str, shape))}")
    if len(data) < start + count * size:
        record = (len(data) - start) // size + 1
        raise BadInput(f"{path}: truncated: ends at byte {len(data)}, within record {record} of {count}")
    if len(data) > start + count * size:
        raise BadInput(f"{path}: the file goes on after its {count} records, at byte {start + count * size}")
    return data[start:].reshape(count, size)


def read(images: Path, labels: Path) -> Source:
    """Return MNIST's images as samples. Features are the pixels divided by 255, row by row, and targets are the labels.

    Either file may be gzipped.

    Raises:
        BadInput: a file is missing, empty, truncated, too long or not in IDX format, or the files have different
            numbers of records; the message names the file.
    """
    pixels, targets = _records(images, IMAGES), _records(labels, LABELS)
    if len(pixels) != len(targets):
        raise BadInput(f"{images} has {len(pixels)} images, but {labels} has {len(targets)} labels")
    upstream = UPSTREAM.get(images.name.removesuffix(".gz"))
    digits = targets[:, 0].astype(np.float64)
    return Source(digits, pixels.shape[1], lambda rows: pixels[rows] / 255, upstream, (images, labels))


def read_mnist(images: Path, labels: Path) -> Source:
    """Read two files as `read` does, and check that the images have 28 × 28 pixels.

    Raises:
        BadInput: see `read`; or the images do not have 28 × 28 pixels.
    """
    source = read(images, labels)
    if source.dimension != PIXELS:
        raise BadInput(f"{images}: each image has {source.dimension} pixels: expected {PIXELS}, as in MNIST")
    return source
