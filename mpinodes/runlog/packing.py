"""A record that no more is added to, written anew: compressed where that is cheap, in larger pieces."""

from __future__ import annotations

import os
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from mpinodes.runlog.reading import dims_of

CHUNK = 1 << 17  # bytes
WORTH = 0.7  # of its size, that compressing has to leave at most
NETCDF = {"CLASS", "NAME", "REFERENCE_LIST", "DIMENSION_LIST"}
TRIED = 4  # pieces of a variable that are compressed to see


def pack(path: Path) -> None:
    """Write it anew; where there is no room for that, leave it as it is."""
    draft = path.with_name(path.name + ".part")
    try:
        with draft.open("wb") as room:
            os.posix_fallocate(room.fileno(), 0, path.stat().st_size)
        with h5py.File(path, "r", locking=False) as old, h5py.File(draft, "w", track_order=True, locking=False) as new:
            _fill(new, old)
        os.replace(draft, path)
    except OSError:
        with suppress(OSError):
            draft.unlink()


def _fill(new: h5py.File, old: h5py.File) -> None:
    _describe(new, old)
    dims = {name: dims_of(dataset) for name, dataset in old.items()}
    for name, dataset in old.items():
        made = new.create_dataset(name, dataset.shape, dataset.dtype, **_storage(dataset))
        for some in range(0, len(dataset), rows := _rows(dataset)):
            made[some : some + rows] = dataset[some : some + rows]
        if dims[name] == (name,):
            made.make_scale(name)
        _describe(made, dataset)
    for name, of in dims.items():
        if of != (name,):
            for axis, dimension in enumerate(of):
                new[name].dims[axis].attach_scale(new[dimension])


def _describe(new: Any, old: Any) -> None:
    """Its own words and numbers, without what ties it to others."""
    for name in set(old.attrs) - NETCDF:
        new.attrs.create(name, old.attrs[name], dtype=old.attrs.get_id(name).dtype)


def _rows(dataset: Any) -> int:
    """Of a piece."""
    row = 8 * int(np.prod(dataset.shape[1:]))
    return 1 << (max(1, CHUNK // max(row, 1)).bit_length() - 1)


def _storage(dataset: Any) -> dict[str, Any]:
    rows = _rows(dataset)
    if dataset.chunks is None or not len(dataset):
        return {}
    chunks = (min(rows, len(dataset)), *dataset.shape[1:])
    starts = np.linspace(0, max(0, len(dataset) - rows), TRIED).astype(int)
    tried = [_compressed(dataset[start : start + rows]) for start in starts.tolist()]
    if np.mean(tried) > WORTH:
        return {"chunks": chunks, "fletcher32": True}
    return {"chunks": chunks, "shuffle": True, "compression": "gzip", "compression_opts": 1}


def _compressed(values: NDArray[Any]) -> float:
    """What is left of numbers, once their first bytes stand beside each other, and so on."""
    plain = np.ascontiguousarray(np.ascontiguousarray(values).view(np.uint8).reshape(-1, 8).T).tobytes()
    return len(zlib.compress(plain, 1)) / len(plain)
