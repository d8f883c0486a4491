"""Read finished runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import h5py
import msgspec
import networkx as nx
import numpy as np

import mpinodes
import mpinodes.studies
from mpinodes.core.messages import HEADER
from mpinodes.summary.summary import PrivacySummary, Summary
from tests.helpers import reference


def summary_of(run: Path) -> dict:
    return json.loads((run / "summary.json").read_text())


def typed(tree: dict) -> Summary:
    """Return the `Summary` with the content of a summary.json."""
    return Summary.of_tree(tree, Path("run"))


def privacy_of(tree: dict) -> PrivacySummary:
    """Return the section `privacy` of a summary.json as its class."""
    return msgspec.convert(tree, PrivacySummary)


def read(run, name):
    """Return a variable of the record, by h5py: xarray takes longer to open a record than most test runs take."""
    with h5py.File(run / "record.h5") as file:
        return file[name][:]


def released(run, dimension):
    """Return the releases of all agents, (rounds, n, dimension); needs record.transcript=true."""
    return read(run, "transcript")[:, :, HEADER : HEADER + dimension]


def same_bits(one, other) -> list[str]:
    """Return the names of the variables whose bits differ between two records, or between those of their repeats."""
    places = [sorted(run.glob("repeat-*")) or [run] for run in map(Path, (one, other))]
    names = []
    for here, there in zip(*places, strict=True):
        with h5py.File(here / "record.h5") as a, h5py.File(there / "record.h5") as b:
            assert set(a) == set(b)
            names += [name for name in a if not np.array_equal(a[name][:], b[name][:], equal_nan=True)]
    return names


def frames_foretold(run: Path, stages: int, stop: float) -> None:
    """Assert that, from round T + 2 on (T = `stages`), the frames of a two-stage run follow from the frames before."""
    record = mpinodes.load(run)
    frames, d = record.transcript.values, record.sizes["coordinate"]
    body, hops = slice(HEADER, HEADER + d), max(1, nx.diameter(nx.from_numpy_array(record.receiver.values[0])))
    sends = record.receiver.values[0]
    each = 2 / (3 * reference.laplacian_max(len(sends), set(map(tuple, np.argwhere(sends).tolist()))))
    for t in range(stages + 2, len(frames) + 1):
        before = frames[t - 2]
        for i in range(record.sizes["agent"]):
            heard = sorted([*np.flatnonzero(sends[:, i]).tolist(), i])
            row = [1 - each * (len(heard) - 1) if j == i else each for j in heard]
            mixed = row[0] * before[heard[0], body]
            for weight, j in zip(row[1:], heard[1:], strict=True):
                mixed = mixed + weight * before[j, body]
            moved = np.linalg.norm(mixed - before[i, body])
            known = np.bitwise_or.reduce(before[heard, 2].astype(int))
            moving = (2 * known + (moved > stop * np.linalg.norm(before[i, body]))) % 2**hops if stop else 0
            np.testing.assert_array_equal(frames[t - 1, i], [t, 1.0, moving, *mixed])


def compared(places: Sequence[Path], by: str | None, output: Path, along: list[str] | None = None) -> str:
    """Compare runs, and return what the command prints."""
    return str(mpinodes.studies.compare(*places, by=by, output=output, along=along))
