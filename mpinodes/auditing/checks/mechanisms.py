"""The tests of mechanisms and of metrics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from mpinodes.auditing.checks.failures import Fault, Report, image
from mpinodes.auditing.small_experiments import of_metrics
from mpinodes.core import RELEASED, Event, Kind, Query
from mpinodes.core.asked import Tree, merge
from mpinodes.core.seeds import Draws, Purpose
from mpinodes.metrics.built_in import BUILT_IN
from mpinodes.runlog.reader import Reader
from mpinodes.running import job

D, RELEASES, AGENTS, LEAST = 6, 500, 4, 1e-6
LAWS = {Kind.LAPLACE: stats.laplace, Kind.GAUSSIAN: stats.norm}


def check_mechanism(mechanism: Any, path: str, folder: Path, seed: int, report: Report) -> None:
    """Test noise against the law that its event names, at several scales."""
    for epsilon, constant in ((1.0, None), (0.1, None), (20.0, 3.0)):
        made = mechanism(epsilon, constant)
        for calibration in (None, 2.0, 0.0):
            if calibration is None and _asks_for_one(made, seed):
                continue
            faults = list(_noise(made, calibration, seed, f"epsilon {epsilon}, calibration {calibration}"))
            report.take("releases", faults, 2 * RELEASES)


def _asks_for_one(mechanism: Any, seed: int) -> bool:
    """Return whether a mechanism requires a calibration, such as a standard deviation."""
    try:
        _released(mechanism, np.zeros(D), 1, seed, None)
    except ValueError:
        return True
    return False


def _noise(mechanism: Any, calibration: float | None, seed: int, where: str) -> Iterator[Fault]:
    """Test that noise depends on nothing but its key, its round and the sensitivities, then test its law."""
    rng = np.random.default_rng(seed)
    noises, events = [], []
    for t in range(1, RELEASES + 1):
        value = rng.normal(size=D)
        noise, event = _released(mechanism, value, t, seed, calibration)
        again, same = _released(mechanism, value, t, seed, calibration)
        other, moved = _released(mechanism, value * 100 + 5, t, seed, calibration)
        for draws, name in (
            (Draws(seed + 1, Purpose.NOISE, t % AGENTS), "noise that does not depend on its key"),
            (Draws(seed, Purpose.NOISE, t % AGENTS, 1), "vectors that share their noise"),
        ):
            foreign, _ = _released(mechanism, value, t, seed, calibration, draws)
            if event.scale > 0 and np.isclose(noise, foreign, rtol=1e-9, atol=0).any():
                yield Fault(name, f"{where}, round {t}: the same noise again", "draw all coordinates from noise.at(t)")
                return
        alone, _ = _released(mechanism, value, t, seed, calibration, _of_one_round(seed, t % AGENTS, t))
        if not np.array_equal(noise, alone):
            yield Fault("noise of other rounds", f"{where}, round {t}: noise.at(s) changes it", "draw from noise.at(t)")
            return
        if not np.array_equal(noise, again) or image(tuple(event)) != image(tuple(same)):
            yield Fault("own random draw", f"{where}, round {t}: two releases differ", "draw from noise.at(t) alone")
            return
        if not np.allclose(noise, other, atol=1e-6 * (1 + event.scale)) or event != moved:
            yield Fault(
                "noise that depends on the value", f"{where}, round {t}: noise or event changes with the value",
                "noise and event may depend on the query's sensitivities, t and noise only",
            )  # fmt: skip
            return
        noises.append(noise)
        events.append(event)
    yield from _law(np.array(noises), events, where)


def _of_one_round(seed: int, agent: int, t: int) -> Draws:
    """Return draws that have the given key in one round and another key in all other rounds."""
    draws, others = (Draws(key, Purpose.NOISE, agent) for key in (seed, seed + 1))
    at = draws.at
    draws.at = lambda s: at(s) if s == t else others.at(s)  # type: ignore[method-assign, assignment]
    return draws


def _released(
    mechanism: Any, value: Any, t: int, seed: int, calibration: float | None, draws: Draws | None = None
) -> tuple[Any, Event]:
    """Release a value, and return its noise and its event."""
    query = Query(value, 1.5, 0.7, t - 1, RELEASED, calibration)
    out, before = np.full(D, np.nan), image(query)
    event = mechanism.release(query, t, draws or Draws(seed, Purpose.NOISE, t % AGENTS), out)
    if image(query) != before:
        raise ValueError("release() changed its query")
    return out - value, event


def _law(noises: Any, events: list[Event], where: str) -> Iterator[Fault]:
    """Test noise against its events."""
    event = events[0]
    kind, scales = Kind(int(event.kind)), np.array([e.scale for e in events])
    radial = kind in (Kind.PURE, Kind.GAMMA_NORM)
    if (event.l1, event.l2) != ((0.7, 0.7) if radial else (1.5, 0.7)) or [int(e.uses) for e in events] != list(
        range(RELEASES)
    ):
        yield Fault("an event that is not its query's", f"{where}: {event}", "Event.of(query, kind, scale)")
    if event.draws != 1 or min(event.rounding_l1, event.rounding_l2) < 0 or not 0 <= event.tv_distance <= 1:
        yield Fault("numbers of an event that cannot be", f"{where}: {event}", "draws = 1, roundings >= 0, a distance")
    if not np.isfinite(scales).all() or (scales < 0).any():
        yield Fault("a scale that is none", f"{where}: {scales[:3]}", "finite and at least 0")
        return
    if kind == Kind.CLEAN or not scales.any():
        if np.abs(noises).max() > 1e-9:
            yield Fault("noise where none is stated", f"{where}: up to {np.abs(noises).max():.3g}", "the event says so")
        return
    scaled = noises / scales[:, None]
    if radial:
        norms = np.linalg.norm(scaled, axis=1)
        p = stats.kstest(norms, stats.gamma(D).cdf).pvalue
        size = float(norms.mean() / D)
    else:
        p = stats.kstest(scaled.ravel(), LAWS[kind].cdf).pvalue
        size = float(np.abs(scaled).mean() / (1 if kind == Kind.LAPLACE else np.sqrt(2 / np.pi)))
    if p < LEAST:
        yield Fault(
            "noise of another law than its event names",
            f"{where}: {kind.name}, scale {scales[0]:.4g}: p = {p:.1g}, its size is {size:.3g} times that",
            "kind and scale of the event must be those of the noise",
        )
    rounded = np.round(scaled, 9)
    if (scaled == 0).all(axis=1).any() or len(np.unique(rounded, axis=0)) < len(rounded):
        yield Fault("noise that is left out or said again", where, "every release needs noise of its own")
    signs = np.sign(noises)
    for label, trials in (("rounds", signs[1:] * signs[:-1]), ("coordinates", signs[:, 1:] * signs[:, :-1])):
        if stats.binomtest(int((trials > 0).sum()), trials.size).pvalue < LEAST:
            yield Fault("noise that is not independent", f"{where}: between {label}", "every number must be drawn anew")


def check_metric(metric: Any, path: str, folder: Path, seed: int, report: Report) -> None:
    """Test a metric in two runs with it and one without it."""
    metrics = [] if metric.name in {other.name for other in BUILT_IN} else [path]
    for name, asked in of_metrics(seed):
        records = [_recorded(folder / f"{name}-{k}", asked, metrics * (k < 2)) for k in range(3)]
        report.take("runs", list(_same(metric, records, name)), 3)


def _recorded(place: Path, asked: Tree, metrics: list[str]) -> dict[str, Any]:
    """Return everything recorded in a run with some metrics."""
    job.run(merge(asked, {"output": {"dir": str(place)}, "record": {"metrics": metrics}}))
    with Reader(place) as record:
        return {name: record.read(name).values for name in record.names}


def _same(metric: Any, records: list[dict[str, Any]], name: str) -> Iterator[Fault]:
    """Test that two runs with a metric agree, and that the metric changes nothing else."""
    first, second, without = records
    for key, values in first.items():
        if key in second and not np.array_equal(values, second[key], equal_nan=True):
            yield Fault("two values for equal inputs", f"{name}: {key} differs between two runs", "no own randomness")
        if key in without and not np.array_equal(values, without[key], equal_nan=True):
            yield Fault("a metric that changes the run", f"{name}: {key} differs with it", "change no argument")
    if metric.name in first and not np.isfinite(first[metric.name]).all():
        yield Fault("a metric that is not finite", f"{name}: {metric.name}", "finite numbers")
