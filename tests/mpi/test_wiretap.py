"""A wiretap on every link of a whole run: what crosses is a header, a release, or a mixing scalar."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import numpy as np
import pytest

from mpinodes.core.messages import HEADER
from mpinodes.runlog.checkpoints import Order
from tests.helpers import matrix_forms, reference
from tests.helpers.admm import UNLIKE
from tests.helpers.parts import setup_of, told
from tests.helpers.records import frames_foretold

WORDS = {"isend", "send", "improbe"}  # of set-up and end: from the logger, or that an agent met no error, and where
WITH_THE_LOGGER = {"Isend", "Irecv"}


class Tap:
    """A communicator that notes every call made on it and on those made from it."""

    def __init__(self, comm, calls, name="world"):
        self._comm, self._calls, self._name = comm, calls, name

    def __getattr__(self, attribute):
        from mpi4py import MPI

        found = getattr(self._comm, attribute)
        if not callable(found):
            return found

        def call(*args, **kwargs):
            self._calls.append((self._name, attribute, args, kwargs))
            made = found(*args, **kwargs)
            return Tap(made, self._calls, f"{self._name}.{attribute}") if isinstance(made, MPI.Comm) else made

        return call


def tapped_run(world, words: list[str], monkeypatch):
    """Run an experiment on all ranks; the calls made on communicators, and the frames sent, by this rank."""
    from mpinodes.rounds import network
    from mpinodes.running import job

    calls, sent = [], []
    plain = network.Network.exchange

    def exchange(self, here):
        frame = self._frames[here.agent]
        before = frame.copy()
        arrivals = plain(self, here)
        assert np.array_equal(before, frame)
        sent.append((here, before, frame))
        return arrivals

    with monkeypatch.context() as patch:
        patch.setattr(network.Network, "exchange", exchange)
        assert job.Job(Tap(world, calls)).run(words) == 0
    return calls, sent


def with_logger(method: str, buffer, other: int, me: int, logger: int) -> bool:
    """Whether rows go to the logger, or one of its orders, which are whole numbers, comes from it."""
    is_order = buffer.dtype == np.int64 and buffer.shape == (len(Order._fields),)
    return logger in (me, other) and is_order == ((me == logger) == (method == "Isend"))


def strangers(calls, frame, me: int, logger: int) -> list[str]:
    """What was done on a communicator that is neither set-up, nor the frame to an agent, nor a row to the logger."""
    from mpinodes.rounds import network, waiting

    errors = []
    for name, method, args, kwargs in calls:
        if method == "Send_init":
            if args[0] is not frame or kwargs["tag"] != network.FRAMES or kwargs["dest"] == logger:
                errors.append(f"{method} of something else than the frame, on {name}")
        elif method in WITH_THE_LOGGER:
            other, tag = kwargs.values()
            if tag != network.ROWS or not with_logger(method, args[0], other, me, logger):
                errors.append(f"{method} on {name} to {kwargs}")
        elif method in WORDS:
            said = method != "improbe" and me != logger
            place = f"{os.getpid()} on {os.uname().nodename}"
            to_logger = kwargs == {"dest": logger, "tag": waiting.WORDS}
            if name != "world" or (said and not (args[0] in (place, "", None, waiting.AT_WORK) and to_logger)):
                errors.append(f"an agent said {args} on {name} to {kwargs}")
            if method == "improbe" and logger not in (me, kwargs["source"]):
                errors.append(f"agents listened to each other: {kwargs}")
        elif method != "Recv_init":
            errors.append(f"{method} on {name}")
    return errors


@pytest.mark.mpi(min_size=8)
@pytest.mark.parametrize(
    ("algorithm", "weights", "push_sum"),
    [("dpsda-ps", reference.column_stochastic, True), ("dpsda-c", reference.uniform, False)],
)
def test_only_headers_releases_and_scalars_cross_a_link(mpi_tmp_path, monkeypatch, algorithm, weights, push_sum):
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    if world.size != 8:
        pytest.skip("7 agents and the logger need exactly 8 ranks")
    words = [f"algorithm.name={algorithm}", "rounds=60", "report=false"]
    calls, sent = tapped_run(world, [*words, f"output.dir={mpi_tmp_path}/run"], monkeypatch)
    parts = setup_of(" ".join(words), 8)
    reference_run = matrix_forms.dpsda(parts, weights, push_sum=push_sum)
    me, d = world.rank, parts.dimension

    errors = strangers(calls, sent[0][2] if sent else None, me, logger=7)
    for here, crossed, _ in sent:
        h, w = reference_run["h"][here.t - 1, me], reference_run["w"][here.t - 1, me]
        scalars = [1 / (len(here.out_neighbors) + 1), w] if push_sum else []
        header, release, said = np.split(crossed, [HEADER, HEADER + d])
        if header.tolist() != [here.t, 1.0, 0.0]:
            errors.append(f"header {header} in round {here.t}")
        if not np.allclose(release, h, rtol=1e-12, atol=1e-12 * np.abs(h).max()):
            errors.append(f"round {here.t}: something else than the release")
        if len(said) != len(scalars) or not np.allclose(said, scalars, rtol=1e-12):
            errors.append(f"round {here.t}: scalars {said} instead of {scalars}")
        if here.out_neighbors and any(i not in range(7) for i in here.out_neighbors):
            errors.append(f"round {here.t}: sent to {here.out_neighbors}")
    if me < 7 and len(sent) != 60:
        errors.append(f"{len(sent)} rounds")
    assert not [e for e in world.allgather(errors) if e]


@pytest.mark.parametrize("ranks", [pytest.param(k, marks=pytest.mark.mpi(min_size=k)) for k in (2, 4, 8)])
def test_agents_with_data_of_their_own_say_nothing_else_either(ranks, mpi_tmp_path, monkeypatch):
    """All five methods in one world of any size; the frames equal the papers', and lockstep's bit for bit."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    me, logger, errors = world.rank, world.size - 1, []
    for name in matrix_forms.METHODS:
        words = [f"algorithm.name={name}", "data.total=500", "rounds=6", "report=false"]
        calls, sent = tapped_run(world, [*words, f"output.dir={mpi_tmp_path}/{name}"], monkeypatch)
        parts = setup_of(" ".join([*words, "record.transcript=true"]), world.size)
        wanted, lockstep = matrix_forms.decomposable(parts), told(parts)
        wrong = strangers(calls, sent[0][2] if sent else None, me, logger)
        told_to = {kwargs["dest"] for _, method, _, kwargs in calls if method == "Send_init"}
        may_tell = {i for t in range(1, 7) for j, i in parts.topology.edges(t) if j == me}
        if told_to != may_tell:
            wrong.append(f"frames to {told_to}, out-neighbours {may_tell}")
        if len(sent) != (6 if me < logger else 0):
            wrong.append(f"{len(sent)} rounds")
        for here, crossed, _ in sent:
            header, h, said = np.split(crossed, [HEADER, HEADER + parts.dimension])
            at = here.t - 1, me
            if header.tolist() != [here.t, 1.0, 0.0]:
                wrong.append(f"header {header} in round {here.t}")
            if not np.allclose(h, wanted.h[at], rtol=1e-12, atol=1e-12 * np.abs(wanted.h[at]).max()):
                wrong.append(f"round {here.t}: something else than the release")
            if said.shape != wanted.said[at].shape or not np.allclose(said, wanted.said[at], rtol=1e-12, atol=1e-15):
                wrong.append(f"round {here.t}: scalars {said} instead of {wanted.said[at]}")
            if not (np.array_equal(h, lockstep["h"][at]) and np.array_equal(said, lockstep["said"][at])):
                wrong.append(f"round {here.t}: other bits than in lockstep")
        errors += [f"{name}, rank {me}: {error}" for error in wrong]
    assert not [e for some in world.allgather(errors) for e in some]


@pytest.mark.mpi(min_size=4)
def test_of_a_local_solve_the_release_alone_crosses_a_link(mpi_tmp_path, monkeypatch):
    """Of PP the minimizer with the noise in it, of PVP the minimizer with noise on it: never the one without."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    me, logger, errors = world.rank, world.size - 1, []
    sizes = tuple(15 + 5 * i for i in range(logger))
    each = {"dual_step": 0.5, "penalty": 0.55, "penalty_growth": 1.05, "rate": 2.0, "rate_growth": 1.01}
    alike = replace(UNLIKE, epsilon=0.7, iterations=5, topology="ring", sizes=sizes, **each)
    for name in ("pp-admm", "pvp-admm"):
        setting = replace(alike, name=name)
        words = [*pairs(setting.asked), f"output.dir={mpi_tmp_path}/{name}"]
        calls, sent = tapped_run(world, words, monkeypatch)
        found, said = setting.expected()
        wrong = strangers(calls, sent[0][2] if sent else None, me, logger)
        for here, crossed, _ in sent:
            at = here.t - 1, me
            if crossed[:2].tolist() != [here.t, 1.0] or len(crossed) != HEADER + setting.dimension:
                wrong.append(f"round {here.t}: header {crossed[:2]}, {len(crossed)} floats")
            if not np.allclose(crossed[HEADER:], said[at], rtol=1e-8, atol=1e-8 * np.abs(said).max()):
                wrong.append(f"round {here.t}: something else than the release")
            if name == "pvp-admm" and here.t > 1 and np.allclose(crossed[HEADER:], found[at], rtol=0.01):
                wrong.append(f"round {here.t}: no noise")
        if len(sent) != (6 if me < logger else 0):
            wrong.append(f"{len(sent)} rounds")
        errors += [f"{name}, rank {me}: {error}" for error in wrong]
    assert not [e for some in world.allgather(errors) for e in some]


def pairs(tree: dict, prefix: str = "") -> list[str]:
    """Nested dictionaries as key=value words."""
    words = []
    for key, value in tree.items():
        if isinstance(value, dict):
            words += pairs(value, f"{prefix}{key}.")
        else:
            words.append(f"{prefix}{key}={json.dumps(value)}")
    return words


@pytest.mark.mpi(min_size=4)
@pytest.mark.parametrize("handover", ["noised", "clean"])
def test_what_crosses_a_link_in_stage_two_is_foretold_by_what_crossed_before(handover, mpi_tmp_path, monkeypatch):
    """Each rank's frames are those of the record, in which every relay is made of earlier frames."""
    from mpi4py import MPI

    from mpinodes import load

    world = MPI.COMM_WORLD
    me, logger = world.rank, world.size - 1
    words = ["algorithm.name=two-stage-gaussian", "algorithm.gradient_rounds=5", "rounds=300", "algorithm.stop=0.003"]
    words += [f"algorithm.handover={handover}", "topology.name=ring", "record.transcript=true", "report=false"]
    calls, sent = tapped_run(world, [*words, f"output.dir={mpi_tmp_path}/run"], monkeypatch)
    parts = setup_of(" ".join(words), world.size)
    errors = strangers(calls, sent[0][2] if sent else None, me, logger)
    if me == logger:
        frames_foretold(mpi_tmp_path / "run", 5, 0.003)
        frames = load(mpi_tmp_path / "run").transcript.values
    else:
        frames = None
    frames = world.bcast(frames, root=logger)
    if len(frames) == 300:
        errors.append("it did not stop")
    if me < logger and not np.array_equal([crossed for _, crossed, _ in sent], frames[:, me]):
        errors.append(f"other frames than in the record, {len(sent)} of {len(frames)}")
    told_to = {kwargs["dest"] for _, method, _, kwargs in calls if method == "Send_init"}
    if told_to != {i for j, i in parts.topology.edges(1) if j == me}:
        errors.append(f"frames to {told_to}")
    assert not [e for e in world.allgather(errors) if e]
