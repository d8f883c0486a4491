"""What the items of this folder share: their data, runs that are made once, figures, and what is said of a claim."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import isnan, nan
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).parents[1] / "bench"))
import h5py
import machine
import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from threadpoolctl import threadpool_limits

import mpinodes
from mpinodes.core.asked import parse
from mpinodes.finished.runs import RUNS, FinishedRun
from mpinodes.launch.launching import mpirun
from mpinodes.presentation.plots import AGENT, AVERAGE, CLAIM, NETWORK, STYLE
from mpinodes.studies.pools import Pool, cores, one_by_one, processes
from mpinodes.studies.study import GridPoint, Study
from mpinodes.studies.sweeping import sweep

HERE = Path(__file__).parent
COLOURS = [NETWORK, AVERAGE, CLAIM, "#CC79A7", AGENT]  # Okabe and Ito's

REPRODUCED = "reproduced within its spread"
ORDER = "order only"
NOT = "not reproducible"
UNCONFIRMED = "not confirmed"
FOUND = "found here"
NOT_DONE = "not done"
CLEAR = 2.0  # standard errors of a difference
NO_DATA = "the data is not there"
PLACES = ("data.dir=", "data.file=")

mpl.rcParams.update(STYLE | {"text.parse_math": True, "axes.titlesize": 9, "legend.fontsize": 8, "savefig.dpi": 90})


class Verdict(NamedTuple):
    """What is said of one claim of a paper.

    Attributes:
        paper: which, by its key in index.toml.
        item: "Fig. 2", "Theorem 3", as index.toml has it.
        claim: what is tested, in words.
        verdict: REPRODUCED, ORDER, NOT, UNCONFIRMED, NOT_DONE, or FOUND, where no paper claims it.
        ours: what was found.
        theirs: what is printed; empty: no number is.
        difference: of the two, where both are numbers.
        seeds: of the noise, that were really run; 0: nothing is random.
        because: why it is not reproducible, not confirmed, or not done, or what limits the comparison.
    """

    paper: str
    item: str
    claim: str
    verdict: str
    ours: str = ""
    theirs: str = ""
    difference: str = ""
    seeds: int = 0
    because: str = ""

    @property
    def line(self) -> str:
        """For a figure."""
        return f"{self.item}: {self.claim}: {self.verdict}" + (f" ({self.ours})." if self.ours else ".")


def judged(is_so: bool, word: str = ORDER) -> str:
    return word if is_so else NOT


def apart(less: float, error: float, word: str = ORDER) -> str:
    """Whether a difference that is claimed to be positive is, by CLEAR standard errors of it."""
    if less > CLEAR * error:
        return word
    return NOT if less < -CLEAR * error else UNCONFIRMED


def not_done(paper: str, item: str, claim: str, because: str = NO_DATA) -> Verdict:
    return Verdict(paper, item, claim, NOT_DONE, because=because)


@dataclass
class Desk:
    """Where an item is worked on.

    Attributes:
        output: of the figures; runs and studies are below it.
        data: the directory with a folder for each data set; None: there is none.
        quick: whether the small form is wanted, on made or bundled data alone.
        code: a hash of the code of mpinodes; what was made by other code is made again.
        figures: of the item at hand, as they are saved.
        keys: settings of the runs whose noise is by their key.
        kept: CPU seconds that the kept runs of the item at hand took when they were made.
        untold: how many studies of these were cut short, so that it is not known what a part of them took.
        used: the runs of the item at hand.
    """

    output: Path
    data: Path | None
    quick: bool
    code: str = ""
    figures: list[str] = field(default_factory=list)
    keys: dict[str, tuple[str, ...]] = field(default_factory=dict)
    kept: float = 0.0
    untold: int = 0
    used: set[Path] = field(default_factory=set)
    _ended: float = 0.0

    def begin(self) -> None:
        """Another item."""
        self.figures.clear()
        self.used.clear()
        self.kept, self.untold = 0.0, 0

    def folder(self, name: str) -> Path | None:
        """Of a data set; None: it is not there."""
        if self.quick or self.data is None or not (self.data / name).is_dir():
            return None
        return next((self.data / name).glob("cifar-10-batches-*"), self.data / name)  # as upstream's archive unpacks

    @property
    def runs(self) -> Path:
        return self.output / "runs"

    def made(self, key: str, toml: str, *pairs: str, ranks: int = 0) -> Path:
        """The directory of a run of a file beside this one, by mpirun on so many ranks, or in this process (0).

        It is made where it is not there; other settings, or another file, have another directory. What reads data from
        a place has its noise by `key`, unless the file has one, for by itself that would change with the place.

        Raises:
            ValueError: another such run has this key.
        """
        if any(pair.startswith(PLACES) for pair in pairs) and "noise" not in tomllib.loads((HERE / toml).read_text()):
            if self.keys.setdefault(key, pairs) != pairs:
                raise ValueError(f"two runs are called {key}: {' '.join(pairs)}; {' '.join(self.keys[key])}")
            pairs = (*pairs, f"noise.key={key}")
        digest = hashlib.sha256(repr(((HERE / toml).read_text(), pairs, ranks)).encode()).hexdigest()
        place = self.runs / f"{key}-{digest[:8]}"
        words = [*pairs, f"output.dir={place}", "report=false"]
        if ranks:
            self.once(place, lambda: _mpirun(ranks, HERE / toml, words))
        else:
            self.once(place, lambda: mpinodes.run_lockstep(parse(str(HERE / toml), words)))
        return place

    def once(self, place: Path, make: Callable[[], object]) -> None:
        """Make a run's directory, or another file, where it is not there; what that costs is kept beside it."""
        is_used, self.used = place in self.used, self.used | {place}
        if (cost := self._cost(place)) is None:
            begun = self.spent()
            make()
            self._note(place, self.spent() - begun)
        elif not is_used:
            self.kept += cost

    def _cost(self, place: Path) -> float | None:
        """CPU seconds that a place took, nan where it was cut short; None, and it is deleted: not made by this code."""
        note = place.with_name(f"{place.name}.cpu")
        seconds, _, code = note.read_text().partition(" ") if note.exists() else ("", "", "")
        if seconds and code == self.code and place.exists():
            return float(seconds)
        shutil.rmtree(place, ignore_errors=True)
        place.unlink(missing_ok=True)
        return None

    def _note(self, place: Path, seconds: float) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.with_name(f"{place.name}.cpu").write_text(f"{seconds:.3f} {self.code}")

    def arrays(self, path: Path, make: Callable[[], dict[str, Any]]) -> dict[str, np.ndarray]:
        """Of an .npz file, that is made where it is not there."""
        self.once(path, lambda: save(path, **make()))
        with np.load(path) as found:
            return dict(found)

    def run(self, key: str, toml: str, *pairs: str, ranks: int = 0) -> xr.Dataset:
        """The record of such a run."""
        return mpinodes.load(self.made(key, toml, *pairs, ranks=ranks))

    def study(self, toml: str, *words: str, key: str = "") -> list[FinishedRun]:
        """All runs of a study beside this file; those that are there are not made again."""
        return self._study(Study.of([str(HERE / toml), *words]), Path(toml).stem + key)

    def keyed(self, toml: str, *words: str) -> list[FinishedRun]:
        """The same, with a noise by all settings but the seed, which is in it anyway, and where the data lie."""
        study = Study.of([str(HERE / toml), *words])
        cases = [
            point.settings | {"name": f"{point.asked['name']}.{k}", "noise.key": noise_key(point)}
            for k, point in enumerate(study.points())
        ]
        tree = {key: value for key, value in study.tree.items() if key not in ("study", "seed")}
        return self._study(Study.of([tree | {"study": {"cases": cases}}]), f"{Path(toml).stem}-{digest(tree)}")

    def _study(self, study: Study, key: str) -> list[FinishedRun]:
        study = replace(study, place=self.output / "studies" / key)
        before, begun = self._cost(study.place) or 0.0, self.spent()
        self._note(study.place, nan)  # should it be cut short
        with self.workers() as pool:
            swept = self.swept(study, pool)
        self._note(study.place, before + self.spent() - begun)
        self.untold += isnan(before)
        self.kept += 0.0 if isnan(before) else before
        return [FinishedRun.read(run) for _, run in swept]

    @contextmanager
    def workers(self) -> Iterator[Pool]:
        """A pool that does the runs of studies; what its processes spend counts as spent."""
        if self.quick:  # so few runs that processes take longer to start
            with threadpool_limits(1):
                yield one_by_one
            return
        with processes(cores()) as pool:
            try:
                yield pool
            finally:
                self._ended += machine.working()

    def swept(self, study: Study, pool: Pool) -> list[tuple[dict[str, Any], Path]]:
        """Do all runs of a study that are not done; return the settings and the directory of each run.

        Raises:
            RuntimeError: one of them failed.
        """
        swept = sweep(study, pool, pool)
        if swept.failed:
            raise RuntimeError("; ".join(f"{name}: {reason}" for name, reason in swept.failed.items()))
        return [(plan.settings, swept.directory / RUNS / plan.name) for plan in swept.plans]

    def spent(self) -> float:
        """CPU seconds so far, of this process, of those that it started and that have ended, and of its workers."""
        used = [getrusage(who) for who in (RUSAGE_SELF, RUSAGE_CHILDREN)]
        return sum(each.ru_utime + each.ru_stime for each in used) + self._ended + machine.working()

    def save(self, figure: Figure, name: str, title: str, verdicts: Sequence[Verdict] = ()) -> None:
        """Write a figure, with what it shows under its title."""
        letters = int(13 * figure.get_figwidth())
        texts = (title, *(verdict.line for verdict in verdicts))
        figure.suptitle("\n".join(line for text in texts for line in textwrap.wrap(text, letters)), fontsize=9)
        self.output.mkdir(parents=True, exist_ok=True)
        if self.quick:  # a layout takes most of the time of a figure
            figure.set_layout_engine(None)
        figure.savefig(self.output / name, dpi=30 if self.quick else None)
        self.figures.append(name)


def noise_key(point: GridPoint) -> str:
    """By all settings that a message depends on, but the seed and where the data lie."""
    data = {key: value for key, value in point.asked["data"].items() if key not in ("dir", "file")}
    others = ("seed", "comparator", "record")
    return digest({key: value for key, value in point.asked.items() if key not in others} | {"data": data})


def digest(told: Any) -> str:
    return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()[:16]


def save(path: Path, **arrays: Any) -> None:
    """An .npz file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    with part.open("wb") as file:
        np.savez(file, **arrays)
    part.replace(path)


def _mpirun(ranks: int, toml: Path, words: list[str]) -> None:
    command = [*mpirun(), "-n", str(ranks), sys.executable, "-m", "mpinodes.run", str(toml), *words]
    subprocess.run(command, check=True, stdout=sys.stderr, env=os.environ)


def recorded(place: Path, name: str) -> np.ndarray:
    """(repeats, ...) one variable of a run's records; mpinodes.load reads all of them, which takes its time."""
    values = []
    for each in sorted(place.glob("repeat-*")) or [place]:
        with h5py.File(each / "record.h5") as record:
            values.append(record[name][:])
    return np.array(values)


def panels(rows: int, columns: int, width: float = 4.0, height: float = 3.3) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(width * columns, height * rows + 0.5), layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def band(axes: Axes, values: xr.DataArray, colour: str, label: str, **style: object) -> None:
    """A curve over `horizon`; of repeats their mean, and a band from the least to the largest."""
    t = values.horizon.values
    if "repeat" in values.dims:
        axes.fill_between(t, values.min("repeat"), values.max("repeat"), color=colour, alpha=0.15, lw=0)
        values = values.mean("repeat")
    axes.plot(t, values, color=colour, label=label, marker="o", ms=2.5, **style)


def shown(values: Sequence[float], digits: int = 3) -> str:
    return ", ".join(f"{value:.{digits}g}" for value in values)


def misfit(values: xr.DataArray, shape: Callable[[np.ndarray], np.ndarray]) -> tuple[float, float]:
    """Slope of a + b·shape(T) by least squares, and the share of the variance that it leaves."""
    x, y = shape(values.horizon.values.astype(float)), values.values
    slope, offset = np.polyfit(x, y, 1)
    return float(slope), float(np.mean((y - offset - slope * x) ** 2) / y.var())


def growth(values: xr.DataArray) -> float:
    """The exponent p of T^p over the last fourfold horizons."""
    late = values[values.horizon >= values.horizon[-1] / 4.1]
    return float(np.polyfit(np.log(late.horizon), np.log(late), 1)[0])
