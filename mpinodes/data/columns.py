"""Write data frames of pandas to files that every rank, and every later run, can read."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from mpinodes.core.errors import BadInput
from mpinodes.data.table import require_no_index

FOLDER = Path("runs", "frames")


def kept(data: dict[str, Any]) -> dict[str, Any]:
    """Write the data frame `file` of a `data` section to a numbered .csv in FOLDER; return the section with its path.

    A frame with the content of an existing file gets that file. Names are not made of the content, because a hash would
    reveal something of private rows.

    Raises:
        BadInput: `file` is no data frame, columns have no distinct names, or the file cannot be written.
    """
    frame = data["file"]
    if not (hasattr(frame, "columns") and hasattr(frame, "to_csv")):
        raise BadInput(f"data.file: a {type(frame).__name__}; expected the path of a file, or a pandas data frame")
    target = str(data.get("target", ""))  # a column may be named by a number
    require_no_index(frame, target, "data.file")
    names = [str(name) for name in frame.columns]
    if wrong := [name for name, n in Counter(names).items() if n > 1 or not (name and name.isprintable())]:
        raise BadInput(f"data.file: a data frame's column {wrong[0]!r}: each needs a name of its own, in one line")
    missing, labels = frame.isna().to_numpy(), data.get("labels")
    if missing.any() and not (isinstance(labels, list) and "" in labels):  # the empty label stands for a missing value
        row, column = divmod(int(missing.argmax()), len(names))
        raise BadInput(f"data.file: column {names[column]!r}, row {row} (from 0) is missing: a value expected")
    frame = frame.set_axis(names, axis=1)  # pandas writes several lines for names in several levels
    numbers = {"b": "Int64", "f": "Float64"}  # numbers instead of words, and all digits of float32
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
