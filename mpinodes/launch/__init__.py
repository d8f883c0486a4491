"""Parse command lines, start MPI and processes, handle signals, and end processes."""
