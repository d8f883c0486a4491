"""One file per loss, found by its name."""
