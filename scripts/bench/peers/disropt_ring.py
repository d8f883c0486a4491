"""disropt's distributed subgradient method on a ring, through its public interface: mpirun -n 7 python disropt_ring.py.

Run by a Python that has disropt (GPL, Farina et al. 2019), which is no part of mpinodes and is not imported by it. Its
problem is DOLA's of the same graph, dimension, weights and steps in the form that is cheapest for disropt: hinge loss
on one sample for each agent, the same in all rounds; no regularizer (its SquaredNorm alone takes 8 ms a subgradient at
d = 784, the hinge 0.4), no noise, no projection, no losses evaluated, nothing recorded. With --consensus the gradient
is left out too. Rank 0 prints one line of JSON: seconds and CPU seconds of all ranks, for the rounds alone.
"""

from __future__ import annotations

import os

for _library in ("OPENBLAS", "OMP", "MKL"):
    os.environ[f"{_library}_NUM_THREADS"] = "1"

import argparse
import json
import time

import numpy as np
from disropt.agents import Agent
from disropt.algorithms.consensus import Consensus
from disropt.algorithms.subgradient import SubgradientMethod
from disropt.functions import Max, Variable
from disropt.problems import Problem
from mpi4py import MPI

STRENGTH = 0.01


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dimension", type=int, default=784)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--consensus", action="store_true")
    given = parser.parse_args()
    world = MPI.COMM_WORLD
    n, me, d = world.size, world.rank, given.dimension
    neighbors = sorted({(me - 1) % n, (me + 1) % n} - {me})
    agent = Agent(in_neighbors=neighbors, out_neighbors=neighbors, in_weights=dict.fromkeys(neighbors, 1 / 3))
    rng = np.random.default_rng(me)
    x0 = rng.standard_normal((d, 1))
    if given.consensus:
        algorithm, words = Consensus(agent, x0), {}
    else:
        sample = rng.standard_normal((d, 1))
        sample /= np.linalg.norm(sample)
        agent.set_problem(Problem(Max(-sample @ Variable(d) + np.ones((1, 1)), 0.0)))
        algorithm, words = SubgradientMethod(agent, x0), {"stepsize": lambda k: 1 / (STRENGTH * (k + 1))}
    algorithm.run(iterations=3, **words)
    world.Barrier()
    begun, spent = time.perf_counter(), time.process_time()
    algorithm.run(iterations=given.rounds, **words)
    spent = time.process_time() - spent
    seconds = world.allreduce(time.perf_counter() - begun, MPI.MAX)
    cpu = world.allreduce(spent)
    if me == 0:
        print(json.dumps({"seconds": seconds, "cpu": cpu, "last": float(np.linalg.norm(algorithm.get_result()))}))


if __name__ == "__main__":
    main()
