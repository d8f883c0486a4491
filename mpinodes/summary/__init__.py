"""What summary.json holds, and how repeats combine."""
