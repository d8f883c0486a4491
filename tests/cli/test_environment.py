"""A finished run keeps its results, whatever surrounds it: settings of matplotlib, standard streams, a full disk."""

from __future__ import annotations

import errno
import json
import os
import shlex
import sys
from pathlib import Path

import pytest

import mpinodes
from mpinodes import run
from mpinodes.core.errors import BadInput
from mpinodes.results import report, summary
from mpinodes.results.evaluator import Evaluator
from mpinodes.results.report import page
from tests.helpers.running import Done, command

WORDS = ["algorithm.name=dola", "topology.agents=3", "data.total=60", "rounds=10", "output.dir=run"]
LINE = shlex.join([sys.executable, "-m", "mpinodes.run", "--lockstep", *WORDS])


def require_results(place: Path) -> None:
    """Fail unless record and summary are whole."""
    assert json.loads((place / "summary.json").read_text())["rounds"] == len(mpinodes.load(place)["round"]) == 10


def ended(folder: Path, line: str, **env: str) -> Done:
    """Run a line of the shell."""
    done = command(["bash", "-c", line], folder, env=env)
    assert "Traceback" not in done.out + done.err
    return done


@pytest.fixture(scope="module")
def figure(tmp_path_factory) -> bytes:
    """Return a figure as drawn without any settings."""
    folder = tmp_path_factory.mktemp("plain")
    assert ended(folder, LINE).err == ""
    return (folder / "run" / "figures" / "regret.png").read_bytes()


SETTINGS = {
    "a backend that is not here": ({"MPLBACKEND": "module://matplotlib_inline.backend_inline"}, ""),
    "no backend at all": ({"MPLBACKEND": "nosuch"}, ""),
    "LaTeX": ({}, "text.usetex: True\n"),
    "an unknown font": ({}, "font.family: NoSuchFont\n"),
    "other figures": ({}, "savefig.dpi: 30\naxes.facecolor: black\nlines.linewidth: 9\n"),
    "broken settings": ({}, "font.size: huge\nlines.linewidth\nnosuch: 1\nbackend: nosuch\n"),
    "no place for a cache": ({"MPLCONFIGDIR": "/dev/null/x", "HOME": "/dev/null"}, ""),
    "warnings that are errors": ({"PYTHONWARNINGS": "error", "LC_ALL": "C"}, ""),
    "a poor environment": ({"TMPDIR": "/nonexistent", "PYTHONOPTIMIZE": "2", "PYTHONIOENCODING": "ascii"}, ""),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_figures_do_not_depend_on_the_users_settings(tmp_path, figure, name):
    env, settings = SETTINGS[name]
    (tmp_path / "matplotlibrc").write_text(settings)
    done = ended(tmp_path, LINE, **env)
    assert (done.code, done.err) == (0, "")
    assert (tmp_path / "run" / "figures" / "regret.png").read_bytes() == figure


def test_settings_that_cannot_be_read_cost_the_figures_alone(tmp_path):
    (tmp_path / "matplotlibrc").write_bytes(b"\xff\xfe\x00")
    done = ended(tmp_path, LINE)
    assert done.code == 0
    assert done.err.startswith("mpinodes: warning: the report cannot be drawn, but all numbers are in run (")
    assert done.err.count("\n") == 1
    require_results(tmp_path / "run")


STREAMS = {
    "<&-": (0, ""), ">&-": (0, ""), "2>&-": (0, ""), ">&- 2>&-": (0, ""), "<&- >&- 2>&-": (0, ""),
    "2>/dev/full": (0, ""), ">/dev/full 2>/dev/full": (0, ""), "| true; exit ${PIPESTATUS[0]}": (141, ""),
    ">/dev/full": (0, "mpinodes: warning: the results cannot be printed, but their files are there: No space left"),
}  # fmt: skip


@pytest.mark.parametrize("streams", STREAMS)
def test_streams_that_are_closed_or_full_cost_no_result(tmp_path, streams):
    code, words = STREAMS[streams]
    done = ended(tmp_path, f"{LINE} report=false {streams}")
    assert (done.code, done.err.startswith(words), done.err.count("\n")) == (code, True, bool(words))
    require_results(tmp_path / "run")


def test_a_command_whose_output_has_no_room_says_so(tmp_path):
    module = f"{shlex.quote(sys.executable)} -m mpinodes"
    for line in (f"{module} run --explain all >/dev/full", f"{module} --version >/dev/full"):
        done = ended(tmp_path, line)
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert "No space left on device" in done.err
    assert ended(tmp_path, f"{module} run nosuch=1 2>&-").code == 2
    assert ended(tmp_path, f"{module} report nosuch 2>/dev/full").code == 2


def full(*_: object) -> None:
    """Fail as on a full disk."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def broken(*_: object) -> None:
    """Fail as code with a fault."""
    raise IndexError("list index out of range")


@pytest.mark.parametrize("failure", [full, broken])
@pytest.mark.parametrize("part", [(page, "write"), (report, "draw"), (summary, "lines")])
def test_what_cannot_be_drawn_or_worded_is_one_line(tmp_path, monkeypatch, capfd, part, failure):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(*part, failure)
    assert run.main(["--lockstep", *WORDS]) == 0
    err = capfd.readouterr().err
    assert (err.startswith("mpinodes: warning: the re"), err.count("\n")) == (True, 1), err
    assert "all numbers are in run" in err
    assert "Traceback" in Path("run/log.txt").read_text()
    require_results(Path("run"))


def test_bad_input_after_the_last_round_takes_no_directory_away(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise BadInput("found late")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Evaluator, "close", refuse)
    assert run.main(["--lockstep", *WORDS]) == 2
    assert len(mpinodes.load(Path("run"))["round"]) == 10
