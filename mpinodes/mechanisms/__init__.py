"""One file per mechanism, found by its name."""
