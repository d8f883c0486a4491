"""How often audits raise an alarm: of sound runs, and of noise with a fault planted: python scripts/bench/audits.py.

Every audit is the whole command in this process, on a small run and with a seed of its own. A sound one may raise an
alarm once in a thousand times; of a fault, the rows that find it are printed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import tempfile
import time
from pathlib import Path

from mpinodes import audit

SMALL = ["topology.agents=3", "rounds=12"]
VECTORS = ["data.total=120", "data.dimension=4"]
SOUND = {
    "dola": ["algorithm.name=dola", "topology.name=ring", *VECTORS],
    "dpps, on a lattice": ["algorithm.name=dpps", "data.name=unit-ball", "noise.backend=lattice", *VECTORS],
    "two-stage-gaussian": [
        "algorithm.name=two-stage-gaussian", "algorithm.gradient_rounds=8", "data.points=4", "data.dimension=4",
    ],
    "pp-admm": ["algorithm.name=pp-admm", "data.total=60", "data.dimension=4", "problem.weight=10"],
    "pvp-admm": ["algorithm.name=pvp-admm", "data.total=60", "data.dimension=4", "problem.weight=10"],
}  # fmt: skip

MECHANISM = """
from dataclasses import dataclass
import numpy as np
from mpinodes.core import Event, Kind, Mechanism
from mpinodes.core.seeds import Draws, Purpose
__all__ = ["Planted"]

@dataclass(frozen=True)
class Planted(Mechanism):
    def release(self, query, t, noise, out):
        calibration = query.l1 if query.calibration is None else query.calibration
        scale = (calibration if self.constant is None else self.constant) / self.epsilon
        draws, i, d = noise.at(t), noise.agent, len(out)
        e = draws.laplace(0.0, 1.0, d)
        {fault}
        np.add(query.value, scale * e, out=out)
        return Event.of(query, Kind.LAPLACE, scale)
"""
SHARED = "other = Draws(1, Purpose.NOISE, 0).at({t}).laplace(0, 1, d); "
FAULTS = {
    "none": "pass",
    "a round without noise": "e *= t != 7",
    "0.95 of the noise": "e *= 0.95",
    "a common stream under a fifth of the coordinates": SHARED.format(t="t")
    + "e[:max(1, d // 5)] = other[:max(1, d // 5)]",
    "a period of 50 rounds": "e = noise.at((t - 1) % 50 + 1).laplace(0.0, 1.0, d)",
    "no noise for one agent's first coordinate in one round": "e[0] *= not (t == 5 and i == 1)",
    "0.8 of the noise in every third round": "e *= 0.8 if t % 3 == 0 else 1",
    "0.9 of the noise in the last coordinate": "e[-1] *= 0.9",
    "0.8 of the noise of an agent from round 6 on": "e *= 0.8 if i == 2 and t > 5 else 1",
    "a stream shared three rounds later, turned": SHARED.format(t="t + 3 * i") + "e = other if i % 2 else -other",
    "a stream shared in another order": SHARED.format(t="t") + "e = np.roll(other, i)",
    "a common part": SHARED.format(t="t") + "e = np.where(draws.random(d) < 0.1, other, e)",
    "16-bit seeds": "e = np.random.default_rng(int(draws.integers(2**16))).laplace(0, 1, d)",
    "few values": "e = np.round(e * 64) / 64",
    "single precision": "e = e.astype(np.float32).astype(float)",
    "no key": "e = np.random.default_rng((i, t)).laplace(0, 1, d)",
    "Gaussian": "e = draws.normal(0, np.sqrt(np.pi / 2), d)",
    "truncated": "e = np.clip(e, -6, 6)",
    "uniform": "e = draws.uniform(-2, 2, d)",
    "one sign": "e = np.abs(e)",
    "the sign of the value": "e = np.where(draws.random(d) < 0.1, np.copysign(e, query.value), e)",
}


def audited(words: list[str], seed: int) -> tuple[int, list[str]]:
    """The exit code of an audit, and the rows that refute."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        code = audit.main([*words, f"seed={seed}"])
    lines = printed.getvalue().splitlines()
    found = [k for k, line in enumerate(lines) if "REFUTES THE PROVEN VALUE" in line]
    return code, [_row(lines, k) for k in found] if code in (0, 1) else lines


def _row(lines: list[str], k: int) -> str:
    """What was looked at, and what failed."""
    name = next(line for line in reversed(lines[: k + 1]) if line[:3].strip())
    return f"{name.strip().split(':')[0]} ({lines[k].strip().removeprefix('REFUTES THE PROVEN VALUE: ')})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sound", type=int, default=200, help="audits of sound runs, of each experiment in turn (200)")
    parser.add_argument("--faults", type=int, default=len(FAULTS), help="the first so many (all)")
    parser.add_argument("--pairs", type=int, default=100, help="of runs, of each probe (100)")
    given = parser.parse_args()
    audit.PAIRS = given.pairs
    alarms, began = 0, time.perf_counter()
    for seed in range(given.sound):
        name = list(SOUND)[seed % len(SOUND)]
        code, rows = audited([*SOUND[name], *SMALL], seed)
        if code:
            alarms += 1
            print(f"{name}, seed {seed}: exit {code}: {'; '.join(rows)}", flush=True)
    seconds = (time.perf_counter() - began) / max(1, given.sound)
    print(f"sound: {alarms} alarms in {given.sound} audits, {seconds:.1f} s each", flush=True)
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, fault in list(FAULTS.items())[: given.faults]:
            path = Path(folder) / f"planted_{len(name)}.py"
            path.write_text(MECHANISM.format(fault=fault))
            code, rows = audited([*SOUND["dola"], *SMALL, f"privacy.path={path}"], 0)
            missed += (code == 1) != (name != "none")
            print(f"{name}: {'found' if code == 1 else f'exit {code}'}: {'; '.join(rows)[:300]}", flush=True)
    print(f"faults: {missed} missed")


if __name__ == "__main__":
    main()
