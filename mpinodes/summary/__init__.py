"""Define the content of summary.json, and merge the summaries of repeats into one summary."""
