"""Test constraint sets and step schedules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mpinodes.auditing.checks.failures import Fault, Report, image
from mpinodes.config import registry
from mpinodes.config.public_constants import shared_blocks
from mpinodes.core import Set, Vector

SIZES = ((12, 4, 1.0), (3, 3, 5.0), (40, 5, 0.3))  # coordinates, agents and radius
POINTS, FAR, NEAR = 60, 1e7, 1e-9  # number of points; norm of a far point; relative rounding error
ROUNDS = (*range(1, 201), *(10**k for k in range(3, 7)))  # rounds at which a schedule is tested
MODULUS = 0.5  # the constant of the losses that is given to schedules that need one


def check_set(part: Any, path: str, folder: Path, seed: int, report: Report) -> None:
    """Test a set in several dimensions: first its projection at random points, then its statements.

    After a fault was found, statements are no longer tested.
    """
    for d, agents, radius in SIZES:
        settings = registry.fill(registry.SETS, part, {})
        feasible = part(radius, shared_blocks(d, agents), **settings)
        rng = np.random.default_rng([seed, d])
        points = radius * rng.normal(size=(POINTS, d)) * 10 ** rng.uniform(-2, 2, (POINTS, 1))
        for k in range(0, POINTS, 3):  # a third of the points have one nonzero coordinate
            points[k] *= np.arange(d) == k // 3 % d
        where = f"{d} coordinates, radius {radius:g}"
        report.take("projections", projections(feasible, points, where), POINTS)
        if not report.faults:
            report.take("statements", set_statements(feasible, points, where), POINTS)


def projections(feasible: Set, points: Vector, where: str) -> Iterator[Fault]:
    """Yield faults if the method `project` of a set is not a projection onto a convex set, or is not pure.

    Args:
        feasible: the set.
        points: the points that are projected.
        where: the dimension and the radius, which the faults name.
    """
    before, own = image(feasible), points.copy()
    inside = [feasible.project(x) for x in own]
    if any(np.shape(p) != x.shape or not np.isfinite(p).all() for p, x in zip(inside, own, strict=True)):
        yield Fault("an invalid projection", where, "project() must return d finite coordinates")
        return
    again = [feasible.project(x.copy()) for x in points]
    if not np.array_equal(own, points) or not np.array_equal(inside, again) or image(feasible) != before:
        yield Fault("a projection that is not pure", where, "project() must depend on x alone, and change nothing")
    for x, p, y, q in zip(points, inside, points[::-1], inside[::-1], strict=True):
        slack = NEAR * (1 + np.linalg.norm(x) + np.linalg.norm(y))
        middle = (p + q) / 2
        if np.linalg.norm(feasible.project(p) - p) > slack:
            yield Fault("a projection that moves its own result", where, "project() must not move a point of the set")
        if np.linalg.norm(feasible.project(middle) - middle) > slack:
            right = "project() must not move the middle of two points of the set"
            yield Fault("a set that is not convex", where, right)
        if np.linalg.norm(p - q) > np.linalg.norm(x - y) + slack:
            yield Fault("a projection that expands", where, "two projections must not be further apart than the points")
        if ((np.array(inside) - p) @ (x - p)).max() > slack * (1 + np.linalg.norm(x - p)):
            yield Fault("a projection that is not exact", where, "project() must return the nearest point of the set")


def set_statements(feasible: Set, points: Vector, where: str) -> Iterator[Fault]:
    """Yield faults if a statement of a set is false, such as the bound on the norm of its points.

    The statements are compared with the projection onto the set.

    Args:
        feasible: the set.
        points: the points that are projected.
        where: the dimension and the radius, which the faults name.
    """
    d, inside = points.shape[1], [feasible.project(x) for x in points]
    coordinates, parts = np.arange(d), feasible.blocks if feasible.of_blocks else [slice(0, d)]
    if feasible.bounded != np.isfinite(feasible.reach(d)):
        right = "reach() must be finite if, and only if, bounded is True"
        yield Fault("a bound that contradicts another", f"{where}: bounded, reach", right)
    cones = feasible.cones(coordinates) if feasible.has_cones else None
    for x, p in zip(points, inside, strict=True):
        slack = NEAR * (1 + np.linalg.norm(x))
        if any(np.linalg.norm(p[part]) > feasible.reach(len(p[part])) + slack for part in parts):
            yield Fault("a reach that is too small", where, "reach() must bound the norm of all points of the set")
        if any(x @ q > feasible.support(x) + slack for q in inside):
            yield Fault("a support that is too small", where, "support(g) must be at least <g, v> for all v of the set")
        far = FAR * x / np.linalg.norm(x)
        support = feasible.support(x)
        if feasible.bounded and x @ feasible.project(far) < support - 1e-3 * abs(support) - slack:
            yield Fault("a support that is too large", where, "support(g) must be <g, v> for some v of the set")
        for block in feasible.blocks if feasible.by_blocks else ():
            alone = feasible.project(np.where((coordinates >= block.start) & (coordinates < block.stop), x, 0.0))
            if np.linalg.norm(alone[block] - p[block]) > slack:
                right = "by_blocks = True: a block's projection must not depend on other blocks"
                yield Fault("blocks that depend on each other", where, right)
        thinned = np.where(coordinates % 2, p, 0.0)
        if feasible.solid and np.linalg.norm(feasible.project(thinned) - thinned) > slack:
            right = "solid = True: setting coordinates to 0 must not leave the set"
            yield Fault("a set that is not solid", where, right)
        for margin in {0.5 * feasible.inradius} if 0 < feasible.inradius < np.inf else ():
            beside = feasible.within(margin).project(x) + margin * x / np.linalg.norm(x)
            if np.linalg.norm(feasible.project(beside) - beside) > slack:
                right = "within(m) must keep a distance of m to the set's border"
                yield Fault("a margin that is too small", where, right)
        is_outside = np.linalg.norm(x - p) > 1e-3 * feasible.radius
        if cones is not None and (not _holds(cones, p, 1e3 * slack) or (is_outside and _holds(cones, x, 0.0))):
            right = "cones() must hold for all points of the set, and for no others"
            yield Fault("constraints that do not fit", where, right)


def _holds(cones: Any, v: Vector, slack: Any) -> bool:
    """Return whether the point v satisfies all constraints `cones`, up to the error `slack`.

    A constraint is linear, or a second-order cone.
    """
    for cone in cones:
        rest = cone.bounds - cone.rows @ v
        if (rest[0] - np.linalg.norm(rest[1:]) if cone.second_order else rest.min(initial=0.0)) < -slack:
            return False
    return True


def check_schedule(part: Any, path: str, folder: Path, seed: int, report: Report) -> None:
    """Test that the steps of a schedule are positive, finite floats, and equal if they are computed again.

    The rounds `ROUNDS` are tested. A second instance of the schedule must give the same steps.
    """
    given = {part.from_losses: MODULUS} if part.from_losses else {}
    settings = registry.fill(registry.SCHEDULES, part, given)
    schedule, equal = part(**settings), part(**settings)
    steps = {t: schedule(t) for t in ROUNDS}
    report.take("steps", [], len(ROUNDS))
    for t in reversed(ROUNDS):
        where = f"__call__(), round {t}"
        if not (isinstance(steps[t], float) and 0 < steps[t] < np.inf):
            right = "a step is a float above 0, and finite"
            report.add(Fault("an invalid step size", f"{where}: {steps[t]!r}", right))
        if not image(schedule(t)) == image(equal(t)) == image(steps[t]):
            right = "a step depends on the round and on the settings alone"
            report.add(Fault("a schedule that is not pure", f"{where}: a second call gives another step", right))
