"""Test mechanisms (which add noise to messages) and metrics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mpinodes.auditing.checks.failures import Fault, Report, image
from mpinodes.auditing.noise import EPSILON, RADIAL, standardized
from mpinodes.auditing.small_experiments import of_metrics
from mpinodes.core import RELEASED, Event, Kind, Query
from mpinodes.core.asked import merge
from mpinodes.core.seeds import Draws, Purpose
from mpinodes.metrics.built_in import BUILT_IN
from mpinodes.runlog.reader import Reader
from mpinodes.running import job

D, RELEASES, AGENTS, LEAST = 6, 500, 4, 1e-6
L1, L2 = 1.5, 0.7  # the sensitivities of the test queries


def check_mechanism(mechanism: Any, path: str, folder: Path, seed: int, report: Report) -> None:
    """Test the noise of a mechanism at several values of ε and several calibrations, and report faults.

    The noise must have the distribution that the mechanism states. If the mechanism rejects a release without a
    calibration by a `ValueError`, only releases with a calibration are tested.
    """
    for epsilon, constant in ((1.0, None), (0.1, None), (20.0, 3.0)):
        made, calibrations = mechanism(epsilon, constant), [None, 2.0, 0.0]
        try:
            _released(made, None, np.zeros(D), 1, Draws(seed, Purpose.NOISE))
        except ValueError:  # the mechanism requires a calibration, such as a standard deviation
            calibrations.remove(None)
        for calibration in calibrations:
            where = f"release(), epsilon {epsilon}, calibration {calibration}"
            report.take("releases", noise_of(made, calibration, seed, where), 2 * RELEASES, where)


def _released(mechanism: Any, calibration: float | None, value: Any, t: int, draws: Draws) -> tuple[Any, Event]:
    """Release a value with a mechanism, and return the added noise and the event.

    The event is what the mechanism states about the release: the distribution of the noise and the sensitivity.

    Raises:
        ValueError: the mechanism changed its argument, the query that holds the value.
    """
    query = Query(value, L1, L2, t - 1, RELEASED, calibration)
    out, before = np.full(D, np.nan), (value.tobytes(), L1, L2, t - 1, RELEASED, calibration)
    event = mechanism.release(query, t, draws, out)
    if (query.value.tobytes(), query.l1, query.l2, query.uses, query.leaks, query.calibration) != before:
        raise ValueError("release() changed its argument, the query")
    return out - value, event


class OneRound(Draws):
    """Draw random numbers with one key in round t, and with another key in all other rounds.

    If a mechanism draws the noise of round t only from the random numbers of round t, the other key does not change it.
    """

    def __init__(self, seed: int, agent: int, t: int) -> None:
        super().__init__(seed, Purpose.NOISE, agent)
        self._t, self._others = t, Draws(seed + 1, Purpose.NOISE, agent)

    def at(self, t: int) -> np.random.Generator:
        """Return the random number generator of round t."""
        return super().at(t) if t == self._t else self._others.at(t)


def noise_of(mechanism: Any, calibration: float | None, seed: int, where: str) -> Iterator[Fault]:
    """Test on what the noise of a mechanism depends, and how the noise is distributed.

    - The noise must be drawn anew for each key, vector and round.
    - The noise must not depend on the value, except by rounding.
    - The noise must have the distribution that the mechanism states in its events.

    Args:
        mechanism: the mechanism.
        calibration: the number to which the noise is calibrated; None for the sensitivity of the value.
        seed: the seed of the values and of the noise.
        where: the settings of the mechanism, for the report.
    """
    rng = np.random.default_rng(seed)
    values, noises, events = rng.normal(size=(RELEASES, D)), [], []
    for t, value in enumerate(values, 1):
        agent, place = t % AGENTS, f"{where}, round {t}"
        noise, event = _released(mechanism, calibration, value, t, Draws(seed, Purpose.NOISE, agent))
        again, same = _released(mechanism, calibration, value, t, Draws(seed, Purpose.NOISE, agent))
        other, moved = _released(mechanism, calibration, value * 100 + 5, t, Draws(seed, Purpose.NOISE, agent))
        for foreign, name in (
            (Draws(seed + 1, Purpose.NOISE, agent), "noise that does not depend on its key"),
            (Draws(seed, Purpose.NOISE, agent, 1), "vectors that share their noise"),
        ):
            shared, _ = _released(mechanism, calibration, value, t, foreign)
            equal = np.isclose(noise, shared, rtol=1e-9, atol=0)  # on a lattice, single entries may be equal by chance
            if event.scale > 0 and (equal.mean() >= 0.5 if event.rounding_l1 else equal.any()):
                yield Fault(name, f"{place}: the same noise again", "draw all coordinates from noise.at(t)")
                return
        if not np.array_equal(noise, _released(mechanism, calibration, value, t, OneRound(seed, agent, t))[0]):
            where = f"{place}: random numbers of another round change the noise"
            yield Fault("noise of other rounds", where, "draw from noise.at(t)")
            return
        if not np.array_equal(noise, again) or image(tuple(event)) != image(tuple(same)):
            yield Fault("own random draw", f"{place}: two releases differ", "draw from noise.at(t) alone")
            return
        if not np.allclose(noise, other, atol=1e-6 * (1 + event.scale) + event.rounding_l1 / D) or event != moved:
            right = "use the query's sensitivities, t and noise only; if out is rounded, state Event.of(..., lattice=g)"
            where = f"{place}: the noise or the event changes with the value"
            yield Fault("noise that depends on the value", where, right)
            return
        noises.append(noise)
        events.append(event)
    yield from _of_stated_law(values, np.array(noises), events, where)


def _of_stated_law(values: Any, noises: Any, events: list[Event], where: str) -> Iterator[Fault]:
    """Test that the noise of a mechanism has the distribution that the mechanism states in its events.

    The other numbers in the events must be valid, too.

    Args:
        values: (releases, d) the released values before noise.
        noises: (releases, d) the added noise.
        events: the event of each release, which states the distribution of the noise.
        where: the settings of the mechanism, for the report.
    """
    event, scales = events[0], np.array([e.scale for e in events])
    sensitivities = (L2, L2) if event.kind in RADIAL else (L1, L2)
    if (event.l1, event.l2) != sensitivities or [int(e.uses) for e in events] != list(range(RELEASES)):
        right = "make the event by Event.of(query, kind, scale)"
        yield Fault("an event that contradicts its query", f"{where}: {event}", right)
    if event.draws != 1 or min(event.rounding_l1, event.rounding_l2) < 0 or not 0 <= event.tv_distance <= 1:
        right = "draws must be 1, roundings >= 0, tv_distance in [0, 1]"
        yield Fault("impossible numbers in an event", f"{where}: {event}", right)
    if not np.isfinite(scales).all() or (scales < 0).any():
        yield Fault("an invalid scale", f"{where}: {scales[:3]}", "a scale must be finite and at least 0")
        return
    if event.kind == Kind.CLEAN or not scales.any():
        if np.abs(noises).max() > 1e-9 + event.rounding_l1 / D:
            right = "the event must state the noise"
            yield Fault("noise, although none is stated", f"{where}: noise of up to {np.abs(noises).max():.3g}", right)
        return
    rounding = EPSILON * (np.abs(values) + np.abs(values + noises)) + event.rounding_l1 / D
    kinds = np.array([float(e.kind) for e in events])
    one_run = (np.expand_dims(array, (0, 2, 3)) for array in (noises, rounding, values, scales, kinds))
    drawn = standardized(*one_run)
    if failed := drawn.fails(LEAST):
        yield Fault(
            "noise with another distribution than its event states",
            f"{where}: {Kind(int(event.kind)).name}, {drawn.ratio:.3g} times the scale {scales[0]:.4g}; "
            f"p = {min(check.p for check in failed):.1g} ({', '.join(check.name for check in failed)})",
            "kind and scale of the event must be those of the noise, and every number must be drawn anew",
        )


def check_metric(metric: Any, path: str, folder: Path, seed: int, report: Report) -> None:
    """Test a metric on some small experiments, and report faults.

    - The values of the metric must be finite, and equal in two runs.
    - All other results of a run must be equal with and without the metric.
    """
    metrics = [] if metric.name in {other.name for other in BUILT_IN} else [path]
    for name, asked in of_metrics(seed):
        records = []
        for k in range(3):
            place = folder / f"{name}-{k}"
            job.run(merge(asked, {"output": {"dir": str(place)}, "record": {"metrics": metrics * (k < 2)}}))
            with Reader(place) as record:
                records.append({key: record.read(key).values for key in record.names})
        first, second, without = records
        report.take("runs", [], 3)
        for key, values in first.items():
            if key in second and not np.array_equal(values, second[key], equal_nan=True):
                where = f"{name}: {key} differs between two runs"
                report.add(Fault("two values for equal inputs", where, "a metric must not draw random numbers"))
            if key in without and not np.array_equal(values, without[key], equal_nan=True):
                where = f"{name}: {key} differs if the metric is recorded"
                report.add(Fault("a metric that changes the run", where, "a metric must not change its arguments"))
        if metric.name in first and not np.isfinite(first[metric.name]).all():
            report.add(Fault("a metric that is not finite", f"{name}: {metric.name}", "a metric must be finite"))
