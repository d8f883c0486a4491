"""The kinds of set-ups that `generated.py` attacks.

Most functions draw a `Case` for `search.attack`. `rewritten` and `keys` attack by themselves, and return the `Result`.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import templates
from replays import Json, Result, Vector, on_other_data, realised, vectors
from search import Case, Random, Spec, spent_together
from tables import merged

from mpinodes.auditing.transcripts import Recorded, Replayed
from mpinodes.config.building import build
from mpinodes.running.job import run

ADMM = ("pp-admm", "dvp-admm", "pvp-admm")
LAWS = ("laplace", "gaussian", "gamma-norm")
USER_FILES = Path(__file__).parents[2] / "tests" / "helpers" / "user_files"  # with signed dynamics, or with two vectors


def one_of(rng: Random, *values: Any) -> Any:
    """Draw one of several values, whose types stay."""
    return values[rng.integers(len(values))]


def base(rng: Random, spec: Spec, **sections: Any) -> Json:
    """Draw what all set-ups need, and put sections on top."""
    step = one_of(rng, {"kind": "inverse-sqrt", "initial": 0.3}, {"kind": "inverse-sqrt", "initial": 3.0},
                  {"kind": "constant", "value": 0.4})  # fmt: skip
    graph = one_of(rng, "complete", "ring", "path") if spec.agents > 2 else "complete"
    asked = {
        "seed": int(rng.integers(1000)), "rounds": int(rng.integers(6, 16)), "step": step, "data": {},
        "topology": {"name": graph, "agents": spec.agents},
        "problem": {"set": one_of(rng, "ball", "box"), "radius": one_of(rng, 0.01, 1.0, 50.0)},
        "privacy": {"epsilon": one_of(rng, 0.5, 1.0, 4.0), "clip": one_of(rng, 0.5, 1.0, 4.0),
                    "adjacency": adjacency(rng, spec)},
    }  # fmt: skip
    return merged(asked, sections)


def adjacency(rng: Random, spec: Spec) -> str:
    """Draw an adjacency, most often `one-sample`; agents that share their data have no samples of their own."""
    several = "one-round" if spec.shared else "one-agent"
    return str(one_of(rng, "one-sample", "one-sample", "one-sample", "one-round", several))


def some_loss(rng: Random, labels: bool) -> str:
    """Draw a built-in loss for labels or for real targets."""
    return str(one_of(rng, "logistic", "hinge") if labels else one_of(rng, "least-squares", "absolute"))


def odd(rng: Random) -> Json:
    """Draw a setting that changes what an older sample does to a message; most often none."""
    bandit = {"points": 2, "radius": one_of(rng, 1e-3, 0.1)}
    return one_of(rng, {}, {}, {}, {}, {"feedback": {"delay": 2}}, {"feedback": bandit}, {"problem": {"average": True}})


def part(folder: Path, name: str, text: str) -> Json:
    """Write a user's file; return the section of the experiment that names the file."""
    (folder / f"{name}.py").write_text(text)
    return {"path": str(folder / f"{name}.py")}


def algorithm(rng: Random, folder: Path) -> tuple[str, Json]:
    """Draw and write a user's algorithm; return its title and the sections that run it."""
    law = one_of(rng, *LAWS)
    title, text = templates.algorithm(rng, law)
    return title, {"algorithm": part(folder, "algorithm", text), "privacy": {"mechanism": law}}


def built_in_or_own(rng: Random, folder: Path) -> tuple[str, Json]:
    """Draw a built-in algorithm or a user's; return its title and the sections that run it."""
    if rng.random() < 0.5:
        return algorithm(rng, folder)
    name = one_of(rng, "dola", "dpps", "dola-minibatch")
    return name, {"algorithm": {"name": name}}


def built_in(rng: Random, folder: Path) -> Case:
    """Draw a built-in algorithm with odd settings: late feedback, faults, budgets, uneven shares, epochs, lattices."""
    name = one_of(rng, "dola", "dola-minibatch", "dpps", "dpsr", "weight-balancing", "dpsda-ps", "dpsda-c", "dpcda",
                  "huang-dp", "gossip-averaging", *ADMM)  # fmt: skip
    spec = Spec({"dpcda": 1}.get(name, 3), 16, 4 if name.startswith("dp") else 2, shared=name in
                ("dpsda-ps", "dpsda-c", "dpcda"), labels=name in ADMM or bool(rng.random() < 0.4))  # fmt: skip
    asked = base(rng, spec, algorithm={"name": name}, problem={"loss": some_loss(rng, spec.labels)})
    if name in (*ADMM, "huang-dp", "gossip-averaging"):
        adjacent = one_of(rng, "one-sample", "one-agent")
        asked |= {"rounds": 6, "data": {"batch": "all"}, "step": {}, "privacy": {"adjacency": adjacent}}
        asked["problem"] = {"loss": "squared-distance", "set": "none", "average": True}
        if name in ADMM:
            asked["problem"] = {"loss": "logistic", "weight": 8.0, "regularizer": 0.5}
            asked["algorithm"]["noise_rate"] = one_of(rng, 0.3, 3.0)
        return Case(f"{name}, {adjacent}", asked, spec)
    batch = one_of(rng, 1, 2)
    asked = merged(asked, {
        "data": {"batch": batch, "epochs": 4},
        "problem": {"regularizer": one_of(rng, 0.0, 0.1), "average": bool(rng.random() < 0.4)},
    }, one_of(rng, {}, {"feedback": {"delay": 2}}, {"noise": {"backend": "lattice"}} if name != "dpsda-c" else {},
              {"privacy": {"budget": {"epsilon": 2.0, "kept_by": "stopping"}}},
              {"faults": {"loss": 0.2}} if name in ("dola", "dpps") else {}))  # fmt: skip
    if name in ("dpsda-ps", "dpsda-c", "dpcda", "weight-balancing") and rng.random() < 0.4:
        asked["algorithm"]["gradient_at"] = "public"
    if name in ("dpsr", "weight-balancing"):
        asked["problem"]["set"], asked["topology"]["name"] = "none", "complete"
    if not spec.shared and rng.random() < 0.3:
        spec.shared, spec.rows = True, 48
        asked["data"] |= {"partition": "uneven", "sizes": [6, 14, 28], "epochs": 8}
    return Case(f"{name}, {asked['privacy']['adjacency']}, {asked['problem']['loss']}", asked, spec)


def bandit(rng: Random, folder: Path) -> Case:
    """Draw two-point feedback with large losses and small radii.

    Half of the time features are so tiny that the two values differ by about half of the last bit of a double: rounding
    then makes an estimate 0 or as large as the clip, and a small change of the point moves it by the clip.
    """
    name = one_of(rng, "dpps", "dpps", "dpps", "weight-balancing", "dpsda-ps", "dola", "dpsr")
    spec = Spec(2, 60, 2 if name == "dpsda-ps" else one_of(rng, 1, 1, 2), shared=name == "dpsda-ps")
    radius, loss = one_of(rng, 1e-3, 1e-2, 0.5), some_loss(rng, False)
    spec.big = one_of(rng, 1e2, 1e6, 1e8)
    if rng.random() < 0.5:
        spec.big, loss, radius = one_of(rng, 1e7, 1e8), "least-squares", one_of(rng, 1e-3, 1e-2)
        spec.tiny = float(rng.uniform(0.2, 0.8) * np.spacing(spec.big**2 / 2) / (2 * radius * spec.big))
    asked = base(
        rng, spec, algorithm={"name": name}, rounds=one_of(rng, 30, 60), data={"shuffle": False},
        problem={"loss": loss, "radius": 50.0}, privacy={"clip": one_of(rng, 1.0, 5.0)},
        feedback={"points": 2, "radius": radius, "decay": 0.0 if spec.tiny else one_of(rng, 0.0, 0.5)},
    )  # fmt: skip
    asked["step"] = {"kind": "constant", "value": one_of(rng, 0.005, 0.02)}
    if name in ("dpsr", "weight-balancing"):
        asked["problem"]["set"] = "none"
    return Case(f"{name}, bandit, {asked['privacy']['adjacency']}", asked, spec, early=0.8)


def stopping(rng: Random, folder: Path) -> Case:
    """Draw runs that end by a rule, in which agents send who moves still."""
    n = int(rng.integers(3, 8))
    spec, graph = Spec(n, 4, 1, big=1.0), one_of(rng, "ring", "path", "star", "complete")
    asked = base(
        rng, spec, rounds=int(rng.integers(6, 16)), topology={"name": graph}, data={"batch": "all"},
        algorithm={"name": "two-stage-gaussian", "gradient_rounds": int(rng.integers(1, 4)),
                   "calibration": one_of(rng, "exact", "theorem-1"), "stop": one_of(rng, 0.01, 0.2, 0.9)},
    )  # fmt: skip
    asked["step"], asked["problem"] = {}, {"loss": "squared-distance", "set": one_of(rng, "none", "ball")}
    asked["privacy"] = {"epsilon": 4.0, "delta": 1e-3, "adjacency": one_of(rng, "one-sample", "one-agent")}
    return Case(f"two-stage-gaussian, {graph} of {n}, stop {asked['algorithm']['stop']}", asked, spec)


def over_runs(rng: Random, folder: Path) -> Case:
    """Draw several runs on the same data, where the samples of one run's round may lie in several rounds of another."""
    batch, rounds = one_of(rng, 1, 2, 4, 8), int(rng.integers(4, 9))
    spec = Spec(2, batch * rounds * one_of(rng, 1, 2), one_of(rng, 1, 1, 2), shared=bool(rng.random() < 0.3))
    epochs = 8 if spec.shared else one_of(rng, 1, 8)
    asked = base(
        rng, spec, rounds=rounds, algorithm={"name": one_of(rng, "dola", "dola", "dpps", "dola-minibatch")},
        problem={"loss": "least-squares", "average": bool(rng.random() < 0.2), "radius": one_of(rng, 1.0, 1e6)},
        data={"batch": batch, "epochs": epochs, "shuffle": bool(rng.random() < 0.7)},
        privacy={"adjacency": one_of(rng, "one-round", "one-round", "one-round", "one-sample", "one-agent")},
    )  # fmt: skip
    if spec.shared:
        spec.rows *= 3
        asked["data"]["partition"] = one_of(rng, "even", "uneven")
    if rng.random() < 0.5:
        asked["data"]["seed"] = 5
    runs = one_of(rng, 1, 2)
    if runs == 1:
        asked["repeats"] = one_of(rng, 2, 3)
    elif rng.random() < 0.7:
        asked["data"]["identity"] = "the same file"
    title = f"{asked['algorithm']['name']}, {asked['privacy']['adjacency']}, {'runs' if runs > 1 else 'repeats'}"
    return Case(f"{title} of {batch} a round", asked, spec, runs=runs, early=0.9)


def own_algorithm(rng: Random, folder: Path) -> Case:
    """Draw a user's algorithm: gradients outside a small set, Gaussian noise with hidden parts, few coordinates."""
    law, kind = one_of(rng, *LAWS), one_of(rng, "momentum", "outside", "outside", "coordinates", "file")
    law = "laplace" if kind == "file" or (kind, law) == ("coordinates", "gamma-norm") else law
    file = one_of(rng, "extra.py", "diging.py", "push_sum_momentum.py")
    if kind == "file":
        title, text = file, (USER_FILES / file).read_text()
    elif kind == "coordinates":
        title, text = templates.coordinate(rng, law)
    else:
        title, text = templates.algorithm(rng, law, kind == "outside")
    spec = Spec(one_of(rng, 2, 3), 40, one_of(rng, 2, 4, 8) if kind == "coordinates" else one_of(rng, 1, 1, 2, 4))
    spec.big, spec.hot = 100.0, kind == "coordinates" and bool(rng.random() < 0.7)
    asked = base(
        rng, spec, rounds=int(rng.integers(8, 24)), algorithm=part(folder, "algorithm", text),
        data={"shuffle": False, "epochs": 2, "batch": one_of(rng, 1, 1, 2)}, privacy={"mechanism": law},
        problem={"loss": one_of(rng, "least-squares", "least-squares", "absolute"),
                 "radius": one_of(rng, 1.0, 50.0), "regularizer": one_of(rng, 0.0, 0.2)},
    )  # fmt: skip
    if rng.random() < 0.7:  # a step with which an older change lasts, and noise after which no gradient is clipped
        asked["step"] = {"kind": "constant", "value": one_of(rng, 0.1, 0.45)}
        asked["privacy"] |= {"clip": 4.0, "epsilon": 4.0}
    if kind in ("coordinates", "file"):
        asked["problem"]["set"] = "none"
    if kind == "outside":  # the set is so small that gradients differ little within it
        asked["problem"] |= {"loss": "least-squares", "radius": one_of(rng, 1e-3, 1e-2), "regularizer": 0.0}
    elif kind == "coordinates":
        asked["data"]["batch"], asked["privacy"]["adjacency"] = 1, "one-sample"
    else:
        asked = merged(asked, odd(rng))
    return Case(f"{title}, {kind}, {asked['privacy']['adjacency']}", asked, spec, early=0.9)


def streams(rng: Random, folder: Path) -> Case:
    """Draw a user's stream, with a built-in algorithm or a user's."""
    spec = Spec(2, one_of(rng, 14, 40), one_of(rng, 1, 2), bool(rng.random() < 0.4))
    loss = "logistic" if spec.labels else "least-squares"
    if rng.random() < 0.5:
        title, text = templates.labelled_stream(rng, spec.labels, loss)
        more = {"shuffle": False, "epochs": 4, "batch": one_of(rng, 1, 2)}
    else:
        title, text = templates.plain_stream(rng, spec.labels, loss, spec.d)
        more = {}
    name, chosen = built_in_or_own(rng, folder)
    asked = base(rng, spec, **chosen, data={**part(folder, "stream", text), **more}, problem={"loss": loss})
    asked = merged(asked, odd(rng))
    return Case(f"{title}, {name}, {asked['privacy']['adjacency']}", asked, spec, key="source")


def losses(rng: Random, folder: Path) -> Case:
    """Draw a user's loss, half of the time with noise inside a minimization (ADMM)."""
    kind = one_of(rng, "rank", "rank", *templates.LINEAR_LOSSES)
    title, text = templates.rank_loss(rng) if kind == "rank" else templates.linear_loss(rng, kind)
    solvable = kind in ("log-cosh", "labels") and "LinearLoss" not in title
    is_solved = kind == "rank" or (solvable and rng.random() < 0.5)
    spec = Spec(3, 24, one_of(rng, 1, 2, 4), kind == "labels", big=one_of(rng, 10.0, 1e3, 1e6))
    if is_solved:
        name = one_of(rng, *ADMM)
        asked = base(rng, spec, rounds=int(rng.integers(2, 6)), data={"batch": "all"},
                     algorithm={"name": name, "noise_rate": one_of(rng, 0.003, 0.03, 0.3)})  # fmt: skip
        asked["step"], asked["privacy"] = {}, {"adjacency": one_of(rng, "one-sample", "one-sample", "one-agent")}
        asked["problem"] = {"weight": one_of(rng, 1.0, 20.0), "regularizer": one_of(rng, 0.5, 2.0)}
    else:
        name, chosen = built_in_or_own(rng, folder)
        asked = merged(base(rng, spec, **chosen, data={"epochs": 2, "shuffle": False}), odd(rng))
    asked["problem"] |= part(folder, "loss", text)
    return Case(f"{title}, {name}, {asked['privacy']['adjacency']}", asked, spec)


def mnist(place: Path, images: Vector, labels: Vector) -> Path:
    """Write MNIST's four files: training images (m, 784) with their labels, and four of them as the test set."""
    place.mkdir(exist_ok=True)
    for name, rows in (("train", slice(None)), ("t10k", slice(0, 4))):
        some, classes = images[rows].astype(np.uint8), labels[rows].astype(np.uint8)
        head = np.array([2051, len(some), 28, 28], ">i4").tobytes()
        (place / f"{name}-images-idx3-ubyte").write_bytes(head + some.tobytes())
        head = np.array([2049, len(classes)], ">i4").tobytes()
        (place / f"{name}-labels-idx1-ubyte").write_bytes(head + classes.tobytes())
    return place


def rewritten(rng: Random, folder: Path, sets: int) -> Result:
    """Attack what two runs cost together whose files in data.dir are rewritten, or linked elsewhere, between them.

    The second run, of another seed, deals the file's rows in another order. The rewritten files put the rows that the
    first run used where the second run uses them, so that one sample costs both runs.
    """
    how = one_of(rng, "rewritten", "behind a link", "rewritten with the old times", "left alone")
    images, labels = rng.choice([0.0, 255.0], (60, 784), p=[0.1, 0.9]), rng.choice([6.0, 8.0], 60)
    rounds, link, same = int(rng.integers(2, 5)), folder / "data", np.arange(60)
    first = mnist(folder / "first", images, labels)
    if how == "behind a link":
        link.symlink_to(first)
    asked = {
        "algorithm": {"name": "dola"}, "topology": {"name": "complete", "agents": 2}, "rounds": rounds,
        "data": {"name": "mnist-6-8", "dir": str(link if link.exists() else first), "batch": 1, "train": 1.0},
        "problem": {"set": "box", "radius": 1e6, "regularizer": 0.0}, "step": {"kind": "inverse-sqrt"},
        "privacy": {"adjacency": "one-sample"}, "report": False, "record": {"transcript": True},
    }  # fmt: skip

    def used(setup: Any) -> list[int]:
        """Return the rows of the first files that the messages of a run carry."""
        shown: Any = [setup.stream.of(i)(t) for i in range(2) for t in range(1, rounds)]
        return [int(np.flatnonzero((images == np.round(255 * loss.features[0])).all(axis=1))[0]) for loss in shown]

    places, recorded, own, orders, mine = [], [], [], [same, same.copy()], []
    for k in range(2):
        if k == 1 and how != "left alone":
            theirs = used(build(msgspec.structs.replace(recorded[0].setup.experiment, seed=4)))
            order = orders[1]
            for row, place in zip(mine, theirs, strict=True):
                at = int(np.flatnonzero(order == row)[0])
                order[[at, place]] = order[[place, at]]
            times = [(path, path.stat()) for path in first.iterdir()]
            second = mnist(folder / "second" if link.exists() else first, images[order], labels[order])
            if link.exists():
                link.unlink()
                link.symlink_to(second)
            for path, old in times if "times" in how else []:
                os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))
        places.append(run(merged(asked, {"seed": 3 + k, "output": {"dir": str(folder / f"run-{k}")}}))[0])
        recorded.append(Recorded(places[k]))
        own.append([Replayed(recorded[k], i) for i in range(2)])
        mine = mine or used(recorded[0].setup)
    pure, _ = spent_together(places, 1e-5)
    if pure is None:
        return Result(f"mnist-6-8, {how}", "unproven")
    result = Result(f"mnist-6-8, {how}", "proven")
    for _ in range(sets):
        row, now, classes = int(rng.choice(mine)), images.copy(), labels.copy()
        now[row], classes[row] = now[row] if rng.random() < 0.5 else 255.0, 14 - labels[row]
        sums = []
        for k, order in enumerate(orders):
            there = mnist(folder / f"other-{k}", now[order], classes[order])
            setup = on_other_data(recorded[k].setup, "dir", str(there))
            sums += [realised(agent, setup, recorded[k]) for agent in own[k]]
        result.sets += 1
        loss, ratio, _ = np.sum(sums, axis=0)
        result.see(float(loss), pure, "both runs, sum of changes/scale")
        result.see(abs(float(ratio)), pure, "both runs, log-likelihood ratio")
    return result


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Put a folder on Python's path, and forget its modules before and afterwards."""
    bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    before = set(sys.modules)
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        sys.dont_write_bytecode = bytecode
        for name in set(sys.modules) - before:
            if name.startswith("helper_"):
                del sys.modules[name]


def keys(rng: Random, folder: Path, sets: int) -> Result:
    """Attack the noise of runs whose code differs: two transcripts with the same noise give the clean messages away."""
    how = one_of(rng, *templates.IMPORTED)
    text, files = templates.imported(how, f"helper_{rng.integers(10**9)}")
    asked = {
        "topology": {"name": "complete", "agents": 2}, "rounds": 4, "seed": int(rng.integers(1000)), "report": False,
        "record": {"transcript": True}, "algorithm": part(folder, "algorithm", text),
    }  # fmt: skip
    result, seen = Result(f"code from {how}", "proven"), []
    for k in range(1 + sets):
        beta = 0.5 + 0.125 * k
        for file, content in (files or {"algorithm.py": text}).items():
            (folder / file).parent.mkdir(exist_ok=True)
            (folder / file).write_text(content.replace("0.5", str(beta)) + "\n")
        with importable(folder):
            place, summary = run(merged(asked, {"output": {"dir": str(folder / f"run-{k}")}}))
            replay = Replayed(Recorded(place), 0)
        if summary.privacy.network.proven is None:
            return Result(result.title, "unproven")
        noise = [(replay.said(t) - vectors(replay.messages[t - 1])[0]) / replay.scale[t - 1] for t in (2, 3)]
        for other_beta, other in seen:
            result.sets += 1
            shared = np.allclose(noise, other, rtol=1e-6) and not summary.privacy.shares_noise_with
            result.see(2.0 * shared, 1.0, f"momenta {other_beta} and {beta} share their noise, and no word says so")
        seen.append((beta, noise))
    return result
