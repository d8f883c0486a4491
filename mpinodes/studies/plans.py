"""Plan one run of a study, and do the run: compose the experiment, find its directory, and start the rounds.

These functions run in worker processes of a study.
"""

from __future__ import annotations

import json
import os
import shutil
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from mpinodes.config import own_files as sources
from mpinodes.config.compose import compose
from mpinodes.config.noise_key import noise_name
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import Experiment, Output
from mpinodes.core.parts import LOCATIONS, Setup
from mpinodes.finished.runs import summary_of
from mpinodes.finished.siblings import at_one_place, files_mark, noise_of
from mpinodes.launch.launching import in_words
from mpinodes.runlog.directories import write_text
from mpinodes.runlog.versions import VERSION, require_version
from mpinodes.running import job
from mpinodes.running.setup import kept_in_budget, set_up_again
from mpinodes.studies.study import SEED, GridPoint, word_of

FAILED = "failed.txt"  # in the directory of a failed run: the reason
LONGEST, SHORT = 90, 8  # the most characters of settings in a directory's name, and the number of hash digits after


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """A run of a study, after its settings were checked.

    Attributes:
        settings: the values of the study's axes, by dotted key.
        name: the name of the run's directory.
        digits: the hash of the `identity` of the experiment. The `name` of a new run ends with the first eight digits
            of the hash, or with all digits if another finished run has the short name.
        experiment: the experiment. If `is_ready`, its noise has the scale that keeps the privacy budget.
        agents: the number of agents.
        noise: a text that identifies the noise and the data paths of the run. It is empty if the run has no noise, if
            the noise is secret, if `noise.key` is set, or if the noise scale is not computed yet. Two runs with the
            same text draw the same noise.
        is_done: whether the directory contains the finished run.
        is_ready: whether the noise scale that keeps the privacy budget is already computed.
        near: the nominal epsilon, or 1 over the noise multiplier, of this run if its noise scale is already computed,
            otherwise of a run that differs from this run only in the seed; 0 if unknown. The search for a noise scale
            starts from this value.
        connected_over: the least B such that the union of the graphs of any B consecutive rounds is strongly connected;
            0 if the run is done.
    """

    settings: dict[str, Any]
    name: str
    digits: str
    experiment: Experiment
    agents: int
    noise: str
    is_done: bool = False
    is_ready: bool = True
    near: float = 0.0
    connected_over: int = 0

    @property
    def setting(self) -> str:
        """Return the settings without the seed, as text."""
        return repr({key: value for key, value in self.settings.items() if key != SEED})


def shown(settings: dict[str, Any]) -> str:
    """Return settings as text: "key=value, key=value"; "the only one" if there are no settings."""
    return ", ".join(f"{key}={value}" for key, value in settings.items()) or "the only one"


def planned(point: GridPoint, runs: Path) -> PlannedRun | str:
    """Compose a run of a study and check it as `--dry-run` does; return its plan, or the reason why it cannot be done.

    The slowest part of planning is to compute the noise scale that keeps a privacy budget. This scale seldom differs
    between seeds, so this function computes the scale only for the first seed of each setting. Runs with other seeds
    compute the scale when they start.

    Args:
        point: the settings and the experiment of the run.
        runs: the directory that contains the directories of all runs of the study.
    """
    try:
        with _quietly():
            setup = compose(point.asked, ranks=None)
            digits = blake2b(identity(setup.experiment).encode(), digest_size=16).hexdigest()
            make = partial(PlannedRun, settings=point.settings, digits=digits, agents=setup.topology.agents)
            words = "-".join(word_of(key, value) for key, value in point.settings.items())[:LONGEST].strip("-.")
            # If the study was moved, its paths and so the digits differ; then the settings identify the run.
            for place in sorted({*runs.glob(f"*{digits[:SHORT]}*"), *runs.glob(f"{words}-*")}):
                if is_done(place, setup):
                    for key, path in sources.files(setup.experiment):
                        if sources.changed_since(place, key, path):
                            change = f"this run was done when {key} = {str(path)!r} was another file"
                            raise BadInput(f"{place}: {change}; delete this run, or set output.dir")
                    noise = _own_noise(setup, noise_of(place / "experiment.toml"))
                    return make(name=place.name, experiment=setup.experiment, noise=noise, is_done=True)
            is_ready = point.is_first_seed or setup.experiment.privacy.budget is None
            ready = kept_in_budget(setup) if is_ready else setup
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
    """Return a text that identifies the noise of the run and the paths of its data.

    Two runs with the same text would draw the same noise. The text is empty if the run has no noise, if the noise is
    secret, or if the user has set `noise.key`.
    """
    e = setup.experiment
    is_own = noise and e.private and not e.secret and e.noise.key is None
    return " ".join([noise, *(str(e.data.get(key)) for key in LOCATIONS)]) if is_own else ""


def identity(e: Experiment) -> str:
    """Return a text that identifies an experiment.

    Values that mpinodes computes from a privacy budget, the output directory, and `report` are left out.
    """
    privacy = e.privacy
    if (budget := privacy.budget) is not None:
        if budget.kept_by == "noise":
            privacy = replace(privacy, epsilon=1.0, noise_multiplier=None)
        privacy = replace(privacy, budget=replace(budget, stops=()))
    return replace(e, privacy=privacy, output=None, report=False).toml()


def is_done(place: Path, setup: Setup) -> bool:
    """Return whether a directory contains this run, and the run is finished.

    The run in the directory must have read the same data files, which may have been moved since.
    """
    if summary_of(place) is None:
        return False
    try:
        file, e = place / "experiment.toml", setup.experiment
        stored = at_one_place(Experiment.read(file), file, e, files_mark(setup))
    except (BadInput, msgspec.ValidationError):
        return False
    return identity(stored) == identity(e)


def in_lockstep(plan: PlannedRun, place: Path) -> str:
    """Do a run in this process, where all agents take turns; return the reason if it fails, or an empty text."""

    def set_up() -> Setup:
        setup = set_up_again(replace(plan.experiment, output=Output(str(place))), plan.connected_over)
        return setup if plan.is_ready else kept_in_budget(setup, plan.near)

    try:
        with _quietly():
            job.run_set_up(set_up)
    except BadInput as error:
        return str(error)
    except Exception as error:
        return in_words(error)
    return ""


def performed(plan: PlannedRun, runs: Path, run: Callable[[PlannedRun, Path], str] = in_lockstep) -> str:
    """Delete the run's directory, left by an unfinished attempt, and do the run; return the reason if it fails, or "".

    If the run fails, the reason is also written into its directory.

    Args:
        plan: the plan of the run.
        runs: the directory that contains the directories of all runs.
        run: a function that does a run in a directory, and returns the reason if it fails, or an empty text.
    """
    place = runs / plan.name
    shutil.rmtree(place, ignore_errors=True)
    reason = run(plan, place)
    if reason:
        note_failure(place, reason)
    return reason


def note_failure(place: Path, reason: str) -> None:
    """Write the reason of a failure into the directory of the failed run."""
    place.mkdir(parents=True, exist_ok=True)
    write_text(place / FAILED, reason + "\n")


def failure(place: Path) -> str:
    """Return the reason why the run in a directory failed; an empty text if the run did not fail."""
    try:
        return (place / FAILED).read_text("utf-8").strip()
    except OSError:
        return ""


@contextmanager
def _quietly() -> Iterator[None]:
    """Hide what a single run prints to stderr, because the progress of the study is shown instead."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stderr(nowhere):
        yield
