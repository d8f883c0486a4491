"""Clip the gradients of user-written losses before an algorithm sees the gradients.

The class `Stated` verifies that the losses of a user-written stream have the properties that the stream states.
"""

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
    """Clip the gradients of a wrapped loss once more, so that the clip holds whatever the wrapped loss computes.

    Attributes:
        clip: the largest L2 norm of a clipped gradient.
        whole: whether the gradient of all samples of the round together is clipped, and not the gradient of each
            sample. If the wrapped loss is not a `SampleLoss`, the gradient of the round is always clipped.
        regularizer: λ, the weight of the regularizer (λ/2)‖x‖², whose gradient λx is not clipped.
    """

    clip: float
    whole: bool
    regularizer: float

    def grad(self, x: Vector, block: slice = ALL) -> Vector:
        """Return the clipped gradient of the samples at x plus the gradient λx of the regularizer.

        Only the coordinates `block` are computed.
        """
        gradient = self.data_grad(x, block)
        return gradient + self.regularizer * x[block] if self.regularizer else gradient

    def data_grad(self, x: Vector, block: slice = ALL) -> Vector:
        """Return the clipped gradient of the samples at x, in the coordinates `block`, without λx.

        - If `whole` is set, or the wrapped loss is no `SampleLoss`, the gradient of the round is clipped as one vector.
        - Otherwise the result is the sum of the samples' clipped gradients, each divided by the divisor of its sample.
        - For an empty batch, the result is 0.
        """
        loss, most = self.loss, self.clip * (1 + ROUNDING / 2)
        if isinstance(loss, SampleLoss) and not len(loss.targets):  # an empty batch
            return np.zeros(len(x[block]))
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
    """Return a loss with the same values as `loss`, whose gradient is clipped to given bounds.

    - If code of this package computes and clips the gradient of `loss`, the result is `loss` itself.
    - Otherwise the result is a `Reclipped`, which clips the gradient again.
    - If `loss` is a `SampleLoss` with other values of `clip` or `whole`, or with features that are not float64, a
      corrected copy first takes the place of `loss`.

    Args:
        loss: the loss of an agent in a round.
        clip: the largest L2 norm of one sample's gradient or, if `whole`, of the round's gradient; inf: not clipped.
        opaque: the largest L2 norm of the round's gradient if `loss` is not a `SampleLoss`.
        whole: whether the clip bounds the gradient of the whole round.
        regularizer: λ, the weight of the regularizer (λ/2)‖x‖².
    """
    kind = type(loss)
    if not issubclass(kind, SampleLoss):
        return Reclipped(loss, opaque, whole, regularizer)
    sample: Any = loss
    if sample.clip != clip or sample.whole != whole or sample.features.dtype != DOUBLE:
        # A user's stream made this loss. Its features become float64, because squares of bytes wrap around, and squares
        # of shorter floats overflow.
        sample = replace(sample, features=sample.features.astype(np.float64), clip=clip, whole=whole)
    is_clipped = issubclass(kind, LinearLoss) and kind.grad is LinearLoss.grad and _is_clipped(kind)
    return sample if is_clipped else Reclipped(sample, clip, whole, regularizer)


class Stated(NamedTuple):
    """Describe what the accountant assumes about the losses of a user-written stream; `fits` verifies one loss.

    Attributes:
        kind: the class of loss that `problem.loss` names.
        stream: the stream, which states bounds on features and the possible labels.
        run: the public constants of the run, among them λ and the factor by which a sample's loss function is
            multiplied.
        samples: the number of samples in a round, for each agent.
    """

    kind: type[SampleLoss]
    stream: Stream
    run: Run
    samples: Sequence[int]

    def fits(self, agent: int, loss: Loss) -> bool:
        """Return whether a loss of an agent is as the accountant assumes.

        - The class and λ of the loss must equal `self.kind` and the λ of `self.run`.
        - There must be at most `self.samples[agent]` samples, each with `stream.dimension` features.
        - The factor of a sample's loss function must be between 0 and the factor of `self.run`.

        If the stream states that its method `make_loss` makes all its losses, three more conditions must hold:

        - There are exactly `self.samples[agent]` samples, and each factor equals the factor of `self.run`.
        - The features obey the bounds that the stream states.
        - The targets are possible labels or classes, if the loss has labels or classes.

        Raises:
            BadInput: the stream states that `make_loss` makes all its losses, but this loss fails a condition.
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
            raise BadInput(
                f"data: a loss was not made by make_loss from {rows} samples, although the stream states that "
                "make_loss makes all its losses; a stream that changes losses must define the method `of`"
            )
        return fits


@cache
def _is_clipped(kind: type[Loss]) -> bool:
    """Return whether the method `data_grad` of a class of losses is code of this package, inherited or not.

    Such code clips correctly for all numbers that samples may contain.
    """
    return kind.data_grad.__module__.startswith("mpinodes.losses.")
