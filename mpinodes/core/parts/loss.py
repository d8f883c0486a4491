"""Define the base classes of losses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mpinodes.core.messages import Features, Solved, Vector

ALL: slice = slice(None)


class Loss(ABC):
    """Define the loss function f^t of an agent in round t: the loss of its samples, plus the regularizer (λ/2)‖x‖²."""

    __slots__ = ()

    @property
    def played(self) -> Vector | None:
        """Return the midpoint (d,) of the two points at which the agent learnt its loss (bandit feedback).

        The result is None if the agent learns gradients, or if it has not yet learnt its loss at any point.
        """
        return None

    @property
    def takes_runs(self) -> bool:
        """Return whether the gradients take points of several runs (runs, d), and a sample of each run in `features`.

        The gradient of each run has the same bits as that of a loss with the run's sample alone.
        """
        return False

    @abstractmethod
    def value(self, x: Vector) -> float:
        """Return f(x) at a point x (d,)."""

    @abstractmethod
    def grad(self, x: Vector, block: slice = ALL) -> Vector:
        """Return the coordinates `block` of ∇f(x) as a new vector. The samples' part of ∇f is clipped."""

    @abstractmethod
    def data_grad(self, x: Vector, block: slice = ALL) -> Vector:
        """Return the coordinates `block` of the clipped gradient of the samples' loss, without the regularizer."""

    def batch(self, draw: Callable[[int], NDArray[np.int64]], rate: float) -> Loss:
        """Return the loss of a randomly drawn batch of this loss's samples. By default, the result is this loss itself.

        In `SampleLoss`, the sum over the samples of the batch is divided by `rate` and by the divisor of this loss, and
        the regularizer is added. The mean of the batch's loss over all draws is therefore this loss.

        Args:
            draw: takes the number of samples of this loss, and returns the indices of the samples in the batch.
            rate: the probability with which a sample is in the batch, or the share of the samples in the batch.
        """
        return self

    @abstractmethod
    def prox(self, v: Vector, step: float, near: Vector, tolerance: float) -> Solved:
        """Return an approximate minimizer over x of f(x) + ‖x − v‖²/(2·step), where f is the loss without clipping.

        Args:
            v: (d,) the center of the quadratic term.
            step: the step size of the proximal operator.
            near: (d,) the point at which the solver starts.
            tolerance: the gradient norm at which the solver stops.
        """


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class SampleLoss(Loss):
    """Define a loss of samples (a_k, b_k): f(x) = Σ_k ℓ(x; a_k, b_k)/divisor + (λ/2)‖x‖².

    If ℓ depends on x only through a_k·x, extend `losses.linear.LinearLoss`, which needs only three short methods.

    Attributes:
        features: (k, d) the a_k as rows, dense or a sparse CSR array.
        targets: (k,) the b_k.
        clip: the L2 bound to which gradients, restricted to the requested block, are clipped; inf means no clipping.
        whole: True: the gradient of all samples of the round together is clipped, after the division by `divisor`.
            False: the gradient of each sample is clipped.
        divisor: a number that divides each sample's loss, such as k for the mean over the samples; or an array (k,),
            one divisor for each sample.
        regularizer: λ.
    """

    features: Features
    targets: Vector
    clip: float = inf
    whole: bool = False
    divisor: float | Vector = 1.0
    regularizer: float = 0.0

    needs_labels: ClassVar[bool] = False  # whether targets must be labels ±1
    predicts: ClassVar[bool] = False  # whether a_k·x predicts b_k, for real targets
    per_class: ClassVar[bool] = False  # whether targets are classes 0, 1, ...; x then has one row for each class
    has_prox: ClassVar[bool] = False  # whether the class implements `prox`; ℓ must then be twice differentiable
    convex: ClassVar[bool] = False  # whether ℓ is known to be convex in x for every sample
    sample_modulus: ClassVar[float] = 0.0  # the modulus of strong convexity of one sample's loss in x

    @classmethod
    def sample_sensitivity(cls, norm: float) -> float:
        """Return the largest L2 change of the gradient at one point, before clipping, when one sample is replaced.

        Args:
            norm: the largest L2 norm of a sample's features.

        Returns:
            The bound; by default inf, which means that only clipping bounds the change.
        """
        return inf

    @classmethod
    def sample_smoothness(cls, norm: float, other: float) -> float:
        """Return a Lipschitz constant (L2) of a sample's gradient, restricted to a block; inf if no constant is known.

        A block is a set of coordinates. Only the gradient's coordinates in the block B are considered, and the point x
        changes only in the block C. B and C may be all coordinates, or two different blocks.

        Args:
            norm: the largest L2 norm of a sample's features in the block B.
            other: the largest L2 norm of a sample's features in the block C.
        """
        return inf

    @classmethod
    def slope_bound(cls) -> float:
        """Return the supremum of |ℓ'|, where ℓ' is the derivative of ℓ in a_k·x; inf if ℓ' is unbounded."""
        return inf

    @classmethod
    def largest_gradient(cls, norm: float, radius: float) -> float:
        """Return a bound on the L2 norm of one sample's gradient before clipping.

        Args:
            norm: the largest L2 norm of the sample's features.
            radius: the largest L2 norm of the point x.
        """
        return float(cls.slope_bound() * norm)

    @classmethod
    def hessian_rank(cls, dimension: int) -> int:
        """Return the largest rank of the part of a sample's Hessian that depends on the sample; by default d."""
        return dimension

    @classmethod
    def value_rounding(cls, dimension: int, norm: float, radius: float) -> float:
        """Return the largest rounding error of the computed loss of a sample; inf if this error is unknown.

        Args:
            dimension: d.
            norm: the largest L2 norm of the sample's features.
            radius: the largest L2 norm of the point.
        """
        return inf

    @classmethod
    def condensed(cls, features: Features, targets: Vector) -> tuple[Features, Vector]:
        """Return fewer samples that have the same sum of losses as the given samples at every point.

        The result consists of the features (m, d) and the targets (m,) of the fewer samples.

        Raises:
            NotImplementedError: the class does not override this method, because no such samples are known.
        """
        raise NotImplementedError(f"{cls.__name__} does not define the method condensed")

    def grad(self, x: Vector, block: slice = ALL) -> Vector:
        """Return the coordinates `block` of ∇f(x) as a new vector: the clipped gradient of the samples plus λx."""
        gradient = self.data_grad(x, block)
        if self.regularizer:
            gradient += self.regularizer * (x if block is ALL else x[..., block])
        return gradient

    def batch(self, draw: Callable[[int], NDArray[np.int64]], rate: float) -> SampleLoss:
        """Return the loss of a randomly drawn batch, in which the divisor of each sample is multiplied by `rate`.

        The arguments are those of `Loss.batch`.
        """
        rows = draw(len(self.targets))
        divisor = self.divisor if np.ndim(self.divisor) == 0 else np.asarray(self.divisor)[rows]
        features = self.features.take(rows, axis=0) if isinstance(self.features, np.ndarray) else self.features[rows]
        return replace(self, features=features, targets=self.targets[rows], divisor=divisor * rate)

    def prox(self, v: Vector, step: float, near: Vector, tolerance: float) -> Solved:
        """Raise NotImplementedError: by default a loss has no proximal operator."""
        raise NotImplementedError(f"{type(self).__name__} does not define the method prox")

    @classmethod
    def predict(cls, features: Features, points: Vector, labels: Vector) -> NDArray[Any]:
        """Return the label that each of p models predicts for each of k samples.

        A model is a point x. By default, the predicted label is the label with the least loss.

        Args:
            features: (k, d) the features of the samples.
            points: (d, p), each column is a model.
            labels: (K,) all possible labels.

        Returns:
            (k, p) indices into `labels`.
        """
        k = features.shape[0]
        losses = [cls.values(features, np.full((1, k), label), points.T[None])[0] for label in labels]
        return np.asarray(np.argmin(losses, axis=0).T)

    @classmethod
    @abstractmethod
    def values(cls, features: Features, targets: Vector, points: Vector) -> Vector:
        """Return the loss ℓ of single samples at many points, without clipping, divisor and regularizer.

        There are g groups of p points, and k samples for each group. The samples may be the same for all groups.

        Args:
            features: (g k, d), the samples of the first group first; or (k, d) for shared samples. The array is dense
                or a sparse CSR array.
            targets: (g, k), or (1, k) for shared samples.
            points: (g, p, d).

        Returns:
            (g, p, k) the loss of each sample at each point of its group.
        """
