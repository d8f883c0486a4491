"""Start processes, handle signals, and stop."""
