"""Evaluate a run: compute the losses of its decisions, its regret, and its privacy loss."""
