"""Streams of the user's: what they yield is held to what is accounted for, and what cannot be used is refused first."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

from mpinodes.core.errors import BadInput
from mpinodes.running.setup import rehearse
from tests.helpers.parts import run_of, setup_of
from tests.helpers.records import summary_of
from tests.helpers.running import run_here, run_mpi
from tests.privacy.test_edges import BASE, proven, realised, transcript_of

HEAD = """
from dataclasses import dataclass, replace
from typing import NamedTuple
import numpy as np
from scipy import sparse
from mpinodes.core import Loss, Stream
from mpinodes.streams.labelled import LabelledStream, in_memory
__all__ = ["Own"]
X, Y = np.linspace(-1, 1, 80).reshape(40, 2), np.where(np.arange(40) % 3, 1.0, -1.0)
DEFAULTS = {"problem": {"loss": "logistic", "set": "ball", "radius": 5.0}}

class Batch(NamedTuple):
    rows: np.ndarray
    signs: np.ndarray

class Opaque(Loss):
    def value(self, x): return 0.0
    def grad(self, x, block=slice(None)): return x[block]
    def data_grad(self, x, block=slice(None)): return x[block]
    def prox(self, v, step, near, tolerance): raise NotImplementedError
"""
LABELLED = (
    HEAD
    + """
def steep(stream):  # puts a make_loss in the place of its own that weighs some samples twenty times as much
    make = stream.make_loss
    def made(features, targets):
        loss = make(features, targets)
        return replace(loss, divisor=loss.divisor / np.where(targets[0] > 0, 20.0, 1.0))
    object.__setattr__(stream, "make_loss", made)

@dataclass(frozen=True)
class Own(LabelledStream):
    flip: int = -1
    name, feature_bound, drawn_from_seed = "own", 1.0, True
    defaults = DEFAULTS

    def data(self):
        x, y = np.full((40, 2), -0.1), np.full(40, -1.0)
        x[5], y[5] = (1.0, -1.0 if self.flip == 5 else 1.0)
        return x, y

    def open(self):
        return in_memory(*self.data()), None
"""
)
PLAIN = (
    HEAD
    + """
@dataclass(frozen=True)
class Own(Stream):
    total: int = 40
    defaults = DEFAULTS
    title, dimension, rounds, has_labels = "own", 2, 40, True

    def samples(self, agent):
        return lambda t: [t - 1]
"""
)


def ask(path, text: str, **data) -> dict:
    (path / "own.py").write_text(text)
    return {
        **BASE, "algorithm": {"name": "dola"}, "data": {"path": str(path / "own.py"), **data}, "rounds": 30,
        "step": {"kind": "inverse-sqrt"}, "topology": {"name": "complete", "agents": 1},
        "privacy": {"clip": 0.5, "epsilon": 1.0},
    }  # fmt: skip


REPLACED = {
    "at the start": "    def __post_init__(self): steep(self)\n",
    "while opened": "    def open(self):\n        steep(self)\n        return in_memory(*self.data()), None\n",
    "while read": (
        "    def open(self):\n        source = in_memory(*self.data())\n"
        "        return replace(source, features=lambda rows: steep(self) or source.features(rows)), None\n"
    ),
    "stated": "    makes_all_losses = True\n    def __post_init__(self): steep(self)\n",
    "of": (
        "    makes_all_losses = True\n    def of(self, agent):\n        own = super().of(agent)\n"
        "        return lambda t: replace(own(t), features=9.0 * own(t).features)\n"
    ),
    "instance": (
        "    def open(self):\n        own = super().of\n"
        "        object.__setattr__(self, 'of', lambda i: lambda t: replace(own(i)(t), divisor=0.1))\n"
        "        return in_memory(*self.data()), None\n"
    ),
}


def outcome(asked: dict) -> tuple[float, float]:
    """What is printed and what is realised; nothing is realised in a run that is refused."""
    with suppress(BadInput):
        run = transcript_of(setup_of(asked))
        return proven(run).pure, realised(run, {"flip": 5})
    return 0.0, 0.0


@pytest.mark.parametrize("clip", [0.5, 5.0])
@pytest.mark.parametrize("how", REPLACED)
def test_a_make_loss_that_is_replaced_costs_no_more_than_is_printed(how, clip, tmp_path):
    asked = ask(tmp_path, LABELLED + REPLACED[how])
    asked["privacy"]["clip"] = clip
    printed, found = outcome(asked)
    assert found <= printed * (1 + 1e-9)
    assert (printed == 0) == (how != "at the start")


ROWS = {
    "sparse rows than targets": "self.make_loss(sparse.csr_array(np.repeat(x[[t - 1]], 8, axis=0)), y[[t - 1]])",
    "samples than stated": "self.make_loss(np.repeat(x[[t - 1]], 8, axis=0), np.repeat(y[[t - 1]], 8))",
}


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("more", ROWS)
def test_more_rows_of_a_loss_cost_no_more_than_is_printed(more, batch, tmp_path):
    of = "    def of(self, agent):\n        x, y = self._own(agent)\n        return lambda t: " + ROWS[more]
    own = of + "\n    def samples(self, agent):\n        return lambda t: [t - 1]\n"
    run = transcript_of(setup_of({**ask(tmp_path, LABELLED + own, batch=batch), "rounds": 15}))
    assert 0 < realised(run, {"flip": 5}) <= proven(run).pure * (1 + 1e-9)


@pytest.mark.parametrize("stated", ["", "    makes_all_losses = True\n"])
@pytest.mark.parametrize("groups", ["[t - 1]", "[0]"])
def test_false_groups_cost_no_more_than_is_printed(groups, stated, tmp_path):
    own = f"    def groups(self, agent):\n        return lambda t: {groups}\n{stated}"
    asked = {**ask(tmp_path, LABELLED + own, epochs=4), "rounds": 140}
    run = transcript_of(setup_of(asked))
    assert 1 < realised(run, {"flip": 5}) <= proven(run).pure * (1 + 1e-9)


@pytest.mark.parametrize(
    ("shares", "partition"),
    [
        ("(np.array([0, 1, 5, 5]),) * 1", "even"), ("(np.arange(40), np.arange(40))", "even"),
        ("(np.array([0, 39, -1]), np.array([4]))", "even"), ("(np.arange(40), np.arange(40)[::-1])", "shared"),
    ],
)  # fmt: skip
def test_a_row_that_stands_in_the_shares_twice_is_refused(shares, partition, tmp_path):
    asked = ask(tmp_path, LABELLED + f"    shares = {shares}\n", partition=partition)
    asked["topology"]["agents"] = 1 if "* 1" in shares else 2
    with pytest.raises(BadInput, match="is in `shares` twice"):
        rehearse(setup_of({**asked, "rounds": 1}))


KINDS = ["float16", "float32", "int8", "int64", "bool"]


@pytest.mark.parametrize("kind", [*KINDS, "object", "complex", "str"])
@pytest.mark.parametrize("sparsely", [False, True])
def test_features_of_any_type_are_computed_with_as_doubles_or_refused(kind, sparsely, tmp_path):
    if sparsely and kind in ("float16", "object", "str"):
        kind = "longdouble"  # SciPy has none of these
    features = f"np.abs(np.ceil(X)).astype({kind!r})"
    wrapped = f"sparse.csc_matrix({features})" if sparsely else features
    targets = "Y" if kind == "bool" else "Y.astype(np.int8)"
    own = f"    def open(self): return in_memory({wrapped}, {targets}), in_memory({features}, {targets})\n"
    asked = ask(tmp_path, LABELLED + own, partition="even")
    if kind in ("object", "complex", "str"):
        with pytest.raises(BadInput, match="are no real numbers"):
            run_of(tmp_path / "run", asked)
        return
    run_of(tmp_path / "run", asked)
    doubles = own.replace(f".astype({kind!r})", "")
    (one, other) = (transcript_of(setup_of(ask(tmp_path, LABELLED + text))) for text in (own, doubles))
    np.testing.assert_array_equal(one.frames, other.frames)


ODD = {
    "fields of other names": "b = [Batch(X[[k]], Y[[k]]) for k in range(40)]; return lambda t: make(*b[t - 1])",
    "a generator": "g = (make(X[[k]], Y[[k]]) for k in range(40)); b = list(g); return lambda t: b[t - 1]",
    "integers": "return lambda t: make(X[[t - 1]] > 0, Y[[t - 1]].astype(np.int8))",
    "short floats": "return lambda t: make(X[[t - 1]].astype(np.float16), Y[[t - 1]].astype(np.float16))",
    "lists": "return lambda t: make(X[[t - 1]].tolist(), Y[[t - 1]].tolist())",
    "columns": "return lambda t: make(sparse.csc_matrix(X[[t - 1]]), Y[[t - 1]])",
    "empty rounds": "return lambda t: make(X[t - 1 : t - t % 2], Y[t - 1 : t - t % 2])",
    "weights of 0": "return lambda t: replace(make(X[[t - 1]], Y[[t - 1]]), divisor=np.inf if t % 2 else 1.0)",
    "one weight of 0": "return lambda t: replace(make(X[[t - 1]], Y[[t - 1]]), divisor=np.array([np.inf]))",
}


@pytest.mark.parametrize("odd", ODD)
def test_a_plain_stream_of_odd_losses_runs(odd, tmp_path):
    own = f"    def of(self, agent):\n        make = self.make_loss\n        {ODD[odd]}\n"
    if odd == "empty rounds":
        own += "    def samples(self, agent): return lambda t: [t - 1] * (1 - t % 2)\n"
    run_of(tmp_path / "run", ask(tmp_path, PLAIN + own))


REFUSED = {
    "no samples": ("return lambda t: Opaque()", "Opaque has none"),
    "no loss": ("return lambda t: None", "NoneType has none"),
    "one dimension": ("return lambda t: make(X[t - 1], Y[t - 1])", "round 1 of Own fails: ValueError"),
    "rows than targets": ("return lambda t: make(X[:8], Y[[0]])", "round 1 of Own fails: ValueError"),
    "a column of targets": (
        "return lambda t: replace(make(X[[t - 1]], Y[[t - 1]]), targets=Y[[t - 1], None])",
        "targets of shape",
    ),
    "a planted fault": ("return lambda t: 1 / 0", "round 1 of Own fails: ZeroDivisionError"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_losses_that_no_run_can_use_are_refused_before_the_first_round(why, tmp_path):
    of, reason = REFUSED[why]
    own = f"    def of(self, agent):\n        make = self.make_loss\n        {of}\n"
    with pytest.raises(BadInput, match=reason):
        run_of(tmp_path / "run", ask(tmp_path, PLAIN + own))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("kept_by", ["noise", "stopping"])
@pytest.mark.parametrize("own", ["", "    def of(self, agent): return super().of(agent)\n"])
def test_a_budget_is_kept_on_a_stream_of_the_users(kept_by, own, tmp_path):
    asked = ask(tmp_path, LABELLED + own)
    asked["privacy"] |= {"budget": {"epsilon": 0.7, "kept_by": kept_by}}
    summary = summary_of(run_of(tmp_path / "run", {**asked, "rounds": 10}))
    assert summary["privacy"]["network"]["proven"] <= 0.7


DISTANCE = """
from dataclasses import dataclass
import numpy as np
from mpinodes.core import ALL, SampleLoss
__all__ = ["Distance"]

@dataclass(frozen=True)
class Distance(SampleLoss):
    def value(self, x):
        apart = ((self.features - x) ** 2).sum(axis=1) / 2
        return float((apart / self.divisor).sum()) + self.regularizer * float(x @ x) / 2
    def data_grad(self, x, block=ALL):
        return ((x - self.features) / np.reshape(self.divisor, (-1, 1))).sum(axis=0)[block]
    @classmethod
    def values(cls, features, targets, points):
        f = features.reshape(-1, 1, targets.shape[1], features.shape[1])
        return ((f - points[:, :, None]) ** 2).sum(axis=3) / 2
"""


@pytest.mark.parametrize("own", ["", "    def of(self, agent): return super().of(agent)\n"])
def test_a_loss_that_is_no_linear_one_is_cut_once_sample_by_sample(own, tmp_path):
    (tmp_path / "distance.py").write_text(DISTANCE)
    asked = ask(tmp_path, LABELLED + own, batch=4)
    asked["problem"] = {**asked.get("problem", {}), "path": str(tmp_path / "distance.py")}
    asked["problem"].pop("loss", None)
    asked["rounds"], asked["privacy"]["clip"] = 5, 1.0
    setup = setup_of(asked)
    x, (seen, handed) = np.full(2, 0.3), (setup.losses(0)(1), setup.stream.of(0)(1))
    rows = x - handed.features
    wanted = (rows / np.maximum(1, np.linalg.norm(rows, axis=1))[:, None]).sum(axis=0) / handed.divisor
    wanted = wanted + handed.regularizer * x
    np.testing.assert_allclose(seen.grad(x), wanted)
    np.testing.assert_allclose(setup.cut(0, seen).grad(x), wanted)
    run_of(tmp_path / "run", asked)


OPAQUE_SHOWN = """    def of(self, agent):
        losses = super().of(agent)

        def shown(t):
            losses(t)
            return Opaque()

        return shown
"""


def test_losses_without_samples_of_a_stream_with_rows_run_and_have_no_regret(tmp_path):
    summary = summary_of(run_of(tmp_path / "run", ask(tmp_path, LABELLED + OPAQUE_SHOWN)))
    assert summary["comparator"] is None
    assert summary["comparator_left_out"].startswith("the class Opaque of the losses has no samples")


def test_a_plain_stream_is_priced_as_if_all_agents_saw_all_samples(tmp_path):
    own = "    def of(self, agent): return lambda t: self.make_loss(X[[t - 1]], Y[[t - 1]])\n"
    asked = ask(tmp_path, PLAIN + own)
    one, two = (transcript_of(setup_of({**asked, "topology": {"name": "complete", "agents": n}})) for n in (1, 2))
    assert two.setup.experiment.data["partition"] == "shared"
    assert proven(two).pure == pytest.approx(2 * proven(one).pure)
    asked["data"]["partition"] = "shared"  # as a run's own file says
    setup_of(asked)
    asked["data"]["partition"] = "even"
    with pytest.raises(BadInput, match=r"unknown key data\.partition"):
        setup_of(asked)


@pytest.mark.parametrize(("of", "code"), [(ODD["empty rounds"], 0), (REFUSED["no samples"][0], 2)])
def test_odd_streams_end_alike_on_ranks_and_in_lockstep(of, code, tmp_path):
    own = "    def samples(self, agent): return lambda t: [t - 1] * (1 - t % 2)\n"
    ask(tmp_path, PLAIN + own + f"    def of(self, agent):\n        make = self.make_loss\n        {of}\n")
    words = "algorithm.name=dola data.path=own.py rounds=10 topology.name=complete topology.agents=2 report=false"
    words = [*words.split(), "step.kind=inverse-sqrt", "privacy.clip=0.5"]
    for done in (run_here(*words, "--lockstep", cwd=tmp_path), run_mpi(3, *words, cwd=tmp_path)):
        assert done.code == code, done.err
        assert "Traceback" not in done.err


def test_an_agent_without_training_samples_is_a_line(tmp_path):
    (tmp_path / "one.csv").write_text("0.1,0.2,1\n")
    data = {"file": str(tmp_path / "one.csv"), "labels": [-1, 1], "header": False, "train": 0.5, "batch": "all"}
    star = {"agents": 1, "name": "star"}
    with pytest.raises(BadInput, match="agent 0 has no training sample"):
        setup_of({"algorithm": {"name": "dpsda-ps"}, "rounds": 4, "topology": star, "data": data})
