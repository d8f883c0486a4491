"""Secret batches: how they are drawn, and that nothing but the gradient depends on them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from mpinodes.algorithms.dola import DOLA
from mpinodes.algorithms.dp_dsgd import DPDSGD
from mpinodes.algorithms.dpsda_c import DPSDAC
from mpinodes.core.errors import BadInput
from mpinodes.losses.enforced import Reclipped
from mpinodes.losses.linear import NoisyGradient
from mpinodes.losses.logistic import Logistic
from mpinodes.presentation.privacy_words import lines
from mpinodes.rounds import sampling
from mpinodes.rounds.sampling import Batches
from mpinodes.rounds.step import Releaser
from mpinodes.runlog.reader import load
from mpinodes.summary.summary import Summary
from tests.helpers.parts import rows_of, run_of, setup_of

N, Q = 200, 0.05
POISSON = {
    "algorithm": {"name": "dp-dsgd"}, "rounds": 15, "topology": {"name": "ring", "agents": 4},
    "data": {"name": "unit-ball", "total": 4 * N, "dimension": 3, "sampling": "poisson", "rate": Q},
    "privacy": {"adjacency": "zero-out", "noise_multiplier": 1.0}, "record": {"transcript": True},
}  # fmt: skip


@pytest.fixture
def whole() -> Logistic:
    rng = np.random.default_rng(0)
    return Logistic(rng.normal(size=(N, 3)), rng.choice([-1.0, 1.0], N), divisor=float(N), regularizer=0.1)


def test_a_batch_is_a_binomial_number_of_distinct_samples(whole: Logistic) -> None:
    batches, numbers, taken = Batches(bytes(32), 0, Q, 0, 1), [], np.zeros(N)
    for t in range(1, 2001):
        batch = batches.drawn(whole, t)
        numbers.append(len(batch.targets))
        here = [int(np.flatnonzero((whole.features == row).all(axis=1))[0]) for row in batch.features]
        assert len(set(here)) == len(here)
        taken[here] += 1
    assert np.mean(numbers) == pytest.approx(N * Q, abs=4 * np.sqrt(N * Q * (1 - Q) / 2000))
    assert np.var(numbers) == pytest.approx(N * Q * (1 - Q), rel=0.15)
    assert abs(taken / 2000 - Q).max() < 5 * np.sqrt(Q * (1 - Q) / 2000)


def test_the_divisor_is_public_whatever_the_size(whole: Logistic) -> None:
    batches, x = Batches(bytes(32), 0, Q, 0, 1), np.array([0.1, -0.3, 0.2])
    for t in range(1, 20):
        batch = batches.drawn(whole, t)
        assert batch.divisor == N * Q
        each = [Logistic(batch.features[[k]], batch.targets[[k]]).grad(x) for k in range(len(batch.targets))]
        np.testing.assert_allclose(batch.grad(x), np.sum(each, axis=0) / (N * Q) + 0.1 * x, rtol=1e-12)


def test_an_empty_batch_has_the_gradient_of_the_regularizer(whole: Logistic) -> None:
    batch = Batches(bytes(32), 0, 1e-9, 0, 1).drawn(whole, 1)
    assert len(batch.targets) == 0
    x = np.array([0.1, -0.3, 0.2])
    np.testing.assert_array_equal(batch.grad(x), 0.1 * x)
    np.testing.assert_array_equal(Reclipped(batch, 1.0, False, 0.1).data_grad(x), np.zeros(3))


def test_a_batch_of_fixed_size_has_that_size(whole: Logistic) -> None:
    batches = Batches(bytes(32), 0, 7 / N, 7, 1)
    for t in range(1, 20):
        batch = batches.drawn(whole, t)
        assert len(batch.targets) == len(np.unique(batch.features, axis=0)) == 7
        assert batch.divisor == pytest.approx(7)


def test_coins_have_addresses(whole: Logistic) -> None:
    def drawn(key: bytes, agent: int, t: int, part: int):
        return Batches(key, agent, Q, 0, 2).drawn(whole, t, part).targets.tobytes()

    first = drawn(bytes(32), 0, 1, 0)
    assert first == drawn(bytes(32), 0, 1, 0)
    others = [
        drawn(b"1" * 32, 0, 1, 0),
        drawn(bytes(32), 1, 1, 0),
        drawn(bytes(32), 0, 2, 0),
        drawn(bytes(32), 0, 1, 1),
    ]
    assert first not in others


def test_wrapped_losses_keep_their_wrapper(whole: Logistic) -> None:
    drawn = Batches(bytes(32), 0, Q, 0, 1).drawn(Reclipped(NoisyGradient(whole, 0.0, 1, None), 1.0, False, 0.1), 1)
    assert isinstance(drawn, Reclipped)
    assert isinstance(drawn.loss, NoisyGradient)
    assert len(drawn.loss.loss.targets) < N


@contextmanager
def coins(key: bytes, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let all secret batches be drawn by coins of this key; the key of the noise stays."""
    with monkeypatch.context() as patch:
        own = sampling.Batches.__init__
        patch.setattr(sampling.Batches, "__init__", lambda self, _, *rest: own(self, key * 32, *rest))
        yield


def content(run: Path) -> dict[str, Any]:
    """Return what the files of a run hold, without clock times."""
    files: dict[str, Any] = {path.name: path.read_text() for path in run.iterdir() if path.suffix != ".h5"}
    with h5py.File(run / "record.h5") as record:
        files["record.h5"] = {name: values[()].tobytes() for name, values in record.items()} | dict(record.attrs)
    summary = json.loads(files["summary.json"])
    files["summary.json"] = {k: v for k, v in summary.items() if k not in ("seconds", "rounds_per_second", "timing")}
    files["log.txt"] = [
        line for line in files["log.txt"].splitlines() if " s in all" not in line and " s, " not in line
    ]
    files["log.txt"] = [line for line in files["log.txt"] if line != f"  run: {run}"]
    *_, last = map(json.loads, files["progress.jsonl"].splitlines())  # the clock decides which rounds are printed
    files["progress.jsonl"] = {key: value for key, value in last.items() if key != "rounds_per_second"}
    return files


def test_without_gradients_no_file_depends_on_the_coins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "zeros.npz", features=np.zeros((400, 3)), targets=np.resize([-1.0, 1.0], 400))
    data = {"name": "file", "file": str(tmp_path / "zeros.npz"), "labels": [-1, 1], "bound": 1.0}
    asked = POISSON | {"data": data | {"sampling": "poisson", "rate": Q}, "problem": {"loss": "logistic"}}
    asked |= {"noise": {"key": "same"}, "record": {"transcript": True, "decisions": True}}
    files = []
    for key in (b"a", b"b"):
        with coins(key, monkeypatch):
            files.append(content(run_of(tmp_path / key.decode(), asked)))
    assert files[0].keys() == files[1].keys()
    for name in files[0]:
        assert files[0][name] == files[1][name], name


def test_on_ordinary_data_the_columns_of_events_do_not_depend_on_the_coins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, records = POISSON | {"noise": {"key": "same"}}, []
    for key in (b"a", b"b"):
        with coins(key, monkeypatch):
            records.append(load(run_of(tmp_path / key.decode(), asked)))
    one, other = records
    assert (one.transcript.values != other.transcript.values).any()
    assert one.transcript.shape == other.transcript.shape  # as many messages of the same size
    np.testing.assert_array_equal(one.transcript.values[..., :2], other.transcript.values[..., :2])
    columns = [name for name in map(str, one) if name.startswith(("event_", "leakage_", "epsilon_"))]
    assert {"event_scale", "event_l2", "event_uses", "event_rate", "epsilon_proven"} <= set(columns)
    for name in columns:
        np.testing.assert_array_equal(one[name].values, other[name].values, err_msg=name)
    sizes = [Summary.read(tmp_path / key).bytes_sent for key in "ab"]
    assert sizes[0] == sizes[1]


def test_an_empty_batch_sends_its_message() -> None:
    asked = POISSON | {"data": {**POISSON["data"], "rate": 1e-9}}  # all batches are empty
    setup = setup_of(asked)
    _, events, frames = setup.layout.open(rows_of(setup))
    assert (frames[:, :, 0] == np.arange(1, 16)[:, None]).all()
    assert (events.uses == np.arange(1, 16)[:, None]).all()


def test_secret_runs_have_secret_coins(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = []
    own = sampling.Batches.__init__
    monkeypatch.setattr(
        sampling.Batches, "__init__", lambda self, key, *rest: keys.append(key) or own(self, key, *rest)
    )
    for entropy in ("seed", "os", "os"):
        setup = setup_of(POISSON | {"noise": {"entropy": entropy}})
        Releaser(setup, 0, setup.losses(0))
    assert keys[0] == setup_of(POISSON).noise_key
    assert len(set(keys)) == 3


def test_a_run_that_asks_for_the_default_has_the_same_noise() -> None:
    asked = POISSON | {"data": {"name": "unit-ball", "total": 3000}}
    explicit = asked | {"data": asked["data"] | {"sampling": "none"}}
    assert setup_of(asked).noise_key == setup_of(explicit).noise_key


REFUSED = [
    ({"data": {"rate": None, "sampling": "poisson"}}, "data.rate is missing"),
    ({"data": {"batch": 5}}, "leave data.batch out"),
    ({"data": {"sampling": "none"}}, "set data.sampling=poisson"),
    ({"data": {"sampling": "fixed", "rate": None, "batch": 1000}}, "an agent has only 200 samples"),
    ({"data": {"sampling": "fixed", "rate": None, "batch": "all"}}, "set data.batch to a number"),
    ({"data": {"name": "olr", "total": None}}, "may not give an agent all samples in a round"),
    ({"privacy": {"adjacency": "one-round"}}, "do not lower the epsilon for privacy.adjacency"),
    ({"privacy": {"adjacency": "one-agent"}}, "do not lower the epsilon for privacy.adjacency"),
    ({"privacy": {"adjacency": "one-sample", "clipping": "agent"}}, "epsilon is proven only for zero-out"),
    ({"algorithm": {"name": "admm"}, "privacy": None}, "minimizes whole losses"),
    ({"algorithm": {"name": "two-stage-gaussian"}, "privacy": None}, "the same losses in every round"),
    ({"algorithm": {"name": "dola"}, "privacy": None, "feedback": {"delay": 2}}, "must be immediate gradients"),
    ({"algorithm": {"name": "dola"}, "privacy": None, "feedback": {"points": 2}}, "must be immediate gradients"),
    ({"privacy": {"clip": "inf", "noise_multiplier": None}}, "set a finite privacy.clip"),
    ({"audit": {"view": "agent:1"}}, "do not lower the epsilon toward single nodes"),
    ({"algorithm": {"name": "dpps"}, "privacy": None}, "depend on hidden state.*algorithm.name=dola"),
    ({"algorithm": {"name": "dpsda-c"}, "privacy": None, "topology": {"agents": 3}}, "algorithm.gradient_at=public"),
    ({"algorithm": {"name": "dola-minibatch"}, "privacy": None}, "depend.*algorithm.regularizer_at=public"),
]  # fmt: skip


@pytest.mark.parametrize(("keys", "line"), REFUSED, ids=str)
def test_conditions_are_enforced(keys: dict, line: str) -> None:
    tree = {name: dict(section) if isinstance(section, dict) else section for name, section in POISSON.items()}
    for name, section in keys.items():
        tree[name] = {} if section is None else tree.get(name, {}) | section
        tree[name] = {key: value for key, value in tree[name].items() if value is not None}
    with pytest.raises(BadInput, match=line):
        setup_of(tree)


def test_hidden_state_that_an_algorithm_does_not_state_is_refused_in_its_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DPSDAC, "hides", False)
    hidden = {"algorithm": {"name": "dpsda-c"}, "privacy": {"adjacency": "zero-out"}}
    with pytest.raises(BadInput, match="round 1 depends on hidden state, and no theorem"):
        rows_of(setup_of(POISSON | hidden | {"topology": {"name": "complete", "agents": 3}}))


def test_a_batch_is_released_once(monkeypatch: pytest.MonkeyPatch) -> None:
    own = DOLA.message
    monkeypatch.setattr(DOLA, "message", lambda self, s, here: replace(own(self, s, here), uses=min(here.t - 1, 3)))
    setup = setup_of(POISSON | {"algorithm": {"name": "dola"}, "privacy": {"adjacency": "zero-out"}})
    with pytest.raises(ValueError, match="of round 5 states uses=3: with data"):
        rows_of(setup)


def test_nothing_is_claimed_of_secret_batches(tmp_path: Path) -> None:
    dola = POISSON | {"algorithm": {"name": "dola"}, "privacy": {"adjacency": "zero-out"}}
    assert Summary.read(run_of(tmp_path / "secret", dola)).privacy.network.claimed is None
    public = dola | {"data": {"name": "unit-ball", "total": 4 * N, "dimension": 3}}
    assert Summary.read(run_of(tmp_path / "public", public)).privacy.network.claimed is not None


def test_tight_has_no_effect_on_batches_of_fixed_size_and_the_summary_says_so(tmp_path: Path) -> None:
    data = {"name": "unit-ball", "total": 4 * N, "dimension": 3, "sampling": "fixed", "batch": 5}
    asked = POISSON | {"data": data, "privacy": {**POISSON["privacy"], "tight": True}}
    privacy = Summary.read(run_of(tmp_path / "run", asked)).privacy
    assert privacy.network.rule == "RDP"
    assert "privacy.tight has no effect" in " ".join(" ".join(lines(privacy, [])).split())


def test_the_conditions_are_printed(tmp_path: Path) -> None:
    summary = Summary.read(run_of(tmp_path / "run", POISSON))
    text = " ".join(" ".join(lines(summary.privacy, [])).split())
    assert "every sample with probability 0.05, by coins as secret as its noise" in text
    assert "divided by a public constant" in text
    assert "Timing is not covered" in text
    assert "Decisions are covered, because they are computed from noised gradients" in text
    assert "1 times the clip on the sum of an agent's clipped gradients" in text
    assert "one sample, whose gradient becomes zero" in text
    assert "The proven numbers hold for a secret key that is used once" in text


def test_methods_that_noise_messages_sample_too() -> None:
    setup = setup_of(POISSON | {"algorithm": {"name": "dola"}, "privacy": {"adjacency": "zero-out"}})
    _, events, _ = setup.layout.open(rows_of(setup))
    assert (events.rate[1:] == Q).all()
    assert (events.rate[0] == 0).all()  # the first message carries no data


def test_a_zeroed_sample_of_a_batch_of_fixed_size_moves_it_by_twice_the_clip() -> None:
    """A loss that bounds the difference of two samples' gradients does not bound the change to a zero gradient."""
    data = {"name": "unit-ball", "total": 400, "dimension": 3, "sampling": "fixed", "batch": 10}
    problem = {"loss": "squared-distance", "average": True, "set": "none"}
    privacy = {"adjacency": "zero-out", "noise_multiplier": 1.0, "clip": 5.0}
    setup = setup_of(
        {"algorithm": {"name": "dp-dsgd"}, "rounds": 2, "data": data, "problem": problem, "privacy": privacy}
    )
    assert setup.run.grad_sensitivity[0] == pytest.approx(2 * 5.0 / 10)


def test_laplace_noise_of_gradients_has_the_epsilon_that_is_asked_for(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(DPDSGD, "mechanism", "laplace")
    privacy = {"mechanism": "laplace", "epsilon": 0.5}
    data = {"name": "unit-ball", "total": 40, "dimension": 3, "batch": 10}
    asked = {"algorithm": {"name": "dp-dsgd"}, "rounds": 1, "data": data, "privacy": privacy, "report": False}
    proven = Summary.read(run_of(tmp_path / "run", asked | {"topology": {"name": "ring", "agents": 4}})).privacy.network
    assert proven.proven == pytest.approx(0.5)
