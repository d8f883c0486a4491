"""Compute the privacy loss of runs: the ε that the paper claims and the ε that is proven."""
