"""A run in words, figures and a page."""
