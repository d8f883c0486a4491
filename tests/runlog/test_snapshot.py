"""State on disk: the same bits, and nothing that runs."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isnan, nan
from typing import NamedTuple

import msgspec
import numpy as np
import pytest

from mpinodes.runlog import snapshot
from mpinodes.runlog.snapshot import Damaged, load


def save(path, content):
    snapshot.save(path, content, f"{path}.part")


class Pair(NamedTuple):
    left: object
    right: object


@dataclass(frozen=True, slots=True)
class Frozen:
    x: object
    y: object = 0

    def __post_init__(self):
        if self.y == "made by hand":
            raise ZeroDivisionError


CONTENT = {
    "nothing": None,
    "truth": True,
    "numbers": (0, -3, 2**80, -(2**200), 2**63, 0.1, -0.0, inf, 5e-324),
    "words": ["", "ε", {"a": (), 3: [None]}],
    "arrays": {"x": np.arange(6.0).reshape(2, 3), "f": np.asfortranarray(np.eye(3)), "i": np.array([1, 2], np.int32)},
    "scalar": np.float64(0.1),
    "nested": Frozen(Pair(np.array([nan, 1.0]), Frozen(1)), (Frozen("x"), True)),
    "empty": np.zeros((0, 3)),
}


def same(a, b):
    assert type(a) is type(b)
    if isinstance(a, np.ndarray | np.generic):
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            same(a[key], b[key])
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for one, other in zip(a, b, strict=True):
            same(one, other)
    elif isinstance(a, Frozen):
        same((a.x, a.y), (b.x, b.y))
    else:
        assert a == b
        assert repr(a) == repr(b)


def test_the_same_comes_back(tmp_path):
    save(tmp_path / "state", CONTENT)
    same(load(tmp_path / "state"), CONTENT)
    save(tmp_path / "state", {"nan": nan})
    assert isnan(load(tmp_path / "state")["nan"])
    assert [file.name for file in tmp_path.iterdir()] == ["state"]


@pytest.mark.parametrize("what", [object(), lambda: 0, {1, 2}, np.array([object()])])
def test_what_is_no_plain_data_is_named(tmp_path, what):
    with pytest.raises(TypeError, match=r"state.x\[1\] is a .*, which cannot be stored"):
        save(tmp_path / "state", {"state": Frozen((0, what))})
    assert list(tmp_path.iterdir()) == []


def test_any_flipped_bit_is_noticed(tmp_path):
    path = tmp_path / "state"
    save(path, CONTENT)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.choice(8 * len(whole), 400, replace=False):
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << place % 8
        path.write_bytes(flipped)
        with pytest.raises(Damaged, match="damaged"):
            load(path)


@pytest.mark.parametrize("kept", [0, 1, 100, -30, -1])
def test_a_cut_file_is_noticed(tmp_path, kept):
    path = tmp_path / "state"
    save(path, CONTENT)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(Damaged, match="damaged"):
        load(path)


@pytest.mark.parametrize(
    ("module", "name", "parts"),
    [
        ("os", "system", {}),
        ("subprocess", "Popen", {"args": ["touch", "x"]}),
        (__name__, "Frozen", {"x": 1}),
        ("nowhere", "Frozen", {"x": 1, "y": 2}),
    ],
)
def test_nothing_is_made_but_value_objects(tmp_path, module, name, parts):
    packed = msgspec.msgpack.encode({"x": {"of": [module, name], "parts": parts}})
    (tmp_path / "state").write_bytes(snapshot._sum(packed) + packed)
    with pytest.raises(Damaged):
        load(tmp_path / "state")


@pytest.mark.parametrize(
    "packed", [[1], {"x": {"rows": ["<f8", [10**9], b""]}}, {"x": {"rows": ["|O", [1], b"12345678"]}}]
)
def test_what_a_checksum_made_by_hand_covers_is_refused_too(tmp_path, packed):
    body = msgspec.msgpack.encode(packed)
    (tmp_path / "state").write_bytes(snapshot._sum(body) + body)
    with pytest.raises(Damaged):
        load(tmp_path / "state")


def test_no_code_of_a_class_is_run(tmp_path):
    made = object.__new__(Frozen)
    object.__setattr__(made, "x", 1)
    object.__setattr__(made, "y", "made by hand")
    save(tmp_path / "state", {"x": made})
    assert load(tmp_path / "state")["x"].y == "made by hand"
