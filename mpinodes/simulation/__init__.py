"""The rounds: one step of an agent, over MPI or in lockstep."""
