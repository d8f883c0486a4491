"""MNIST with all ten classes, from files in MNIST's format."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from mpinodes.core.errors import BadInput
from tests.helpers.parts import run_of, setup_of


def put(folder: Path, name: str, labels: np.ndarray, side: int = 28) -> None:
    pixels = np.random.default_rng(len(labels)).integers(256, size=(len(labels), side, side), dtype=np.uint8)
    (folder / f"{name}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, *pixels.shape) + pixels.tobytes())
    (folder / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, len(labels)) + labels.tobytes())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put(tmp_path, "train", np.resize(np.arange(10, dtype=np.uint8), 40))
    put(tmp_path, "t10k", np.resize(np.arange(10, dtype=np.uint8), 20))
    return tmp_path


def asked(folder: Path) -> dict:
    return {
        "algorithm": {"name": "dp-dsgd"}, "data": {"name": "mnist", "dir": str(folder), "batch": 5}, "rounds": 2,
        "topology": {"name": "ring", "agents": 4},
    }  # fmt: skip


def test_ten_classes_and_a_softmax_loss(folder: Path) -> None:
    setup = setup_of(asked(folder))
    assert (setup.stream.classes, setup.stream.dimension, setup.dimension) == (10, 784, 7840)
    assert setup.stream.feature_norm == 28.0
    assert {name: len(source.targets) for name, source in setup.stream.labelled().items()} == {"train": 40, "test": 20}
    assert setup.stream.unproven_because == ""
    loss = setup.losses(0)(1)
    assert type(loss).__name__ == "Softmax"
    assert np.linalg.norm(loss.data_grad(np.zeros(7840))) <= 1.0 + 1e-9


def test_a_run_has_an_accuracy(folder: Path) -> None:
    where = run_of(folder / "run", asked(folder))
    assert '"accuracy' in (where / "summary.json").read_text()


@pytest.mark.parametrize(
    ("labels", "side", "line"), [([0, 10], 28, "the largest label is 10"), ([0, 1], 5, "each image has 25 pixels")]
)
def test_other_files_are_refused(folder: Path, labels: list[int], side: int, line: str) -> None:
    put(folder, "train", np.array(labels * 20, np.uint8), side)
    with pytest.raises(BadInput, match=line):
        setup_of(asked(folder))
