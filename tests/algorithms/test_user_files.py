"""EXTRA, DIGing and push-sum with momentum from files of a user's, who has read the README alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

from mpinodes import audit, replay
from mpinodes.auditing import verdicts
from mpinodes.core import Setup
from mpinodes.privacy.leakage import Norms, Signed, response
from tests.helpers import reference
from tests.helpers.parts import decisions, rows_of, run_of, setup_of
from tests.helpers.records import same_bits, summary_of
from tests.helpers.running import run_here, run_mpi

FILES = Path(__file__).parents[1] / "helpers" / "user_files"
EXTRA, DIGING, MOMENTUM = (FILES / f"{name}.py" for name in ("extra", "diging", "push_sum_momentum"))
ALL = [EXTRA, DIGING, MOMENTUM]
WHOLE = "data.batch=all problem.average=true"
SMALL = "data.total=400 rounds=24"


def asked(file: Path, *words: str) -> str:
    return " ".join([f"algorithm.path={file}", "topology.agents=4", "comparator=false", *words])


# ------------------------------------------------------------------------------------------------------- without noise
def gradients(setup: Setup):
    """(n, d) -> (n, d): every agent's ∇f_i at its own point, from features and targets alone."""
    losses = [setup.stream.of(i)(1) for i in range(setup.topology.agents)]

    def of(points: np.ndarray) -> np.ndarray:
        data = []
        for loss, x in zip(losses, points, strict=True):
            slopes = -loss.targets * expit(-loss.targets * (loss.features @ x))
            data.append(slopes @ loss.features / len(slopes))
        return np.array(data) + setup.experiment.problem.regularizer * points

    return of


def extra(setup: Setup) -> np.ndarray:
    n, grad, alpha = setup.topology.agents, gradients(setup), setup.run.step(1)
    w = reference.metropolis(n, setup.topology.edges(1))
    x = [np.zeros((n, setup.dimension))]
    x.append(w @ x[0] - alpha * grad(x[0]))
    while len(x) < setup.experiment.rounds:
        half = (np.eye(n) + w) @ x[-1] - (np.eye(n) + w) / 2 @ x[-2]
        x.append(half - alpha * (grad(x[-1]) - grad(x[-2])))
    return np.array(x)


def diging(setup: Setup) -> np.ndarray:
    n, grad, alpha = setup.topology.agents, gradients(setup), setup.run.step(1)
    w = reference.metropolis(n, setup.topology.edges(1))
    x = [np.zeros((n, setup.dimension))] * 2  # round 1 makes the first y
    y = grad(x[0])
    while len(x) < setup.experiment.rounds:
        x.append(w @ x[-1] - alpha * y)
        y = w @ y + grad(x[-1]) - grad(x[-2])
    return np.array(x)


def push_sum_momentum(setup: Setup) -> np.ndarray:
    n, grad = setup.topology.agents, gradients(setup)
    x = u = np.zeros((n, setup.dimension))
    w, z = np.ones(n), [x]
    for t in range(1, setup.experiment.rounds):
        p = reference.column_stochastic(n, setup.topology.edges(t))
        x, w = p @ x, p @ w
        z.append(x / w[:, None])
        u = setup.algorithm.momentum * u + grad(z[-1])
        x = x - setup.run.step(t) * u
    return np.array(z)


@pytest.mark.parametrize(("file", "by_hand"), [(EXTRA, extra), (DIGING, diging), (MOMENTUM, push_sum_momentum)])
def test_without_noise_they_are_their_papers_iterations(file, by_hand):
    setup = setup_of(asked(file, SMALL, WHOLE, "privacy.epsilon=inf"))
    np.testing.assert_allclose(decisions(setup), by_hand(setup), rtol=0, atol=1e-13)


FAR = "rounds=1500 step.kind=inverse step.initial=8"


@pytest.mark.parametrize(
    ("file", "words", "near"), [(EXTRA, "rounds=400", 1e-10), (DIGING, "rounds=600", 1e-10), (MOMENTUM, FAR, 1e-3)]
)
def test_without_noise_every_agent_finds_the_minimizer(file, words, near):
    setup = setup_of(asked(file, WHOLE, "data.total=400 privacy.epsilon=inf", words))
    last = decisions(setup)[-1]
    for x in last:  # the mean gradient over all agents' losses there, which are 0.1-strongly convex
        everywhere = np.tile(x, (len(last), 1))
        assert np.linalg.norm(gradients(setup)(everywhere).mean(axis=0)) < near


# ---------------------------------------------------------------------------------------------------------- with noise
@pytest.mark.parametrize(("file", "ranks"), [(DIGING, 3), (MOMENTUM, 4)])
def test_the_commands_give_the_same_bits_under_mpi_and_in_lockstep(file, ranks, tmp_path):
    words = [f"algorithm.path={file}", "data.total=200", "rounds=20", "record.transcript=true", "report=false"]
    mpi = run_mpi(ranks, *words, "output.dir=mpi", cwd=tmp_path)
    assert mpi.code == 0, mpi.err
    alone = run_here("--lockstep", *words, f"topology.agents={ranks - 1}", "output.dir=lockstep", cwd=tmp_path)
    assert alone.code == 0, alone.err
    assert same_bits(tmp_path / "mpi", tmp_path / "lockstep") == []
    assert 0 < summary_of(tmp_path / "mpi")["privacy"]["network"]["proven"] < np.inf


@pytest.mark.parametrize("file", ALL)
@pytest.mark.parametrize("words", [f"{WHOLE} rounds=8", "data.batch=3 rounds=14"])
def test_their_statements_stand_up_to_replay(file, words, tmp_path, capsys):
    """With all data in every round each message carries the sample; by batches, later ones do not."""
    run = run_of(tmp_path / "run", asked(file, SMALL, words, "record.transcript=true report=false"))
    network = summary_of(run)["privacy"]["network"]
    assert 0 < network["proven"] <= network["proven_pure"] < np.inf
    assert replay.main([str(run), "--rounds=5"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[2:-1]]
    carrying, later = ([float(row[k]) for row in rows] for k in (1, 2))
    assert 0.4 < max(carrying) <= 1
    assert max(later) <= 1
    assert max(later) > 0.4 or "all" in words


@pytest.mark.parametrize("file", ALL)
def test_an_audit_does_not_contradict_them(file, monkeypatch, capsys):
    monkeypatch.setattr(audit, "PAIRS", 30)
    monkeypatch.setattr(verdicts, "of_settings", lambda *_: [])  # other settings: tests/auditing/test_planted.py
    words = ["rounds=4", "topology.name=ring", "topology.agents=3", "data.total=30"]
    assert audit.main([f"algorithm.path={file}", *words]) == 0
    printed = capsys.readouterr().out
    assert printed.count("holds") >= 3
    assert "REFUTES" not in printed


# ----------------------------------------------------------------------------------------------- other statements of it
def proven(file: Path, where: Path) -> float | None:
    run = run_of(where, asked(file, "data.total=600 data.batch=3 rounds=50"))
    return summary_of(run)["privacy"]["network"]["proven_pure"]


def rewritten(file: Path, where: Path, **words: str) -> Path:
    text = file.read_text()
    for old, new in words.values():
        assert text.count(old) == 1
        text = text.replace(old, new)
    where.write_text(text)
    return where


def test_of_extra_absolute_values_prove_nothing_worth_having(tmp_path):
    """The signed response is bounded; that of absolute values grows by 1.37 a round, until it is cut off."""
    norms = rewritten(
        EXTRA, tmp_path / "norms.py",
        transition=("(1 - decay, -0.5 + decay, alpha)", "(1 + decay, 0.5 + decay, alpha)"),
        gradient=("gradient=(-alpha, 0, 1)", "gradient=(alpha, 0, 1)"),
    )  # fmt: skip
    signed, absolute = proven(EXTRA, tmp_path / "signed"), proven(norms, tmp_path / "absolute")
    assert signed < 10
    assert absolute > 1e5 * signed
    late = []
    for file, kind in ((EXTRA, Signed), (norms, Norms)):
        setup = setup_of(asked(file, "data.total=600 data.batch=3 rounds=50"))
        events = setup.layout.open(rows_of(setup))[1][:, 0]
        reply = response(events, 1)
        assert type(reply) is kind
        moved = [reply.step(t, np.arange(t == 1))[0, 0] for t in range(len(events))]
        late.append(moved[-1] / moved[1])
    assert late[0] < 0.2
    assert late[1] > 1e6


@pytest.mark.parametrize("file", ALL)
def test_what_is_unknown_is_unproven(file, tmp_path):
    stated = "leaks=leaks" if file == MOMENTUM else "leaks=self.leaks(here)"
    unknown = rewritten(
        file, tmp_path / "unknown.py",
        leaks=(stated, "leaks=UNKNOWN"), name=("import Algorithm", "import UNKNOWN, Algorithm"),
    )  # fmt: skip
    network = summary_of(run_of(tmp_path / "run", asked(unknown, SMALL)))["privacy"]["network"]
    assert (network["proven_pure"], network["proven"], network["rule"]) == (None, None, "unproven")
