"""Losses of decisions, comparators, regret, and the account of a run."""
