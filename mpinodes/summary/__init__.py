"""Define the contents of summary.json, and the rules that merge the summaries of repeats."""
