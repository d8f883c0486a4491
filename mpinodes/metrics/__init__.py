"""Define the metrics of a run: built-in metrics, and one file for each metric that `record.metrics` can name."""
