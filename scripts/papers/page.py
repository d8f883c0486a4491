"""The page of all.py: verdicts in a table for each paper, then what each item printed and drew."""

from __future__ import annotations

from collections import Counter
from html import escape
from typing import Any

Json = dict[str, Any]

COLOURS = {
    "reproduced within its spread": "#009E73", "order only": "#0072B2", "not reproducible": "#D55E00",
    "not confirmed": "#CC79A7", "found here": "#222222", "not done": "#777777",
}  # fmt: skip
COLUMNS = ("item", "claim", "verdict", "ours", "the paper's", "difference", "seeds", "why", "by", "cost")
STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 1250px; padding: 0 1em; color: #222; }
table { border-collapse: collapse; width: 100%; margin: 0.7em 0 2em; }
th, td { text-align: left; vertical-align: top; padding: 0.3em 0.6em; border-bottom: 1px solid #ddd; font-size: 13px; }
th { border-bottom: 2px solid #999; } td.verdict { font-weight: 600; }
pre { background: #f6f6f6; padding: 0.8em; overflow-x: auto; font-size: 12px; } img { max-width: 100%; }
.small { background: #fff3cd; padding: 0.6em 1em; }
"""


def html(index: Json, verdicts: list[Json], items: dict[str, Json]) -> str:
    """The whole page; figures are files beside it."""
    counted = Counter(verdict["verdict"] for verdict in verdicts)
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>The papers, redrawn</title>",
        f"<style>{STYLE}</style><h1>The papers, redrawn</h1>",
        "<p>" + ", ".join(f"{count} {_coloured(word)}" for word, count in counted.items()) + ".</p>",
        "<p>Order only: the papers' relations hold, their numbers are other ones, or not printed. Not reproducible: "
        "the claim does not hold here, for the reason given. Not confirmed: neither shown nor refuted, for seeds do "
        "not tell it apart, or because a larger privacy loss is all that is proven, and no attack is shown. Found "
        "here: no paper claims it. Seeds are those really run; the cost is CPU time of the whole script from scratch, "
        "kept runs at what they took when they were made; its section below says how to run it.</p>",
    ]
    if any(item["quick"] for item in items.values()):
        parts.append(
            "<p class='small'>Small forms, of few seeds on made data: that it all runs; not what holds of the papers."
            "</p>"
        )
    for paper in index["papers"]:
        parts.append(f"<h2>{escape(paper['authors'])}: {escape(paper['title'])}</h2>")
        parts.append(_table([verdict for verdict in verdicts if verdict["paper"] == paper["key"]], items))
    parts.append("<h2>What was run</h2>")
    parts += [_section(name, item) for name, item in items.items()]
    return "\n".join(parts)


def _coloured(word: str) -> str:
    return f"<b style='color: {COLOURS[word]}'>{word}</b>"


def _table(verdicts: list[Json], items: dict[str, Json]) -> str:
    heads = "".join(f"<th>{name}</th>" for name in COLUMNS)
    return f"<table><tr>{heads}</tr>{''.join(_row(verdict, items) for verdict in verdicts)}</table>"


def _row(verdict: Json, items: dict[str, Json]) -> str:
    name = next((name for name, item in items.items() if item["command"] == verdict["command"]), "")
    link = f"<a href='#{name}'>{name}</a>" if name else ""
    words = [verdict["item"], verdict["claim"]]
    after = [verdict["ours"], verdict["theirs"], verdict["difference"], str(verdict["seeds"] or ""), verdict["because"]]
    cells = [f"<td>{escape(word)}</td>" for word in words]
    cells.append(f"<td class='verdict'>{_coloured(verdict['verdict'])}</td>")
    cells += [f"<td>{escape(word)}</td>" for word in after]
    cost = cost_of(items[name]) if name and verdict["ours"] else ""
    return f"<tr>{''.join(cells)}<td>{link}</td><td>{cost}</td></tr>"


def cost_of(item: Json) -> str:
    """From scratch; at least, where a kept study was cut short."""
    return f"{'at least ' * bool(item['untold'])}{item['cost']:g} s"


def _section(name: str, item: Json) -> str:
    figures = "".join(f"<p><img src='{escape(figure)}' alt='{escape(figure)}'></p>" for figure in item["figures"])
    cost = f"{cost_of(item)} of CPU from scratch; drawn last in {item['seconds']:g} s, {item['cpu']:g} s of CPU"
    if item["untold"]:
        cost += f" ({item['untold']} of its kept studies were cut short, and nobody wrote down what they took)"
    cost += f"; commit {item['commit'] or 'unknown'}, settings {item['settings']}"
    text = f"<pre>{escape(item['text'])}</pre>" if item["text"] else ""
    return f"<h3 id='{name}'>{name}</h3><p><code>{escape(item['command'])}</code>: {cost}</p>{figures}{text}"
