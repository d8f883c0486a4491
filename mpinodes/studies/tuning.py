"""Tune the settings of an experiment at a fixed proven ε: do trials, which are the runs of a study, and keep the best.

The settings of the trials are chosen at random, before the first trial, without looking at the data. Trials are scored
on held-out training samples or on a public file. The test samples of the experiment are never read.
"""

from __future__ import annotations

import filecmp
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from math import isinf, sqrt
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tomli_w

from mpinodes.config.building import build
from mpinodes.config.compose import compose
from mpinodes.config.own_files import tag_of
from mpinodes.core.asked import Tree, merge, nested
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import Noise, Tuning
from mpinodes.core.parts import Setup
from mpinodes.core.seeds import Draws, Purpose
from mpinodes.data import Source
from mpinodes.data.source import listed
from mpinodes.evaluation.gathered import Labelled
from mpinodes.finished.runs import RUNS, summary_of
from mpinodes.presentation.findings import marks
from mpinodes.privacy.curves import gdp_epsilon, gdp_mu
from mpinodes.runlog.directories import write_text
from mpinodes.runlog.reader import load
from mpinodes.studies import sweep
from mpinodes.studies.plans import PlannedRun
from mpinodes.studies.study import Study, flat

HEAD = "# Written by mpinodes tune"
Mode = Literal["public", "private", "accounted"]
HELD_OUT = 0.25  # the share of the training samples on which trials are scored
SEEDS = 3  # runs of each trial; in mode "accounted" there is one run, because each run costs privacy
SHARE = 0.5  # the share of the squared GDP parameter of the budget that tuning may use in mode "accounted"
STEPS, SIZES, ROUNDS = (1.0, 0.3, 3.0), (1.0, 0.5, 2.0), (1.0, 0.3)  # factors of the settings of the experiment
FIXED = ("privacy.budget", "privacy.delta", "privacy.adjacency", "data.train", "data.file", "data.facts", "data.labels")
WORDS = {
    "public": "on a file that is stated to be public; tuning costs no privacy",
    "private": "on the private data; tuning is not included in ε",
    "accounted": "on the private data; ε includes tuning",
}


@dataclass(frozen=True)
class Tuned:
    """Hold the outcome of tuning; as text, it is the output of `mpinodes tune`.

    Attributes:
        output: the experiment file with the best settings.
        mode: where trials were scored, and whether they cost privacy.
        settings: the best settings, by dotted key.
        scores: the score of each trial: an accuracy, or a root mean squared error with a minus sign; nan: it failed.
        cost: a text on what tuning cost: runs, seconds and ε.
        study: the directory of the trials.
        others: in mode "accounted", the number of other trials in this directory, whose cost no ε includes.
    """

    output: Path
    mode: Mode
    settings: dict[str, Any]
    scores: list[float]
    cost: str
    study: Path
    others: int = 0

    def __str__(self) -> str:
        best = np.nanmax(self.scores)
        settings = ", ".join(f"{key} = {value}" for key, value in self.settings.items())
        return "\n".join([
            f"{len(self.scores)} trials ({np.isnan(self.scores).sum()} failed) {WORDS[self.mode]}",
            f"  best: {settings}: score {abs(best):.4g} (the first trial, with the first value of each "
            f"list, or else the settings as given: {abs(self.scores[0]):.4g})",
            f"  cost: {self.cost}",
            f"  trials: {self.study}",
            *[f"  WARNING: ε does not include {self.others} other trials in this directory"] * (self.others > 0),
            f"{self.output}: run this experiment: mpinodes run --lockstep {self.output}",
        ])  # fmt: skip


def tune(file: str | Path, words: Sequence[str], mode: Mode, trials: int, public: str, output: Path) -> Tuned:
    """Do trials, and write an experiment file with the settings of the trial with the best score.

    Args:
        file: the experiment, with a privacy budget.
        words: "key=a,b,c" lists the values that the trials may use; "key=value" sets a value. Without lists, the trials
            change the step, the clip, the radius and the rounds.
        mode: "public", "private" or "accounted".
        trials: the number of trials, which does not depend on their results.
        public: in mode "public", the file on which the trials are run.
        output: the file to write.

    Raises:
        BadInput: the experiment cannot be tuned in this mode, or all trials fail.
    """
    begun, given = time.perf_counter(), Study.of([file, *words])
    base: Tree = {key: value for key, value in given.tree.items() if key not in ("study", "output")}
    first = {key: value for axis in given.axes for key, value in axis.points[0].items()}
    if fixed_key := next((key for key in first if key == "seed" or key.startswith(FIXED)), ""):
        raise BadInput(f"{fixed_key}: all trials have the same ε and the same samples: give one value")
    setup = compose(merge(base, nested(first)), None)
    if not given.axes:
        given = Study.of([file, *words, *_space(setup)])
    points = given.points()
    order = np.random.default_rng(setup.experiment.seed).permutation(len(points) - 1)[: trials - 1] + 1
    chosen = [points[k].settings for k in (0, *order.tolist())]
    budget, delta = setup.experiment.privacy.budget, setup.experiment.privacy.budget_delta
    if (earlier := setup.experiment.privacy.tuning) and earlier.mode != "public":
        reason = "the settings were tuned on the private data, and the ε of another tuning would omit that"
        raise BadInput(f"privacy.tuning: {reason}: tune the experiment from which this one was made")
    if budget is None:
        raise BadInput("privacy.budget.epsilon is missing: set a budget, so that all trials have the same proven ε")
    common: Tree = {"data": {"validation": HELD_OUT}}
    final, part = budget.epsilon, 0.0
    if mode == "public":
        train = base.get("data", {}).get("train", 1)
        common = {"data": {"file": public} | ({} if train != 1 else {"train": 1 - HELD_OUT})}
    elif mode == "accounted":
        _require_counts(setup)
        mu = gdp_mu(budget.epsilon, delta)
        part, final = mu * sqrt(SHARE / len(chosen)), gdp_epsilon(mu * sqrt(1 - SHARE), delta)
        common |= {"privacy": {"budget": {"epsilon": gdp_epsilon(part, delta)}}, "record": {"decisions": True}}
    trial = compose(merge(base, nested(first), common), None)  # so that a mistake in all trials is reported in a line
    if mode == "public":
        pairs = product(trial.stream.source_files, setup.stream.source_files)
        if any(filecmp.cmp(*pair, shallow=False) for pair in pairs):
            raise BadInput(f"--public {public}: this is a file of the private data: use --private or --accounted")
        there, own = ((s.labelled() or s.real_valued())["train"].columns for s in (trial.stream, setup.stream))
        if there and own and there != own:
            reason = f"the columns are {listed(there)}, but {listed(own)} in the private data"
            raise BadInput(f"--public {public}: {reason}: give both files the same columns in the same order")
    cases = [nested(settings) | {"name": f"trial-{k}"} for k, settings in enumerate(chosen)]
    fixed = {key: value for key, value in flat(base) if key not in {key for case in chosen for key in case}}
    tree = merge(nested(fixed), common, {"comparator": False})
    place = Path("studies", f"tune-{mode}-{Path(file).stem}")
    seeds = {} if mode == "accounted" else {"seeds": SEEDS}
    swept = sweep(tree | {"study": {"cases": cases} | seeds, "name": "tune", "output": {"dir": str(place)}})
    assert swept is not None
    if part and not setup.experiment.secret and len({plan.noise for plan in swept.plans}) < len(swept.plans):
        raise BadInput(f"{place}: two trials have the same noise: remove equal trials from the lists")
    by_trial: dict[str, list[float]] = {str(case["name"]): [] for case in cases}
    for plan in swept.plans:
        by_trial[plan.experiment.name].append(_score(place / RUNS / plan.name, plan, part))
    scores = [float(np.mean(of_seeds)) for of_seeds in by_trial.values()]
    if np.isnan(scores).all():
        raise BadInput(f"{place}: all trials failed: {next(iter(swept.failed.values()), 'no score is finite')}")
    best = chosen[int(np.nanargmax(scores))]
    others = {run.name for run in (place / RUNS).iterdir()} - {plan.name for plan in swept.plans} if part else ()
    tuning: Tree = {"mode": mode, "trials": len(chosen), "mu": part * sqrt(len(chosen))}
    tuning["adjacency"] = setup.experiment.privacy.adjacency
    if part and not others:
        trials_of = " ".join(sorted(f"{plan.name} {plan.noise}" for plan in swept.plans))
        trials_of += os.urandom(16).hex() if setup.experiment.secret else ""  # the same settings have other noise
        tuning["tag"] = tag_of(setup, Tuning(**tuning, tag=sha256(trials_of.encode()).hexdigest()))
    tuned = merge(base, nested(best), {"privacy": {"budget": {"epsilon": final}, "tuning": tuning}})
    done = f" ({swept.before} done before, which are not in the seconds)" if swept.before else ""
    with_tuning = f", with tuning {budget.epsilon:.4g}" if mode == "accounted" else ""
    cost = f"{len(swept.plans)} runs{done}: {time.perf_counter() - begun:.0f} s, {swept.cpu:.0f} CPU seconds; "
    cost += f"budget of the final run ε = {final:.4g}{with_tuning}"
    write_text(output, f"{HEAD}: {len(chosen)} trials {WORDS[mode]}.\n# {cost}.\n{tomli_w.dumps(tuned)}")
    return Tuned(output, mode, best, scores, cost, place, len(others))


def _space(setup: Setup) -> list[str]:
    """Return the lists of values that trials may use by default, as words "key=a,b,c"; the first value is as given."""
    e = setup.experiment
    steps = {key: value for key, value in e.step.items() if isinstance(value, float) and value > 0}
    lists = {f"step.{key}": [value * factor for factor in STEPS] for key, value in steps.items()}
    if not isinf(e.clip):
        lists["privacy.clip"] = [e.clip * factor for factor in SIZES]
    lists["problem.radius"] = [e.problem.radius * factor for factor in SIZES]
    if setup.stream.rounds is None:
        lists["rounds"] = [*dict.fromkeys(max(2, round(e.rounds * factor)) for factor in ROUNDS)]
    if rate := e.data.get("rate"):
        lists["data.rate"] = [rate, rate / 2]
    return [f"{key}={','.join(f'{value:.6g}' for value in values)}" for key, values in lists.items()]


def _require_counts(setup: Setup) -> None:
    """Reject experiments for which the cost of trials, noised counts and the final run is not known to be that of GDP.

    Raises:
        BadInput: the message names the key to change.
    """
    e, refused = setup.experiment, ""
    if not setup.algorithm.noises_gradients or setup.mechanism.pure:
        refused = "algorithm.name: only methods that add Gaussian noise to gradients publish models, as dp-dsgd"
    elif e.sampling != "none" or e.privacy.budget_delta == 0 or e.noise != Noise(entropy=e.noise.entropy):
        refused = "leave out data.sampling, noise.key and noise.backend, and set a δ above 0"
    elif e.privacy.adjacency not in ("one-sample", "zero-out") or not (setup.stream.has_labels or setup.stream.classes):
        refused = "counts of correct answers need labels or classes, and an adjacency that changes one sample"
    elif because := setup.stream.unproven_because:
        refused = f"nothing is proven: {because}"
    if refused:
        raise BadInput(f"--accounted: {refused}; or use --private or --public")


def _score(directory: Path, plan: PlannedRun, mu: float) -> float:
    """Return the score of a run: its accuracy, or its root mean squared error with a minus sign; nan if it failed.

    If `mu` is above 0, each agent counts the correct answers of its own model on its own held-out samples, and releases
    the count with Gaussian noise of standard deviation 1/mu. A sample changes one count by at most 1, so a count is
    mu-GDP. The score is the sum of the noised counts over the number of held-out samples. Exact counts are not used.
    """
    if (summary := summary_of(directory)) is None:
        return np.nan
    if not mu:
        (_, share), (_, error) = marks(summary, "accuracy"), marks(summary, "rmse")
        return np.nan if share is None and error is None else -error if error is not None else float(share or 0.0)
    setup = build(plan.experiment)
    stream: Any = setup.stream
    source, decisions = stream.labelled()["test"], load(directory)["decision"].to_numpy()[-1]
    key, count = os.urandom(32) if plan.experiment.secret else setup.noise_key, 0.0
    for agent, x in enumerate(decisions):
        if len(rows := stream.held_by(agent)):
            own = Source(source.targets[rows], source.dimension, source.features(rows).__getitem__)
            count += Labelled(own, setup.loss, stream.classes).marks(x[:, None])[0] * len(rows)
        count += Draws(key, Purpose.COUNT, agent).at(0).normal(0, 1 / mu)
    return float(count / len(source.targets))
