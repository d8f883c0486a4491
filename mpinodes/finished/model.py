"""Write the model of a run, which is made of releases alone, to model.npz; read the file again, and predict with it.

The file has the arrays `point` (d,), the model, and `features`, the names of the features (empty if the data have no
names). The array `labels` has the values that the model predicts; it is empty for real targets. The array `units` has
two numbers a and b: a + b * prediction is a real target in the units of the data file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpinodes.config.registry import Classes
from mpinodes.core import Features, SampleLoss, Setup, Vector
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import Experiment
from mpinodes.core.messages import arrays, doubles
from mpinodes.runlog.directories import write_bytes

FILE = "model.npz"


@dataclass(frozen=True)
class Model:
    """Predict with the model that a run trained: the mean of its released models.

    The decisions of an agent are hidden in most algorithms: they are sent with noise only. So no epsilon covers the
    decisions themselves, whose accuracy the run prints first. This model is made of releases instead. It is the mean of
    the models that the messages of all agents state (`Algorithm.released`), projected onto the constraint set. If the
    algorithm is judged by its last decision, the messages of the last round count, otherwise the messages of all
    rounds. So the model reveals no more than all messages together do, and the proven epsilon of the network covers it.

    Attributes:
        point: (d,) the parameters of the model; for classes, the parameters of the first class first. The last one of
            each class belongs to the intercept, if there is one (`data.scaling`).
        labels: the values that `predict` returns, as in the data file; empty for real targets.
        features: the names of the features; empty if the data have no names.
        units: (a, b): a + b * prediction is a real target in the units of the data file.
    """

    point: Vector
    labels: NDArray[Any]
    features: tuple[str, ...]
    units: tuple[float, float]
    _loss: type[SampleLoss] = field(repr=False)
    _scale: Callable[[Features], Features] = field(repr=False)
    _added: int = field(repr=False)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the predicted labels, or the predicted real targets, of k samples.

        Args:
            X: (k, features) an array, a sparse array or a pandas data frame. The columns are those of the data file
                without the target, in the same order, and without scaling. A data frame may have more columns, in any
                order, if the data file has names. For a built-in data set, the features are those of its stream.

        Raises:
            BadInput: X has other features than the data, or a feature is no finite number.
        """
        if hasattr(X, "columns"):
            X = X.rename(columns=str)
            if missing := [name for name in self.features if name not in X.columns]:
                raise BadInput(f"X: the column {missing[0]!r} of the training data is missing")
            X = X[list(self.features) or list(X.columns)]
        try:
            features = doubles(arrays(X.to_numpy(float) if hasattr(X, "columns") else X))
        except (TypeError, ValueError) as error:  # words, missing values, or rows of different lengths
            raise BadInput(f"X: {str(error).removeprefix('data: ')}") from error
        width = len(self.point) // (len(self.labels) if self._loss.per_class else 1) - self._added
        if features.ndim != 2 or features.shape[1] != width:
            raise BadInput(f"X: an array of shape {features.shape}; (samples, {width} features) expected")
        if not np.isfinite(features.data if hasattr(features, "tocsr") else features).all():
            raise BadInput("X: a feature is not a finite number: fill in missing values, or leave out their samples")
        features = self._scale(features)
        if not len(self.labels):
            return np.asarray(self.units[0] + self.units[1] * (features @ self.point))
        codes = np.arange(float(len(self.labels))) if self._loss.per_class else np.array([-1.0, 1.0])
        return np.asarray(self.labels[self._loss.predict(features, self.point[:, None], codes)[:, 0].astype(int)])

    def score(self, X: Any, y: Any) -> float:
        """Return the accuracy of the predictions, or for real targets the coefficient of determination R².

        Args:
            X: the features, as for `predict`.
            y: (k,) the true labels or targets, as in the data file.

        Raises:
            BadInput: `predict` refuses X, y has not one target for each sample, there is no sample, no target is a
                label of the model, a real target is no finite number, or all real targets are equal.
        """
        predicted, y = self.predict(X), np.asarray(y)
        if y.shape != predicted.shape:
            raise BadInput(f"y: an array of shape {y.shape}; {predicted.shape} expected")
        if not len(y):
            raise BadInput("y: no samples")
        if len(self.labels):
            if not np.isin(y, self.labels).any():
                raise BadInput(f"y: no target is a label of the model: {self.labels.tolist()}")
            return float(np.mean(predicted == y))
        if y.dtype.kind not in "buif" or not np.isfinite(y).all():
            raise BadInput("y: a target is not a finite number")
        if (y == y[0]).all():
            raise BadInput(f"y: all targets are {y[0]}, so R² is not defined")
        return float(1 - np.sum((predicted - y) ** 2) / np.sum((y - y.mean()) ** 2))


def write(directory: Path, setup: Setup, point: Vector) -> None:
    """Write the model of a run to model.npz in the run directory.

    Raises:
        OSError: the file cannot be written.
    """
    stream, file = setup.stream, BytesIO()
    labels = np.array([] if stream.real_valued() else list(stream.target_values))
    source = next(iter({**stream.labelled(), **stream.real_valued()}.values()))
    np.savez(file, point=point, labels=labels, features=np.array(source.columns[:-1], str), units=source.units)
    write_bytes(directory / FILE, file.getvalue())


def load_model(run: Path) -> Model:
    """Return the model of a run, from model.npz and experiment.toml in the run directory.

    Args:
        run: the run directory, or the file model.npz in it.

    Raises:
        BadInput: the run has no model, a file cannot be read, or a part of the experiment is missing.
    """
    run = run.parent if run.name == FILE else run
    if repeats := sorted(run.glob("repeat-*")):
        raise BadInput(f"{run}: each repeat has a model: name the directory of a repeat, such as {repeats[0]}")
    try:
        with np.load(run / FILE) as stored:
            point, labels, features = (stored[name] for name in ("point", "labels", "features"))
            units = tuple(stored.get("units", (0.0, 1.0)))
    except FileNotFoundError as error:
        reasons = "the run is not finished, it has no targets to predict, or its messages state no model"
        raise BadInput(f"{run}: no {FILE}: {reasons} (Algorithm.released)") from error
    except (OSError, ValueError, KeyError) as error:
        raise BadInput(f"{run / FILE}: cannot be read: {error}") from error
    experiment = Experiment.read(run / "experiment.toml")
    classes = Classes.of(experiment)
    scale, added = classes.stream.scaling_of(experiment.data)
    return Model(point, labels, tuple(features.tolist()), units, classes.loss, scale, added)
