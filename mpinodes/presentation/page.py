"""The page of a run: one self-contained HTML file."""

from __future__ import annotations

import base64
from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from mpinodes.evaluation import feedback
from mpinodes.evaluation import message_faults as faults
from mpinodes.presentation import findings, privacy_words, run_warnings
from mpinodes.presentation import terminal as words
from mpinodes.runlog.record import write_text
from mpinodes.summary.combining import Json
from mpinodes.summary.timing import PARTS

HERE = Path(__file__).parent
SAME_BITS = "Saved as a file, this runs again to the same bits."
WIDE = ("Privacy loss", "What one node learns of another", "Topology")  # figures of several panels


def write(directory: Path, summary: Json, experiment: str, figures: dict[str, Path], live: Json) -> Path:
    """Write `report.html` into the run directory; returns its path.

    Args:
        directory: the run's.
        summary: summary.json, with `noise_free`: the same run without noise, where it was made.
        experiment: experiment.toml.
        figures: files by title.
        live: what readers pick from.
    """
    path, s = directory / "report.html", summary
    silent = s.get("noise_free")
    text = _template().render(
        name=s["name"], what=_what(s), partial=_partial(s), warnings=run_warnings.sentences(s),
        found=findings.found(s, silent and silent["summary"]),
        comparable=s["privacy"]["noise"] is not None and not silent and not s.get("partial"),
        measured=words.measured(s), holding=words.bounds(s, applies=True), idle=words.bounds(s, applies=False),
        remarks=_remarks(s), privacy=_privacy(s["privacy"], s.get("checked")),
        figures=[_figure(title, file) for title, file in figures.items()], live=live,
        timing=_timing(s),
        ranks=_ranks(s["timing"].get("ranks")),
        again=SAME_BITS if s["reproducible"] else words.NOT_REPRODUCIBLE, experiment=experiment,
        versions=", ".join(f"{name} {version}" for name, version in s["versions"].items()),
        script=Markup((HERE / "page.js").read_text("utf-8")),
    )  # fmt: skip
    write_text(path, text)
    return path


@lru_cache
def _template() -> Template:
    """Whatever a summary says is escaped there: the page's own words alone are markup."""
    pages = Environment(loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return pages.get_template("page.html")


def _timing(s: Json) -> list[tuple[str, str]]:
    """Seconds by part; of a run that was ended before its time none is known."""
    parts = [] if s.get("partial") else [part for part in PARTS if part != "report"]
    return [(part.replace("_", "-"), f"{s['timing'][part]:.2f}") for part in parts]


def _partial(s: Json) -> str:
    """What is not known of a run that was ended before its time."""
    if not s.get("partial"):
        return ""
    return (
        f"Partial: this run was ended before its time, and of its {s['rounds_asked']} rounds these "
        f"are the {s['rounds']} that its record holds. Rounds that it said after them cost privacy too, and are not "
        "counted here. What is not shown is not known."
    )


def _what(s: Json) -> str:
    agents = "1 agent" if s["agents"] == 1 else f"{s['agents']} agents"
    return (
        f"{s['algorithm']} on {s['data']}{words.partition(s)}: {agents}, {words.rounds(s)}, "
        f"d = {s['dimension']}, {words.seeds(s)}; {words.graph(s)}"
    )


def _remarks(s: Json) -> str:
    befell = f"{faults.in_words(s['faults'])}. ".capitalize() if s.get("faults") else ""
    befell += f"{feedback.in_words(s['feedback'])}. ".capitalize() if s.get("feedback") else ""
    speed = f"{befell}{s['rounds_per_second']:.3g} rounds/s ({s['seconds']:.2f} s)."
    if "seeds" not in s:
        return speed
    return f"Means over {s['repeats']} seeds, ± standard deviation between them. {speed}"


def _privacy(privacy: Json, checked: list[Json] | None) -> Json | None:
    """Head, rows and note of its table; None: there is no noise."""
    if privacy["noise"] is None:
        return None
    rows = [(f"Share of agent {i}", agent) for i, agent in enumerate(privacy["agents"])]
    if len({tuple(agent.values()) for _, agent in rows}) == 1 and len(rows) > 1:
        rows = [("Share of every agent", rows[0][1])]
    rows.append(("Network", privacy["network"]))
    if together := privacy.get("together"):
        rows = [(f"{who}, each run", p) for who, p in rows]
        rows += [
            (f"{who[0].upper()}{who[1:]}, all {together['runs']} runs together", p)
            for who, p in privacy_words.of_all(together)
        ]
    cells = [
        [
            who,
            privacy_words.number(p["claimed"], "none"),
            privacy_words.number(p["proven_pure"]),
            privacy_words.number(p["proven"]),
            privacy_words.by(p["rule"], checked).removeprefix("by ") or p["rule"],
        ]
        for who, p in rows
    ]
    head = ["Privacy loss ε", "claimed", "proven, pure", f"proven at δ = {privacy['delta']:g}", "rule"]
    note = (
        f"{privacy_words.claimed_for(privacy).replace('; ', '. ').capitalize()}"
        "Proven: against someone who reads every message on every link, where adjacent data differ in "
        f"{privacy_words.DIFFERENCE[privacy['adjacency']]}. "
        "An agent's row is its share of the network's loss: what its messages tell beyond all that was said before. "
        "Decisions are not covered: they come from the agents' hidden state. "
        f"{' '.join(privacy_words.remarks(privacy))}"
    )
    return {"head": head, "rows": cells, "note": note}


def _ranks(seconds: Json | None) -> list[Json]:
    """What the rounds took of every rank, the logger last; nothing where all were done in one."""
    if seconds is None:
        return []
    pairs = list(zip(seconds["working"], seconds["waiting"], strict=True))
    longest = max(map(sum, pairs)) or 1.0
    names = [*(f"agent {i}" for i in range(len(pairs) - 1)), "logger"]
    return [
        {
            "name": name,
            "seconds": (f"{work:.2f}", f"{wait:.2f}"),
            "shares": (100 * work / longest, 100 * wait / longest),
        }
        for name, (work, wait) in zip(names, pairs, strict=True)
    ]


def _figure(title: str, path: Path) -> Json:
    return {"title": title, "wide": title in WIDE, "data": base64.b64encode(path.read_bytes()).decode()}
