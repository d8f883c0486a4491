"""The page of a run: one self-contained HTML file."""

from __future__ import annotations

import base64
from html import escape
from pathlib import Path
from typing import Any

from mpinodes.results import faults, privacy_words
from mpinodes.results import summary as words
from mpinodes.results.record import write_text

Json = dict[str, Any]

SAME_BITS = "Saved as a file, this runs again to the same bits."
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.6rem; margin-bottom: 0 } h2 { font-size: 1.15rem; margin-top: 2rem }
.what { color: #555; margin-top: .2rem }
.partial { background: #fff3cd; padding: .5rem 1rem }
.note { color: #555; font-size: .9rem; max-width: 48rem }
table { border-collapse: collapse }
td, th { padding: .2rem 1rem .2rem 0; text-align: right; border-bottom: 1px solid #ddd }
td:first-child, th:first-child { text-align: left } th { font-weight: 600 }
figure { margin: 0 0 1rem }
.figures { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)) }
figure:last-child { grid-column: 1 / -1 }
img { max-width: 100%; height: auto } figcaption { font-weight: 600; margin-bottom: .3rem }
pre { background: #f6f6f6; padding: 1rem; overflow-x: auto; font-size: .85rem }
"""


def write(directory: Path, summary: Json, experiment: str, figures: dict[str, Path]) -> Path:
    """Write `report.html` into the run directory; figures by title. Returns its path."""
    path = directory / "report.html"
    s = summary
    write_text(
        path,
        f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{escape(s["name"])}</title><style>{STYLE}</style></head><body>
<h1>{escape(s["name"])}</h1>
<p class="what">{escape(_what(s))}</p>
{_partial(s)}<h2>What it was worth</h2>
{_table(["", "", "in summary.json"], [[r.label, " ".join(r.value.split()), r.key] for r in words.results(s, why=True)])}
<p class="note">{escape(_remarks(s))}</p>
<h2>What it cost in privacy</h2>
{_privacy(s["privacy"], s.get("checked"))}
<h2>Figures</h2>
<div class="figures">{"".join(_figure(title, file) for title, file in figures.items())}</div>
<h2>Experiment</h2>
<p class="note">{SAME_BITS if s["reproducible"] else words.NOT_REPRODUCIBLE}</p>
<pre>{escape(experiment)}</pre>
<p class="note">{escape(", ".join(f"{name} {version}" for name, version in s["versions"].items()))}</p>
</body></html>
""",
    )
    return path


def _partial(s: Json) -> str:
    """What is not known of a run that was ended before its time."""
    if not s.get("partial"):
        return ""
    return (
        f'<p class="partial">Partial: this run was ended before its time, and of its {s["rounds_asked"]} rounds these '
        f"are the {s['rounds']} that its record holds. Rounds that it said after them cost privacy too, and are not "
        "counted here. What is not shown is not known.</p>\n"
    )


def _what(s: Json) -> str:
    return (
        f"{s['algorithm']} on {s['data']}{words.partition(s)}: {s['agents']} agents, {words.rounds(s)}, "
        f"d = {s['dimension']}, {words.seeds(s)}; {words.graph(s)}"
    )


def _remarks(s: Json) -> str:
    befell = f"{faults.in_words(s['faults'])}. ".capitalize() if s.get("faults") else ""
    speed = f"{befell}{s['rounds_per_second']:.3g} rounds/s ({s['seconds']:.2f} s)."
    if "seeds" not in s:
        return speed
    return f"Means over {s['repeats']} seeds, ± standard deviation between them. {speed}"


def _table(head: list[str], rows: list[list[str]]) -> str:
    def line(tag: str, cells: list[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    top = line("th", head) if any(head) else ""
    return "<table>" + top + "".join(line("td", row) for row in rows) + "</table>"


def _privacy(privacy: Json, checked: list[Json] | None) -> str:
    if privacy["noise"] is None:
        return "<p>None: messages carry no noise.</p>"
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
    return (
        _table(head, cells)
        + f'<p class="note">Claimed: by the paper, for the label ε = {privacy["noise"]["epsilon"]:g}. '
        "Proven: against someone who reads every message on every link, where adjacent data differ in "
        f"{privacy_words.DIFFERENCE[privacy['adjacency']]}. "
        "An agent's row is its share of the network's loss: what its messages tell beyond all that was said before. "
        "Decisions are not covered: they come from the agents' hidden state. "
        f"{escape(' '.join(privacy_words.remarks(privacy)))}</p>"
    )


def _figure(title: str, path: Path) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    image = f'<img alt="{escape(title)}" src="data:image/png;base64,{data}">'
    return f"<figure><figcaption>{escape(title)}</figcaption>{image}</figure>"
