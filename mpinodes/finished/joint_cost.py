"""Compute the privacy loss of publishing several finished runs together.

The runs are divided into classes, such that runs of different classes have no sample in common. The privacy loss of all
runs is the largest privacy loss of a class.

The privacy loss of a class follows from the privacy losses of its units. A unit is what `privacy.adjacency` protects: a
sample, a round or an agent.

- If each unit of one run is known to be the same unit in the other runs: the privacy losses of each unit are added over
  the runs, and the largest sum counts.
- If this is not known, and units are samples: the largest privacy losses of a sample in each run are added, although
  these samples may differ.
- If this is not known, and units are rounds or agents: nothing is proven.
"""

from __future__ import annotations

import textwrap
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np

from mpinodes.config import registry
from mpinodes.config.building import build
from mpinodes.core.errors import BadInput, is_users
from mpinodes.core.experiment import UNITS, Experiment, Tuning
from mpinodes.evaluation.accounting import proven
from mpinodes.finished.runs import FinishedRun
from mpinodes.finished.siblings import at_one_place, files_mark, files_mark_of, noise_of
from mpinodes.presentation.privacy_words import UNCONFIRMED, condition, number
from mpinodes.privacy.accountant import UNPROVEN, PrivacyLoss, accountant_of
from mpinodes.privacy.curves import ORDERS, gdp_mu, pure_rdp
from mpinodes.privacy.together import UNMAPPED, Cost, composed, cost_of, same_things, whole
from mpinodes.runlog.reader import Reader
from mpinodes.summary.summary import FILE, Summary

FIXED_BEFOREHAND = (
    "The privacy loss is proven only if the settings of all runs were fixed before the first run. Choosing settings by "
    "the results of another run needs fully adaptive composition, which is not done here."
)
# Settings that do not change messages.
NOT_IN_MESSAGES = {"name", "record", "deadline", "checkpoint", "output", "report"}


@dataclass(frozen=True)
class Finished(FinishedRun):
    """Hold a finished run and its privacy loss. If a job has repeats (with different seeds), each repeat is a run."""

    @cached_property
    def experiment(self) -> Experiment:
        """Return the settings of the run from experiment.toml, which also has the values that mpinodes chose.

        Raises:
            BadInput: experiment.toml is not the file of a finished run.
        """
        try:
            return Experiment.read(self.place / "experiment.toml")
        except msgspec.ValidationError as error:
            raise BadInput(f"{self.place}/experiment.toml is not the file of a finished run: {error}") from error

    @property
    def unproven_because(self) -> str | None:
        """Return why no privacy loss is proven for this run alone; None if a privacy loss is proven."""
        privacy = self.summary.privacy
        if not self.experiment.private:
            return "its messages carry no noise"
        if privacy.network.proven is not None:
            return None
        return privacy.unproven_because or "no privacy loss is proven for this run alone"

    @property
    def tuning(self) -> Tuning | None:
        """Return `privacy.tuning`, if the cost of tuning is known and adds up with the cost of the run."""
        tuning = self.summary.privacy.tuning
        return self.experiment.privacy.tuning if tuning and tuning.epsilon is not None else None

    @property
    def noise(self) -> Hashable:
        """Return an identifier of the noise of the run: runs with the same noise have the same identifier.

        Two results have a special meaning:

        - None: the run has no noise, or no other run can have the same noise.
        - An empty text: experiment.toml does not identify the noise.
        """
        e = self.experiment
        if not e.reproducible or not e.private:
            return None
        file = self.place / "experiment.toml"
        # The noise depends on the contents of the data files, so add the mark of these files to its name.
        return name if not (name := noise_of(file)) or e.noise.key is not None else (name, files_mark_of(file))

    @property
    def cost(self) -> tuple[Hashable, Cost]:
        """Return an identifier of the order of the samples, and the privacy cost of every sample in the run.

        If two runs have equal identifiers, sample k of one run is sample k of the other run. With `privacy.adjacency` =
        one-round or one-agent, rounds or agents take the place of samples.

        The costs are computed from the data and the recorded noise. If the data cannot be read again, or have changed,
        the only cost is that of the worst sample, from summary.json. The identifier then differs from that of every
        other run.

        Raises:
            Unproven: the data cannot be read or have changed, and summary.json does not determine the privacy loss.
            ValueError: the privacy losses of the samples cannot be computed.
        """
        privacy = self.summary.privacy
        try:
            setup = build(self.experiment)
            if files_mark(setup) != files_mark_of(self.place / "experiment.toml"):
                raise BadInput(
                    "a data file or the code of the run's stream was changed, moved or deleted after the run began"
                )
            events = Reader(self.place).events(setup.layout)
            cost = cost_of(setup, accountant_of(setup, events), len(events)).network.settled()
            loss, recorded = cost.loss(self.experiment.privacy.delta), privacy.network
            same = [(loss.pure, recorded.proven_pure)]
            if loss.rule == recorded.rule == "GDP":
                same.append((loss.epsilon, recorded.proven))
            now, then = np.array(same, float).T  # None is nan
            if not np.allclose(now, then, rtol=1e-6, atol=0, equal_nan=True):
                raise BadInput(
                    "the privacy loss of the data differs from summary.json: the data or the code changed after the run"
                )
            place = self.place.resolve()
            job = place.parent if place.name.startswith("repeat-") else place
            return same_things(setup, str(job)), cost
        except (BadInput, OSError) as error:
            reason = error
        network, pure, rho = privacy.network, np.inf, np.inf
        if not network.delta_spent and network.proven_pure is not None:
            pure, rho = network.proven_pure, network.proven_pure**2 / 2
        elif not network.delta_spent and network.proven is not None and network.rule == "GDP":
            rho = gdp_mu(network.proven, privacy.delta) ** 2 / 2
        if np.isinf(rho):
            cause = f"the samples cannot be read again ({reason}), and summary.json does not determine the privacy loss"
            raise Unproven(f"{self.place}: {cause}")
        curve = rho * ORDERS[None] if np.isinf(pure) else pure_rdp(np.array([pure]))
        sample, is_gaussian = np.zeros(1, np.int64), bool(np.isinf(pure))
        return object(), Cost(sample, np.array([pure]), np.array([rho]), lambda at: curve[at], is_gaussian)


class Unproven(Exception):
    """Signal that no privacy loss is proven for several runs together; the message gives the reason."""


def read(places: Sequence[Path]) -> list[Finished]:
    """Return the finished runs in the directories `places`; a run that is named twice is returned once.

    A directory may contain one run, or a job with repeats (runs that differ in the seed). Each repeat is a run.

    Raises:
        BadInput: a directory contains no finished run, a run ended early, or a job has fewer repeats than its summary
            says.
    """
    runs: dict[Path, Finished] = {}
    for place in places:
        repeats = sorted(child for child in place.glob("repeat-*") if child.is_dir())
        # If there is neither a summary nor a repeat, `Finished.read` raises BadInput below.
        wanted = (Summary.read(place).repeats or 0) if (place / FILE).exists() else 0
        if len(repeats) < wanted:
            raise BadInput(f"{place}: only {len(repeats)} of {wanted} repeats exist; give the paths of these repeats")
        for run in repeats or [place]:
            runs.setdefault(run.resolve(), Finished.read(run))
    return list(runs.values())


def _same_run(first: Finished, other: Finished) -> bool:
    """Return whether two runs have the same settings and the same records.

    Settings that do not change messages may differ, and also the paths of data files with the same content. Two records
    are the same if both contain the losses, and all variables that both contain are equal bit by bit.
    """
    mark = files_mark_of(first.place / "experiment.toml")
    there = at_one_place(other.experiment, other.place / "experiment.toml", first.experiment, mark)
    settings = [name for name in Experiment.__struct_fields__ if name not in NOT_IN_MESSAGES]
    if any(getattr(first.experiment, name) != getattr(there, name) for name in settings):
        return False
    with Reader(first.place) as a, Reader(other.place) as b:
        pairs = ((a.read(name).values, b.read(name).values) for name in a.names if name in b)
        return "loss" in a and "loss" in b and all(np.array_equal(x, y, equal_nan=True) for x, y in pairs)


def counted_once(runs: Sequence[Finished]) -> tuple[list[Finished], list[Finished]]:
    """Divide runs into two lists: different runs, and runs that repeat an earlier run bit by bit.

    Raises:
        Unproven: two different runs have the same noise, so the difference of their messages has no noise; or there are
            several runs, and experiment.toml of a run does not identify its noise.
    """
    once: list[Finished] = []
    again: list[Finished] = []
    by_noise: dict[Hashable, Finished] = {}
    for run in runs:
        if run.noise == "" and len(runs) > 1:
            raise Unproven(
                f"{run.place}/experiment.toml does not identify the noise of the run: another run may have this noise"
            )
        before = by_noise.setdefault(run.noise, run) if run.noise is not None else run
        if before is run:
            once.append(run)
        elif _same_run(before, run):
            again.append(run)
        else:
            pair = f"{before.place} and {run.place}"
            raise Unproven(
                f"{pair} are different runs with the same noise, so the difference of their messages has no noise"
            )
    return once, again


def disjoint(first: Finished, other: Finished) -> bool:
    """Return whether two runs are known to have no sample in common.

    The first case that applies determines the result:

    - If both runs read the same data file: False.
    - If both runs set `data.identity`: True if the two values differ, else False.
    - If a run reads a data file, or the user's Python file: False.
    - If the runs use different data sets: True if both data sets are built-in, else False.
    - If the runs use the same data set: True if its samples are drawn from the seed and the two seeds differ, else
      False.
    """
    a, b = first.experiment.data, other.experiment.data
    if a.get("file") and a.get("file") == b.get("file"):
        return False
    if "identity" in a and "identity" in b:
        return bool(a["identity"] != b["identity"])
    if any("path" in data or "file" in data for data in (a, b)):
        return False
    if a["name"] != b["name"]:
        return not any(is_users(registry.chosen(registry.STREAMS, data)) for data in (a, b))
    seeds = {run.experiment.data.get("seed", run.experiment.seed) for run in (first, other)}
    return registry.chosen(registry.STREAMS, a).drawn_from_seed is True and len(seeds) == 2


def on_the_same_data(runs: Sequence[Finished]) -> list[list[Finished]]:
    """Divide the runs into classes: runs of two different classes have no sample in common."""
    classes: list[list[Finished]] = []
    for run in runs:
        near = [c for c in classes if not all(disjoint(run, member) for member in c)]
        classes = [c for c in classes if c not in near] + [[member for c in near for member in c] + [run]]
    return classes


def lost(runs: Sequence[Finished], delta: float) -> tuple[PrivacyLoss, bool]:
    """Return the privacy loss of publishing all runs of a list, and whether the samples of these runs can be matched.

    Samples can be matched if sample k of one run is known to be sample k of every other run. With `privacy.adjacency` =
    one-round or one-agent, rounds or agents take the place of samples.

    Args:
        runs: runs that may have samples in common.
        delta: the δ of the proven epsilon.

    Raises:
        Unproven: no privacy loss is proven for one of the runs, or for all runs together.
    """
    for run in runs:
        if because := run.unproven_because:
            raise Unproven(f"{run.place}: {because}")
    by_things: dict[Hashable, Cost] = {}
    for run in runs:
        try:
            things, cost = run.cost
        except ValueError as error:
            raise Unproven(f"{run.place}: {error}") from error
        by_things[things] = composed([by_things[things], cost]).settled() if things in by_things else cost
    if len(by_things) > 1 and (because := UNMAPPED[runs[0].experiment.privacy.adjacency]):
        raise Unproven(because)
    cost = whole(list(by_things.values()))
    if rho := sum(tuning.mu**2 / 2 for tuning in {run.tuning for run in runs} if tuning):
        tuning = cost._replace(pure=np.inf + cost.pure, rho=np.full_like(cost.rho, rho), is_gaussian=True, distance=0)
        cost = composed([cost, tuning.settled()]).settled()
    return cost.loss(delta), len(by_things) == 1


def text(runs: Sequence[Finished], delta: float | None) -> str:
    """Return the table and the remarks that `mpinodes spent` prints.

    Args:
        runs: the runs.
        delta: the δ of the proven epsilon; None means the smallest δ of the runs.

    Raises:
        BadInput: the runs have different values of `privacy.adjacency`.
    """
    loss, notes, delta = in_all(runs, delta)
    last = f"all {len(runs)} together" if len(runs) > 1 else "together"
    rows = [*((str(run.place), run.summary.privacy.network) for run in runs), (last, proven(loss))]
    width = max(28, *(len(who) for who, _ in rows))
    lines = [f"{'privacy loss of the network, ε':{width}} {'proven pure':>12} {'proven at δ':>12}"]
    for who, p in rows:
        rule = f"   by {p.rule}" if p.rule != "unproven" else ""
        lines.append(f"{who:{width}} {number(p.proven_pure):>12} {number(p.proven):>12}{rule}")
    adjacency = runs[0].experiment.privacy.adjacency
    remarks = " ".join([f"δ = {delta:g} for all runs together, adjacency {adjacency}.", *notes])
    return "\n".join([*lines, *textwrap.wrap(remarks, 100, break_on_hyphens=False, break_long_words=False)])


def in_all(runs: Sequence[Finished], delta: float | None) -> tuple[PrivacyLoss, list[str], float]:
    """Return three values: the privacy loss of publishing all runs, sentences about this loss, and the δ of this loss.

    If no privacy loss is proven, the first value is `UNPROVEN`, and one of the sentences gives the reason.

    Args:
        runs: the runs.
        delta: the δ of the proven epsilon; None means the smallest δ of the runs.

    Raises:
        BadInput: the runs have different values of `privacy.adjacency`.
    """
    delta = min(run.experiment.privacy.delta for run in runs) if delta is None else delta
    adjacencies = {run.experiment.privacy.adjacency: run.place for run in reversed(runs)}
    if len(adjacencies) > 1:
        (a, first), (b, second) = list(adjacencies.items())[:2]
        raise BadInput(f"{first} and {second} differ in privacy.adjacency ({a}, {b}): their ε are not comparable")
    notes = []
    try:
        once, again = counted_once(runs)
        if again:
            named = ", ".join(str(run.place) for run in again)
            notes.append(f"These runs repeat another run bit for bit, and are counted once: {named}.")
        classes = on_the_same_data(once)
        losses = [lost(c, delta) for c in classes]
        loss = max((loss for loss, _ in losses), key=lambda loss: np.inf if np.isnan(loss.epsilon) else loss.epsilon)
        loss = loss._replace(pure=float(np.max([loss.pure for loss, _ in losses])))  # nan if a pure loss is nan
        if len(classes) > 1:
            notes.append(f"The runs use {len(classes)} data sets with no sample in common, so the largest loss counts.")
        if any(len(c) > 1 and by_sample for c, (_, by_sample) in zip(classes, losses, strict=True)):
            unit = UNITS[next(iter(adjacencies))]
            notes.append(f"On the same data, losses are added up {unit} by {unit}.")
        if not all(by_sample for _, by_sample in losses):
            notes.append("If the samples of two runs cannot be matched, each run counts with its worst sample.")
        if any("identity" not in run.experiment.data and "file" in run.experiment.data for run in runs):
            notes.append("If data.identity is not set, all data files count as the same data in an unknown order.")
    except Unproven as error:
        loss = UNPROVEN
        notes.append(f"Nothing is proven: {error}.")
    if any(run.summary.privacy.key == "rehearsal" for run in runs):
        notes.append("Not private as run: anyone with the seeds can regenerate the noise (use noise.entropy=os).")
    tuned = [(run, tuning) for run in runs if (tuning := run.summary.privacy.tuning) and tuning.mode != "public"]
    covered = sum(run.tuning is not None for run, _ in tuned)
    share = f" for {covered} of {len(tuned)} tuned runs" if covered < len(tuned) else ""
    if covered:
        rests = f", as privacy.tuning states it: {UNCONFIRMED}" if any(tuning.stated for _, tuning in tuned) else ""
        notes.append(f"The cost of choosing settings by mpinodes tune is included{share}{rests}.")
    elif tuned:
        notes.append("The cost of choosing settings by mpinodes tune is not included.")
    conditions = {condition(run.summary.checked) for run in runs} - {""}
    notes += [f"The proof is {condition}." for condition in sorted(conditions)]
    return loss, [*notes, FIXED_BEFOREHAND], delta
