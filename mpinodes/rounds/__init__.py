"""The rounds: a step, run in one process or exchanged over MPI."""
