"""Write the text that a run prints at its end, from the content of summary.json alone."""

from __future__ import annotations

from math import inf, nan
from pathlib import Path
from typing import NamedTuple

from mpinodes.metrics.built_in import DATA
from mpinodes.presentation import run_warnings
from mpinodes.presentation.findings import compared
from mpinodes.presentation.privacy_words import lines
from mpinodes.runlog.progress import warn
from mpinodes.summary.summary import BoundSummary, NoiseFree, ShownMetric, Summary, WorthSummary
from mpinodes.summary.timing import PARTS

NOT_REPRODUCIBLE = "Not reproducible: no seed regenerates this noise."
BOUNDED = {
    "network_regret": "network's regret",
    "network_regret_average_iterate": "running average's regret",
    "agent_regret": "worst agent's regret",
    "decision_error": "mean decision's error",
    "agent_decision_error": "worst agent's error",
    "optimality_gap": "worst agent's gap",
}
JUDGED = ("optimality_gap", "decision_error", "agent_decision_error")  # the metrics that judge an offline method


def text(summary: Summary, directory: Path) -> str:
    """Return the text that a run prints at its end.

    If an error occurs, the function writes a warning, and the text only names the run directory.
    """
    s = summary
    try:
        timing = [(part.replace("_", "-"), getattr(s.timing, part)) for part in PARTS]
        felt = ", ".join(f"{part} {seconds:.1f}" for part, seconds in timing if seconds >= 0.05)
        page = [f"{s.name}: {headline(s)}", f"  {setting(s)}: {speed(s)}", *(f"  {words}" for words in conditions(s))]
        page += [f"  {s.timing.total:.1f} s in all: {felt}"] if s.timing else []
        silent = quiet.summary if (quiet := NoiseFree.read(directory)) else None
        rows = [row for row, bound in zip(bounds(s), s.bounds, strict=True) if bound.applies]
        page += ["", *(f"  {row.label:42}{row.value}" for row in [*measured(s, silent), *rows])]
        if idle := len(s.bounds) - len(rows):
            page += [f"  {'theorems that do not apply':42}{idle:>6}    (report.html and summary.json say why)"]
        page += [f"  WARNING: {sentence}" for sentence in run_warnings.sentences(s)]
        page += ["", *lines(s.privacy, s.checked), "", *([] if s.reproducible else [f"  {NOT_REPRODUCIBLE}"])]
        if s.privacy.noise and not silent and not s.partial:
            page += [f"  the same run without noise: mpinodes report --noise-free {directory}"]
        page += [f"  page: {file}"] if (file := directory / "report.html").exists() else []
        return "\n".join([*page, f"  run: {directory}"])
    except Exception as error:
        warn(directory, "the text with the results cannot be written", error)
        return f"  run: {directory}"


# ------------------------------------------------------------------------------------------------ what was run, and how
def headline(s: Summary) -> str:
    """Return a line of text with the algorithm, the data, and how the data are divided among the agents."""
    return f"{s.algorithm} on {s.data}{'' if s.partition == 'shared' else f', {s.partition} shares'}"


def agents(s: Summary) -> str:
    """Return the number of agents as text, such as "7 agents"."""
    return f"{s.agents} agent{'s' * (s.agents != 1)}"


def setting(s: Summary) -> str:
    """Return a line of text with the numbers of agents, rounds and coordinates, the graph, and the seeds."""
    over = "in every round" if s.connectivity == 1 else f"over any {s.connectivity} rounds"
    graph = f"{s.topology} (connected {over})" if s.connectivity else s.topology  # 0: a baseline without links
    why = "the run ended early" if s.partial else "all agents had settled"
    early = f" (of {s.rounds_asked}: {why})" if s.rounds < s.rounds_asked else ""
    seeds = f"seeds {s.seeds[0]} to {s.seeds[-1]}" if s.seeds else f"seed {s.seed}"
    return f"{agents(s)}, {graph}, {s.rounds} rounds{early}, d = {s.dimension}, {seeds}"


def speed(s: Summary) -> str:
    """Return a text with the seconds that the run took and its rounds per second."""
    return f"{nan if s.seconds is None else s.seconds:.2f} s, {s.rounds_per_second or nan:.3g} rounds/s"


def conditions(s: Summary) -> list[str]:
    """Return sentences on unusual conditions of a run: faults of links or agents, and delayed or two-point feedback."""
    sentences, parts = [], []
    if faults := s.faults:
        arrived = max(1, faults.sent - faults.lost)
        if faults.asked.loss:
            parts.append(f"{faults.lost / max(1, faults.sent):.1%} of {faults.sent} messages lost")
        if faults.late:
            mean = faults.rounds_late / arrived
            parts.append(f"{faults.late / arrived:.1%} of the received messages late, by {mean:.2g} rounds on average")
        if faults.asked.churn:
            parts.append(f"agents away {faults.rounds_away / faults.agent_rounds:.1%} of the time")
        sentences.append(f"faults: {', '.join(parts) or 'none happened'}; {faults.weights}")
    if feedback := s.feedback:
        parts = []
        if feedback.points:
            falls = f" down to {feedback.last_radius:.3g}" if feedback.last_radius != feedback.radius else ""
            parts.append(
                f"two-point feedback: {feedback.points} loss values per round, at distance {feedback.radius:g}{falls} "
                "from the decision in public directions; losses and regret are those of these points"
            )
        if late := feedback.delay:
            parts.append(
                f"feedback {late} round{'s' * (late > 1)} late: applied with the step size of the round in which it "
                "arrives; the noise is calibrated to this step size"
            )
        sentences.append(f"{'; '.join(parts)}; no theorem of mpinodes covers this feedback")
    return sentences


# ------------------------------------------------------------------------------------------------------------- results
class Row(NamedTuple):
    """A result of a run, as it is printed.

    Attributes:
        label: the name of the result.
        value: the value as text, with its spread and remarks.
        key: the key in summary.json.
    """

    label: str
    value: str
    key: str


def measured(s: Summary, silent: WorthSummary | None) -> list[Row]:
    """Return the results of a run as rows of text: each metric, then missing results, then local solvers.

    - The row of a missing result (the accuracy, or the best fixed decision) gives the reason.
    - The row on local solvers, which minimize agents' losses, gives the number of their steps.

    Args:
        s: the summary of the run.
        silent: the results of the same run without noise; None if these results are unknown.
    """
    rows = [_row(s, metric, silent) for metric in s.metrics]
    for label, key in (("accuracy", "accuracy_left_out"), ("best fixed decision, and regret", "comparator_left_out")):
        if why := getattr(s, key):
            rows.append(Row(label, f"      none: {why}", key))
    for key, value in (s.model or {}).items():
        of, _, which = key.partition(".")
        shown = f"{value:>10.1%}" if of == "accuracy" else f"{value:>10.4g}"
        others = "; ".join(filter(None, ["model.npz", compared(s, None, key)]))
        of = of.replace("rmse", "RMSE")
        rows.append(Row(f"{of}, model of releases, {DATA[which]}", f"{shown}    ({others})", f"model.{key}"))
    if solver := s.solver:
        residual = solver.largest_residual
        reached = "to no gradient" if residual is None else f"to gradients of norm {residual:.1g}"
        shown = f"{solver.steps:10.3g}    (at most {solver.most_steps}, {reached})"
        failed = f"; {solver.unsolved} short of the tolerance {solver.tolerance:g}" if solver.unsolved else ""
        rows.append(Row("steps of a local solve", shown + failed, "solver.steps"))
    return rows


def _row(s: Summary, metric: ShownMetric, silent: WorthSummary | None) -> Row:
    key, variable, share = metric.key, metric.variable, metric.unit == "share"

    def number(value: float | None) -> str:
        return "none" if value is None else f"{value:.1%}" if share else f"{value:.4g}"

    value, by_agent = s.value(key), s.value(key.removesuffix("_mean")) if key.endswith("_mean") else None
    shown = f"{number(value):>10}"
    if (std := (s.spread or {}).get(f"{key}.std")) is not None:
        shown += f" ± {std:.1%}" if share else f" ± {std:.2g}"
    remarks = [*filter(None, [compared(s, silent, key)])]
    if by_agent and None not in by_agent:
        least, most = number(min(by_agent)), number(max(by_agent))
        if least != most:
            remarks.append(f"agents {least} to {most}")
    if value is not None and (losses := s.losses_in_a_round(variable)) > 1:
        remarks.append(f"{number(value / losses)} per loss")
    regret, certificate = s.value(variable), s.value("comparator.certificate")
    if "regret" in variable and isinstance(regret, float) and certificate is not None and abs(regret) <= certificate:
        remarks.append("0, within the comparator's certificate")
    if variable == "decision_norm" and not s.decomposable and s.agents > 1:
        remarks.append("assembled from all agents' blocks, so it may lie outside the feasible set")
    if variable == "comparator_value":
        within, value_per_round = s.value("comparator.certificate_per_round"), s.value("comparator.value_per_round")
        if within is None:
            remarks.append("no certificate: no lower bound on the loss is known")
        elif within >= (value_per_round or inf):
            remarks.append("its certificate is its own value: the only known lower bound on the loss is 0")
        else:
            remarks.append(f"within {number(within)}")
    shown += "".join(f"    ({remark})" for remark in remarks)
    if variable in JUDGED:
        shown += f"    of the {s.judged} decision"
    return Row(metric.label, shown, key)


def bounds(s: Summary) -> list[Row]:
    """Return a row of text for each bound of a theorem: the bound divided by the measured value.

    If the quotient is unknown, for example because the measured value is 0 or less, the row has the bound itself. If
    the bound is infinite, the row says so.
    """
    rows = []
    for place, bound in enumerate(s.bounds):
        if bound.value is None:
            shown = f"{'inf':>10}    no bound on"
        elif bound.times is not None:
            shown = f"{bound.times:10.3g}    times"
        elif bound.measured is None:
            shown = f"{bound.value:10.3g}    on"
        else:
            shown = f"{bound.value:10.3g}    (0 or less was measured) on"
        rest = "" if bound.applies else f"; does not apply: {bound.why_not}"
        key = f"bounds[{place}].{'value' if bound.times is None else 'times'}"
        rows.append(Row(bound.name, f"{shown} the {bounded(bound)}{rest}", key))
    return rows


def bounded(bound: BoundSummary) -> str:
    """Return the name of the quantity that a theorem bounds, such as "network's regret"."""
    return BOUNDED.get(bound.of, bound.label)
