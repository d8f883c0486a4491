"""Finished runs: one result, a table of many runs, and the privacy loss of publishing several runs."""
