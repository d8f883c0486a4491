"""Compare dp-dsgd fairly: python scripts/fairness/fairness.py COMMAND OUT [--quick] [--workers N].

COMMAND is one of

    same-law       dp-dsgd of 8 agents on a complete graph beside one curator with √8 times the noise. Both start at the
                   same point and mix in every step, so they have the same law: the accuracies must agree.
    baselines      dp-dsgd on two graphs beside its baselines, at proven ε = 2 and 8.
    search         choose the steps, batches and decisions of the next command, on another seed.
    equal-epsilon  six methods on three data sets at equal proven ε of the network: a table and a figure.

Each command does the study COMMAND.toml beside this file; finished runs are not done again. Data sets are found in the
cache of mpinodes, or downloaded. --quick does few short runs on data that come with mpinodes.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from mpinodes.config.compose import compose
from mpinodes.core.asked import Tree, flat, merge
from mpinodes.core.experiment import Experiment
from mpinodes.presentation.plots import AGENT, AVERAGE, CLAIM, NETWORK, STYLE
from mpinodes.studies.pools import one_by_one, processes
from mpinodes.studies.study import Study
from mpinodes.studies.sweeping import sweep
from mpinodes.summary.summary import Summary

HERE = Path(__file__).parent
DECISIONS = {"mean": "accuracy.test", "last": "accuracy_last_decision.test"}
Runs = list[tuple[Experiment, Summary]]
mpl.rcParams.update(STYLE | {"axes.titlesize": 10, "legend.fontsize": 8})


def done(tree: Tree, place: Path, workers: int) -> Runs:
    """Do a study, and return the experiment and the summary of every run.

    Raises:
        RuntimeError: a run failed.
    """
    study = Study.of([merge(tree, {"output": {"dir": str(place)}})])
    if workers == 1:
        swept = sweep(study, one_by_one, one_by_one)
    else:
        with processes(workers) as pool:
            swept = sweep(study, pool, pool)
    if swept.failed:
        raise RuntimeError("; ".join(f"{name}: {reason}" for name, reason in swept.failed.items()))
    runs = [(plan.experiment, Summary.read(place / "runs" / plan.name)) for plan in swept.plans]
    for e, summary in runs:
        if budget := e.privacy.budget:
            epsilon = summary.privacy.network.proven
            assert epsilon is not None
            assert 0.99 * budget.epsilon <= epsilon <= budget.epsilon * (1 + 1e-9), (e.name, epsilon)
    return runs


def study_of(command: str, quick: bool) -> Tree:
    """Return the study of a command; its quick form has few seeds and rounds, on data that come with mpinodes."""
    tree: Tree = tomllib.loads((HERE / f"{command}.toml").read_text())
    if not quick:
        return tree
    tree["study"]["seeds"] = 2
    if command != "equal-epsilon":
        data = {"name": "digits", "rate": 0.2, "partition": "even"}
        for case in tree["study"]["cases"]:
            case.pop("data", None)
        if command == "baselines":  # one ε
            tree["study"] |= {"grid": {"privacy": {"budget": {"epsilon": [2]}}}, "exclude": []}
        small = {"rounds": 10, "data": data, "problem": {"gradient_noise": 0.0}}
        return merge(tree, small | {"step": {"value": 1.0}})
    tree["study"]["cases"] = [case for case in tree["study"]["cases"] if case["data"]["name"] == "digits"]
    tree["study"]["grid"] = {"privacy": {"budget": {"epsilon": [8]}}}
    return tree


def spread(values: list[float]) -> str:
    """Return the mean of accuracies in percent, and their standard deviation."""
    return f"{100 * np.mean(values):.2f} ± {100 * np.std(values, ddof=1):.2f}"


def accuracies(runs: Runs, key: Callable[[Experiment], Any], decision: str = "last") -> dict[Any, list[float]]:
    """Return the test accuracies of runs by a key, over the seeds."""
    grouped: dict[Any, list[float]] = defaultdict(list)
    for e, summary in runs:
        value = summary.value(DECISIONS[decision])
        assert value is not None
        grouped[key(e)].append(value)
    return dict(grouped)


def same_law(out: Path, quick: bool, workers: int) -> int:
    """Return 0 if the mean accuracy of 8 agents is within half a point of that of the curator, else 1."""
    by_case = accuracies(done(study_of("same-law", quick), out / "same-law", workers), lambda e: e.name)
    for name, values in by_case.items():
        print(f"{name}: test accuracy {spread(values)} %, {len(values)} seeds")
    apart = 100 * abs(float(np.mean(by_case["8-agents"]) - np.mean(by_case["curator"])))
    print(f"8 agents and the curator: {apart:.2f} points apart")
    return int(apart > 0.5)


def baselines(out: Path, quick: bool, workers: int) -> int:
    """Print a table of the baselines."""
    runs = done(study_of("baselines", quick), out / "baselines", workers)
    by_case = accuracies(runs, lambda e: (e.name, e.privacy.budget.epsilon if e.privacy.budget else np.inf))
    budgets = sorted({epsilon for _, epsilon in by_case})
    print("| | " + " | ".join(f"ε = {epsilon:g}" for epsilon in budgets) + " |")
    print("|---|" + "---|" * len(budgets))
    for name in dict.fromkeys(name for name, _ in by_case):
        row = [spread(by_case[name, epsilon]) if (name, epsilon) in by_case else "" for epsilon in budgets]
        print(f"| {name} | " + " | ".join(row) + " |")
    return 0


METHODS: dict[str, Tree] = {
    "dp-dsgd-public": {"algorithm": {"name": "dp-dsgd"}},
    "dp-dsgd-secret": {"algorithm": {"name": "dp-dsgd"}, "data": {"sampling": "poisson"}},
    "dola": {"algorithm": {"name": "dola"}},
    "dpsda-c": {"algorithm": {"name": "dpsda-c"}},
    "dpps": {"algorithm": {"name": "dpps"}},
    "two-stage-gaussian": {"algorithm": {"name": "two-stage-gaussian", "gradient_rounds": 25}},
}
DATA = {"adult": "Adult", "mnist-6-8": "MNIST, 6 against 8", "digits": "digits, 6 against 8"}
STEPS, MODULI, CLIPS, RATES = (0.1, 0.5, 2.0, 8.0), (0.003, 0.01, 0.05, 0.2, 1.0), (1.0,), (0.1, 0.3)
SEARCHED, SEEDS = 2.0, [100]  # ε and seeds with which steps and batches are chosen


def tried(base: Tree, sets: Iterable[str]) -> Iterator[Tree]:
    """Yield the cases of the search: every method with several steps and batches on every data set."""
    for data in sets:
        for name, method in METHODS.items():
            whole = method["algorithm"]["name"] == "two-stage-gaussian"
            shown: list[Tree] = [{"batch": "all"}]
            if name == "dp-dsgd-secret":
                shown = [{"rate": rate} for rate in RATES]
            elif not whole:
                own = merge(base, method, {"data": {"name": data, "batch": "all"}, "privacy": {"clip": 1.0}})
                shown.append({"batch": min(compose(own, None).samples) // base["rounds"]})  # every sample once
            for of_data in shown:
                for clip in CLIPS:
                    for step in MODULI if whole else STEPS:
                        steps = (
                            {"algorithm": {"modulus": step}} if whole else {"step": {"kind": "constant", "value": step}}
                        )
                        keys = {"data": {"name": data, **of_data}, "privacy": {"clip": clip}}
                        yield {"name": name} | merge(method, keys, steps)


def search(out: Path, quick: bool, workers: int) -> int:
    """Print the cases of the best mean accuracy over the seeds of the search, as they stand in equal-epsilon.toml."""
    base = study_of("equal-epsilon", False)
    del base["study"]
    cases = [*tried(base, ["digits"] if quick else DATA)]
    if quick:  # a case of each method
        cases = [*{case["name"]: case for case in cases}.values()]
    numbered = [case | {"name": f"{k}"} for k, case in enumerate(cases)]
    tree = merge(base, {"privacy": {"budget": {"epsilon": SEARCHED}}}) | {"study": {"seeds": SEEDS, "cases": numbered}}
    runs, chosen = done(tree, out / "search", workers), dict[tuple[str, str], tuple[float, Tree]]()
    for decision in DECISIONS:
        for k, values in accuracies(runs, lambda e: int(e.name), decision).items():
            case, mean = cases[k], float(np.mean(values))
            place = case["name"], case["data"]["name"]
            if place not in chosen or mean > chosen[place][0]:
                chosen[place] = mean, case | {"name": f"{place[1]}.{case['name']}.{decision}"}
    for mean, case in chosen.values():
        lines = [f"{key} = {json.dumps(value)}" for key, value in flat(case)]
        print("\n".join(["", f"[[study.cases]]  # {100 * mean:.1f} % in the search", *lines]))
    return 0


def equal_epsilon(out: Path, quick: bool, workers: int) -> int:
    """Print the table of all methods, and draw the figure."""
    runs = done(study_of("equal-epsilon", quick), out / "equal-epsilon", workers)
    by_case: dict[tuple[str, str, float], list[float]] = {}
    for decision in DECISIONS:
        judged = [(e, s) for e, s in runs if e.name.endswith(f".{decision}")]
        by_case |= accuracies(judged, lambda e: (*e.name.split(".")[:2], e.privacy.budget.epsilon), decision)
    budgets = sorted({epsilon for *_, epsilon in by_case})
    sets = [data for data in DATA if any(data == of for of, *_ in by_case)]
    figure = Figure(figsize=(4 * len(sets), 3.8), layout="constrained")
    panels = figure.subplots(1, len(sets), squeeze=False)[0]
    for axes, data in zip(panels, sets, strict=True):
        print(f"\n| {DATA[data]} | " + " | ".join(f"ε = {epsilon:g}" for epsilon in budgets) + " |")
        print("|---|" + "---|" * len(budgets))
        for name, colour in zip(METHODS, (AVERAGE, NETWORK, CLAIM, "#CC79A7", AGENT, "black"), strict=True):
            values = [by_case[data, name, epsilon] for epsilon in budgets]
            print(f"| {name} | " + " | ".join(map(spread, values)) + " |")
            means, deviations = (100 * of(values, axis=1) for of in (np.mean, np.std))
            axes.errorbar(budgets, means, deviations, color=colour, marker="o", ms=3, capsize=2, label=name)
        axes.set(xscale="log", title=DATA[data], xlabel="proven ε of the network, δ = 1e-5, zero-out")
        axes.set_xticks(budgets, [f"{epsilon:g}" for epsilon in budgets])
        axes.minorticks_off()
    panels[0].set_ylabel("test accuracy, %")
    figure.legend(*panels[-1].get_legend_handles_labels(), loc="outside lower center", ncols=len(METHODS))
    figure.savefig(out / "equal-epsilon.png", dpi=90)
    return 0


COMMANDS = {"same-law": same_law, "baselines": baselines, "search": search, "equal-epsilon": equal_epsilon}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("out", type=Path, metavar="OUT", help="where the studies and the figure are stored")
    parser.add_argument("--quick", action="store_true", help="few short runs, to see that the script works")
    parser.add_argument("--workers", type=int, default=1, help="how many runs are done at the same time")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    return COMMANDS[args.command](args.out, args.quick, args.workers)


if __name__ == "__main__":
    sys.exit(main())
