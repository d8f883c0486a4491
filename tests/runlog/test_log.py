"""The log of a run: what a kill at any moment leaves of it, and what damage."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import numpy as np
import pytest

import mpinodes
from mpinodes.core.errors import BadInput
from mpinodes.launch.launching import in_words
from mpinodes.runlog.log import MARK, NAME, Log, LogReader, Variable, require
from mpinodes.runlog.reader import Reader

FACTS = {"attributes": {"experiment": "seed = 1\n"}, "sizes": {"agent": 2, "coordinate": 3}}

KILLED = """
import os, signal, sys
from pathlib import Path
import mpinodes.runlog.log as place
from tests.runlog.test_log import FACTS, losses
log = place.Log(Path(sys.argv[1]), FACTS)
for chunk in range(5):
    log.append(losses(10, chunk))
os.kill(os.getpid(), signal.SIGKILL)
"""


def losses(rounds: int, first: int = 0) -> dict[str, Variable]:
    events = {f"event_{k}": Variable(("round", "agent"), np.full((rounds, 2), float(k))) for k in range(5)}
    return {"loss": Variable(("round",), first + np.arange(float(rounds)), "loss", "m"), **events}


def test_a_killed_run_keeps_all_that_was_appended(tmp_path):
    kept, done = 5, subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / NAME)], check=False)
    assert done.returncode == -signal.SIGKILL
    record = mpinodes.load(tmp_path)
    np.testing.assert_array_equal(record.loss, np.concatenate([k + np.arange(10.0) for k in range(kept)]))
    assert record.event_3.shape == (10 * kept, 2)
    assert record["round"].values.tolist() == list(range(1, 10 * kept + 1))


def logged(path: Path, chunks: int = 3) -> list[tuple[int, int]]:
    """A log of some chunks of 4 rounds; returns the bytes and rounds there are after each write."""
    log = Log(path, FACTS)
    ends = [(len(MARK), 0), (log.place.byte, 0)]
    for k in range(chunks):
        log.append(losses(4, 4 * k))
        ends.append((log.place.byte, log.rounds))
    return ends


def test_a_torn_tail_is_ignored_wherever_it_is_torn(tmp_path):
    """A kill, or a full disk, leaves the first bytes of a write: in head, content, checksum, or between frames."""
    ends = logged(tmp_path / NAME)
    whole = (tmp_path / NAME).read_bytes()
    assert ends[-1] == (len(whole), 12)
    for size in range(len(MARK), len(whole) + 1):
        (tmp_path / NAME).write_bytes(whole[:size])
        with Reader(tmp_path) as record:
            assert record.rounds == max(rounds for end, rounds in ends if end <= size)
            if record.rounds:
                assert record.read("loss").values.tolist() == list(range(record.rounds))


@pytest.mark.parametrize("change", ["more", "fewer", "shape"])
def test_a_log_that_goes_on_takes_no_other_variables(change, tmp_path):
    logged(tmp_path / NAME)
    log = Log(tmp_path / NAME, FACTS, LogReader(tmp_path / NAME).place, 12)
    other = losses(4)
    if change == "more":
        other["extra"] = other["loss"]
    elif change == "fewer":
        del other["event_3"]
    else:
        other["event_3"] = Variable(("round", "agent"), np.zeros((4, 3)))
    with pytest.raises(BadInput, match="keep the metrics with which the run began"):
        log.append(other)


def test_a_log_that_is_cut_off_while_it_is_open_is_not_read_as_if_it_was_whole(tmp_path):
    ends = logged(tmp_path / NAME)
    reader = LogReader(tmp_path / NAME)
    os.truncate(tmp_path / NAME, ends[2][0])
    for read in (reader.read_on, lambda: reader.read("loss", 0, 12)):
        with pytest.raises(BadInput, match="the file became shorter while it was read"):
            read()


def test_a_log_goes_on_from_every_place_to_the_same_rounds(tmp_path):
    """Whatever it held beyond that place: later rounds, or a torn tail."""
    logged(tmp_path / NAME)
    whole, places = (tmp_path / NAME).read_bytes(), [(LogReader(tmp_path / NAME, 0).place, 0)]
    for size in range(len(whole) + 1):
        place = LogReader(tmp_path / NAME, size)
        if place.place != places[-1][0]:
            places.append((place.place, place.rounds))
    for place, rounds in places:
        for tail in (b"", whole[place.byte :][:50], whole[place.byte :]):
            (tmp_path / NAME).write_bytes(whole[: place.byte] + tail)
            require(tmp_path / NAME, place)
            log = Log(tmp_path / NAME, FACTS | {"attributes": {"experiment": "seed = 2\n"}}, place, rounds)
            log.append(losses(12 - rounds, rounds))
            log.append(losses(1, 12))
            with Reader(tmp_path) as record:
                assert record.attrs["experiment"] == "seed = 2\n"
                assert record.read("loss").values.tolist() == list(range(13))


def test_rounds_are_read_across_chunks_and_while_the_log_grows(tmp_path):
    log = Log(tmp_path / NAME, FACTS)
    reader = LogReader(tmp_path / NAME)
    for k, size in enumerate((1, 5, 2, 7)):
        log.append(losses(size, log.rounds))
        assert reader.rounds == sum((1, 5, 2, 7)[:k])
        reader.read_on()
        for first in range(log.rounds):
            for last in range(first, log.rounds + 1):
                assert reader.read("loss", first, last).values.tolist() == list(range(first, last))
    assert reader.place == log.place


def test_what_is_added_may_change_afterwards(tmp_path):
    log, loss = Log(tmp_path / NAME, FACTS), np.arange(4.0)
    log.append({"loss": Variable(("round",), loss)})
    loss[:] = -1
    log.append({"loss": Variable(("round",), loss)})
    assert mpinodes.load(tmp_path).loss.values.tolist() == [0, 1, 2, 3, -1, -1, -1, -1]


def test_a_flipped_bit_is_refused_or_leaves_what_was_written(tmp_path):
    logged(tmp_path / NAME)
    whole, rng = (tmp_path / NAME).read_bytes(), Random(0)
    end, lines = LogReader(tmp_path / NAME).place, []
    for _ in range(300):
        flipped = bytearray(whole)
        flipped[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        (tmp_path / NAME).write_bytes(flipped)
        with pytest.raises(BadInput) as error:
            mpinodes.load(tmp_path)
        lines.append(str(error.value))
        with pytest.raises(BadInput):
            require(tmp_path / NAME, end)
    assert all(len(line) < 500 and "\n" not in line for line in lines)


def test_a_log_of_another_run_is_not_taken_for_its_own(tmp_path):
    logged(tmp_path / NAME)
    place = LogReader(tmp_path / NAME).place
    log = Log(tmp_path / NAME, FACTS | {"attributes": {"experiment": "seed = 2\n"}})
    for k in range(3):
        log.append(losses(4, 4 * k))
    assert log.place.byte == place.byte
    with pytest.raises(BadInput, match="differ from the bytes that the run wrote"):
        require(tmp_path / NAME, place)


def test_a_full_disk_leaves_a_log_that_opens(tmp_path):
    """However full: all that was written before stays, and the failure is a line."""
    limits, lines = resource.getrlimit(resource.RLIMIT_FSIZE), []
    for size in np.geomspace(1_000, 400_000, 20).astype(int).tolist():
        place = tmp_path / f"{size}"
        place.mkdir()
        log = Log(place / NAME, FACTS)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
        try:
            for _ in range(60):
                log.append(losses(500))
        except OSError as error:
            lines.append((in_words(error), f"File too large; the record ends with round {log.rounds}"))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert mpinodes.load(place).sizes["round"] == log.rounds
        log.append(losses(1))
        assert mpinodes.load(place).sizes["round"] == log.rounds
    assert lines
    assert all(right in line and "\n" not in line for line, right in lines), lines


def test_a_log_that_cannot_be_read_says_why(tmp_path):
    (tmp_path / NAME).write_bytes(b"something else")
    with pytest.raises(BadInput, match="damaged after round 0, or not the log of a run"):
        mpinodes.load(tmp_path)
    (tmp_path / NAME).write_bytes(b"mpinodes log 99\n")
    with pytest.raises(BadInput, match="its record has version 99, newer"):
        mpinodes.load(tmp_path)
    with pytest.raises(OSError, match=os.strerror(errno.ENOENT)):
        LogReader(tmp_path / "nowhere")
