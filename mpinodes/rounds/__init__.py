"""Run the rounds: the step of one agent, all agents in one process (lockstep), or one agent per MPI rank."""
