"""Run the rounds of an experiment.

- `step` computes the rounds of one agent.
- `lockstep` runs all agents in one process.
- `agent` runs the agent of one MPI rank; `network` and `waiting` exchange messages over MPI.
"""
