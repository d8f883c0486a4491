"""The exchange and the channel, on real ranks."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace

import numpy as np
import pytest

from mpinodes.core import Neighborhood
from mpinodes.core.messages import HEADER
from mpinodes.runlog.checkpoints import Order


@pytest.fixture
def world():
    from mpi4py import MPI

    return MPI.COMM_WORLD


def of_dimension(d: int):
    """As much of a set-up as an exchange asks for."""
    return SimpleNamespace(algorithm=SimpleNamespace(vectors=("x",)), dimension=d)


def together(world, check):
    """Run a check on every rank, and fail on every rank where it failed on one."""
    try:
        check()
        error = ""
    except AssertionError as failed:
        error = f"rank {world.rank}: {failed}"
    errors = [e for e in world.allgather(error) if e]
    assert not errors, errors


@pytest.mark.mpi(min_size=8)
def test_frames_arrive_whole_on_changing_graphs(world):
    from mpinodes.rounds.network import Network
    from mpinodes.rounds.waiting import Waits
    from mpinodes.topology.erdos_renyi_each_round import ErdosRenyiEachRound

    graph = ErdosRenyiEachRound(world.size, 0.4, seed=3)
    frame = np.empty(HEADER + 50)
    network = Network(world, of_dimension(48), frame, Waits(world))

    def check():
        for t in range(1, 301):
            here = graph.neighborhood(t, world.rank)
            frame[:2], frame[2:] = (t, 1.0), 1000 * world.rank + t
            arrivals = network.exchange(here)
            assert arrivals.senders == here.senders
            for j, arrived in zip(arrivals.senders, arrivals.frames, strict=True):
                assert arrived.tolist() == [t, 1.0, *[1000 * j + t] * 51]
            assert [len(release) for release in arrivals.releases] == [48] * len(here.senders)
            assert [said.tolist() for said in arrivals.scalars] == [[1000 * j + t] * 2 for j in here.senders]
            assert arrivals.own.tolist() == [1000 * world.rank + t] * 48

    together(world, check)
    network.close()


@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize("header", [(4.0, 1.0), (5.0, 2.0)])
def test_a_frame_of_another_round_or_kind_names_both_agents(world, header):
    from mpinodes.rounds.network import Network, RoundMismatch
    from mpinodes.rounds.waiting import Waits

    pair = world.Split(world.rank // 2)
    frame = np.zeros(HEADER + 2)
    network = Network(pair, of_dimension(2), frame, Waits(world))
    frame[:2] = (5.0, 1.0) if pair.rank else header

    def check():
        other = (1 - pair.rank,) if pair.size == 2 else ()
        place = Neighborhood(5, pair.rank, other, other)
        with pytest.raises(RoundMismatch) as caught:  # agent 0 itself, of what it was about to mix
            network.exchange(place)
        assert str(caught.value) == (
            f"agent {pair.rank} received from agent 0 a message of round {header[0]:g}, kind {header[1]:g}, "
            "not of round 5, kind 1"
        )

    together(world, check)
    network.close()
    pair.Free()


class Cut:
    """A plan that cuts the rounds where it is told to."""

    def __init__(self, longest, rounds, keeps=()):
        self.longest, self._rounds, self._end, self._keeps = longest, rounds, 0, keeps
        self.came_in, self.whole = 0, []

    def next(self):
        if self._end == self._rounds:
            return None
        self._end = min(self._end + self.longest, self._rounds)
        return Order(self._end, self._end in self._keeps)

    def came(self, logged):
        self.came_in += 1
        if logged.keeps:
            self.whole.append(logged.end)


@pytest.mark.mpi(min_size=4)
@pytest.mark.parametrize("slow", [False, True])
def test_the_channel_keeps_order_and_bounds_memory(world, slow):
    """A slow logger holds the agents up; nothing is lost and nothing piles up, whenever the rounds end."""
    from mpinodes.rounds.network import Channel, receive_chunks
    from mpinodes.rounds.waiting import Waits

    rounds, width, longest = 103, 1000, 10  # too large to be sent eagerly
    comm = world.Dup()
    waits = Waits(comm)

    def once(last):
        if world.rank < world.size - 1:
            waits.reset()
            channel, orders = Channel(comm, width, longest, waits), []
            for t in range(1, last + 1):
                channel.row(t)[:] = 1000 * world.rank + t
                orders += [order] if (order := channel.done(t)) else []
            if last < rounds:
                channel.row(last + 1)  # an agent finds that it is over when it is about to speak
            channel.close(last, np.array([world.rank, last], float))
            assert channel._chunks.nbytes == 2 * 8 * width * longest
            assert [order.end for order in orders if order.keeps] == [end for end in (30, 103) if end <= last]
        else:
            seen, plan = [], Cut(longest, rounds, keeps=(30, 103))

            def chunks():
                times = yield from receive_chunks(comm, plan, width, waits)
                assert times[:-1].tolist() == [[rank, last] for rank in range(world.size - 1)]
                assert times[-1, 0] >= 0.02 * slow * len(seen)

            for rows, order, _, models in chunks():
                if models is not None:
                    continue
                if slow:
                    time.sleep(0.02)
                assert (rows == rows[:, :, :1]).all()
                seen.append(rows[:, :, 0].copy())
                assert (order is None) == (rows.shape[1] < min(longest, rounds - 10 * (len(seen) - 1)))
            wanted = 1000 * np.arange(world.size - 1)[:, None] + np.arange(1, last + 1)
            assert (np.concatenate([wanted[:, :0], *seen], axis=1) == wanted).all()
            assert plan.whole == [end for end in (30, 103) if end <= last]

    def check():
        for last in (103, 43, 40, 0, 7, 100, 103):  # nothing is left over for the next run
            once(last)

    together(world, check)
    comm.Free()


@pytest.mark.mpi(min_size=8)
def test_what_has_come_while_a_rank_slept_is_taken_in_at_one_waking(world, monkeypatch):
    """One message a look, and as many pauses: 64 rows would take the logger 64 of them."""
    from mpinodes.rounds import waiting

    comm, last, pauses, sleep = world.Dup(), world.size - 1, [], time.sleep
    monkeypatch.setattr(waiting.time, "sleep", pauses.append)

    def check():
        if world.rank < last:
            sleep(0.1)
            comm.Isend(np.full(4, world.rank, float), dest=last).Wait()
            return
        rows = np.empty((last, 4))
        requests = [comm.Irecv(row, source=i) for i, row in enumerate(rows)]
        sleep(1.0)
        waiting.Waits(comm).patiently(requests, range(last))
        assert (rows == np.arange(last)[:, None]).all()
        assert not pauses

    together(world, check)
    comm.Free()


@pytest.mark.mpi(min_size=4)
def test_where_ranks_share_cores_agents_give_way_to_the_logger(world, mpi_tmp_path):
    """Else the logger, whose longer slice is taken last, waited for seconds among 64 agents that look and sleep."""
    from mpinodes.running import job

    before = os.sched_getscheduler(0)
    words = ["rounds=3", "data.total=5000", "report=false", f"output.dir={mpi_tmp_path}/run"]
    crowded = world.size > len(os.sched_getaffinity(0))
    try:
        assert job.Job(world).run(words) == 0
        policy, is_agent = os.sched_getscheduler(0), world.rank < world.size - 1
    finally:
        os.sched_setscheduler(0, before, os.sched_param(0))

    def check():
        assert policy == (os.SCHED_BATCH if is_agent and crowded else before)

    together(world, check)
