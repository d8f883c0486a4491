"""One file per stream of losses, found by its name (`data.name`)."""
