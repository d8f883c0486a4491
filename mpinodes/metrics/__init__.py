"""What is told of a run: built-in metrics, and those that `record.metrics` names, one file each."""
