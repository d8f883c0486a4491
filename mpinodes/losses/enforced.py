"""A wrapper that clips the gradients of a user's losses before an algorithm sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from mpinodes.core import ALL, Loss, Run, SampleLoss, Stream, Vector
from mpinodes.core.errors import BadInput
from mpinodes.core.messages import doubles
from mpinodes.losses.clipping import ROUNDING, reclipped, row_norms, row_sizes
from mpinodes.losses.linear import DOUBLE, Around, LinearLoss


@dataclass(slots=True)
class Reclipped(Around):
    """A loss whose sample gradients are clipped once more, so that the clip holds whatever the wrapped loss computes.

    Attributes:
        clip: L2 bound on a sample's gradient. It bounds the round's gradient if the loss exposes no samples or if
        `whole`. whole: whether the clip is for the whole round, as in `SampleLoss`. regularizer: λ, which is public;
        only the gradient of the samples is taken from the wrapped loss.
    """

    clip: float
    whole: bool
    regularizer: float

    def grad(self, x: Vector, block: slice = ALL) -> Vector:
        """Return the gradient of the samples, clipped, plus λx."""
        gradient = self.data_grad(x, block)
        return gradient + self.regularizer * x[block] if self.regularizer else gradient

    def data_grad(self, x: Vector, block: slice = ALL) -> Vector:
        """Return the sum of the clipped gradients of the samples.

        If the loss exposes no samples or `whole` is set, the sum is clipped instead.
        """
        loss, most = self.loss, self.clip * (1 + ROUNDING / 2)
        if not isinstance(loss, SampleLoss) or self.whole:
            return reclipped(doubles(loss.data_grad(x, block)), most)
        if _is_clipped(type(loss)):
            return loss.data_grad(x, block)
        shares = 1 / np.broadcast_to(loss.divisor, loss.targets.shape)
        if len(shares) == 1:
            return reclipped(loss.data_grad(x, block), most * float(shares[0]))
        samples = [
            replace(loss, features=loss.features[[k]], targets=loss.targets[[k]], divisor=1.0)
            for k in range(len(shares))
        ]
        gradient: Vector = shares @ np.stack([reclipped(sample.data_grad(x, block), most) for sample in samples])
        return gradient


def enforced(loss: Loss, clip: float, opaque: float, whole: bool, regularizer: float) -> Loss:
    """Return a loss whose gradient respects the clip: the loss itself if `losses.clipping` clips it, or a `Reclipped`.

    Args:
        loss: as an agent sees it.
        clip: for a sample, or for the round if `whole`.
        opaque: the clip of a whole round that gives the same sensitivity, for a loss that exposes no samples.
        whole: as in `SampleLoss`.
        regularizer: λ.
    """
    kind = type(loss)
    if not issubclass(kind, SampleLoss):
        return Reclipped(loss, opaque, whole, regularizer)
    sample: Any = loss
    if sample.clip != clip or sample.whole != whole or sample.features.dtype != DOUBLE:
        # A user's stream made this loss. Squares of bytes wrap around, and squares of shorter floats overflow.
        sample = replace(sample, features=sample.features.astype(np.float64), clip=clip, whole=whole)
    return sample if clips_itself(kind) else Reclipped(sample, clip, whole, regularizer)


@cache
def clips_itself(kind: type[Loss]) -> bool:
    """Return whether the gradients of a class of losses respect the clip, because this package's code computes them."""
    return issubclass(kind, LinearLoss) and kind.grad is LinearLoss.grad and _is_clipped(kind)


class Stated(NamedTuple):
    """Statements about the losses of a user's stream on which the accountant relies.

    Every loss of the stream is verified against them.

    Attributes:
        kind: `problem.loss`.
        stream: states bounds and labels, which hold for the losses of a stream that states `makes_all_losses`.
        run: has the public weight of a sample, and λ.
        samples: by agent, the number of samples in a round.
    """

    kind: type[SampleLoss]
    stream: Stream
    run: Run
    samples: Sequence[int]

    def fits(self, agent: int, loss: Loss) -> bool:
        """Return whether a loss has the stated class and λ, no more samples than stated, and no heavier ones.

        Raises:
            BadInput: the stream states that `make_loss` makes all its losses, and this loss was not made by it.
        """
        rows, claims, fits = self.samples[agent], self.stream.makes_all_losses, False
        if isinstance(loss, SampleLoss) and type(loss) is self.kind and loss.regularizer == self.run.regularizer:
            k, weights = len(loss.targets), 1 / (np.asarray(loss.divisor, float) * self.run.sample_weight[agent])
            light = (weights >= (1 - 1e-12 if claims else 0.0)) & (weights <= 1 + 1e-12)
            fits = loss.features.shape == (k, self.stream.dimension) and k <= rows and bool(light.all())
            if fits and claims:
                within = row_sizes(loss.features) <= self.stream.feature_bound * (1 + 1e-9)
                within &= row_norms(loss.features) <= self.stream.feature_norm * (1 + 1e-9)
                labels: Any = (-1, 1) if loss.needs_labels else range(self.stream.classes) or loss.targets
                fits = k == rows and bool((within & np.isin(loss.targets, labels)).all())
        if claims and not fits:
            raise BadInput(f"data: a loss is not make_loss's own, of {rows} samples: change losses in `of` alone")
        return fits


@cache
def _is_clipped(kind: type[Loss]) -> bool:
    """Return whether `data_grad` of a class is this package's.

    Those methods respect the clip for samples of any doubles.
    """
    return kind.data_grad.__module__.startswith("mpinodes.losses.")
