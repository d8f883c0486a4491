"""Plan the runs of a study, and do runs.

To plan a run means to check its settings and to find its directory. These functions run in worker processes of a study.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import shutil
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, suppress
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from mpinodes.config import own_files as sources
from mpinodes.config.building import build
from mpinodes.config.compose import compose
from mpinodes.config.metrics import metrics_of
from mpinodes.config.noise_key import noise_name
from mpinodes.core import cached
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import Experiment, Output
from mpinodes.core.parts import LOCATIONS, Setup, Stream
from mpinodes.evaluation.accounting import account_together
from mpinodes.finished.runs import summary_of
from mpinodes.finished.siblings import at_one_place, files_mark, noise_of
from mpinodes.launch.launching import in_words
from mpinodes.launch.stopping import Signals
from mpinodes.rounds.lockstep import kind_of, most_together, run_together
from mpinodes.runlog.checkpoints import Chunk
from mpinodes.runlog.directories import write_text
from mpinodes.runlog.progress import write_stderr
from mpinodes.runlog.versions import VERSION, require_version
from mpinodes.running.job import FAILED_FILE, Job
from mpinodes.running.setup import kept_in_budget
from mpinodes.studies.study import SEED, GridPoint, word_of

LONGEST, SHORT = 90, 8  # the most characters of settings in a directory's name, and the number of hash digits after


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """Describe a run of a study, after its settings were checked.

    Attributes:
        settings: the values of the keys that the study varies, by dotted key.
        name: the name of the run's directory.
        digits: the hash of the experiment (`identity`).
        experiment: the experiment. If `is_ready` and not `is_done`, the experiment keeps the privacy budget.
        agents: the number of agents.
        dimension: the number of coordinates of a decision.
        noise: a text that identifies the noise and the data paths: runs with the same text draw the same noise. Empty
            if there is no noise, if the noise is secret or set by `noise.key`, or if its scale is not computed yet.
        is_done: whether the directory contains the finished run.
        is_ready: whether the settings that keep the privacy budget are already computed; True if the run is done.
        near: the number at which the search for the noise scale starts: `privacy.epsilon`, or 1 over the noise
            multiplier, of a similar run; 0 if unknown.
        connected_over: the least B such that the union of the graphs of any B consecutive rounds is strongly connected;
            0 if the run is done.
    """

    settings: dict[str, Any]
    name: str
    digits: str
    experiment: Experiment
    agents: int
    dimension: int
    noise: str
    is_done: bool = False
    is_ready: bool = True
    near: float = 0.0
    connected_over: int = 0

    @property
    def setting(self) -> str:
        """Return the values of all varied keys except the seed, as text."""
        return shown({key: value for key, value in self.settings.items() if key != SEED})


Run = Callable[[Sequence[PlannedRun], Sequence[Path]], list[str]]  # does runs in directories; returns what failed


def shown(settings: dict[str, Any]) -> str:
    """Return settings as text: "key=value, key=value"; "the only one" if there are no settings."""
    return ", ".join(f"{key}={value}" for key, value in settings.items()) or "the only one"


def planned(points: Sequence[GridPoint], runs: Path) -> list[PlannedRun | str]:
    """Check the settings of runs; return for each its plan, or a text that says why the run cannot be done.

    If the study has a privacy budget, the noise scale is computed here only for the first seed of each setting. Runs
    with other seeds compute their noise scale when they start.

    Args:
        points: the settings and the experiments of the runs, which differ in the seed and in ε only.
        runs: the directory that contains the directories of all runs of the study.
    """
    plans, ratio = list[PlannedRun | str](), 0.0
    for point in points:
        plans.append(plan := _planned(point, runs, ratio))
        if isinstance(plan, PlannedRun) and plan.near and (budget := plan.experiment.privacy.budget):
            ratio = plan.near / budget.epsilon
    return plans


def _planned(point: GridPoint, runs: Path, ratio: float) -> PlannedRun | str:
    """Plan one run; the search for its noise scale starts at `ratio` times the ε of the budget, unless `ratio` is 0."""
    try:
        with _quietly():
            setup = compose(point.asked, ranks=None)
            digits = blake2b(identity(setup.experiment).encode(), digest_size=16).hexdigest()
            agents, d = setup.topology.agents, setup.dimension
            make = partial(PlannedRun, settings=point.settings, digits=digits, agents=agents, dimension=d)
            words = "-".join(word_of(key, value) for key, value in point.settings.items())[:LONGEST].strip("-.")
            # If the study was moved, its paths and so the digits differ; then the settings identify the run.
            for place in sorted({*runs.glob(f"*{digits[:SHORT]}*"), *runs.glob(f"{words}-*")}):
                if is_done(place, setup):
                    for key, path in sources.files(setup.experiment):
                        if sources.changed_since(place, key, path):
                            change = f"the file {key} = {str(path)!r} has changed since this run was done"
                            raise BadInput(f"{place}: {change}; delete this run, or set output.dir")
                    noise = _own_noise(setup, noise_of(place / "experiment.toml"))
                    return make(name=place.name, experiment=setup.experiment, noise=noise, is_done=True)
            budget = setup.experiment.privacy.budget
            is_ready = point.is_first_seed or budget is None
            ready = kept_in_budget(setup, ratio * budget.epsilon if budget else 0.0) if is_ready else setup
            noise = _own_noise(ready, noise_name(ready)) if is_ready else ""
            e, name = ready.experiment, f"{words}-{digits[:SHORT]}".lstrip("-")
            if summary_of(runs / name):  # a different finished run has this name; choose a name that keeps that run
                name = f"{words}-{digits}".lstrip("-")
            try:
                version = json.loads((runs / name / "summary.json").read_text("utf-8"))["version"]
            except (OSError, ValueError, LookupError, TypeError):
                version = VERSION  # the new run deletes no summary
            require_version(version, f"{runs / name}, to be deleted or kept elsewhere")
            multiplier, over = e.privacy.noise_multiplier, setup.connected_over
            near = (1 / multiplier if multiplier else e.privacy.epsilon) if is_ready else 0.0
            return make(name=name, experiment=e, noise=noise, is_ready=is_ready, near=near, connected_over=over)
    except BadInput as error:
        return str(error)
    except Exception as error:
        return f"{in_words(error)}\n{traceback.format_exc()}"


def _own_noise(setup: Setup, noise: str) -> str:
    """Return a text that identifies the noise of a run and the paths of its data.

    Two runs with the same text draw the same noise. The text is empty if the run has no noise, secret noise, or a
    `noise.key` that the user has set.
    """
    e = setup.experiment
    is_own = noise and e.private and not e.secret and e.noise.key is None
    return " ".join([noise, *(str(e.data.get(key)) for key in LOCATIONS)]) if is_own else ""


def identity(e: Experiment) -> str:
    """Return the settings that distinguish an experiment from other experiments, as the text of a TOML file.

    The output directory, `report`, and values that mpinodes computes from a privacy budget are left out.
    """
    privacy = e.privacy
    if (budget := privacy.budget) is not None:
        if budget.kept_by == "noise":
            privacy = replace(privacy, epsilon=1.0, noise_multiplier=None)
        privacy = replace(privacy, budget=replace(budget, stops=()))
    return replace(e, privacy=privacy, output=None, report=False).toml()


def is_done(place: Path, setup: Setup) -> bool:
    """Return whether a directory contains this run, and the run is finished.

    The run in the directory must have the same settings and data files with the same content.
    """
    if summary_of(place) is None:
        return False
    try:
        file, e = place / "experiment.toml", setup.experiment
        stored = at_one_place(Experiment.read(file), file, e, files_mark(setup))
    except (BadInput, msgspec.ValidationError):
        return False
    return identity(stored) == identity(e)


def in_lockstep(plans: Sequence[PlannedRun], places: Sequence[Path]) -> list[str]:
    """Do runs in this process, which computes all agents; return for each run "", or the reason if the run fails.

    The rounds of runs with the same graph are computed together, as many as fit into memory.

    Args:
        plans: the plans of the runs, which differ in the seed and in ε only.
        places: the directories of the runs.
    """
    streams: dict[int, Stream] = {}  # by the seed of the data

    def set_up(k: int) -> Setup:
        plan, output = plans[k], Output(str(places[k]))
        e = replace(plan.experiment, output=output)
        seed = e.data.get("seed", e.seed)
        setup = build(e, streams.get(seed))  # checked when the run was planned
        setup = dataclasses.replace(setup, connected_over=plan.connected_over, metrics=metrics_of(e.record.metrics))
        streams[seed] = setup.stream
        return setup if plan.is_ready else kept_in_budget(setup, plan.near)

    if len(plans) == 1:
        return [_done(lambda: set_up(0))]
    setups: list[Setup] = []
    with suppress(Exception), _quietly():  # a run that cannot be set up reports its error when it is done alone
        setups.append(set_up(0))
        if len(plans) <= most_together(setups[0]):
            setups += map(set_up, range(1, len(plans)))
    if len(setups) < len(plans):
        half = len(plans) // 2
        setups.clear()
        reasons = in_lockstep(plans[:half], places[:half])
        gc.collect()  # runs leave reference cycles with large arrays
        return reasons + in_lockstep(plans[half:], places[half:])
    kinds, reasons = [kind_of(setup) for setup in setups], [""] * len(plans)
    for kind in dict.fromkeys(kinds):
        same = [k for k, other in enumerate(kinds) if other == kind]
        computed: Sequence[list[Chunk] | None] = [None] * len(same)
        if kind and len(same) > 1:
            together = [setups[k] for k in same]
            try:
                computed = chunks = run_together(together)
            except Exception as error:
                write_stderr(f"mpinodes: {plans[same[0]].setting}: runs are done one by one: {in_words(error)}\n")
            else:
                with suppress(Exception), _quietly():  # each run reports an error of its own accounts
                    account_together(together, [rows for (rows, *_), *_ in chunks])
        for k, of_run in zip(same, computed, strict=True):
            reasons[k] = _done(partial(setups.__getitem__, k), of_run)
    return reasons


class _Job(Job):
    """Do a run in this process. The numbers that its agents log may have been computed before."""

    def __init__(self, computed: list[Chunk] | None) -> None:
        super().__init__(signals=Signals(()))
        self._computed = computed

    def chunks(self, run: Setup, place: Path) -> Iterator[Chunk]:
        """Yield the numbers that all agents log, then the models. What was computed before is not computed again."""
        return iter(self._computed) if self._computed else super().chunks(run, place)


def _done(make_setup: Callable[[], Setup], computed: list[Chunk] | None = None) -> str:
    """Do a run in this process; return the reason if it fails, or "".

    Args:
        make_setup: makes the set-up of the run.
        computed: the rows of all rounds and the models, if they were computed before (`lockstep.run_together`).
    """
    try:
        with _quietly(), _Job(computed) as job:
            job.alone(lambda: job.open_new(make_setup))
    except BadInput as error:
        return str(error)
    except Exception as error:
        return in_words(error)
    return ""


def performed(plans: Sequence[PlannedRun], runs: Path, run: Run = in_lockstep) -> list[str]:
    """Do runs; return for each run "", or the reason if the run fails.

    Before the runs, their old directories are deleted. The reason of a failure is also written into the run's
    directory.

    Args:
        plans: the plans of the runs, which differ in the seed and in ε only.
        runs: the directory that contains the directories of all runs.
        run: a function that does runs in their directories, and returns "" or a reason for each.
    """
    places = [runs / plan.name for plan in plans]
    for place in places:
        shutil.rmtree(place, ignore_errors=True)
    gc.freeze()  # so that the collection below searches only for objects of these runs
    try:
        reasons = run(plans, places)
    finally:
        gc.collect()
        gc.unfreeze()
    for place, reason in zip(places, reasons, strict=True):
        if reason:
            note_failure(place, reason)
    return reasons


def note_failure(place: Path, reason: str) -> None:
    """Write the reason of a failure into the directory of the failed run."""
    place.mkdir(parents=True, exist_ok=True)
    write_text(place / FAILED_FILE, reason + "\n")


def failure(place: Path) -> str:
    """Return the reason why the run in a directory failed, or "" if the run did not fail."""
    try:
        return (place / FAILED_FILE).read_text("utf-8").strip()
    except OSError:
        return ""


@contextmanager
def _quietly() -> Iterator[None]:
    """Discard all output to stderr inside the `with` block, and switch on the cache of results (`cached`).

    The progress of the study is shown instead of the output of single runs.
    """
    cached.is_on = True
    try:
        with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stderr(nowhere):
            yield
    finally:
        cached.is_on = False
