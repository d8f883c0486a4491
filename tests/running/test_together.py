"""What repeats on the same data cost, published together."""

from __future__ import annotations

import csv
from collections import Counter

import numpy as np
import pytest

from mpinodes.auditing import user_file as checking
from mpinodes.auditing.statistics import told_apart
from mpinodes.config import registry
from mpinodes.config.building import build
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import single_run
from mpinodes.core.messages import HEADER
from mpinodes.presentation.terminal import text
from mpinodes.privacy.curves import gdp_epsilon, gdp_mu, laplace_rdp, rdp_epsilon
from mpinodes.summary.summary import Summary
from tests.helpers.parts import run_of, setup_of
from tests.helpers.records import read, summary_of
from tests.helpers.running import run_here, run_mpi

R = 10
ALPHA = 1e-3
# One feature and losses of slope 1, so that a changed target moves its message by the whole sensitivity.
ONE_FEATURE = (
    "algorithm.name=dola problem.loss=absolute data.targets=real data.bound=1 topology.name=complete topology.agents=2"
)


def table(path, targets) -> str:
    """A file of samples with feature 1."""
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([1.0, b] for b in targets)
    return f"data.file={path} data.columns=1 data.header=false"


def told(where, words: str) -> tuple[dict, list]:
    run = run_of(where, f"{words} comparator=false")
    return summary_of(run), sorted(run.glob("repeat-*"))


def lower_bound(where, words: str, delta: float, repeats: int = R) -> tuple[float, dict]:
    """ε that all transcripts together show of one changed sample, at pure ε (delta 0) or at delta, and the summary.

    All messages that data reach follow the first, which no noise has touched: each is a constant plus noise.
    """
    own, other = (table(where / f"{k}.csv", [b, 5, -5, 5]) for k, b in ((0, 5), (1, -5)))
    # Steps of 1 within a ball of 10: no projection.
    asked = f"{ONE_FEATURE} problem.regularizer=1 data.shuffle=false rounds=2 repeats={repeats} record.transcript=true"
    told_, runs = told(where / "run", f"{own} {asked} {words}")
    label = told_["privacy"]["noise"]["epsilon"]
    clean = [
        told(where / f"clean-{k}", f"{data} {asked} privacy.epsilon=inf")[1] for k, data in enumerate((own, other))
    ]
    shifts, noise = [], []
    for run, a, b in zip(runs, *clean, strict=True):
        before, after = (read(place, "transcript")[:, :, HEADER] for place in (a, b))
        scale = read(run, "event_scale")
        moved = np.argwhere(before != after)
        assert len(moved) == 1  # the owner's second message
        t, owner = moved[0]
        shifts.append(abs(after - before)[t, owner] / scale[t, owner])
        noise.append((read(run, "transcript")[:, :, HEADER] - before)[t, owner] / scale[t, owner])
    np.testing.assert_allclose(shifts, label)  # calibrated, and moved by all that it is calibrated to
    assert np.std(noise) > 0.3  # there is some, another in every run
    rng, shift = np.random.default_rng(1), np.array(shifts)
    drawn = rng.laplace(size=(2, 20_000, repeats))
    ratios = [(np.abs(z + side * shift) - np.abs(z)).sum(axis=1) * side for z, side in zip(drawn, (1, -1), strict=True)]
    shown = told_apart(*ratios, delta or 1e-5, ALPHA, gaussian=False)
    return shown.at_delta if delta else shown.pure, told_


def test_repeats_on_fixed_data_lose_what_all_transcripts_show(tmp_path):
    shown, summary = lower_bound(tmp_path, "", 0.0)
    privacy = summary["privacy"]
    assert privacy["network"]["proven_pure"] == pytest.approx(1.0)  # of each: all that was said before
    assert 2.98 < shown <= privacy["together"]["network"]["proven_pure"]
    assert privacy["together"]["network"]["proven_pure"] == pytest.approx(R)
    by_curve = rdp_epsilon(R * laplace_rdp(np.ones(1)), 1e-5)[0]
    assert by_curve * (1 - 1e-9) <= privacy["together"]["network"]["proven"] <= by_curve * 1.005


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_a_budget_is_kept_by_all_repeats_together(tmp_path, delta):
    words = f"privacy.budget.epsilon=1 privacy.budget.delta={delta}"
    key = "proven" if delta else "proven_pure"
    (tmp_path / "all").mkdir()
    shown, summary = lower_bound(tmp_path / "all", words, delta, repeats=5)
    assert shown <= summary["privacy"]["together"]["network"][key] <= 1
    assert summary["privacy"]["together"]["network"][key] > 0.99


def test_stopping_keeps_a_budget_for_all_too(tmp_path):
    words = f"{ONE_FEATURE} {table(tmp_path / 'data.csv', np.linspace(-4, 4, 24))} data.epochs=3 rounds=30 repeats=3"
    budget = "privacy.budget.epsilon=4 privacy.budget.delta=0 privacy.budget.kept_by=stopping"
    stopped = told(tmp_path / "all", f"{words} {budget}")[0]["privacy"]
    free = told(tmp_path / "free", words)[0]["privacy"]
    assert 0 < stopped["together"]["network"]["proven_pure"] <= 4 < free["together"]["network"]["proven_pure"]
    (stop,) = set(stopped["budget"]["stops"])
    later = told(tmp_path / "later", f"{words} rounds={stop + 1}")[0]["privacy"]  # a round more is too much
    assert later["together"]["network"]["proven_pure"] > 4


@pytest.mark.parametrize("words", ["data.batch=2", "data.batch=2 data.shuffle=false", "data.epochs=1", "data.seed=4"])
def test_losses_add_up_by_row_whoever_has_it_in_whatever_round(tmp_path, words):
    targets = np.linspace(-4, 4, 24)  # each names its row
    asked = f"{table(tmp_path / 'data.csv', targets)} {ONE_FEATURE} data.epochs=3 rounds=9 repeats=3 {words}"
    summary, runs = told(tmp_path / "run", asked)
    setup = setup_of(asked)
    network, agents = Counter(), [Counter(), Counter()]
    for r, run in enumerate(runs):
        alone = build(single_run(setup.experiment, r))
        uses, scale, l1 = (read(run, f"event_{name}") for name in ("uses", "scale", "l1"))
        for (t, i), used in np.ndenumerate(uses.astype(int)):
            for b in alone.losses(i)(used).targets.tolist() if used else ():
                network[b] += l1[t, i] / scale[t, i]
                agents[i][b] += l1[t, i] / scale[t, i]
    together = summary["privacy"]["together"]
    assert (together["runs"], together["by"]) == (3, "sample")
    assert together["network"]["proven_pure"] == pytest.approx(max(network.values()))
    for found, loss in zip(together["agents"], agents, strict=True):
        assert found["proven_pure"] == pytest.approx(max(loss.values()))
    each = summary["privacy"]["network"]["proven_pure"]
    assert each <= together["network"]["proven_pure"] <= 3 * each
    if words == "data.seed=4":  # the same order in all
        assert together["network"]["proven_pure"] == pytest.approx(3 * each)


def test_shared_samples_move_every_agent_in_every_run(tmp_path):
    asked = "algorithm.name=dpsda-ps algorithm.gradient_at=public data.name=digits rounds=12 repeats=3 "
    asked += "topology.name=complete topology.agents=3"
    summary, runs = told(tmp_path / "run", asked)
    setup = setup_of(asked)
    network: Counter = Counter()
    for r, run in enumerate(runs):
        alone = build(single_run(setup.experiment, r))
        uses, scale, l1 = (read(run, f"event_{name}") for name in ("uses", "scale", "l1"))
        for (t, i), used in np.ndenumerate(uses.astype(int)):
            for row in alone.losses(i)(used).loss.features.tolist() if used else ():
                network[tuple(row)] += l1[t, i] / scale[t, i]
    found = summary["privacy"]["together"]["network"]
    assert found["proven_pure"] == pytest.approx(max(network.values()))


def test_gaussian_repeats_add_the_squares_of_mu(tmp_path):
    summary, _ = told(tmp_path / "run", "algorithm.name=two-stage-gaussian data.seed=1 data.points=10 repeats=4")
    privacy = summary["privacy"]
    mu = gdp_mu(privacy["network"]["proven"], privacy["delta"])
    found = privacy["together"]["network"]
    assert (found["rule"], found["proven"]) == ("GDP", pytest.approx(gdp_epsilon(2 * mu, privacy["delta"]), rel=1e-6))


def test_data_drawn_anew_from_every_seed_are_not_the_same(tmp_path):
    for name, words in (("a", "algorithm.name=dola data.total=70"), ("b", "data.name=olr")):
        assert told(tmp_path / name, f"{words} rounds=5 repeats=2")[0]["privacy"]["together"] is None
    fixed = told(tmp_path / "c", "data.name=olr data.seed=1 rounds=5 repeats=2")[0]["privacy"]
    assert fixed["together"]["network"]["proven_pure"] == pytest.approx(2 * fixed["network"]["proven_pure"])
    assert told(tmp_path / "d", "data.name=digits rounds=5")[0]["privacy"]["together"] is None  # one run


ONE_ROUND = "algorithm.name=dola topology.agents=3 topology.name=complete privacy.adjacency=one-round"


def parts(where, rows=8, agents=3) -> str:
    """A file of its own for each agent, of samples with feature 1."""
    for i in range(agents):
        table(where / f"part-{i}.csv", np.linspace(-4, 4, rows))
    stated = "data.columns=1 data.header=false data.bound=1 data.targets=real problem.loss=absolute"
    return f"data.file={where}/part-{{agent}}.csv {stated}"


@pytest.mark.parametrize(
    ("words", "by"),
    [
        ("data.name=digits rounds=5", None),
        ("data.name=digits rounds=5 data.batch=4", None),
        ("data.name=digits rounds=9 data.epochs=9 data.batch=50", None),
        ("data.name=digits rounds=5 data.seed=2", "round"),
        ("data.name=digits rounds=9 data.epochs=9 data.batch=50 data.seed=2", "round"),
        ("data.name=digits rounds=5 data.shuffle=false", None),  # other agents have the rows
        ("parts rounds=4 data.batch=2", None),
        ("parts rounds=4 data.batch=2 data.shuffle=false", "round"),
        ("parts rounds=4 data.batch=all", "round"),
    ],
)
def test_rounds_add_up_where_the_order_of_samples_is_the_same_and_else_nothing_is_proven(tmp_path, words, by):
    words = words.replace("parts", parts(tmp_path))
    privacy = told(tmp_path / "run", f"{ONE_ROUND} {words} repeats=3")[0]["privacy"]
    together = privacy["together"]
    if by:
        assert together["by"] == by
        assert together["network"]["proven_pure"] == pytest.approx(3 * privacy["network"]["proven_pure"])
    else:
        assert together["network"]["proven"] is None
        assert "several rounds" in together["unproven_because"]


def test_one_round_of_a_run_moves_more_than_one_round_of_another(tmp_path):
    """The reason why nothing is proven: by messages, the loss is above the sum of each run's worst round."""
    asked = f"{ONE_ROUND} {parts(tmp_path, rows=20)} data.batch=10 rounds=2 repeats=2 seed=3"
    setup = setup_of(asked)
    runs = [build(single_run(setup.experiment, r)) for r in range(2)]
    changed = set(runs[0].stream.samples(0)(1))
    assert [sum(bool(changed & set(run.stream.samples(0)(t))) for t in (1, 2)) for run in runs] == [1, 2]


@pytest.mark.parametrize("kept_by", ["noise", "stopping"])
@pytest.mark.parametrize("words", [f"{ONE_ROUND} data.name=digits", "algorithm.name=dola privacy.adjacency=one-agent"])
def test_a_budget_of_runs_of_which_nothing_is_proven_together_is_refused(tmp_path, words, kept_by):
    asked = f"{words} data.name=digits rounds=6 repeats=2 privacy.budget.epsilon=4 privacy.budget.kept_by={kept_by}"
    with pytest.raises(BadInput, match="nothing is proven for all repeats together"):
        run_of(tmp_path / "run", asked)
    assert told(tmp_path / "alone", f"{asked} repeats=1")[0]["privacy"]["network"]["proven"] <= 4


@pytest.mark.parametrize("words", ["data.batch=2", "data.batch=all", "data.batch=2 data.epochs=3 rounds=9"])
def test_agents_with_files_of_their_own_add_up_agent_by_agent(tmp_path, words):
    asked = f"algorithm.name=dola topology.agents=3 {parts(tmp_path)} privacy.adjacency=one-agent rounds=4 repeats=3"
    privacy = told(tmp_path / "run", f"{asked} {words}")[0]["privacy"]
    assert privacy["together"]["by"] == "agent"
    assert privacy["together"]["network"]["proven_pure"] == pytest.approx(3 * privacy["network"]["proven_pure"])
    # Replace all samples of agent 0: every round of every run costs at most what was counted.
    moved = 0.0
    for i, table_of in enumerate([np.linspace(-4, 4, 8), np.full(8, 40.0)]):
        table(tmp_path / "part-0.csv", table_of)
        clean = told(tmp_path / f"clean-{i}", f"{asked} {words} privacy.epsilon=inf record.transcript=true")[1]
        sent = [read(place, "transcript")[:2, 0, HEADER] for place in clean]
        moved = np.array(sent) - moved
    scales = [read(place, "event_scale")[1, 0] for place in sorted((tmp_path / "run").glob("repeat-*"))]
    assert np.abs(moved[:, 1] / scales).sum() <= privacy["together"]["network"]["proven_pure"] * (1 + 1e-9)
    assert np.abs(moved[:, 1]).min() > 0  # the agent's file reaches all runs


UNSAID = """
from dataclasses import dataclass
import numpy as np
from mpinodes.core.seeds import Draws, Purpose
from mpinodes.streams.labelled import LabelledStream, in_memory

__all__ = ["Mine"]

@dataclass(frozen=True)
class Mine(LabelledStream):
    name = "mine"
    feature_bound = 1.0
    defaults = {"problem": {"loss": "logistic", "set": "ball", "radius": 5.0}}

    def open(self):  # the same people, in another order for every seed
        order = Draws(self.seed, Purpose.DATA).at(0).permutation(40)
        points = np.linspace(-1, 1, 40)[order, None]
        return in_memory(points, np.sign(points[:, 0])), None
"""


def test_a_stream_that_says_nothing_of_its_seed_is_charged_by_each_runs_worst(tmp_path):
    (tmp_path / "mine.py").write_text(UNSAID)
    words = f"algorithm.name=dola data.path={tmp_path}/mine.py topology.agents=2 rounds=9 repeats=3"
    privacy = told(tmp_path / "run", words)[0]["privacy"]
    assert privacy["together"]["by"] == "maxima"
    assert privacy["together"]["network"]["proven_pure"] == pytest.approx(3 * privacy["network"]["proven_pure"])


@pytest.mark.parametrize(
    ("said", "order", "fault"),
    [
        ("False", "Draws(self.seed, Purpose.DATA).at(0).permutation(40)", True),
        ("False", "np.arange(40)", False),
        ("True", "np.arange(40)", True),
        ("True", "Draws(self.seed, Purpose.DATA).at(0).permutation(40)", False),
        ("None", "np.arange(40)", False),
    ],
)
def test_check_tries_what_a_stream_says_of_its_seed(tmp_path, said, order, fault):
    text = UNSAID.replace('name = "mine"', f'name = "mine"\n    drawn_from_seed = {said}')
    path = tmp_path / "mine.py"
    path.write_text(text.replace("Draws(self.seed, Purpose.DATA).at(0).permutation(40)", order))
    ((kind, part),) = registry.parts_called(str(path))
    found = [fault.name for fault in checking.check(kind, part, 0).faults]
    assert found == [f"drawn_from_seed = {said}"] * fault


def test_one_run_of_which_nothing_is_proven_leaves_all_unproven(tmp_path):
    words = "algorithm.name=dola data.name=digits rounds=5 repeats=2 privacy.clip=inf privacy.scale=1"
    together = told(tmp_path / "run", words)[0]["privacy"]["together"]
    assert together["network"]["proven"] is None


SAID = "algorithm.name=dola data.name=digits data.seed=1 rounds=4 repeats=2 output.dir=run"


@pytest.mark.parametrize("start", [run_here, run_mpi])
def test_terminal_and_page_say_each_and_all(tmp_path, start, undrawn):
    words = SAID.split()
    done = (
        run_here("--lockstep", *words, "topology.agents=2", cwd=tmp_path)
        if start is run_here
        else run_mpi(3, *words, cwd=tmp_path)
    )
    assert done.code == 0, done.err
    page = (tmp_path / "run" / "report.html").read_text()
    for said in (done.out, page):
        assert "each run" in said
        assert "all 2 " in said
        assert "added up sample by sample" in " ".join(said.split())
    together = summary_of(tmp_path / "run")["privacy"]["together"]
    assert together["network"]["proven_pure"] == pytest.approx(2.0)


@pytest.mark.parametrize("words", ["data.partition=by-label", "privacy.adjacency=one-agent"])
def test_repeats_of_which_nothing_is_proven_end_in_words(words, tmp_path):
    run = run_of(tmp_path / "run", f"algorithm.name=dola data.name=digits rounds=6 repeats=2 {words}")
    assert summary_of(run)["privacy"]["together"]["network"]["proven"] is None
    assert "unproven" in text(Summary.read(run), run)
