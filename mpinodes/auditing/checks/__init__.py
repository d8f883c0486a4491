"""Test the statements of a part. A test may show that a statement is false, but proves no statement."""
