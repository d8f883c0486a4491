"""A run from words to its summary."""
