"""Compute the privacy loss of runs: the ε that a paper claims for its algorithm, and the ε that is proven."""
