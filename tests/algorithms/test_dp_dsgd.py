"""DP-D-SGD against a matrix form written from its equations, under MPI, after a resume, and its contract."""

from __future__ import annotations

import struct
import tomllib
from functools import partial
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest
import tomli_w
from scipy.special import expit

from mpinodes.auditing.adjacent_replay import replay
from mpinodes.auditing.transcripts import Recorded
from mpinodes.core import RELEASED, Query, Setup
from mpinodes.core.asked import parse
from mpinodes.core.errors import BadInput
from mpinodes.core.messages import HEADER
from mpinodes.rounds.noised import Gradients, NoisedLoss
from mpinodes.rounds.step import Step
from mpinodes.runlog.checkpoints import Stopped
from mpinodes.runlog.reader import load
from mpinodes.running import job
from tests.helpers.parts import rows_of, run_of, setup_of
from tests.helpers.running import run_here, run_mpi
from tests.running.test_resuming import Asked

NOISE, BATCH = 1, 14
DATA = {"name": "unit-ball", "total": 320, "dimension": 3}
CASES = {
    "public batches": {"data": {**DATA, "batch": 4}, "privacy": {"clip": 0.2, "epsilon": 3.0}},
    "momentum, local steps": {
        "algorithm": {"momentum": 0.7, "local_steps": 3}, "privacy": {"clip": 0.2, "noise_multiplier": 0.5},
        "data": {**DATA, "batch": 4},
    },
    "poisson": {
        "algorithm": {"local_steps": 2}, "data": {**DATA, "sampling": "poisson", "rate": 0.05},
        "privacy": {"clip": 0.2, "noise_multiplier": 0.7, "adjacency": "zero-out"},
    },
    "fixed": {"data": {**DATA, "sampling": "fixed", "batch": 5}, "privacy": {"clip": 0.2, "noise_multiplier": 0.7}},
    "clipped by agent": {
        "privacy": {"clip": 0.05, "noise_multiplier": 0.5, "clipping": "agent"},
        "data": {**DATA, "batch": 4},
    },
}  # fmt: skip


def asked(case: str, **more: object) -> dict:
    tree = {"rounds": 12, "topology": {"name": "ring", "agents": 4}, "problem": {"regularizer": 0.1}, "seed": 3}
    tree |= {"comparator": False} | CASES[case] | more
    return tree | {"algorithm": {"name": "dp-dsgd", **CASES[case].get("algorithm", {})}}


def generator(key: bytes, purpose: int, agent: int, t: int, part: int) -> np.random.Generator:
    digest = blake2b(struct.pack("<IQ", purpose, agent), key=key, digest_size=16).digest()
    numbers = np.array(struct.unpack("<2Q", digest), np.uint64)
    return np.random.Generator(np.random.Philox(key=numbers, counter=[0, 0, t, part]))


def matrix_form(setup: Setup) -> tuple[np.ndarray, np.ndarray]:
    """Return decisions and messages, (rounds, agents, d), from the equations."""
    e, n, d, rounds = setup.experiment, 4, 3, setup.experiment.rounds
    a = np.eye(n) / 3
    for i in range(n):
        a[i, (i + 1) % n] = a[i, (i - 1) % n] = 1 / 3
    own = [setup.stream.of(i)(1) for i in range(n)]
    clip, whole = e.privacy.clip, e.privacy.clipping == "agent"
    key, momentum = setup.noise_key, e.algorithm["momentum"]
    y, v, decisions, messages = np.zeros((n, d)), np.zeros((n, d)), [], []
    for t in range(1, rounds + 1):
        messages.append(y)
        z = a @ y
        decisions.append(z)
        for part in range(e.algorithm["local_steps"]):
            g = np.zeros((n, d))
            for i in range(n):
                if e.sampling == "none":
                    loss = setup.stream.of(i)(t)
                    rows, targets, size = loss.features, loss.targets, len(loss.targets)
                else:
                    rows, targets = own[i].features, own[i].targets
                    coins, number = generator(key, BATCH, i, t, part), len(targets)
                    if e.sampling == "poisson":  # the distances between the taken samples are geometric
                        size, here, row = number * e.data["rate"], [], -1
                        while (row := row + int(coins.geometric(e.data["rate"]))) < number:
                            here.append(row)
                    else:
                        size = e.data["batch"]
                        here = coins.choice(number, size, replace=False, shuffle=False)
                    rows, targets = rows[here], targets[here]
                each = -(targets * expit(-targets * (rows @ z[i])))[:, None] * rows
                if not whole:
                    each = each * np.minimum(1, clip / np.maximum(np.linalg.norm(each, axis=1), 1e-300))[:, None]
                mean = each.sum(axis=0) / size
                if whole:
                    mean = mean * min(1, clip / np.linalg.norm(mean))
                if e.privacy.noise_multiplier is None:  # (ε, δ)-DP of one gradient, by exact Gaussian accounting
                    deviation = 2 * clip / size / setup.run.gdp(e.privacy.epsilon, e.privacy.delta)
                else:
                    deviation = e.privacy.noise_multiplier * clip / (1 if whole else size)
                noise = deviation * generator(key, NOISE, i, t, part).standard_normal(d)
                g[i] = mean + 0.1 * z[i] + noise
            v = momentum * v + g
            z = z - 0.5 * v
            z = z / np.maximum(1, np.linalg.norm(z, axis=1, keepdims=True) / 10.0)
        y = z
    return np.array(decisions), np.array(messages)


@pytest.mark.parametrize("case", CASES)
def test_runs_are_those_of_the_matrix_form(case: str) -> None:
    setup = setup_of(asked(case, record={"transcript": True}))
    decisions, events, frames = setup.layout.open(rows_of(setup))
    wanted, messages = matrix_form(setup)
    np.testing.assert_allclose(decisions, wanted, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(frames[:, :, HEADER : HEADER + 3], messages, rtol=1e-9, atol=1e-12)
    gradients = setup.algorithm.local_steps
    assert events.scale.shape == (12, 4, gradients)
    assert (events.uses == np.arange(1, 13)[:, None]).all()  # every gradient is charged, the last one too


@pytest.mark.parametrize("case", CASES)
def test_replay_holds_and_the_clip_is_attained(tmp_path: Path, case: str) -> None:
    run = Recorded(run_of(tmp_path / "run", asked(case, record={"transcript": True})))
    findings = [replay(run, agent, rounds=3, seed=1) for agent in run.agents]
    assert not any(finding.exceeded for finding in findings)
    assert not any(finding.hidden for finding in findings)
    assert max(finding.direct for finding in findings) > 0.4


def records(where: Path) -> dict[str, np.ndarray]:
    data = load(where)
    return {str(name): data[name].values for name in data}


@pytest.mark.parametrize("case", ["momentum, local steps", "poisson"])
def test_a_run_over_mpi_and_a_resumed_run_have_the_bits_of_lockstep(tmp_path: Path, case: str) -> None:
    more = {"record": {"transcript": True, "decisions": True}, "report": False}
    (tmp_path / "e.toml").write_text(tomli_w.dumps(asked(case, **more)))
    done = run_mpi(5, "e.toml", "output.dir=mpi", cwd=tmp_path)
    assert done.code == 0, done.err
    alone = records(run_of(tmp_path / "alone", asked(case, **more)))
    over_mpi = records(tmp_path / "mpi")
    assert alone.keys() == over_mpi.keys()
    words = [f"{tmp_path}/e.toml", "checkpoint.every=5", f"output.dir={tmp_path / 'stopped'}"]
    with pytest.raises(Stopped):
        job.run(parse(words[0], words[1:]), signals=Asked(2))
    again = partial(run_mpi, 5) if "momentum" in case else partial(run_here, "--lockstep")
    done = again("--resume", "stopped", cwd=tmp_path)
    assert done.code == 0, done.err
    resumed = records(tmp_path / "stopped")
    for name, values in alone.items():
        np.testing.assert_array_equal(values, over_mpi[name], err_msg=name)
        np.testing.assert_array_equal(values, resumed[name], err_msg=name)


def test_no_noise_is_sgd() -> None:
    """Without noise and clipping, one agent alone follows plain gradient descent."""
    none = {"privacy": {"mechanism": "none", "clip": "inf"}, "topology": {"name": "complete", "agents": 4}}
    decisions = setup_of(asked("public batches", **none))
    rows = rows_of(decisions)
    d, events, _ = decisions.layout.open(rows)
    x = np.zeros(3)
    for t in range(12):
        np.testing.assert_allclose(d[t], np.tile(x, (4, 1)), rtol=1e-9, atol=1e-15)
        x = x - 0.5 * np.mean([decisions.stream.of(i)(t + 1).grad(x) for i in range(4)], axis=0)
    assert (events.scale == 0).all()


class TestGradients:
    def gradients(self, calls: int) -> Gradients:
        def release(x, part):
            return None, part, x + part

        return Gradients(release, calls)

    def test_gives_no_more_gradients_than_stated(self) -> None:
        loss = NoisedLoss(self.gradients(2))
        assert [loss.gradient(np.zeros(1))[0] for _ in range(2)] == [0.0, 1.0]
        with pytest.raises(ValueError, match="more gradients in a round than `gradients` = 2"):
            loss.gradient(np.zeros(1))

    def test_gives_no_fewer_gradients_than_stated(self) -> None:
        gradients = self.gradients(2)
        NoisedLoss(gradients).gradient(np.zeros(1))
        with pytest.raises(ValueError, match="took 1 gradients, expected `gradients` = 2"):
            gradients.require_all()

    def test_a_loss_has_no_other_public_name(self) -> None:
        loss = NoisedLoss(self.gradients(1))
        loss.gradient(np.zeros(1))
        assert [name for name in dir(loss) if not name.startswith("_")] == ["gradient"]


def test_a_message_with_data_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = setup_of(asked("public batches"))

    query = Query(np.zeros(3), 1.0, 1.0, 1, RELEASED, 1.0)
    monkeypatch.setattr(type(setup.algorithm), "message", lambda self, s, here: query)
    step = Step(setup, 0)
    with pytest.raises(ValueError, match="may only return a Say, a Start or a Relay"):
        step(step.start(), None, np.zeros(setup.frame_width), np.zeros(setup.layout.width))


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"privacy": {"epsilon": 1.0, "noise_multiplier": 1.0}}, "each sets the noise"),
        (
            {"privacy": {"epsilon": 1.0}, "data": {"sampling": "poisson", "rate": 0.1}},
            r"cannot set .* of secret batches \(data\.sampling\); set",
        ),
        ({"privacy": {"clip": "inf", "noise_multiplier": 1.0}}, "a multiple of the clip"),
        ({"algorithm": {"name": "dola"}, "privacy": {"noise_multiplier": 1.0}}, "noises no gradients"),
        ({"privacy": {"budget": {"epsilon": 1.0, "kept_by": "stopping"}}}, "set privacy.budget.kept_by=noise"),
        ({"feedback": {"points": 2}}, "not an online method(?!.*dp-dsgd)"),
    ],
)
def test_refused(keys: dict, line: str) -> None:
    with pytest.raises(BadInput, match=line):
        setup_of({"algorithm": {"name": "dp-dsgd"}, "rounds": 5} | keys)


def test_experiment_toml_runs_again(tmp_path: Path) -> None:
    where = run_of(tmp_path / "run", asked("poisson"))
    again = run_of(tmp_path / "again", tomllib.loads((where / "experiment.toml").read_text()))
    for name, values in records(where).items():
        np.testing.assert_array_equal(values, records(again)[name], err_msg=name)
