"""Read finished runs: their results, a table of many runs, and the privacy loss of publishing them together."""
