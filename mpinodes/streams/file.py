"""Provide the user's own samples, from one file for all agents, or from one file for each agent.

The formats are .npz, .csv, .parquet and LIBSVM text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count, takewhile
from math import hypot, inf, sqrt
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from mpinodes.core import Features, Vector
from mpinodes.core.asked import merge
from mpinodes.core.errors import BadInput
from mpinodes.core.messages import arrays, doubles
from mpinodes.core.parts.stream import files_of
from mpinodes.data import Source, table
from mpinodes.data import file as facts
from mpinodes.data.source import listed
from mpinodes.losses.clipping import row_norms, row_sizes
from mpinodes.streams.labelled import Indices, LabelledStream, Train, against_rest, joined, split, together

__all__ = ["File"]

AGENT = "{agent}"
LARGEST = 1_000_000  # if a file has more features, the user must state data.columns
MOST_CLASSES = 1000
Largest = Annotated[float, Meta(gt=0)] | Literal["inf"]
BLOCK = 1 << 22  # the largest number of floats that `scaled_by_themselves` reads at once
LARGE = 10.0  # a run warns if a real target or the median norm of the samples is larger
ALIKE = 0.95  # a run warns if more than this part of the squared norms is that of the mean sample


class Scaling(Struct, forbid_unknown_fields=True, frozen=True):
    """Scale the features and the target of each sample by public numbers.

    Attributes:
        lower, upper: bounds on the features: one number for each column, or one number for all columns. The interval
            from `lower` to `upper` becomes [-1, 1]. A feature outside the interval is set to the nearest bound.
        norm: the L2 norm of every scaled sample; a sample of zeros stays. None: the norms are left as they are.
        targets: bounds on real targets: the interval between them becomes [-1, 1]. Targets outside are not changed to a
            bound. Errors and predictions are still in the units of the file.
        intercept: the value of a last feature that is added to every scaled sample; 0: no feature is added. The added
            feature is not counted in `norm`, nor in the settings `data.norm`, `data.bound` and `data.columns`.
    """

    lower: float | tuple[float, ...] | None = None
    upper: float | tuple[float, ...] | None = None
    norm: Annotated[float, Meta(gt=0)] | None = None
    targets: tuple[float, float] | None = None
    intercept: Annotated[float, Meta(ge=0, le=10)] = 0.0

    @property
    def units(self) -> tuple[float, float]:
        """Return (a, b): a + b * (scaled target) is the target in the units of the file."""
        low, high = self.targets or (-1.0, 1.0)
        return (low + high) / 2, (high - low) / 2

    def scaled(self, features: Features) -> Features:
        """Return scaled features (k, d), or (k, d + 1) with an intercept. With bounds, the result is always dense."""
        if self.lower is not None and self.upper is not None:
            dense = features.toarray() if hasattr(features, "tocsr") else features
            low, high = np.asarray(self.lower), np.asarray(self.upper)
            width = np.where(high > low, high - low, 1.0)
            features = np.where(high > low, 2 * (np.clip(dense, low, high) - low) / width - 1, 0.0)
        if self.norm is not None:
            norms = row_norms(features := doubles(features))
            features = arrays(features * (self.norm / np.where(norms > 0, norms, 1.0))[:, None])
        if self.intercept:
            blocks = [features, np.full((features.shape[0], 1), self.intercept)]
            if not hasattr(features, "tocsr"):
                return np.hstack(blocks)
            from scipy.sparse import hstack

            features = arrays(hstack(blocks))
        return features


@dataclass(frozen=True)
class File(LabelledStream):
    """Provide the samples of a user's file.

    The settings state how targets are read, and which facts about the file are public.

    Attributes:
        file: data.name=file: a .npz (arrays features and targets), a .csv or .parquet (the last column is the target,
            or data.target), or LIBSVM text. A name with {agent}, as part-{agent}.csv, stands for one file for each
            agent: part-0.csv, part-1.csv, ...
        targets: data.name=file: two labels (data.labels), any number of classes, or real numbers as targets
        labels: data.name=file: the two possible labels, as [0, 1] or ["no", "yes"]; the first becomes -1, the second
            +1, and another target is an error. For data.targets=classes: all possible classes. Empty: the labels that
            occur in the file, ascending; nothing is proven then
        bound: data.name=file: the largest possible |feature|, known without looking at the data. From this bound the
            accountant bounds what a hidden state reveals. A larger feature is an error
        norm: data.name=file: the largest possible norm of a sample, used like data.bound
        columns: data.name=file: the number of features of a sample; another number in the file is an error. 0: as many
            as the file has (in LIBSVM text the largest index); nothing is proven then
        header: data.name=file, .csv: whether the first line contains names. inferred: it does if no entry is a number,
            if the entries count the columns from 0, or if data.target is stated; nothing is proven then
        target: data.name=file, .csv with names or .parquet: the name of the target's column. Empty: the last
        scaling: scale the features by public bounds, as {lower=0, upper=[1, 250], norm=1}. The interval from lower to
            upper (a number, or one for each column) becomes [-1, 1]. Then every sample is scaled to the L2 norm `norm`.
            State lower and upper, or norm, or all three. targets=[25, 346] scales real targets: this interval becomes
            [-1, 1], and errors and predictions stay in the units of the file. intercept=0.5 adds a last feature, 0.5,
            to every sample, so that the model has an intercept
        facts: data.name=file: read: facts about the file were read from the data, so nothing is proven; a privacy
            budget then sets the noise as if the facts were public. stated: you have checked that all facts in the
            section data may be public
    """

    file: str = ""
    targets: Literal["labels", "classes", "real"] = "labels"
    labels: tuple[bool | float | str, ...] = ()
    train: Train = 1.0
    bound: Largest = "inf"
    norm: Largest = "inf"
    columns: Annotated[int, Meta(ge=0)] = 0
    header: bool | Literal["inferred"] = "inferred"
    target: str | int = ""

    scaling: Scaling | None = None
    facts: Literal["read", "stated"] | None = None

    # One setting for all files: 4 agents, three files scaled to norm 1 (breast cancer, wine, digits), ε = 8 with
    # replaced samples: .9 of the way from the largest class to logistic regression without privacy. Intercepts of 1 are
    # worse than 0.5 if a class is rare.
    method = {
        "algorithm": {"name": "dp-dsgd"},
        "rounds": 100,
        "step": {"kind": "linear-decay", "initial": 30.0},
        "problem": {"average": True, "radius": 20.0},
        "privacy": {"clip": 0.2},
        "data": {"batch": "all", "scaling": {"intercept": 0.5}},
    }
    # The same for real targets that are scaled to [-1, 1], in `initial`: four files, ε = 2 with replaced samples, five
    # splits. Errors are at most those of a step of 30 and a radius of 20; on diabetes 60, not 174 (mean target: 77).
    method_of_real = {"step": {"initial": 3.0}, "problem": {"radius": 5.0}}
    drawn_from_seed = False
    defaults = {"problem": {"loss": "logistic", "set": "ball", "radius": 10.0}}

    def __post_init__(self) -> None:
        if self.labels and self.targets == "real":
            raise BadInput(
                f"data.labels = {list(self.labels)}: data.targets=real has no labels; leave one of the two keys out"
            )
        distinct = {label.strip() if isinstance(label, str) else label for label in self.labels}
        if len(self.labels) == 1 and self.facts == "read":
            reason = "two different labels or more expected; data.target names the column of the targets"
            raise BadInput(f"{self.file}: all targets are {self.labels[0]!r}: {reason}")
        if len(distinct) < len(self.labels) or (self.labels and not self._fits(len(self.labels))):
            expected = "two different labels expected, as [0, 1]; for more labels, set data.targets=classes"
            if self.targets == "classes":
                expected = f"from two to {MOST_CLASSES} different classes expected, as [0, 1, 2]"
            raise BadInput(f"data.labels = {list(self.labels)}: {expected}")
        scaling = msgspec.convert(self.scaling, Scaling | None)  # another rank sends the settings as a dictionary
        object.__setattr__(self, "scaling", scaling)
        if scaling and (scaling.lower is None) != (scaling.upper is None):
            raise BadInput("data.scaling: state both lower and upper, or neither")
        if scaling and scaling.targets and (self.targets != "real" or scaling.units[1] <= 0):
            raise BadInput("data.scaling.targets: two bounds, the smaller first, expected; for data.targets=real only")

    @classmethod
    def inferred(cls, settings: Mapping[str, Any], is_alone: bool) -> Mapping[str, Any]:
        """Return the default loss; also read how targets are read, if `data.facts` is "read" and no key states this.

        If the user names no algorithm, and leaves out a fact that a proof needs, the default of `data.facts` is "read".
        """
        targets, data = str(settings.get("targets", "")), dict[str, Any]()
        is_stated = "columns" in settings and ("labels" in settings or targets == "real")
        is_stated &= "header" in settings or not str(settings.get("file")).endswith(".csv")
        if is_alone and not is_stated:
            data["facts"] = "read"
        if {**data, **settings}.get("facts") == "read" and "labels" not in settings and targets != "real":
            with suppress(BadInput, IndexError):  # the mistake is reported when the data are read
                about = facts.read(files_of(Path(str(settings["file"]))), settings).settings
                targets = about["targets"]
                data |= {"targets": targets, "labels": about.get("labels", [])}
        return {"data": data, "problem": {"loss": facts.LOSSES.get(targets, "logistic")}}

    @classmethod
    def initial(
        cls, file: str, settings: Mapping[str, Any], agents: int = 0
    ) -> tuple[Mapping[str, Any], str, Mapping[str, Sequence[str]]]:
        """Return the settings of a first experiment on a file or on the agents' files, and two descriptions.

        The first description is a line on the samples. The second has, for each dotted key that may list a number for
        each column, the names of the columns; it is empty if the file has no names.

        Args:
            file: the file; a name with {agent} stands for the files of all agents.
            settings: the keys of the section `data` that the user sets.
            agents: the number of the agents' files; 0 stands for all files that are numbered from 0 without a gap.

        Raises:
            BadInput: a file is missing or malformed.
        """
        numbers = range(1) if AGENT not in file else range(agents) if agents else count()
        names = (Path(file.replace(AGENT, str(number))).expanduser() for number in numbers)
        paths = list(takewhile(Path.is_file, names))
        if len(paths) < max(1, agents):
            raise BadInput(f"{file.replace(AGENT, str(len(paths)))}: there is no such file")
        about = facts.read(paths, settings)
        if twice := [name for name, number in Counter(about.names).items() if number > 1]:
            raise BadInput(f"{file}: several columns have the name {twice[0]!r}: give each a name of its own")
        graph = {"topology": {"agents": len(paths)}} if AGENT in file else {}
        data, problem = {"file": file, "train": 0.8} | about.settings, {"loss": facts.LOSSES[about.settings["targets"]]}
        by_key = dict.fromkeys(("data.scaling.lower", "data.scaling.upper"), about.names[:-1]) if about.names else {}
        method = merge(cls.method, cls.method_of_real if about.settings["targets"] == "real" else {}, graph)
        return merge(method, {"data": data, "problem": problem}), f"{file}: {about.line}", by_key

    @classmethod
    def scaling_of(cls, settings: Mapping[str, Any]) -> tuple[Callable[[Features], Features], int]:
        """Return the function that scales features by `data.scaling`, and the number of features that it adds."""
        scaling = msgspec.convert(settings.get("scaling"), Scaling | None) or Scaling()
        return scaling.scaled, int(scaling.intercept > 0)

    @property
    def has_labels(self) -> bool:
        """Return whether the targets are two labels, which become ±1."""
        return self.targets == "labels"

    @property
    def target_values(self) -> Sequence[Any]:
        """Return the labels or classes: `data.labels` or, if it is empty, the different targets in the file."""
        return self.labels or [int(value) if value.is_integer() else value for value in self._found]

    def _fits(self, number: int) -> bool:
        """Return whether the setting `data.targets` allows this number of different labels or classes."""
        return 2 <= number <= MOST_CLASSES if self.targets == "classes" else number == 2

    @property
    def classes(self) -> int:
        """Return the number of classes, or 0 if the targets are not classes.

        If `data.labels` does not list the classes, the different targets in the file are counted.
        """
        return len(self.labels or self._found) if self.targets == "classes" else 0

    @property
    def unproven_because(self) -> str:
        """Return the reasons why no epsilon is proven for runs on this file, or "" if an epsilon can be proven.

        The possible reasons are:

        - The samples are divided by label (only if all agents share one file).
        - A fact, such as the names of the labels, is read from the file, because the settings do not state the fact.
        - A column seems to be scaled by its own mean or standard deviation.
        """
        by_label = "" if AGENT in self.file else super().unproven_because
        return together(by_label, self._unproven_facts)

    @property
    def unchecked_facts(self) -> str:
        """Return the reasons that name facts about the file; "" if the user has not set `data.facts` to "read"."""
        return self._unproven_facts if self.facts == "read" else ""

    @property
    def _unproven_facts(self) -> str:
        unstated = []
        if self.facts == "read":
            checked = "check that all facts in the section data may be public, then set data.facts=stated"
            unstated.append(f"facts about the file were read from the data ({checked})")
        if not self.columns:
            unstated.append(f"the number of columns is read from the file (set data.columns={self._whole.dimension})")
        if self.targets != "real" and not self.labels:
            fact = "which label is +1" if self.has_labels else "which classes there are"
            unstated.append(f"{fact} is read from the data (set data.labels={self.target_values})")
        if self.header == "inferred" and self.file.endswith(".csv"):
            unstated.append("whether the first line has names is read from the file (set data.header=true or false)")
        if names := self._scaled[0]:
            unstated.append(f"{names} by the data's own mean or standard deviation (scale by public constants)")
        return together(*unstated)

    @property
    def warning(self) -> str:
        """Return a sentence that warns of samples that need scaling, and says how to scale; "" if all is well.

        Features need scaling if their norms are far from 1, or if a sample differs little from all others. Real targets
        need scaling if they are large.
        """
        with suppress(BadInput):  # the file may be gone
            train = self._sources[0]
            rows = doubles(train.features(np.arange(min(1000, len(train.targets)))))[:, : self._whole.dimension]
            norms, mean = row_norms(rows), np.ravel(rows.mean(axis=0))
            norm, common = float(np.median(norms)), float(mean @ mean / max(np.mean(norms**2), 1e-300))
            why = ""
            if not 0.1 <= norm <= LARGE:
                why = f"The median norm of the samples is {norm:.3g}, but methods work best with norms near 1"
            elif common > ALIKE:
                why = f"The samples are nearly equal: {common:.1%} of their squared norms is that of the mean sample"
            elif self.targets == "real" and (size := float(np.abs(train.targets).max())) > LARGE:
                why = f"A target is as large as {size:.3g}, but methods work best with targets in [-1, 1]"
            targets = ", targets=[..., ...]" if self.targets == "real" else ""
            return why and (
                f"{why}. Type `mpinodes init {self.file}`, and run the experiment that it writes; or set data.scaling="
                f"{{lower=..., upper=..., norm=1{targets}}} with bounds that you know without looking at the data."
            )
        return ""

    @property
    def public(self) -> str:  # type: ignore[override]
        """Return a condition under which the privacy proof holds, or "" if there is no condition.

        The condition names columns whose largest absolute value is exactly 1. If the user has divided such a column by
        its maximum in the data, the scale depends on the data, and the proof does not hold.
        """
        names = self._scaled[1]
        condition = "to a largest size of exactly 1: what is proven holds if public constants scaled them."
        return f"{names} {condition}" if names else ""

    @cached_property
    def _scaled(self) -> list[str]:
        """Return two texts that name columns which seem to be scaled by numbers computed from the data.

        The first text names columns with standard deviation 1. The second text names columns with a largest absolute
        value of 1. A text is "" if there are no such columns.
        """
        # Each file, all files, and the training samples are tested; the first test that finds columns names them.
        reasons = ["", ""]
        sources = (*self._files, self._whole, self.held_out(*self._divided(self._whole))[0])
        for source in {id(source): source for source in sources}.values():  # often all are the same
            names = source.columns or tuple(map(str, range(source.dimension + 1)))
            for k, chosen in enumerate(scaled_by_themselves(source, self.targets == "real")):
                columns = [names[j] for j in np.flatnonzero(chosen)]
                if columns and not reasons[k]:
                    reasons[k] = f"columns {listed(columns)} are scaled"
        return reasons

    @property
    def feature_bound(self) -> float:
        """Return the bound on the absolute values of all features and of the intercept."""
        return max(self.checked_bounds[0], (self.scaling or Scaling()).intercept)

    @property
    def feature_norm(self) -> float:
        """Return the bound on the L2 norm of a sample with the intercept: the smallest bound that is known."""
        return hypot(self.checked_bounds[1], (self.scaling or Scaling()).intercept)

    @property
    def checked_bounds(self) -> tuple[float, float]:
        """Return the smallest stated bounds on the absolute values of features, and on the norm of a sample."""
        scaling = self.scaling or Scaling()
        bound = min(float(self.bound), scaling.norm or (inf if scaling.lower is None else 1.0))
        return bound, min(float(self.norm), scaling.norm or inf, sqrt(self._whole.dimension) * bound)

    @property
    def name(self) -> str:
        """Return the name of the file without its folder."""
        return Path(self.file).name

    @property
    def source_files(self) -> list[Path]:
        """Return the path of the file, or the paths of the agents' files in the order of agents."""
        return [Path(self.file.replace(AGENT, str(i))) for i in range(self.agents if AGENT in self.file else 1)]

    @cached_property
    def _files(self) -> list[Source]:
        if not self.file:
            raise BadInput("data.file is missing: set data.file to the path of the file with your samples")
        paths = [str(path) for path in self.source_files]
        header = None if self.header == "inferred" else self.header
        # A tuple, because ranks that receive the experiment from another rank get a list.
        stated = table.FileFacts(self.columns, tuple(self.labels), header, str(self.target))
        sources = [table.read(Path(path), stated) for path in paths]
        if not self.columns and sources[0].dimension > LARGEST:
            reason = f"the largest index is {sources[0].dimension:,}, and every agent keeps vectors of this length"
            raise BadInput(f"{paths[0]}: {reason}; if this is intended, set data.columns={sources[0].dimension}")
        for path, source in zip(paths[1:], sources[1:], strict=True):
            if source.dimension != sources[0].dimension:
                other_file = f"{paths[0]} has {sources[0].dimension}"
                raise BadInput(f"{path}: {source.dimension} features, but {other_file}; set the number by data.columns")
            if source.columns and sources[0].columns and source.columns != sources[0].columns:
                columns = f"the columns are {listed(source.columns)}, but in {paths[0]} {listed(sources[0].columns)}"
                raise BadInput(f"{path}: {columns}; give all files the same columns in the same order")
        return sources

    @property
    def _whole(self) -> Source:
        return self._files[0] if len(self._files) == 1 else joined(self._files)

    @cached_property
    def _found(self) -> list[float]:
        """Return the different targets in the file, ascending; they are the labels if the user states no labels.

        Raises:
            BadInput: the file has too few or too many different targets.
        """
        labels: list[float] = np.unique(self._whole.targets).tolist()
        if self._fits(len(labels)):
            return labels
        if self.targets == "classes":
            raise BadInput(f"{self.file}: {len(labels)} different targets; from two to {MOST_CLASSES} classes expected")
        shown = listed([f"{value:g}" for value in labels])
        remedy = "set data.labels, or data.targets=classes (for problem.loss=softmax), or data.targets=real"
        raise BadInput(f"{self.file}: {len(labels)} different targets ({shown}); two labels expected: {remedy}")

    def open(self) -> tuple[Source, Source | None]:
        """Return the training set and the test set, made from all files. Without test samples, the test set is None.

        Raises:
            BadInput: a file is missing or malformed, or has too few or too many different labels; or `data.scaling`
                does not fit the columns.
        """
        source = self._whole
        if self.has_labels and not self.labels:
            source = against_rest(source, self._found[1])
        if self.targets == "classes" and len(self.labels) <= 2:  # otherwise the reader has numbered the classes
            classes = [-1.0, 1.0] if self.labels else self._found
            source = replace(source, targets=np.searchsorted(classes, source.targets).astype(float))
        if scaling := self.scaling:
            features, d = source.features, source.dimension
            bounds = [np.asarray(bound) for bound in (scaling.lower, scaling.upper) if bound is not None]
            do_fit = all(bound.shape in ((), (d,)) for bound in bounds)
            if bounds and (not do_fit or hasattr(features(np.arange(1)), "tocsr")):
                expected = f"dense features, and one number or {d} numbers for lower and for upper, expected"
                raise BadInput(f"data.scaling: {expected}")
            if not all(np.isfinite(bound).all() for bound in bounds) or (bounds and np.any(bounds[0] > bounds[1])):
                raise BadInput("data.scaling: finite bounds expected, and no bound in lower above that in upper")
            targets = (source.targets - scaling.units[0]) / scaling.units[1]
            scaled = lambda rows: scaling.scaled(features(rows))  # noqa: E731
            source = replace(source, targets=targets, features=scaled, units=scaling.units)
            source = replace(source, dimension=d + (scaling.intercept > 0), has_intercept=scaling.intercept > 0)
        return self._divided(source)

    def _divided(self, source: Source) -> tuple[Source, Source | None]:
        """Return the training samples and the test samples, by `train`. Without test samples, the latter is None."""
        return split(source, self.train) if self.train != 1 else (source, None)

    @property
    def remedy(self) -> str:
        """Return the last words of the error message about a sample that exceeds `data.bound` or `data.norm`."""
        return " (data.bound or data.norm); a bound must hold for all possible data"

    @cached_property
    def shares(self) -> tuple[Indices, ...]:
        """Return the training rows of every agent: the rows of the agent's own file, or a part of the common file.

        With `partition` = shared, every agent has all rows, also if there is a file for each agent.
        """
        if AGENT not in self.file or self.partition == "shared":
            return super().shares
        return tuple(np.flatnonzero(self._owners[0] == agent) for agent in range(self.agents))

    @cached_property
    def _owners(self) -> tuple[Vector, Vector]:
        """Return, for each training sample and for each test sample, the agent whose file has the sample."""
        agents = np.repeat(np.arange(float(self.agents)), [len(source.targets) for source in self._files])
        owners = replace(self._whole, targets=agents)  # split like the samples
        train, test = self.held_out(*self._divided(owners))
        return train.targets, test.targets if test else np.empty(0)

    def held_by(self, agent: int) -> Indices:
        """Return the indices of the test samples that the agent holds: those of its own file, or a part of all."""
        return np.flatnonzero(self._owners[1] == agent) if AGENT in self.file else super().held_by(agent)

    def forget(self) -> None:
        """Release the memory of the samples that were read from files."""
        super().forget()
        self.__dict__.pop("_files", None)


def scaled_by_themselves(source: Source, with_targets: bool) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Find columns that seem to be scaled by numbers computed from the data.

    A column is not reported if all of its nonzero entries have the same absolute value, as labels ±1 have.

    Args:
        source: the samples.
        with_targets: whether to check the targets too.

    Returns:
        Two arrays (d + 1,) of booleans, one entry for each column and a last entry for the targets. The first array is
        true for columns with standard deviation 1 up to rounding. The second array is true for columns whose largest
        absolute value is exactly 1.
    """
    total, width = len(source.targets), source.dimension
    sums, sizes = np.zeros((3, width + 1)), np.zeros(width + 1)
    with np.errstate(all="ignore"):
        for rows in np.array_split(np.arange(total), 1 + total // max(1000, BLOCK // width)):
            features, targets = source.features(rows), source.targets[rows, None] * with_targets
            for columns, place in ((features, slice(width)), (targets, slice(width, None))):
                square = columns * columns
                sums[:, place] += [power.sum(axis=0) for power in (columns, square, square * square)]
                sizes[place] = np.maximum(sizes[place], row_sizes(columns.T))
        mean, square, fourth = sums / total
        is_plain, variance = np.isclose(fourth, square * sizes**2, rtol=1e-9), square - mean**2
        off = np.minimum(abs(variance - 1), abs(variance * total / max(total - 1, 1) - 1))
    close = 2e-3 / np.sqrt(total)  # rounding to three decimals usually moves a mean of 0 no further
    return ~is_plain & (off <= np.where(abs(mean) <= close, 2 * close, 1e-9)), ~is_plain & (sizes == 1)
