"""Test loss functions and streams. A stream gives each agent a loss function in each round."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isfinite
from pathlib import Path
from typing import Any

import numpy as np

from mpinodes.auditing.checks.failures import Fault, Report, image, shown
from mpinodes.auditing.small_experiments import of_streams
from mpinodes.config.compose import compose
from mpinodes.core import Stream
from mpinodes.core.asked import merge
from mpinodes.core.errors import BadInput
from mpinodes.losses.enforced import enforced
from mpinodes.losses.linear import dense

D, CLASSES, PAIRS = 4, 3, 400  # number of features, of classes, and of pairs of samples
SLACK = 1e-7  # relative rounding error of a measured number
ROUNDS = 12  # number of rounds of a stream


def check_loss(loss: Any, path: str, folder: Path, seed: int, report: Report) -> None:
    """Test a loss function at random samples and points, and report faults.

    `bounds` tests the statements of the loss function, and `gradients` its gradients and values. If the loss function
    has a `prox`, `minimizers` tests the results of `prox`.
    """
    rng = np.random.default_rng(seed)
    report.take("pairs of samples", bounds(loss, rng), PAIRS)
    report.take("gradients", gradients(loss, rng), PAIRS)
    if loss.has_prox:
        report.take("minimizations", minimizers(loss, rng), PAIRS // 10)


def _length(loss: Any) -> int:
    """Return the dimension of a point x at which the loss function is evaluated.

    - By default: the number of features.
    - If the loss has a prediction for each class: the number of features times the number of classes.
    """
    return D * CLASSES if loss.per_class else D


def _samples(loss: Any, rng: np.random.Generator, k: int, norm: float) -> tuple[Any, Any]:
    """Return k random samples: features of L2 norm at most `norm`, and targets of a kind that the loss accepts."""
    features = rng.normal(size=(k, D))
    features *= norm * rng.choice([1.0, 1.0, rng.random()], k)[:, None] / np.linalg.norm(features, axis=1)[:, None]
    if loss.per_class:
        return features, rng.integers(CLASSES, size=k).astype(float)
    far = rng.choice([1.0, 1e3], k)
    return features, rng.choice([-1.0, 1.0], k) if loss.needs_labels else far * rng.normal(size=k)


def bounds(loss: Any, rng: np.random.Generator) -> Iterator[Fault]:
    """Yield a fault if a statement of the loss function is false at random samples and points.

    The tested statements are the convexity (`convex`, `sample_modulus`), `sample_sensitivity`, `slope_bound`,
    `sample_smoothness`, `hessian_rank`, and `value_rounding` (a bound on the rounding error of the value).
    """
    for _ in range(PAIRS):
        norm = float(rng.choice([0.3, 1.0, 5.0]))
        features, targets = _samples(loss, rng, 2, norm)
        if rng.random() < 0.5:
            features[1] = -features[0]
        x, y = rng.normal(size=(2, _length(loss))) * rng.choice([0.01, 0.1, 1.0, 100.0])
        if rng.random() < 0.5:  # measure the local curvature
            y = x + 1e-4 * np.resize(features[0], len(x))
        first, second = (loss(features[[k]], targets[[k]]) for k in range(2))
        g, h = first.data_grad(x), second.data_grad(x)
        moved, size = float(np.linalg.norm(g - h)), float(np.linalg.norm(g))
        yield from _over("sample_sensitivity", moved, loss.sample_sensitivity(norm), f"norm {norm}, x = {shown(x)}")
        slope = loss.slope_bound()
        yield from _over("slope_bound", size, slope * norm if isfinite(slope) else inf, f"norm {norm}, x = {shown(x)}")
        block = slice(0, 2)
        own, moving = float(np.linalg.norm(features[0, block])), y.copy()
        moving[2:] = x[2:]
        bent = float(np.linalg.norm(first.data_grad(moving, block) - first.data_grad(x, block)))
        smooth = loss.sample_smoothness(own, own)
        most = smooth * float(np.linalg.norm(moving - x)) if isfinite(smooth) else inf
        yield from _over("sample_smoothness", bent, most, f"norms {own:.3g}, x = {shown(x)}")
        inner, apart = float((first.data_grad(y) - g) @ (y - x)), float((y - x) @ (y - x))
        known = loss.convex or loss.sample_modulus > 0
        if known and inner < loss.sample_modulus * apart - SLACK * (1 + abs(inner) + apart):
            place = f"<g(y) - g(x), y - x> = {inner:.4g}, ||y - x||^2 = {apart:.4g}"
            right = f"convex = True and sample_modulus = {loss.sample_modulus} need {loss.sample_modulus * apart:.4g}"
            yield Fault("less convex than stated", place, right)
        if (rank := loss.hessian_rank(len(x))) < len(x):
            curved, other_curved = (
                [ell.data_grad(x + e) - ell.data_grad(x - e) for e in 1e-4 * np.eye(len(x))] for ell in (first, second)
            )
            sizes = np.linalg.svd(curved, compute_uv=False)
            most = inf if np.allclose(curved, other_curved, rtol=1e-3) else 1e-3 * sizes[0] + 1e-11 * (1 + size)
            yield from _over("hessian_rank", sizes[rank], most, f"x = {shown(x)}")
        rounding = loss.value_rounding(len(x), norm, float(np.linalg.norm(x)))
        if isfinite(rounding):
            wide, near = (
                loss.values(*(array.astype(kind) for array in (features[:1], targets[None, :1], x[None, None]))).item()
                for kind in (np.longdouble, float)
            )
            yield from _over("value_rounding", float(abs(wide - near)), rounding, f"norm {norm}, x = {shown(x)}", 0.0)


def _over(name: str, measured: float, bound: float, where: str, slack: float = 1e-9) -> Iterator[Fault]:
    """Yield a fault if a measured number exceeds the bound that the tested loss function or stream states.

    Args:
        name: the name of the bound, such as "feature_norm".
        measured: the number.
        bound: the stated bound.
        where: the samples and points at which the number was measured, for the report.
        slack: a bound on the absolute rounding error of the measured number.
    """
    if not measured <= bound * (1 + SLACK) + slack:
        right = "the stated number must be an upper bound"
        yield Fault(f"{name} too small", f"{measured:.6g} measured at {where}; {bound:.6g} is stated", right)


def gradients(loss: Any, rng: np.random.Generator) -> Iterator[Fault]:
    """Test the gradients and values of a loss function, and yield faults.

    Without a clip:

    - `grad` must agree with numerical derivatives of `value`, where the loss is smooth.
    - `grad` must be `data_grad` plus the gradient of the regularizer.
    - The gradient of a block of coordinates must be the block of the gradient.
    - `value` must be the sum of `values` (one for each sample) divided by `divisor`, plus the regularizer.
    - `grad` must not change its arguments. A second call must return an equal new array.

    With a clip, the gradient of several samples must be the sum of the samples' clipped gradients.
    """

    def clipped_grad(of: Any, x: Any) -> Any:
        """Return the clipped gradient of the loss function `of` at x, without the gradient of the regularizer."""
        return enforced(of, of.clip, of.clip, of.whole, of.regularizer).data_grad(x)

    for _ in range(PAIRS):
        k = int(rng.integers(1, 4))
        features, targets = _samples(loss, rng, k, 1.0)
        targets = np.clip(targets, -3, 3)
        regularizer, divisor = float(rng.choice([0.0, 0.7])), float(rng.choice([1.0, k]))
        free = loss(features, targets, inf, False, divisor, regularizer)
        x, before = rng.normal(size=_length(loss)), image((features, targets))
        original = x.copy()
        g = free.grad(x)
        where = f"x = {shown(x.tolist())}"
        if image((features, targets)) != before or not np.array_equal(x, original):
            yield Fault("a loss that changes its arguments", where, "value and grad must not change their arguments")
            return
        if not np.array_equal(g, free.grad(x)) or np.shares_memory(g, x):
            right = "grad must return a new vector, equal at every call"
            yield Fault("two values for equal inputs", f"grad at {where}", right)
            return
        step = 1e-6
        numeric = np.array([(free.value(x + e) - free.value(x - e)) / (2 * step) for e in step * np.eye(len(x))])
        near = [(free.grad(x + step * e), free.grad(x - step * e)) for e in np.eye(len(x))]
        smooth = all(np.allclose(a, b, atol=1e-3) for a, b in near)
        if smooth and not np.allclose(g, numeric, rtol=1e-4, atol=1e-4):
            right = f"the numerical derivatives of value are {shown(numeric.tolist())}"
            yield Fault("grad is not the gradient of value", f"{shown(g.tolist())} at {where}", right)
        if not np.allclose(free.data_grad(x) + regularizer * x, g):
            yield Fault("data_grad and grad contradict each other", where, "grad must be data_grad + regularizer * x")
        if not np.allclose(free.grad(x, slice(1, 3)), g[1:3]):
            right = "without a clip, grad(x, block) must be grad(x)[block]"
            yield Fault("the gradient of a block is not the block of the gradient", where, right)
        values = loss.values(features, targets[None], x[None, None])[0, 0]
        if not np.isclose(float((values / divisor).sum()) + 0.5 * regularizer * float(x @ x), free.value(x)):
            right = "value must be the sum of values / divisor, plus the regularizer"
            yield Fault("values and value contradict each other", where, right)
        clip = float(rng.choice([0.1, 0.5]))
        summed = sum(clipped_grad(loss(features[[j]], targets[[j]], clip), x) for j in range(k))
        if not np.allclose(clipped_grad(loss(features, targets, clip), x), summed):
            right = "data_grad must be the sum of every sample's clipped gradient"
            yield Fault("a clip that is not applied sample by sample", where, right)


def minimizers(loss: Any, rng: np.random.Generator) -> Iterator[Fault]:
    """Yield a fault if the method `prox` of a loss function stops too far from the minimizer.

    The gradient of the minimized function must have a norm of at most 100 times the tolerance given to `prox`.
    """
    for _ in range(PAIRS // 10):
        features, targets = _samples(loss, rng, 3, 1.0)
        free = loss(features, np.clip(targets, -3, 3), inf, False, 1.0, 0.3)
        v, step, tolerance = rng.normal(size=_length(loss)), float(rng.choice([0.1, 1.0, 10.0])), 1e-9
        solved = free.prox(v, step, np.zeros(len(v)), tolerance)
        residual = float(np.linalg.norm(free.grad(solved.x) + (solved.x - v) / step))
        if not residual <= 100 * tolerance:
            place = f"step {step}: the gradient norm is {residual:.3g} at the returned point"
            right = f"prox must stop at a gradient norm of at most {tolerance:g}, up to rounding"
            yield Fault("prox does not return a minimizer", place, right)


def check_stream(stream: Any, path: str, folder: Path, seed: int, report: Report) -> None:
    """Test a stream in two experiments, and report faults.

    In one experiment each agent has its own loss function. In the other experiment all agents share one loss function.

    Raises:
        BadInput: neither experiment can be run.
    """
    for name, asked in of_streams(path, stream, folder, seed):
        try:
            setup, equal = (compose(asked, ranks=None) for _ in range(2))
            reseeded = compose(merge(asked, {"seed": seed + 1}), ranks=None).stream
            faults = [*losses_of(setup, equal.stream), *seeds_of(setup.stream, reseeded)]
        except BadInput as error:
            report.notes.append(f"with {name}: not tried: {error}")
            continue
        report.take("rounds of losses", faults, ROUNDS * 3)
    if not report.tested.get("rounds of losses"):
        raise BadInput(f"{path}: no experiment with this stream could be run: {report.notes[0]}")


def losses_of(setup: Any, other: Stream) -> Iterator[Fault]:
    """Test the loss functions of a stream in the first `ROUNDS` rounds, and yield faults.

    - A loss function must depend only on the seed, the agent and the round.
    - Features and targets must be finite, and the number of a sample must always stand for the same sample.
    - Features must not exceed the bounds that the stream states.
    - The loss that merges several rounds must have the samples of these rounds.

    Args:
        setup: the setup of an experiment with the stream.
        other: a second, equal instance of the stream.
    """
    stream = setup.stream
    last = min(ROUNDS, stream.rounds or ROUNDS)
    for i in range(stream.agents):
        rows: dict[int, bytes] = {}
        size = setup.samples[i]
        losses, samples, groups = stream.of(i), stream.samples(i), stream.groups(i)
        again = other.of(i)
        backwards = {t: image(again(t)) for t in range(last, 0, -1)}
        for t in range(1, last + 1):
            loss, where = losses(t), f"agent {i}, round {t}"
            features, numbers = dense(loss.features), [int(number) for number in samples(t)]
            if image(loss) != backwards[t]:
                where += ": the loss differs if rounds are requested backwards, or from another instance"
                yield Fault("an impure loss", where, "of(agent)(t) must be a pure function of seed, agent and t")
                return
            if len(numbers) != len(loss.targets) or min(groups(t), default=0) < 0:
                right = f"samples() must number the {len(loss.targets)} samples, and groups() return no number below 0"
                yield Fault("samples() contradicts the loss", f"{where}: {len(numbers)} numbers", right)
                return
            if stream.makes_all_losses and (
                len(numbers) != size or image(stream.make_loss(loss.features, loss.targets)) != image(loss)
            ):
                right = f"every loss must be a loss that make_loss makes from {size} samples"
                yield Fault("makes_all_losses = True is wrong", f"{where}: make_loss makes another loss", right)
                return
            for number, row in zip(numbers, _rows(loss), strict=True):
                if rows.setdefault(number, row) != row:
                    right = "a number must always stand for the same features and target"
                    yield Fault("one number for two samples", f"{where}: sample {number}", right)
                    return
            if features.shape[1] != stream.dimension or not np.isfinite(features).all():
                right = f"features must be finite, with {stream.dimension} columns (the dimension of the stream)"
                yield Fault("features of the wrong shape, or not finite", f"{where}: shape {features.shape}", right)
                return
            if not np.isfinite(loss.targets).all() or (stream.has_labels and not np.isin(loss.targets, (-1, 1)).all()):
                right = "targets must be finite, and labels -1 or +1"
                yield Fault("invalid targets", f"{where}: {shown(loss.targets)}", right)
                return
            norm = float(np.linalg.norm(features, axis=1).max(initial=0))
            yield from _over("feature_bound", float(np.abs(features).max(initial=0)), stream.feature_bound, where)
            yield from _over("feature_norm", norm, stream.feature_norm, where)
        merged = stream.merged(i)
        for first in (1, last // 2 + 1):  # the regret of a run is computed from merged losses
            seen, together = [losses(t) for t in range(first, last + 1)], merged(first, last)
            if b"".join(row for loss in seen for row in _rows(loss)) != b"".join(_rows(together)):
                where = f"agent {i}, rounds {first} to {last}"
                yield Fault("merged() does not fit of()", where, "merged() must have the samples of of(agent)(t)")
                break


def seeds_of(stream: Stream, other: Stream) -> Iterator[Fault]:
    """Yield a fault if the attribute `drawn_from_seed` of a stream is wrong.

    The attribute states whether the samples depend on the seed. If it is None, nothing is tested. Only samples of the
    first rounds are compared.

    Args:
        stream: the stream.
        other: the same stream with another seed.
    """
    if stream.drawn_from_seed is None:
        return
    mine, its = _by_row(stream), _by_row(other)
    both = mine.keys() & its.keys()
    same = [row for row in both if mine[row] == its[row]]
    if stream.drawn_from_seed is False and len(same) < len(both):
        where = f"row {min(both - set(same))}: another sample with another seed"
        yield Fault("drawn_from_seed = False", where, "state False only if the samples do not change with the seed")
    if stream.drawn_from_seed is True and both and len(same) == len(both):
        where = f"{len(both)} rows are the same with another seed"
        yield Fault("drawn_from_seed = True", where, "state True only if the samples change with the seed")


def _by_row(stream: Stream) -> dict[int, bytes]:
    """Return the samples of the first rounds as bytes: a dictionary from the sample's row number in the data source.

    An agent whose samples have no row numbers is left out.
    """
    samples_by_row: dict[int, bytes] = {}
    for i in range(stream.agents):
        if (rows := stream.source_rows(i)) is None:
            continue
        losses, samples = stream.of(i), stream.samples(i)
        for t in range(1, min(ROUNDS, stream.rounds or ROUNDS) + 1):
            samples_by_row |= {int(rows[n]): row for n, row in zip(samples(t), _rows(losses(t)), strict=True)}
    return samples_by_row


def _rows(loss: Any) -> list[bytes]:
    """Return each sample of a loss as bytes."""
    return [row.tobytes() + target.tobytes() for row, target in zip(dense(loss.features), loss.targets, strict=True)]
