"""Run an experiment: set up, compute and log the rounds, then evaluate, account for privacy and write the summary."""
