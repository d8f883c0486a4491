"""Run the rounds of a run.

`step` computes the rounds of one agent. `lockstep` runs all agents in one process, and `agent` runs one agent in each
MPI rank. `network` and `waiting` exchange messages over MPI.
"""
