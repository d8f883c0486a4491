"""What a `Solve` says of itself, at many points beside the one that was released."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mpinodes.auditing.changes import Change, changed
from mpinodes.auditing.checks.failures import Fault
from mpinodes.auditing.checks.walks import TriedRun
from mpinodes.core import Message, Solve, Vector

POINTS, SLACK = 8, 1 + 1e-7
RIGHT = "l2 and log_volume must hold at every point, for any sample there could be"


def at_many_points(
    run: TriedRun, agent: int, messages: list[Message], change: Change, rng: np.random.Generator
) -> Iterator[Fault]:
    """The change of step·∇f, and of log det(I + step·∇²f), against `l2` and `log_volume`."""
    own = run.setup.losses(agent)
    other = changed(own, run.setup.stream.samples(agent), change)
    for t, ask in enumerate(messages, 1):
        if not isinstance(ask, Solve) or not ask.uses or not ask.step < np.inf:
            continue
        one, two = own(ask.uses), other(ask.uses)
        for _ in range(POINTS):
            x = rng.normal(size=run.setup.dimension) * rng.choice([0.0, 0.1, 1.0, 10.0, 1000.0])
            moved = float(np.linalg.norm(ask.step * (one.grad(x) - two.grad(x))))
            volume = abs(_log_volume(one, ask.step, x) - _log_volume(two, ask.step, x))
            for what, found, bound in (("l2", moved, ask.l2), ("log_volume", volume, ask.log_volume)):
                if found > bound * SLACK + 1e-9:
                    yield Fault(
                        f"a {what} of a Solve too small",
                        f"{run.what}: message() of agent {agent}, round {t}: {found:.4g} at a point of norm "
                        f"{np.linalg.norm(x):.3g}, with a sample replaced; {bound:.4g} is claimed",
                        RIGHT,
                    )
                    return


def _log_volume(loss: Any, step: float, x: Vector) -> float:
    return float(np.linalg.slogdet(np.eye(len(x)) + step * loss.hessian(x))[1])
