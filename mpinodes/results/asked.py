"""What results ask of parts that do not say it by a typed attribute yet; goes once they all extend `core.parts`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from mpinodes.config.setup import Parts
from mpinodes.core.protocol import Event, Vector
from mpinodes.results.record import Variable, Variables


def judged_by(parts: Parts) -> Literal["average", "last"] | None:
    """Which decision of an offline method its optimality gap is of."""
    found: Literal["average", "last"] | None = getattr(parts.algorithm, "offline", None)
    return found


def averaging(parts: Parts) -> str:
    """Weights of iterates in the average: "uniform" or "linear"."""
    return str(getattr(parts.algorithm, "average", "uniform"))


def solver_tolerance(parts: Parts) -> float | None:
    """The gradient norm to which local problems are solved; None: there are none."""
    return float(parts.experiment.algorithm["tolerance"]) if getattr(parts.algorithm, "solves", False) else None


def exact_minimizers(parts: Parts) -> bool:
    """Whether what is proven is proven of minimizers alone."""
    return bool(getattr(parts.algorithm, "exact_minimizers", False))


def sample_sensitivity(parts: Parts) -> float:
    """Half the most that replacing a sample changes its own gradient by, where a solver says so."""
    return float(getattr(parts.algorithm, "steepness", 0.0))


def claim(parts: Parts) -> Callable[[int], float | Sequence[float]] | None:
    """The paper's ε by round, for every agent or for each."""
    of_paper = getattr(parts.algorithm, "claim", None)
    if of_paper is None or not parts.experiment.private:
        return None
    passes: Callable[[int], int] = getattr(parts.stream, "passes", lambda rounds: 1)
    return lambda t: of_paper(parts.experiment.epsilon, t, passes(t))


def unproven_because(parts: Parts) -> str:
    """What of the data leaves nothing proven."""
    return str(getattr(parts.stream, "preprocessing", ""))


def remark(parts: Parts) -> str:
    """On the noise of the default run."""
    return str(getattr(parts.stream, "remark", ""))


def shares(parts: Parts) -> Sequence[Sequence[int]] | None:
    """By agent, the samples it owns; None: there is no end of them."""
    found: Sequence[Sequence[int]] | None = getattr(parts.stream, "shares", None)
    return found


def column(events: Vector, name: str) -> Any:
    """A column of events by the name of an `Event`'s field."""
    return events[..., Event._fields.index(name)]


def event_variables(events: Vector) -> Variables:
    """Events as variables of record.h5."""
    return {f"event_{name}": Variable(("round", "agent"), column(events, name)) for name in Event._fields}
