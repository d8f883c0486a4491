"""A wiretap on every link of a whole run: what crosses is a header, a release, or a mixing scalar."""

from __future__ import annotations

import numpy as np
import pytest

from tests import reference

SET_UP = {"bcast", "allgather", "Split", "Dup", "Split_type", "Ibarrier", "Free"}
TO_THE_LOGGER = {"Isend", "Irecv"}


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
    from mpinodes import network, run

    calls, sent = [], []
    plain = network.Network.exchange

    def exchange(self, round):
        frame = self.frames[round.me]
        before = frame.copy()
        plain(self, round)
        assert np.array_equal(before, frame)
        sent.append((round, before, frame))

    monkeypatch.setattr(network.Network, "exchange", exchange)
    job = run.Job(Tap(world, calls))
    assert job.run(run._arguments().parse_args(words)) == 0
    return calls, sent


@pytest.mark.mpi(min_size=8)
@pytest.mark.parametrize(
    ("algorithm", "weights", "push_sum"),
    [("dpsda-ps", reference.column_stochastic, True), ("dpsda-c", reference.uniform, False)],
)
def test_only_headers_releases_and_scalars_cross_a_link(mpi_tmp_path, monkeypatch, algorithm, weights, push_sum):
    from mpi4py import MPI

    from mpinodes import experiment as ex
    from mpinodes import parts as pt
    from tests.test_algorithms import expected

    world = MPI.COMM_WORLD
    if world.size != 8:
        pytest.skip("7 agents and the logger need exactly 8 ranks")
    words = [f"algorithm.name={algorithm}", "rounds=60", "report=false"]
    calls, sent = tapped_run(world, [*words, f"output.dir={mpi_tmp_path}/run"], monkeypatch)
    parts = pt.build(ex.resolve(ex.parse(None, words), 8))
    reference_run = expected(parts, weights, push_sum=push_sum)
    me, d = world.rank, parts.dimension

    errors = []
    frame = sent[0][2] if sent else None
    for name, method, args, kwargs in calls:
        if method == "Send_init":
            if args[0] is not frame or name != "world.Split":
                errors.append(f"{method} of something else than the frame, on {name}")
        elif method in TO_THE_LOGGER:
            if name != "world.Dup" or (method == "Isend" and kwargs["dest"] != 7) or (method == "Irecv" and me != 7):
                errors.append(f"{method} on {name} to {kwargs}")
        elif method == "bcast":
            if kwargs["root"] != 7:
                errors.append("a broadcast that does not come from the logger")
        elif method == "allgather":
            if args != ("",):
                errors.append(f"agents told each other {args}")
        elif method not in SET_UP | {"Recv_init"}:
            errors.append(f"{method} on {name}")
    for round, crossed, _ in sent:
        h, w = reference_run["h"][round.t - 1, me], reference_run["w"][round.t - 1, me]
        scalars = [1 / (len(round.out) + 1), w] if push_sum else []
        if crossed[:2].tolist() != [round.t, 1.0]:
            errors.append(f"header {crossed[:2]} in round {round.t}")
        if not np.allclose(crossed[2 : 2 + d], h, rtol=1e-12, atol=1e-12 * np.abs(h).max()):
            errors.append(f"round {round.t}: something else than the release")
        if not np.allclose(crossed[2 + d :], scalars, rtol=1e-12) or len(crossed) != 2 + d + len(scalars):
            errors.append(f"round {round.t}: scalars {crossed[2 + d :]} instead of {scalars}")
        if round.out and any(i not in range(7) for i in round.out):
            errors.append(f"round {round.t}: sent to {round.out}")
    if me < 7 and len(sent) != 60:
        errors.append(f"{len(sent)} rounds")
    assert not [e for e in world.allgather(errors) if e]
