"""Finished runs: one result, tables of many, and what they cost together."""
