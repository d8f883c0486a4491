"""The logger: takes the agents' rows as they come, and at the end says what the run cost and what it was worth."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from mpinodes.bounds import bounds
from mpinodes.config.compose import compose
from mpinodes.core import Bound, Diverged, Setup, Vector
from mpinodes.core.events import Events
from mpinodes.core.experiment import Experiment, log_spaced
from mpinodes.privacy.accountant import UNPROVEN, Accountant, PrivacyLoss, PrivacyLosses, groups
from mpinodes.results.comparator import Comparator, best
from mpinodes.results.progress import Progress
from mpinodes.results.record import DRAWN_ROUNDS, Record, versions, write_text
from mpinodes.results.regret import make_meter

Json = dict[str, Any]

NEGLIGIBLE = 1e-3  # of a regret


class Logger:
    """Follows one run; `take` every chunk of rows, then `finish`."""

    def __init__(self, parts: Setup, directory: Path, mpi: str) -> None:
        self._parts, self._directory = parts, directory
        e = parts.experiment
        self._meter = make_meter(parts, log_spaced(e.rounds))
        self._accountant = Accountant(groups(parts), shared=e.data["partition"] == "shared")
        self._versions = versions(mpi)
        write_text(directory / "experiment.toml", e.toml())
        attributes = {"experiment": e.toml(), "versions": self._versions, "topology": _drawing(parts)}
        words = parts.frame_width if e.record.transcript else 0
        self._record = Record(
            directory / "record.h5", parts.topology.agents, parts.dimension, attributes, e.record.decisions, words,
            training_loss=self._meter.has_training_loss, layout=parts.layout,
        )  # fmt: skip
        self._progress = Progress(directory, e.name, e.rounds)
        self._done, self._fitness = 0, 0.0
        self._training_loss: float | None = None
        self._start = time.perf_counter()

    def follow(self, chunks: Iterable[Vector]) -> None:
        """Take all chunks, each (agents, rounds, row), to the last."""
        try:
            for chunk in chunks:
                self.take(chunk)
        finally:
            self._seconds = time.perf_counter() - self._start
            self._progress.close()

    def take(self, rows: Vector) -> None:
        """Take the next rounds of every agent: (agents, rounds, row)."""
        estimates, events, frames = self._parts.layout.open(rows.transpose(1, 0, 2))
        self._refuse_divergence(estimates)
        rounds = self._meter.take(estimates)
        self._accountant.compose(events)
        optional = self._optional(estimates, frames)
        if rounds.training_loss is not None:
            optional["training_loss"] = rounds.training_loss
            self._training_loss = float(rounds.training_loss[-1])
        self._record.append(rounds.loss, rounds.consensus_error, events, **optional)
        self._done += len(estimates)
        self._fitness += float(rounds.loss.sum())
        self._progress.show(self._done, self._fitness / self._done)

    def _refuse_divergence(self, estimates: Vector) -> None:
        bad = ~np.isfinite(estimates).all(axis=2)
        if bad.any():
            round, agent = np.argwhere(bad)[0].tolist()
            raise Diverged(
                f"the estimate of agent {agent} is not finite in round {self._done + round + 1}: the run diverges; "
                "smaller steps or noise, or a bounded problem.set"
            )

    def _optional(self, estimates: Vector, frames: Vector) -> dict[str, Vector]:
        """What is recorded only on request, by variable."""
        record = self._parts.experiment.record
        found = {"decision": estimates} if record.decisions else {}
        if record.transcript:
            n = self._parts.topology.agents
            receiver = np.zeros((len(frames), n, n))
            for k in range(len(frames)):
                for j, i in self._parts.topology.edges(self._done + k + 1):
                    receiver[k, j, i] = 1
            found |= {"transcript": frames, "receiver": receiver}
        return found

    def finish(self) -> Json:
        """Complete record, summary and report; returns the summary."""
        self._meter.end()
        e, horizons = self._parts.experiment, self._meter.horizons
        comparators, dynamic = self._comparators()
        values, points = np.array([c.value for c in comparators]), np.array([c.point for c in comparators])
        regret = self._meter.total - values[:, None]
        losses = self._losses()
        along, each = ("horizon",), ("horizon", "agent")
        variables = {
            "network_regret": (along, regret[:, 0]),
            "network_regret_average_iterate": (along, regret[:, 1]),
            "agent_regret": (each, regret[:, 2:]),
            "average_fitness": (along, self._meter.total[:, 0] / horizons),
            "comparator_value": (along, values),
            "comparator_point": (("horizon", "coordinate"), points),
            "comparator_gap": (along, np.array([c.certificate for c in comparators])),
            "epsilon_claimed": (each, losses.claimed),
            "epsilon_claimed_network": (along, losses.claimed.max(axis=1)),
            "epsilon_proven_pure": (each, np.array([[loss.pure for loss in at] for at in losses.agents])),
            "epsilon_proven_pure_network": (along, np.array([loss.pure for loss in losses.network])),
            "epsilon_proven": (each, np.array([[loss.epsilon for loss in at] for at in losses.agents])),
            "epsilon_proven_network": (along, np.array([loss.epsilon for loss in losses.network])),
            "decision_last": (("horizon", "coordinate"), self._meter.last),
            "decision_mean": (("horizon", "coordinate"), self._meter.mean),
        }
        for name, found in self._meter.accuracy.items():
            variable = _accuracy(name)
            of_mean, of_last = found.mean(axis=2).T
            variables |= {variable: (along, of_mean), f"{variable}_last": (along, of_last)}
            if found.shape[2] > 1:
                variables |= {f"{variable}_agents": (each, found[:, 0])}
        if dynamic is not None:
            variables |= {
                "dynamic_regret": (along, self._meter.total[:, 0] - dynamic[0]),
                "path_length": (along, dynamic[1]),
            }
        if self._parts.algorithm.judged_by:
            least = comparators[-1].value / (self._done * self._parts.topology.agents)
            variables["optimality_gap"] = (each, self._meter.whole - least)
            judged, x = self._meter.judged, points[-1]
            variables["decision_error"] = (along, ((judged.mean(axis=1) - x) ** 2).sum(axis=1))
            variables["agent_decision_error"] = (each, ((judged - x) ** 2).sum(axis=2))
        proven = bounds(self._parts, horizons, points)
        variables |= {bound.variable: (along, bound.values) for bound in proven}
        self._record.finish(horizons, variables)
        summary = self._summary(comparators[-1], losses, proven, variables)
        conclude(e, self._directory, summary)
        return summary

    def _losses(self) -> PrivacyLosses:
        """Of privacy; nothing is proven where the data came prepared by what is read off the data."""
        privacy = self._parts.experiment.privacy
        losses = self._accountant.losses(self._meter.horizons, privacy.delta, self._claim(), privacy.tight)
        if not self._parts.stream.unproven_because:
            return losses
        return PrivacyLosses(
            losses.claimed, [[UNPROVEN] * len(at) for at in losses.agents], [UNPROVEN] * len(losses.network)
        )

    def _unproven_because(self, solver: Json | None) -> str:
        """What of the set-up leaves nothing proven, in words; empty where nothing does that the numbers do not say."""
        if prepared := self._parts.stream.unproven_because:
            return str(prepared)
        if solver and math.isinf(self._parts.run.sample_sensitivity):
            return "nothing bounds the gradient of a sample's loss (problem.loss, data.bound)"
        if solver and solver["unsolved"]:
            return "a local solver ended short of its tolerance"
        return ""

    def _claim(self) -> Callable[[int], float | Sequence[float] | None] | None:
        """The paper's ε by round, for every agent or for each."""
        algorithm, passes = self._parts.algorithm, self._parts.stream.passes
        claims = self._parts.experiment.private and algorithm.claimed_epsilon(1, 1) is not None
        return (lambda t: algorithm.claimed_epsilon(t, passes(t))) if claims else None

    def _comparators(self) -> tuple[list[Comparator], Vector | None]:
        """The best fixed decision at every horizon; where asked for, what the best one of each round gives.

        That is (2, h): Σ_t min_v Σ_i f_i^t(v), and the length Σ_t ‖v(t) − v(t − 1)‖ of the minimizers' path.
        """
        everything, feasible = self._meter.everything, self._parts.feasible
        if not everything.samples:
            once = best(everything.upto(1), feasible, self._meter.mean[-1])
            same = [Comparator(once.point, t * once.value, t * once.certificate) for t in self._meter.horizons.tolist()]
            still = np.array([[c.value for c in same], np.zeros(len(same))])
            return same, still if self._parts.experiment.record.dynamic_regret else None
        fixed: list[Comparator] = []
        for t, sums, mean in zip(self._meter.horizons.tolist(), self._meter.total, self._meter.mean, strict=True):
            total = everything.upto(t)
            start = min([mean, *(c.point for c in fixed[-1:])], key=lambda x: total.value(feasible.project(x)))
            # The start's value is no less than the least: no regret is smaller than this.
            least_regret = float(np.min(sums)) - total.value(feasible.project(start))
            fixed.append(best(total, feasible, start, enough=NEGLIGIBLE * least_regret))
        if not self._parts.experiment.record.dynamic_regret:
            return fixed, None
        path = [fixed[0]]
        for t in range(2, self._done + 1):
            path.append(best(everything.upto(t, first=t), feasible, path[-1].point))
        steps = [0.0, *(float(np.linalg.norm(b.point - a.point)) for a, b in pairwise(path))]
        sums = np.cumsum([[c.value for c in path], steps], axis=1)
        return fixed, sums[:, self._meter.horizons - 1]

    def _summary(
        self, least: Comparator, losses: PrivacyLosses, proven: list[Bound], variables: dict[str, Any]
    ) -> Json:
        e, n = self._parts.experiment, self._parts.topology.agents
        events = self._accountant.events()
        solver = _solver(self._parts, events)
        last = {name: values[-1] for name, (_, values) in variables.items()}
        network = _privacy(losses.claimed[-1].max(), losses.network[-1])
        agents = [_privacy(claim, loss) for claim, loss in zip(losses.claimed[-1], losses.agents[-1], strict=True)]
        sets = {name: _accuracy(name) for name in self._meter.accuracy}
        return {
            "name": e.name,
            "algorithm": e.algorithm.get("name", e.algorithm.get("path")),
            "data": self._parts.stream.title,
            "partition": e.data["partition"],
            "decomposable": self._parts.algorithm.decomposable,
            "topology": self._parts.topology.title,
            "connectivity": self._parts.connected_over,
            "agents": n,
            "rounds": self._done,
            "rounds_asked": e.rounds,
            "dimension": self._parts.dimension,
            "seed": e.seed,
            "reproducible": e.reproducible,
            "network_regret": float(last["network_regret"]),
            "network_regret_average_iterate": float(last["network_regret_average_iterate"]),
            "agent_regret": last["agent_regret"].tolist(),
            "dynamic_regret": float(last["dynamic_regret"]) if "dynamic_regret" in last else None,
            "optimality_gap": last["optimality_gap"].tolist() if "optimality_gap" in last else None,
            "judged": self._parts.algorithm.judged_by,
            "decision_error": float(last["decision_error"]) if "decision_error" in last else None,
            "training_loss": self._training_loss,
            "average_fitness": float(last["average_fitness"]),
            "comparator": {"value": least.value, "certificate": least.certificate},
            "bounds": [_bound(bound, last) for bound in proven],
            "decision_norm": float(np.linalg.norm(self._meter.last[-1])),
            "privacy": {
                "delta": e.privacy.delta,
                "agents": agents,
                "network": network,
                "noise": _noise(self._parts, events),
                "budget": _budget(e),
                "samples": _samples(self._parts),
                "unproven_because": self._unproven_because(solver),
                "exact_minimizers": self._parts.algorithm.exact_minimizers,
            },
            "solver": solver,
            "accuracy": {name: float(last[of]) for name, of in sets.items()} or None,
            "accuracy_last_decision": {name: float(last[f"{of}_last"]) for name, of in sets.items()} or None,
            "seconds": self._seconds,
            "rounds_per_second": self._done / self._seconds,
            "versions": self._versions,
        }


def conclude(experiment: Experiment, directory: Path, summary: Json) -> None:
    """Write `summary.json` and, where asked for, draw the report, once the record is complete."""
    write_text(directory / "summary.json", json.dumps(_plain(summary), indent=2, allow_nan=False) + "\n")
    if experiment.report:
        from mpinodes.results.report import draw

        draw(directory)


def _plain(value: Any) -> Any:
    """JSON has no infinity: a number that is not finite (a run that almost diverged) becomes null."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _accuracy(name: str) -> str:
    """The variable of the accuracy on a set: the test set's needs no name."""
    return "accuracy" if name == "test" else f"accuracy_{name}"


def _privacy(claimed: float, loss: PrivacyLoss) -> Json:
    def number(value: float) -> float | None:
        return None if math.isnan(value) else float(value)

    return {
        "claimed": number(claimed),
        "proven_pure": number(loss.pure),
        "proven": number(loss.epsilon),
        "rule": loss.rule,
    } | ({"slip": loss.delta_spent} if loss.delta_spent else {})


def _bound(bound: Bound, last: dict[str, Any]) -> Json:
    """A theorem's bound beside what it bounds, at the last horizon."""
    return {
        "name": bound.name,
        "of": bound.of,
        "variable": bound.variable,
        "value": float(bound.values[-1]),
        "measured": float(np.max(last[bound.of])),
        "applies": bound.applies,
        "why_not": bound.why,
    }


def _noise(parts: Setup, events: Events) -> Json | None:
    """The scales used, and the one that would make the label true of every release: (rounds, agents, fields)."""
    e = parts.experiment
    if not e.private:
        return None
    scale, l1, grain = events.scale, events.l1, events.rounding_l1
    data = np.broadcast_to(events.uses[..., None] > 0, scale.shape)
    if not data.any():
        data = scale >= 0
    with np.errstate(divide="ignore", invalid="ignore"):
        release = float(np.where(l1[data] == 0, 0.0, l1[data] / scale[data]).max())
    needed = float(l1[data].max()) / e.epsilon
    return {
        "mechanism": e.privacy.mechanism,
        "backend": e.noise.backend,
        "entropy": e.noise.entropy,
        "grain": float(np.divide(grain, scale, out=np.zeros_like(grain), where=scale > 0).max()),
        "epsilon": e.epsilon,
        "scale": float(scale[data].max()),
        "least_scale": float(scale[data].min()),
        "calibrated_scale": None if math.isinf(needed) else needed,
        "calibrated": e.privacy.scale == "calibrated",
        "release": None if math.isinf(release) else release,
        "remark": parts.stream.remark if _is_default(e) else "",
    }


def _budget(experiment: Experiment) -> Json | None:
    """What the run was allowed to lose, and in which round each agent stopped to tell of its data."""
    budget = experiment.privacy.budget
    if budget is None:
        return None
    delta = experiment.privacy.budget_delta
    return {"epsilon": budget.epsilon, "delta": delta, "kept_by": budget.kept_by, "stops": list(budget.stops)}


def _samples(parts: Setup) -> int | None:
    """How many samples may be the changed one; None: there is no end of them."""
    shares = parts.stream.shares
    if shares is None:
        return None
    return len(shares[0]) if parts.experiment.data["partition"] == "shared" else sum(map(len, shares))


def _solver(parts: Setup, events: Events) -> Json | None:
    """How the agents' local solves went: (rounds, agents, fields)."""
    if not parts.algorithm.solves:
        return None
    residual, steps = events.residual[1:], events.solver_steps[1:]
    tolerance = parts.algorithm.solver_tolerance
    return {
        "tolerance": tolerance,
        "largest_residual": float(residual.max(initial=0.0)),
        "unsolved": int((~(residual <= tolerance)).sum()),
        "steps": float(steps.mean()) if steps.size else 0.0,
        "most_steps": int(steps.max(initial=0)),
    }


def _is_default(experiment: Experiment) -> bool:
    """Whether this is the experiment of a run without arguments, but for its seed and what it leaves behind."""
    default = compose({}, None).experiment
    same = {"seed": default.seed, "record": default.record, "output": None, "report": default.report}
    return msgspec.structs.replace(experiment, **same) == default


def _drawing(parts: Setup) -> Json:
    """As much of the topology as a picture needs."""
    graph = parts.topology
    rounds = min(graph.period or parts.experiment.rounds, DRAWN_ROUNDS)
    return {
        "title": graph.title,
        "agents": graph.agents,
        "period": graph.period,
        "rounds": [sorted(graph.edges(t)) for t in range(1, rounds + 1)],
    }
