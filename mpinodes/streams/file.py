"""A user's own samples: .npz, .csv or LIBSVM text, one file for all agents or one for each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta

from mpinodes.core.errors import BadInput
from mpinodes.formats import Source, table
from mpinodes.streams.files import Train, against_rest
from mpinodes.streams.labelled import Indices, LabelledStream, deal, joined, split

__all__ = ["File"]

AGENT = "{agent}"
LARGEST = 1_000_000  # features that a file may have unasked


@dataclass(frozen=True)
class File(LabelledStream):
    """Targets and features as they stand in the file."""

    file: Annotated[
        str,
        Meta(
            description="data.name=file: .npz (arrays features, targets), .csv (the last column is the target) or "
            "LIBSVM text; with {agent} in its name, one file for each agent: part-0.csv, part-1.csv, ..."
        ),
    ] = ""
    targets: Annotated[
        Literal["labels", "real"], Meta(description="data.name=file: two labels (the larger is +1), or real targets")
    ] = "labels"
    train: Train = 1.0
    bound: Annotated[
        Annotated[float, Meta(gt=0)] | Literal["inf"],
        Meta(
            description="data.name=file: the largest |feature| there can be, known without looking at the data; with "
            "it the accountant bounds what hidden state leaks. A larger one is refused"
        ),
    ] = "inf"
    norm: Annotated[
        Annotated[float, Meta(gt=0)] | Literal["inf"],
        Meta(description="data.name=file: the largest norm of a sample's features there can be, likewise"),
    ] = "inf"
    columns: Annotated[int, Meta(ge=0, description="data.name=file, LIBSVM text: features; 0: the largest index")] = 0

    drawn_from_seed = False
    defaults = {"problem": {"loss": "logistic", "set": "ball", "radius": 10.0}}

    @property
    def labels(self) -> bool:
        """Whether targets are labels ±1."""
        return self.targets == "labels"

    @property
    def feature_bound(self) -> float:
        """As the user gives it."""
        return float(self.bound)

    @property
    def feature_norm(self) -> float:
        """As the user gives it, or of entries of the largest size."""
        return min(float(self.norm), super().feature_norm)

    @property
    def name(self) -> str:
        """The file's name."""
        return Path(self.file).name

    @cached_property
    def _files(self) -> list[Source]:
        if not self.file:
            raise BadInput("data.file is missing: name the file of samples")
        paths = [self.file.replace(AGENT, str(i)) for i in range(self.agents)] if AGENT in self.file else [self.file]
        sources = [table.read(Path(path), self.columns or None) for path in paths]
        if not self.columns and sources[0].dimension > LARGEST:
            raise BadInput(
                f"{paths[0]}: {sources[0].dimension:,} features, by the largest index: every agent keeps vectors as "
                f"long; where that is meant, set data.columns={sources[0].dimension}"
            )
        for path, source in zip(paths, sources, strict=True):
            if source.dimension != sources[0].dimension:
                raise BadInput(
                    f"{path}: {source.dimension} features, but {paths[0]} has {sources[0].dimension}; "
                    "data.columns sets the number for LIBSVM text"
                )
        return sources

    def open(self) -> tuple[Source, Source | None]:
        """The file, or the agents' files one after the other; without a test set where all samples train."""
        source = self._files[0] if len(self._files) == 1 else joined(self._files)
        if self.targets == "labels":
            source = _labelled(source, self.file)
        if self.train == 1:
            return source, None
        if AGENT in self.file:
            raise BadInput(f"data.train = {self.train:g}: with one file for each agent all samples train; leave it out")
        return split(source, self.train)

    @property
    def remedy(self) -> str:
        """See `LabelledStream`."""
        return ", as data.bound or data.norm has it; a bound must hold for all data there could be"

    @cached_property
    def shares(self) -> tuple[Indices, ...]:
        """With one file for each agent, its rows."""
        if AGENT not in self.file or self.partition == "shared":
            return deal(self._sources[0].targets, self)
        ends = np.cumsum([len(source.targets) for source in self._files])
        return tuple(np.split(np.arange(ends[-1]), ends[:-1]))

    def forget(self) -> None:
        """Let go of what was read."""
        super().forget()
        self.__dict__.pop("_files", None)


def _labelled(source: Source, file: str) -> Source:
    """Targets of two values as −1 and +1."""
    values = np.unique(source.targets)
    if len(values) != 2:
        shown = ", ".join(f"{value:g}" for value in values[:5])
        raise BadInput(
            f"{file}: {len(values)} different targets ({shown}{', ...' if len(values) > 5 else ''}); two labels "
            "expected, or set data.targets=real"
        )
    return against_rest(source, float(values[1]))
