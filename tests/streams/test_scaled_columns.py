"""Columns that are scaled by the data themselves void what is proven: they are detected in files."""

from __future__ import annotations

import numpy as np
import pytest

from mpinodes.core.errors import BadInput
from mpinodes.running.setup import set_up
from mpinodes.streams.labelled import in_memory, split
from tests.helpers.parts import run_of, sections, setup_of
from tests.helpers.records import summary_of

N = 60
RAW = np.random.default_rng(7).gamma(2.0, 1.5, (N, 3)) - 2
LABELS = np.where(RAW.sum(axis=1) > 3, 1.0, -1.0)
BASE = "algorithm.name=dola topology.agents=3 data.name=file data.columns=3 data.labels=[-1,1] rounds=8 privacy.clip=1"


def standard(x, ddof=0):
    return (x - x.mean(axis=0)) / x.std(axis=0, ddof=ddof)


def least_to_largest(x):
    return (x - x.min(axis=0)) / (x.max(axis=0) - x.min(axis=0))


def stream_of(tmp_path, features, targets=LABELS, more="", form="npz"):
    path = tmp_path / f"samples.{form}"
    if form == "npz":
        np.savez(path, features=features, targets=targets)
    elif form == "csv":
        path.write_text(
            "\n".join(",".join(f"{v:.3f}" for v in (*x, b)) for x, b in zip(features, targets, strict=True))
        )
        more += " data.header=false"
    else:
        lines = zip(features, targets, strict=True)
        path.write_text(
            "\n".join(f"{b:+g} " + " ".join(f"{k + 1}:{v:.17g}" for k, v in enumerate(x) if v) for x, b in lines) + "\n"
        )
    return setup_of(f"{BASE} data.file={path} {more}").stream


SCALED = {
    "mean and standard deviation": standard(RAW),
    "by n - 1": standard(RAW, 1),
    "one column": np.c_[RAW[:, :2], standard(RAW)[:, 2]],
    "single precision": standard(RAW).astype(np.float32).astype(float),
    "standard deviation alone": RAW / RAW.std(axis=0),
    "a column of two values": np.c_[RAW[:, :2], standard((RAW[:, 2] > 1).astype(float))],
    "whitened": np.linalg.svd(RAW - RAW.mean(axis=0), full_matrices=False)[0] * np.sqrt(N),
}


@pytest.mark.parametrize("form", ["npz", "csv", "svm"])
@pytest.mark.parametrize("name", SCALED)
def test_columns_standardized_by_themselves_leave_nothing_proven(tmp_path, name, form):
    if form == "csv" and name == "standard deviation alone":
        return  # three decimals hide that from what any other column may show
    stream = stream_of(tmp_path, SCALED[name], form=form)
    assert "are scaled by the data's own mean or standard deviation" in stream.unproven_because
    assert ("columns 2 are" in stream.unproven_because) == (name in ("one column", "a column of two values"))


UNSCALED = {
    "as measured": RAW, "normal": np.random.default_rng(0).normal(size=(N, 3)),
    "many normal": np.random.default_rng(1).normal(size=(20000, 3)),
    "corners": np.tile([[1.0, -1, 1], [-1, 1, 1], [1, 1, -1], [-1, -1, -1]], (15, 1)),
    "zeros and ones": (RAW > 0).astype(float), "by constants": RAW / 12, "words": np.eye(3)[np.arange(N) % 3],
}  # fmt: skip


@pytest.mark.parametrize("name", UNSCALED)
def test_other_columns_leave_all_proven(tmp_path, name):
    features = UNSCALED[name]
    stream = stream_of(tmp_path, features, np.where(np.arange(len(features)) % 2, 1.0, -1.0))
    assert stream.unproven_because == stream.public == ""


@pytest.mark.parametrize(
    "features", [least_to_largest(RAW), 2 * least_to_largest(RAW) - 1, RAW / abs(RAW).max(axis=0)]
)  # fmt: skip
def test_columns_that_just_reach_one_are_named_beside_the_numbers(tmp_path, features):
    stream = stream_of(tmp_path, features)
    assert stream.unproven_because == ""
    assert "columns 0, 1, 2 are scaled to a largest size of exactly 1" in stream.public
    privacy = summary_of(run_of(tmp_path / "run", f"{BASE} data.file={tmp_path}/samples.npz"))["privacy"]
    assert privacy["public"] == stream.public
    assert privacy["network"]["proven"] is not None


@pytest.mark.parametrize("alone", [0, 1, None])
def test_files_of_agents_are_looked_at_each_and_all_together(tmp_path, alone):
    whole, rows = standard(RAW), np.array_split(np.arange(N), 3)
    for i, own in enumerate(rows):
        features = whole[own] if alone is None else standard(RAW[own]) if i == alone else RAW[own]
        np.savez(tmp_path / f"part-{i}.npz", features=features, targets=LABELS[own])
    privacy = summary_of(run_of(tmp_path / "run", f"{BASE} data.file={tmp_path}/part-{{agent}}.npz"))["privacy"]
    assert privacy["network"]["proven"] is privacy["agents"][0]["proven"] is None
    assert "mean or standard deviation" in privacy["unproven_because"]
    with pytest.raises(BadInput, match="standard deviation"):
        set_up(sections(f"{BASE} data.file={tmp_path}/part-{{agent}}.npz privacy.budget.epsilon=5"), ranks=None)


def test_training_samples_and_real_targets_are_looked_at(tmp_path):
    train = split(in_memory(np.arange(N)[:, None], np.zeros(N)), 0.75)[0].features(np.arange(45))[:, 0]
    features = (RAW - RAW[train].mean(axis=0)) / RAW[train].std(axis=0)
    assert "standard deviation" in stream_of(tmp_path, features, more="data.train=0.75").unproven_because
    real = "data.targets=real data.labels=[] problem.loss=least-squares"
    stream = stream_of(tmp_path, RAW, standard(RAW[:, 0] * RAW[:, 1]), more=real)
    assert "columns 3 are scaled by the data's own" in stream.unproven_because
    assert stream_of(tmp_path, RAW, RAW[:, 0], more=real).unproven_because == ""
