"""Read finished runs: their results, tables of many runs, and the privacy loss of publishing several runs together."""
