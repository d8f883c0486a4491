"""Evaluate a run: the losses of its decisions, its comparators and regret, and its privacy accounting."""
