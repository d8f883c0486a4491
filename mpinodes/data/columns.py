"""Data frames of pandas as files that every rank, and every later run, can read."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from mpinodes.core.errors import BadInput
from mpinodes.data.table import require_no_index

FOLDER = Path("runs", "frames")


def kept(data: dict[str, Any]) -> dict[str, Any]:
    """A `data` section whose `file` is a data frame, with that as a numbered .csv in FOLDER.

    A frame that is there already keeps its number. No name is made of the content: it would tell of private rows.

    Raises:
        BadInput: it is none, its columns have no names of their own, or it cannot be written.
    """
    frame = data["file"]
    if not (hasattr(frame, "columns") and hasattr(frame, "to_csv")):
        raise BadInput(f"data.file: a {type(frame).__name__}; expected the path of a file, or a pandas data frame")
    target = str(data.get("target", ""))  # perhaps the number 2, of a column 2
    require_no_index(frame, target, "data.file")
    names = [str(name) for name in frame.columns]
    if wrong := [name for name, n in Counter(names).items() if n > 1 or not (name and name.isprintable())]:
        raise BadInput(f"data.file: a data frame's column {wrong[0]!r}: each needs a name of its own, in one line")
    missing, labels = frame.isna().to_numpy(), data.get("labels")
    if missing.any() and not (isinstance(labels, list) and "" in labels):  # the label of what is missing
        row, column = divmod(int(missing.argmax()), len(names))
        raise BadInput(f"data.file: column {names[column]!r}, row {row} (from 0) is missing: a value expected")
    frame = frame.set_axis(names, axis=1)  # of names in levels, pandas writes a line for each level
    numbers = {"b": "Int64", "f": "Float64"}  # not as words, and float32 with all its digits
    kinds = {name: numbers[k.kind] for name, k in frame.dtypes.items() if k.kind in numbers and k != "float64"}
    content = frame.astype(kinds).to_csv(index=False).encode()
    number = 1
    try:
        FOLDER.mkdir(parents=True, exist_ok=True)
        while True:
            path = FOLDER / f"frame-{number}.csv"
            with suppress(FileExistsError), path.open("xb") as file:
                file.write(content)
            if path.stat().st_size == len(content) and path.read_bytes() == content:
                return data | {"file": str(path), "header": True} | ({"target": target} if "target" in data else {})
            number += 1
    except OSError as error:
        raise BadInput(f"{FOLDER}: cannot be written: {error.strerror}") from error
