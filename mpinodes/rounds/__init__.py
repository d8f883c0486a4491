"""Run the rounds of an experiment.

- `step` computes the rounds of one agent.
- `lockstep` runs all agents in one process.
- `agent` runs one agent in each MPI rank; `network` and `waiting` exchange messages over MPI.
"""
