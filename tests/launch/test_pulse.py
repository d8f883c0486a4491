"""Who is to blame for a deadline that passed, as far as the ranks that are late know it."""

from __future__ import annotations

import os
import subprocess
import time
from array import array
from contextlib import suppress

import pytest

from mpinodes.core import Neighborhood
from mpinodes.core.experiment import Deadline
from mpinodes.launch import pulse
from mpinodes.launch.pulse import PRESENT, Overdue, Place, Pulse, Report, Waiting, in_words, line, reports_in
from mpinodes.launch.watcher import Watched
from mpinodes.rounds.network import patient_wait

SINCE = "2026-11-22 13:00:00 UTC"
PLACES = [Place("h1", 70), Place("h1", 71), Place("h2", 72), Place("h2", 73), Place("h3", 74)]


def late(rank: int, *waits_for: int, round: int = 17, seconds: float = 600.0) -> Report:
    return Report(rank, PLACES[rank].process, round, seconds, SINCE, waits_for)


@pytest.mark.parametrize(
    ("reports", "words"),
    [
        ([late(1, 2)], f"no word from agent 2 (process 72 on h2) for 600 s, since {SINCE}; agent 1 waits for it in"),
        (
            [late(0, 1), late(1, 2), late(3, 2), late(4, 2, round=0)],
            f"no word from agent 2 (process 72 on h2) for 600 s, since {SINCE}; agent 1, agent 3 and the logger wait "
            "for it in round 17",
        ),
        (
            [late(0, 1), late(2), late(1, 2)],
            f"agent 2 in round 17 has been at work of its own for 600 s, since {SINCE}",
        ),
        ([late(0, 4), late(2, 4)], f"no word from the logger (process 74 on h3) for 600 s, since {SINCE}; agent 0 and"),
        (
            [late(0, 1), late(1, 2), late(2, 1), late(3, 2)],
            f"agent 1 on h1 and agent 2 on h2 wait for each other, for 600 s, since {SINCE} in round 17: nothing",
        ),
        ([late(0, 1), late(1, 0)], f"agent 0 and agent 1 wait for each other, for 600 s, since {SINCE} in round 17"),
        ([late(1, 2, 3)], "no word from agent 2 (process 72 on h2) and agent 3 (process 73 on h2) for"),
    ],
)
def test_who_is_to_blame(reports, words):
    assert in_words(reports, PLACES).startswith(words)
    assert len(in_words(reports, PLACES)) < 400


def test_what_the_system_says_of_a_process():
    with subprocess.Popen(["sleep", "60"]) as process:
        places = [Place(os.uname().nodename, process.pid), Place("h", 1), Place("h", 2)]
        try:
            process.send_signal(19)
            until = time.monotonic() + 20
            while "is stopped" not in (said := in_words([late(1, 0)], places)) and time.monotonic() < until:
                assert "its process is alive" in said or "its process waits for a disk" in said  # as while it starts
            assert "is stopped" in said
        finally:
            process.kill()  # a stopped one would be waited for without an end
            process.wait()
    assert in_words([late(1, 0)], places).endswith("in round 17: its process is gone")


def test_reports_are_read_back_from_the_log_and_those_of_an_earlier_job_are_not(tmp_path):
    log, mine, old = tmp_path / "log.txt", late(1, 2), Report(3, 1, 1, 1.0, SINCE)
    log.write_bytes(b"\xff\xfe other lines\n" + line(mine).encode() + line(old).encode())
    assert reports_in(log, PLACES) == [mine]
    assert reports_in(tmp_path / "none", PLACES) == []


@pytest.fixture
def alone(monkeypatch):
    """A pulse of the only agent of a job whose logger is itself, with ticks of a hundredth of the real ones."""
    from mpi4py import MPI

    monkeypatch.setattr(pulse, "PRESENT", pulse.Present())
    found = Pulse(MPI.COMM_SELF, Watched("agent 0"))
    found._logger, found._peers = 1, []
    yield found
    found.stop()


def spin(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def test_work_without_an_end_is_interrupted_where_it_is(alone):
    pulse.PRESENT.busy = False
    pulse.PRESENT.here = Neighborhood(3, 0, (), ())
    alone.start(Deadline(0.3))

    def part() -> None:
        with suppress(Exception):  # it cannot be handled by a part of a run
            spin(20)

    with pytest.raises(Overdue) as caught:
        part()
    assert caught.value.report == Report(0, os.getpid(), 3, pytest.approx(0.3, abs=0.3), caught.value.report.since)


def test_rounds_that_go_on_are_not_late(alone):
    pulse.PRESENT.busy = False
    alone.start(Deadline(0.2))
    for _ in range(8):
        pulse.PRESENT.steps += 1
        spin(0.1)


def test_no_deadline(alone, monkeypatch):
    for name, value in (("LEAST", 0.1), ("TICK", 0.01), ("UNATTENDED", 0.1)):
        monkeypatch.setattr(pulse, name, value)
    alone.start(Deadline("inf"))
    for pulse.PRESENT.busy in (False, True):
        spin(0.3)


def test_without_a_deadline_a_rank_waits_for_the_last_sign_all_the_same(alone, monkeypatch):
    from mpi4py import MPI

    sent = []

    def send(*_: object) -> None:
        if said:
            sent.append(MPI.COMM_SELF.Isend([array("d", [said.pop()]), MPI.DOUBLE], dest=0, tag=pulse.SIGN))

    monkeypatch.setattr(pulse, "TICK", 0.01)
    alone._peers, alone._allowed = [0], {0: 0.0}  # it hears from itself
    alone.start(Deadline("inf"))
    spin(0.1)
    assert alone._allowed == {0: float("inf")}
    said = []
    alone._sign = lambda rank, limit: said.append(limit)
    monkeypatch.setattr(pulse.time, "sleep", send)  # the last one comes while it waits
    alone.end()
    MPI.Request.Waitall(sent)
    assert len(sent) == 1


def test_the_default_is_learned_from_the_slowest_round(alone, monkeypatch):
    for name, seconds in (("LEAST", 0.2), ("TICK", 0.01)):
        monkeypatch.setattr(pulse, name, seconds)
    pulse.PRESENT.busy = False
    pulse.PRESENT.here = Neighborhood(1, 0, (), ())
    alone.start(Deadline())
    spin(0.1)
    pulse.PRESENT.steps += 1
    spin(1.0)  # 0.2 alone would be over
    assert 1.2 < alone._limit <= 2.2


def test_who_waits_for_a_message_that_does_not_come(alone):
    from mpi4py import MPI

    pulse.PRESENT.busy = False
    pulse.PRESENT.here = Neighborhood(9, 0, (3, 5), ())
    requests = [MPI.COMM_SELF.Irecv(bytearray(1), source=0, tag=tag) for tag in (3, 5)]
    MPI.COMM_SELF.Send(b"x", dest=0, tag=3)
    alone.start(Deadline(0.3))
    pulse.PRESENT.waiting = Waiting(requests, None)
    with pytest.raises(Overdue) as caught:
        spin(20)
    alone.stop()
    assert caught.value.report.waits_for == (5,)
    MPI.COMM_SELF.Send(b"x", dest=0, tag=5)
    patient_wait(requests, MPI.COMM_SELF)
    assert PRESENT.waiting is None


@pytest.mark.parametrize("ranks", [2, 8, 65, 257, 1025])
@pytest.mark.parametrize(("growth", "part"), [(pulse.GROWTH, 0.26), (pulse.GROWTH_IN_A_ROUND, 0.04)])
def test_who_waits_sleeps_for_a_part_of_what_it_has_waited(ranks, growth, part):
    """Whoever sleeps longer makes its neighbors sleep, and these it: on a ring of 64 that did not end."""
    first, waited = pulse.FIRST_PAUSE * ranks, 0.0
    for pause in pulse.pauses(ranks, growth):
        assert pause <= first + part * waited
        assert pause <= pulse.PAUSE * ranks
        waited += pause
        if waited > 60:
            break
    assert pause == pulse.PAUSE * ranks  # after a minute nothing is urgent
