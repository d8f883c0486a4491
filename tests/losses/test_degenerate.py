"""Every loss on dense and sparse samples that tell next to nothing, with every metric: a run ends with its numbers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import mpinodes
from mpinodes.config import registry
from mpinodes.core.asked import asked_for
from mpinodes.core.errors import BadInput
from mpinodes.running import job

TARGETS: dict[str, tuple[str, list[float]]] = {
    "hinge": ("labels", [-1, 1]), "logistic": ("labels", [-1, 1]), "softmax": ("classes", [0, 1, 2]),
    "absolute": ("real", [0.5, -1, 0]), "least-squares": ("real", [0.5, -1, 0]),
    "squared-distance": ("labels", [-1, 1]),
}  # fmt: skip
KINDS = ("all zero", "one feature", "one sample", "constant column", "duplicated rows", "every other row zero")
METRICS = json.dumps(registry.names(registry.METRICS))
WORDS = ["algorithm.name=dola", "topology.name=complete", f"record.metrics={METRICS}", "report=false"]


def samples(kind: str) -> np.ndarray:
    """Return (rows, columns) features."""
    features = np.random.default_rng(1).uniform(-0.5, 0.5, (8, 1 if kind == "one feature" else 3)).round(2)
    if kind == "all zero":
        features[:] = 0
    elif kind == "constant column":
        features[:, 0] = 0.25
    elif kind in ("duplicated rows", "one sample"):
        features[:] = features[0]
    elif kind == "every other row zero":
        features[::2] = 0
    return features[:1] if kind == "one sample" else features


def data(folder: Path, form: str, features: np.ndarray, loss: str) -> list[str]:
    """Write the samples; return the words that describe them."""
    kind, values = TARGETS[loss]
    targets, path = [values[k % len(values)] for k in range(len(features))], folder / f"data.{form}"
    if form == "csv":
        lines = [",".join(map(str, [*row, y])) for row, y in zip(features.tolist(), targets, strict=True)]
    else:
        rows = [[f"{k}:{a}" for k, a in enumerate(row, 1) if a] for row in features.tolist()]
        lines = [" ".join([str(y), *row]) for row, y in zip(rows, targets, strict=True)]
    path.write_text("\n".join(lines) + "\n")
    words = [f"data.file={path}", f"data.columns={features.shape[1]}", f"data.targets={kind}", f"problem.loss={loss}"]
    return [*words, "data.labels=[-1,1]"] if kind == "labels" else words


@pytest.mark.parametrize(
    ("form", "kind"), [*(("csv", kind) for kind in KINDS), ("svm", "all zero"), ("svm", "every other row zero")]
)
@pytest.mark.parametrize("loss", TARGETS)
def test_a_run_on_degenerate_samples_ends_with_its_numbers(tmp_path, loss, form, kind):
    assert set(TARGETS) == set(registry.names(registry.LOSSES))
    alone_here = kind == "one sample"
    words = [*WORDS, *data(tmp_path, form, samples(kind), loss), f"output.dir={tmp_path / 'run'}"]
    words += ["rounds=1", "topology.agents=1"] if alone_here else ["rounds=2", "topology.agents=2"]
    words += ["data.header=false"] * (form == "csv")
    if loss == "softmax" and alone_here:
        with pytest.raises(BadInput, match="classes expected"):
            job.run(asked_for(words))
        return
    place, summary = job.run(asked_for(words))
    assert np.isfinite(summary.value("network_regret"))
    assert json.loads((place / "summary.json").read_text())["rounds"] == len(mpinodes.load(place)["round"])


@pytest.mark.parametrize("more", [[], ["data.batch=2"], ["data.batch=all"], ["problem.set=none"], ["privacy.clip=0.2"]])
def test_squared_distances_of_sparse_samples_are_those_of_dense_ones(tmp_path, more):
    found = []
    for form in ("csv", "svm"):
        words = [*WORDS, *data(tmp_path, form, samples("constant column"), "squared-distance")]
        words += ['noise.key="k"', *more]
        words += ["data.header=false"] * (form == "csv") + ["rounds=2", "topology.agents=2", "data.norm=1"]
        found.append(job.run(asked_for([*words, f"output.dir={tmp_path / form}"]))[1])
    for key in ("network_regret", "average_fitness", "consensus_error"):
        assert found[1].value(key) == pytest.approx(found[0].value(key), rel=1e-9, abs=1e-12), key


def test_noise_is_refused_where_no_norm_of_the_samples_bounds_what_it_hides(tmp_path):
    for name in ("huang-dp", "gossip-averaging"):
        words = [
            f"algorithm.name={name}",
            "topology.name=complete",
            "topology.agents=2",
            "data.header=false",
            "rounds=5",
        ]
        words += [*data(tmp_path, "csv", samples("one feature"), "squared-distance"), "data.batch=all"]
        words += ["data.header=false", "report=false"]
        with pytest.raises(BadInput, match=r"clip = inf: .* set data\.norm, "):
            job.run(asked_for([*words, f"output.dir={tmp_path / name}"]))
        job.run(asked_for([*words, "data.norm=1", f"output.dir={tmp_path / name}"]))


@pytest.mark.parametrize("loss", ["absolute", "hinge", "logistic"])
def test_gossip_without_noise_needs_no_sensitivity(tmp_path, loss):
    words = ["algorithm.name=gossip-averaging", "topology.agents=2", "topology.name=complete", "privacy.epsilon=inf"]
    words += [*data(tmp_path, "svm", samples("one feature"), loss), "data.batch=all", "report=false", "rounds=3"]
    job.run(asked_for([*words, f"output.dir={tmp_path / 'run'}"]))
