"""From what the user asks for to a resolved experiment."""

from __future__ import annotations

import math
import re
import runpy
import threading
import time
import tomllib

import numpy as np
import pytest

from mpinodes.config import compose as composing
from mpinodes.config import explaining, registry
from mpinodes.config.building import build
from mpinodes.config.compose import compose
from mpinodes.core import experiment as ex
from mpinodes.core.asked import parse
from mpinodes.core.errors import BadInput
from mpinodes.core.seeds import Draws, Purpose
from tests.helpers import parts
from tests.helpers.running import CHECKOUT


def resolved(words: str = "", ranks: int | None = 8) -> ex.Experiment:
    return parts.resolved(words, ranks)


@pytest.mark.parametrize("name", registry.names(registry.ALGORITHMS))
def test_an_algorithms_name_alone_is_enough(name):
    built = parts.setup_of(f"algorithm.name={name}")
    assert compose({"algorithm": {"name": name}}, built.topology.agents + 1).connected_over >= 1


def test_a_file_with_overrides_on_top(tmp_path):
    file = tmp_path / "e.toml"
    file.write_text('rounds = 20\nseed = 3\n[privacy]\nepsilon = 0.5\n[topology]\nname = "ring"\n')
    e = compose(parse(str(file), ["seed=4", "privacy.epsilon=inf"]), 6).experiment
    assert (e.rounds, e.seed, e.privacy.epsilon, e.topology["agents"]) == (20, 4, math.inf, 5)


def test_defaults_come_from_the_data_the_algorithm_and_the_user_in_this_order():
    assert resolved("algorithm.name=dpsda-ps").privacy.scale == 4.5
    assert resolved("algorithm.name=dpcda", ranks=2).privacy.scale == 0.6
    assert resolved("algorithm.name=dpcda privacy.scale=2", ranks=2).privacy.scale == 2
    assert resolved("algorithm.name=dpsda-ps privacy.scale=calibrated").privacy.scale == "calibrated"
    olr = resolved("algorithm.name=dpsda-ps data.name=olr")
    assert (olr.problem.loss, olr.problem.set, olr.rounds) == ("least-squares", "box", 500)


def test_batches_of_the_first_run_are_for_its_own_algorithm_and_data():
    first = resolved()
    assert (first.name, first.data["name"], first.data["batch"], first.rounds) == ("dola", "unit-ball", 25, 142)
    assert resolved("algorithm.name=dola").data["batch"] == resolved("data.name=digits").data["batch"] == 1


def test_another_topology_drops_the_algorithms_settings_for_its_own():
    assert resolved("algorithm.name=dpsda-c").topology["undirected"]
    assert resolved("algorithm.name=dpsda-c topology.name=ring").topology == {
        "name": "ring", "agents": 7, "directed": False,
    }  # fmt: skip


def test_another_kind_of_step_drops_the_algorithms_settings_for_its_own():
    words = "algorithm.name=weight-balancing"
    assert resolved(f"{words} step.kind=doubling").step == {"kind": "doubling", "initial": 1.0}
    same = {"kind": "strongly-convex", "modulus": 0.05, "offset": 1.0}
    assert resolved(words).step == resolved(f"{words} step.kind=strongly-convex").step == same
    assert resolved(f"{words} step.modulus=3").step == same | {"modulus": 3.0}


def test_the_resolved_experiment_resolves_to_itself():
    for words in ("", "algorithm.name=dpsda-c privacy.epsilon=inf", "data.name=olr rounds=9 topology.name=ring"):
        e = resolved(words)
        assert compose(tomllib.loads(e.toml()), 8).experiment == e


def test_inf_may_be_written_as_a_number_or_as_a_word():
    assert not resolved("privacy.epsilon=inf").private
    assert not resolved('privacy.epsilon="inf"').private
    assert not resolved("privacy.mechanism=none").private
    assert build(resolved("privacy.epsilon=inf")).mechanism == build(resolved("privacy.mechanism=none")).mechanism


def test_calibrated_noise_is_the_papers():
    """Scale 2n√d_i·clip/ε for agent i, by Remark 5."""
    built = build(resolved("algorithm.name=dpsda-ps privacy.scale=calibrated privacy.epsilon=0.5 privacy.clip=2"))
    state = built.algorithm.init(np.zeros(64))
    for i, block in enumerate(built.blocks):
        query = built.algorithm.message(state, built.topology.neighborhood(1, i))
        assert query.l1 == pytest.approx(2 * 7 * math.sqrt(block.stop - block.start) * 2, rel=1e-15)
        event = built.mechanism.release(query, 1, Draws(0, Purpose.NOISE, i), np.empty(64))
        assert event.scale == pytest.approx(query.l1 / 0.5, rel=1e-15)


def test_an_algorithm_of_ones_own_from_a_file(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from dataclasses import dataclass\n"
        "from mpinodes.algorithms.dpsda_ps import DPSDAPS\n"
        "__all__ = ['Mine']\n"
        "@dataclass(frozen=True)\n"
        "class Mine(DPSDAPS):\n"
        "    boost: float = 2.0\n"
    )
    e = resolved(f"algorithm.path={file} algorithm.boost=3")
    assert e.algorithm == {
        "path": str(file), "gradient_at": "hidden", "mixing": "push-sum", "boost": 3.0,
    }  # fmt: skip
    assert e.name == "mine"
    assert build(e).algorithm.boost == 3.0
    with pytest.raises(BadInput, match=r"algorithm.boost = 'x': expected float, got str"):
        resolved(f"algorithm.path={file} algorithm.boost=x")
    file.write_text("import numpy\n")
    with pytest.raises(BadInput, match=r"must name its one class in __all__"):
        resolved(f"algorithm.path={file}")


@pytest.mark.parametrize(
    ("words", "typed"),
    [
        ("data.file=x.csv data.labels=[no,yes]", """'data.labels=["no", "yes"]'"""),
        ("data.file=x.csv data.labels=no,yes", """'data.labels=["no", "yes"]'"""),
        ("data.file=x.csv data.labels=[\u201cno\u201d,\u201cyes\u201d]", """'data.labels=["no", "yes"]'"""),
        ("data.file=x.csv data.labels=[\u2018no\u2019,\u201eyes\u201c]", """'data.labels=["no", "yes"]'"""),
        ("data.file=x.csv data.labels=\u00abno\u00bb,\u00abyes\u00bb", """'data.labels=["no", "yes"]'"""),
        ("data.file=x.csv data.labels=[0,yes,true]", """'data.labels=[0, "yes", true]'"""),
        ("record.metrics=disagreement", """'record.metrics=["disagreement"]'"""),
        ("data.sizes=1,2", "'data.sizes=[1, 2]'"),
        ("data.sizes=[1,2", "'data.sizes=[1, 2]'"),
        ("privacy.budget={epsilon=1,kept_by=noise}", """'privacy.budget={epsilon=1, kept_by="noise"}'"""),
        ("problem.preset={loss=hinge}", """'problem.preset={loss="hinge"}'"""),
        ("seed=1,2,3", "mpinodes sweep seed=1,2,3"),
        ("seed=[1,2]", "mpinodes sweep seed=1,2"),
        ("privacy.epsilon=0.1,1", "mpinodes sweep privacy.epsilon=0.1,1"),
        ("topology.agents=3,4", "mpinodes sweep topology.agents=3,4"),
        ("report=True", "write true or false"),
        ("data.sizes=[1, 2]", "'key=[1, 2]'"),
    ],
)
def test_a_value_that_a_shell_has_changed_is_told_how_to_type_it(words, typed):
    with pytest.raises(BadInput) as caught:
        resolved(f"algorithm.name=dola {words}")
    assert typed in str(caught.value)
    assert "\n" not in str(caught.value)
    if typed.startswith("'data") or typed.startswith("'record"):  # what it says is taken, as a shell hands it over
        key, _, value = typed.strip("'").partition("=")
        assert isinstance(parse(None, [f"{key}={value}"])[key.split(".")[0]][key.split(".")[1]], list)


@pytest.mark.parametrize("words", ["privacy.epsilon=[x]", "privacy.budget.epsilon=1 privacy.budget.stops=[1e308]"])
def test_no_shell_is_blamed_where_none_is_to_blame(words):
    with pytest.raises(BadInput) as caught:
        resolved(f"algorithm.name=dola {words}")
    assert not {"sweep", "quotes"} & set(str(caught.value).split())


def test_the_page_of_all_settings_has_each_key_once():
    page = runpy.run_path(str(CHECKOUT / "docs" / "conf.py"))["settings_page"]()
    rows = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in page.splitlines() if "| `" in line
    ]
    sections = {"algorithm", "step", "topology", "data", "problem.settings"}
    assert sorted(row[0].strip("`") for row in rows) == sorted(explaining.documented_keys().keys() - sections)
    assert all(len(row) == 6 and row[1] and row[4] and row[5] for row in rows)
    by_key = {row[0].strip("`"): row for row in rows}
    assert by_key["algorithm.stop"][1:3] == ["number ≥ 0 and \\< 1", "`0.0`"]
    assert by_key["deadline.seconds"][3] == "s"
    assert by_key["seed"][2] == by_key["privacy.tuning.mu"][2].replace(".0", "") == "`0`"
    assert by_key["data.scaling"][1:3] == ["`maxima` or `public` (adult); section (file)", "`public for adult`"]
    assert "number ≥ 0 and ≤ 10 (two-stage-gaussian)" in by_key["algorithm.noise_decay"][1]
    assert by_key["topology.probability"][2].endswith("random-digraph, random-digraph-each-round; 0.1 for small-world`")


def test_the_titles_of_the_documentation_are_unique():
    pages = [path.read_text().splitlines() for path in (CHECKOUT / "docs").rglob("*.md")]
    titles = [lines[0] for lines in pages if lines[0].startswith("# ")]
    assert len(set(titles)) == len(titles)


def test_every_key_is_explained():
    keys = explaining.documented_keys()
    for key, text in keys.items():
        assert text.strip(" ()"), key
    assert keys["data.scaling"].endswith(": public | maxima for adult (default: public for adult)")
    assert "default" not in keys["data.facts"]


@pytest.mark.parametrize(("rounds", "wanted"), [(1, [1]), (2, [1, 2]), (10_000, None)])
def test_horizons_are_spaced_evenly_in_log_t_and_end_with_the_run(rounds, wanted):
    found = ex.log_spaced(rounds).tolist()
    assert found == sorted(set(found))
    assert (found[0], found[-1]) == (1, rounds)
    assert wanted is None or found == wanted


def test_threads_compose_one_at_a_time(monkeypatch):
    """First readings of a type by two threads at once end a process that uses msgspec, about every other time."""
    within, most = [], []

    def composed(*_):
        within.append(1)
        most.append(len(within))
        time.sleep(0.05)
        within.pop()
        raise BadInput

    def attempt():
        with pytest.raises(BadInput):
            compose({}, None)

    monkeypatch.setattr(composing, "resolve", composed)
    threads = [threading.Thread(target=attempt) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1, 1, 1]
