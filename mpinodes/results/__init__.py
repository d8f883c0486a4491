"""What a run leaves: record, metrics, summary, report."""
