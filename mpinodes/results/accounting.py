"""What a run cost in privacy, and how the local solves went on which that rests."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from mpinodes.config.resolve import resolve
from mpinodes.config.setup import Parts
from mpinodes.core.experiment import Experiment
from mpinodes.core.protocol import Vector
from mpinodes.privacy.accountant import UNPROVEN, Accountant, Loss, Losses
from mpinodes.results import asked
from mpinodes.results.combining import Rules, first_words, largest, least, mean, same, total, worst
from mpinodes.results.record import Variable, Variables

Json = dict[str, Any]


class Accounting:
    """Takes the events of a run as they come; `close`, then ask."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._accountant = Accountant(groups(parts), shared=parts.experiment.data["partition"] == "shared")
        self._losses: Losses

    def take(self, events: Vector) -> None:
        """The events of the next rounds, which stay as they are."""
        self._accountant.compose(events)

    def close(self, horizons: NDArray[np.int64]) -> None:
        """Price it all; nothing is proven where the data came prepared by what is read off the data."""
        privacy = self._parts.experiment.privacy
        found = self._accountant.losses(horizons, privacy.delta, asked.claim(self._parts), privacy.tight)
        if asked.unproven_because(self._parts):
            unproven = [[UNPROVEN] * len(at) for at in found.agents]
            found = Losses(found.claimed, unproven, [UNPROVEN] * len(found.network))
        self._losses = found

    def variables(self) -> Variables:
        """Of record.h5."""
        claimed, agents, network = self._losses
        columns = {
            "epsilon_claimed": (claimed, claimed.max(axis=1)),
            "epsilon_proven_pure": (
                np.array([[loss.pure for loss in at] for at in agents]), np.array([loss.pure for loss in network]),
            ),
            "epsilon_proven": (
                np.array([[loss.epsilon for loss in at] for at in agents]),
                np.array([loss.epsilon for loss in network]),
            ),
        }  # fmt: skip
        found = {}
        for name, (of_each, of_network) in columns.items():
            found[name] = Variable(("horizon", "agent"), of_each)
            found[f"{name}_network"] = Variable(("horizon",), of_network)
        return found

    def summary(self) -> Json:
        """The sections `privacy` and `solver`."""
        events, (claimed, agents, network) = self._accountant.events(), self._losses
        solver, e = _solver(self._parts, events), self._parts.experiment
        return {
            "privacy": {
                "delta": e.privacy.delta,
                "agents": [_loss(claim, loss) for claim, loss in zip(claimed[-1], agents[-1], strict=True)],
                "network": _loss(claimed[-1].max(), network[-1]),
                "noise": _noise(self._parts, events),
                "budget": _budget(e),
                "samples": _samples(self._parts),
                "unproven_because": _unproven_because(self._parts, solver),
                "exact_minimizers": asked.exact_minimizers(self._parts),
            },
            "solver": solver,
        }


def _by_round(t: int) -> list[int]:
    return [t - 1]


def groups(parts: Parts) -> Callable[[int], Callable[[int], Sequence[int]]]:
    """What an adjacent data set may change: a sample, by the stream's own numbers, or a round."""
    if parts.experiment.privacy.adjacency == "one-round":
        return lambda agent: _by_round
    return parts.stream.groups


def _loss(claimed: float, loss: Loss) -> Json:
    def number(value: float) -> float | None:
        return None if math.isnan(value) else float(value)

    return {
        "claimed": number(claimed),
        "proven_pure": number(loss.pure),
        "proven": number(loss.epsilon),
        "rule": loss.rule,
    } | ({"slip": loss.slip} if loss.slip else {})


def _noise(parts: Parts, events: Vector) -> Json | None:
    """The scales used, and the one that would make the label true of every release."""
    e = parts.experiment
    if not e.private:
        return None
    scale, l1, grain, uses = (asked.column(events, name) for name in ("scale", "l1", "grain_l1", "uses"))
    data = uses > 0
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
        "remark": asked.remark(parts) if _is_default(e) else "",
    }


def _is_default(experiment: Experiment) -> bool:
    """Whether this is the experiment of a run without arguments, but for its seed and what it leaves behind."""
    default = resolve({}, None)
    same = {"seed": default.seed, "record": default.record, "output": None, "report": default.report}
    return msgspec.structs.replace(experiment, **same) == default


def _budget(experiment: Experiment) -> Json | None:
    """What the run was allowed to lose, and in which round each agent stopped to tell of its data."""
    budget = experiment.privacy.budget
    if budget is None:
        return None
    delta = experiment.privacy.budget_delta
    return {"epsilon": budget.epsilon, "delta": delta, "kept_by": budget.kept_by, "stops": list(budget.stops)}


def _samples(parts: Parts) -> int | None:
    """How many samples may be the changed one; None: there is no end of them."""
    shares = asked.shares(parts)
    if shares is None:
        return None
    return len(shares[0]) if parts.experiment.data["partition"] == "shared" else sum(map(len, shares))


def _unproven_because(parts: Parts, solver: Json | None) -> str:
    """What of the set-up leaves nothing proven, in words; empty where nothing does that the numbers do not say."""
    if prepared := asked.unproven_because(parts):
        return prepared
    if solver and math.isinf(asked.sample_sensitivity(parts)):
        return "nothing bounds the gradient of a sample's loss (problem.loss, data.bound)"
    if solver and solver["unsolved"]:
        return "a local solver ended short of its tolerance"
    return ""


def _solver(parts: Parts, events: Vector) -> Json | None:
    """How the agents' local solves went."""
    tolerance = asked.solver_tolerance(parts)
    if tolerance is None:
        return None
    residual, steps = (asked.column(events[1:], name) for name in ("residual", "solver_steps"))
    return {
        "tolerance": tolerance,
        "largest_residual": float(residual.max(initial=0.0)),
        "unsolved": int((~(residual <= tolerance)).sum()),
        "steps": float(steps.mean()) if steps.size else 0.0,
        "most_steps": int(steps.max(initial=0)),
    }


def worst_loss(found: Sequence[Json]) -> Json:
    """A privacy loss of the repeats, each for itself: the worst proven, and the largest of the rest."""
    proven = max(found, key=lambda loss: math.inf if loss["proven"] is None else loss["proven"])
    slip = max(loss.get("slip", 0.0) for loss in found)
    return {
        "claimed": largest([loss["claimed"] for loss in found]),
        "proven_pure": worst([loss["proven_pure"] for loss in found]),
        "proven": proven["proven"],
        "rule": proven["rule"],
    } | ({"slip": slip} if slip else {})


def _worst_of_each(found: Sequence[list[Json]]) -> list[Json]:
    return [worst_loss(of_agent) for of_agent in zip(*found, strict=True)]


RULES: Rules = {
    "privacy": {
        "delta": same, "agents": _worst_of_each, "network": worst_loss, "samples": same,
        "unproven_because": first_words, "exact_minimizers": same,
        "budget": {"epsilon": same, "delta": same, "kept_by": same, "stops": same},
        "noise": {
            "mechanism": same, "backend": same, "entropy": same, "epsilon": same, "calibrated": same, "remark": same,
            "grain": largest, "scale": largest, "least_scale": least, "calibrated_scale": worst, "release": worst,
        },
    },
    "solver": {
        "tolerance": same, "largest_residual": largest, "unsolved": total, "steps": mean, "most_steps": largest,
    },
}  # fmt: skip
