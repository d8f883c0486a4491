"""What a reader can see on a figure."""

from __future__ import annotations

import json

import matplotlib as mpl
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from mpinodes import report
from mpinodes.presentation import plots as drawing
from mpinodes.presentation import run_figures as figures
from mpinodes.presentation.plots import Drawn
from mpinodes.summary.summary import Summary
from tests.helpers.parts import run_of

RUNS = {
    "batches": "rounds=20 data.total=4000",
    "shared": "algorithm.name=dpsda-ps rounds=30",
    "two stages": "algorithm.name=two-stage-gaussian algorithm.gradient_rounds=10 rounds=16",
    "repeated": "algorithm.name=pp-admm data.total=140 problem.weight=9 rounds=12 repeats=2",
}


@pytest.fixture(scope="module", params=RUNS.values(), ids=RUNS)
def run(request, tmp_path_factory):
    return run_of(tmp_path_factory.mktemp("figures") / "run", request.param)


@pytest.fixture(scope="module")
def drawn(run) -> dict[str, Figure]:
    summary = Summary.read(run)
    with Drawn(run) as data, mpl.rc_context(drawing.STYLE):
        found = {name: draw(data, summary) for name, (_, draw) in figures.drawers(summary).items() if name != "views"}
    for figure in (kept := {name: figure for name, figure in found.items() if figure is not None}).values():
        figure.draw_without_rendering()
    return kept


def shown(axis) -> list[str]:
    low, high = sorted(axis.get_view_interval())
    return [
        tick.label1.get_text() for tick in axis.get_major_ticks()
        if tick.label1.get_text() and low * (1 - 1e-9) <= tick.get_loc() <= high * (1 + 1e-9)
    ]  # fmt: skip


def test_axes_have_three_numbers_and_do_not_go_down_to_rounding(drawn):
    for name, figure in drawn.items():
        for axes in figure.axes if name != "topology" else ():
            assert len(shown(axes.xaxis)) >= 3, name
            assert len(shown(axes.yaxis)) >= 3, name
            low, high = axes.get_ylim()
            assert axes.get_yscale() == "linear" or low >= 0.9e-9 * high, name
            assert axes.get_title(), name


def test_what_one_node_learns_of_another_is_drawn_also_if_agents_relay(run):
    summary = Summary.read(run)
    with Drawn(run) as data, mpl.rc_context(drawing.STYLE):
        figure = figures.views(data, summary)
    if figure is not None:
        figure.draw_without_rendering()
        title = figure.get_suptitle()
        assert title.replace("\n", " ").endswith(": what one node learns of another")
        box = next(text for text in figure.texts if text.get_text() == title).get_window_extent()
        assert box.x0 >= 0
        assert box.x1 <= figure.bbox.width
    labels = [line.get_label() for axes in figure.axes for line in axes.lines] if figure else []
    assert ("from then on, given all before" in labels) == (summary.algorithm == "two-stage-gaussian"), labels


def test_every_colour_of_a_curve_has_enough_contrast_to_paper():
    for colour in {*(colour for colour, _ in (*figures.MARKERS, *figures.BOUNDS)), figures.GUESS, figures.BEST}:
        parts = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(colour)]
        luminance = 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]
        assert 1.05 / (luminance + 0.05) >= 3, colour  # of graphics, by the Web Content Accessibility Guidelines


def test_no_legend_lies_on_a_curve(drawn):
    for name, figure in drawn.items():
        for legend in figure.legends:
            box = legend.get_window_extent()
            assert not any(box.overlaps(axes.get_window_extent()) for axes in figure.axes), name
            width = figure.bbox.width
            assert box.x0 >= 0, name
            assert box.x1 <= width, name


def test_every_privacy_curve_is_named_with_its_value(drawn, run):
    privacy = json.loads((run / "summary.json").read_text())["privacy"]
    network = drawn["privacy"].axes[0]
    words = [text.get_text() for text in network.get_legend().get_texts()]
    known = [privacy["network"][key] for key in ("claimed", "proven_pure", "proven")]
    assert len(words) == len(known)
    assert sum(each.endswith((": none", ": unproven")) for each in words) == known.count(None)
    assert any(f": {privacy['network']['proven']:.4g}" in each or f"{privacy['network']['proven']:.0f}" in each
               for each in words)  # fmt: skip
    assert len({line.get_linewidth() for line in network.lines}) == len(network.lines)
    for axes in drawn["privacy"].axes:
        assert not axes.get_legend().get_window_extent().overlaps(axes.get_window_extent())


def test_points_under_the_pointer_have_the_values_of_the_record(drawn, run):
    with Drawn(run) as data:
        last = data["horizon"].values[-1]
        regret = (data["network_regret"] / data["horizon"]).last("horizon").values.mean()
    for name, figure in drawn.items():
        points = drawing.points(figure)
        assert all(0 <= share <= 1 for point in points for share in point[:2])
        assert bool(points) == (name != "topology")
    assert not any("nan" in text for figure in drawn.values() for *_, text in drawing.points(figure))
    named = [text for *_, text in drawing.points(drawn["regret"]) if "network regret" in text]
    assert len(named) == len(drawn["regret"].axes[0].lines[0].get_xdata())
    assert any(text.startswith(f"{regret:.4g} (rounds: {last})") for *_, text in drawing.points(drawn["regret"]))


def test_agents_have_the_names_of_their_file_and_one_agent_has_no_graph():
    graph = {"title": "towns", "agents": 3, "period": 1, "rounds": [[[0, 1], [1, 2]]], "names": ["Rome", "Oslo", "A"]}
    words = [text.get_text() for text in figures.draw_topology(graph).axes[0].texts]
    assert words == ["Rome", "Oslo", "A"]
    assert figures.draw_topology({"title": "one", "agents": 1, "period": 1, "rounds": [[]]}) is None


def test_the_report_command_writes_what_a_paper_takes_too(tmp_path, capsys):
    run = run_of(tmp_path / "run", "rounds=4 data.total=700")
    assert report.main([str(run)]) == 0
    for kind, begins in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
        files = list((run / "figures").glob(f"*.{kind}"))
        assert {file.stem for file in files} == {"regret", "privacy", "accuracy", "topology"}
        assert all(file.read_bytes().startswith(begins) for file in files)
    first = {file: file.read_bytes() for file in (run / "figures").iterdir()}
    assert report.main([str(run)]) == 0
    same = [file for file, whole in first.items() if file.read_bytes() == whole]
    assert {file.suffix for file in same} >= {".png", ".pdf"}


def test_a_loss_that_is_proven_to_be_nothing_is_proven(tmp_path):
    words = "algorithm.name=dola rounds=20 privacy.budget.epsilon=0.7 privacy.budget.kept_by=stopping"
    run = run_of(tmp_path / "run", words)
    summary = Summary.read(run)
    assert summary.privacy.network.proven == 0
    with Drawn(run) as data, mpl.rc_context(drawing.STYLE):
        axes = figures.privacy(data, summary).axes[0]
    assert axes.get_title() == "Network and worst agent"
    assert {text.get_text().rpartition(": ")[2] for text in axes.get_legend().get_texts()} == {"0", "1"}
