"""Measure how well a study predicts its remaining time.

    python -m tests.helpers.time_left [--only NAME] [key=value]...

The script does ten studies of different kinds. After the first tenth of the runs of a study it notes the predicted
time left, and at the end of the study it compares the prediction with the time that the other runs really took.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from mpinodes.studies import sweeping
from mpinodes.studies.forecast import Forecast, Timed
from mpinodes.studies.pools import cores, processes
from mpinodes.studies.study import Study

sys.path.append(str(Path(__file__).parents[2] / "scripts" / "bench"))
from study import documented

SMALL = ("topology.agents=4", "rounds=60")
STUDIES: dict[str, tuple[Any, ...]] = {
    "docs/studies.md, one seed": (documented(), "study.seeds=1"),
    "docs/studies.md, three seeds, 50 rounds": (documented(), "study.seeds=3", "rounds=50"),
    "seeds of one setting": (*SMALL, "algorithm.name=dola", "study.seeds=60"),
    "rounds": ("topology.agents=4", "algorithm.name=dpps", "rounds=1600,50,100,800,200,400", "study.seeds=6"),
    "agents": ("rounds=50", "algorithm.name=dola", "topology.agents=3,5,9,17,33", "study.seeds=6"),
    "algorithms": ("rounds=60", "algorithm.name=dola,dpps,dpsr,weight-balancing,dpsda-c,dp-dsgd", "study.seeds=6"),
    "dimensions": (*SMALL, "algorithm.name=dola", "data.dimension=5,50,500", "study.seeds=12"),
    "batches": ("topology.agents=4", "algorithm.name=dp-dsgd", "rounds=100", "data.batch=1,10,50", "study.seeds=12"),
    "late links": (*SMALL, "algorithm.name=dola", "faults.delay=0,2,5", "faults.loss=0,0.2", "study.seeds=6"),
    "graphs": (
        "rounds=60", "algorithm.name=dpps", "topology.agents=8", "topology.name=ring,complete,hypercube,random-digraph",
        "privacy.budget.epsilon=1,4", "study.seeds=5",
    ),
}  # fmt: skip


class Noted(Forecast):
    """Predict as a study does, and note the prediction after the first tenth of the runs.

    Attributes:
        noted: the predicted seconds, and the time of the prediction.
    """

    noted: tuple[float, float]

    def done(self, k: int, outcome: Timed | None) -> None:
        """Take into account that run k is done."""
        super().done(k, outcome)
        if len(self._left) == len(self._kinds) * 9 // 10:
            Noted.noted = self.left() or 0.0, time.perf_counter()


def main() -> int:
    """Do the studies, print a line for each, and return 1 if the median error is above a third."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=cores(), help="the number of worker processes")
    parser.add_argument("--only", help="one study, by name")
    parser.add_argument("words", nargs="*", help="further settings of the studies")
    asked = parser.parse_intermixed_args()
    setattr(sweeping, "Forecast", Noted)  # noqa: B010
    errors = []
    for name, words in STUDIES.items():
        if asked.only in (None, name):
            with tempfile.TemporaryDirectory() as folder, processes(asked.workers) as pool:
                study = Study.of([*words, *asked.words, f"output.dir={folder}/study"])
                swept = sweeping.sweep(study, pool, pool)
                predicted, at = Noted.noted
                took = time.perf_counter() - at
            errors.append(abs(predicted - took) / took)
            runs = f"{len(swept.plans)} runs, {len(swept.failed)} failed"
            print(f"{name}: {runs}: predicted {predicted:.1f} s, took {took:.1f} s, error {errors[-1]:.0%}", flush=True)
    print(f"median error {statistics.median(errors):.0%}")
    return int(statistics.median(errors) > 1 / 3)


if __name__ == "__main__":
    sys.exit(main())
