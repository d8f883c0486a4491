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
from mpinodes.evaluation.evaluator import Evaluator
from mpinodes.presentation import draw as report
from mpinodes.presentation import run_figures
from mpinodes.presentation import terminal as summary
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


BARS = {"TQDM_MININTERVAL": "abc", "TQDM_NCOLS": "x", "COLUMNS": "abc"}
BUILDS = {"SOURCE_DATE_EPOCH": "abc", "TZ": "No/Where", "HDF5_DRIVER": "nosuch", "PANDAS_FUTURE_INFER_STRING": "abc"}
POOR = {"TMPDIR": "/nonexistent", "PYTHONOPTIMIZE": "2", "PYTHONIOENCODING": "ascii"}
OTHER = "savefig.dpi: 30\naxes.facecolor: black\nlines.linewidth: 9\n"
SETTINGS = {  # each must change nothing, so several are set at once
    "a backend that is not here, LaTeX, other figures": (
        {"MPLBACKEND": "module://matplotlib_inline.backend_inline"} | BARS, f"text.usetex: True\n{OTHER}",
    ),
    "broken settings, warnings that are errors, a time of builds, other ways to store": (
        {"PYTHONWARNINGS": "error", "LC_ALL": "C"} | BUILDS,
        "font.family: NoSuchFont\nfont.size: huge\nlines.linewidth\nnosuch: 1\nbackend: nosuch\n",
    ),
    "a poor environment, and no place for a cache": (POOR | {"MPLCONFIGDIR": "/dev/null/x", "HOME": "/dev/null"}, ""),
}  # fmt: skip


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
    assert done.err.startswith("mpinodes: warning: the report cannot be drawn, but all results are in run (")
    assert done.err.count("\n") == 1
    require_results(tmp_path / "run")


STREAMS = {
    ">&-": (0, ""), "2>&-": (0, ""), "<&- >&- 2>&-": (0, ""),
    ">/dev/full 2>/dev/full": (0, ""), "| true; exit ${PIPESTATUS[0]}": (141, ""),
    ">/dev/full": (0, "mpinodes: warning: the results cannot be printed, but the files with the results were written:"),
}  # fmt: skip


@pytest.mark.parametrize("streams", STREAMS)
def test_streams_that_are_closed_or_full_cost_no_result(tmp_path, streams):
    code, words = STREAMS[streams]
    done = ended(tmp_path, f"{LINE} report=false {streams}")
    assert (done.code, done.err.startswith(words), done.err.count("\n")) == (code, True, bool(words))
    require_results(tmp_path / "run")


def test_a_command_whose_output_has_no_room_says_so(tmp_path):
    module = f"env -u PYTHONUNBUFFERED {shlex.quote(sys.executable)} -m mpinodes"
    for line in (f"{module} run --explain all >/dev/full", f"{module} --version >/dev/full"):
        done = ended(tmp_path, line)
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert "No space left on device" in done.err
    assert ended(tmp_path, f"{module} run nosuch=1 2>&-").code == 2
    assert ended(tmp_path, f"{module} report nosuch 2>/dev/full").code == 2


CALLED = """
import os, sys
import mpinodes
{first}
result = mpinodes.simulate("algorithm.name=dola", rounds=3, topology={{"agents": 2}}, report=True)
assert len(mpinodes.runs("runs")) == 1
assert len(mpinodes.load(result.directory)["round"]) == 3
{last}
"""
STUDY = """
from mpinodes import compare, sweep
assert sweep.main(["algorithm.name=dola", "rounds=3", "seed=0,1"]) == compare.main(["studies/study"]) == 0
"""
DAEMONS = {
    "closed streams": ("", "", "<&- >&- 2>&-"),
    "full streams": ("", "", ">/dev/full 2>/dev/full"),
    "streams set to None": ("sys.stdin = sys.stdout = sys.stderr = None", STUDY, ""),
    "streams closed by the program": ("sys.stdin.close(); sys.stdout.close(); sys.stderr.close()", "", ""),
    "descriptors closed by the program": ("os.close(0); os.close(1); os.close(2)", "", ""),
}


@pytest.mark.parametrize("name", DAEMONS)
def test_functions_keep_their_results_in_a_program_without_streams(name, tmp_path):
    first, last, streams = DAEMONS[name]
    code = CALLED.format(first=first, last=last)
    done = ended(tmp_path, f"{shlex.join([sys.executable, '-c', code])} {streams} && touch done")
    assert len([*tmp_path.glob("runs/*/summary.json")]) == len([*tmp_path.glob("runs/*/report.html")]) == 1, done.err
    if last:
        assert len(mpinodes.runs(tmp_path / "studies" / "study")) == 2
        assert (tmp_path / "studies" / "study" / "compare" / "compare.md").exists()
    assert (tmp_path / "done").exists() or "full" in name


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> Path:
    """Return a folder with a study of two runs."""
    folder = tmp_path_factory.mktemp("full")
    assert ended(folder, f"{MODULE} sweep algorithm.name=dola rounds=3 seed=0,1").code == 0
    return folder


MODULE = f"{shlex.quote(sys.executable)} -m mpinodes"
FILED = {"sweep studies/study seed=0,1,2": "", "compare studies/study": "", "report studies/study/runs/*seed0*": ""}


@pytest.mark.parametrize("words", FILED)
def test_commands_whose_results_are_files_need_no_room_on_stdout(words, study):
    done = ended(study, f"{MODULE} {words} >/dev/full")
    assert (done.code, done.err.count("\n")) == (0, 1), done.err
    assert done.err.startswith("mpinodes: warning: the results cannot be printed, but the files with")
    if words.startswith("compare"):
        assert ended(study, f"{MODULE} {words} >/dev/full 2>/dev/full").code == 0


def test_what_runs_cost_is_said_on_stdout_alone_and_so_needs_it(study):
    done = ended(study, f"{MODULE} spent studies/study/runs/* >/dev/full")
    assert (done.code, "No space left on device" in done.err, done.err.count("\n")) == (2, True, 1)


@pytest.mark.parametrize("blocks", [4, 200])
def test_a_report_without_room_on_the_disk_says_so_and_leaves_no_drafts(blocks, study):
    """A limit on the length of a file fails as a full disk does, in whatever writes it."""
    run = next((study / "studies" / "study" / "runs").iterdir())
    line = f"ulimit -f {blocks}; exec {MODULE} report {shlex.quote(str(run))}"
    done = ended(study, line, PYTHONDONTWRITEBYTECODE="1")  # Python 3.11 keeps bytecode that it could write in part
    assert (done.code, done.err) == (2, f"mpinodes: error: {run}: cannot be written: File too large\n")
    assert [*run.glob("**/*.part")] == []
    assert all(file.stat().st_size > 100 for file in run.glob("figures/*"))


def full(*_: object) -> None:
    """Fail as on a full disk."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def broken(*_: object) -> None:
    """Fail as code with a fault."""
    raise IndexError("list index out of range")


@pytest.mark.parametrize(
    ("part", "failure"),
    [
        ((run_figures, "draw_all"), full),
        ((run_figures, "draw_all"), broken),
        ((report, "draw"), full),
        ((summary, "lines"), broken),
    ],
)
def test_what_cannot_be_drawn_or_worded_is_one_line(tmp_path, monkeypatch, capfd, part, failure):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(*part, failure)
    assert run.main(["--lockstep", *WORDS]) == 0
    err = capfd.readouterr().err
    begins = ("mpinodes: warning: the re", "mpinodes: warning: the text with the results ")
    assert (err.startswith(begins), err.count("\n")) == (True, 1), err
    assert "all results are in run" in err
    assert "Traceback" in Path("run/log.txt").read_text()
    require_results(Path("run"))


def test_bad_input_after_the_last_round_takes_no_directory_away(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise BadInput("found late")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Evaluator, "close", refuse)
    assert run.main(["--lockstep", *WORDS]) == 2
    assert len(mpinodes.load(Path("run"))["round"]) == 10
