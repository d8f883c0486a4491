"""Data at the ends of the doubles, through whole runs: clipped or refused; and no message that is not finite."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec

import numpy as np
import pytest

from mpinodes.auditing.adjacent_replay import SLACK, replay
from mpinodes.auditing.changes import Change, ends
from mpinodes.auditing.transcripts import Recorded, Replayed, sizes
from mpinodes.core import Diverged
from mpinodes.core.errors import BadInput
from mpinodes.losses.newton import newton
from tests.helpers.parts import Lockstep, run_of, setup_of
from tests.helpers.running import run_here, run_mpi

BACKENDS = [
    "numpy",
    "lattice",
    pytest.param("opendp", marks=pytest.mark.skipif(not find_spec("opendp"), reason="none")),
]
ROUNDS = 112


@pytest.fixture(autouse=True)
def quiet():
    """As in a run."""
    with np.errstate(all="ignore"):
        yield


# Samples of a stream of one's own: no file reader has looked at them. Round 111 has the one that is changed.
STREAM = """
from dataclasses import dataclass
from typing import Annotated, ClassVar
import numpy as np
from msgspec import Meta
from mpinodes.core import Stream
__all__ = ["Edge"]

@dataclass(frozen=True)
class Edge(Stream):
    feature: Annotated[float, Meta(description="of the sample of round 111")] = 1e-170
    target: Annotated[float, Meta(description="likewise")] = 1e300
    batch: Annotated[int, Meta(ge=1, description="samples of a round")] = 1
    partition: Annotated[str, Meta(description="who sees them")] = "even"
    title: ClassVar[str] = "samples at the edge"
    dimension: ClassVar[int] = 4
    rounds: ClassVar[None] = None

    def of(self, agent):
        def loss(t):
            draw = np.random.default_rng((agent, t))
            features = draw.uniform(-0.5, 0.5, (1, 4))
            targets = features.sum(axis=1)
            if t == 111:
                features[:], targets[:] = self.feature, self.target
            return self.make_loss(features, targets)
        return loss

    def samples(self, agent):
        return lambda t: [t - 1]
"""


def asked(tmp_path, **more) -> dict:
    (tmp_path / "edge.py").write_text(STREAM)
    return {
        "algorithm": {"name": "dola"},
        "topology": {"name": "complete", "agents": 2},
        "data": {"path": str(tmp_path / "edge.py")} | more.get("data", {}),
        "problem": {"loss": "least-squares", "set": "ball", "radius": 10.0, "regularizer": 1.0},
        "privacy": {"clip": 1.0, "epsilon": 1.0},
        "noise": {"backend": more.get("backend", "numpy")},
        "rounds": ROUNDS,
        "record": {"transcript": True},
    }


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("feature", "target"), [(1e-170, 1e300), (0.5, -1.7e308)])
def test_no_sample_costs_more_than_is_proven(tmp_path, backend, feature, target):
    """On the code before, a squared norm that underflows let a sample of 1e-170 and 1e300 move the message by 1,110.

    And a target of -1.7e308 made that message no number, which tells for certain.
    """
    run = run_of(tmp_path / "run", asked(tmp_path, data={"feature": feature, "target": target}, backend=backend))
    proven = json.loads((run / "summary.json").read_text())["privacy"]["network"]["proven_pure"]
    assert proven == pytest.approx(1.0, rel=1e-5)
    recorded = Recorded(run)
    assert np.isfinite(recorded.frames).all()
    for agent in range(2):
        replayed, worst = Replayed(recorded, agent), 0.0
        for other in (-target, 0.0, 1.0):
            for size in (feature, -feature, 1.7e308, 0.3):
                moved, _ = replayed.moved(Change(111, 110, np.full(4, size), other), ROUNDS)
                worst = max(worst, moved[1, 0, 0] / replayed.scale[111, 0])
                assert worst <= proven * SLACK
        assert worst > 0.9


RUNS = {
    "dola": {"problem": {"loss": "least-squares"}},
    "dpsda-ps": {"problem": {"loss": "absolute"}},
    "dpsda-ps public": {
        "algorithm": {"name": "dpsda-ps", "gradient_at": "public"}, "problem": {"loss": "least-squares"},
    },
    "weight-balancing": {"problem": {"loss": "least-squares", "set": "none", "regularizer": 0.1}},
    "weight-balancing public": {
        "algorithm": {"name": "weight-balancing", "gradient_at": "public"}, "problem": {"loss": "absolute"},
    },
    "two-stage-gaussian": {"problem": {"loss": "squared-distance"}, "privacy": {"clip": 0.5}},
    "dpsda-c one-round": {
        "algorithm": {"name": "dpsda-c"}, "data": {"batch": 3}, "privacy": {"adjacency": "one-round"},
        "problem": {"loss": "least-squares"},
    },
    "dola-minibatch": {"data": {"batch": 2}, "problem": {"average": True, "loss": "least-squares"}},
    "dvp-admm": {"problem": {"weight": 4.0}, "data": {"bound": 0.5, "norm": 2.0, "targets": "labels"}},
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_replay_tries_the_ends_of_the_doubles_and_nothing_moves_further(tmp_path, name):
    rng = np.random.default_rng(0)
    features = rng.uniform(-0.5, 0.5, (60, 8))
    labels = "targets" in RUNS[name].get("data", {})
    targets = np.sign(features[:, 0]) if labels else features.sum(axis=1)
    np.savez(tmp_path / "data.npz", features=features, targets=targets)
    asked = {"algorithm": {"name": name.split()[0]}, "rounds": 10} | RUNS[name]
    if not name.startswith("dpsda"):
        asked["topology"] = {"agents": 3}
    asked["data"] = {"name": "file", "file": str(tmp_path / "data.npz"), "targets": "real"} | asked.get("data", {})
    if name.startswith(("two-stage", "dvp")):
        asked["data"]["batch"] = "all"
    if name.startswith("two-stage"):
        asked["algorithm"]["gradient_rounds"] = 6
    run = Recorded(run_of(tmp_path / "run", asked | {"record": {"transcript": True}}))
    found = [replay(run, agent, rounds=2, seed=1) for agent in (0, run.setup.topology.agents - 1)]
    assert not any(f.exceeded for f in found), found
    assert max(f.direct for f in found) > 0.05
    used = 7 if name.startswith("two-stage") else 9  # rounds whose samples are in a message: one more is handed over
    assert [f.changes for f in found] == [11 * used] * len(found)


def test_what_is_tried_reaches_the_ends_of_the_domain():
    free = setup_of("algorithm.name=dola data.name=unit-ball data.total=30 topology.agents=2 problem.loss=absolute")
    change = Change(1, 0, np.zeros(10), 1.0)
    inside = ends(free, free.losses(0)(1), change)
    assert max(np.linalg.norm(c.feature) for c in inside) == pytest.approx(1.0)
    assert {abs(c.target) for c in inside} >= {1.7e308, 1e300, 1e-170, 5e-324, 0.0}
    assert any(np.abs(c.feature).max() == 1e-170 for c in inside)
    assert any(not c.feature.any() for c in inside)


def test_a_message_that_is_no_number_counts_as_moved_without_bound():
    one = np.zeros(2)
    assert sizes(np.array([np.nan, 0.0]) - one, one) == [np.inf, np.inf]
    assert sizes(np.array([1e200, 1e200]), one)[1] == pytest.approx(2**0.5 * 1e200)


@pytest.mark.parametrize("backend", ["numpy", "lattice"])
def test_what_is_not_finite_is_never_sent(backend):
    """Steps that let the honest state grow beyond the doubles: the run ends, and no value is told."""
    setup = setup_of(
        "algorithm.name=weight-balancing problem.loss=least-squares problem.set=none problem.regularizer=1 "
        f"step.kind=constant step.value=1e90 topology.agents=3 data.name=olr data.partition=even rounds=20 "
        f"noise.backend={backend}"
    )
    agents, sent, error = Lockstep(setup), [], None
    while error is None and len(sent) < 60:
        try:
            sent += agents.speak()
        except Diverged as diverged:
            error = str(diverged)
    assert error
    assert "agent" in error
    assert "round" in error
    assert len(sent) > 3
    assert np.isfinite(sent).all()
    assert not re.search(r"says \d|nan|inf\b", error)  # no value


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("data.csv", "0.1,0.2,1\n0.3,0.1,-1\n1e-170,1e-170,1e300\n", "line 3, column 3: '1e300' is above 1e+100"),
        ("data.csv", "0.1,0.2,1\n0.3,-1.7e308,-1\n", "line 2, column 2: '-1.7e308' is above 1e+100"),
        ("data.libsvm", "1 1:0.5\n-1.7e308 1:0.2\n", "line 2: label '-1.7e308' is above 1e+100"),
        ("data.libsvm", "1 1:0.5\n2 1:0.2\n3 1:1e200\n", "line 3: '1:1e+200' is above 1e+100"),
    ],
)
def test_a_file_with_a_number_too_large_is_refused_with_its_row(tmp_path, name, text, message):
    """By the command: nothing has been sent."""
    (tmp_path / name).write_text(text)
    done = run_here(
        "--lockstep", "algorithm.name=dola", f"data.file={name}", "data.name=file", "data.targets=real",
        "problem.loss=least-squares", "topology.agents=1", "topology.name=complete", "rounds=1", "report=false",
        *["data.header=false"] * name.endswith(".csv"), cwd=tmp_path,
    )  # fmt: skip
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err
    assert not list(tmp_path.glob("runs/*"))


def test_files_of_agents_are_refused_before_any_rank_speaks(tmp_path):
    rows = "".join(f"0.{k},0.2,{k}\n" for k in range(1, 9))
    (tmp_path / "part-0.csv").write_text(rows)
    (tmp_path / "part-1.csv").write_text(rows + "1e-170,1e-170,1e300\n")
    done = run_mpi(
        3, "algorithm.name=dola", "data.name=file", "data.file=part-{agent}.csv", "data.targets=real",
        "data.header=false", "problem.loss=least-squares", "topology.name=complete", "rounds=2", "report=false",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.code == 2
    assert "part-1.csv: line 9, column 3: '1e300' is above 1e+100" in done.err
    assert not list(tmp_path.glob("runs/*"))


@pytest.mark.parametrize("size", [1e100, 1e-170, 5e-324, 0.0])
@pytest.mark.parametrize("bound", ["inf", 1.0])
def test_admm_solves_or_proves_nothing(tmp_path, size, bound):
    """Samples of any size: with a bound they are refused, or small; without, there is no noised run."""
    features = np.random.default_rng(0).uniform(-0.5, 0.5, (20, 3))
    features[4] = size
    np.savez(tmp_path / "data.npz", features=features, targets=np.where(np.arange(20) % 2, 1.0, -1.0))
    asked = {
        "algorithm": {"name": "admm" if bound == "inf" else "pp-admm"}, "problem": {"weight": 4.0},
        "topology": {"agents": 3}, "rounds": 6,
        "data": {
            "name": "file", "file": str(tmp_path / "data.npz"), "batch": "all", "bound": bound, "columns": 3,
            "labels": [-1, 1],
        },
        "record": {"transcript": True},
    }  # fmt: skip
    if size > float(bound):
        with pytest.raises(BadInput, match="a feature of size 1e\\+100, which is above 1"):
            run_of(tmp_path / "run", asked)
        return
    run = run_of(tmp_path / "run", asked)
    assert np.isfinite(Recorded(run).frames).all()
    proven = json.loads((run / "summary.json").read_text())["privacy"]["network"]["proven_pure"]
    assert (proven is None) == (bound == "inf")


def test_newton_ends_where_its_hessian_has_no_inverse():
    found = newton(lambda x: x - 1.0, lambda x: np.zeros((2, 2)), np.zeros(2), 1e-9)
    assert found.residual == pytest.approx(2**0.5)
    assert newton(lambda x: x * np.nan, lambda x: np.eye(2), np.ones(2), 1e-9).steps == 0


OWN = """
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
from mpinodes.streams.labelled import LabelledStream, in_memory
__all__ = ["Own"]

@dataclass(frozen=True)
class Own(LabelledStream):
    wrong: float = 0.0
    of_targets: bool = False
    name: ClassVar[str] = "own"
    has_labels: ClassVar[bool] = False
    feature_bound: ClassVar[float] = float("inf")

    def open(self):
        features, targets = np.ones((6, 2)), np.ones(6)
        (targets if self.of_targets else features)[4] = self.wrong
        return in_memory(features, targets), None
"""


@pytest.mark.parametrize("of_targets", [False, True])
@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -1e101, 1e100])
def test_samples_of_any_stream_are_finite_and_not_too_large(tmp_path, wrong, of_targets):
    (tmp_path / "own.py").write_text(OWN)
    data = {"path": str(tmp_path / "own.py"), "wrong": wrong, "of_targets": of_targets}
    asked = {"algorithm": {"name": "dola"}, "data": data, "problem": {"loss": "absolute"}}
    setup = setup_of(asked | {"topology": {"name": "complete", "agents": 1}})
    if wrong == 1e100:
        setup.losses(0)
        return
    what = "target" if of_targets else "feature"
    with pytest.raises(BadInput, match=rf"own: training sample 4 \(from 0\) has a {what} of size .*, which is"):
        setup.losses(0)


@pytest.mark.parametrize("clip", ["1e-101", "1e101", "nan"])
def test_a_clip_that_norms_cannot_be_compared_with_is_refused(clip):
    with pytest.raises(BadInput, match=r"privacy\.clip"):
        setup_of(f"privacy.clip={clip}")
