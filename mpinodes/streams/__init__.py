"""Hold the streams of losses, one file each. Experiments find a stream by its name (`data.name`)."""
