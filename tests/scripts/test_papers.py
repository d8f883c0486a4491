"""The scripts of scripts/papers in their small versions: figures, verdicts, and a number of each."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from mpinodes.core.experiment import parse
from tests.helpers.figures import PAPERS, drawn, numbers
from tests.helpers.parts import resolved


def test_weights_converge_on_eulerian_digraphs_and_blow_up_on_random_ones(tmp_path):
    out = drawn("weight_balancing_divergence.py", tmp_path, "weight-balancing-divergence.png")
    largest, least, error, *_ = numbers(out, "(b) Eulerian in every round")
    assert (largest, error < 1e-10, 0 < least < 1) == (0.125, True, True)
    largest, least, error, stopped, of, *_ = numbers(out, "(c) random strongly connected, new in every round")
    assert largest > 10
    assert least < -10
    assert error > 1e10
    assert stopped == of == 4
    *_, shown = numbers(out, "(d) out-degree 3, in-degrees vary")[:3]
    assert 1e-3 < shown < 1e-1
    assert "Lemma 2 on (a), (b): holds" in out
    assert "On (c): does not hold" in out
    assert "On (d): does not hold" in out


def test_regret_of_weight_balancing_grows_faster_with_the_printed_modulus_and_as_noise_squared(tmp_path):
    out = drawn("weight_balancing_regret.py", tmp_path, "weight-balancing-regret.png")
    many = numbers(out, "strongly-convex, modulus printed, n 16, eps inf worst agent")
    proven = numbers(out, "strongly-convex, modulus proven, n 16, eps inf worst agent")
    assert many[2] > 0.4 > 0.1 > proven[2]
    strong, _ = numbers(out, "Noise part ∝ ε^−p, the paper's p = 2:")
    assert strong == pytest.approx(2, abs=0.5)  # of two seeds, with noise of its own at each ε


def test_regret_of_dola_grows_with_noise_and_falls_with_the_batch(tmp_path):
    pictures = ("dola-figure-1.png", "dola-figure-2.png", "dola-table-1.png")
    out = drawn("dola_figures.py", tmp_path, *pictures)
    none, *_, most = re.findall(r"([\d.]+) at ε", out)
    assert float(most) > 10 * float(none)
    (single, _), (_, large, _) = numbers(out, "ε = 1, h =  1:"), numbers(out, "ε = 1, h = 2")
    assert single > 1.5 * large
    assert numbers(out, "closed form")[0] == 100
    assert numbers(out, "1 agent ")[0] > 95
    assert "Less ε, more regret: " in out
    assert "Accuracy falls with the number of agents: does not hold" in out


def test_outputs_of_dpsda_differ_by_less_where_a_ball_rescales_them_and_not_in_a_box(tmp_path):
    out = drawn("dpsda_paired.py", tmp_path, "dpsda-paired.png")
    ball, box = ([numbers(out, f"dpsda-c, {of}, c = 3, {e} ")[0] for e in ("∞", "1")] for of in ("ball", "box"))
    assert ball[1] < 0.5 * ball[0]
    step, agents, ink = 30**-0.5, 7, 1
    assert box == pytest.approx([step * agents * ink] * 2, abs=1e-4)
    assert "Decisions 1 to 30 have the same bits on F and F′ in 24 of 24 pairs" in out
    assert "Table V, less ε, less difference: holds for paired noise on the ball" in out
    assert "With independent noise: does not hold" in out


def test_error_of_two_stages_falls_with_the_noisy_release_and_rises_as_printed(tmp_path):
    pictures = ("two-stage-figure-1.png", "two-stage-figure-2.png", "two-stage-figures-3-4.png")
    out = drawn("two_stage_figures.py", tmp_path, *pictures)
    first, *_, last = numbers(out, "noisy release, closed form:")
    assert (first, last) == (0.00106, 0.000729)  # of T = 1 and 20
    first, *_, last = numbers(out, "as printed:")
    assert first < 1e-20 < 1e-4 < last
    assert "x̄(T), as printed, falls: does not hold" in out
    assert "Less δ, more error: holds" in out
    slopes = [float(found) for found in re.findall(r"(-\d\.\d+) \(", out)]
    assert len(slopes) == 4
    assert slopes == pytest.approx([-1.9] * 4, abs=0.3)  # of few seeds, with noise of its own at each ε
    assert "The error of huang-dp does not vanish as ε grows: holds" in out


def adult(folder: Path) -> list[str]:
    """300 rows in Adult's format, whose income depends on age, hours and sex; the words that say where they are."""
    draws = np.random.default_rng(0)
    for name, rows, end in (("adult.data", 200, ""), ("adult.test", 100, ".")):
        lines = [] if end == "" else ["|1x3 Cross validator"]
        for age, hours, male in zip(*draws.integers([[17], [10], [0]], [[90], [99], [2]], (3, rows)), strict=True):
            rich = age + hours + 40 * male + draws.normal(0, 20) > 130
            lines.append(
                f"{age}, Private, 100000, Bachelors, 13, Never-married, Sales, Husband, White, "
                f"{'Male' if male else 'Female'}, 0, 0, {hours}, United-States, {'>' if rich else '<='}50K{end}"
            )
        (folder / name).write_text("\n".join([*lines, ""]))
    return [f"data.dir={folder}"]


def test_growing_penalties_stall_and_lessen_claims_and_alone_do_not_lessen_the_loss(tmp_path):
    adult(tmp_path)
    pictures = ("admm-figure-1.png", "admm-figure-2.png", "admm-figures-3-4.png")
    out = drawn("admm_figures.py", tmp_path, *pictures, words=["--adult", str(tmp_path)])
    assert "A larger q1 slows it down: holds" in out
    assert "To the optimum: does not hold" in out
    assert "η at most 2 mends it: holds" in out
    *_, stalled = numbers(out, "q1 = 1.1 ")
    *_, still = numbers(out, "q1 = 1 ")
    assert stalled > 100 * still
    *_, claimed, pure, proven = numbers(out, "DVP, q2 = 1 ")
    assert claimed == pytest.approx(15 * 50 * (1.4 / 4 + 3) / (0.5 * 2 * 60), rel=0.01)  # two neighbours, 60 rows
    assert claimed > pure >= proven > claimed / 2
    assert "growing η lowers L: does not hold" in out
    assert "Unevenly spread rows cost more privacy: holds" in out


def test_at_equal_proven_epsilon_runs_keep_their_budgets(tmp_path):
    out = drawn("equal_epsilon.py", tmp_path, "equal-epsilon.png")
    assert re.search(r"Least regret at ε = 0\.5: [\w-]+ \(\d.*\); ε = 4: (dola|dpps)", out)


def test_the_attack_finds_the_sample_and_the_growth_of_private_penalties(tmp_path):
    out = drawn("admm_attack.py", tmp_path, "admm-attack.png")
    dvp, known, assumed, fitted, *_, growth = numbers(out, "600 ")
    assert dvp > 0.9
    assert min(known, assumed, fitted) > 0.8
    assert growth == pytest.approx(1.002, abs=2e-4)
    assert "η private, that is impossible: does not hold" in out


@pytest.mark.parametrize("path", sorted(PAPERS.glob("*.toml")), ids=lambda path: path.stem)
def test_every_file_is_an_experiment(path, tmp_path):
    pairs = ["topology.agents=4"]
    if "admm" in path.stem:
        pairs = [*adult(tmp_path), "problem.weight=1"]  # of these few rows
    if "dpsda" in path.stem:
        pairs = []  # the graph of seven agents
    if ".npz" in path.read_text():
        np.savez(tmp_path / "few.npz", features=np.eye(8), targets=np.tile([1.0, -1.0], 4))
        pairs += [f"data.file={tmp_path / 'few.npz'}", "data.columns=8"]
    if "rcv1" in path.stem:
        lines = [f"{1 if k % 2 else -1} {k + 1}:0.5" for k in range(40)]
        (tmp_path / "rcv1_train.binary").write_text("\n".join(lines) + "\n")
        pairs += [f"data.dir={tmp_path}"]
    assert resolved(parse(str(path), pairs)).name.startswith(path.stem[:8])
