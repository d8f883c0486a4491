"""The real commands, as a user types them."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import mpinodes
from tests.helpers.matrix_forms import METHODS
from tests.helpers.parts import run_of
from tests.helpers.records import same_bits, summary_of
from tests.helpers.running import run_alone, run_here, run_mpi


@pytest.fixture(scope="module")
def main_job(tmp_path_factory):
    """The run without arguments, from an empty directory."""
    where = tmp_path_factory.mktemp("main")
    return run_mpi(8, cwd=where), where / "runs" / "dola-001"


def test_the_main_job_runs_without_arguments_from_any_directory(main_job):
    done, run = main_job
    assert done.code == 0, done.err
    assert "accuracy, running mean" in done.out
    assert "ten" not in done.err
    for name in ("experiment.toml", "record.h5", "summary.json", "progress.jsonl", "report.html", "log.txt"):
        assert (run / name).stat().st_size > 0, name
    for name in ("regret", "privacy", "accuracy", "topology"):
        assert (run / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_its_summary_says_what_the_contract_lists(main_job):
    summary = summary_of(main_job[1])
    assert summary["algorithm"] == "dola"
    assert (summary["agents"], summary["rounds"], summary["seed"]) == (7, 142, 0)
    assert len(summary["agent_regret"]) == 7
    assert summary["comparator"]["certificate"] < 1e-6
    assert summary["accuracy"].keys() == {"train", "test"}
    privacy = summary["privacy"]
    for loss in (*privacy["agents"], privacy["network"]):
        assert loss.keys() == {"claimed", "proven_pure", "proven", "rule"}
        assert loss["claimed"] == loss["proven_pure"] == 1  # every sample is used once
    assert summary["accuracy"]["test"] > 0.9
    assert summary["versions"].keys() >= {"mpinodes", "python", "numpy", "mpi"}
    ranks = summary["timing"]["ranks"]
    for work, wait in zip(ranks["working"], ranks["waiting"], strict=True):
        assert 0 < work < work + wait < 1.5 * summary["timing"]["total"]
    assert len(ranks["working"]) == 8


def test_xarray_opens_its_record_with_the_names_of_the_contract(main_job):
    record = mpinodes.load(main_job[1])
    dimensions = {name: record[name].dims for name in record}
    for name in ("loss", "consensus_error"):
        assert dimensions[name] == ("round",)
    for name in ("network_regret", "network_regret_average_iterate", "comparator_gap", "average_fitness", "accuracy",
                 "epsilon_claimed_network", "epsilon_proven_pure_network", "epsilon_proven_network"):  # fmt: skip
        assert dimensions[name] == ("horizon",)
    for name in ("agent_regret", "epsilon_claimed", "epsilon_proven_pure", "epsilon_proven"):
        assert dimensions[name] == ("horizon", "agent")
    for name in ("event_scale", "event_l1", "event_l2", "event_uses"):
        assert dimensions[name] == ("round", "agent")
    assert record.horizon.values[-1] == record.sizes["round"] == 142


def test_the_resolved_experiment_runs_again_to_the_same_bits(main_job, tmp_path):
    done = run_mpi(8, str(main_job[1] / "experiment.toml"), "output.dir=again", "report=false", cwd=tmp_path)
    assert done.code == 0, done.err
    assert same_bits(main_job[1], tmp_path / "again") == []


def test_the_page_is_self_contained_and_the_report_can_be_drawn_again(main_job, tmp_path):
    page = main_job[1] / "report.html"
    text = page.read_text()
    assert text.count("data:image/png;base64,") == 4
    assert text.index("rounds, by rank") < text.index("<td>agent 6</td>") < text.index("<td>logger</td>")
    assert not re.search(r"(src|href)=\"(?!data:)", text)
    page.unlink()
    done = run_alone(str(main_job[1]), cwd=tmp_path, module="mpinodes.report")
    assert (done.code, done.out.strip()) == (0, str(page))
    assert page.read_text() == text
    assert "an accuracy of 93.3% on the test samples" in text


def test_a_report_of_something_else_is_refused(tmp_path):
    done = run_here(str(tmp_path), cwd=tmp_path, module="mpinodes.report")
    assert done.code == 2
    assert "there is no finished run in it" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        (2, ["algorithm.name=dpcda"]),
        (8, ["algorithm.name=dpsda-ps", "algorithm.gradient_at=public", "record.transcript=true"]),
        (8, ["algorithm.name=dpsda-ps", "data.batch=20", "data.epochs=15"]),
        (5, ["algorithm.name=dpsda-c", "algorithm.mixing=metropolis", "topology.name=erdos-renyi-each-round",
             "topology.agents=4", "data.name=olr", "problem.set=product-of-balls"]),
        (4, ["algorithm.name=pp-admm", "data.total=300", "problem.weight=30", "record.transcript=true",
             "algorithm.grid=1e-6"]),
        (6, ["algorithm.name=pvp-admm", "topology.name=erdos-renyi", "topology.agents=5", "data.total=700",
             "problem.weight=30", "data.partition=uneven", "data.sizes=[40,150,200,100,60]", "record.transcript=true"]),
    ],
)  # fmt: skip
def test_mpi_equals_lockstep_bit_for_bit(ranks, words, tmp_path):
    words = [*words, "rounds=80", "record.decisions=true", "report=false"]
    done = run_mpi(ranks, *words, "output.dir=mpi", cwd=tmp_path)
    assert done.code == 0, done.err
    agents = [f"topology.agents={ranks - 1}"] if "pp-admm" in words[0] else []
    run_of(tmp_path / "lockstep", " ".join([*words, *agents]))
    assert mpinodes.load(tmp_path / "mpi").decision.shape[0] == 80
    assert same_bits(tmp_path / "mpi", tmp_path / "lockstep") == []


OTHER_CHOICES = {
    "weight-balancing": "algorithm.gradient_at=public algorithm.noise_index=corrected step.kind=doubling "
    "topology.name=eulerian",
    "dola": "algorithm.mixing=laplacian topology.name=matchings data.name=olr problem.loss=absolute "
    "step.kind=inverse-sqrt problem.regularizer=0 data.batch=2",
    "dola-minibatch": "algorithm.regularizer_at=public algorithm.mixing=lazy-metropolis topology.name=ring",
    "dpps": "problem.loss=hinge data.epochs=2 data.partition=uneven data.total=400",
    "dpsr": "data.name=olr problem.loss=least-squares problem.set=box problem.average=true data.batch=3",
}


@pytest.mark.parametrize(("name", "ranks"), [*((name, 5) for name in METHODS), ("dola", 2), ("weight-balancing", 8)])
def test_agents_with_data_of_their_own_do_the_same_under_mpi_and_in_lockstep(name, ranks, tmp_path):
    """Every bit of decisions, frames and events; 1, 4 and 7 agents."""
    words = [f"algorithm.name={name}", *(OTHER_CHOICES[name].split() if ranks == 5 else ["data.total=500"])]
    words += ["rounds=9", "record.decisions=true", "record.transcript=true", "report=false"]
    done = run_mpi(ranks, *words, "output.dir=mpi", cwd=tmp_path)
    assert done.code == 0, done.err
    run_of(tmp_path / "lockstep", " ".join([*words, f"topology.agents={ranks - 1}"]))
    assert mpinodes.load(tmp_path / "mpi").decision.shape[:2] == (9, ranks - 1)
    assert same_bits(tmp_path / "mpi", tmp_path / "lockstep") == []


@pytest.mark.parametrize(("agents", "shape"), [(4, "path"), (7, "ring")])
def test_a_run_that_stops_early_does_so_in_the_same_round_under_mpi_and_in_lockstep(agents, shape, tmp_path):
    """Before its time, and, on a ring, in the last round of all."""
    edges = [{"source": k, "target": k + 1} for k in range(agents - 1)]
    edges += [{"source": agents - 1, "target": 0}] * (shape == "ring")
    (tmp_path / "graph.json").write_text(json.dumps({"nodes": [{"id": k} for k in range(agents)], "edges": edges}))
    words = "algorithm.name=two-stage-gaussian algorithm.gradient_rounds=5 algorithm.stop=0.01 data.points=7 "
    words += f"record.decisions=true record.transcript=true topology.file={tmp_path / 'graph.json'} "
    words += "topology.undirected=true report=false"
    first = mpinodes.load(run_of(tmp_path / "first", f"{words} rounds=1200"))
    ends = first.sizes["round"]
    words += f" rounds={ends if shape == 'ring' else 1200}"
    done = run_mpi(agents + 1, *words.split(), "output.dir=mpi", cwd=tmp_path)
    assert done.code == 0, done.err
    run_of(tmp_path / "lockstep", words)
    assert mpinodes.load(tmp_path / "mpi").sizes["round"] == ends < 1000
    assert summary_of(tmp_path / "mpi")["rounds"] == ends
    assert same_bits(tmp_path / "mpi", tmp_path / "lockstep") == []
    assert np.array_equal(mpinodes.load(tmp_path / "mpi").decision, first.decision)


def test_three_repeats_are_three_runs_with_the_next_seeds(tmp_path):
    words = ["algorithm.name=dola", "data.total=100", "rounds=9", "seed=4", "record.decisions=true", "report=false"]
    done = run_mpi(4, *words, "repeats=3", "output.dir=mpi", cwd=tmp_path)
    assert done.code == 0, done.err
    alone = " ".join([*words, "topology.agents=3"])
    run_of(tmp_path / "lockstep", f"{alone} repeats=3")
    assert same_bits(tmp_path / "mpi", tmp_path / "lockstep") == []
    whole = mpinodes.load(tmp_path / "mpi")
    first = []
    for r in range(3):
        run_of(tmp_path / f"alone-{r}", f"{alone} seed={4 + r}")
        for way in ("mpi", "lockstep"):
            assert same_bits(tmp_path / f"alone-{r}", tmp_path / way / f"repeat-{r}") == []
        single = mpinodes.load(tmp_path / f"alone-{r}")
        for name in ("network_regret", "agent_regret", "epsilon_proven_pure", "comparator_value"):
            np.testing.assert_array_equal(whole[name][r], single[name])
        first.append(single.decision.values[1:])
    assert not np.array_equal(first[0], first[1])
    assert not np.array_equal(first[1], first[2])


def test_a_run_never_overwrites_another(tmp_path):
    words = ["--lockstep", "rounds=4", "report=false"]
    for number in ("001", "002"):
        assert run_here(*words, cwd=tmp_path).code == 0
        assert (tmp_path / "runs" / f"dola-{number}" / "summary.json").exists()
    done = run_here(*words, "output.dir=runs/dola-001", cwd=tmp_path)
    assert done.code == 2
    assert "runs/dola-001" in done.err
    assert "not empty" in done.err


def test_progress_is_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr("mpinodes.rounds.plan.CHUNK", 1)
    run_of(tmp_path / "run", "algorithm.name=dpsda-ps data.name=olr rounds=400")
    told = [json.loads(line) for line in (tmp_path / "run" / "progress.jsonl").read_text().splitlines()]
    lines = [line for line in told if "finishing" not in line]
    assert told[-1]["finishing"] == "privacy accounting"
    assert [line["round"] for line in lines] == [*range(1, 401)]
    assert lines[-1]["average_fitness"] > 0


@pytest.mark.parametrize("flag", [["--help"], ["--dry-run"]])
def test_questions_are_answered_once_with_or_without_mpirun(flag, tmp_path):
    alone, many = run_alone(*flag, cwd=tmp_path), run_mpi(8, *flag, cwd=tmp_path)
    assert (alone.code, many.code) == (0, 0), alone.err + many.err
    assert alone.out == many.out != ""


def test_a_recorded_run_replays_within_its_claims(tmp_path):
    words = ["algorithm.name=dpsda-ps", "rounds=10", "report=false", "record.transcript=true", "output.dir=run"]
    assert run_mpi(8, *words, cwd=tmp_path).code == 0
    done = run_alone("run", cwd=tmp_path, module="mpinodes.replay")
    assert done.code == 0, done.out + done.err
    assert "no message exceeded its bound" in done.out
    assert len(done.out.splitlines()) == 2 + 7 + 1
